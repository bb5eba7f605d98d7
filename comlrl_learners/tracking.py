"""Where a run writes: its folder always, W&B and TensorBoard on request."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import yaml

from comlrl_envs.errors import MissingExtraError
from comlrl_learners.checkpoint import Counters
from comlrl_learners.config import TrainerConfig
from comlrl_learners.drift import draw_drift, new_figure
from comlrl_learners.errors import ConfigError
from comlrl_learners.rollout import Node
from comlrl_learners.run_files import METRICS_FILE, NOTE_FILE, WandbNote, earlier_rows, read_note

Row = Mapping[str, float]
PICTURES: Mapping[str, Callable[[Path], Path]] = {"preferences": draw_drift}
"""By the name of what an algorithm keeps of its rounds, what draws it at the end of a run."""


class Tracker(Protocol):
    """Takes rows of metrics."""

    def log(self, row: Row) -> None:
        """Take one row; `env_step` is its place on the x axis."""

    def close(self) -> None:
        """Finish; called once."""


class RunFolder:
    """`config.yaml, metrics.jsonl, transcripts/, preferences/, reward.png, checkpoints/` of one run.

    Attributes:
        path: The folder.
    """

    def __init__(
        self, path: Path, config: TrainerConfig, described: Mapping[str, Any], resumed_at: int | None = None
    ) -> None:
        """Make the folder and write `config.yaml`: the settings and what else was given.

        Args:
            path: The folder, or one beside it if it is taken; exactly this one for a run that goes on.
            config: The settings.
            described: What else was given.
            resumed_at: Length to which `metrics.jsonl` is cut, for a run that goes on.
        """
        self.path = path = _new_folder(path) if resumed_at is None else path
        text = yaml.safe_dump({**described, **plain(dataclasses.asdict(config))}, sort_keys=False, allow_unicode=True)
        (path / "config.yaml").write_text(text, encoding="utf-8")
        if resumed_at is not None:
            os.truncate(path / METRICS_FILE, resumed_at)
        self._metrics = (path / METRICS_FILE).open("a", encoding="utf-8")

    @property
    def metrics_bytes(self) -> int:
        """Length of `metrics.jsonl`."""
        return (self.path / METRICS_FILE).stat().st_size

    def log(self, row: Row) -> None:
        """Append one line to `metrics.jsonl`; a line is written whole."""
        self._metrics.write(json.dumps(row, allow_nan=False) + "\n")
        self._metrics.flush()

    def write_transcripts(self, name: str, roots: Sequence[Node]) -> None:
        """Write every joint action of these trees, one JSON object a line."""
        folder = self.path / "transcripts"
        folder.mkdir(exist_ok=True)
        lines = [json.dumps(record) for root in roots for record in transcript(root)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def write_records(self, round_number: int, records: Mapping[str, Any]) -> None:
        """Write what an algorithm keeps of a round: `<name>/round-N.json` for each record, whole or not at all."""
        for name, data in records.items():
            text = json.dumps({"round": round_number, **data}, ensure_ascii=False, allow_nan=False)
            partial = self.path / f"{name}.partial"
            # A lone surrogate has no UTF-8; backslashreplace spells it as JSON does.
            partial.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
            # A folder without a whole file would be drawn, and fail, at the end.
            (self.path / name).mkdir(exist_ok=True)
            partial.replace(self.path / name / f"round-{round_number:06d}.json")

    def close(self) -> None:
        """Close the metrics file."""
        self._metrics.close()

    def draw(self, rows: Sequence[Row]) -> None:
        """Draw the reward curve, and of each kind of record that has a picture, its picture."""
        draw_reward(rows, self.path / "reward.png")
        for name, draw in PICTURES.items():
            if (self.path / name).is_dir():
                draw(self.path)


class WandbTracker:
    """A W&B run whose files lie in the run folder; `WANDB_MODE=offline` needs no account.

    W&B keeps rows in memory before it writes or sends them, so those of a process that was killed may be lost. What has
    arrived for sure is noted in `wandb.json` when a run is closed; a run that goes on sends what came after that.
    """

    def __init__(self, config: TrainerConfig, folder: Path | None, name: str, earlier: Sequence[Row] = ()) -> None:
        """Start the run, or go on with the one that the folder names.

        Args:
            config: Project, and what the run is described by.
            folder: The run folder, or None.
            name: Name of the run.
            earlier: Rows that were logged before; those that may not have arrived are sent.
        """
        wandb = _extra_module("wandb", "Tracking with W&B")
        note = None if folder is None else folder / NOTE_FILE
        noted = WandbNote() if note is None else read_note(note)
        self._run = wandb.init(
            project=config.wandb_project,
            name=name,
            id=noted.run_id,
            resume=None if noted.run_id is None else "allow",
            config=plain(dataclasses.asdict(config)),
            dir=None if folder is None else str(folder),
        )
        self._note = None if self._run.disabled else note
        self._last: tuple[int, frozenset[str]] | None = None
        self._arrived: tuple[int, frozenset[str]] | None = None
        if noted.env_step is not None:
            self._last = self._arrived = (noted.env_step, frozenset(noted.metrics))
        self._write_note(self._arrived)
        for row in earlier:
            self.log(row)

    def log(self, row: Row) -> None:
        """Send one row at its `env_step`, unless it arrived before; W&B joins rows of one step."""
        step, names = int(row["env_step"]), frozenset(row)
        # An online run knows how far its server is, and drops what lies before; offline that is 0.
        if step < self._run.starting_step or _precedes((step, names), self._arrived):
            return
        self._run.log(dict(row), step=step)
        joined = names | self._last[1] if self._last is not None and self._last[0] == step else names
        self._last = (step, joined)

    def close(self) -> None:
        """Finish the run, and note what has arrived."""
        self._run.finish()
        self._write_note(self._last)

    def _write_note(self, arrived: tuple[int, frozenset[str]] | None) -> None:
        if self._note is None:
            return
        step, names = arrived if arrived is not None else (None, frozenset())
        text = json.dumps({"run_id": self._run.id, "env_step": step, "metrics": sorted(names)})
        partial = self._note.with_suffix(".partial")
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(self._note)


class TensorBoardTracker:
    """Event files in the run folder's `tensorboard/`."""

    def __init__(self, folder: Path, resumed_after: int | None = None) -> None:
        """Open an event file; of a run that goes on, what earlier files hold after that `env_step` is void."""
        _extra_module("tensorboard", "Tracking with TensorBoard")
        tensorboard = importlib.import_module("torch.utils.tensorboard")
        void = None if resumed_after is None else resumed_after + 1
        self._writer = tensorboard.SummaryWriter(str(folder / "tensorboard"), purge_step=void)

    def log(self, row: Row) -> None:
        """Write one scalar per metric at the row's `env_step`."""
        for name, value in row.items():
            self._writer.add_scalar(name, value, int(row["env_step"]))
        self._writer.flush()  # a run that goes on does not write again what a killed one had only in memory

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


