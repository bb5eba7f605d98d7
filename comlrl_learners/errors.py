"""What can go wrong while learning, one class a cause; every message names the remedy."""

from comlrl_envs.errors import ComlrlError


class ConfigError(ComlrlError):
    """A setting, or a combination of settings, that cannot work."""


class PolicyError(ComlrlError):
    """A policy that cannot be loaded, or that a team cannot use."""


class ForeignEnvError(ComlrlError):
    """An environment of another project that breaks the contract of text games."""


class NonFiniteError(ComlrlError):
    """A loss or a reward that is NaN or infinite; the message names agent, turn and task."""
