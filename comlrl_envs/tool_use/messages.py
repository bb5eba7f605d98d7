"""A reply of calls beside a message for teammates."""

from __future__ import annotations

from comlrl_envs.tagged_text import after_thoughts, tag_pattern, tagged_parts

_TAG = tag_pattern("message")


def parted(reply: str) -> tuple[str, str]:
    """The message of a reply, and what stands beside it.

    A message that is left open goes on to the end of the reply.

    >>> parted("<message>hello</message>f(x=1)")
    ('hello', 'f(x=1)')
    """
    text = after_thoughts(reply)
    closed, left_open = tagged_parts(text, _TAG)
    said = [*closed.get("message", ()), *left_open.values()]
    rest, depth, start = [], 0, 0
    for tag in _TAG.finditer(text):
        if depth == 0:
            rest.append(text[start : tag.start()])
        depth, start = int(not tag.group(1)), tag.end()
    if depth == 0:
        rest.append(text[start:])
    return " ".join(said), "\n".join(rest).strip()


def blanked(reply: str) -> str:
    """The reply without what its message says.

    >>> blanked("<message>hello</message>f(x=1)")
    'f(x=1)'
    """
    return parted(reply)[1]
