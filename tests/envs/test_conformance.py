"""Every shipped environment, and toys with what these lack, keep what `comlrl_envs.testing` asks."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from comlrl_envs import TextEnv, from_reward, make, spec
from comlrl_envs.catalog import SHIPPED
from comlrl_envs.scenario import setting_names
from comlrl_envs.testing import CHECKS, Subject, check_golden, run_check

from .toys import turn_taking_env

GOLDEN = Path(__file__).parent / "golden"
IDS = [id for id, _ in SHIPPED]
HOSTILE = 10_000


def golden_file(id: str) -> Path:
    return GOLDEN / f"{id.replace('/', '-')}.json"


def shares_of_lengths(first: list[str], second: list[str]) -> list[float]:
    return [len(a) / (1 + len(a) + len(b)) for a, b in zip(first, second, strict=True)]


def say_it_again(prompt: str, completions: list[str], num_agents: int) -> list[str]:
    return [f"{prompt} You said: {text}" for text in completions]


def from_reward_env() -> TextEnv:
    rows = [{"prompt": "Name a bird.", "gold": "wren"}, {"prompt": "Name a fish.", "gold": "pike"}]
    return from_reward(rows, shares_of_lengths, feedback=say_it_again, max_turns=3, reward_range=(0.0, 1.0))


def feedback_modes(id: str) -> tuple[str, ...]:
    """The constant ``FEEDBACK`` of the scenario's module, or of the module of what it derives from."""
    homes = [vars(sys.modules[kind.__module__]) for kind in type(make(id, source="demo").game.scenario).__mro__]
    return next(home["FEEDBACK"] for home in homes if "FEEDBACK" in home)


def has_strict(id: str) -> bool:
    scenario = make(id, source="demo").game.scenario
    return "reward" in setting_names(type(scenario)) and "strict" in scenario.presets


# Whole rows, gold included, of the ids whose parsers leave it out.
ITEMS = {
    "writing/tldr": {"prompt": "POST: My hens lay in the shed now.\n\nTL;DR:", "completion": "Hens moved."},
    "writing/arxiv": {"abstract_text": ["We count wrens.", "There are many."], "article_text": ["One. Two."]},
    # A scorer of numbers would refuse a canary as gold.
    "qa/debate": {"question": "Name a bird.", "answers": ["wren"], "scorer": "squad_v1"},
}
SOLUTIONS = ("aux", "main", "canonical_solution")
GOLD = {
    "writing/tldr": ("completion",),
    "writing/arxiv": ("article_text",),
    "coding/humaneval": SOLUTIONS,
    "coding/coop_humaneval": SOLUTIONS,
    "coding/mbpp": SOLUTIONS,
    "coding/classeval": ("solution_code",),
    "qa/split_context": ("answers",),
    "qa/debate": ("answers",),
    "qa/retrieve_answer": ("answers",),
    "qa/workers_manager": ("answers", "kind"),
    "tool_use/parallel": ("answers",),
    "tool_use/multi_turn": ("gold",),
}
# Turns that let every channel be used: what is asked for in the first one is read in the last.
TURNS = {"qa/retrieve_answer": 4}
# What the oracle has no use for: workers know what to tell before the manager asks, helpers know gold results.
SILENT = {
    "qa/workers_manager": "no channel from ['manager']",
    "tool_use/multi_turn": "no channel from ['helper']",
}


# Where a joint action runs a program, fewer tasks and hostile replies are played. By default the ids as they are and a
# mode for each kind of text; the others among the slow tests.
FEW = 6
QUICK = ("coding/humaneval-v0-diagnosis-strict", "coding/classeval-v0-group")


def variants(id: str) -> Iterator[tuple[str, Subject]]:
    """One turn; three turns in each feedback mode; the strict preset; a single writer where the team can vary."""
    name = spec(id).name
    items = [ITEMS[name]] if name in ITEMS else []
    subject = Subject(id, {"source": "demo"}, items=items, gold=GOLD.get(name))
    if name.startswith("coding/"):
        # A reply that loops may take its time to the limit, which is short here.
        subject = subject.replaced(kwargs={**subject.kwargs, "cpu_seconds": 0.3}, tasks=FEW, replies=60)
    settings = setting_names(type(subject.env().game.scenario))
    yield id, subject.replaced(golden=golden_file(id))
    for mode in feedback_modes(id):
        longer = {**subject.kwargs, "max_turns": TURNS.get(name, 3), "feedback": mode}
        yield f"{id}-{mode}", subject.replaced(kwargs=longer)
        if has_strict(id) and mode in ("levels", "diagnosis"):
            yield f"{id}-{mode}-strict", subject.replaced(kwargs={**longer, "reward": "strict"})
        if "num_agents" in settings and mode == "levels":
            yield f"{id}-{mode}-single", subject.replaced(kwargs={**longer, "num_agents": 1})


SUBJECTS = dict(variant for id in IDS for variant in variants(id))
NAMES = [
    pytest.param(name, marks=pytest.mark.slow)
    if name.startswith(("coding/", "qa/")) and name not in (*IDS, *QUICK)
    else name
    for name in SUBJECTS
]
TOYS = {
    "turn_taking": Subject(turn_taking_env, gold=("gold",)),
    "from_reward": Subject(from_reward_env, gold=("gold",)),
}


def may_note(name: str, subject: Subject, note: str) -> bool:
    """Whether a shipped environment need not keep a promise in full."""
    env = subject.env()
    return {
        "channel": not env.game.scenario.channel or note.startswith(SILENT.get(env.metadata["name"], "never")),
        "golden": subject.golden is None,
        "supersuit": importlib.util.find_spec("supersuit") is None,
    }.get(name, False)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", NAMES)
def test_shipped_environments_keep_every_promise(name, check):
    note = run_check(check, SUBJECTS[name])
    assert note is None or may_note(check, SUBJECTS[name], note), note


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", TOYS)
def test_toys_keep_every_promise(name, check):
    run_check(check, TOYS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", IDS)
def test_ten_thousand_hostile_replies_do_no_harm(name):
    run_check("hostile_replies", SUBJECTS[name].replaced(replies=HOSTILE))


@pytest.mark.parametrize("id", IDS)
def test_each_id_has_golden_episodes_of_its_version(id):
    check_golden(id, golden_file(id))
    held = golden_file(id).read_text(encoding="utf-8")
    assert held.count('"seed"') >= 6 and '"max_turns"' in held
