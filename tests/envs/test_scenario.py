import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs import OptionError, State


@dataclass(frozen=True)
class Leaf(State):
    name: str
    flag: bool = False


@dataclass(frozen=True)
class Tree(State):
    leaves: tuple[Leaf, ...] = ()
    numbers: tuple[tuple[float, ...], ...] = ()
    note: str | None = None
    weight: float = 0.5


texts = st.text(max_size=8)
leaves = st.builds(Leaf, texts, st.booleans(), key=st.integers(0, 2**63 - 1))
numbers = st.lists(st.lists(st.floats(allow_nan=False), max_size=3).map(tuple), max_size=3).map(tuple)
trees = st.builds(
    Tree,
    st.lists(leaves, max_size=3).map(tuple),
    numbers,
    st.none() | texts,
    st.floats(allow_nan=False),
    key=st.integers(),
)


@given(trees)
def test_json_restores_tuples_and_nested_states(tree):
    restored = State.from_json(json.loads(json.dumps(tree.to_json())))
    assert restored == tree and hash(restored) == hash(tree)
    assert type(restored) is Tree


def test_what_is_no_json_value_is_named():
    @dataclass(frozen=True)
    class Bad(State):
        words: list[str]

    with pytest.raises(OptionError, match="'words' holds a list"):
        Bad(["a"]).to_json()


def test_an_unknown_class_is_not_imported():
    with pytest.raises(OptionError, match="import its module"):
        State.from_json({"state": "os:system", "fields": {}})
