"""A sound game with a channel and with gold, and twins of it that break what a `Scenario` promises, one each."""

import dataclasses
import itertools
import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from comlrl_envs import OptionError, Scenario, Score, State, Step, TextEnv
from comlrl_envs.assemble import build_env, demo_only
from comlrl_envs.errors import positive_int

WORDS = (
    *("amber", "birch", "cedar", "dune", "ember", "frost", "grove", "heath", "islet", "jade", "knoll", "larch"),
    *("maple", "nook", "oasis", "pebble", "quarry", "reed", "slate", "thorn", "upland", "vale", "willow", "yarrow"),
)
FEEDBACK = ("plain",)


@dataclass(frozen=True)
class Desk(State):
    clue: str
    answer: str
    message: str = ""
    turn: int = 0


@dataclass(frozen=True)
class Relay(Scenario):
    """The reader is shown a clue and tells the writer; the writer, who sees only that, answers by the key book."""

    max_turns: int = 2
    feedback: str = "plain"
    agents = ("reader", "writer")
    reward_range = (0.0, 1.0)
    terms = ("answer",)
    metrics = ("success",)
    agent_metrics = ("characters",)
    floors: ClassVar[Mapping[str, float]] = {"empty": 0.0, "echo": 0.0, "random": 0.01}

    def __post_init__(self) -> None:
        positive_int("max_turns", self.max_turns)
        if self.feedback not in FEEDBACK:
            raise OptionError(f"feedback={self.feedback!r}; expected one of {FEEDBACK}.")

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        return Desk(item["clue"], item["answer"])

    def brief(self, state: State, agent: str) -> str:
        return f"Tell it in <m></m>: {state.clue}." if agent == "reader" else "Answer by the key book."

    def observe(self, state: State, agent: str) -> str:
        return f"The reader says: {state.message}" if agent == "writer" and state.turn else ""

    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        right = float(bool(state.message) and actions["writer"] == state.answer)
        said = re.search(r"<m>([^<]*)</m>", actions["reader"])
        lengths = {agent: float(len(actions[agent])) for agent in self.agents}
        after = dataclasses.replace(state, message=said[1] if said else "", turn=state.turn + 1)
        return Step(after, Score({"answer": right}, {"success": right}, {"characters": lengths}))

    def oracle(self, state: State) -> Mapping[str, str] | None:
        return {"reader": f"<m>{state.clue}</m>", "writer": state.answer if state.message else ""}

    def reachable(self, state: State) -> float:
        return float(bool(state.message))

    def blank(self, reply: str) -> str:
        return re.sub(r"<m>[^<]*</m>", "<m></m>", reply)


def check_row(row: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(row["clue"], str) or not isinstance(row["answer"], str):
        raise TypeError("'clue' and 'answer' are texts")
    return row


def rows(words: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"id": word, "clue": f"page of {word}", "answer": f"Key {word[::-1]}"} for word in words]


def coded_rows() -> list[dict[str, Any]]:
    """Rows with a number for gold, and a flag, which no canary can replace."""
    return [{**row, "code": 40 + place, "open": True} for place, row in enumerate(rows(WORDS[:6]))]


def relay_env(rules: type[Scenario] = Relay, shell: type[TextEnv] = TextEnv, **kwargs: Any) -> TextEnv:
    env = build_env(rules, demo_only(rows(WORDS[:12]), rows(WORDS[12:])), kwargs, name="toy/relay", parse=check_row)
    if shell is TextEnv:
        return env
    return shell(env.game, env.tasks, "toy/relay", kwargs.get("text_infos", False), env.render_mode)


COUNTER = itertools.count()


@dataclass(frozen=True)
class CountsCalls(Relay):
    def observe(self, state: State, agent: str) -> str:
        return f"Call {next(COUNTER)}."


@dataclass(frozen=True)
class SetOrder(Relay):
    def brief(self, state: State, agent: str) -> str:
        return " ".join(set(WORDS))


@dataclass(frozen=True)
class Remembers(Relay):
    log: list[str] = field(default_factory=list, compare=False)

    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        self.log.append(actions["reader"])
        return super().advance(state, actions)

    def observe(self, state: State, agent: str) -> str:
        return f"Heard so far: {len(self.log)} {self.log[-1:]}"


@dataclass(frozen=True)
class DrawsGlobally(Relay):
    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        random.random()
        return super().advance(state, actions)


@dataclass(frozen=True)
class SeedsNumpy(Relay):
    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        np.random.seed(0)
        return super().begin(item, rng)


@dataclass(frozen=True)
class MovingBrief(Relay):
    def brief(self, state: State, agent: str) -> str:
        return f"Turn {state.turn}."


@dataclass(frozen=True)
class Notes(State):
    clue: str
    answer: str
    message: str = ""
    turn: int = 0
    notes: Any = ()


@dataclass(frozen=True)
class KeepsLists(Relay):
    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        return Notes(item["clue"], item["answer"], notes=[])


@dataclass(frozen=True)
class ReadsNumbers(Relay):
    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        if actions["writer"].isdigit():
            int(actions["writer"])
        return super().advance(state, actions)


@dataclass(frozen=True)
class ReadsJson(Relay):
    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        try:
            json.loads(actions["writer"])
        except ValueError:
            pass
        return super().advance(state, actions)


@dataclass(frozen=True)
class NestedQuantifier(Relay):
    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        re.fullmatch(r"(a+)+", actions["writer"])
        return super().advance(state, actions)


@dataclass(frozen=True)
class LeaksInFeedback(Relay):
    def observe(self, state: State, agent: str) -> str:
        return f"Not {state.answer[4:].title()}!" if state.turn else ""


@dataclass(frozen=True)
class LeaksInBrief(Relay):
    def brief(self, state: State, agent: str) -> str:
        return f"{super().brief(state, agent)} (It is {state.answer}.)"


