"""The numbers that go with each observation, under keys that never change within an environment."""

from __future__ import annotations

from typing import Any

from comlrl_envs.game import Episode, TextGame


class InfoWriter:
    """Writes ``infos`` of an episode.

    Args:
        game: Declares the names.
        texts: Whether ``text/news`` and ``text/reply`` are added.
    """

    def __init__(self, game: TextGame, texts: bool) -> None:
        self._game = game
        self._texts = texts
        self._terms = [(f"term/{name}", name) for name in game.term_names]
        self._metrics = [(f"metric/{name}", name) for name in game.metric_names]
        self._agent_metrics = [(f"agent_metric/{name}", name) for name in game.agent_metric_names]
        self._empty = {key: 0.0 for key, _ in self._terms + self._metrics}
        self._empty_own = {key: 0.0 for key, _ in self._agent_metrics}

    def write(self, episode: Episode) -> dict[str, dict[str, Any]]:
        """Per agent, its infos: floats, but for the integers ``turn, active, scored, cut, replaced``."""
        game, score = self._game, episode.score
        acting = game.acting(episode)
        shared: dict[str, Any] = {}
        if score is None:
            shared = dict(self._empty)
        else:
            for key, name in self._terms:
                shared[key] = float(score.terms[name])
            for key, name in self._metrics:
                shared[key] = float(score.metrics[name])
        shared["turn"] = episode.turn
        shared["scored"] = int(score is not None)
        infos: dict[str, dict[str, Any]] = {}
        for agent, past, news in zip(game.agents, episode.past, episode.news, strict=True):
            info = dict(shared)
            if score is None:
                info.update(self._empty_own)
            else:
                for key, name in self._agent_metrics:
                    info[key] = float(score.agent_metrics[name][agent])
            info["active"] = int(agent in acting)
            _, reply, info["cut"], info["replaced"] = past[-1] if past else ("", None, 0, 0)
            if self._texts:
                info["text/news"] = news
                info["text/reply"] = reply or ""
            infos[agent] = info
        return infos
