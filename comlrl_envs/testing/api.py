"""PettingZoo's own suites, and what its consumers read."""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any

from gymnasium import spaces
from pettingzoo.utils import parallel_to_aec

from comlrl_envs.env import TextEnv, logger
from comlrl_envs.testing import play
from comlrl_envs.testing.subject import Subject, expect, fail

DRAWS = 1000
_CYCLES = 60
_SEE = "`pettingzoo.test` names the promise; see ParallelEnv's documentation."


def _of_the_author(record: logging.LogRecord) -> bool:
    """False for the warning about the reset option ``options``, which PettingZoo's own suites pass."""
    return not (isinstance(record.args, tuple) and record.args[:1] == ("options",))


@contextlib.contextmanager
def _suite(name: str) -> Iterator[None]:
    """Quiet, and with failures that name the suite."""
    logger.addFilter(_of_the_author)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except (AssertionError, Warning) as broken:
        fail(f"{name}: {type(broken).__name__} {broken}".rstrip() + ".", _SEE)
    finally:
        logger.removeFilter(_of_the_author)


@contextlib.contextmanager
def _text_observations() -> Iterator[None]:
    """Let ``api_test`` take a str: it reads ``.dtype`` of an observation, which only arrays have."""
    # Imported by name, since the package has a function that shadows the module.
    module: Any = importlib.import_module("pettingzoo.test.api_test")
    original = module._test_observation_space_compatibility

    def compatible(expected: spaces.Space[Any], seen: Any, recursed_keys: Any) -> None:
        if not isinstance(expected, spaces.Text):
            original(expected, seen, recursed_keys)
        elif not expected.contains(seen):
            raise AssertionError(f"an observation of {len(seen)} characters is outside {expected}")

    module._test_observation_space_compatibility = compatible
    try:
        yield
    finally:
        module._test_observation_space_compatibility = original


def check_parallel_api(subject: Subject) -> None:
    """``parallel_api_test`` passes, its warnings taken as errors."""
    from pettingzoo.test import parallel_api_test

    with _suite("parallel_api_test"), warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(subject.env(), num_cycles=_CYCLES)


def check_seed_suites(subject: Subject) -> str | None:
    """``seed_test`` over the AEC view passes, and the parallel one, which alone looks at one step only."""
    from pettingzoo.test import parallel_seed_test, seed_test

    if reason := undetermined(subject.env()):
        return reason
    with _suite("seed_test over parallel_to_aec"):
        seed_test(lambda: parallel_to_aec(subject.env()), num_cycles=_CYCLES)
    with _suite("parallel_seed_test"):
        parallel_seed_test(subject.env, num_cycles=_CYCLES)
    return None


def check_aec_api(subject: Subject) -> None:
    """``api_test`` over the AEC view passes, text observations allowed."""
    from pettingzoo.test import api_test

    with _suite("api_test over parallel_to_aec"), _text_observations(), warnings.catch_warnings():
        # It advises on arrays and image sizes, which texts are not.
        warnings.simplefilter("ignore", UserWarning)
        api_test(parallel_to_aec(subject.env()), num_cycles=_CYCLES)


def check_state_suite(subject: Subject) -> None:
    """``state_test`` passes, and the joint state is in its space all through an episode."""
    from pettingzoo.test.state_test import state_test

    with _suite("state_test"), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        state_test(parallel_to_aec(subject.env()), subject.env())
    env = subject.env()
    for _ in walk(env, play.random):
        state = env.state()
        expect(env.state_space.contains(state), f"state() is outside {env.state_space}.", "Show less, or widen it.")
        for agent in env.possible_agents:
            expect(f"[{agent}]\n" in state, f"state() lacks the header [{agent}].", "Join all agents' prompts.")


def check_spaces(subject: Subject) -> None:
    """Spaces hold what they draw and what agents are shown; each call gives the same object; seeds count."""
    env, other = subject.env(), subject.env()
    for agent in env.possible_agents:
        for name in ("observation_space", "action_space"):
            space = getattr(env, name)(agent)
            same = space is getattr(env, name)(agent) and space is getattr(env, f"{name}s")[agent]
            expect(same, f"{name}({agent!r}) is another object at each call.", f"Keep it in {name}s and return that.")
            space.seed(11)
            drawn = [space.sample() for _ in range(DRAWS)]
            outside = [text for text in drawn if not space.contains(text)]
            expect(not outside, f"{name}({agent!r}) drew {outside[:1]!r}, outside itself.", "Mend contains or sample.")
            twin = getattr(other, name)(agent)
            twin.seed(11)
            equal = drawn[:50] == [twin.sample() for _ in range(50)]
            expect(equal, f"{name}({agent!r}): equal seeds drew different samples.", "Draw from np_random alone.")
    for chooser in (play.empty, play.random, play.oracle):
        for observations, _ in walk(env, chooser):
            for agent, text in observations.items():
                if not env.observation_space(agent).contains(text):
                    shown = f"a {type(text).__name__} of {len(text)}" if isinstance(text, str) else type(text).__name__
                    fail(f"{agent!r} was shown {shown}, outside {env.observation_space(agent)}.", "Show a shorter str.")


def check_attributes(subject: Subject) -> None:
    """The attributes that consumers read are there, and ``close`` may be called twice."""
    env = subject.env()
    metadata: dict[str, Any] = env.metadata
    name, modes = metadata.get("name"), metadata.get("render_modes", [])
    promises = {
        "agents is empty before reset": env.agents == [],
        "possible_agents are the game's agents": env.possible_agents == list(env.game.agents),
        "max_num_agents counts them": env.max_num_agents == len(env.possible_agents),
        "unwrapped is the environment": env.unwrapped is env,
        "metadata['name'] is a text, and str() of the environment": bool(name) and str(env) == name,
        "metadata['render_modes'] are 'ansi' and 'html'": list(modes) == ["ansi", "html"],
        "metadata['is_parallelizable'] is true": metadata.get("is_parallelizable") is True,
        "render_mode is None or a render mode": env.render_mode in (None, *modes),
    }
    broken = [promise for promise, kept in promises.items() if not kept]
    expect(not broken, f"Not so: {'; '.join(broken)}.", "Build the environment with TextEnv or build_env.")
    env.reset(seed=0)
    env.close()
    env.close()
    env.reset(seed=0)


def walk(env: TextEnv, choose: play.Chooser, seed: int = 0) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Play one episode through ``step``; yields observations and infos from reset on."""
    observations, infos = env.reset(seed=seed)
    yield observations, infos
    while env.agents:
        observations, _, _, _, infos = env.step(choose(env.game, env.episode))
        yield observations, infos


def undetermined(env: TextEnv) -> str | None:
    """Why equal seeds and actions need not give equal episodes; None if they must."""
    if not env.game.scenario.deterministic:
        return f"{type(env.game.scenario).__name__} is not deterministic with these settings"
    if env.spec is not None and not env.spec.deterministic:
        return f"{env.spec.id} is registered as not deterministic"
    return None
