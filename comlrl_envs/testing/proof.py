"""What a sound game shows in numbers: gold is worth the most, nonsense little, and silence costs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from comlrl_envs.env import TextEnv
from comlrl_envs.errors import closest
from comlrl_envs.evaluation.statistics import clustered_mean
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.tasks import Task
from comlrl_envs.testing import play
from comlrl_envs.testing.subject import Subject, expect, fail

TOLERANCE = 1e-6
_SAID = "qzxsaidvjk"
_WORDS = re.compile(r"(?<![\w</])\w+(?![\w>])")
_DRAWS = 8
"""Random episodes a task; the other floor policies do the same each time."""


@dataclass(frozen=True)
class OracleProof:
    """How the oracle did.

    Attributes:
        tasks: Tasks whose gold joint action is known.
        unknown: The others.
        mean: Its mean reward over the turns, then over tasks; 0.0 without tasks.
        reachable: The same mean of ``Scenario.reachable``.
        worst: The task with the largest difference between the two at some turn; None if there is none.
        gap: ``reachable - reward`` there; negative if the oracle earned more than was said to be reachable.
    """

    tasks: int
    unknown: int
    mean: float
    reachable: float
    worst: str | None
    gap: float


@dataclass(frozen=True)
class BlankCost:
    """What it costs the oracle team that one agent's communication is blanked.

    Attributes:
        agent: The agent.
        mean: Mean over tasks of the difference in mean reward over the turns.
        low: Lower end of its 95 % interval.
        high: Upper end.
        changed: Tasks in which blanking a reply of its changed what a teammate is shown.
        unseen: Tasks in which blanking changed replies of its, and nothing that a teammate is shown.
    """

    agent: str
    mean: float
    low: float
    high: float
    changed: int
    unseen: int = 0


@dataclass(frozen=True)
class Excess:
    """A reward above what was said to be reachable.

    Attributes:
        policy: Who earned it.
        task: On which task.
        turn: After how many joint actions.
        reward: The reward.
        reachable: ``Scenario.reachable`` before that joint action.
    """

    policy: str
    task: str
    turn: int
    reward: float
    reachable: float


def measure_oracle(game: TextGame, tasks: Sequence[Task]) -> OracleProof:
    """Play the oracle on every task and compare each turn's reward with what was reachable there."""
    known = with_oracle(game, tasks)
    rewards: dict[int, list[tuple[float, float]]] = {place: [] for place in range(len(known))}
    at_a_loss: set[tuple[str, int]] = set()

    def choose(game: TextGame, episode: Episode) -> dict[str, str]:
        gold = game.oracle(episode)
        if gold is None:
            at_a_loss.add((episode.task_id, episode.turn))
            return play.empty(game, episode)
        return {agent: gold.get(agent, "") for agent in game.acting(episode)}

    for moves in play.rounds(game, play.start(game, known), choose):
        for place, before, after in moves:
            if (before.task_id, before.turn) not in at_a_loss:
                rewards[place].append((after.reward, game.scenario.reachable(before.state)))
    gaps = {place: max((r - got for got, r in pairs), key=abs) for place, pairs in rewards.items()}
    worst = max(gaps, key=lambda place: abs(gaps[place])) if known else None
    if worst is not None and gaps[worst] == 0.0:
        worst = None
    earned, possible = ([_mean([pair[i] for pair in pairs]) for pairs in rewards.values()] for i in (0, 1))
    return OracleProof(
        tasks=len(known),
        unknown=len(tasks) - len(known),
        mean=_mean(earned),
        reachable=_mean(possible),
        worst=None if worst is None else known[worst].id,
        gap=0.0 if worst is None else gaps[worst],
    )


def find_excess(game: TextGame, tasks: Sequence[Task], own: Mapping[str, play.Chooser]) -> Excess | None:
    """The largest excess over ``Scenario.reachable`` that scripted policies and ``own`` come upon, if there is any."""
    scenario = game.scenario
    if (game.term_names[:-1], game.reward_range) != (tuple(scenario.terms), tuple(scenario.reward_range)):
        # A caller's own reward, of which the scenario cannot know what is reachable.
        return None
    found: list[Excess] = []
    for name, choose in {**play.FLOORS, **own}.items():
        for moves in play.rounds(game, play.start(game, tasks), choose):
            for _, before, after in moves:
                reachable = scenario.reachable(before.state)
                if after.reward > reachable + TOLERANCE:
                    found.append(Excess(name, before.task_id, after.turn, after.reward, reachable))
    return max(found, key=lambda excess: excess.reward - excess.reachable, default=None)


