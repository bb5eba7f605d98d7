"""Plays whole episodes of question answering, for tests."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from comlrl_envs.game import Episode, TextGame
from comlrl_envs.policies.protocol import EpisodePolicy
from comlrl_envs.qa.forms import read_file
from comlrl_envs.qa.rows import parse
from comlrl_envs.qa.scripted import ScriptedPolicy
from comlrl_envs.seeding import rng
from comlrl_envs.tasks import Task

Chooser = Callable[[TextGame, Episode], Mapping[str, str]]

FILES = {
    "hotpotqa": "hotpotqa/hipporag_hotpotqa_train_100.json",
    "musique": "musique/hipporag_musique_train_100.json",
    "2wikimultihopqa": "2wikimultihopqa/lag_2wiki_dev_354_support_in_corpus.json",
}
CORPUS = "2wikimultihopqa/2wikimultihopqa_corpus.json"


def real_tasks(data_dir: Path, name: str, scorer: str) -> list[Task]:
    """All records of a set's file."""
    records = read_file(data_dir / FILES[name], data_dir / CORPUS if name == "2wikimultihopqa" else None)
    rows = (parse({**record.row(), "scorer": scorer}) for record in records)
    return [Task(f"{name}-{place}", row) for place, row in enumerate(rows)]


def tasks_of(rows: Iterable[Mapping[str, Any]]) -> list[Task]:
    """Tasks of rows with ids."""
    return [Task(row["id"], row) for row in rows]


def oracle(game: TextGame, episode: Episode) -> Mapping[str, str]:
    """The gold joint action."""
    gold = game.oracle(episode)
    assert gold is not None
    return gold


def blanked(*agents: str) -> Chooser:
    """The gold joint action without what these agents tell their teammates."""

    def choose(game: TextGame, episode: Episode) -> Mapping[str, str]:
        gold = oracle(game, episode)
        return {name: game.scenario.blank(text) if name in agents else text for name, text in gold.items()}

    return choose


def scripted(name: str) -> Chooser:
    """The policy ``qa:NAME`` for all agents."""
    policy: EpisodePolicy = ScriptedPolicy(name)

    def choose(game: TextGame, episode: Episode) -> Mapping[str, str]:
        acting = game.acting(episode)
        return {agent: str(policy.act_episodes(game, [episode], agent, rng(0))[0]) for agent in acting}

    return choose


def always(text: str) -> Chooser:
    """The same reply of everybody."""
    return lambda game, episode: dict.fromkeys(game.acting(episode), text)


def play(game: TextGame, tasks: Sequence[Task], choose: Chooser, seed: int = 0) -> list[Episode]:
    """One episode a task, to its end."""
    episodes = game.start_many(tasks, [seed] * len(tasks))
    while live := [episode for episode in episodes if not episode.done]:
        stepped = iter(game.step_many([(episode, choose(game, episode)) for episode in live]))
        episodes = [episode if episode.done else next(stepped) for episode in episodes]
    return episodes


def mean_reward(episodes: Sequence[Episode]) -> float:
    """Of their last turns."""
    return sum(episode.reward for episode in episodes) / len(episodes)


def mean_metric(episodes: Sequence[Episode], name: str) -> float:
    """Of their last turns."""
    scores = [episode.score for episode in episodes]
    assert all(score is not None for score in scores)
    return sum(score.metrics[name] for score in scores if score is not None) / len(episodes)
