"""Every example runs, shortened, and prints what it promises; none is longer than a page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
REWARD = r"reward [01]\.\d{3} -> [01]\.\d{3}"
PRINTS = {
    "length_ratio": [r"joint actions +held-out reward", r"^ +80 +[01]\.\d{3}$", "elaborator is asked", "lie in runs/"],
    "multi_turn_feedback": [r"(before|after) training +turn 1 .*gain [+-]", r"blanked +turn 1 .*gain [+-]"],
    "resume_training": [
        "stopped after 1 rounds",
        "went on to 2 rounds",
        "equal: True; weights equal bit for bit: True",
    ],
    "algorithms/magrpo": [rf"aligned +80 texts, 40 .*{REWARD}", rf"cross +80 texts, 160 .*{REWARD}"],
    "algorithms/mareinforce": [rf"reward_shift +0\.0: 60 .*{REWARD}", rf"reward_shift -0\.5: 60 .*{REWARD}"],
    "algorithms/marloo": [rf"groups of 2: 60 .*{REWARD}", rf"groups of 6: 60 .*{REWARD}"],
    "algorithms/maremax": [r"^ +80 +[01]\.\d{3} +-[01]\.\d{3} ", rf"held-out {REWARD}"],
    "algorithms/iac": [rf"head on the policy: {REWARD}, last value", rf"model of its own: {REWARD}, last value"],
    "algorithms/maac": [r"^ +80 +[01]\.\d{3} +-?[01]\.\d{3}$", rf"held-out {REWARD}"],
    "algorithms/madpo": ["winner, reward", "loser, reward", rf"own pairs .*{REWARD}", rf"file alone .*{REWARD}"],
}
QUICK = ("length_ratio", "multi_turn_feedback", "algorithms/maremax", "algorithms/maac")
"""One training run each; the others do two and more."""


def scripts():
    """The examples of training by name; measurements and other projects' learners are none, nor are environments."""
    found = [*EXAMPLES.glob("*.py"), *(EXAMPLES / "algorithms").glob("*.py")]
    return {path.relative_to(EXAMPLES).with_suffix("").as_posix(): path for path in found}


def run(name, folder, *arguments):
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, env=os.environ)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_is_run_here():
    assert sorted(scripts()) == sorted(PRINTS)


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_is_a_page_that_says_what_it_shows(name):
    text = scripts()[name].read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert text.startswith('"""')
    assert re.search(r"CPU (seconds|minutes?)", text.split('"""')[1]), "the docstring says how long it takes"


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PRINTS]
)
def test_an_example_runs_and_prints_what_it_shows(name, tmp_path):
    printed = run(name, tmp_path, "--rounds", "1")
    for pattern in PRINTS[name]:
        assert re.search(pattern, printed, re.MULTILINE), (pattern, printed)
    left = [path.name for path in tmp_path.iterdir()]
    assert left == (["runs"] if name == "length_ratio" else [])


@pytest.mark.slow
def test_feedback_comes_to_be_worth_something_and_nothing_when_blanked(tmp_path):
    printed = run("multi_turn_feedback", tmp_path)
    before, after, blanked = (float(gain) for gain in re.findall(r"gain ([+-]\d\.\d{3})", printed))
    assert after >= 0.3
    assert abs(before) <= 0.1
    assert abs(blanked) <= 0.1
