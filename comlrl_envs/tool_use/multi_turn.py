"""A user's requests, one after the other, for agents who each hold some of the functions of a stateful world.

- Agents: ``lead`` and ``helper`` (``num_agents`` 2 to 4: ``helper_1`` and so on; default 2); 1: ``lead`` alone.
- Observation: the documents of its functions, one in JSON a line; then in each turn the user's request, what its own
  calls returned (``result_chars`` of each, default 1,000), the teammates' messages, and with ``feedback="errors"``
  (default; ``"plain"``: without) what was wrong with its calls. With ``reads="lead"`` (default) the lead alone reads
  what the user says; ``"all"``: everybody. Agents own the functions of different classes; where the gold calls of a
  task use one class only, ``single="turn"`` (default) lets the agents take turns request by request, ``"function"``
  deals the functions of the class. A function may be missing until later; who owns it is then shown its document.
- Action: calls with literal arguments, in Python, one a line, or in JSON, and ``<message>...</message>`` for the
  teammates (``message_chars`` at most, default 600). An agent's calls run in their order, the agents' one after the
  other; a call to a function that is not its own does not run.
- A request has ``rounds`` joint actions (default 2), fewer if nobody calls or says anything in one. Every call runs
  through an allow-list, on a world of the episode's own.
- Reward: paid when a request ends, in ``[0, 1]``: 0.6 if it is right + 0.1 if something was called and the world's
  state is the one after the gold calls + 0.1 x share of the gold calls' results among all results so far + 0.2 x
  similarity of the calls to the gold ones (best one-to-one). Right is what the Berkeley leaderboard's two checks say:
  something was called, the state of every class is equal, and no gold result is missing. A request without gold calls
  (what it needs is missing) pays 1 for silence, and 0 if anything was called.
- Episode end: after the last request (``num_requests`` at most; default all), or ``max_turns`` joint actions (16).
- Metrics: ``success`` (all requests right), ``right_num`` of ``requests_den``, ``state``, ``responses_num`` of
  ``responses_den``, ``progress``, all of the current request; ``calls``, ``rejected`` (not run), ``errors``; per agent
  ``calls`` and ``message_chars``.
- Data: multi-turn part of the Berkeley Function Calling Leaderboard v4 (Apache-2.0), tasks and classes from the package
  ``bfcl-eval`` 2026.3.23; takes the extra ``tools``. ``dataset=``: ``"base"`` (default), ``"miss_func"``,
  ``"miss_param"``, ``"long_context"``. Demo set: 64 train and 32 eval tasks of two requests for three small machines,
  written for this project (MIT).
- Channel: messages.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make("tool_use/multi_turn", source="demo")
    >>> observations, _ = env.reset(seed=0, options={"task": "train-0"})
    >>> request = observations["lead"].splitlines()[-1]
    >>> request
    'Request 1: book a table at Rome and look up games'
    >>> observations["helper"].splitlines()[-1]
    'Request 1.'
    >>> book = 'book_table(place="Rome")'
    >>> lead = f"<message>{request}</message> {book}"
    >>> _ = env.step({"lead": lead, "helper": ""})
    >>> look = {"lead": "", "helper": 'find_word(word="games")'}
    >>> env.step(look)[1]["lead"]
    1.0
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from comlrl_envs.assemble import build_env
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, one_of, positive_int
from comlrl_envs.scenario import Actions, Scenario, Score, State, Step
from comlrl_envs.tagged_text import shown
from comlrl_envs.tool_use import ownership
from comlrl_envs.tool_use.calls import read_calls
from comlrl_envs.tool_use.demo.errands import errands
from comlrl_envs.tool_use.errand import Errand, Judged, Said
from comlrl_envs.tool_use.functions import problems
from comlrl_envs.tool_use.matching import argument_score
from comlrl_envs.tool_use.messages import blanked, parted
from comlrl_envs.tool_use.rows import parse_episode
from comlrl_envs.tool_use.sets import tool_loader
from comlrl_envs.tool_use.story import Story, story
from comlrl_envs.tool_use.worlds import play, same

FEEDBACK = ("plain", "errors")
READS = ("lead", "all")
LEAD = "lead"
NEWS = "The functions that were missing are there now; go on with the last request."
"""What stands for the words of a user who only waited."""


@dataclass(frozen=True)
class MultiTurn(Scenario):
    """Rules of the game; see the module.

    Attributes:
        dataset: Name of the real set that is played where rows are not given.
        num_agents: 1 to 4.
        max_turns: Joint actions of an episode, >= 1.
        rounds: Joint actions of a request, >= 1.
        num_requests: Requests of a task that are played; None for all.
        reads: Who reads what the user says, one of ``READS``.
        single: How one class is parted, one of ``ownership.SINGLE``.
        feedback: One of ``FEEDBACK``.
        message_chars: Characters of a message that teammates are shown.
        result_chars: Characters of a result that its caller is shown.
    """

    dataset: str = "base"
    num_agents: int = 2
    max_turns: int = 16
    rounds: int = 2
    num_requests: int | None = None
    reads: str = LEAD
    single: str = ownership.BY_TURN
    feedback: str = "errors"
    message_chars: int = 600
    result_chars: int = 1000

    reward_range = (0.0, 1.0)
    terms = ("right", "state", "responses", "progress")
    metrics = (
        "success", "right_num", "requests_den", "state", "responses_num", "responses_den", "progress", "calls",
        "rejected", "errors",
    )  # fmt: skip
    agent_metrics = ("calls", "message_chars")
    floors = {"empty": 0.2, "echo": 0.2, "random": 0.2}  # noqa: RUF012  # a plain attribute of the base class

    def __post_init__(self) -> None:
        """Check the settings."""
        one_of("reads", self.reads, READS)
        one_of("single", self.single, ownership.SINGLE)
        one_of("feedback", self.feedback, FEEDBACK)
        for name in ("num_agents", "max_turns", "rounds", "message_chars", "result_chars"):
            positive_int(name, vars(self)[name])
        if self.num_requests is not None:
            positive_int("num_requests", self.num_requests)
        if self.num_agents > 4:
            raise OptionError(f"num_agents={self.num_agents}; expected 2 to 4, or 1 who holds every function.")

    @property
    def agents(self) -> tuple[str, ...]:  # type: ignore[override]
        """``lead`` and the helpers."""
        helpers = self.num_agents - 1
        return (LEAD, *(("helper",) if helpers == 1 else (f"helper_{place + 1}" for place in range(helpers))))

    @property
    def channel(self) -> bool:  # type: ignore[override]
        """Whether helpers hear of a request through the lead alone, in time to do something."""
        return self.num_agents > 1 and self.reads == LEAD and self.rounds > 1 and self.max_turns > 1

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        """The world's beginning, and who holds what."""
        task = json.dumps({key: value for key, value in item.items() if key != "id"}, ensure_ascii=False)
        told = story(task)
        # A world that cannot begin is the row's fault, and is told before anybody acts.
        play(told.setup, (), ())
        held, baton = ownership.shares(told, self.num_agents, self.single, rng)
        return Errand(task=task, held=held, baton=baton, voices=self._informed(told, 0, (Said(),) * self.num_agents))

    def _informed(self, told: Story, request: int, voices: Sequence[Said]) -> tuple[Said, ...]:
        """The voices once those who read what the user says have read a request."""
        readers = self.agents if self.reads == "all" else self.agents[:1]
        return tuple(
            replace(voice, told=(*voice.told, request)) if agent in readers else voice
            for agent, voice in zip(self.agents, voices, strict=True)
        )

    def _last(self, told: Story) -> int:
        """Number of requests that are played."""
        count = len(told.requests)
        return count if self.num_requests is None else min(count, self.num_requests)

    def _owns(self, state: Errand, place: int) -> bool:
        """Whether an agent's calls run in the current request."""
        return state.baton < 0 or (state.baton + state.request) % self.num_agents == place

    def brief(self, state: State, agent: str) -> str:
        """The role, the form and the functions there are from the start."""
        assert isinstance(state, Errand)
        told, place = story(state.task), self.agents.index(agent)
        documents = [told.functions[name].shown() for name in state.held[place] if told.since[name] == 0]
        task = "\n".join(self._task(state, told, place, 0))
        return (
            f"{self._role(state, agent)}\n\nYour functions:\n" + ("\n".join(documents) or "(none yet)") + f"\n\n{task}"
        )

    def _task(self, state: Errand, told: Story, place: int, request: int) -> list[str]:
        """What is to be done: whose calls run, and what the user says."""
        lines = []
        if state.baton >= 0:
            own = (state.baton + request) % self.num_agents == place
            lines.append("Your calls run in this request." if own else "Only a teammate's calls run in this request.")
        reads = place == 0 or self.reads == "all"
        return [*lines, f"Request {request + 1}: {self._words(told, request)}" if reads else f"Request {request + 1}."]

    def _role(self, state: Errand, agent: str) -> str:
        calls = (
            "Write calls to your functions in Python, one a line, every argument with its name and a literal value. "
            "Where what a request needs is missing, call nothing."
        )
        if self.num_agents == 1:
            return f"You carry out a user's requests. {calls}"
        who = "You alone read what the user says." if agent == LEAD else "The lead alone reads what the user says."
        turns = " Who may call changes from request to request." if state.baton >= 0 else ""
        return (
            f"You are {agent}, one of {self.num_agents} who carry out a user's requests. "
            f"{who if self.reads == LEAD else 'All of you read what the user says.'} Each of you has functions of its "
            f"own and sees only what its own calls return; each request has {self.rounds} turns.{turns}\n{calls} Write "
            f"<message>what the others should know</message>, {self.message_chars} characters at most, beside them."
        )

    def prompt_fields(self, state: State, agent: str) -> Mapping[str, Any]:
        """For templates of ``prompts=``: ``documents``, ``signatures``, and the first ``request``, if it is read."""
        assert isinstance(state, Errand)
        told, place = story(state.task), self.agents.index(agent)
        own = [told.functions[name] for name in state.held[place] if told.since[name] == 0]
        return {
            "documents": "\n".join(each.shown() for each in own),
            "signatures": ", ".join(f"{each.name}({', '.join(each.parameters)})" for each in own),
            "request": told.requests[0] if 0 in state.voices[place].told else "",
        }

    def observe(self, state: State, agent: str) -> str:
        """The request, new functions, results, messages and errors."""
        assert isinstance(state, Errand)
        told, place = story(state.task), self.agents.index(agent)
        if not state.turn:
            return ""
        own = state.voices[place]
        lines = list(own.results)
        if self.feedback == "errors":
            lines += own.errors
        lines += [
            f"{name}: {voice.message}"
            for name, voice in zip(self.agents, state.voices, strict=True)
            if name != agent and voice.message
        ]
        if state.round == 0:
            new = [name for name in state.held[place] if told.since[name] == state.request > 0]
            lines += [f"New function: {told.functions[name].shown()}" for name in new]
        lines += self._task(state, told, place, state.request)
        return "\n".join(lines)

    def _words(self, told: Story, request: int) -> str:
        return told.requests[request] or NEWS

    def advance(self, state: State, actions: Actions) -> Step:
        """Run the calls, hand on the messages, judge the request."""
        assert isinstance(state, Errand)
        told = story(state.task)
        after = self._carried_out(state, told, actions)
        judged = self._judged(after, told)
        silent = after.attempts == state.attempts and not any(voice.message for voice in after.voices)
        ended = after.round >= self.rounds or silent
        over = after.turn >= self.max_turns or (ended and after.request + 1 >= self._last(told))
        score = self._score(after, judged, told, paid=ended or over)
        if ended and not over:
            after = replace(
                after,
                request=after.request + 1,
                round=0,
                attempts=0,
                right=(*after.right, judged.right),
                voices=self._informed(told, after.request + 1, after.voices),
            )
        return Step(after, score, over)

    def _carried_out(self, state: Errand, told: Story, actions: Actions) -> Errand:
        """The state after everybody's calls ran, one agent after the other, and messages were handed on."""
        log, voices, attempts, rejected = state.log, [], state.attempts, state.rejected
        for place, agent in enumerate(self.agents):
            message, rest = parted(actions[agent])
            own = [told.functions[name] for name in state.held[place] if told.since[name] <= state.request]
            read = read_calls(rest, own)
            names = {each.name for each in own} if self._owns(state, place) else set()
            run = [call for call in read.calls if call.name in names]
            results = play(told.setup, [text for _, text, _ in log], run)
            made = [(state.request, call.text, result) for call, result in zip(run, results, strict=True)]
            log, attempts = (*log, *made), attempts + len(read.calls)
            rejected += len(read.calls) - len(run)
            errors = [*read.errors, *(problem for call in read.calls for problem in problems(call, own))]
            if not self._owns(state, place):
                errors += [f"not_run: {call.text:.60}" for call in read.calls]
            voices.append(self._said(state.voices[place], shown(message), made, errors))
        return replace(
            state,
            turn=state.turn + 1,
            round=state.round + 1,
            log=log,
            attempts=attempts,
            rejected=rejected,
            voices=self._heard(state, told, voices),
        )

    def _said(self, before: Said, message: str, made: Sequence[tuple[int, str, str]], errors: Iterable[str]) -> Said:
        """An agent's voice after a reply with this message, these calls and errors."""
        said = message[: self.message_chars]
        return Said(
            message=said,
            results=tuple(f"{text} -> {result[: self.result_chars]}" for _, text, result in made),
            errors=tuple(dict.fromkeys(errors)),
            calls=before.calls + len(made),
            characters=before.characters + len(said),
            told=before.told,
        )

    def _heard(self, state: Errand, told: Story, voices: Sequence[Said]) -> tuple[Said, ...]:
        """The voices, once the helpers know of the requests that the lead passed on."""
        if self.reads == "all":
            return tuple(voices)
        due = self._due(told, state.request)
        passed = due in voices[0].message and state.request not in voices[-1].told
        return (voices[0], *(replace(v, told=(*v.told, state.request)) if passed else v for v in voices[1:]))

    def _due(self, told: Story, request: int) -> str:
        """What the lead has to pass on."""
        return shown(self._words(told, request))[: self.message_chars]

    def _judged(self, state: Errand, told: Story) -> Judged:
        gold = told.gold[state.request]
        if not gold:
            silent = state.attempts == 0
            return Judged(silent, silent, 0, 0, float(silent))
        mine = [text for number, text, _ in state.log if number == state.request]
        equal = bool(mine) and same(
            told.setup, tuple(text for _, text, _ in state.log), told.gold_before(state.request + 1)
        )
        had = Counter(result for _, _, result in state.log)
        results = Counter(told.gold_results(state.request))
        found = sum((had & results).values())
        progress = argument_score(
            [told.call(text) for text in mine], list(told.functions.values()), told.answers(state.request)
        )
        return Judged(equal and found == len(gold), equal, found if mine else 0, len(gold), progress)

    def _score(self, state: Errand, judged: Judged, told: Story, *, paid: bool) -> Score:
        last = self._last(told)
        right = sum(state.right) + judged.right
        metrics = {
            "success": float(right == last),
            "right_num": float(right),
            "requests_den": float(last),
            "state": float(judged.state),
            "responses_num": float(judged.responses),
            "responses_den": float(judged.expected),
            "progress": judged.progress,
            "calls": float(len(state.log)),
            "rejected": float(state.rejected),
            "errors": float(sum(len(voice.errors) for voice in state.voices)),
        }
        by_agent = {
            "calls": {a: float(voice.calls) for a, voice in zip(self.agents, state.voices, strict=True)},
            "message_chars": {a: float(voice.characters) for a, voice in zip(self.agents, state.voices, strict=True)},
        }
        terms = judged.terms if paid else dict.fromkeys(self.terms, 0.0)
        return Score(terms, metrics, by_agent)

    def oracle(self, state: State) -> Mapping[str, str] | None:
        """The gold calls that are due, by those who own them and know of the request, which the lead passes on."""
        assert isinstance(state, Errand)
        told = story(state.task)
        left = [(text, told.call(text).name) for text in self._remaining(state, told)]
        owners = [self._owner(state, name) for _, name in left]
        known = [self._knows(state, owner) for owner in owners]
        now = ownership.in_order(owners, [told.class_of[name] for _, name in left], known)
        lines: list[list[str]] = [[] for _ in self.agents]
        if not all(known) and self.channel and state.round + 1 < self.rounds:
            lines[0].append(f"<message>{self._due(told, state.request)}</message>")
        for place in now:
            lines[owners[place]].append(left[place][0])
        return {agent: "\n".join(own) for agent, own in zip(self.agents, lines, strict=True)}

    def _remaining(self, state: Errand, told: Story) -> list[str]:
        """Gold calls of the current request that did not run yet."""
        done = Counter(text for number, text, _ in state.log if number == state.request)
        left = []
        for text in told.gold[state.request]:
            if done[text]:
                done[text] -= 1
            else:
                left.append(text)
        return left

    def _owner(self, state: Errand, name: str) -> int:
        if state.baton >= 0:
            return (state.baton + state.request) % self.num_agents
        return next(place for place, own in enumerate(state.held) if name in own)

    def _knows(self, state: Errand, place: int) -> bool:
        return state.request in state.voices[place].told

    def reachable(self, state: State) -> float:
        """What the oracle's move is paid."""
        replies = {**dict.fromkeys(self.agents, ""), **(self.oracle(state) or {})}
        return sum(self.advance(state, replies).score.terms.values())

    def blank(self, reply: str) -> str:
        """The reply without its message."""
        return blanked(reply) if self.channel else reply


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    load = tool_loader("tool_use/multi_turn", kwargs.get("dataset", MultiTurn.dataset), errands)
    return build_env(MultiTurn, load, kwargs, name="tool_use/multi_turn", parse=parse_episode)
