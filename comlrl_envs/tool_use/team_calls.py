"""What a team's calls are worth beside the gold ones, as plain functions.

``published`` is the formula of the LLM_Collab_BFCL baselines ("native parallel"), with the semantics of the Berkeley
Function Calling Leaderboard in the place of its matcher and the role's own share in the place of an even split where
the role has one. ``strict`` pays for the exact set and for use. Without a gold call both pay for silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.functions import Function
from comlrl_envs.tool_use.matching import Answer, argument_score, fault, matched

PUBLISHED = ("parse", "names", "arguments", "count", "balance", "exact", "overlap", "lazy", "extra", "duplicates")
STRICT = ("exact", "calls", "useful")


@dataclass(frozen=True)
class Issued:
    """The calls of a turn.

    Attributes:
        by_agent: Each agent's calls, none more often than gold has it.
        team: All of them, none more often than gold has it.
        duplicates: Calls that an agent issued again.
        overlap: Calls that an agent issued after a teammate had.
        shared: Texts of the calls that several agents issued more often than gold has them.
        foreign: Calls to functions that their agent was not shown; they match nothing.
    """

    by_agent: tuple[tuple[Call, ...], ...]
    team: tuple[Call, ...]
    duplicates: int
    overlap: int
    shared: frozenset[str]
    foreign: frozenset[str]


def issued(calls: Sequence[Sequence[Call]], shown: Sequence[Sequence[Function]], answers: Sequence[Answer]) -> Issued:
    """Count what agents issued.

    Args:
        calls: By agent.
        shown: By agent the functions that it was shown.
        answers: Gold calls.
    """
    functions = _all(shown)
    allowed = {call.text: _wanted(call, functions, answers) for own in calls for call in own}
    by_agent = tuple(_few(own, allowed) for own in calls)
    everything = [call for own in by_agent for call in own]
    team = _few(everything, allowed)
    count = Counter(call.text for call in everything)
    names = [{function.name for function in own} for own in shown]
    known = {call.text for own, known in zip(by_agent, names, strict=True) for call in own if call.name in known}
    return Issued(
        by_agent,
        team,
        duplicates=sum(map(len, calls)) - len(everything),
        overlap=len(everything) - len(team),
        shared=frozenset(text for text, times in count.items() if times > allowed[text]),
        foreign=frozenset(count) - known,
    )


def _all(shown: Sequence[Sequence[Function]]) -> list[Function]:
    return list({function.name: function for own in shown for function in own}.values())


def _wanted(call: Call, functions: Sequence[Function], answers: Sequence[Answer]) -> int:
    """How often a call may be issued: gold may have it more than once."""
    return max(1, sum(fault(call, functions, answer) is None for answer in answers)) if len(answers) > 1 else 1


def _few(calls: Sequence[Call], allowed: Mapping[str, int]) -> tuple[Call, ...]:
    seen: Counter[str] = Counter()
    kept = []
    for call in calls:
        seen[call.text] += 1
        if seen[call.text] <= allowed[call.text]:
            kept.append(call)
    return tuple(kept)


@dataclass(frozen=True)
class Comparison:
    """A team's calls beside the gold ones.

    Attributes:
        calls: Issued by the team.
        gold: To be issued.
        hits: Texts of calls that gold accepts, one for each match.
        exact: Whether every gold call is matched and nothing else was issued.
        names: F1 of the functions' names, as multisets.
        arguments: Best one-to-one sum of similarities, by gold call.
        count: 1 less the difference in number, by gold call, at least 0.
        extra: Calls beyond the number of gold ones, by gold call, at most 1.
    """

    calls: int
    gold: int
    hits: tuple[str, ...]
    exact: bool
    names: float
    arguments: float
    count: float
    extra: float


def compared(made: Issued, shown: Sequence[Sequence[Function]], answers: Sequence[Answer]) -> Comparison:
    """Compare a team's calls with the gold ones."""
    functions = _all(shown)
    legal = [call for call in made.team if call.text not in made.foreign]
    pairs = matched(legal, functions, answers)
    p, g = len(made.team), len(answers)
    if not g:
        silent = float(p == 0)
        return Comparison(p, 0, (), p == 0, silent, silent, silent, 1.0 - silent)
    both = sum((Counter(call.name for call in legal) & Counter(name for name, _ in answers)).values())
    return Comparison(
        p,
        g,
        tuple(legal[place].text for place, _ in pairs),
        len(pairs) == g == p,
        2 * both / (p + g),
        argument_score(legal, functions, answers),
        max(0.0, 1 - abs(p - g) / g),
        min(1.0, max(0, p - g) / g),
    )


def published(made: Issued, seen: Comparison, due: Sequence[int]) -> dict[str, float]:
    """The terms of the published formula.

    Args:
        made: The calls.
        seen: Their comparison with gold.
        due: By agent how many calls are its share.

    Returns:
        One number for each of ``PUBLISHED``; their sum is at most 1.1.
    """
    numbers = [len(own) for own in made.by_agent]
    gold = max(seen.gold, 1)
    distance = sum(abs(number - ideal) for number, ideal in zip(numbers, due, strict=True))
    lazy = fmean(float(number == 0 and ideal > 0) for number, ideal in zip(numbers, due, strict=True))
    return {
        "parse": 0.05 * float((seen.calls > 0) == (seen.gold > 0)),
        "names": 0.25 * seen.names,
        "arguments": 0.35 * seen.arguments,
        "count": 0.10 * seen.count,
        "balance": 0.15 * max(0.0, 1 - distance / gold),
        "exact": 0.20 * seen.exact,
        "overlap": -0.20 * min(1.0, made.overlap / gold),
        "lazy": -0.15 * lazy,
        "extra": -0.05 * seen.extra,
        "duplicates": -0.05 * min(1.0, made.duplicates / gold),
    }


def strict(made: Issued, seen: Comparison) -> dict[str, float]:
    """The terms of the strict reward, which sum to at most 1.

    ``exact``: 0.6 if the team's calls are the gold ones, each issued once. ``calls``: 0.3 x F1 of calls that gold
    accepts, repeated ones counted as issued. ``useful``: 0.1 x mean over agents of the share of their calls that gold
    accepts and nobody else issued; who is silent is useful if nothing was left to do.
    """
    repeated = made.duplicates + made.overlap
    clean = seen.exact and not repeated
    useful = fmean(_useful(own, made, seen, clean) for own in made.by_agent)
    if not seen.gold:
        return {"exact": 0.6 * clean, "calls": 0.3 * seen.exact, "useful": 0.1 * useful}
    f1 = 2 * len(seen.hits) / (seen.calls + repeated + seen.gold)
    return {"exact": 0.6 * clean, "calls": 0.3 * f1, "useful": 0.1 * useful * (len(seen.hits) > 0)}


def _useful(own: Sequence[Call], made: Issued, seen: Comparison, clean: bool) -> float:
    if not own:
        return float(clean)
    return fmean(float(call.text in seen.hits and call.text not in made.shared) for call in own)
