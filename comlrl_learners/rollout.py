"""Plays a team through its games: a tree of turns per task, grown breadth-first over all tasks at once.

A turn of the whole tree costs one `generate` per distinct policy and one `step_many`. Every completion's draws are
keyed by (run seed, purpose, visit, task, agent, branch, turn), so they depend on nothing else that is in the batch.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, wait
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from comlrl_envs.errors import RewardError
from comlrl_envs.seeding import derive
from comlrl_envs.transcript import Message
from comlrl_learners.errors import NonFiniteError
from comlrl_learners.games import EpisodeLike, Game, ScoreLike, episode_seed
from comlrl_learners.policy import LLMPolicy, Request, distinct_policies
from comlrl_learners.samples import Completion

LARGEST_REWARD = 1e30
JointMode = Literal["aligned", "cross"]
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class RolloutPlan:
    """The shape of a tree.

    Attributes:
        num_generations: Completions K per agent and node.
        joint_mode: "aligned" pairs the k-th completions of all agents (K joint actions a node); "cross" takes every
            combination (K ** agents).
        max_turns: Turns played at most, or None for the game's own.
        prune_above: A node whose mean reward over its joint actions exceeds this is not continued; None keeps all.
    """

    num_generations: int
    joint_mode: JointMode = "aligned"
    max_turns: int | None = None
    prune_above: float | None = None


@dataclass(frozen=True)
class Visit:
    """One playing of one task.

    Attributes:
        task: The task.
        number: How often the run has come to it before.
        seed: The run's seed.
        purpose: "train" or "eval": their draws are unrelated.
    """

    task: Any
    number: int
    seed: int
    purpose: str

    @property
    def episode_seed(self) -> int:
        """Seed of the episode, equal for all branches."""
        return episode_seed(self.seed, self.purpose, self.task.id, self.number)

    def draw_key(self, agent: str, branch: tuple[int, ...], turn: int) -> int:
        """Decides all draws of one completion."""
        path = ",".join(map(str, branch))
        return derive("draw", self.seed, self.purpose, self.number, self.task.id, agent, path, turn)


@dataclass(frozen=True, eq=False)
class Edge:
    """One joint action.

    Attributes:
        index: Which completion each acting agent plays, in the node's order of acting agents.
        reward: The shared reward, as the game gave it.
        score: Its parts.
        child: The node it leads to, or None at the end.
    """

    index: tuple[int, ...]
    reward: float
    score: ScoreLike
    child: Node | None


@dataclass(eq=False)
class Node:
    """A point of an episode at which the team acts.

    Attributes:
        visit: The playing it belongs to.
        branch: Edge numbers from the root.
        episode: The episode here.
        acting: The agents that act.
        prompts: What each agent reads, as one text.
        messages: The same as a chat.
        completions: K completions of each acting agent.
        edges: The joint actions tried here.
    """

    visit: Visit
    branch: tuple[int, ...]
    episode: EpisodeLike
    acting: tuple[str, ...]
    prompts: Mapping[str, str] = field(default_factory=dict)
    messages: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    completions: dict[str, list[Completion]] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)

    def subtree(self) -> Iterator[Node]:
        """This node and all below it, parents first."""
        level = [self]
        while level:
            yield from level
            level = [edge.child for node in level for edge in node.edges if edge.child is not None]


@dataclass
class RolloutStats:
    """What a rollout cost.

    Attributes:
        joint_actions: Joint actions scored.
        tokens: Tokens sampled.
        generate_seconds: Wall time of generation.
        score_seconds: Wall time of the game's steps.
    """

    joint_actions: int = 0
    tokens: int = 0
    generate_seconds: float = 0.0
    score_seconds: float = 0.0


def rollout(
    game: Game,
    team: Mapping[str, LLMPolicy],
    visits: Sequence[Visit],
    plan: RolloutPlan,
    executor: Executor | None = None,
) -> tuple[list[Node], RolloutStats]:
    """Play every visit; returns the roots of their trees, in order.

    Args:
        game: The game.
        team: One policy per agent.
        visits: What to play.
        plan: The shape of the trees.
        executor: Runs the distinct policies side by side; None runs them one after another.
    """
    stats = RolloutStats()
    episodes = game.start_many([visit.task for visit in visits], [visit.episode_seed for visit in visits])
    roots = [_node(game, visit, (), episode) for visit, episode in zip(visits, episodes, strict=True)]
    level = roots
    while level:
        started = time.perf_counter()
        _write(game, team, level, plan, executor)
        written = time.perf_counter()
        _play(game, level, plan)
        stats.generate_seconds += written - started
        stats.score_seconds += time.perf_counter() - written
        stats.joint_actions += sum(len(node.edges) for node in level)
        stats.tokens += sum(len(c.ids) for node in level for group in node.completions.values() for c in group)
        level = [edge.child for node in level for edge in node.edges if edge.child is not None]
    return roots, stats


def _node(game: Game, visit: Visit, branch: tuple[int, ...], episode: EpisodeLike) -> Node:
    return Node(visit, branch, episode, game.acting(episode))


def _write(
    game: Game, team: Mapping[str, LLMPolicy], level: Sequence[Node], plan: RolloutPlan, executor: Executor | None
) -> None:
    """Fill in the completions of all nodes: one `generate` per distinct policy."""
    shown = [(game.messages(node.episode), game.prompts(node.episode)) for node in level]
    for node, (messages, prompts) in zip(level, shown, strict=True):
        node.prompts, node.messages = prompts, messages

    def write(policy: LLMPolicy, agents: tuple[str, ...]) -> None:
        places: list[tuple[Node, str]] = []
        requests: list[Request] = []
        for node, (messages, prompts) in zip(level, shown, strict=True):
            for agent in agents:
                if agent not in node.acting:
                    continue
                prompt = policy.encode(messages[agent] if policy.uses_chat else prompts[agent])
                places.append((node, agent))
                requests += [
                    Request(prompt, node.visit.draw_key(agent, (*node.branch, k), node.episode.turn))
                    for k in range(plan.num_generations)
                ]
        completions = policy.generate(requests)
        for place, (node, agent) in enumerate(places):
            start = place * plan.num_generations
            node.completions[agent] = completions[start : start + plan.num_generations]
            _check_finite(node, agent)

    run_each(distinct_policies(team), write, executor)


def _check_finite(node: Node, agent: str) -> None:
    if not all(math.isfinite(sum(completion.logprobs)) for completion in node.completions[agent]):
        raise NonFiniteError(
            f"Agent {agent!r} at turn {node.episode.turn} of task {node.visit.task.id!r} wrote from probabilities that "
            "are not finite: its weights or activations are NaN or infinite. Load the weights anew with a lower "
            "learning_rate, or use dtype='float32'."
        )


def run_each(
    owners: Sequence[tuple[T, tuple[str, ...]]], work: Callable[[T, tuple[str, ...]], R], executor: Executor | None
) -> list[R]:
    """Call `work(owner, agents)` for each distinct policy (or critic), side by side if there is an executor."""
    if executor is None or len(owners) <= 1:
        return [work(owner, agents) for owner, agents in owners]
    futures = [executor.submit(work, owner, agents) for owner, agents in owners]
    try:
        return [future.result() for future in futures]
    finally:
        # Nobody goes on, nor saves, while a policy is still being changed.
        wait(futures)


def joint_indices(num_agents: int, plan: RolloutPlan) -> list[tuple[int, ...]]:
    """The joint actions of a node, each as one completion index per acting agent."""
    choices = range(plan.num_generations)
    if plan.joint_mode == "cross":
        return list(itertools.product(choices, repeat=num_agents))
    return [(k,) * num_agents for k in choices]


def _play(game: Game, level: Sequence[Node], plan: RolloutPlan) -> None:
    """Score all joint actions of all nodes in one `step_many`, and open the nodes they lead to."""
    tried = [(node, index) for node in level for index in joint_indices(len(node.acting), plan)]
    moves = [
        (
            node.episode,
            {agent: node.completions[agent][k].text for agent, k in zip(node.acting, index, strict=True)},
        )
        for node, index in tried
    ]
    outcomes = game.step_many(moves)
    for (node, _), outcome in zip(tried, outcomes, strict=True):
        if abs(outcome.reward) > LARGEST_REWARD:
            raise RewardError(
                f"Task {node.visit.task.id!r} at turn {node.episode.turn} of agents {', '.join(node.acting)} has the "
                f"reward {outcome.reward}; float32 computes with none beyond {LARGEST_REWARD:g}. Scale the rewards."
            )
    per_node: dict[int, list[tuple[tuple[int, ...], EpisodeLike]]] = {}
    for (node, index), outcome in zip(tried, outcomes, strict=True):
        per_node.setdefault(id(node), []).append((index, outcome))
    for node in level:
        results = per_node[id(node)]
        mean = sum(outcome.reward for _, outcome in results) / len(results)
        over = plan.prune_above is not None and mean > plan.prune_above
        for number, (index, outcome) in enumerate(results):
            last = outcome.done or over or outcome.turn == plan.max_turns
            child = None if last else _node(game, node.visit, (*node.branch, number), outcome)
            assert outcome.score is not None
            node.edges.append(Edge(index, outcome.reward, outcome.score, child))
