"""What the games about one function share: helpers write a part, main writes the function that is tested.

The module of each id says where its rows come from; here are rules, briefs, scoring and feedback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from comlrl_envs.assemble import build_env
from comlrl_envs.coding import expert, feedback, scoring
from comlrl_envs.coding.consulting import Consulting
from comlrl_envs.coding.problems import from_row, parameters, problem_of, solution_of
from comlrl_envs.coding.program import stub_helper, team_program
from comlrl_envs.coding.replies import Extracted, extract
from comlrl_envs.coding.scoring import TeamFacts
from comlrl_envs.coding.test_blocks import Split
from comlrl_envs.coding.verdicts import Outcomes, judge
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import InfrastructureError, one_of, positive_int
from comlrl_envs.sandbox import Job, Limits, Sandbox, Verdict
from comlrl_envs.scenario import Actions, Score, State, Step
from comlrl_envs.sources import loader
from comlrl_envs.tasks import Row

if TYPE_CHECKING:
    from comlrl_envs.coding.demo.functions import Kind

MAIN, HELPER, AUX = "main", "helper", "aux"
FEEDBACK = feedback.FUNCTION_MODES
"""Modes that ask nobody; ``expert.MODE`` asks a model."""
RULES = "Reply with Python code only."


@dataclass(frozen=True)
class Coding(State):
    """A problem, its tests, and what each agent is told about the last program.

    Attributes:
        name: The row's, for messages about it.
        prompt: The problem, as agents read it.
        entry_point: The function that is tested.
        parameters: Its parameters, which the helpers share.
        preamble: What the problem itself defines.
        setup: Trusted source that the tests need.
        scoring: Tests that count.
        told: Tests that feedback reports on; none where nothing is told, and then all tests score.
        disjoint: Whether feedback may show those.
        answer: What each agent could write; () if the row has no answer for such a team.
    """

    name: str
    prompt: str
    entry_point: str
    parameters: str
    preamble: str
    setup: str
    scoring: tuple[str, ...]
    told: tuple[str, ...]
    disjoint: bool
    answer: tuple[tuple[str, str], ...] = ()
    turn: int = 0
    news: tuple[str, ...] = ()


@dataclass(frozen=True)
class Play:
    """One joint action: what it says of itself, and what is to be run.

    Attributes:
        facts: Of the replies.
        job: Program and scoring tests; None where there is nothing to run.
        stubbed: The program without the value of one helper each, where the preset asks for it.
        told: Program and feedback tests, where they are told.
    """

    facts: TeamFacts
    job: Job | None = None
    stubbed: tuple[Job, ...] = ()
    told: Job | None = None

    def jobs(self) -> Iterator[Job]:
        """Everything to be run."""
        yield from (job for job in (self.job, *self.stubbed, self.told) if job is not None)


@dataclass(frozen=True)
class FunctionTask(Consulting):
    """Rules that the games about one function share.

    Attributes:
        max_turns: Joint actions of an episode, >= 1.
        feedback: ``"plain"``, ``"passed"``, ``"levels"``, ``"diagnosis"`` or ``"expert"``.
        num_agents: Main, and one helper for each agent more.
        reward: Name of the preset.
        backend: Of the sandbox: ``"auto"``, ``"bwrap"`` or ``"fork"``.
        workers: Programs that run at once at most; 0: one a processor.
        cpu_seconds: CPU time of a test, and of a program's definitions.
    """

    max_turns: int = 1
    feedback: str = "diagnosis"
    num_agents: int = 2
    reward: str = "published"
    backend: str = "auto"
    workers: int = 0
    cpu_seconds: float = 3.0
    expert_model: str = ""
    expert_base_url: str = ""
    expert_key_variable: str = expert.KEY_VARIABLE
    expert_retries: int = expert.RETRIES

    presets = ("published", "strict")
    terms = scoring.FUNCTION_TERMS
    metrics = (
        "tests_num", "tests_den", "compiles", "helper_called", "thin_wrapper", "timeouts", "success", expert.FAILED,
    )  # fmt: skip
    agent_metrics = ("usable", "characters")

    def __post_init__(self) -> None:
        """Check the settings."""
        one_of("feedback", self.feedback, (*FEEDBACK, expert.MODE))
        one_of("reward", self.reward, self.presets)
        for name in ("max_turns", "num_agents"):
            positive_int(name, vars(self)[name])
        Sandbox(self.backend, self.workers)
        Limits(self.cpu_seconds)
        _ = self.expert

    @property
    def channel(self) -> bool:  # type: ignore[override]
        """Whether agents may be shown what others wrote: an expert reads it all, and may repeat it."""
        return self.feedback == expert.MODE

    def blank(self, reply: str) -> str:
        """Nothing, where an expert may tell teammates what is in a reply."""
        return "" if self.channel else reply

    @property
    def functions(self) -> dict[str, str | None]:
        """By agent the name of the function that it writes; None for main, whose function the problem names."""
        helpers = self.num_agents - 1
        numbers = [""] if helpers == 1 else [f"_{number}" for number in range(1, helpers + 1)]
        return {**{f"{HELPER}{number}": f"{AUX}{number}" for number in numbers}, MAIN: None}

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """Helpers, then main."""
        return tuple(self.functions)

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """0 to 4, or to 2.1 for main alone."""
        return 0.0, scoring.maximum(self.num_agents - 1)

    @property
    def tells(self) -> bool:
        """Whether agents are told of tests, which then do not score."""
        return self.max_turns > 1 and self.feedback != "plain"

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The problem of a row; see ``problems.from_row``."""
        problem = problem_of(item)
        split = problem.split if self.tells else Split(problem.tests, (), True)
        return Coding(
            str(item.get("id") or item.get("task_id") or item["entry_point"]),
            item["prompt"],
            item["entry_point"],
            parameters(item["signature"]),
            problem.preamble,
            problem.setup,
            split.scoring,
            split.feedback,
            split.disjoint,
            self._answer(item),
        )

    def _answer(self, item: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """What a row says that each agent could write: a helper and main, or main alone."""
        if self.num_agents == 2 and AUX in item and MAIN in item:
            return (HELPER, item[AUX]), (MAIN, item[MAIN])
        solution = solution_of(item) if self.num_agents == 1 else None
        return () if solution is None else ((MAIN, solution),)

    def brief(self, state: State, agent: str) -> str:
        """The rule of form, the part of the agent, and the problem."""
        assert isinstance(state, Coding)
        name = self.functions[agent]
        if name is not None:
            call = f"{name}({state.parameters})"
            mates = "teammate" if self.num_agents == 2 else "teammates"
            request = f"{state.prompt.rstrip()}\n\nWrite a helper {call} that does a part of this for your {mates}."
            return f"{RULES}\n\n{request}"
        helpers = [f"{name}({state.parameters})" for name in self.functions.values() if name is not None]
        offer = {0: "", 1: f"The helper {''.join(helpers)} does a part of the work. "}.get(
            len(helpers), f"The helpers {', '.join(helpers)} do parts of the work. "
        )
        return f"{RULES}\n\n{offer}Complete this function:\n{state.prompt.rstrip()}"

    def observe(self, state: State, agent: str) -> str:
        """Nothing at first, then the feedback on the last program."""
        assert isinstance(state, Coding)
        return state.news[self.agents.index(agent)] if state.news else ""

    def advance_many(self, pairs: Sequence[tuple[State, Actions]]) -> Sequence[Step | InfrastructureError]:
        """Run all programs at once and score them."""
        played: list[tuple[Coding, Actions, Play]] = []

        def jobs() -> Iterator[Job]:
            """A joint action is read while the programs of those before it run."""
            for state, actions in pairs:
                assert isinstance(state, Coding)
                played.append((state, actions, self._play(state, actions)))
                yield from played[-1][2].jobs()

        outcomes = judge(Sandbox(self.backend, self.workers), jobs())
        steps = [self._step(state, actions, play, outcomes) for state, actions, play in played]
        return self.consulted(steps, lambda place, news: self._question(*played[place][:2], news))

    def _question(self, state: Coding, actions: Actions, news: tuple[str, ...]) -> expert.Question:
        """What the expert is asked: main's report names all functions, so it is the only one."""
        names = self.functions.items()
        parts = [expert.Part(name or MAIN, f"the function {name or state.entry_point}",
                             expert.written(extract(actions[agent])), "" if name else report)
                 for (agent, name), report in zip(names, news, strict=True)]  # fmt: skip
        return expert.Question(state.prompt, tuple(parts))

    def _play(self, state: Coding, actions: Actions) -> Play:
        replies = {agent: extract(actions[agent]) for agent in self.agents}
        helpers = {name: replies[agent] for agent, name in self.functions.items() if name is not None}
        facts = scoring.team_facts(helpers, replies[MAIN], state.entry_point)
        if not facts.runs:
            return Play(facts)
        job = self._job(state, helpers, replies[MAIN], state.scoring)
        stubbed: tuple[Job, ...] = ()
        if self.reward == "strict":
            stubbed = tuple(
                self._job(state, {**helpers, name: Extracted(stub_helper(helpers[name].code, name))}, replies[MAIN],
                          state.scoring)
                if usage.called else job
                for name, usage in zip(helpers, facts.usage, strict=True)
            )  # fmt: skip
        told: Job | None = None
        if self.tells and state.turn + 1 < self.max_turns:
            told = self._job(state, helpers, replies[MAIN], state.told)
        return Play(facts, job, stubbed, told)

    def _job(self, state: Coding, helpers: Mapping[str, Extracted], main: Extracted, tests: tuple[str, ...]) -> Job:
        sources = {name: reply.code for name, reply in helpers.items()}
        program = team_program(state.preamble, sources, main.code, state.entry_point)
        return Job(program, tests, (state.entry_point,), state.setup, Limits(self.cpu_seconds), name=state.name)

    def _step(self, state: Coding, actions: Actions, play: Play, outcomes: Outcomes) -> Step | InfrastructureError:
        verdicts: dict[Job, Verdict] = {}
        for job in play.jobs():
            outcome = outcomes[job]
            if isinstance(outcome, InfrastructureError):
                return outcome
            verdicts[job] = outcome
        verdict = None if play.job is None else verdicts[play.job]
        if self.reward == "strict":
            terms = scoring.strict(play.facts, verdict, [verdicts[job] for job in play.stubbed])
        else:
            terms = scoring.published(play.facts, verdict)
        news: tuple[str, ...] = ()
        if state.turn + 1 < self.max_turns:
            news = self._news(state, play.facts, None if play.told is None else verdicts[play.told])
        score = Score(terms, self._measures(state, play.facts, verdict), self._by_agent(play.facts, actions))
        return Step(replace(state, turn=state.turn + 1, news=news), score)

    def _news(self, state: Coding, facts: TeamFacts, told: Verdict | None) -> tuple[str, ...]:
        split = Split(state.scoring, state.told, state.disjoint)
        names = [name or state.entry_point for name in self.functions.values()]
        mode = "diagnosis" if self.feedback == expert.MODE else self.feedback
        return tuple(feedback.function_feedback(mode, name, facts, told, split) for name in names)

    def _measures(self, state: Coding, facts: TeamFacts, verdict: Verdict | None) -> dict[str, float]:
        passed = 0 if verdict is None or not verdict.defined else verdict.passed
        slow = 0 if verdict is None else sum(test.outcome == "timeout" for test in verdict.tests)
        return {
            "tests_num": float(passed),
            "tests_den": float(len(state.scoring)),
            "compiles": float(facts.problem is None),
            "helper_called": float(any(usage.called for usage in facts.usage)),
            "thin_wrapper": float(facts.wrapper),
            "timeouts": float(slow),
            "success": float(passed == len(state.scoring)),
            expert.FAILED: 0.0,
        }

    def _by_agent(self, facts: TeamFacts, actions: Actions) -> dict[str, dict[str, float]]:
        found = [*facts.helpers, facts.main]
        return {
            "usable": {agent: float(each.usable) for agent, each in zip(self.agents, found, strict=True)},
            "characters": {agent: float(len(actions[agent])) for agent in self.agents},
        }

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """The row's answer of a helper and main, or its solution for main alone; None where it has none."""
        assert isinstance(state, Coding)
        return dict(state.answer) or None

    # No echo of a prompt and no noise holds a function that returns something.
    floors = {"empty": 0.0, "echo": 0.0, "random": 0.0}  # noqa: RUF012  # a plain attribute of the base class


def function_env(kind: Kind, kwargs: Mapping[str, Any]) -> TextEnv:
    """The environment of ``coding/KIND``.

    Args:
        kind: Its demo set, and its name in the family.
        kwargs: The caller's keyword arguments.
    """

    def demo_rows(split: str) -> Iterable[Row]:
        from comlrl_envs.coding.demo import functions

        return functions.rows(kind, split)

    name = f"coding/{kind}"
    return build_env(FunctionTask, loader(name, demo_rows), kwargs, name=name, parse=from_row)
