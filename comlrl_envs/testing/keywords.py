"""The keyword arguments that every id accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from comlrl_envs.assemble import BASE
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError
from comlrl_envs.scenario import setting_names
from comlrl_envs.testing import play
from comlrl_envs.testing.subject import CheckError, Subject, expect, fail

Probe: TypeAlias = Callable[[Subject], None]

_MEND = "Build the environment with build_env, which takes them all."
_MARK = "Marker {x} of a caller."


def check_keyword_arguments(subject: Subject) -> str | None:
    """Each of ``assemble.BASE`` is accepted and does what it says; what is wrong is refused with a near name."""
    if not subject.named:
        return "built by a callable; base keyword arguments are checked on ids and on 'package.module:function'"
    missing = sorted(set(BASE) - set(_PROBES))
    assert not missing, f"no probe of {missing}"
    for name, probe in _PROBES.items():
        try:
            probe(subject)
        except CheckError:
            raise
        except Exception as crash:
            fail(f"Keyword {name!r}: {type(crash).__name__}: {crash}.", _MEND)
    _refused(subject, max_turn=2)
    lacking = [name for name in ("feedback", "max_turns") if not _has(subject, name)]
    return f"the scenario has no setting {' and none '.join(map(repr, lacking))}" if lacking else None


def _has(subject: Subject, setting: str) -> bool:
    return setting in setting_names(type(subject.env().game.scenario))


def _longer(subject: Subject) -> dict[str, Any]:
    """Keyword arguments for an episode of three turns, where the number of turns can be set."""
    return {"max_turns": 3} if _has(subject, "max_turns") else {}


def _refused(subject: Subject, **kwargs: Any) -> None:
    try:
        env = subject.env(**kwargs)
        env.reset(seed=0)
    except OptionError:
        return
    fail(f"{kwargs} was accepted; expected OptionError.", "Check settings when the environment is built.")


def _acts(env: TextEnv, text: str) -> dict[str, str]:
    return dict.fromkeys(env.game.acting(env.episode), text)


def _split(subject: Subject) -> None:
    for split, most in (("train", None), ("eval", None), ("train[:2]", 2), ("eval[1:3]", 2)):
        env = subject.env(split=split)
        expect(most is None or len(env.tasks) <= most, f"split={split!r} has {len(env.tasks)} tasks.", _MEND)
        env.reset(seed=0)
    _refused(subject, split="trian")


def _source(subject: Subject) -> None:
    if "tasks" not in subject.kwargs:
        subject.env(source=subject.kwargs.get("source", BASE["source"])).reset(seed=0)
        _refused(subject, source="no such source")


def _data_dir(subject: Subject) -> None:
    subject.env(data_dir=subject.kwargs.get("data_dir")).reset(seed=0)


def _tasks(subject: Subject) -> None:
    env = subject.env()
    chosen = env.tasks[len(env.tasks) - 1]
    own = subject.env(tasks=[dict(chosen.fields)], split="train")
    expect(len(own.tasks) == 1, f"tasks= with one row gives {len(own.tasks)} tasks.", _MEND)
    options = {"task": own.tasks[0].id}
    # Of the same environment: a set of one row may make another game of it, such as one of a smaller corpus.
    row = own.reset(seed=0, options=options)[0]
    same = row == own.reset(seed=0, options={"item": dict(chosen.fields)})[0]
    expect(same, "A row in tasks= and the same row in options['item'] begin differently.", "Use one from_row.")


def _prompts(subject: Subject) -> None:
    marked = _MARK.format(x="{x}")
    first = subject.env().possible_agents[0]
    for prompts in ("Marker {{x}} of a caller.", lambda row: marked, {first: lambda row: marked}):
        env = subject.env(prompts=prompts)
        observations, _ = env.reset(seed=0)
        text = observations[first]
        expect(text.startswith(marked), f"prompts= was given, yet {first!r} is shown {text[:80]!r}.", _MEND)
    _refused(subject, prompts={"a stranger": "x"})


def constant_reward(*completions: list[str]) -> list[float]:
    """A quarter for everything."""
    return [0.25] * len(completions[0])


def _reward(subject: Subject) -> None:
    env = subject.env(reward=constant_reward)
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step(_acts(env, "text"))
    expect(set(rewards.values()) == {0.25}, f"reward= returned 0.25, the agents got {rewards}.", _MEND)
    expect(all(info["term/reward"] == 0.25 for info in infos.values()), "reward= is not in term/reward.", _MEND)
    _refused(subject, reward="no such preset")


def _feedback(subject: Subject) -> None:
    # None leaves the scenario's own; a scenario without modes refuses every name.
    subject.env(feedback=subject.kwargs.get("feedback")).reset(seed=0)
    _refused(subject, feedback="no such mode")


def _max_turns(subject: Subject) -> None:
    for turns in (1, 3) if _has(subject, "max_turns") else ():
        env = subject.env(max_turns=turns)
        expect(
            env.game.max_turns == turns, f"max_turns={turns} gave {env.game.max_turns}.", "Keep max_turns a setting."
        )
        env.reset(seed=0)
    _refused(subject, max_turns=0)


def _memory(subject: Subject) -> None:
    shown = {}
    for memory in ("full", "last", "none"):
        env = subject.env(memory=memory, **_longer(subject))
        env.reset(seed=0)
        for mark in ("qzxone", "qzxtwo"):
            if env.agents:
                env.step(_acts(env, mark))
        if env.agents:
            shown[memory] = sum(len(turn) for turn in env.game.messages(env.episode).values())
    kept = list(shown.values())
    expect(kept == sorted(kept, reverse=True), f"Chat turns by memory are {shown}.", "Leave memory to TextGame.")
    _refused(subject, memory="ful")


def _stop_reward(subject: Subject) -> None:
    low = subject.env().game.reward_range[0]
    env = subject.env(stop_reward=low, **_longer(subject))
    env.reset(seed=0)
    env.step(_acts(env, "text"))
    expect(not env.agents, f"stop_reward={low}, the lowest reward, did not end the episode.", _MEND)
    _refused(subject, stop_reward="high")


def _max_action_chars(subject: Subject) -> None:
    env = subject.env(max_action_chars=3)
    env.reset(seed=0)
    actions = _acts(env, "12345")
    infos = env.step(actions)[4]
    cut = {agent: infos[agent]["cut"] for agent in actions}
    expect(set(cut.values()) == {2}, f"max_action_chars=3 cut {cut} of 5 characters.", _MEND)
    _refused(subject, max_action_chars=0)


def _text_infos(subject: Subject) -> None:
    env = subject.env(text_infos=True)
    env.reset(seed=0)
    actions = _acts(env, "said")
    infos = env.step(actions)[4]
    told = all(infos[agent].get("text/reply") == "said" and "text/news" in infos[agent] for agent in actions)
    expect(told, "text_infos=True added no text/reply and text/news.", _MEND)


def _render_mode(subject: Subject) -> None:
    for mode in ("ansi", "html"):
        env = subject.env(render_mode=mode)
        env.reset(seed=0)
        env.step(play.empty(env.game, env.episode))
        page = env.render()
        expect(isinstance(page, str) and bool(page), f"render() in mode {mode!r} gave {type(page).__name__}.", _MEND)
    subject.env(render_mode=None).reset(seed=0)
    _refused(subject, render_mode="ansy")


_PROBES: dict[str, Probe] = {
    "split": _split,
    "source": _source,
    "data_dir": _data_dir,
    "tasks": _tasks,
    "prompts": _prompts,
    "reward": _reward,
    "feedback": _feedback,
    "max_turns": _max_turns,
    "memory": _memory,
    "stop_reward": _stop_reward,
    "max_action_chars": _max_action_chars,
    "text_infos": _text_infos,
    "render_mode": _render_mode,
}
