"""Feedback by an expert: a model behind an OpenAI-compatible endpoint says what each agent should change.

The expert reads the task, the code of all agents and reports that hold nothing of the tests that score. It replies
with a JSON object, a text for each agent, and an agent is shown its own text alone. All questions of a step are asked
at once, and what fails falls back in sight of everybody:

==============================================  =====================================================================
what comes back                                 what follows
==============================================  =====================================================================
an object with a text for each agent            the texts are the agents' news
any other reply                                 asked again, told what was wrong, ``retries`` times at most
none (time-out, 5xx, a refused request)         the agents read their reports instead and that there is no
                                                answer; the metric ``expert_failed`` is 1.0 and a warning is logged
key, account, model or address refused          ``OptionError`` if nothing of this expert was heard in the process
                                                yet: settings are to be mended; later on as no reply
==============================================  =====================================================================

An expert that says nothing costs no reward and ends no episode. Keys come from environment variables alone.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from comlrl_envs.coding.feedback import REVISE
from comlrl_envs.coding.json_reply import last_json_object
from comlrl_envs.coding.replies import Extracted
from comlrl_envs.errors import InfrastructureError, OptionError
from comlrl_envs.model_calls import Completion
from comlrl_envs.model_client import ModelClient
from comlrl_envs.policies.build import split_settings
from comlrl_envs.policies.openai import CLIENT_SETTINGS, PARAMETERS
from comlrl_envs.transcript import writable

MODE = "expert"
FAILED = "expert_failed"
"""Metric: 1.0 where an expert was asked and gave no answer of use."""
KEY_VARIABLE = "OPENAI_API_KEY"
RETRIES = 2

MOST_CODE_CHARACTERS = 8000
"""Characters of an agent's code that the expert reads."""
MOST_EDIT_CHARACTERS = 4000
"""Characters of a text that an agent is shown."""

_ALSO_ASKED = {
    name: kind
    for name, kind in {**CLIENT_SETTINGS, **PARAMETERS}.items()
    if name not in ("base_url", "key_variable")  # settings of the scenario
}
logger = logging.getLogger("comlrl_envs")

_heard: set[Expert] = set()


@dataclass(frozen=True)
class Part:
    """One agent's share of what the expert reads.

    Attributes:
        key: Names it in the expert's reply.
        title: What it is, such as ``"the function aux"``.
        code: What the agent wrote.
        report: What the agent would be told without an expert, which holds nothing of the tests that score; ``""``
            keeps it to the agent.
    """

    key: str
    title: str
    code: str
    report: str = ""


@dataclass(frozen=True)
class Question:
    """What an expert is asked about one team's code.

    Attributes:
        problem: The task, as agents read it.
        parts: The agents' shares, in the order of the agents; at least one.
    """

    problem: str
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Advice:
    """What came of a question.

    Attributes:
        edits: A text for each part, in order; () if there is no answer of use.
        problem: Why there is none; ``""`` if there is one.
    """

    edits: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Expert:
    """A model that is asked for edits; settings until the first question, connections as in ``ModelClient``.

    Attributes:
        model: Name that the server gives the model; settings follow a question mark, as in
            ``"MODEL?temperature=0.3&max_tokens=2048&timeout=60"``: those of ``ModelClient``, and parameters that are
            sent with each request.
        base_url: The server; see ``ModelClient``.
        key_variable: Environment variable that holds the key; see ``ModelClient``.
        retries: Further questions after a reply without edits. Requests without a reply are tried again by the
            client, see its ``max_retries``.
    """

    model: str
    base_url: str = ""
    key_variable: str = KEY_VARIABLE
    retries: int = RETRIES

    def __post_init__(self) -> None:
        """Check the settings."""
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise OptionError(f"expert_retries={self.retries!r}; expected an integer of at least 0.")
        try:
            _ = self.client
        except OptionError as bad:
            raise OptionError(f"The expert cannot be asked. {bad}") from None

    @property
    def client(self) -> ModelClient:
        """The client that asks."""
        model, given = split_settings(self.model, _ALSO_ASKED)
        parameters = {name: value for name, value in given.items() if name in PARAMETERS}
        settings = {name: value for name, value in given.items() if name in CLIENT_SETTINGS}
        return ModelClient(model, self.base_url, self.key_variable, parameters=parameters, **settings)

    def ask_many(self, questions: Sequence[Question]) -> list[Advice]:
        """Ask all at once; advice in the order of the questions.

        Raises:
            MissingExtraError: The package ``openai`` is not installed.
            OptionError: The server refuses the key, the account, the model or the address, or the key is missing,
                and the expert was not heard in this process before.
        """
        advice = [Advice()] * len(questions)
        waiting = list(range(len(questions)))
        for _ in range(1 + self.retries):
            replies = self._replies([prompt_of(questions[i], advice[i].problem) for i in waiting])
            for i, reply in zip(waiting, replies, strict=True):
                advice[i] = _advice(reply, questions[i])
            waiting = [
                i
                for i, reply in zip(waiting, replies, strict=True)
                if isinstance(reply, Completion) and not advice[i].edits
            ]
        failed = [each.problem for each in advice if not each.edits]
        if failed:
            logger.warning("The expert gave no answer on %d of %d programs: %s.", len(failed), len(advice), failed[0])
        return advice

    def _replies(self, prompts: list[str]) -> list[Completion | InfrastructureError]:
        if not prompts:
            return []
        try:
            replies = self.client.complete_many(prompts)
        except OptionError as refused:
            if self not in _heard:
                own = re.sub(r"\b(key_variable|base_url)\b", r"expert_\1", str(refused))
                raise OptionError(f"The expert cannot be asked. {own}") from refused
            # It has answered, so the settings are right: an account that runs dry must not end a long run.
            return [InfrastructureError("expert", str(refused))] * len(prompts)
        if any(isinstance(reply, Completion) for reply in replies):
            _heard.add(self)
        return replies


