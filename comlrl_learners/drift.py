"""How the returns of candidates, chosen and rejected replies move over the rounds of a preference run, as a picture."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from comlrl_envs.errors import MissingExtraError
from comlrl_learners.errors import ConfigError
from comlrl_learners.preferences import bin_width

COLOURS = {"candidates": ("#525252", "Greys"), "chosen": ("#1a7f4b", "Greens"), "rejected": ("#c2410c", "Oranges")}
"""What is drawn, with the colour of its line and of its map."""


def read_drift(folder: str | os.PathLike[str]) -> dict[int, dict[str, Any]]:
    """By round, the distributions that a run wrote: `preferences.histogram` of each kind.

    Args:
        folder: The run folder.

    Raises:
        ConfigError: It holds no such record.
    """
    paths = sorted((Path(folder) / "preferences").glob("round-*.json"))
    if not paths:
        raise ConfigError(
            f"The run {os.fspath(folder)!r} holds no preferences/round-N.json. Give the folder of a run that sampled "
            "pairs."
        )
    records = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return {record["round"]: record["distribution"] for record in records}


def joined_counts(
    histograms: Sequence[Mapping[str, Any]], low: float, high: float
) -> tuple[list[float], list[list[int]]]:
    """The counts of several histograms in the same bins, which cover [low, high].

    Args:
        histograms: Of `preferences.histogram`, all of whose values lie in [low, high].
        low: Least value.
        high: Greatest value.

    Returns:
        Edges (bins + 1), and counts (histograms, bins); zeros where a histogram is of nothing.
    """
    width = bin_width(low, high)
    first, last = int(np.floor(low / width)), int(np.floor(high / width))
    counts = np.zeros((len(histograms), last - first + 1), dtype=int)
    for row, found in zip(counts, histograms, strict=True):
        if found["count"]:
            # The bins of a narrower histogram lie inside these; where they begin says in which.
            starts = np.asarray(found["edges"][:-1])
            np.add.at(row, np.floor(starts / width).astype(int) - first, found["counts"])
    return [(first + place) * width for place in range(len(counts[0]) + 1)], counts.tolist()


def draw_drift(folder: str | os.PathLike[str]) -> Path:
    """Draw `preferences/drift.png`: means and spreads over the rounds, and below them every round's histogram.

    Args:
        folder: The run folder.

    Raises:
        ConfigError: The run wrote no distributions.
        MissingExtraError: matplotlib is not installed.
    """
    drift = read_drift(folder)
    figure = new_figure("Drawing the drift of returns", figsize=(9, 6.4), layout="constrained")
    panels = figure.subplot_mosaic([["means"] * 3, list(COLOURS)], height_ratios=(1.15, 1))
    _draw_means(panels["means"], drift)
    _draw_histograms(figure, [panels[kind] for kind in COLOURS], drift)
    path = Path(folder) / "preferences" / "drift.png"
    figure.savefig(path, dpi=150)
    return path


def new_figure(purpose: str, **options: Any) -> Any:
    """A matplotlib figure that is saved to a file and leaves the caller's backend as it is.

    Raises:
        MissingExtraError: matplotlib is not installed; the message names the purpose.
    """
    try:
        return importlib.import_module("matplotlib.figure").Figure(**options)
    except ImportError as error:
        raise MissingExtraError("learners", purpose) from error


def _draw_means(axes: Any, drift: Mapping[int, Mapping[str, Any]]) -> None:
    """A line of means and a band of the middle half for each kind."""
    for kind, (colour, _) in COLOURS.items():
        filled = [(number, found[kind]) for number, found in drift.items() if found[kind]["count"]]
        if not filled:
            continue
        rounds = [number for number, _ in filled]
        below, above = ([found["quantiles"][name] for _, found in filled] for name in ("0.25", "0.75"))
        axes.fill_between(rounds, below, above, color=colour, alpha=0.15, linewidth=0)
        means = [found["mean"] for _, found in filled]
        marker = "o" if len(rounds) <= 30 else None
        axes.plot(rounds, means, color=colour, linewidth=2, marker=marker, markersize=3.5, label=kind)
    axes.set_title("mean return of the replies, and the middle half of them", fontsize="medium", loc="left")
    axes.set_ylabel("return")
    _number_rounds(axes, drift)
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(frameon=False, ncols=len(COLOURS), loc="best")


def _draw_histograms(figure: Any, panels: Sequence[Any], drift: Mapping[int, Mapping[str, Any]]) -> None:
    """A map for each kind: a column is a round, its shades are the shares of the returns in each bin."""
    filled = [found[kind] for found in drift.values() for kind in COLOURS if found[kind]["count"]]
    if not filled:
        return
    low, high = min(found["low"] for found in filled), max(found["high"] for found in filled)
    columns = [*(number - 0.5 for number in drift), max(drift) + 0.5]
    # Shades grow with the root of a share, so that the few replies far from the rest are seen.
    norm = importlib.import_module("matplotlib.colors").PowerNorm(0.5, vmin=0, vmax=1)
    for axes, (kind, (colour, shades)) in zip(panels, COLOURS.items(), strict=True):
        edges, counts = joined_counts([found[kind] for found in drift.values()], low, high)
        shares = np.asarray(counts).T / np.maximum(np.sum(counts, axis=1), 1)
        drawn = axes.pcolormesh(columns, edges, np.ma.masked_equal(shares, 0), cmap=shades, norm=norm)
        axes.set_title(kind, fontsize="medium", loc="left", color=colour)
        _number_rounds(axes, drift)
        if kind == "candidates":
            axes.set_ylabel("return")
            bar = figure.colorbar(
                drawn, ax=panels, ticks=(0, 0.05, 0.2, 0.5, 1), format=lambda share, _: f"{share:.0%}"
            )
            bar.set_label("share of the round")
        else:
            axes.tick_params(labelleft=False)


def _number_rounds(axes: Any, drift: Mapping[int, object]) -> None:
    axes.set_xlabel("round")
    axes.set_xlim(min(drift) - 0.5, max(drift) + 0.5)
    ticker = importlib.import_module("matplotlib.ticker")
    axes.xaxis.set_major_locator(ticker.MaxNLocator(8, integer=True, min_n_ticks=1))
    axes.ticklabel_format(axis="y", useOffset=False)