def judge_excess(excess: Excess | None) -> None:
    """Raise ``CheckError`` if there is one."""
    if excess is not None:
        fail(
            f"On task {excess.task!r}, turn {excess.turn}, the policy {excess.policy!r} earned {excess.reward:.6g}, "
            f"more than the {excess.reachable:.6g} of Scenario.reachable.",
            "Say in reachable what a task allows, and let the oracle earn it; or close the hole in the reward.",
        )


def with_oracle(game: TextGame, tasks: Sequence[Task]) -> list[Task]:
    """The tasks whose gold joint action is known at the start."""
    episodes = play.start(game, tasks)
    return [task for task, episode in zip(tasks, episodes, strict=True) if game.oracle(episode) is not None]


def measure_floor(game: TextGame, tasks: Sequence[Task], name: str, own: Mapping[str, play.Chooser]) -> float:
    """Mean reward over turns and tasks of a floor policy that the scenario bounds.

    Args:
        game: The game.
        tasks: The tasks.
        name: The policy, one of ``Scenario.floors``.
        own: Floor policies besides ``empty``, ``echo`` and ``random``.

    Raises:
        CheckError: There is no such policy.
    """
    policies = {**play.FLOORS, **own}
    if name not in policies:
        fail(
            f"floors bounds a policy {name!r} that is not known; there are {sorted(policies)}."
            f"{closest(name, policies)}",
            "Rename it, or pass the policy in policies=.",
        )
    draws = _DRAWS if name == "random" else 1
    episodes = [episode for seed in range(draws) for episode in play.start(game, tasks, seed)]
    return _mean([play.mean_reward(episode) for episode in play.play(game, episodes, policies[name])])


def measure_blanks(game: TextGame, tasks: Sequence[Task]) -> list[BlankCost]:
    """For each agent, what blanking its communication costs the oracle team, in pairs by task."""
    known = with_oracle(game, tasks)
    if not known:
        return []
    full = [play.mean_reward(episode) for episode in play.play(game, play.start(game, known), play.oracle)]
    return [_blank_cost(game, known, full, agent) for agent in game.agents]


def _blank_cost(game: TextGame, tasks: Sequence[Task], full: Sequence[float], agent: str) -> BlankCost:
    changed: set[str] = set()
    emptied: set[str] = set()

    def choose(game: TextGame, episode: Episode) -> dict[str, str]:
        replies = play.oracle(game, episode)
        if agent not in replies:
            return replies
        blanked = {**replies, agent: game.scenario.blank(replies[agent])}
        if blanked != replies:
            emptied.add(episode.task_id)
            # A reply that is emptied costs by itself: what counts is that somebody would have read it.
            if episode.task_id not in changed and _heard(game, episode, agent, replies, blanked):
                changed.add(episode.task_id)
        return blanked

    ended = play.play(game, play.start(game, tasks), choose)
    costs = [had - play.mean_reward(episode) for had, episode in zip(full, ended, strict=True)]
    low, high = game.reward_range
    cost = clustered_mean([[cost] for cost in costs], (low - high, high - low))
    # Too few tasks tell nothing: the interval is the whole line then.
    ends = (-math.inf, math.inf) if cost.low is None or cost.high is None else (cost.low, cost.high)
    return BlankCost(agent, cost.mean, *ends, len(changed), len(emptied - changed))


def _heard(game: TextGame, episode: Episode, agent: str, actions: Mapping[str, str], others: Mapping[str, str]) -> bool:
    """Whether teammates of ``agent`` are shown something else after the one joint action than after the other."""
    one, two = (game.prompts(after) for after in game.step_many([(episode, actions), (episode, others)]))
    return any(one[mate] != two[mate] for mate in game.agents if mate != agent)


def check_oracle(subject: Subject) -> str | None:
    """At every turn of every task the oracle earns ``Scenario.reachable``."""
    env = subject.env()
    tasks = subject.some_tasks(env)
    proof = measure_oracle(env.game, tasks)
    judge_oracle(proof)
    judge_excess(find_excess(env.game, tasks, subject.policies))
    if not proof.tasks:
        return "the scenario knows no gold joint action"
    return f"no oracle on {proof.unknown} of {proof.tasks + proof.unknown} tasks" if proof.unknown else None


