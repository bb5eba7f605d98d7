"""A request that takes several calls, which callers issue side by side without seeing each other's.

- Agents: ``caller_1`` to ``caller_n`` (``num_agents`` 2 to 8; default 2), all at once. ``num_agents=1``: ``caller``.
- Observation: its part, the documents of functions, one in JSON a line, and the request. ``role_mode`` tells the parts:
  ``"self_select"`` (default: some of it), ``"odd_even"`` (by number), ``"split_by_order"`` (runs), ``"by_function"``
  (each is shown some of the functions, so that nobody can finish alone). From the second turn on, with
  ``feedback="errors"`` (default), also what was wrong with the form of its calls, and which of them a teammate issued
  too; ``"plain"``: the request to revise alone. Nothing tells what is right.
- Action: calls with literal arguments, in Python, one a line, or in JSON; ``[]`` or nothing for none. Calls are read,
  never run; each turn's calls take the place of those before.
- Reward: a call is right if the leaderboard's checker accepts it: the name, all that is required, nothing unknown,
  types and values. ``reward="published"`` (default), in ``[-0.4, 1.2]`` of which 1.1 can be had: 0.05 if anything is
  called + 0.25 x F1 of names + 0.35 x similarity of arguments (best one-to-one) + 0.10 x closeness in number + 0.15 x
  closeness to the split of ``role_mode`` + 0.20 if the set is exact - 0.20 x calls that a teammate issued too - 0.15 x
  share of agents who issued none of their part - 0.05 x calls too many - 0.05 x calls issued again, the last four by
  gold call. ``reward="strict"``, in ``[0, 1]``: 0.6 if the set is exact and nothing was issued twice + 0.3 x F1 of
  right calls + 0.1 x mean share of an agent's calls that are right and its alone (who is silent: 1 if all is done).
  Where no function fits the request silence is paid in full, and no call anything.
- Episode end: after ``max_turns`` joint actions (default 1).
- Metrics: ``success`` (the set is exact, nothing issued twice), ``exact``, ``hits_num`` of ``hits_den`` gold calls,
  ``calls``, ``overlap``, ``duplicates``, ``foreign`` (calls to functions that their agent was not shown), ``errors``;
  per agent ``calls`` and ``format`` (its reply was calls, or nothing, and no more).
- Data: Berkeley Function Calling Leaderboard v4 (Apache-2.0), from the package ``bfcl-eval`` 2026.3.23. ``dataset=``:
  ``"native"`` (default: parallel and parallel_multiple), ``"parallel"``, ``"parallel_multiple"``, ``"live"``,
  ``"multiple"``, ``"simple_python"``, ``"irrelevance"``; rows whose gold calls are known to be wrong are left out, and
  with ``by_function`` those that call one function only. Demo set: 64 train and 32 eval requests written for this
  project (MIT). Rows of your own: ``{"request", "functions": [documents], "answers": [{name: {argument: [accepted
  values]}}]}``; ``""`` among the values: may be left out.
- Channel: none; callers hear nothing from each other.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("tool_use/parallel", source="demo")
    >>> observations, _ = env.reset(seed=0, options={"task": "train-0"})
    >>> observations["caller_1"].splitlines()[-1]
    'Request: book a table at Rome and buy some roads'
    >>> first = 'book_table(place="Rome")'
    >>> second = 'buy(item="roads")'
    >>> rewards = env.step({"caller_1": first, "caller_2": second})[1]
    >>> round(rewards["caller_1"], 9)
    1.1
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from comlrl_envs.assemble import build_env
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, TaskError, one_of, positive_int
from comlrl_envs.scenario import Actions, Scenario, Score, State, Step
from comlrl_envs.tool_use import roles, team_calls
from comlrl_envs.tool_use.calls import Call, read_calls
from comlrl_envs.tool_use.demo.requests import requests
from comlrl_envs.tool_use.functions import Function, function, problems
from comlrl_envs.tool_use.gold import accepted_call
from comlrl_envs.tool_use.matching import Answer
from comlrl_envs.tool_use.rows import parse
from comlrl_envs.tool_use.sets import tool_loader

FEEDBACK = ("plain", "errors")
REWARDS = ("published", "strict")


@dataclass(frozen=True, kw_only=True)
class Request(State):
    """A request and what was wrong with the last calls for it.

    Attributes:
        request: What is asked.
        documents: By agent the documents of its functions, in JSON.
        answers: Gold calls, in JSON.
        turn: Joint actions played.
        errors: By agent what was wrong with its last reply, in words for it.
    """

    request: str
    documents: tuple[tuple[str, ...], ...]
    answers: str
    turn: int = 0
    errors: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Parallel(Scenario):
    """Rules of the game; see the module.

    Attributes:
        dataset: Name of the real set that is played where rows are not given.
        num_agents: Callers, 1 to 8.
        role_mode: How a request is parted.
        max_turns: Joint actions of an episode, >= 1.
        feedback: One of ``FEEDBACK``.
        reward: One of ``REWARDS``.
    """

    dataset: str = "native"
    num_agents: int = 2
    role_mode: str = roles.SELF_SELECT
    max_turns: int = 1
    feedback: str = "errors"
    reward: str = "published"

    metrics = ("success", "exact", "hits_num", "hits_den", "calls", "overlap", "duplicates", "foreign", "errors")
    agent_metrics = ("calls", "format")
    presets = REWARDS
    channel = False

    def __post_init__(self) -> None:
        """Check the settings."""
        one_of("role_mode", self.role_mode, roles.ROLE_MODES)
        one_of("feedback", self.feedback, FEEDBACK)
        one_of("reward", self.reward, REWARDS)
        positive_int("max_turns", self.max_turns)
        if positive_int("num_agents", self.num_agents) > 8:
            raise OptionError(f"num_agents={self.num_agents}; expected 1 to 8 callers.")

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """``caller_1`` to ``caller_n``."""
        return tuple(f"caller_{place + 1}" for place in range(self.num_agents)) if self.num_agents > 1 else ("caller",)

    @property
    def terms(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the preset."""
        return team_calls.PUBLISHED if self.reward == "published" else team_calls.STRICT

    @property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """That of the preset."""
        return (-0.4, 1.2) if self.reward == "published" else (0.0, 1.0)

    @property
    def floors(self) -> Mapping[str, float]:  # type: ignore[override]
        """Whoever is silent, or copies, is paid for requests that nothing fits."""
        return {"empty": 0.2, "echo": 0.2, "random": 0.2}

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The request, and who is shown which functions."""
        documents = {str(each["name"]): json.dumps(each, ensure_ascii=False) for each in item["functions"]}
        names = [name for answer in item["answers"] for name in answer]
        held = [list(documents)] * self.num_agents
        if self.role_mode == roles.BY_FUNCTION and self.num_agents > 1:
            if not partible(item):
                raise TaskError(
                    f"Task {item.get('id', '?')!r} calls one function only, which cannot be dealt to two agents. Leave "
                    "it out, or choose another role_mode."
                )
            held = roles.deal(list(documents), names, self.num_agents, rng)
        return Request(
            request=item["request"],
            documents=tuple(tuple(documents[name] for name in own) for own in held),
            answers=json.dumps(item["answers"], ensure_ascii=False),
            errors=((),) * self.num_agents,
        )

    def brief(self, state: State, agent: str) -> str:
        """The part, the form, the functions and the request."""
        assert isinstance(state, Request)
        place = self.agents.index(agent)
        documents = "\n".join(state.documents[place]) or "(none)"
        team = "You issue function calls for a request. "
        if self.num_agents > 1:
            team = (
                f"You are {agent}, one of {self.num_agents} who issue function calls for a request at the same time, "
                "without seeing each other's. "
            )
        return (
            f"{team}{roles.role_text(self.role_mode, place, self.num_agents)}\n"
            "Write calls alone, in Python, one a line, every argument with its name and a literal value; write [] for "
            "no call, also where no function fits the request.\n\n"
            f"Functions:\n{documents}\n\nRequest: {state.request}"
        )

    def prompt_fields(self, state: State, agent: str) -> Mapping[str, Any]:
        """For templates of ``prompts=``: ``documents``, in JSON, and ``signatures``, such as ``f(a, b), g(c)``."""
        assert isinstance(state, Request)
        own = self._shown(state)[self.agents.index(agent)]
        return {
            "documents": "\n".join(state.documents[self.agents.index(agent)]),
            "signatures": ", ".join(f"{each.name}({', '.join(each.parameters)})" for each in own),
        }

    def observe(self, state: State, agent: str) -> str:
        """What was wrong with the form of its calls, and which of them are a teammate's too."""
        assert isinstance(state, Request)
        if not state.turn:
            return ""
        own = state.errors[self.agents.index(agent)] if self.feedback == "errors" else ()
        ask = "Write all your calls again, better if you can; they take the place of the last ones."
        return "\n".join([f"Turn {state.turn + 1} of {self.max_turns}.", *own, ask])

    def advance(self, state: State, actions: Actions) -> Step:
        """Read the calls, compare them with gold."""
        assert isinstance(state, Request)
        shown = self._shown(state)
        read = [read_calls(actions[agent], own) for agent, own in zip(self.agents, shown, strict=True)]
        calls = [each.calls for each in read]
        answers = _answers(state)
        made = team_calls.issued(calls, shown, answers)
        seen = team_calls.compared(made, shown, answers)
        errors = tuple(
            tuple(dict.fromkeys([*each.errors, *_faults(each.calls, own), *_repeated(each.calls, made.shared)]))
            for each, own in zip(read, shown, strict=True)
        )
        after = replace(state, turn=state.turn + 1, errors=errors)
        return Step(after, self._score(made, seen, state, errors), after.turn >= self.max_turns)

    def _score(
        self, made: team_calls.Issued, seen: team_calls.Comparison, state: Request, errors: Sequence[Sequence[str]]
    ) -> Score:
        paid = self.reward == "published"
        terms = team_calls.published(made, seen, self._due(state)) if paid else team_calls.strict(made, seen)
        metrics = {
            "success": float(seen.exact and not made.overlap and not made.duplicates),
            "exact": float(seen.exact),
            "hits_num": float(len(seen.hits)),
            "hits_den": float(seen.gold),
            "calls": float(seen.calls),
            "overlap": float(made.overlap),
            "duplicates": float(made.duplicates),
            "foreign": float(len(made.foreign)),
            "errors": float(sum(map(len, errors))),
        }
        by_agent = {
            "calls": dict(zip(self.agents, (float(len(own)) for own in made.by_agent), strict=True)),
            "format": dict(zip(self.agents, (float(not own) for own in errors), strict=True)),
        }
        return Score(terms, metrics, by_agent)

    def _shown(self, state: Request) -> list[tuple[Function, ...]]:
        return [tuple(_function(text) for text in own) for own in state.documents]

    def _share(self, state: Request) -> tuple[int, ...]:
        owners = [[each.name for each in own] for own in self._shown(state)]
        return roles.share(self.role_mode, [name for name, _ in _answers(state)], owners)

    def _due(self, state: Request) -> list[int]:
        """By agent how many of the gold calls are its part."""
        places = self._share(state)
        return [places.count(place) for place in range(self.num_agents)]

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """The gold calls, each by the agent whose part it is."""
        assert isinstance(state, Request)
        lines: list[list[str]] = [[] for _ in self.agents]
        functions = [each for own in self._shown(state) for each in own]
        for place, answer in zip(self._share(state), _answers(state), strict=True):
            lines[place].append(accepted_call(answer, functions).text)
        return {agent: "\n".join(own) or "[]" for agent, own in zip(self.agents, lines, strict=True)}

    def reachable(self, state: State) -> float:
        """All that the preset pays."""
        return 1.1 if self.reward == "published" else 1.0


def _answers(state: Request) -> list[Answer]:
    return [each for answer in json.loads(state.answers) for each in answer.items()]


@functools.lru_cache(maxsize=4096)
def _function(document: str) -> Function:
    return function(json.loads(document))


def _faults(calls: Sequence[Call], functions: Sequence[Function]) -> Iterable[str]:
    return (problem for call in calls for problem in problems(call, functions))


def _repeated(calls: Sequence[Call], shared: frozenset[str]) -> Iterable[str]:
    return (f"issued_twice: {call.text:.60}" for call in calls if call.text in shared)


def partible(row: Mapping[str, Any]) -> bool:
    """Whether the functions that a row's gold calls can be dealt so that no agent holds all of them."""
    return len({name for answer in row["answers"] for name in answer}) != 1


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    dealt = kwargs.get("role_mode") == roles.BY_FUNCTION
    playable = (lambda row: partible(parse(row))) if dealt else None
    load = tool_loader("tool_use/parallel", kwargs.get("dataset", Parallel.dataset), requests, playable)
    return build_env(Parallel, load, kwargs, name="tool_use/parallel", parse=parse)
