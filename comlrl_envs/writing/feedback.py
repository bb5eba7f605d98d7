"""What writers are told between turns."""

from __future__ import annotations

from comlrl_envs.writing.levels import Band, Judgement, Rules, TextFacts
from comlrl_envs.writing.strict import FULL_CATEGORIES, GROUNDED_SHARE


def partner(role: str, text: str, retry: str) -> str:
    """The teammate's text, and what to do."""
    return f"Your teammate, the {role}, wrote:\n--- Teammate's text ---\n{text}\n--- End ---\n{retry}"


def by_level(judged: Judgement, rules: Rules, names: tuple[str, str], strict: bool) -> str:
    """One line a level: whether it is full, on which side it failed if not, and the numbers."""
    lines = [
        f"1. Structure: {_structure(judged, rules, names, strict)}",
        f"2. Length: {_ratio(judged.ratio, rules.length, names, 'long')}",
        f"3. Vocabulary: {_ratio(judged.unique_ratio, rules.vocabulary, names, 'rich in different words')}",
        f"4. Style: {_style(judged, rules, names, strict)}",
    ]
    if strict:
        lines.insert(1, f"   Grounding: {_grounding(judged.texts, names)}")
    earned = " + ".join(f"{term:.2f}" for term in judged.terms)
    return "\n".join([f"Your team earned {judged.reward:.2f} of 3 points ({earned}).", *lines])


def _structure(judged: Judgement, rules: Rules, names: tuple[str, str], strict: bool) -> str:
    parts = []
    for name, text in zip(names, judged.texts, strict=True):
        short, long = text.words < rules.min_words, text.words > rules.max_words
        side = "too short" if short else "too long" if long else "in range"
        if strict and text.counted_words < text.words:
            side += f", but only {text.counted_words} count: the others are unfinished, repeated, copied or broken"
        parts.append(f"the {name} has {text.words} words ({side})")
    return f"{', '.join(parts)}; {rules.min_words} to {rules.max_words} are asked for."


def _grounding(texts: tuple[TextFacts, TextFacts], names: tuple[str, str]) -> str:
    parts = [
        f"{text.grounded:.0%} of the {name}'s content words are the source's, {text.covered} different ones "
        f"({text.wanted} wanted)"
        for name, text in zip(names, texts, strict=True)
    ]
    return f"{', '.join(parts)}; at least {GROUNDED_SHARE:.0%} are asked for."


def _ratio(value: float, band: Band, names: tuple[str, str], quality: str) -> str:
    asked = f"{band.full_low:g} to {band.full_high:g}"
    if band.full_high == float("inf"):
        asked = f"at least {band.full_low:g}"
    verdict = "not enough" if value < band.full_low else "too much" if value > band.full_high else "good"
    if not band.low <= value <= band.high:
        verdict += ", so far off that the level fails"
    return f"the {names[1]} is {value:.2f} times as {quality} as the {names[0]} ({verdict}); {asked} is asked for."


def _style(judged: Judgement, rules: Rules, names: tuple[str, str], strict: bool) -> str:
    where = "both texts show" if rules.both_styled else f"the {names[1]} shows"
    asked, cap, which = 12, rules.jaccard_cap, "content words"
    if strict:
        asked, cap, which = FULL_CATEGORIES, rules.grounded_cap, "words of the source"
    return (
        f"{where} {judged.categories} of the 12 kinds of transitions ({asked} earn the most); the overlap of both "
        f"texts' {which} is {judged.jaccard:.2f} ({cap:g} earns full credit)."
    )
