"""Replies as they come: hostile texts are data, and what is no text is named."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import ActionError, EpisodeError
from comlrl_envs.testing import play
from comlrl_envs.testing.hostile import FIXED_COUNT, hostile_texts, not_texts
from comlrl_envs.testing.subject import Subject, expect, fail


def check_hostile_replies(subject: Subject) -> None:
    """Hostile replies are scored like any other: no crash, no long wait, prompts that can be written as UTF-8."""
    env = subject.env()
    # Every fixed text goes to every agent, then come draws that use what the game shows.
    fixed = {agent: iter(hostile_texts(FIXED_COUNT)) for agent in env.possible_agents}
    sent = 0
    for seed in range(subject.replies):
        env.reset(seed=seed)
        while env.agents and sent < subject.replies:
            drawn = play.hostile(env.game, env.episode)
            _survives(env, {agent: next(fixed[agent], text) for agent, text in drawn.items()}, subject.step_seconds)
            sent += len(drawn)


def _survives(env: TextEnv, actions: dict[str, str], longest: float) -> None:
    before = env.fork()
    shown = {agent: f"{text[:60]!r}, {len(text)} characters" for agent, text in actions.items()}
    where = f"Task {env.episode.task_id!r}, turn {env.episode.turn}, replies {shown}"
    try:
        seconds = _timed(env, actions, longest)
        if seconds > longest:
            # A busy machine is slow, not wrong: what took too long gets a second chance.
            seconds = _timed(before, actions, longest)
        state = env.state()
        shown_now = env.game.prompts(env.episode)
    except Exception as crash:
        fail(f"{where}: {type(crash).__name__}: {crash}.", "A bad reply is data: score it low, never raise.")
    expect(seconds <= longest, f"{where}: the step takes {seconds:.1f} s.", "Bound the work; no nested quantifiers.")
    expect(_writable(state), f"{where}: a prompt holds lone surrogates.", "Show replies as the game hands them over.")
    for agent, text in shown_now.items():
        space = env.observation_space(agent)
        told = f"{where}: {agent!r} was shown {len(text)} characters, outside {space}."
        expect(space.contains(text), told, "Show less of a long reply.")
    expect(env.state_space.contains(state), f"{where}: state() is outside {env.state_space}.", "Show less of a reply.")


class _Late(BaseException):
    """Out of time; no ``Exception``, so that no handler of the environment takes it."""


def _timed(env: TextEnv, actions: dict[str, str], longest: float) -> float:
    """Seconds that the step takes; it is ended after a multiple of ``longest`` where signals can do that."""
    start = time.perf_counter()
    try:
        with _alarm(5 * longest):
            env.step(actions)
    except _Late:
        pass
    return time.perf_counter() - start


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise ``_Late`` in the block after that long; only the main thread of a POSIX system hears alarms."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Late

    handler = signal.signal(signal.SIGALRM, ring)
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, interval)
        signal.signal(signal.SIGALRM, handler)


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_bad_actions(subject: Subject) -> None:
    """A missing action, a stranger's, or one that is no ``str`` raises ``ActionError`` with the agent's name."""
    env = subject.env()
    env.reset(seed=0)
    before = env.episode
    good: dict[str, Any] = play.empty(env.game, before)
    for agent in good:
        for value in not_texts():
            _names(env, {**good, agent: value}, agent, f"an action of type {type(value).__name__}")
        _names(env, {name: text for name, text in good.items() if name != agent}, agent, "no action")
    _names(env, {**good, "a stranger": ""}, "a stranger", "an action of no agent")
    expect(env.episode is before, "A refused action moved the episode.", "Check actions before anything else.")
    env.step(good)
    while env.agents:
        env.step(play.empty(env.game, env.episode))
    try:
        env.step(good)
    except EpisodeError:
        return
    fail("A step after the end raised no EpisodeError.", "Refuse actions once the agents have left.")


def _names(env: TextEnv, actions: dict[str, Any], agent: str, what: str) -> None:
    mend = "Leave the check of actions to TextGame."
    try:
        env.step(actions)
    except ActionError as error:
        expect(repr(agent) in str(error), f"The ActionError for {what} does not name {agent!r}: {error}", mend)
        return
    except Exception as error:
        fail(f"{what} of {agent!r} raised {type(error).__name__}; expected ActionError.", mend)
    fail(f"{what} of {agent!r} was taken.", mend)
