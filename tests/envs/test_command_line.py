"""What the command line takes and says, whatever the command."""

import doctest

import pytest

import comlrl_envs
from comlrl_envs import OptionError, list_envs
from comlrl_envs.cli import main, options
from comlrl_envs.cli.options import in_shell_words, split_env_options

ID = "writing/length_ratio"


def said(capsys, *words):
    """What a command that fails writes to the standard error."""
    assert main(list(words)) == 1
    return capsys.readouterr().err


def prompts(value):
    return split_env_options(["--env.prompts", value])[0]["prompts"]


@pytest.mark.parametrize(
    "text",
    [
        "{prompt} Be {mood}.",
        "{topic}",
        "{topic:>10}",
        "Say: {topic}",
        "Say: it",
        "- {topic}",
        "[TITLE] {topic}",
        "[{topic}]",
        "Be brief. # not a comment",
        "# {topic}",
        "two\nlines",
        "12",
        "yes",
        "",
        "*{topic}*",
        "{summarizer: Say {topic}}",
        "{0}: {topic}",
    ],
)
def test_a_text_is_a_template_as_it_stands(text):
    assert prompts(text) == text
    assert split_env_options([f"--env.prompts={text}", "rest"]) == ({"prompts": text}, ["rest"])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('"{topic}: {prompt}"', "{topic}: {prompt}"),
        ("'{a: b}'", "{a: b}"),
        ('{summarizer: "Say {topic}", elaborator: Write}', {"summarizer": "Say {topic}", "elaborator": "Write"}),
        ('["Say {topic}", Write]', ["Say {topic}", "Write"]),
        ("null", None),
    ],
)
def test_quotes_brackets_and_braces_with_texts_are_yaml(text, read):
    assert prompts(text) == read


def test_other_values_are_yaml():
    words = ["--env.max_turns", "2", "--env.roles=true", "--env.split", "eval[:3]"]
    assert split_env_options(words)[0] == {"max_turns": 2, "roles": True, "split": "eval[:3]"}
    with pytest.raises(OptionError, match="is no YAML value"):
        split_env_options(["--env.split", "{a} b"])
    with pytest.raises(OptionError, match=r"--env\.split needs a value"):
        split_env_options(["--env.split"])


def test_a_template_reaches_the_agents(capsys):
    words = ["play", ID, "--policies", "oracle", "--task", "bees", "--env.prompts"]
    assert main([*words, "Say: {topic}"]) == 0
    assert capsys.readouterr().out.count("Say: bees\n") == 2
    assert "takes quotes of its own" in said(capsys, *words, "{topic: x}")


def test_switches_are_checked(capsys):
    assert "--env.roles maybe; expected True or False" in said(capsys, "play", ID, "--env.roles", "maybe")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["play", ID, "--feedback", "levels"], "--env.feedback"),
        (["play", "--feedback", "levels", ID], "--env.feedback"),
        (["eval", ID, "--policies", "random", "--target_min=3"], "--env.target_min"),
        (["play", ID, "--feedbak", "levels"], "--env.feedback"),
        (["play", "--max_turns", "2"], "--env.max_turns"),
        (["play", "no/such_id", "--source", "demo"], "--env.source"),
        (["play", ID, "--polices", "random"], "--policies"),
        (["validate", ID, "--spilt", "eval"], "--split"),
    ],
)
def test_an_unknown_option_is_answered_with_the_one_meant(capsys, words, meant):
    assert f"Did you mean {meant!r}?" in said(capsys, *words)


def test_commands_without_an_environment_offer_none_of_its_keywords(capsys):
    assert "--env." not in said(capsys, "describe", ID, "--max_turns", "2")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["play", ID, "--env.max_turns", "0"], "--env.max_turns 0; expected"),
        (["play", ID, "--env.target_min", "3", "--env.target_max", "2"], "--env.target_min 3, --env.target_max 2; "),
        (["play", ID, "--env.feedback", "no such"], "--env.feedback 'no such'; expected one of ('plain'"),
        (["eval", ID, "--policies", "random", "--episodes", "0"], "--episodes 0; expected"),
        (["eval", ID, "--policies", "random", "--env.split", "evla"], "--env.split evla; expected"),
        (["validate", ID, "--split", "evla"], "--split evla; expected"),
        (["play", "wrting/nothing"], "`comlrl-envs list`"),
    ],
)
def test_messages_name_options_as_they_are_typed(capsys, words, says):
    assert says in said(capsys, *words)


def test_a_set_out_of_reach_names_ways_out_that_can_be_typed(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COMLRL_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("COMLRL_DATA_DIR", raising=False)
    message = said(capsys, "play", "writing/tldr", "--env.source", "cache")
    assert "Ways out: --env.source demo plays" in message and "; --env.tasks takes rows" in message
    assert "source=" not in message and "tasks=" not in message and "data_dir=" not in message


def test_only_names_of_options_are_reworded():
    known = {"tasks": "--env.tasks", "seed": "--seed"}
    for message in ("key_tasks=1", "?seed=3", "a&seed=3", "other='x'", "seed = 3", "'seed=1'"):
        assert in_shell_words(message, known) == message
    assert in_shell_words('(tasks=), seed="it\'s".', known) == "(--env.tasks), --seed 'it'\"'\"'s'."
    assert in_shell_words("seed=None", {}) == "seed=None"
    assert doctest.testmod(options).failed == 0


def test_the_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"comlrl-envs {comlrl_envs.__version__}\n"


@pytest.mark.parametrize("words", [["writing"], ["--family", "writing"], ["--family=writing"]])
def test_the_ids_of_a_family(capsys, words):
    assert main(["list", *words]) == 0
    assert capsys.readouterr().out.split() == [id for id in list_envs() if id.startswith("writing/")]


def test_all_ids(capsys):
    assert main(["list"]) == 0
    assert capsys.readouterr().out.split() == list_envs()


@pytest.mark.parametrize("words", [["wrting"], ["--family", "wrting"]])
def test_an_unknown_family_is_named(capsys, words):
    assert "No family 'wrting'. Did you mean 'writing'?" in said(capsys, "list", *words)
