"""What agents of a question-answering team are told between turns: each other's messages, and errors of form.

Nothing here knows a gold answer; the mode ``"oracle"`` is told whether the team is right, for ablations alone.
"""

from __future__ import annotations

from collections.abc import Sequence

PEERS, WITH_FORMAT, ORACLE = "peers", "peers+format", "oracle"
FEEDBACK = (PEERS, WITH_FORMAT, ORACLE)
SILENT = "(no message)"
LAST = "This is the last turn."
TAGS = "Put the answer in tags."


def news(
    turn: int, turns: int, heard: Sequence[str], errors: Sequence[str], right: bool | None, question: str | None
) -> str:
    """The feedback that an agent reads before a turn.

    Args:
        turn: The coming turn, from 0.
        turns: Of the episode.
        heard: What it is shown of its teammates, a line each.
        errors: What was wrong with the form of its own last reply.
        right: Whether the team's answer is right so far; None where that is not told.
        question: What it has to answer, said again in the last turn; None for one who does not answer.
    """
    lines = [f"Turn {turn + 1} of {turns}.", *heard]
    lines += [f"Your last reply: {error}." for error in errors]
    if right is not None:
        lines.append(f"The team's answer is {'right' if right else 'wrong'} so far.")
    if turn + 1 == turns:
        lines.append(LAST if question is None else f"{LAST} {question} {TAGS}")
    return "\n".join(lines)
