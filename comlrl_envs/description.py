"""What there is to know about an id: as data, and as Markdown for a page or a terminal."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from comlrl_envs.assemble import BASE
from comlrl_envs.env import TextEnv
from comlrl_envs.game import Episode, TextGame
from comlrl_envs.registry import list_envs, spec
from comlrl_envs.render import render
from comlrl_envs.scenario import Scenario, setting_names
from comlrl_envs.sources import REAL_SETS, DataFile
from comlrl_envs.terminal import visible

TRANSCRIPT_CHARS = 6000
"""Longest example transcript; what is beyond is cut."""
_ABOUT_TRANSCRIPT = "The oracle, on the demo set, seed 0. It plays for the reward, not for style or sense:"

BASE_MEANINGS: Mapping[str, tuple[str, str]] = {
    "split": ("str", '`"train"` or `"eval"`, or a slice of rows such as `"train[:1000]"`.'),
    "source": (
        "str",
        'Where rows come from: `"demo"`, `"local"` (a data folder), `"package"`, `"cache"`, `"hub"`, or `"auto"`: the '
        "first but the demo set that has them; the demo set where there is no real one.",
    ),
    "data_dir": ("str or None", "Folder with the real sets; None reads the variable `COMLRL_DATA_DIR`."),
    "tasks": ("rows or None", "Rows of your own: a list, a `datasets` object, a JSONL file's path, a function."),
    "prompts": ("template, callable or None", "Replaces the briefs: one writer, a list, or a dict by agent."),
    "reward": ("str, callable or None", "A preset, or a function of per-agent lists of texts that replaces the terms."),
    "feedback": ("str or None", "Mode of the news that later turns bring."),
    "max_turns": ("int or None", "Joint actions of an episode."),
    "memory": ("str", 'What an agent is shown of its own past: `"full"`, `"last"` or `"none"`.'),
    "stop_reward": ("float or None", "A reward of at least this ends the episode."),
    "max_action_chars": ("int", "Longer actions are cut to this many characters."),
    "text_infos": ("bool", "Adds `text/news` and `text/reply` to the infos."),
    "render_mode": ("str or None", '`"ansi"`, `"html"` or None.'),
}
"""Type and meaning of each of ``assemble.BASE``."""


@dataclass(frozen=True)
class Argument:
    """A keyword argument of an environment.

    Attributes:
        name: As ``make`` takes it.
        kind: Its type, in words.
        meaning: One or two sentences.
        default: ``repr`` of its default.
        own: Whether only this environment has it or words it; False for what every id accepts alike.
    """

    name: str
    kind: str
    meaning: str
    default: str
    own: bool


@dataclass(frozen=True)
class Description:
    """Facts about an environment at its default arguments.

    Attributes:
        id: With version.
        versions: All registered ids of this name.
        text: The module's docstring.
        agents: Their ids.
        max_turns: Most joint actions of an episode.
        reward_range: Of one turn.
        terms: Names of the reward's terms.
        metrics: Names of the team's metrics.
        agent_metrics: Names of each agent's metrics.
        channel: Whether teammates are shown anything of each other's replies.
        floors: Upper bounds on the mean reward of scripted policies.
        deterministic: Whether equal actions always score alike.
        arguments: Every keyword argument.
        sizes: Rows of the demo set by split.
        data: Facts about the real set, label to text; empty without one.
        transcript: An episode of the oracle's; ``""`` if it knows no answer.
    """

    id: str
    versions: tuple[str, ...]
    text: str
    agents: tuple[str, ...]
    max_turns: int
    reward_range: tuple[float, float]
    terms: tuple[str, ...]
    metrics: tuple[str, ...]
    agent_metrics: tuple[str, ...]
    channel: bool
    floors: Mapping[str, float]
    deterministic: bool
    arguments: tuple[Argument, ...]
    sizes: Mapping[str, int]
    data: Mapping[str, str]
    transcript: str


def describe(id: str) -> Description:
    """Collect the facts about ``id``; its demo set is opened, nothing is downloaded.

    Raises:
        UnknownIdError: No environment has this id.
    """
    found = spec(id)
    build = found.load()
    env = _demo_env(build, found.kwargs, "train")
    scenario = env.game.scenario
    return Description(
        id=found.id,
        versions=tuple(name for name in list_envs() if spec(name).name == found.name),
        text=_docstring(build),
        agents=env.game.agents,
        max_turns=env.game.max_turns,
        reward_range=env.game.reward_range,
        terms=tuple(scenario.terms),
        metrics=env.game.metric_names,
        agent_metrics=env.game.agent_metric_names,
        channel=scenario.channel,
        floors=dict(scenario.floors),
        deterministic=found.deterministic,
        arguments=arguments(env.game, found.kwargs),
        sizes={"train": len(env.tasks), "eval": len(_demo_env(build, found.kwargs, "eval").tasks)},
        data=_real_set(found.name),
        transcript=oracle_transcript(env),
    )


def keyword_names(id: str) -> list[str]:
    """The keyword arguments of ``id``, sorted; raises ``UnknownIdError`` if no environment has this id."""
    found = spec(id)
    scenario = _demo_env(found.load(), found.kwargs, "train").game.scenario
    return sorted(setting_names(type(scenario)) | BASE.keys())


def arguments(game: TextGame, given: Mapping[str, Any]) -> tuple[Argument, ...]:
    """The keyword arguments of an environment, its own settings first.

    Args:
        game: Built with the default arguments.
        given: Arguments that the registered id fixes.
    """
    meanings = field_meanings(type(game.scenario))
    settings = _settings(game.scenario)
    presets = game.scenario.presets
    own = [
        Argument(name, *_worded(name, kind, meanings[name], presets), default=repr(given.get(name, default)), own=True)
        for name, (kind, default) in settings.items()
    ]
    defaults: dict[str, Any] = {
        **BASE,
        "memory": game.memory,
        "stop_reward": game.stop_reward,
        "max_action_chars": game.max_action_chars,
        **given,
    }
    shared = [
        Argument(name, kind, _for_this_id(name, meaning), default=repr(defaults[name]), own=False)
        for name, (kind, meaning) in BASE_MEANINGS.items()
        if name not in settings
    ]
    return tuple(own + shared)


def field_meanings(scenario: type[Scenario]) -> dict[str, str]:
    """Field names of a scenario to their text in the ``Attributes`` sections of its class and base classes."""
    parser = importlib.import_module("docstring_parser")
    meanings = dict.fromkeys(_settings(scenario), "")
    for kind in reversed(scenario.__mro__):
        parsed = parser.parse(inspect.cleandoc(kind.__doc__ or ""), style=parser.DocstringStyle.GOOGLE)
        meanings |= {p.arg_name: " ".join(p.description.split()) for p in parsed.params if p.arg_name in meanings}
    return meanings


def oracle_transcript(env: TextEnv, seed: int = 0) -> str:
    """An episode that the oracle plays, rendered; ``""`` if it does not know what to say."""
    game = env.game
    env.reset(seed=seed)
    episode: Episode = env.episode
    while not episode.done:
        replies = game.oracle(episode)
        if replies is None:
            return ""
        episode = game.step_many([(episode, replies)])[0]
    return render(game, episode, "ansi")


def to_markdown(description: Description, level: int = 2) -> str:
    """The facts as Markdown whose headings start at ``level``; the environment's own title is left to the page."""
    mark = "#" * level
    d = description
    parts = [docstring_markdown(d.text), f"{mark} Facts", _table(("", ""), _facts(d))]
    rows = [(f"`{a.name}`", a.kind, f"`{a.default}`", a.meaning) for a in d.arguments]
    parts += [f"{mark} Keyword arguments", _table(("argument", "type", "default", "meaning"), rows)]
    sizes = ", ".join(f"{count} {split}" for split, count in d.sizes.items())
    parts += [f"{mark} Data", f'Demo set (`source="demo"`), shipped: {sizes} rows.']
    if d.data:
        parts.append(_table(("real set", ""), list(d.data.items())))
    if d.transcript:
        parts += [f"{mark} Example transcript", _ABOUT_TRANSCRIPT, _fenced(d.transcript)]
    return "\n\n".join(parts) + "\n"


