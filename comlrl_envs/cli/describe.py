"""`comlrl-envs describe`."""

from __future__ import annotations

import sys

from comlrl_envs.description import describe, to_markdown


def command(id: str, markdown: bool = False) -> int:
    """Show an environment's rules, keyword arguments, data and an example episode.

    Args:
        id: The environment, such as `writing/length_ratio`.
        markdown: Write Markdown instead of a page for the terminal.
    """
    found = describe(id)
    page = f"# {found.id}\n\n{to_markdown(found)}"
    if markdown:
        sys.stdout.write(page)
        return 0
    from rich.console import Console
    from rich.markdown import Markdown

    Console(file=sys.stdout).print(Markdown(page))
    return 0
