"""Scenarios whose feedback an expert may give: the settings, and what agents read with an answer and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from comlrl_envs.coding.expert import FAILED, KEY_VARIABLE, MODE, RETRIES, Advice, Expert, Question
from comlrl_envs.coding.feedback import REVISE
from comlrl_envs.errors import InfrastructureError, OptionError
from comlrl_envs.scenario import Scenario, Step

NO_ANSWER = "The expert gave no answer. This is the report on the team's code instead."


class Consulting(Scenario):
    """A scenario of one program a team, whose feedback may come from an expert.

    Its states have ``news``, by agent, empty where no turn follows; its metrics name ``FAILED``. The settings are
    fields of the subclass:

    Attributes:
        feedback: The mode.
        expert_model: Name of the model that ``feedback="expert"`` asks; settings may follow it, as in
            ``"NAME?temperature=0.3&max_tokens=2048&timeout=60"``.
        expert_base_url: Its OpenAI-compatible server; ``""`` takes ``OPENAI_BASE_URL``, or else OpenAI's own.
        expert_key_variable: Environment variable that holds its key; ``""`` for a server that asks for none.
        expert_retries: Further questions after a reply without edits, >= 0.
    """

    feedback: str
    expert_model: str
    expert_base_url: str
    expert_key_variable: str
    expert_retries: int

    @property
    def expert(self) -> Expert | None:
        """Who is asked; None in the other modes. Raises ``OptionError``, see ``chosen_expert``."""
        settings = (self.expert_model, self.expert_base_url, self.expert_key_variable, self.expert_retries)
        return chosen_expert(self.feedback, *settings)

    @property
    def deterministic(self) -> bool:  # type: ignore[override]
        """Not so where a model is asked."""
        return self.feedback != MODE

    def consulted(
        self, steps: list[Step | InfrastructureError], ask: Callable[[int, tuple[str, ...]], Question]
    ) -> list[Step | InfrastructureError]:
        """Steps with the expert's edits in place of their news; as they are in the other modes.

        Args:
            steps: Their news are what agents read if the expert gives no answer.
            ask: What the expert is asked of a step, given its place and its news. It is called where a turn follows.
        """
        expert = self.expert
        if expert is None:
            return steps
        questions: dict[int, Question] = {}
        for place, step in enumerate(steps):
            if isinstance(step, Step) and (news := _state(step).news):
                questions[place] = ask(place, news)
        advice = dict(zip(questions, expert.ask_many(list(questions.values())), strict=True))
        return [
            _advised(step, questions[place], advice[place]) if place in advice and isinstance(step, Step) else step
            for place, step in enumerate(steps)
        ]


def _state(step: Step) -> Any:
    """The state, of which only ``Consulting`` knows that it has news."""
    return step.state


def _advised(step: Step, question: Question, advice: Advice) -> Step:
    state = _state(step)
    if advice.edits:
        pairs = zip(question.parts, advice.edits, strict=True)
        news = tuple(f"An expert read the team's code and says of {p.title}:\n{edit}\n{REVISE}" for p, edit in pairs)
    else:
        news = tuple(f"{NO_ANSWER}\n{report}" for report in state.news)
    metrics = {**step.score.metrics, FAILED: float(not advice.edits)}
    return replace(step, state=replace(state, news=news), score=replace(step.score, metrics=metrics))


def chosen_expert(feedback: str, model: str, base_url: str, key_variable: str, retries: int) -> Expert | None:
    """The expert of a scenario's settings; None in a mode that asks nobody.

    Raises:
        OptionError: The mode ``"expert"`` has no model, another mode has settings of an expert, or a setting is bad.
    """
    if feedback == MODE:
        if not isinstance(model, str) or not model.strip():
            raise OptionError(
                f"feedback='expert' asks a model, and expert_model={model!r} names none. Give its name, such as "
                "expert_model='gpt-4o-mini', and for another server than OpenAI's its address, such as "
                "expert_base_url='http://localhost:8000/v1'; or take feedback='diagnosis', which asks nobody."
            )
        return Expert(model, base_url, key_variable, retries)
    given = {
        "expert_model": (model, ""),
        "expert_base_url": (base_url, ""),
        "expert_key_variable": (key_variable, KEY_VARIABLE),
        "expert_retries": (retries, RETRIES),
    }
    named = [name for name, (value, default) in given.items() if value != default]
    if named:
        raise OptionError(f"{', '.join(named)} go with feedback='expert' alone; here feedback={feedback!r}.")
    return None
