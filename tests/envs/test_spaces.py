import copy
import json
import pickle

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector.utils import batch_differing_spaces, batch_space, concatenate, create_empty_array, iterate
from hypothesis import given
from hypothesis import strategies as st

import comlrl_envs
from comlrl_envs.spaces import Text


def test_samples_are_members():
    space = Text(1000, seed=0)
    drawn = [space.sample() for _ in range(1000)]
    assert all(space.contains(text) for text in drawn)
    assert len(set(drawn)) > 900 and max(map(len, drawn)) == 64
    assert all(len(Text(5, min_length=3, seed=i).sample()) in (3, 4, 5) for i in range(20))


@given(st.text(max_size=50))
def test_any_text_is_a_member(text):
    assert Text(50).contains(text)


def test_membership_is_type_and_length():
    space = Text(3, min_length=1)
    assert [space.contains(x) for x in ("", "a", "éé\n", "abcd", 3, None, ["a"], b"a")] == [False, True, True] + [
        False
    ] * 5
    assert space.contains("\ud800")


def test_flatten_goes_there_and_back():
    space = Text(40)
    for text in ("", "abc", "é🙂\0\n", "\u202eשלום", "\ud800"):
        flat = spaces.flatten(space, text)
        assert spaces.flatten_space(space).contains(flat)
        assert flat.shape == (spaces.flatdim(space),)
        assert spaces.unflatten(space, flat) == text


def test_small_and_equal_by_bounds():
    space = Text(100, seed=1)
    assert repr(space) == "Text(0, 100)"
    assert space == Text(100) and space != Text(101) and space != Text(100, min_length=1)
    assert len(pickle.dumps(Text(10**6))) < 300
    assert isinstance(space, spaces.Text)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda space: pickle.loads(pickle.dumps(space))])
def test_copies_draw_the_same(clone):
    space = Text(100, seed=1)
    space.sample()
    twin = clone(space)
    assert twin == space and [twin.sample() for _ in range(5)] == [space.sample() for _ in range(5)]


def test_vector_utilities_take_it():
    space = Text(20)
    batched = batch_space(space, 3)
    texts = ("a", "bb", "")
    assert list(iterate(batched, texts)) == list(texts)
    assert list(iterate(space, texts)) == list(texts)
    assert tuple(concatenate(space, texts, create_empty_array(space, 3))) == texts
    differing = batch_differing_spaces([Text(5), Text(6)])
    assert differing.contains(("a", "b"))


def test_a_vector_layer_in_the_manner_of_supersuit():
    """It concatenates observations of one space and iterates over actions of one space, not of a batch."""
    env = comlrl_envs.make("writing/length_ratio", max_turns=2)
    observations, _ = env.reset(seed=0)
    space = env.observation_space("summarizer")
    stacked = concatenate(space, list(observations.values()), create_empty_array(space, 2))
    assert tuple(stacked) == tuple(observations.values())
    actions = list(iterate(env.action_space("summarizer"), ("ab", "abcde")))
    assert env.step(dict(zip(env.agents, actions, strict=True)))[1]["elaborator"] == 1.0


def test_sample_with_a_mask_is_gymnasiums():
    text = Text(20, seed=0).sample(mask=(4, None))
    assert len(text) == 4
    assert json.dumps(text)


def test_flat_form_is_code_points():
    assert spaces.flatten(Text(4), "é").tolist() == [233, -1, -1, -1]
    assert spaces.flatten(Text(4), "é").dtype == np.int32