@dataclass(frozen=True)
class Safe(Relay):
    """The writer says a number; its message is of no use."""

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        return Desk(item["clue"], str(item["code"]))


@dataclass(frozen=True)
class ShowsNumber(Safe):
    def brief(self, state: State, agent: str) -> str:
        return f"{super().brief(state, agent)} It is {int(state.answer):,}."


@dataclass(frozen=True)
class LeaksLate(Relay):
    def brief(self, state: State, agent: str) -> str:
        leak = f" ({state.answer})" if state.clue.endswith(WORDS[7]) else ""
        return f"{super().brief(state, agent)}{leak}"


@dataclass(frozen=True)
class PaysSilence(Relay):
    """Silence earns all, which neither the oracle nor ``reachable`` know of."""

    floors: ClassVar[Mapping[str, float]] = {"empty": 1.0}

    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        step = super().advance(state, actions)
        paid = float(not any(actions.values()))
        return dataclasses.replace(step, score=dataclasses.replace(step.score, terms={"answer": paid}))

    def reachable(self, state: State) -> float:
        return 0.0


@dataclass(frozen=True)
class Secretive(Relay):
    """Nobody is shown anything of the reader, whose whole reply ``blank`` empties, and whose clue is paid for."""

    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        step = super().advance(state, actions)
        paid = float(state.clue in actions["reader"])
        return dataclasses.replace(step, score=dataclasses.replace(step.score, terms={"answer": paid}))

    def observe(self, state: State, agent: str) -> str:
        return ""

    def reachable(self, state: State) -> float:
        return 1.0

    def blank(self, reply: str) -> str:
        return ""


@dataclass(frozen=True)
class Overhears(Relay):
    """Claims to have no channel, and blanks nothing, yet the writer is shown the message."""

    channel = False

    def blank(self, reply: str) -> str:
        return reply


@dataclass(frozen=True)
class Shouts(Relay):
    """Shows a long message over and over."""

    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        step = super().advance(state, actions)
        return dataclasses.replace(step, state=dataclasses.replace(step.state, message=actions["reader"] * 60))


@dataclass(frozen=True)
class CountsSuccesses(Relay):
    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        step = super().advance(state, actions)
        return dataclasses.replace(step, score=dataclasses.replace(step.score, metrics={"success": 7.0}))


@dataclass(frozen=True)
class Stumbles(Relay):
    """Raises, or returns a wrong value, in the method that is named; it does so late, where that is possible."""

    where: str = ""
    value: Any = "raise"

    def _stumble(self, method: str, right: Any) -> Any:
        if method != self.where:
            return right
        if self.value == "raise":
            raise ZeroDivisionError("seventh shelf")
        return self.value

    def begin(self, item: Mapping[str, Any], rng: np.random.Generator) -> State:
        return self._stumble("begin", super().begin(item, rng))

    def brief(self, state: State, agent: str) -> str:
        return self._stumble("brief", super().brief(state, agent))

    def observe(self, state: State, agent: str) -> str:
        return self._stumble("observe", super().observe(state, agent))

    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        return self._stumble("advance", super().advance(state, actions))

    def oracle(self, state: State) -> Mapping[str, str] | None:
        return self._stumble("oracle", super().oracle(state))

    def reachable(self, state: State) -> float:
        return self._stumble("reachable", super().reachable(state))

    def blank(self, reply: str) -> str:
        return self._stumble("blank", super().blank(reply))


@dataclass(frozen=True)
class BoundsByWord(Relay):
    floors: ClassVar[Mapping[str, Any]] = {"empty": "low"}


@dataclass(frozen=True)
class PoorOracle(Relay):
    def oracle(self, state: State) -> Mapping[str, str] | None:
        return {"reader": f"<m>{state.clue}</m>", "writer": "Key"}


@dataclass(frozen=True)
class KnowsHalf(Relay):
    def oracle(self, state: State) -> Mapping[str, str] | None:
        return super().oracle(state) if "r" in state.answer else None


@dataclass(frozen=True)
class BoundsShouting(Relay):
    floors: ClassVar[Mapping[str, float]] = {"shout": 0.0}


@dataclass(frozen=True)
class TimidReachable(Relay):
    def reachable(self, state: State) -> float:
        return 0.0


@dataclass(frozen=True)
class PaysForNothing(Relay):
    floors: ClassVar[Mapping[str, float]] = {"empty": 0.0}

    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        step = super().advance(state, actions)
        return dataclasses.replace(step, score=dataclasses.replace(step.score, terms={"answer": 0.5}))


@dataclass(frozen=True)
class UnknownFloor(Relay):
    floors: ClassVar[Mapping[str, float]] = {"emty": 0.0}


@dataclass(frozen=True)
class BlanksNothing(Relay):
    def blank(self, reply: str) -> str:
        return reply


@dataclass(frozen=True)
class KnowsAnyway(Relay):
    """The writer's gold reply does not depend on what it was told."""

    def advance(self, state: State, actions: Mapping[str, str]) -> Step:
        step = super().advance(state, actions)
        right = float(actions["writer"] == state.answer)
        return dataclasses.replace(step, score=dataclasses.replace(step.score, terms={"answer": right}))

    def oracle(self, state: State) -> Mapping[str, str] | None:
        return {"reader": f"<m>{state.clue}</m>", "writer": state.answer}


@dataclass(frozen=True)
class DeniesItsChannel(Relay):
    channel = False


def ignores_keywords(prompts: Any = None, **kwargs: Any) -> TextEnv:
    return relay_env(**kwargs)


def swallows_keywords(**kwargs: Any) -> TextEnv:
    kwargs.pop("max_turn", None)
    return relay_env(**kwargs)
