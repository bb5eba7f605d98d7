"""Stop-words and transition phrases, compiled once, and the two ways of finding a phrase in a text.

Both lists were chosen for this project; their sizes and the twelve categories follow the published rewards.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

STOP_WORDS: frozenset[str] = frozenset(
    """
    a an the this that these those some any each every all both such no
    i me my we us our you your he him his she her it its they them their
    am is are was were be been being have has had do does did will would can could should may might must
    of to in on at by for from with into about over under up
    and or but so if as than then when while because not
    who which what where why how there here
    very too also just only more most much many other same good new old first last long
    """.split()
)
"""106 words that carry no topic: function words and a few of the commonest adjectives and adverbs."""

_TRANSITIONS: Mapping[str, str] = {
    "elaboration": (
        "also|moreover|furthermore|in addition|additionally|besides|what is more|likewise|as well as|"
        "on top of that|not only|another|further|too|along with|coupled with|in the same vein|to add to this|"
        "beyond that|equally important|plus"
    ),
    "examples": (
        "for example|for instance|such as|namely|to illustrate|including|as an example|in particular|particularly|"
        "specifically|to name a few|as shown by|as seen in|a case in point|among them|consider|take the case|"
        "like when|as an illustration|one example|an instance of|e.g."
    ),
    "explanation": (
        "that is|in other words|to put it simply|this means|meaning|i.e.|to explain|to clarify|in simple terms|"
        "put differently|which means|that is to say|by this|to be precise|in essence|the reason is|to rephrase|"
        "what this means|simply put|more precisely|stated simply|in plain words"
    ),
    "cause_effect": (
        "because|therefore|thus|hence|consequently|as a result|so|since|due to|because of|owing to|thanks to|"
        "accordingly|for this reason|leads to|led to|resulting in|so that|as a consequence|on account of|"
        "it follows that|thereby|which caused|causing|ergo|that is why"
    ),
    "contrast": (
        "but|however|yet|on the other hand|in contrast|by contrast|on the contrary|conversely|whereas|while|"
        "instead|rather|unlike|although|though|still|nevertheless|nonetheless|otherwise|alternatively|except|"
        "contrary to|differently|at odds with|in opposition|as opposed to|versus|rather than|then again"
    ),
    "sequence": (
        "first|firstly|second|secondly|third|thirdly|next|then|finally|lastly|to begin with|to start with|"
        "in the first place|afterwards|subsequently|following this|after that|before that|initially|eventually|"
        "in turn|at first|last of all|ultimately|from there|step by step|in sequence|to finish|beforehand|"
        "one after another|the next step|and then|at the outset"
    ),
    "emphasis": (
        "indeed|in fact|above all|especially|certainly|clearly|of course|obviously|undoubtedly|without doubt|"
        "most importantly|importantly|notably|surely|truly|really|definitely|even|to be sure|as a matter of fact|"
        "it should be noted|significantly|without question|to emphasize"
    ),
    "summary": (
        "in summary|to sum up|in conclusion|overall|in short|in brief|to conclude|all in all|on the whole|"
        "to summarize|altogether|in the end|summing up|briefly|in closing|in a word|by and large|"
        "all things considered|taken together|to wrap up|as noted above"
    ),
    "comparison": (
        "similarly|likewise|in the same way|just as|compared with|compared to|in comparison|by comparison|equally|"
        "similar to|just like|in like manner|as much as|correspondingly|by the same token|more than|less than"
    ),
    "concession": (
        "although|though|even though|despite|in spite of|nevertheless|nonetheless|even so|admittedly|granted|yet|"
        "regardless|notwithstanding|even if|after all|be that as it may|still|albeit|that said"
    ),
    "condition": (
        "if|unless|provided that|as long as|in case|only if|whether|on condition that|assuming that|assuming|"
        "suppose|given that|even if|so long as|in the event|otherwise|depending on|were it|had it"
    ),
    "time": (
        "when|while|after|before|during|meanwhile|as soon as|until|since|later|soon|now|currently|recently|"
        "previously|in the meantime|at the same time|simultaneously|whenever|once|earlier|these days|at last|"
        "by the time|immediately|formerly"
    ),
}

TRANSITIONS: Mapping[str, tuple[str, ...]] = {name: tuple(text.split("|")) for name, text in _TRANSITIONS.items()}
"""Twelve categories of transition phrases; a phrase may belong to several."""

# Short phrases are the likeliest to be found, and the first one found is enough.
_SHORTEST_FIRST = tuple(tuple(sorted(phrases, key=len)) for phrases in TRANSITIONS.values())
_TOKEN = re.compile(r"\w+")
Entry: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The words of a phrase and the categories that it belongs to."""
Phrase: TypeAlias = tuple[int, int, tuple[str, ...]]
"""A phrase found in a sequence of words: its start, its end and its categories."""


