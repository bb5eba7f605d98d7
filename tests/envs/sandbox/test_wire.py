import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs.sandbox.wire import MOST_BYTES, Frames, ProtocolError, pack

messages = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
)


@given(st.lists(messages), st.integers(1, 9))
def test_messages_come_out_as_they_went_in_however_the_bytes_are_cut(sent: list[object], size: int) -> None:
    stream = b"".join(pack(message) for message in sent)
    frames, received = Frames(), []
    for start in range(0, len(stream), size):
        frames.feed(stream[start : start + size])
        while (message := frames.take()) is not None:
            received.append(message[0])
    assert received == sent


@pytest.mark.parametrize("data", [b"\0\0\0\1{", b"\xff\xff\xff\xff", b"\0\0\x27\x10" + b"[" * 10000])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    frames = Frames()
    frames.feed(data)
    with pytest.raises(ProtocolError):
        frames.take()


def test_a_message_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(ProtocolError):
        pack("x" * MOST_BYTES)
