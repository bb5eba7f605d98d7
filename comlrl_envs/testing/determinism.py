"""Equal seeds, equal episodes: in this process, in others, from copies and from saved states."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import numpy as np

from comlrl_envs.env import TextEnv
from comlrl_envs.registry import EnvSpec, list_envs, register, spec
from comlrl_envs.testing import play
from comlrl_envs.testing.api import undetermined, walk
from comlrl_envs.testing.child import in_fresh_process
from comlrl_envs.testing.subject import CheckError, Subject, expect, fail

SEEDS = (0, 1, 2**70)
_MIDSTS = 12
_CHARS = 2**22
"""Most characters of an episode that are compared; a long one repeats its past at each turn."""
_GLOBAL = "Draw from comlrl_envs.seeding.rng(key, turn, purpose) only."


def transcript(subject: Subject) -> list[str]:
    """Whole episodes as lines of JSON: all that ``reset`` and ``step`` return, states, samples, unseeded resets."""
    env = subject.env()
    lines = []
    for seed in SEEDS:
        for choose in (play.oracle, play.random, play.hostile):
            lines += _episode(env, choose, seed)
    for agent in env.possible_agents:
        env.action_space(agent).seed(3)
        lines.append(json.dumps([agent, env.action_space(agent).sample()]))
    return [*lines, *(json.dumps(env.reset()) for _ in range(3))]


def transcript_of(subject: Subject, entry: EnvSpec | None) -> list[str]:
    """The same in a process that may not know the id: whoever checks it may have registered it by hand."""
    if entry is not None and entry.id not in list_envs():
        # Its module may register it when it is imported, and is to find the place free.
        entry.load()
    if entry is not None and entry.id not in list_envs():
        register(entry.id, entry.entry_point, kwargs=entry.kwargs, deterministic=entry.deterministic)
    return transcript(subject)


def _episode(env: TextEnv, choose: play.Chooser, seed: int) -> list[str]:
    lines = [json.dumps(env.reset(seed=seed))]
    return lines + _remainder(env, choose)


def _remainder(env: TextEnv, choose: play.Chooser) -> list[str]:
    lines: list[str] = []
    left = _CHARS
    while env.agents and left > 0 and len(lines) < play.TURNS:
        lines.append(json.dumps([env.step(choose(env.game, env.episode)), env.state(), env.get_state()["episode"]]))
        left -= len(lines[-1])
    return lines


def check_replay(subject: Subject) -> str | None:
    """Whole episodes are byte-equal here and in two fresh processes under different ``PYTHONHASHSEED``."""
    if reason := undetermined(subject.env()):
        return reason
    here = transcript(subject)
    _same(here, transcript(subject), "a second environment of this process", _GLOBAL)
    if reason := _confined(subject, subject.env()):
        return f"replayed in this process only: {reason}"
    built = subject.env().spec
    # What stands in the registry: the environment's own spec holds the keyword arguments of this call too.
    entry = None if built is None else spec(built.id)
    for hash_seed in (1, 4242):
        there = in_fresh_process(transcript_of, subject, entry, hash_seed=hash_seed)
        _same(here, there, f"a fresh process with PYTHONHASHSEED={hash_seed}", f"{_GLOBAL} Sort sets before use.")
    return None


def _same(first: list[str], second: list[str], where: str, mend: str) -> None:
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            at = next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(map(len, (one, other)))
            )
            near = slice(max(0, at - 60), at + 60)
            fail(f"Line {place} of the replay differs in {where}: {one[near]!r} became {other[near]!r}.", mend)
    expect(len(first) == len(second), f"The replay took {len(first)} and {len(second)} steps in {where}.", mend)


def _confined(subject: Subject, env: TextEnv) -> str | None:
    """Why a fresh process cannot build the environment; None if it can."""
    try:
        pickle.dumps((subject, env.spec))
    except (pickle.PicklingError, AttributeError, TypeError) as local:
        return f"a fresh process cannot import the callable or its arguments ({local})"
    homes = [type(env.game.scenario).__module__]
    if callable(subject.make):
        homes.append(subject.make.__module__)
    if env.spec is not None and not isinstance(env.spec.entry_point, str):
        homes.append(env.spec.entry_point.__module__)
    return "it is defined in the main script; move it into a module" if "__main__" in homes else None


def check_resets(subject: Subject) -> str | None:
    """Seed 0 is a seed; seeds spread over tasks; unseeded resets vary; nothing of an earlier episode is left."""
    env = subject.env()
    if reason := undetermined(env):
        return reason
    first = env.reset(seed=0)
    env.reset()
    expect(env.reset(seed=0) == first, "Two resets with seed=0 differ.", "Test `seed is None`, not its truth.")
    expect(env.reset(seed=np.int64(0)) == first, "seed=np.int64(0) differs from seed=0.", "Take any integer.")  # type: ignore[arg-type]
    few = min(len(env.tasks), 10)
    drawn = set()
    for seed in range(60):
        env.reset(seed=seed)
        drawn.add(env.episode.task_id)
    expect(2 * len(drawn) > few, f"60 seeds drew {len(drawn)} of {len(env.tasks)} tasks.", "Draw by the seed.")
    unseeded = set()
    for _ in range(10):
        env.reset()
        unseeded.add(env.episode.seed)
    expect(len(unseeded) > 1, "Ten resets without a seed began the same episode.", "Continue a stream of seeds.")
    _check_choice(env)
    _check_leftovers(env)
    return None


def _check_choice(env: TextEnv) -> None:
    last = len(env.tasks) - 1
    name = env.tasks[last].id
    by_place = env.reset(seed=5, options={"task": last})
    expect(
        env.episode.task_id == name, f"options={{'task': {last}}} began {env.episode.task_id!r}.", "Serve that task."
    )
    by_id = env.reset(seed=5, options={"task": name})
    expect(by_id == by_place, f"Task {name!r} by id differs from the same by position.", "Serve the same row.")


def _check_leftovers(env: TextEnv) -> None:
    mark = "qzxleftover"
    fresh = env.reset(seed=1)
    env.step(dict.fromkeys(env.game.acting(env.episode), mark))
    # On purpose in the midst of an episode, where there are more turns than one.
    again = env.reset(seed=1)
    expect(again == fresh and mark not in json.dumps(again), "A reset kept something.", "Keep all in the State.")


def check_fork(subject: Subject) -> str | None:
    """A fork goes its own way; both go the same way on the same actions."""
    env = subject.env()
    if reason := undetermined(env):
        return reason
    env.reset(seed=2)
    while env.agents:
        before = json.dumps(env.get_state())
        twin, other = env.fork(), env.fork()
        for agent in env.possible_agents:
            apart = twin.action_space(agent) is not env.action_space(agent)
            expect(apart, "A fork shares its spaces with its origin.", "Use TextEnv.fork.")
        _remainder(other, play.hostile)
        other.reset(seed=9)
        expect(json.dumps(env.get_state()) == before, "Playing a fork moved its origin.", "Keep all in the State.")
        actions = play.random(env.game, env.episode)
        one, two = json.dumps(env.step(actions)), json.dumps(twin.step(actions))
        expect(one == two, "A fork and its origin differ after the same actions.", f"Keep all in the State. {_GLOBAL}")
    return None


def check_saved_state(subject: Subject) -> str | None:
    """In mid-episode, ``get_state`` through JSON into another environment goes on alike."""
    env = subject.env()
    if reason := undetermined(env):
        return reason
    for moves in range(min(env.game.max_turns, _MIDSTS)):
        _to_the_midst(env, moves)
        other = subject.env()
        other.set_state(json.loads(json.dumps(env.get_state())))
        expect(
            other.episode == env.episode, "get_state/set_state changed the episode.", "Use plain fields in the State."
        )
        if env.agents:
            mine, theirs = _remainder(env, play.random), _remainder(other, play.random)
            _same(mine, theirs, "an environment with its state", "Keep all in the State.")
    return None


def _to_the_midst(env: TextEnv, moves: int) -> None:
    env.reset(seed=4)
    for _ in range(moves):
        if env.agents:
            env.step(play.random(env.game, env.episode))


def continued(env: TextEnv) -> list[str]:
    """What follows in ``env``, and the next unseeded reset."""
    return [*_remainder(env, play.random), json.dumps(env.reset())]


def check_pickle(subject: Subject) -> str | None:
    """Pickled in mid-episode, the environment goes on alike in a fresh process, as under spawn."""
    env = subject.env()
    _to_the_midst(env, min(1, env.game.max_turns - 1))
    mend = "Define classes and functions in modules; keep handles as settings until first use."
    try:
        copied: TextEnv = pickle.loads(pickle.dumps(env))
    except Exception as unpicklable:
        fail(f"It cannot be pickled: {type(unpicklable).__name__}: {unpicklable}.", mend)
    expect(copied.get_state() == env.get_state(), "Its pickle stands elsewhere in the episode.", mend)
    if reason := undetermined(env) or _confined(subject, env):
        return f"pickled in this process only: {reason}"
    there = in_fresh_process(continued, env, hash_seed=7)
    _same(continued(env), there, "a fresh process", f"{_GLOBAL} {mend}")
    return None


def check_global_generators(subject: Subject) -> None:
    """``random`` and ``numpy.random`` are neither drawn from nor seeded."""
    held = random.getstate(), np.random.get_state()
    try:
        for start in (5, 6):
            random.seed(start)
            np.random.seed(start)
            before = _generators()
            env = subject.env()
            for seed in (None, 1):
                env.reset(seed=seed)
                while env.agents:
                    env.step(play.random(env.game, env.episode))
            expect(_generators() == before, "A global generator moved.", _GLOBAL)
    finally:
        random.setstate(held[0])
        np.random.set_state(held[1])


def _generators() -> Any:
    kind, keys, *rest = np.random.get_state(legacy=True)
    return random.getstate(), kind, np.asarray(keys).tolist(), rest


def check_pure_reads(subject: Subject) -> None:
    """What reads a state gives the same at each call; briefs stay the same all through an episode."""
    env = subject.env()
    scenario = env.game.scenario
    for choose in (play.oracle, play.random):
        briefs: dict[str, str] = {}
        for _ in walk(env, choose, seed=6):
            state = env.episode.state
            for agent in env.possible_agents:
                brief = scenario.brief(state, agent)
                expect(briefs.setdefault(agent, brief) == brief, f"The brief of {agent!r} changed.", "Use observe.")
                twice = [scenario.observe(state, agent) for _ in range(2)]
                expect(twice[0] == twice[1], f"observe({agent!r}) differs at a second call.", "Prepare it in advance.")
            if not env.episode.done:
                reads = [(scenario.acting(state), scenario.oracle(state), scenario.reachable(state)) for _ in range(2)]
                expect(reads[0] == reads[1], "acting, oracle or reachable differ at a second call.", _GLOBAL)
            try:
                hash(state)
            except TypeError as mutable:
                raise CheckError(
                    f"The state cannot be hashed ({mutable}).", "Turn lists and dicts into tuples."
                ) from None
