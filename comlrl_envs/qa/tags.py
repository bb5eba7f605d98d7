"""What an agent says, by tags: a message to the team, an answer, evidence, queries and selections.

Tags are read in any case, in what stands behind the last ``</think>``. A tag that is left open counts up to the next
tag, as an error of form; several different answers are no answer; text outside of tags says nothing. Every part is cut
to its limit. What teammates are shown is never more than this, and no tag in it works as one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from comlrl_envs.qa.normalize import squad
from comlrl_envs.tagged_text import after_thoughts, shown, tag_pattern, tagged_parts

MESSAGE, ANSWER, EVIDENCE, QUERY, SELECT = "message", "answer", "evidence", "query", "select"
_TAG = tag_pattern(MESSAGE, ANSWER, EVIDENCE, QUERY, SELECT)
_FACT = re.compile(r"\s*D(\d{1,6})\s*(?::\s*(\d{1,6})\s*)?", re.IGNORECASE)
PLACEHOLDER = squad("your answer")
"""What prompts write in the place of an answer; an echo of it is none."""


@dataclass(frozen=True)
class Limits:
    """How much of each part counts.

    Attributes:
        message_chars: Of a message.
        answer_words: Of an answer.
        evidence_items: Facts that an agent may cite.
    """

    message_chars: int = 600
    answer_words: int = 30
    evidence_items: int = 10


@dataclass(frozen=True)
class Said:
    """A reply as it counts.

    Attributes:
        message: For teammates, cut, on lines of its own; "" if there is none.
        answer: As it is written, cut; "" if its tag is empty, None if there is none, or several.
        evidence: Cited facts: a document's number, and a sentence's or None.
        parts: The text of each tag that was used, uncut.
        errors: What is wrong with its form, in words for the agent.
        overlong: Whether the message was cut.
    """

    message: str = ""
    answer: str | None = None
    evidence: tuple[tuple[int, int | None], ...] = ()
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    overlong: bool = False


def read(reply: str, limits: Limits) -> Said:
    """What a reply says; any text is a reply."""
    closed, left_open = tagged_parts(after_thoughts(reply), _TAG)
    errors = [f"<{name}> was not closed" for name in left_open]
    names = dict.fromkeys((*closed, *left_open))
    parts = {name: (*closed.get(name, ()), *([left_open[name]] if name in left_open else [])) for name in names}
    answer = _answer(parts.get(ANSWER, ()), errors)
    words = [] if answer is None else answer.split()
    if len(words) > limits.answer_words:
        errors.append(f"your answer had {len(words)} words; the first {limits.answer_words} counted")
        answer = " ".join(words[: limits.answer_words])
    message = " ".join(shown(part) for part in parts.get(MESSAGE, ())).strip()
    overlong = len(message) > limits.message_chars
    if overlong:
        errors.append(f"your message had {len(message)} characters; the first {limits.message_chars} were passed on")
    evidence = _evidence(parts.get(EVIDENCE, ()), errors)
    if len(evidence) > limits.evidence_items:
        errors.append(f"you cited {len(evidence)} facts; the first {limits.evidence_items} counted")
    return Said(
        message[: limits.message_chars], answer, evidence[: limits.evidence_items], parts, tuple(errors), overlong
    )


def without(reply: str, *names: str) -> str:
    """A reply whose parts of these names are empty; what else it says, and what is wrong with it, stays."""
    closed, left_open = tagged_parts(after_thoughts(reply), _TAG)

    def tame(name: str, text: str) -> str:
        # A tag within a part would work again.
        return "" if name in names else _TAG.sub(lambda tag: f"‹{tag.group()[1:]}", text)

    kept = [f"<{name}>{tame(name, text)}</{name}>" for name, texts in closed.items() for text in texts]
    return "".join([*kept, *(f"<{name}>{tame(name, text)}" for name, text in left_open.items())])


def _answer(given: tuple[str, ...], errors: list[str]) -> str | None:
    """The one answer, as it is written; the same one twice is one."""
    answers = {" ".join(text.casefold().split()): text.strip() for text in given if squad(text) != PLACEHOLDER}
    if len(answers) > 1:
        errors.append(f"you gave {len(answers)} different answers; none of them counted")
    return next(iter(answers.values())) if len(answers) == 1 else None


def _evidence(given: tuple[str, ...], errors: list[str]) -> tuple[tuple[int, int | None], ...]:
    items = [item for text in given for item in re.split("[;,\n]", text) if item.strip()]
    facts = [match for item in items if (match := _FACT.fullmatch(item))]
    if len(facts) < len(items):
        errors.append(f"{len(items) - len(facts)} of the facts you cited did not count: write D3:0; D7:2")
    numbers = ((int(fact.group(1)), None if fact.group(2) is None else int(fact.group(2))) for fact in facts)
    return tuple(dict.fromkeys(numbers))
