"""ClassEval by a team: agents complete one class together, each a part of its methods.

- Agents: ``coder_1``, ``coder_2`` and so on (``num_agents``, default 2). All write at the same time and see the same
  skeleton; each knows its number and how many they are. ``assignment="self_select"`` (default): each chooses its
  methods; ``"partition"``: a deal of the episode's seed says which are whose, and others are not taken.
- Observation: task and skeleton; from the second turn on also the feedback: ``"plain"`` (a request to revise),
  ``"passed"``, ``"levels"`` (syntax, tests, methods written twice), ``"diagnosis"`` (missing and broken methods, and
  which methods failing tests use), ``"group"`` (the class as merged), ``"personal"`` (who wrote which methods) or
  ``"expert"`` (edits by a model behind an OpenAI-compatible endpoint, which reads everybody's code and the diagnosis:
  ``expert_model="NAME"``, ``expert_base_url="http://..."``; the diagnosis if it gives no answer). No test is shown.
- Action: any text; methods are found by their syntax, in a class or bare, in fences or not. Of several agents' code for
  a method, that of the first agent whose code compiles is taken. A class may import the standard library, and numpy
  where its skeleton imports it.
- Reward: in ``[-1, 6]``, 0 if the class does not compile; else 2 x share of methods with code that compiles, 4 x share
  of tests passed (if any method has code), less the share of methods that more than one agent wrote. As published, a
  method of a docstring alone compiles: one agent's echo of the skeleton earns the 2.
- Episode end: after ``max_turns`` joint actions (default 1).
- The class and its tests run in ``comlrl_envs.sandbox``, in two processes.
- Metrics: ``tests_num`` of ``tests_den`` passed, ``compiles`` (the merged class, be it all stubs), ``covered``,
  ``overlap``, ``timeouts``, ``success`` (all tests passed, no method written twice), ``collaboration_score`` (the
  oldest reward, [0, 10]: 3 if it compiles, as empty replies do, 5 for tests, and 2 for tests weighted by the agents
  they bring together) and ``expert_failed`` (an expert was asked and gave no answer); per agent ``methods`` and
  ``characters``.
- Data: ClassEval (CC BY-NC 4.0), of whose 100 classes the published slices hold 66 to train and 16 to evaluate. Of
  these, those that need packages other than numpy or fail as published are left out and not made up for: 55 and 15 are
  played. Rows such as ``{"skeleton": "class A: ...", "test": "import unittest ..."}``. Demo set: 64 train and 32 eval
  classes written for this project (MIT).
- Channel: what ``"group"`` and ``"personal"`` show of teammates, and what an ``"expert"`` repeats of them; none in the
  other modes, which tell of teammates only which methods are theirs, missing or written twice.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> kwargs = {"source": "demo", "num_agents": 3}
    >>> env = comlrl_envs.make("coding/classeval", **kwargs)
    >>> _ = env.reset(seed=0, options={"task": "Depth"})
    >>> one = "def multiplies(y): return y * 7"
    >>> two = "def gives(row): return len(row)"
    >>> three = "def takes(z): return z - 8"
    >>> codes = dict(zip(env.agents, (one, two, three)))
    >>> env.step(codes)[1]["coder_1"]
    6.0
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from comlrl_envs.assemble import build_env
from comlrl_envs.coding import expert, feedback, scoring
from comlrl_envs.coding.class_merge import ClassFacts, class_facts, merge, read_reply
from comlrl_envs.coding.class_skeleton import (
    REMEMBERED,
    Skeleton,
    agents_by_test,
    imports_of,
    methods_by_test,
    partition,
    read_skeleton,
)
from comlrl_envs.coding.consulting import Consulting
from comlrl_envs.coding.replies import extract
from comlrl_envs.coding.rows import class_row
from comlrl_envs.coding.verdicts import Outcomes, judge
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import InfrastructureError, one_of, positive_int
from comlrl_envs.sandbox import Job, Limits, Sandbox, Verdict
from comlrl_envs.scenario import Actions, Score, State, Step
from comlrl_envs.sources import loader
from comlrl_envs.tasks import Row

FEEDBACK = feedback.CLASS_MODES
"""Modes that ask nobody; ``expert.MODE`` asks a model."""
ASSIGNMENTS = ("self_select", "partition")
RULES = "Reply with Python code only: each of your methods whole, with its signature and decorators."


@dataclass(frozen=True)
class Completing(State):
    """A class to complete, its tests, whose methods are whose, and what each agent is told.

    Attributes:
        source: The module with the class.
        class_name: Its name.
        targets: Methods to write.
        test: ``unittest`` source.
        tests: Number of its tests.
        solution: The whole class, or "" if the row has none.
        shares: By agent, methods that are dealt to it; () where each chooses, and for one agent alone.
    """

    source: str
    class_name: str
    targets: tuple[str, ...]
    test: str
    tests: int
    solution: str = ""
    shares: tuple[tuple[str, ...], ...] = ()
    turn: int = 0
    news: tuple[str, ...] = ()

    @property
    def skeleton(self) -> Skeleton:
        """The class as the merge takes it."""
        return Skeleton(self.source, self.class_name, self.targets)


@dataclass(frozen=True)
class ClassEval(Consulting):
    """Rules of the game; see the module.

    Attributes:
        max_turns: Joint actions of an episode, >= 1.
        feedback: ``"plain"``, ``"passed"``, ``"levels"``, ``"diagnosis"``, ``"group"``, ``"personal"`` or
            ``"expert"``.
        num_agents: Agents that write.
        assignment: ``"self_select"`` (each chooses its methods) or ``"partition"`` (they are dealt).
        reward: The one preset of this game.
        backend: Of the sandbox: ``"auto"``, ``"bwrap"`` or ``"fork"``.
        workers: Programs that run at once at most; 0: one a processor.
        cpu_seconds: CPU time of a test, and of the definitions.
    """

    max_turns: int = 1
    feedback: str = "diagnosis"
    num_agents: int = 2
    assignment: str = "self_select"
    reward: str = "published"
    backend: str = "auto"
    workers: int = 0
    cpu_seconds: float = 5.0
    expert_model: str = ""
    expert_base_url: str = ""
    expert_key_variable: str = expert.KEY_VARIABLE
    expert_retries: int = expert.RETRIES

    presets = ("published",)
    terms = scoring.CLASS_TERMS
    metrics = (
        "tests_num", "tests_den", "compiles", "covered", "overlap", "timeouts", "collaboration_score", "success",
        expert.FAILED,
    )  # fmt: skip
    agent_metrics = ("methods", "characters")
    reward_range = (scoring.CLASS_MINIMUM, scoring.CLASS_MAXIMUM)

    def __post_init__(self) -> None:
        """Check the settings."""
        one_of("feedback", self.feedback, (*FEEDBACK, expert.MODE))
        one_of("assignment", self.assignment, ASSIGNMENTS)
        one_of("reward", self.reward, self.presets)
        for name in ("max_turns", "num_agents"):
            positive_int(name, vars(self)[name])
        Sandbox(self.backend, self.workers)
        Limits(self.cpu_seconds)
        _ = self.expert

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """``coder_1`` to ``coder_n``."""
        return tuple(f"coder_{number + 1}" for number in range(self.num_agents))

    @property
    def channel(self) -> bool:  # type: ignore[override]
        """Whether agents may be shown what others wrote; an expert may repeat what it reads."""
        return self.feedback in ("group", "personal", expert.MODE)

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The class of a row, its methods dealt if they are."""
        skeleton, tests = _class_of(item["skeleton"], item["class_name"], item["test"])
        shares: tuple[tuple[str, ...], ...] = ()
        if self.assignment == "partition" and self.num_agents > 1:
            shares = tuple(partition(skeleton.targets, self.agents, int(rng.integers(2**31))).values())
        solution = item.get("solution_code") or ""
        return Completing(skeleton.source, skeleton.class_name, skeleton.targets, item["test"], tests, solution, shares)

    def brief(self, state: State, agent: str) -> str:
        """The rule of form, who writes what, and the skeleton."""
        assert isinstance(state, Completing)
        place = self.agents.index(agent)
        team = f"You are coder {place + 1} of {self.num_agents} who complete the class {state.class_name} together."
        targets, rules = ", ".join(state.targets), RULES
        if self.num_agents == 1:
            told = f"Complete the class {state.class_name}. The methods to write are {targets}."
        elif not state.shares:
            told = (
                f"{team} The methods to write are {targets}. Each is to be written once: choose your share of them by "
                "your number, and leave the others to your teammates."
            )
        elif own := state.shares[place]:
            told = f"{team} Write these methods, and no others: {', '.join(own)}."
        else:
            told, rules = team, feedback.NOTHING_TO_WRITE
        return f"{told}\n{rules}\n\n{state.source.rstrip()}"

    def observe(self, state: State, agent: str) -> str:
        """Nothing at first, then the feedback on the last class."""
        assert isinstance(state, Completing)
        return state.news[self.agents.index(agent)] if state.news else ""

    def advance_many(self, pairs: Sequence[tuple[State, Actions]]) -> Sequence[Step | InfrastructureError]:
        """Merge and run all classes at once, and score them."""
        played = [(state, actions) for state, actions in pairs if isinstance(state, Completing)]
        read: dict[int, tuple[ClassFacts, Job | None]] = {}

        def jobs(places: Iterable[int]) -> Iterator[Job]:
            """A joint action is read while the classes of those before it run."""
            for place in places:
                state, actions = played[place]
                facts = self._facts(state, actions)
                job = self._job(state, facts)
                read[place] = facts, job
                if job is not None:
                    yield job

        outcomes: dict[Job, Verdict | InfrastructureError] = {}
        for packages, places in _by_packages([state.source for state, _ in played]).items():
            outcomes |= judge(Sandbox(self.backend, self.workers, packages), jobs(places))
        steps = [self._step(*each, *read[place], outcomes) for place, each in enumerate(played)]
        return self.consulted(steps, lambda place, news: self._question(*played[place], news))

    def _question(self, state: Completing, actions: Actions, news: tuple[str, ...]) -> expert.Question:
        """What the expert is asked."""
        parts = [expert.Part(agent, f"the methods of {agent}", expert.written(extract(actions[agent])), report)
                 for agent, report in zip(self.agents, news, strict=True)]  # fmt: skip
        return expert.Question(state.source, tuple(parts))

    def _facts(self, state: Completing, actions: Actions) -> ClassFacts:
        skeleton = state.skeleton
        written = {agent: read_reply(actions[agent], skeleton) for agent in self.agents}
        assigned = dict(zip(self.agents, state.shares, strict=True)) if state.shares else None
        merged = merge(skeleton, written, assigned)
        return class_facts(skeleton, written, merged, methods_by_test(state.test, state.targets), assigned)

    def _job(self, state: Completing, facts: ClassFacts) -> Job | None:
        if facts.merged.problem is not None:
            return None
        limits, setup, name = Limits(self.cpu_seconds), imports_of(state.source)[0], state.class_name
        return Job(facts.merged.source, (state.test,), (name,), setup, limits, kind="unittest", name=name)

    def _step(
        self, state: Completing, actions: Actions, facts: ClassFacts, job: Job | None, outcomes: Outcomes
    ) -> Step | InfrastructureError:
        verdict: Verdict | None = None
        if job is not None:
            outcome = outcomes[job]
            if isinstance(outcome, InfrastructureError):
                return outcome
            verdict = outcome
        merged = facts.merged
        terms = scoring.class_published(len(state.targets), len(merged.valid), len(merged.overlap), verdict)
        turn = state.turn + 1
        news: tuple[str, ...] = ()
        if turn < self.max_turns:
            mode = "diagnosis" if self.feedback == expert.MODE else self.feedback
            news = tuple(feedback.class_feedback(mode, agent, facts, verdict) for agent in self.agents)
        score = Score(terms, self._measures(state, facts, verdict), self._by_agent(facts, actions))
        return Step(replace(state, turn=turn, news=news), score)

    def _measures(self, state: Completing, facts: ClassFacts, verdict: Verdict | None) -> dict[str, float]:
        merged, methods = facts.merged, len(state.targets)
        passed = 0 if verdict is None or not verdict.defined else verdict.passed
        together = scoring.class_collaboration(verdict, agents_by_test(state.test, merged.authors))
        return {
            "tests_num": float(passed),
            "tests_den": float(state.tests),
            "compiles": float(merged.problem is None),
            "covered": len(merged.valid) / methods,
            "overlap": len(merged.overlap) / methods,
            "timeouts": 0.0 if verdict is None else float(sum(test.outcome == "timeout" for test in verdict.tests)),
            "collaboration_score": sum(together.values()),
            "success": float(passed == state.tests and not merged.overlap),
            expert.FAILED: 0.0,
        }

    def _by_agent(self, facts: ClassFacts, actions: Actions) -> dict[str, dict[str, float]]:
        return {
            "methods": {agent: float(len(names)) for agent, names in facts.written.items()},
            "characters": {agent: float(len(actions[agent])) for agent in self.agents},
        }

    def blank(self, reply: str) -> str:
        """Nothing, where teammates are shown what is in a reply."""
        return "" if self.channel else reply

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """The row's solution, dealt among the agents; None where it has none."""
        assert isinstance(state, Completing)
        if not state.solution:
            return None
        shares = state.shares or tuple(state.targets[place :: self.num_agents] for place in range(self.num_agents))
        whole = read_reply(state.solution, state.skeleton)
        beside = [*whole.module, *(source for key, source in whole.methods.items() if key not in state.targets)]
        written = {
            agent: [whole.methods[key] for key in share if key in whole.methods]
            for agent, share in zip(self.agents, shares, strict=True)
        }
        # What the solution has besides the methods to write is nobody's share: the first agent brings it along.
        written[self.agents[0]] = [*beside, *written[self.agents[0]]]
        return {agent: "\n\n".join(source.rstrip() for source in sources) for agent, sources in written.items()}

    @property
    def floors(self) -> Mapping[str, float]:  # type: ignore[override]
        """An echo holds every stub, a team of them each twice, and stubs pass a few tests."""
        return {"empty": 0.0, "echo": 0.6 + (1.0 if self.num_agents > 1 else 2.0), "random": 0.0}


def from_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A checked row; see ``rows.class_row``.

    Raises:
        KeyError, TypeError, ValueError: The row cannot be played.
    """
    fields = class_row(row)
    _class_of(fields["skeleton"], fields["class_name"], fields["test"])
    return fields


@functools.lru_cache(maxsize=REMEMBERED)
def _class_of(source: str, class_name: str, test: str) -> tuple[Skeleton, int]:
    """The class to complete, and the number of its tests."""
    skeleton = read_skeleton(source, class_name)
    return skeleton, len(methods_by_test(test, skeleton.targets))


def _by_packages(sources: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    """The places of skeletons, by the packages that they need."""
    found: dict[tuple[str, ...], list[int]] = {}
    for place, source in enumerate(sources):
        found.setdefault(imports_of(source)[1], []).append(place)
    return found


def demo_rows(split: str) -> Iterable[Row]:
    """The shipped classes of a split."""
    from comlrl_envs.coding.demo import classes

    return classes.rows(split)


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    load = loader("coding/classeval", demo_rows)
    return build_env(ClassEval, load, kwargs, name="coding/classeval", parse=from_row)
