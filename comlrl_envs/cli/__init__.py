"""`comlrl-envs COMMAND`: the command line of the environments, one module a command."""

from comlrl_envs.cli.command_line import main

__all__ = ["main"]
