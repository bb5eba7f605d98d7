"""Which answers say the same, and what most of a team say.

Answers with the same canonical form are equal: numbers by value, yes and no with their synonyms, a letter, or else the
text as its scorer normalises it; all ways to say that there is no answer are one. For texts that are written freely,
``largest_group`` also takes together what shares most of its words (F1 above 0.9, as in Chen et al., "Optima", arXiv
2410.08115).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from comlrl_envs.qa import tags
from comlrl_envs.qa.answers import squad_v1
from comlrl_envs.qa.normalize import drop, squad, triviaqa
from comlrl_envs.qa.numbers import extract_number
from comlrl_envs.qa.scorers import letter, polarity

UNANSWERABLE = "unanswerable"
ABSTENTIONS = frozenset(map(squad, (UNANSWERABLE, "no answer", "none", "n/a", "")))
ALIKE = 0.9
"""F1 above which two free answers count as one."""


def _number(answer: str) -> str:
    found = extract_number(answer)
    if found is None:
        return ""
    plain = format(found, "f").removeprefix("-" if not found else "")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _spaced(answer: str) -> str:
    """Signs and case of a puzzle's answer matter, how it is laid out does not."""
    return " ".join(answer.split())


CANONICAL: Mapping[str, Callable[[str], str]] = {
    "gsm8k": _number,
    "yesno": polarity,
    "choice": letter,
    "reasoning_gym": _spaced,
}
"""By scorer of answers that are not written freely."""
FREE: Mapping[str, Callable[[str], str]] = {"triviaqa": triviaqa, "drop": drop}
"""By scorer how it normalises, where that is not SQuAD's way."""


def canonical(answer: str | None, scorer: str) -> str:
    """The form in which answers are compared; "" for one that says nothing of the kind that is asked for.

    >>> canonical("$1,200.00", "gsm8k"), canonical("True.", "yesno"), canonical("The Alps", "squad_v1")
    ('1200', 'yes', 'alps')
    """
    if scorer in CANONICAL:
        return CANONICAL[scorer](answer or "")
    return UNANSWERABLE if says_nothing(answer) else FREE.get(scorer, squad)(answer or "")


def says_nothing(answer: str | None) -> bool:
    """Whether an answer says that there is none; no answer at all does not say so."""
    return answer is not None and squad(answer) in ABSTENTIONS


def most_said(forms: Sequence[str]) -> frozenset[str]:
    """The canonical forms with the most votes, "" for no answer among them; several in a tie."""
    counted = Counter(forms)
    most = max(counted.values())
    return frozenset(form for form, count in counted.items() if count == most)


def agreed(answers: Sequence[str | None], scorer: str) -> bool:
    """Whether all give the same answer."""
    forms = {canonical(answer, scorer) for answer in answers}
    return len(forms) == 1 and "" not in forms


def most_agreed(replies: Sequence[str], scorer: str, limits: tags.Limits) -> str:
    """The reply that stands for the largest group of equal answers; one without an answer if there are no others.

    Of groups of equal size that with the first canonical form wins, and within a group the first reply: the order of
    the replies decides nothing but the wording.
    """
    answered = [(reply, said.answer) for reply in replies if (said := tags.read(reply, limits)).answer]
    if not answered:
        return replies[0]
    forms = [canonical(answer, scorer) for _, answer in answered]
    group = largest_group(forms, free=scorer not in CANONICAL)
    return next(reply for (reply, _), form in zip(answered, forms, strict=True) if form in group)


def largest_group(forms: Sequence[str], free: bool) -> frozenset[str]:
    """The canonical forms that most votes fall on.

    Args:
        forms: Of all votes.
        free: Whether forms that share most of their words count as one: around each form those alike to it.
    """
    counted = Counter(form for form in forms if form) or Counter(forms)
    groups = [frozenset(each for each in counted if each == form or (free and alike(each, form))) for form in counted]
    return min(groups, key=lambda group: (-sum(counted[form] for form in group), sorted(group)))


def alike(one: str, other: str) -> bool:
    """Whether two normalised texts share most of their words."""
    return squad_v1(one, [other]).f1 > ALIKE