def tokens(text: str) -> list[str]:
    """Lower-cased runs of letters, digits and underscores, in order."""
    return _TOKEN.findall(text.lower())


def _entries() -> tuple[dict[str, tuple[str, ...]], dict[tuple[str, str], list[Entry]]]:
    """Categories of the one-word phrases, and the longer phrases by their first two words, the longest first."""
    categories: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, phrases in TRANSITIONS.items():
        for words in map(tuple, map(tokens, phrases)):
            categories[words] = (*categories.get(words, ()), name)
    longer: dict[tuple[str, str], list[Entry]] = {}
    for words in sorted(categories, key=len, reverse=True):
        if len(words) > 1:
            longer.setdefault((words[0], words[1]), []).append((words, categories[words]))
    return {words[0]: names for words, names in categories.items() if len(words) == 1}, longer


_SINGLE, _LONGER = _entries()

_MORE_FUNCTION_WORDS = frozenset(
    """
    nor off down out own shall whom whose bad little upon via per within without between among against through across
    around toward towards onto near behind above below himself herself itself myself yourself themselves ourselves
    mine yours hers ours theirs something anything nothing everything someone anyone everyone nobody one two few
    less least several either neither again ever never always often perhaps maybe quite almost already
    don didn doesn isn wasn aren weren won wouldn couldn shouldn hasn haven hadn ain
    get got getting like well back
    """.split()
)
FUNCTION_WORDS: frozenset[str] = (
    STOP_WORDS
    | _MORE_FUNCTION_WORDS
    | {phrase for phrases in TRANSITIONS.values() for phrase in phrases if _TOKEN.fullmatch(phrase)}
)
"""Stop-words, rarer function words and one-word transitions: what is never a content word of the strict preset."""


def categories_by_substring(text: str) -> int:
    """Number of categories with a phrase anywhere in the text, inside other words too, as in the published rewards.

    >>> categories_by_substring("A person sat alone.")
    1
    """
    lowered = text.lower()
    count = 0
    for phrases in _SHORTEST_FIRST:
        for phrase in phrases:
            if phrase in lowered:
                count += 1
                break
    return count


def phrases_in(words: Sequence[str]) -> list[Phrase]:
    """Transition phrases in a sequence of ``tokens``, the longest at each place."""
    found: list[Phrase] = []
    for start, pair in enumerate(itertools.pairwise(words)):
        if pair in _LONGER:
            for phrase, categories in _LONGER[pair]:
                end = start + len(phrase)
                if tuple(words[start:end]) == phrase:
                    found.append((start, end, categories))
                    break
    single = [(place, place + 1, _SINGLE[word]) for place, word in enumerate(words) if word in _SINGLE]
    return _apart(sorted(found + single, key=_by_start)) if found else single


def _by_start(phrase: Phrase) -> tuple[int, int]:
    return phrase[0], -phrase[1]


def _apart(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Those phrases, in order of their start, that begin after the end of the last one kept."""
    kept: list[Phrase] = []
    for phrase in phrases:
        if not kept or phrase[0] >= kept[-1][1]:
            kept.append(phrase)
    return kept