def judge_oracle(proof: OracleProof) -> None:
    """Raise ``CheckError`` unless the oracle earned what is reachable."""
    much = "more" if proof.gap < 0 else "less"
    told = f"On task {proof.worst!r} the oracle earned {abs(proof.gap):.6g} {much} than Scenario.reachable says."
    mend = "Mend the reward or the oracle, or say in reachable what a task allows."
    expect(abs(proof.gap) <= TOLERANCE, told, mend)


def check_floors(subject: Subject) -> str | None:
    """Floor policies stay within ``Scenario.floors``."""
    env = subject.env()
    tasks = subject.some_tasks(env)
    floors = env.game.scenario.floors
    judge_floors(env.game, {name: measure_floor(env.game, tasks, name, subject.policies) for name in floors})
    return None if floors else "the scenario bounds no floor policy; declare floors"


def judge_floors(game: TextGame, measured: Mapping[str, float]) -> None:
    """Raise ``CheckError`` unless every mean is within its bound."""
    above = {
        name: f"{mean:.4g} above {game.scenario.floors[name]:.4g}"
        for name, mean in measured.items()
        if not mean <= game.scenario.floors[name] + TOLERANCE
    }
    expect(not above, f"Floor policies earn more than declared: {above}.", "Close the hole, or raise the bound.")


def check_channel(subject: Subject) -> str | None:
    """Blanking what an agent tells its teammates costs the oracle team; without a channel nothing is blanked."""
    env = subject.env()
    tasks = subject.some_tasks(env)
    if not env.game.scenario.channel:
        judge_no_channel(env, tasks)
        return "channel = False: agents are shown nothing of each other"
    costs = measure_blanks(env.game, tasks)
    if not costs:
        return "the scenario knows no gold joint action to blank"
    judge_blanks(costs)
    silent = [cost.agent for cost in costs if not cost.changed]
    return f"no channel from {silent}: blank changes nothing that teammates are shown of them" if silent else None


def judge_blanks(costs: Sequence[BlankCost]) -> None:
    """Raise ``CheckError`` unless every agent that says something is missed when it is blanked."""
    expect(
        any(cost.changed or cost.unseen for cost in costs),
        "channel is True, yet blank changes no gold reply of any agent.",
        "Define Scenario.blank, or set channel = False.",
    )
    expect(
        any(cost.changed for cost in costs),
        "channel is True, yet no teammate is shown anything else after a reply is blanked.",
        "Define Scenario.blank, or set channel = False.",
    )
    free = {f"{c.agent}: {c.mean:.4g}, 95 % in [{c.low:.4g}, {c.high:.4g}]" for c in costs if c.changed and c.low <= 0}
    expect(
        not free,
        f"Blanking an agent's communication does not cost the oracle team ({'; '.join(sorted(free))}).",
        "Let the oracle, and the reward, depend on what the teammate was told; or check more tasks.",
    )


def judge_no_channel(env: TextEnv, tasks: Sequence[Task]) -> None:
    """Raise ``CheckError`` if ``blank`` changes something or a teammate is shown a reply: there is no channel."""
    for moves in play.rounds(env.game, play.start(env.game, tasks[:10]), play.oracle):
        for _, before, _ in moves:
            for agent, reply in play.oracle(env.game, before).items():
                same = env.game.scenario.blank(reply) == reply
                expect(same, f"channel is False, yet blank changes a reply of {agent!r}.", "Set channel = True.")
            for agent in env.game.acting(before):
                _shows_nothing_of(env.game, before, agent)


def _shows_nothing_of(game: TextGame, episode: Episode, agent: str) -> None:
    """Raise ``CheckError`` if teammates of ``agent`` are shown a word that it says among or in place of its gold."""
    gold = play.oracle(game, episode)
    # Marks stay, so that what the rules read between them is replaced as well.
    between = _WORDS.sub(_SAID, gold[agent])
    for reply in dict.fromkeys((_SAID, f"{gold[agent]} {_SAID}", between)):
        (after,) = game.step_many([(episode, {**gold, agent: reply})])
        readers = [mate for mate, text in game.prompts(after).items() if mate != agent and _SAID in text.casefold()]
        told = f"channel is False, yet {readers} are shown what {agent!r} said on task {episode.task_id!r}."
        expect(not readers, told, "Set channel = True and define Scenario.blank, or leave it out of observe.")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