def prompt_of(question: Question, complaint: str = "") -> str:
    """The text that the expert is sent.

    Args:
        question: The task, the code and the reports.
        complaint: What was wrong with the reply before; ``""`` at first.
    """
    keys = ", ".join(f'"{part.key}"' for part in question.parts)
    shape = json.dumps({part.key: "..." for part in question.parts})
    blocks = [
        "You are an expert in Python who reviews what a team wrote. Each author wrote one part of a program without "
        "seeing the others'; you see all of it.",
        f"The task:\n{question.problem.strip()}",
    ]
    for part in question.parts:
        code = part.code.strip()
        shown = code if len(code) <= MOST_CODE_CHARACTERS else code[:MOST_CODE_CHARACTERS] + "\n..."
        blocks.append(f'"{part.key}", {part.title}:\n{_fenced(shown) if shown else "(there is no code)"}')
        if part.report:
            blocks.append(f"Its author is told:\n{part.report.removesuffix(REVISE).strip()}")
    blocks.append(
        f"Reply with one JSON object and nothing else: {shape}. Each text speaks to the author of that part, who reads "
        "no other text: a minimal implementation if the part is missing, short edits if it has to change, or "
        '"No change is needed." Write no assertions and no test cases.'
    )
    if complaint:
        blocks.append(f"Your last reply could not be used: {complaint}. Give a text for each of {keys}.")
    return writable("\n\n".join(blocks))


def read_edits(reply: str, keys: Sequence[str]) -> tuple[str, ...]:
    """The texts for ``keys`` in the last JSON object of a reply, cut to ``MOST_EDIT_CHARACTERS``.

    Raises:
        ValueError: There is no object, or it lacks a text for a key.
    """
    found = last_json_object(reply)
    if found is None:
        raise ValueError("it holds no JSON object")
    lacking = [key for key in keys if not isinstance(found.get(key), str) or not found[key].strip()]
    if lacking:
        raise ValueError(f"its last JSON object has no text for {', '.join(map(repr, lacking))}")
    texts = [writable(found[key].strip()) for key in keys]
    return tuple(t if len(t) <= MOST_EDIT_CHARACTERS else t[:MOST_EDIT_CHARACTERS] + " ..." for t in texts)


def written(reply: Extracted) -> str:
    """What the expert reads of a reply: its code, also what cannot be parsed."""
    return "\n\n".join(text.strip() for text in (reply.code, *(each.source for each in reply.broken)) if text.strip())


def _advice(reply: Completion | InfrastructureError, question: Question) -> Advice:
    if isinstance(reply, InfrastructureError):
        return Advice(problem=reply.reason)
    try:
        return Advice(read_edits(reply.text, [part.key for part in question.parts]))
    except ValueError as unusable:
        return Advice(problem=str(unusable))


def _fenced(code: str) -> str:
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
    return f"{ticks}python\n{code}\n{ticks}"
