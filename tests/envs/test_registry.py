import importlib.metadata
import logging

import pettingzoo
import pytest

import comlrl_envs
from comlrl_envs import OptionError, UnknownIdError, registry

from .toys import turn_taking_env

ENTRY = "comlrl_envs.writing.length_ratio:parallel_env"


@pytest.fixture(autouse=True)
def own_tables(monkeypatch):
    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))
    if hasattr(pettingzoo, "parallel_registry"):
        before = dict(pettingzoo.parallel_registry)
        yield
        pettingzoo.parallel_registry.clear()
        pettingzoo.parallel_registry.update(before)
    else:
        yield


def test_unversioned_is_the_newest():
    comlrl_envs.register("toy/game-v2", ENTRY)
    comlrl_envs.register("toy/game-v10", ENTRY, kwargs={"max_turns": 3})
    assert comlrl_envs.spec("toy/game").id == "toy/game-v10"
    env = comlrl_envs.make("toy/game", memory="none")
    assert env.game.max_turns == 3 and env.spec.kwargs == {"max_turns": 3, "memory": "none"}
    assert comlrl_envs.make("toy/game-v2").game.max_turns == 1
    assert comlrl_envs.make("toy/game", max_turns=2).game.max_turns == 2


@pytest.mark.parametrize(
    "id", ["writing/lenght_ratio", "writng/length_ratio-v0", "length_ratio", "writing/length-ratio"]
)
def test_a_typo_is_answered_with_the_closest(id):
    with pytest.raises(UnknownIdError, match="Did you mean 'writing/length_ratio"):
        comlrl_envs.make(id)


def test_unknown_versions_and_ids():
    with pytest.raises(UnknownIdError, match=r"no version 7.*length_ratio-v0"):
        comlrl_envs.spec("writing/length_ratio-v7")
    for bad in ("", "a b/c", "x/y/z", None):
        with pytest.raises(UnknownIdError):
            comlrl_envs.spec(bad)


def test_registration():
    comlrl_envs.register("toy/turns-v0", turn_taking_env)
    comlrl_envs.register("toy/turns-v0", turn_taking_env)
    assert "toy/turns-v0" in comlrl_envs.list_envs()
    assert str(comlrl_envs.make("toy/turns")) == "toy/turns"
    with pytest.raises(OptionError, match="overwrite=True"):
        comlrl_envs.register("toy/turns-v0", ENTRY)
    comlrl_envs.register("toy/turns-v0", ENTRY, overwrite=True, deterministic=False)
    assert comlrl_envs.spec("toy/turns").deterministic is False
    with pytest.raises(OptionError, match=r"package\.module:function"):
        comlrl_envs.register("toy/other-v0", "no entry point")
    with pytest.raises(UnknownIdError, match="family/name"):
        comlrl_envs.register("nofamily-v0", ENTRY)


def test_specs():
    spec = comlrl_envs.spec("writing/length_ratio")
    assert (spec.name, spec.version, spec.deterministic) == ("writing/length_ratio", 0, True)


@pytest.mark.skipif(not hasattr(pettingzoo, "register"), reason="this PettingZoo has no registry")
def test_mirror_in_pettingzoo(recwarn):
    comlrl_envs.register("toy/game-v3", ENTRY, kwargs={"max_turns": 4})
    comlrl_envs.register("toy/game-v3", ENTRY, kwargs={"max_turns": 4})
    comlrl_envs.register("toy/unversioned", ENTRY)
    comlrl_envs.register("toy/callable-v0", turn_taking_env)
    assert not recwarn.list
    assert pettingzoo.make("parallel", "toy/game").unwrapped.game.max_turns == 4
    assert pettingzoo.make("parallel", "writing/length_ratio", max_turns=2).unwrapped.game.max_turns == 2
    assert not {"toy/unversioned", "toy/callable-v0"} & set(pettingzoo.parallel_registry)


class Point:
    def __init__(self, name, action):
        self.name, self.action = name, action

    def load(self):
        if isinstance(self.action, Exception):
            raise self.action
        return self.action


def test_plugins_load_on_first_look_up(monkeypatch, caplog):
    points = [
        Point("good", lambda: comlrl_envs.register("plugin/game-v0", ENTRY)),
        Point("broken", ImportError("no module named x")),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == registry.PLUGINS else [])
    monkeypatch.setattr(registry, "_plugins", None)
    assert "plugin/game-v0" not in registry._SPECS
    with caplog.at_level(logging.ERROR, logger="comlrl_envs"):
        assert comlrl_envs.make("plugin/game").game.max_turns == 1
    assert "'broken'" in caplog.text
    with pytest.raises(UnknownIdError, match="no module named x"):
        comlrl_envs.make("plugin/other")


@pytest.mark.parametrize(
    ("word", "meant"), [("tldr", "tldr"), ("tldr-v0", "tldr"), ("arxiv", "arxiv"), ("lenght_ratio", "length_ratio")]
)
def test_a_word_without_a_family_is_looked_up_in_all(word, meant):
    comlrl_envs.register("a_family_with_a_long_name/tldr_of_several_posts-v0", ENTRY)
    with pytest.raises(UnknownIdError, match=f"Did you mean 'writing/{meant}'"):
        comlrl_envs.spec(word)


def test_an_unknown_id_says_where_all_are_named():
    with pytest.raises(UnknownIdError, match=r"list_envs\(\), or `comlrl-envs list`, names all"):
        comlrl_envs.spec("nowhere/nothing")
