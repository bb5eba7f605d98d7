"""An episode for human eyes: what each agent was shown and said, and what it earned. Never gold."""

from __future__ import annotations

import html
from collections.abc import Iterator

from comlrl_envs.game import Episode, TextGame

RENDER_MODES = ("ansi", "html")

_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;background:#f6f6f4;padding:.6rem;border-radius:4px}"
)


def render(game: TextGame, episode: Episode, mode: str) -> str:
    """The transcript as plain text (``"ansi"``) or as a page of its own (``"html"``)."""
    if mode == "ansi":
        return "\n".join(f"{'=' * level} {title} {'=' * level}\n{body}" for level, title, body in _parts(game, episode))
    blocks = "".join(
        f"<h{4 - level}>{html.escape(title)}</h{4 - level}>\n" + (f"<pre>{html.escape(body)}</pre>\n" if body else "")
        for level, title, body in _parts(game, episode)
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(episode.task_id)}</title>'
        f"<style>{_STYLE}</style></head><body>\n{blocks}</body></html>\n"
    )


def _parts(game: TextGame, episode: Episode) -> Iterator[tuple[int, str, str]]:
    """Level (3 outermost), title and body of each part, in order."""
    yield 3, f"Task {episode.task_id}, seed {episode.seed}", ""
    for agent, brief in zip(game.agents, episode.briefs, strict=True):
        yield 1, f"{agent}: brief", brief
    for turn, reward in enumerate(episode.rewards):
        yield 2, f"Turn {turn + 1}, reward {reward:.4g}", ""
        for agent, past in zip(game.agents, episode.past, strict=True):
            if past[turn].news:
                yield 1, f"{agent} is shown", past[turn].news
            reply = past[turn].reply
            yield 1, f"{agent} says", "(not its turn)" if reply is None else reply
    yield 2, "The episode is over" if episode.done else f"Turn {episode.turn + 1}", ""
    for agent, news in zip(game.agents, episode.news, strict=True):
        if news:
            yield 1, f"{agent} is shown", news
