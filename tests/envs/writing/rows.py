"""What the tests of the writing family share: demo and real rows, and scoring of texts about them."""

import json
import statistics

from comlrl_envs.writing import arxiv, tldr

IDS = {"writing/tldr": (tldr, tldr.Tldr), "writing/arxiv": (arxiv, arxiv.Arxiv)}
PRESETS = [(name, preset) for name, (_, scenario) in IDS.items() for preset in scenario.presets]


def demo_items(name, split):
    module, _ = IDS[name]
    return [module.from_row(row) for row in module.demo_rows(split)]


def real_items(name, folder):
    """All rows of both real sets, as this id reads them."""
    module, _ = IDS[name]
    files = ["scitldr/dev.jsonl"] + (["tldr/tldr_200.jsonl"] if name == "writing/tldr" else [])
    lines = [line for file in files for line in (folder / file).read_text(encoding="utf-8").split("\n") if line]
    rows = [json.loads(line) for line in lines]
    if name == "writing/arxiv":
        posts = (folder / "tldr/tldr_200.jsonl").read_text(encoding="utf-8").split("\n")
        rows += [{"abstract_text": json.loads(line)["prompt"]} for line in posts if line]
    return [module.from_row(row) for row in rows]


def mean_reward(scenario, items, write):
    """Mean reward over items of the pair of texts that ``write`` makes of each source."""
    rewards = []
    for item in items:
        source = scenario.subject(item[scenario.field])
        rewards.append(scenario.judge(source, *write(source)).reward)
    return statistics.fmean(rewards)