def docstring_markdown(text: str) -> str:
    """A module's docstring as Markdown: its indented examples become code blocks."""
    parts: list[str] = []
    for block in re.split(r"(?m)^(?=\S+:\n[ ]{4})", inspect.cleandoc(text)):
        title, colon, body = block.partition(":\n")
        if colon and body.startswith("    "):
            parts.append(f"{title}:\n\n{_fenced(textwrap.dedent(body).strip(), 'pycon')}")
        elif block.strip():
            parts.append(_single_ticks(block.strip()))
    return "\n\n".join(parts)


def _facts(d: Description) -> list[tuple[str, str]]:
    low, high = d.reward_range
    facts = [
        ("id", f"`{d.id}`"),
        ("versions", _listed(d.versions)),
        ("agents", _listed(d.agents)),
        ("turns by default", "1" if d.max_turns == 1 else f"1 to {d.max_turns}"),
        ("reward of a turn", f"{low:g} to {high:g}"),
        ("terms", _listed(d.terms)),
        ("metrics", _listed(d.metrics)),
        ("metrics of each agent", _listed(d.agent_metrics)),
        ("channel between agents", "yes" if d.channel else "none"),
        ("floors", ", ".join(f"{name} ≤ {bound:.3g}" for name, bound in d.floors.items())),
        ("deterministic", "yes" if d.deterministic else "no: it asks a model"),
    ]
    return [(label, text or "none") for label, text in facts]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(text) for text in line) + " |" for line in lines)