class Tracking:
    """All destinations of one run behind two calls.

    Attributes:
        folder: The run folder, or None when nothing is written.
        rows: Every row logged so far.
    """

    def __init__(
        self,
        config: TrainerConfig,
        described: Mapping[str, Any],
        name: str,
        resumed: tuple[Path, Counters] | None = None,
    ) -> None:
        """Open every destination that the configuration names, anew or where a run goes on."""
        self.rows: list[dict[str, float]] = []
        self.folder: RunFolder | None = None
        self._others: list[Tracker] = []
        _check_extras(config)
        if resumed is not None:
            self.rows = earlier_rows(resumed[0], resumed[1].metrics_bytes)
            self.folder = RunFolder(resumed[0], config, described, resumed[1].metrics_bytes)
        elif config.output_dir is not None:
            self.folder = RunFolder(Path(config.output_dir) / name, config, described)
        path = None if self.folder is None else self.folder.path
        if "wandb" in config.trackers:
            self._others.append(WandbTracker(config, path, name, self.rows))
        if "tensorboard" in config.trackers:
            assert path is not None  # the configuration refuses TensorBoard without a run folder
            self._others.append(TensorBoardTracker(path, None if resumed is None else resumed[1].env_steps))

    def log(self, row: dict[str, float]) -> None:
        """Give one row to every destination."""
        self.rows.append(row)
        for tracker in [*([self.folder] if self.folder else []), *self._others]:
            tracker.log(row)

    def close(self) -> None:
        """Close every destination and draw what the run folder holds."""
        for tracker in self._others:
            tracker.close()
        if self.folder is not None:
            self.folder.close()
            self.folder.draw(self.rows)


