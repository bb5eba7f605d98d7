"""SuperSuit's wrappers that apply to texts."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from comlrl_envs.testing import play
from comlrl_envs.testing.subject import Subject, expect

_MEND = "Keep the spaces of comlrl_envs.spaces, one object an agent."


def check_supersuit(subject: Subject) -> str | None:
    """Its lambda wrappers and vector wrappers run, where it is installed."""
    if importlib.util.find_spec("supersuit") is None:
        return "supersuit is not installed"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        supersuit: Any = importlib.import_module("supersuit")
        _lambdas(subject, supersuit)
        _vectors(subject, supersuit)
    return None


def _lambdas(subject: Subject, supersuit: Any) -> None:
    """Each alone: stacked reward wrappers of SuperSuit lose all but the first."""

    def same(value: Any) -> Any:
        return value

    _compare(subject, supersuit.reward_lambda_v0(subject.env(), _doubled), same, same, _doubled)
    _compare(subject, supersuit.clip_reward_v0(subject.env(), -0.25, 0.25), same, same, _clipped)
    observing = supersuit.observation_lambda_v0(subject.env(), lambda text, space: _loud(text), lambda space: space)
    _compare(subject, observing, same, _loud, same)
    acting = supersuit.action_lambda_v1(subject.env(), lambda text, space: _short(text), lambda space: space)
    _compare(subject, acting, _short, same, same)


def _doubled(reward: float) -> float:
    return reward * 2.0


def _clipped(reward: float) -> float:
    return max(min(reward, 0.25), -0.25)


def _loud(text: str) -> str:
    return f"{text}!"


def _short(text: str) -> str:
    return text[:5]


def _compare(
    subject: Subject,
    wrapped: Any,
    act: Callable[[str], str],
    show: Callable[[str], str],
    pay: Callable[[float], float],
) -> None:
    """Play the wrapped and the plain environment side by side."""
    plain = subject.env()
    told = [wrapped.reset(seed=0)[0], plain.reset(seed=0)[0]]
    while plain.agents:
        _equal(told[0], told[1], show, "observations")
        replies = play.random(plain.game, plain.episode)
        everyone = {**dict.fromkeys(plain.agents, ""), **replies}
        told[0], paid, *_ = wrapped.step(everyone)
        told[1], earned, *_ = plain.step({agent: act(text) for agent, text in replies.items()})
        _equal(paid, earned, pay, "rewards")


def _equal(seen: Mapping[str, Any], plain: Mapping[str, Any], change: Callable[[Any], Any], what: str) -> None:
    expected = {agent: change(value) for agent, value in plain.items()}
    expect(dict(seen) == expected, f"The {what} through a wrapper are {dict(seen)}; expected {expected}.", _MEND)


def _vectors(subject: Subject, supersuit: Any) -> None:
    env = subject.env()
    if len({repr(env.action_space(agent)) for agent in env.possible_agents}) > 1:
        # They hold agents of unequal spaces for an error of the caller's.
        return
    many = supersuit.concat_vec_envs_v1(supersuit.pettingzoo_env_to_vec_env_v1(env), 2, num_cpus=0)
    count = 2 * len(env.possible_agents)
    observations = many.reset(seed=0)[0]
    expect(len(observations) == count and isinstance(observations[0], str), "The vector wrapper lost texts.", _MEND)
    for _ in range(2 * env.game.max_turns):
        observations, rewards, *_ = many.step(["text"] * count)
        expect(len(observations) == len(rewards) == count, "The vector wrapper lost agents.", _MEND)
