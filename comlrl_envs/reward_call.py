"""Reward functions of the caller's, in the forms that CoMLRL's users already write.

How the function is called is decided once, from its signature. A ``TypeError`` raised inside it is the
caller's own and comes through as it is; nothing is ever called a second time in another form.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from comlrl_envs.errors import OptionError

RewardCallable: TypeAlias = Callable[..., Any]
Form: TypeAlias = Literal["agents", "prompts_first", "lists"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_KEYWORDS = ("batch_items", "prompts")


class RewardFunction:
    """A reward function and the form in which to call it.

    With N agents, each given as a list of completions (one entry a joint action), the forms are:

    - ``f(first, second, ...)``: N positional parameters, or ``*args``;
    - ``f(prompts, first, second, ...)``: N + 1 positional parameters;
    - ``f(completions)``: one positional parameter when N > 1, the list of the N lists.

    Parameters called ``batch_items`` (the rows) and ``prompts`` (what the first agent was shown), or
    ``**kwargs``, are filled by keyword.

    Args:
        func: Returns one number a joint action.
        num_agents: N.
    """

    def __init__(self, func: RewardCallable, num_agents: int) -> None:
        if not callable(func):
            raise OptionError(f"reward is a {type(func).__name__}; expected the name of a preset or a callable.")
        parameters = list(_signature(func, "reward").parameters.values())
        positional = [p for i, p in enumerate(parameters) if p.kind in _POSITIONAL and not _by_keyword(p, i)]
        unfilled = [
            p.name
            for p in parameters
            if p.kind is inspect.Parameter.KEYWORD_ONLY and p.default is p.empty and p.name not in _KEYWORDS
        ]
        if unfilled:
            raise OptionError(
                f"The reward needs the keyword {unfilled[0]!r}, which nothing fills; rows come as batch_items=, a list "
                "of mappings, and prompts as prompts=. Read the column there, or give the keyword a default."
            )
        self.func = func
        self.form: Form = _form(positional, parameters, num_agents)
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
        named = {p.name for p in parameters if p not in positional and p.kind is not inspect.Parameter.VAR_KEYWORD}
        self.keywords = tuple(
            k for k in _KEYWORDS if (open_ended or k in named) and (k, self.form) != ("prompts", "prompts_first")
        )

    @property
    def wants_prompts(self) -> bool:
        """Whether the function looks at prompts at all."""
        return self.form == "prompts_first" or "prompts" in self.keywords

    def __call__(self, completions: Sequence[list[str]], items: list[Mapping[str, Any]], prompts: list[str]) -> Any:
        """Call the function once.

        Args:
            completions: Per agent, one text a joint action.
            items: The row of each joint action.
            prompts: What the first agent was shown for each joint action; may be empty unless ``wants_prompts``.

        Returns:
            What the function returned; the game checks its length and values.
        """
        given = {"batch_items": items, "prompts": prompts}
        keywords = {name: given[name] for name in self.keywords}
        if self.form == "lists":
            return self.func(list(completions), **keywords)
        if self.form == "prompts_first":
            return self.func(prompts, *completions, **keywords)
        return self.func(*completions, **keywords)


class FeedbackFunction:
    """A feedback function ``f(prompt, agent_completions, num_agents, ...)`` that writes the next turn's prompts.

    It may also take ``prompt_history_per_agent`` and ``response_history_per_agent``: per agent, all its prompts
    and replies so far, this turn's included.

    Args:
        func: Returns N whole prompts, one an agent.
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        if not callable(func):
            raise OptionError(f"feedback is a {type(func).__name__}; expected a callable.")
        parameters = _signature(func, "feedback").parameters
        open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        histories = ("prompt_history_per_agent", "response_history_per_agent")
        self.func = func
        self.histories = tuple(name for name in histories if open_ended or name in parameters)

    def __call__(
        self, prompt: str, completions: list[str], prompt_history: list[list[str]], response_history: list[list[str]]
    ) -> Any:
        """Call the function once for one episode."""
        given = {"prompt_history_per_agent": prompt_history, "response_history_per_agent": response_history}
        return self.func(prompt, completions, len(completions), **{name: given[name] for name in self.histories})


def _signature(func: Callable[..., Any], role: str) -> inspect.Signature:
    try:
        return inspect.signature(func)
    except (TypeError, ValueError) as unreadable:
        raise OptionError(
            f"The signature of {role} {func!r} cannot be read; wrap it in a def with named parameters."
        ) from unreadable


def _by_keyword(parameter: inspect.Parameter, place: int) -> bool:
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        return False
    return parameter.name == "batch_items" or (
        parameter.name == "prompts" and (place > 0 or parameter.default is not inspect.Parameter.empty)
    )


def _form(positional: list[inspect.Parameter], parameters: list[inspect.Parameter], num_agents: int) -> Form:
    total = len(positional)
    required = sum(p.default is inspect.Parameter.empty for p in positional)
    led = bool(positional) and positional[0].name == "prompts"
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return "prompts_first" if led else "agents"
    # Required parameters speak first: f(a, b, scale=1.0) scores two agents, its scale is no third list.
    for count in (required, total):
        if count == num_agents and not led:
            return "agents"
    for count in (required, total):
        if count == num_agents + 1:
            return "prompts_first"
    if num_agents > 1 and not led and required <= 1 <= total:
        return "lists"
    raise OptionError(
        f"The reward takes {total} positional parameters for {num_agents} agents; expected {num_agents} (one list of "
        f"completions an agent), {num_agents + 1} (prompts first), or one (a list of the lists). "
        "Make settings keyword-only."
    )