def _precedes(row: tuple[int, frozenset[str]], last: tuple[int, frozenset[str]] | None) -> bool:
    """Whether a row of this `env_step` with these metrics lies before, or is part of, the last one."""
    return last is not None and (row[0] < last[0] or (row[0] == last[0] and row[1] <= last[1]))


def transcript(root: Node) -> list[dict[str, Any]]:
    """The joint actions of a tree: task, turn, branch, what each agent read and wrote, reward and terms."""
    return [
        {
            "task": node.visit.task.id,
            "turn": node.episode.turn,
            "visit": node.visit.number,
            "branch": [*node.branch, number],
            "prompts": {agent: node.prompts[agent] for agent in node.acting},
            "replies": {
                agent: node.completions[agent][k].text for agent, k in zip(node.acting, edge.index, strict=True)
            },
            "reward": edge.reward,
            "terms": dict(edge.score.terms),
        }
        for node in root.subtree()
        for number, edge in enumerate(node.edges)
    ]


def draw_reward(rows: Sequence[Row], path: Path) -> None:
    """Plot training and held-out reward over joint actions."""
    figure = new_figure("Drawing the reward curve", figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for key, label, style in (
        ("train/reward_mean", "training", {"alpha": 0.45, "linewidth": 1}),
        ("eval/reward_mean", "held out", {"marker": "o", "linewidth": 2}),
    ):
        points = [(row["env_step"], row[key]) for row in rows if key in row]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.set_xlabel("joint actions")
    axes.set_ylabel("mean reward of the last turn")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def run_name(algorithm: str, env_name: str, seed: int) -> str:
    """A name that sorts by time within algorithm, environment and seed."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return f"{algorithm}-{env_name.replace('/', '-')}-seed{seed}-{stamp}"


def plain(value: Any) -> Any:
    """The same value as YAML and JSON hold it: tuples as lists, paths as text, what neither knows as its `repr`."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (str, bool, int, float)) else repr(value)


def _new_folder(path: Path) -> Path:
    """Make the folder, or the first of `path-2`, `path-3`, … that nobody has.

    Raises:
        ConfigError: It cannot be made there.
    """
    for candidate in itertools.chain(
        [path], (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    ):
        try:
            candidate.mkdir(parents=True)
            return candidate
        except FileExistsError:
            if path.parent.exists() and not path.parent.is_dir():
                break
        except (OSError, ValueError) as error:
            raise ConfigError(f"The run folder {str(path)!r} cannot be made ({error}). Change output_dir.") from error
    raise ConfigError(f"output_dir={str(path.parent)!r} is a file. Give a folder.")


def _check_extras(config: TrainerConfig) -> None:
    """Miss an extra before the run starts, not at its end.

    Raises:
        MissingExtraError: A tracker's package, or the one that draws the curve, is not installed.
    """
    if config.output_dir is not None:
        _extra_module("matplotlib", "Drawing the reward curve")
    for name in config.trackers:
        _extra_module(name, f"Tracking with {name}")


def _extra_module(name: str, purpose: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError("learners", purpose) from error
