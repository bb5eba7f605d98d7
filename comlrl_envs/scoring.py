"""From joint actions to checked rewards: deduplication, the scenario's judgement, the caller's own reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from comlrl_envs.errors import InfrastructureError, OptionError, RewardError
from comlrl_envs.reward_call import RewardFunction
from comlrl_envs.scenario import Scenario, Score, Step

if TYPE_CHECKING:
    from comlrl_envs.game import Episode

LARGEST = 1e100
"""Largest reward, term or metric: sums of squares of many must stay finite."""

Outcome: TypeAlias = tuple[Step, Score, float] | InfrastructureError
Prompts: TypeAlias = "Callable[[Sequence[Episode]], list[str]]"


class Judge:
    """Scores joint actions; holds the names and the range that every score must keep to.

    Args:
        scenario: The rules, with their terms.
        own: The caller's reward in place of the terms; None for the scenario's.
        reward_range: What the sum of the terms is clipped to.
    """

    def __init__(self, scenario: Scenario, own: RewardFunction | None, reward_range: tuple[float, float]) -> None:
        self.scenario = scenario
        self.own = own
        self.reward_range = reward_range
        self.term_names = (*(("reward",) if own else scenario.terms), "clip")
        self.metric_names = tuple(scenario.metrics)
        self.agent_metric_names = tuple(scenario.agent_metrics)
        self._agents = frozenset(scenario.agents)
        self._declared = tuple(map(frozenset, (scenario.terms, scenario.metrics, scenario.agent_metrics)))
        if "clip" in scenario.terms:
            raise OptionError("A term is called 'clip'; the game's own residue has that name. Rename the term.")

    def score(
        self,
        episodes: Sequence[Episode],
        replies: Sequence[dict[str, str]],
        prompts: Prompts,
        on_error: Literal["raise", "keep"],
    ) -> list[Outcome]:
        """Score each joint action, the equal ones once; results in order."""
        places, firsts = self._distinct(episodes, replies)
        chosen = [episodes[i] for i in firsts]
        spoken = [replies[i] for i in firsts]
        steps = self._advance(chosen, spoken, on_error)
        if self.own is None:
            outcomes = [self._judge(e, s, None) for e, s in zip(chosen, steps, strict=True)]
        else:
            good = [i for i, step in enumerate(steps) if isinstance(step, Step)]
            numbers = self._call_own(self.own, [chosen[i] for i in good], [spoken[i] for i in good], prompts)
            given = dict(zip(good, numbers, strict=True))
            outcomes = [self._judge(e, s, given.get(i)) for i, (e, s) in enumerate(zip(chosen, steps, strict=True))]
        return [outcomes[place] for place in places]

    def _distinct(self, episodes: Sequence[Episode], replies: Sequence[dict[str, str]]) -> tuple[list[int], list[int]]:
        """For each move the place of its judgement, and for each judgement the first move that needs it."""
        if len(episodes) == 1:
            return [0], [0]
        seen: dict[object, int] = {}
        places: list[int] = []
        firsts: list[int] = []
        for i, (episode, reply) in enumerate(zip(episodes, replies, strict=True)):
            key: object = (episode.state, tuple(reply.values()))
            if self.own is not None:
                # The caller's reward reads the row and perhaps the prompts, which a state need not determine.
                key = (key, id(episode.item), episode.news, episode.past if self.own.wants_prompts else None)
            place = seen.setdefault(key, len(firsts))
            if place == len(firsts):
                firsts.append(i)
            places.append(place)
        return places, firsts

    def _advance(
        self, episodes: list[Episode], replies: list[dict[str, str]], on_error: Literal["raise", "keep"]
    ) -> Sequence[Step | InfrastructureError]:
        pairs = [(episode.state, reply) for episode, reply in zip(episodes, replies, strict=True)]
        if not pairs:
            return []
        try:
            steps = self.scenario.advance_many(pairs)
        except InfrastructureError as failure:
            if on_error == "raise":
                raise
            # The whole batch failed at once: play the moves one by one, so that only the bad ones are lost.
            steps = [failure]
            if len(pairs) > 1:
                steps = [self._advance([e], [r], on_error)[0] for e, r in zip(episodes, replies, strict=True)]
        if len(steps) != len(pairs):
            raise RewardError(
                f"advance_many returned {len(steps)} steps for {len(pairs)} joint actions; return one each."
            )
        named = [_of_task(step, episode) for step, episode in zip(steps, episodes, strict=True)]
        if on_error == "raise":
            for step in named:
                if isinstance(step, InfrastructureError):
                    raise step
        return named

    def _call_own(
        self, own: RewardFunction, episodes: list[Episode], replies: list[dict[str, str]], prompts: Prompts
    ) -> list[float]:
        if not episodes:
            return []
        completions = [[reply[agent] for reply in replies] for agent in self.scenario.agents]
        items: list[Mapping[str, Any]] = [episode.item for episode in episodes]
        result = own(completions, items, prompts(episodes) if own.wants_prompts else [])
        agents, turn = tuple(self.scenario.agents), episodes[0].turn
        where = f"agents {agents}, turn {turn}, tasks from {episodes[0].task_id!r}"
        try:
            numbers = list(result)
        except TypeError as single:
            raise RewardError(
                f"The reward returned a {type(result).__name__} for {where}; return a list with one number for each of "
                f"the {len(episodes)} joint actions."
            ) from single
        if len(numbers) != len(episodes):
            raise RewardError(
                f"The reward returned {len(numbers)} numbers for {len(episodes)} joint actions ({where}); "
                "return one each."
            )
        return [self._number(value, "reward", episode) for value, episode in zip(numbers, episodes, strict=True)]

    def _judge(self, episode: Episode, step: Step | InfrastructureError, own: float | None) -> Outcome:
        """Check a score against the declared names, sum it, clip it."""
        if isinstance(step, InfrastructureError):
            return step
        score = step.score
        terms, metrics, agent_metrics = self._declared
        named = score.terms.keys() == terms and score.metrics.keys() == metrics
        if not named or score.agent_metrics.keys() != agent_metrics:
            raise RewardError(self._undeclared(episode, score))
        total = _sum(score.terms.values()) if own is None else own
        if not abs(total) <= LARGEST:
            total = self._checked(episode, score.terms)
        low, high = self.reward_range
        reward = low if total < low else high if total > high else total
        summed = {name: float(value) for name, value in score.terms.items()} if own is None else {"reward": own}
        summed["clip"] = reward - total
        if metrics and not abs(_sum(score.metrics.values())) <= LARGEST:
            self._checked(episode, score.metrics)
        for name in self.agent_metric_names:
            values = score.agent_metrics[name]
            if values.keys() != self._agents:
                raise RewardError(
                    f"Task {episode.task_id!r}, turn {episode.turn}: agent metric {name!r} names {list(values)}; "
                    f"give one number for each of {tuple(self.scenario.agents)}."
                )
            if not abs(_sum(values.values())) <= LARGEST:
                self._checked(episode, values)
        return step, Score(summed, score.metrics, score.agent_metrics), reward

    def _checked(self, episode: Episode, values: Mapping[str, Any]) -> float:
        """The slow way to a sum, which names what is no finite number."""
        return float(sum(self._number(value, name, episode) for name, value in values.items()))

    def _number(self, value: Any, name: str, episode: Episode) -> float:
        agents = tuple(self.scenario.agents)
        where = f"Task {episode.task_id!r}, turn {episode.turn}, agents {agents}: {name!r}"
        try:
            if isinstance(value, str | bytes):
                raise TypeError("a text is no number, even if it spells one")
            number = float(value)
        except (TypeError, ValueError) as bad:
            raise RewardError(f"{where} is a {type(value).__name__}; expected a finite number.") from bad
        except OverflowError:
            number = math.inf
        if not abs(number) <= LARGEST:
            raise RewardError(
                f"{where} is {number}; expected a finite number up to {LARGEST:g}. Mend the reward, or bound it."
            )
        return number

    def _undeclared(self, episode: Episode, score: Score) -> str:
        given = (score.terms, score.metrics, score.agent_metrics)
        kinds = ("terms", "metrics", "agent_metrics")
        kind, names, declared = next(
            (kind, sorted(names), sorted(declared))
            for kind, names, declared in zip(kinds, given, self._declared, strict=True)
            if names.keys() != declared
        )
        return (
            f"Task {episode.task_id!r}, turn {episode.turn}: the score's {kind} are {names}, declared are {declared}. "
            f"Give exactly the names of {type(self.scenario).__name__}.{kind}."
        )


def check_range(reward_range: tuple[float, float]) -> tuple[float, float]:
    """``reward_range`` as two floats, the lower first."""
    low, high = map(float, reward_range)
    if not low <= high:
        raise OptionError(f"reward_range={reward_range!r}; expected (lowest, highest).")
    return low, high


def _of_task(step: Step | InfrastructureError, episode: Episode) -> Step | InfrastructureError:
    """The step; a failure under the id of the task, which the part that failed need not know."""
    if not isinstance(step, InfrastructureError) or step.task == episode.task_id:
        return step
    failure = InfrastructureError(episode.task_id, step.reason)
    failure.__cause__ = step
    return failure


def _sum(values: Iterable[Any]) -> float:
    """The sum, or NaN if something is no number: the slow way then names it."""
    try:
        return float(sum(values))
    except (TypeError, OverflowError):
        return math.nan
