import datetime
import math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.sandbox.values import DEEPEST_TUPLE, Codec, ValueTooLargeError
from comlrl_envs.sandbox.wire import Frames, pack

Point = namedtuple("Point", "x y")


class Colour(IntEnum):
    RED = 3


class Name(str):
    pass


def no_object(value: Any) -> Any:
    raise LookupError(f"{value!r} has no wire form")


class Pair:
    """Two ends that talk as over a socket."""

    def __init__(self) -> None:
        self.ends = (Codec(0, no_object, no_object), Codec(1, no_object, no_object))

    def send(self, value: Any, sender: int = 0) -> Any:
        frames = Frames()
        frames.feed(pack(self.ends[sender].encode(value)))
        message = frames.take()
        assert message is not None
        return self.ends[1 - sender].decode(*message[0])


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.datetimes()
    | st.dates()
    | st.timedeltas()
)
hashables = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashables, inner, max_size=4)
        | st.sets(hashables, max_size=4)
        | st.frozensets(hashables, max_size=4)
        | st.lists(inner, max_size=4).map(deque)
        | st.dictionaries(st.text(), inner, max_size=4).map(OrderedDict)
    ),
    max_leaves=12,
)


@given(values)
def test_a_value_arrives_equal_and_of_the_same_type(value: Any) -> None:
    arrived = Pair().send(value)
    assert arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize(
    ("value", "like"),
    [
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, {1: [2]}), {1: [2]}),
        (defaultdict(lambda: 0, {1: 2}), {1: 2}),
        (Point(1, 2), (1, 2)),
        (Colour.RED, 3),
        (Name("x"), "x"),
        (10**4000, 10**4000),
        (range(3), range(3)),
        (slice(1, None), slice(1, None)),
        (..., ...),
        (int, int),
        ([type(None)], [type(None)]),
        (Decimal("1.10"), Decimal("1.10")),
        (Fraction(1, 3), Fraction(1, 3)),
        (bytearray(b"x"), bytearray(b"x")),
        ({1: 2}.items(), {1: 2}.items()),
        (math.inf, math.inf),
        ("\ud800", "\ud800"),
        (deque([1, 2], 2), deque([1, 2])),
        (datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc),) * 2,
    ],
)
def test_subclasses_arrive_as_what_they_equal(value: Any, like: Any) -> None:
    assert Pair().send(value) == like


def test_names_of_a_named_tuple_stay() -> None:
    arrived = Pair().send(Point(1, 2))
    assert (arrived.x, arrived[1], arrived._fields) == (1, 2, ("x", "y"))


def test_not_a_number_and_the_sign_of_zero_stay() -> None:
    assert math.isnan(Pair().send(math.nan))
    assert math.copysign(1, Pair().send(-0.0)) == -1


def test_containers_are_shared() -> None:
    pair = Pair()
    ours: list[Any] = [1]
    theirs = pair.send((ours, ours))
    assert theirs[0] is theirs[1]
    theirs[0].append({"a": 2})
    assert pair.send(None, sender=1) is None
    assert ours == [1, {"a": 2}]
    ours[1]["a"] = 3
    assert pair.send(ours) is theirs[0]
    assert theirs[0] == [1, {"a": 3}]
    assert pair.send(theirs[0], sender=1) is ours


def test_a_cycle_arrives_as_a_cycle() -> None:
    knot: list[Any] = []
    knot.append(knot)
    arrived = Pair().send(knot)
    assert arrived[0] is arrived


def test_what_has_not_changed_is_not_sent_again() -> None:
    pair = Pair()
    value = [{1, 2, 3}, {"a": [1.5]}]
    arrived = pair.send(value)
    assert pair.ends[0].encode(None) == (None, [])
    assert pair.ends[1].encode(arrived)[1] == []


def test_forgetting_ends_the_sharing() -> None:
    pair = Pair()
    value = [1]
    first = pair.send(value)
    for end in pair.ends:
        end.forget()
    assert pair.send(value) is not first


@pytest.mark.parametrize(
    "message",
    [
        (["@", 7], []),
        (["?"], []),
        ([], []),
        (["T", "open"], []),
        (["f", "1e999"], []),
        (["i", "zz"], []),
        (["z", [["@", 1]]], [[1, "L", []]]),
        (None, [[1, "D", [[["@", 1], 2]]]]),
        (None, [["x", "L", []]]),
        (None, [[1, "X", []]]),
        (None, 3),
        (["datetime", 1], []),
        (["array", "O", [1], [1]], []),
        (["n", "a", [""], [1]], []),
        (["@", 1], [[1, "D", [], "defaultdict", "eval"]]),
        (["@", 1], [[1, "D", [], "eval"]]),
    ],
)
def test_malformed_messages_raise_nothing_but_value_errors(message: Any) -> None:
    with pytest.raises(ValueError):
        Pair().ends[0].decode(*message)


def test_deep_and_large_values_are_refused() -> None:
    deep: tuple[Any, ...] = ()
    for _ in range(DEEPEST_TUPLE + 5):
        deep = (deep,)
    with pytest.raises(ValueTooLargeError):
        Pair().send(deep)
    with pytest.raises(ValueTooLargeError):
        Pair().send([0] * 1_000_001)


def test_arrays_arrive_as_arrays() -> None:
    numpy = pytest.importorskip("numpy")
    pair = Pair()
    array = numpy.arange(6, dtype="int32").reshape(2, 3)
    arrived = pair.send(array)
    assert arrived.dtype == array.dtype and (arrived == array).all()
    assert type(pair.send(numpy.float64(1.5))) is float
    assert type(pair.send(numpy.bool_(True))) is bool
