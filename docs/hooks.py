"""Writes what an environment says of itself into the documentation.

A line ``<!-- environment: ID -->`` of a page becomes the facts about that id, ``<!-- environments -->`` a table of all.
"""

from __future__ import annotations

import re
from typing import Any

from comlrl_envs.description import describe, to_markdown
from comlrl_envs.registry import spec

ONE = re.compile(r"^<!-- environment: (\S+) -->$", re.MULTILINE)
ALL = re.compile(r"^<!-- environments -->$", re.MULTILINE)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """MkDocs calls it with the text of each page."""
    return expand(markdown, pages_by_name(files))


def expand(markdown: str, pages: dict[str, str]) -> str:
    """``markdown`` with its marks replaced.

    Args:
        markdown: Text of a page.
        pages: Ids without version to the path of their page, relative to this one.
    """
    markdown = ONE.sub(lambda mark: to_markdown(describe(mark[1])), markdown)
    return ALL.sub(lambda mark: table(pages), markdown)


def pages_by_name(files: Any) -> dict[str, str]:
    """The page of each environment, by its id without version."""
    found: dict[str, str] = {}
    for file in files.documentation_pages():
        if file.src_uri.startswith("environments/"):
            for mark in ONE.finditer(file.content_string):
                found[spec(mark[1]).name] = file.src_uri.removeprefix("environments/")
    return found


def table(pages: dict[str, str]) -> str:
    """One line an environment: id, agents, turns, reward, what it is about."""
    lines = ["| id | agents | turns | reward | what |", "| --- | --- | --- | --- | --- |"]
    for name in sorted(pages):
        known = describe(name)
        about = known.text.strip().partition("\n")[0]
        low, high = known.reward_range
        agents = ", ".join(known.agents)
        lines.append(f"| [`{name}`]({pages[name]}) | {agents} | {known.max_turns} | {low:g} to {high:g} | {about} |")
    return "\n".join(lines)
