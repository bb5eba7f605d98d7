"""What the tests of evaluations share."""

from pathlib import Path

from comlrl_envs import InfrastructureError

ENV = "writing/length_ratio"


ROOT = Path(__file__).parents[2]


def lines(folder):
    return (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines()


def stable(report):
    """The numbers without what a clock told."""
    return {name: value for name, value in report.to_json().items() if name != "seconds"}


def row(report, name):
    """What the table shows in a row."""
    [found] = [line for line in str(report).splitlines() if line.startswith(f"{name} ")]
    return found.removeprefix(name).strip()


class Flaky:
    """Fails on prompts that hold one of the words."""

    def __init__(self, *words):
        self.words = words
        self.asked = 0

    def settings(self):
        """None: neither a count nor the state of a server makes it another policy."""
        return {}

    def act(self, prompts, agent, rng):
        self.asked += len(prompts)
        return [
            InfrastructureError("x", "the server is gone") if any(w in p for w in self.words) else f"{p}{rng.random()}"
            for p in prompts
        ]
