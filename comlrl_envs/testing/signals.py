"""Rewards, endings and infos of every step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from comlrl_envs.env import TextEnv, Transition
from comlrl_envs.testing import play
from comlrl_envs.testing.subject import Subject, expect

_CHOOSERS = (play.empty, play.echo, play.random, play.hostile, play.oracle)
COUNTS = ("turn", "active", "scored", "cut", "replaced")


def _transitions(env: TextEnv) -> Iterator[Transition]:
    for seed, choose in enumerate(_CHOOSERS):
        env.reset(seed=seed)
        while env.agents:
            yield env.step(choose(env.game, env.episode))


def check_rewards(subject: Subject) -> None:
    """All agents get the same plain float within ``reward_range``, and the terms sum to it."""
    env = subject.env()
    low, high = env.game.reward_range
    agents = set(env.possible_agents)
    for _, rewards, _, _, infos in _transitions(env):
        where = f"Task {env.episode.task_id!r}, turn {env.episode.turn}"
        expect(set(rewards) == agents, f"{where}: rewards name {sorted(rewards)}.", "Reward every agent at each step.")
        kinds = sorted({type(reward).__name__ for reward in rewards.values()})
        expect(kinds == ["float"], f"{where}: rewards are {kinds}; expected float.", "Convert with float().")
        values = set(rewards.values())
        expect(len(values) == 1, f"{where}: rewards differ, {rewards}.", "Give the team one reward.")
        reward = values.pop()
        expect(low <= reward <= high, f"{where}: reward {reward} is outside [{low}, {high}].", "Mend reward_range.")
        for agent, info in infos.items():
            total = sum(info[f"term/{name}"] for name in env.game.term_names)
            told = f"{where}: the terms of {agent!r}, clip included, sum to {total}, the reward is {reward}."
            expect(math.isclose(total, reward, rel_tol=1e-9, abs_tol=1e-9), told, "Declare every part as a term.")


def check_endings(subject: Subject) -> None:
    """Agents leave together, by termination within ``max_turns``; only an outer limit truncates."""
    env = subject.env()
    mend = "Let Step.done, stop_reward and max_turns end the episode; TextEnv does the rest."
    for _, _, terminations, truncations, _ in _transitions(env):
        turn = env.episode.turn
        expect(set(terminations) == set(truncations) == set(env.possible_agents), "An agent has no ending flag.", mend)
        expect(len(set(terminations.values())) == 1, f"Turn {turn}: only some agents terminated.", mend)
        expect(not any(truncations.values()), f"Turn {turn}: truncated without an outer limit.", mend)
        over = all(terminations.values())
        expect(over == (not env.agents), f"Turn {turn}: terminated is {over} with agents {env.agents}.", mend)
        expect(over or turn < env.game.max_turns, f"Turn {turn} of {env.game.max_turns} and no end.", mend)
    env.max_cycles = 1
    env.reset(seed=0)
    _, _, terminations, truncations, _ = env.step(play.empty(env.game, env.episode))
    cut = all(truncations.values()) != all(terminations.values()) and not env.agents
    expect(cut, "max_cycles=1 did not truncate the episode after one step.", mend)


def check_infos(subject: Subject) -> None:
    """Infos are finite numbers under keys that are there from reset on, before the first score as zeros."""
    env = subject.env()
    game = env.game
    floats = {f"term/{name}" for name in game.term_names} | {f"metric/{name}" for name in game.metric_names}
    floats |= {f"agent_metric/{name}" for name in game.agent_metric_names}
    for seed, choose in enumerate(_CHOOSERS):
        _, infos = env.reset(seed=seed)
        _check_infos(infos, env, floats)
        for agent, info in infos.items():
            early = {key: info[key] for key in (*sorted(floats), "turn", "scored") if info[key]}
            expect(not early, f"After reset the infos of {agent!r} hold {early}.", "Nothing is scored before a step.")
        while env.agents:
            infos = env.step(choose(game, env.episode))[4]
            _check_infos(infos, env, floats)


def _check_infos(infos: Mapping[str, Mapping[str, Any]], env: TextEnv, floats: set[str]) -> None:
    where = f"Task {env.episode.task_id!r}, turn {env.episode.turn}"
    expect(set(infos) == set(env.possible_agents), f"{where}: infos name {sorted(infos)}.", "Inform every agent.")
    for agent, info in infos.items():
        numbers = {key: value for key, value in info.items() if not key.startswith("text/")}
        odd = sorted(set(numbers) ^ (floats | set(COUNTS)))
        expect(not odd, f"{where}: the infos of {agent!r} have or lack {odd}.", "Declare terms and metrics; give all.")
        bad = {
            key: value
            for key, value in numbers.items()
            if type(value) is not (int if key in COUNTS else float) or not math.isfinite(value)
        }
        expect(not bad, f"{where}: infos of {agent!r} are no finite plain numbers: {bad}.", "Convert with float().")
        # Evaluations report the rate of it.
        success = info.get("metric/success", 0.0)
        expect(
            success in (0.0, 1.0), f"{where}: metric/success is {success}.", "It is 1.0 or 0.0; rename other numbers."
        )