def _cell(text: str) -> str:
    # A pipe would end the cell, and Markdown's readers disagree on how to escape one within code.
    return _single_ticks(" ".join(text.split()).replace(" | ", " or ").replace("|", "/"))


def _single_ticks(text: str) -> str:
    return re.sub(r"(?<!`)``([^`]+)``(?!`)", r"`\1`", text)


def _fenced(text: str, language: str = "text") -> str:
    text = visible(text)
    if len(text) > TRANSCRIPT_CHARS:
        text = f"{text[:TRANSCRIPT_CHARS]}\n[{len(text) - TRANSCRIPT_CHARS} characters more]"
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def _settings(scenario: Any) -> dict[str, tuple[str, Any]]:
    """Each field of a scenario or its class: its type in words, and its value (None of a class)."""
    if not dataclasses.is_dataclass(scenario):
        return {}
    values = {} if inspect.isclass(scenario) else vars(scenario)
    kinds = {
        field.name: field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)
        for field in dataclasses.fields(scenario)
        if field.init
    }
    return {name: (kind.replace(" | ", " or "), values.get(name)) for name, kind in kinds.items()}


def _worded(name: str, kind: str, meaning: str, presets: Sequence[str]) -> tuple[str, str]:
    """Type and meaning of a setting; ``reward`` takes a callable on every id, whatever its own presets."""
    if name != "reward":
        return kind, meaning
    if presets:
        names = _listed([f'"{preset}"' for preset in presets])
        meaning = f"{meaning.rstrip('.')}: {names}."
    return f"{kind} or callable", f"{meaning} Or a function of per-agent lists of texts, which replaces the terms."


def _for_this_id(name: str, meaning: str) -> str:
    """``meaning`` where the scenario has no setting of that name."""
    if name == "reward":
        return 'The preset `"default"`, or a function of per-agent lists of texts that replaces the terms.'
    return "This id has no such setting; leave it out." if name in ("feedback", "max_turns") else meaning


def _demo_env(build: Callable[..., Any], given: Mapping[str, Any], split: str) -> TextEnv:
    """The environment on its demo set; one whose function takes no ``source`` has a set of its own."""
    parameters = inspect.signature(build).parameters
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    wanted = {"source": "demo", "split": split}
    env: TextEnv = build(**{**given, **{k: v for k, v in wanted.items() if open_ended or k in parameters}})
    return env


def _docstring(build: Callable[..., Any]) -> str:
    """The docstring of the module that builds the environment."""
    return sys.modules[build.__module__].__doc__ or inspect.getdoc(build) or ""


def _real_set(name: str) -> dict[str, str]:
    """Facts about the real set of the environment ``name``; none without one."""
    if name not in REAL_SETS:
        return {}
    real = REAL_SETS[name]
    facts = {
        "set": f"`{real.origin}`",
        "commit": "" if real.wheel else f"`{real.revision}`" if real.revision else "not pinned",
        "licence": real.licence,
        "size": real.size,
        "rows played": ", ".join(f"{split}: `{part}`" for split, part in real.published.items()),
        **{f"files of {split}, below the data folder": _files(found) for split, found in real.files.items()},
        "package that carries it": f"`{real.package}`" if real.package else "",
        "remark": real.remark,
    }
    return {label: text for label, text in facts.items() if text}


def _files(found: Iterable[DataFile]) -> str:
    return ", or ".join(f"`{file.path}`{' (other rows, for trying)' if file.stand_in else ''}" for file in found)
