import dataclasses

import pytest

from comlrl_envs import TaskSet, TextEnv, TextGame, UnknownIdError, list_envs, register
from comlrl_envs import registry as registry_module
from comlrl_envs.assemble import BASE
from comlrl_envs.cli import main
from comlrl_envs.description import (
    BASE_MEANINGS,
    TRANSCRIPT_CHARS,
    Description,
    arguments,
    describe,
    docstring_markdown,
    field_meanings,
    keyword_names,
    to_markdown,
)
from comlrl_envs.scenario import setting_names
from comlrl_envs.writing.length_ratio import LengthRatio
from tests.envs.toys import ROWS, TurnTaking, turn_taking_env

ID = "writing/length_ratio-v0"


@pytest.fixture(scope="module", params=list_envs())
def described(request) -> Description:
    return describe(request.param)


@dataclasses.dataclass(frozen=True)
class Loud(LengthRatio):
    """A louder one.

    Attributes:
        volume: How loud, in ``[0, 1]``;
            the default is silent.
    """

    volume: float = 0.0


@pytest.fixture
def own_id():
    """An id whose function takes no arguments at all, and whose oracle knows nothing."""

    def build() -> TextEnv:
        return TextEnv(TextGame(TurnTaking(), memory="last", stop_reward=4.5), TaskSet(ROWS))

    yield register("toys/turns-v7", build).id
    del registry_module._SPECS["toys/turns-v7"]


def test_each_base_argument_has_a_meaning():
    assert list(BASE_MEANINGS) == list(BASE)
    assert all(kind and meaning.endswith(".") for kind, meaning in BASE_MEANINGS.values())


def test_every_argument_of_every_id_is_told_with_type_default_and_meaning(described):
    scenario = registry_module.make(described.id, source="demo").game.scenario
    told = {argument.name: argument for argument in described.arguments}
    assert set(told) == setting_names(type(scenario)) | set(BASE)
    assert [name for name, argument in told.items() if not (argument.kind and argument.default)] == []
    assert [name for name, argument in told.items() if len(argument.meaning) < 5] == []


def test_defaults_are_those_that_hold(described):
    scenario = registry_module.make(described.id, source="demo").game.scenario
    told = {argument.name: argument.default for argument in described.arguments}
    assert told["max_turns"] == repr(scenario.max_turns)
    assert told["memory"] == repr(registry_module.make(described.id, source="demo").game.memory)


def test_the_facts_of_every_id_are_whole(described):
    assert described.text and described.agents and described.terms
    assert described.sizes["train"] >= 60 and described.sizes["eval"] >= 30
    assert set(described.floors) >= {"empty", "echo", "random"}
    assert described.id in described.versions
    assert described.transcript.startswith("=== Task ")
    assert "The episode is over" in described.transcript


def test_the_page_holds_all_of_it(described):
    page = to_markdown(described)
    for argument in described.arguments:
        assert f"| `{argument.name}` | {argument.kind} | `{argument.default}` |" in page
    for name in (*described.agents, *described.terms, *described.metrics, *described.agent_metrics):
        assert f"`{name}`" in page
    assert described.text.strip().partition("\n")[0] in page
    assert "```text\n=== Task " in page
    assert page.count("```") % 2 == 0


def test_fields_are_explained_by_their_class_and_those_above_it():
    meanings = field_meanings(Loud)
    assert meanings["volume"] == "How loud, in ``[0, 1]``; the default is silent."
    assert meanings["target_max"] == "Highest ratio that earns 1."


def test_arguments_that_an_id_fixes_are_its_defaults():
    game = registry_module.make(ID).game
    told = {a.name: a for a in arguments(game, {"target_max": 4.0, "memory": "none"})}
    assert (told["target_max"].default, told["target_min"].default) == ("4.0", "2.0")
    assert told["memory"].default == "'none'"
    assert told["target_max"].own and not told["memory"].own


def test_a_strange_id_is_described_too(own_id):
    found = describe(own_id)
    told = {argument.name: argument.default for argument in found.arguments}
    assert (told["memory"], told["stop_reward"], told["max_turns"]) == ("'last'", "4.5", "4")
    assert found.transcript == ""
    assert "Example transcript" not in to_markdown(found)


def test_long_and_wild_transcripts_stay_in_their_block(own_id):
    wild = "````\n\x1b[2J| a |\n" + "x" * TRANSCRIPT_CHARS
    page = to_markdown(dataclasses.replace(describe(own_id), transcript=wild))
    block = page.partition("`````text\n")[2]
    assert "\x1b" not in page and block.rstrip().endswith("`````")
    assert "characters more]" in block


def test_examples_of_a_docstring_become_code_blocks():
    page = docstring_markdown("What ``x`` is.\n\n- one: ``a | b``\n\nExample:\n    >>> 1 + 1\n    2\n")
    assert page == "What `x` is.\n\n- one: `a | b`\n\nExample:\n\n```pycon\n>>> 1 + 1\n2\n```"


def test_an_unknown_id_is_named():
    with pytest.raises(UnknownIdError, match="length_ratio"):
        describe("writing/lenght_ratio")


def test_the_toy_without_a_field_docstring_says_nothing_false():
    assert {a.name for a in arguments(turn_taking_env().game, {})} == set(BASE)


@pytest.mark.parametrize("columns", ["20", "80"])
def test_the_command_shows_a_page(columns, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["describe", "writing/length_ratio"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "target_min" in shown and "\x1b" not in shown and "There is a lot to sa" in shown.replace("\n", " ")


def test_the_command_writes_markdown(capsys):
    assert main(["describe", "writing/length_ratio", "--markdown", "true"]) == 0
    assert capsys.readouterr().out == f"# {ID}\n\n{to_markdown(describe(ID))}"


def test_presets_of_the_reward_are_named(described):
    scenario = registry_module.make(described.id, source="demo").game.scenario
    meaning = next(a.meaning for a in described.arguments if a.name == "reward")
    presets = scenario.presets if "reward" in setting_names(type(scenario)) else ("default",)
    assert [preset for preset in presets if f'`"{preset}"`' not in meaning] == []


def test_a_word_of_the_transcript_says_what_the_oracle_plays_for(described):
    assert "It plays for the reward, not for style or sense:\n\n```text\n=== Task " in to_markdown(described)


def test_the_names_of_the_arguments_are_those_told(described):
    assert keyword_names(described.id) == sorted(a.name for a in described.arguments)


def test_an_id_without_its_family_is_answered_with_the_whole(capsys):
    assert main(["describe", "tldr"]) == 1
    assert "Did you mean 'writing/tldr'?" in capsys.readouterr().err
