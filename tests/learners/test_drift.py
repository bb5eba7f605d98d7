"""The drift of returns over the rounds of a preference run: bins that can be joined, and the picture of them."""

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from comlrl_envs import from_reward
from comlrl_envs.errors import MissingExtraError
from comlrl_learners import ConfigError, MADPOConfig, MADPOTrainer, MAGRPOConfig, MAGRPOTrainer
from comlrl_learners.drift import draw_drift, joined_counts, read_drift
from comlrl_learners.preferences import BINS, bin_width, histogram

from .toy_models import toy_team

ROWS = [{"prompt": text} for text in ("one", "two", "three", "four")]
RETURNS = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=40)
PNG = b"\x89PNG\r\n\x1a\n"


def spread(first, second):
    return [(sum(map(ord, a)) % 101) / 101 + (sum(map(ord, b)) % 97) / 50 for a, b in zip(first, second, strict=True)]


def run(folder, cls=MADPOTrainer, config=MADPOConfig, reward=spread, resume=None, **settings):
    chosen = {"run_name": "run", "num_generations": 4, "items_per_rollout": 4, "learning_rate": 1e-3, "eval_every": 0,
              "max_steps": 3, **settings}  # fmt: skip
    env = from_reward(ROWS, reward)
    return cls(env=env, policies=toy_team(), config=config(output_dir=str(folder), **chosen)).train(resume).folder


def record(folder, *rounds):
    (folder / "preferences").mkdir()
    for number, kinds in enumerate(rounds, 1):
        shown = {
            kind: histogram(values) for kind, values in zip(("candidates", "chosen", "rejected"), kinds, strict=True)
        }
        text = json.dumps({"round": number, "distribution": shown})
        (folder / "preferences" / f"round-{number:06d}.json").write_text(text, encoding="utf-8")


def size_of(png):
    data = png.read_bytes()
    assert data.startswith(PNG)
    return tuple(int.from_bytes(data[place : place + 4], "big") for place in (16, 20))


def test_a_histogram_by_hand():
    found = histogram([0.0, 0.01, 0.5, 1.0, 1.0])
    assert found["count"] == sum(found["counts"]) == 5
    assert (found["low"], found["high"], found["mean"]) == (0.0, 1.0, pytest.approx(0.502))
    assert found["edges"][:2] == [0.0, 1 / 16] and len(found["edges"]) == len(found["counts"]) + 1 == 18
    assert [place for place, count in enumerate(found["counts"]) if count] == [0, 8, 16]
    assert found["quantiles"]["0.5"] == 0.5
    assert histogram([]) == {"count": 0}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@given(RETURNS)
def test_every_value_lies_in_its_bin_and_bins_are_few(values):
    found = histogram(values)
    edges, counts = found["edges"], found["counts"]
    assert len(counts) <= BINS and sum(counts) == len(values)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        assert sum(low <= value < high for value in values) == count
    if max(values) - min(values) > 0.02 * max(map(abs, values)):
        assert len(counts) > BINS / 2
    assert math.frexp(bin_width(min(values), max(values)))[0] == 0.5


@given(st.lists(RETURNS, min_size=1, max_size=4))
def test_rounds_are_joined_as_if_their_values_had_been_counted_together(rounds):
    everything = [value for values in rounds for value in values]
    low, high = min(everything), max(everything)
    edges, counts = joined_counts([histogram(values) for values in rounds] + [histogram([])], low, high)
    expected = [np.histogram(values, [*edges[:-1], math.inf])[0].tolist() for values in rounds]
    assert counts == [*expected, [0] * (len(edges) - 1)]


def test_a_run_ends_with_the_picture_of_all_its_rounds(tmp_path):
    folder = run(tmp_path)
    drift = read_drift(folder)
    assert list(drift) == [1, 2, 3]
    for found in drift.values():
        assert found["candidates"]["count"] == 16 and found["chosen"]["count"] == found["rejected"]["count"] > 0
        assert found["chosen"]["mean"] > found["candidates"]["mean"] > found["rejected"]["mean"]
    assert size_of(folder / "preferences" / "drift.png") == (1350, 960)


def test_a_resumed_run_draws_all_of_them(tmp_path):
    folder = run(tmp_path, max_steps=1)
    before = (folder / "preferences" / "drift.png").read_bytes()
    assert run(tmp_path, max_steps=2, resume=folder) == folder
    assert list(read_drift(folder)) == [1, 2]
    assert (folder / "preferences" / "drift.png").read_bytes() != before


def test_runs_without_such_records_have_no_picture(tmp_path):
    folder = run(tmp_path, MAGRPOTrainer, MAGRPOConfig, max_steps=1)
    assert not (folder / "preferences").exists()
    with pytest.raises(ConfigError, match=r"holds no preferences/round-N.json"):
        draw_drift(folder)


def test_equal_rewards_give_candidates_and_no_pair(tmp_path):
    folder = run(tmp_path, reward=lambda first, second: [0.5] * len(first), max_steps=2)
    found = read_drift(folder)[2]
    assert found["candidates"]["counts"] == [16] and found["chosen"] == {"count": 0}
    assert size_of(folder / "preferences" / "drift.png")[0] == 1350


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "rounds",
    [
        [([0.1, 0.5, 0.9], [0.9], [0.1])],
        [([], [], [])],
        [([0.0, 0.0], [], [])],
        [([0.0, -100.0], [0.0], [-100.0]), ([], [], []), ([3.0], [], []), ([1e-9, 2e-9], [2e-9], [1e-9])],
    ],
)
def test_any_rounds_are_drawn_without_a_warning(rounds, tmp_path):
    record(tmp_path, *rounds)
    path = draw_drift(str(tmp_path))
    assert path == tmp_path / "preferences" / "drift.png" and size_of(path)[0] == 1350


def test_a_moved_distribution_is_another_picture(tmp_path):
    pictures = set()
    for name, moved in (("still", 0.0), ("moved", 0.3)):
        (tmp_path / name).mkdir()
        rounds = [[[value + moved * number for value in (0.1, 0.2, 0.6)]] * 3 for number in range(3)]
        record(tmp_path / name, *rounds)
        pictures.add(draw_drift(tmp_path / name).read_bytes())
    assert len(pictures) == 2


def test_drawing_leaves_the_users_backend_and_figures_alone(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    mine = pyplot.figure()
    record(tmp_path, ([0.1, 0.9], [0.9], [0.1]))
    draw_drift(tmp_path)
    assert pyplot.get_fignums() == [mine.number]
    pyplot.close(mine)


def test_a_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    record(tmp_path, ([0.1, 0.9], [0.9], [0.1]))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"drift of returns.*pip install \"comlrl-envs\[learners\]\""):
        draw_drift(tmp_path)
