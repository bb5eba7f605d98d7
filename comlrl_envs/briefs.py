"""The constant head of each agent's prompt: the scenario's own, or the caller's template or callable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from comlrl_envs.errors import OptionError, TaskError, closest
from comlrl_envs.scenario import Scenario, State
from comlrl_envs.tasks import Task

Writer: TypeAlias = str | Callable[[Mapping[str, Any]], str]
PromptOverride: TypeAlias = Writer | Sequence[Writer] | Mapping[str, Writer]


class Briefs:
    """Writes the briefs of an episode, once, at its start.

    Args:
        override: One writer for all agents, a sequence in agent order, or a mapping by agent (agents left out keep
            the scenario's brief); None keeps all. A writer is a template (``"Summarise: {text}"``) or a callable of
            the row, to which ``Scenario.prompt_fields`` adds what the agent alone is shown.
        agents: The agents' ids.
    """

    def __init__(self, override: PromptOverride | None, agents: tuple[str, ...]) -> None:
        self._agents = agents
        self._writers = _by_agent(override, agents)
        self._by_agent = isinstance(override, Mapping)

    @property
    def given(self) -> dict[str, Writer]:
        """The caller's writers, by agent."""
        return dict(self._writers)

    def of(self, task: Task, scenario: Scenario, state: State) -> tuple[str, ...]:
        """Per agent, its brief; raises ``TaskError`` if the row lacks a field of a template."""
        return tuple([self._one(agent, task, scenario, state) for agent in self._agents])

    def _one(self, agent: str, task: Task, scenario: Scenario, state: State) -> str:
        writer = self._writers.get(agent)
        if writer is None:
            return scenario.brief(state, agent)
        fields = {**task.fields, **scenario.prompt_fields(state, agent)}
        if not isinstance(writer, str):
            return checked_prompt(writer(fields), task.id, agent)
        try:
            return writer.format_map(fields)
        except KeyError as missing:
            if missing.args[0] in self._agents and not self._by_agent:
                raise OptionError(
                    f"The prompt template {writer!r} asks for a field {missing.args[0]!r}, which is an agent. For a "
                    f'template of each agent\'s own pass a mapping; on a command line, {{{agent}: "Say {{text}}"}}.'
                ) from missing
            raise TaskError(
                f"Task {task.id!r} has no field {missing.args[0]!r}, which the prompt template of {agent!r} asks for; "
                f"it has {sorted(fields)}. Write literal braces twice.{closest(missing.args[0], fields)}"
            ) from missing
        except (ValueError, IndexError, AttributeError) as bad:
            raise OptionError(
                f"The prompt template of {agent!r} cannot be filled ({bad}); name row fields in braces, such as "
                "'Summarise: {text}', and write literal braces twice."
            ) from bad


def checked_prompt(text: object, task_id: str, agent: str) -> str:
    """``text`` if it is a ``str``; raises ``TaskError`` naming the task and the agent."""
    if not isinstance(text, str):
        raise TaskError(f"Task {task_id!r}: the prompt of {agent!r} is a {type(text).__name__}; return a str.")
    return text


def _by_agent(override: PromptOverride | None, agents: tuple[str, ...]) -> dict[str, Writer]:
    if override is None:
        return {}
    if isinstance(override, Mapping):
        for name in override:
            if name not in agents:
                raise OptionError(
                    f"prompts names {name!r}; the agents are {agents}.{closest(name, agents)} A template for all of "
                    "them is a text; on a command line, one that reads as a mapping takes quotes of its own."
                )
        writers = dict(override)
    elif isinstance(override, str) or callable(override):
        writers = dict.fromkeys(agents, override)
    elif not isinstance(override, Sequence):
        raise OptionError(
            f"prompts is a {type(override).__name__}; expected a template, a callable, a list or a dict by agent."
        )
    else:
        if len(override) != len(agents):
            raise OptionError(
                f"prompts holds {len(override)} entries for {len(agents)} agents {agents}; give one each."
            )
        writers = dict(zip(agents, override, strict=True))
    for agent, writer in writers.items():
        if not (isinstance(writer, str) or callable(writer)):
            raise OptionError(
                f"The prompt of {agent!r} is a {type(writer).__name__}; expected a template or a callable of the row."
            )
    return writers
