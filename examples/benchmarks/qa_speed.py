"""How fast answers are scored and paragraphs are found, on one core.

    OMP_NUM_THREADS=1 python qa_speed.py --data-dir DATA

`DATA` holds `2wikimultihopqa/` and `hotpotqa/` (see docs/data.md): the questions of the one search its corpus of 6,119
paragraphs, and the answers of the other are scored against each other. CPU times; medians over rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from comlrl_envs.qa.bm25 import Corpus
from comlrl_envs.qa.forms import read_file
from comlrl_envs.qa.records import Paragraph
from comlrl_envs.qa.scorers import SCORERS

HOTPOTQA = "hotpotqa/hipporag_hotpotqa_train_100.json"
TWOWIKI = "2wikimultihopqa/lag_2wiki_dev_354_support_in_corpus.json"
CORPUS = "2wikimultihopqa/2wikimultihopqa_corpus.json"
ROUNDS = 5


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    data = parser.parse_args().data_dir
    golds = [record.answers[0] for record in read_file(data / HOTPOTQA)]
    pairs = [(one, [other]) for one in golds for other in golds[:50]]
    print("| scorer | scores a second |\n| --- | --- |")
    for name, scorer in SCORERS.items():
        print(f"| `{name}` | {len(pairs) / median(lambda scorer=scorer: [scorer(*pair) for pair in pairs]):,.0f} |")
    search(data)


def search(data: Path) -> None:
    """Time the questions of 2WikiMultihopQA over its whole corpus."""
    rows = json.loads((data / CORPUS).read_text("utf-8"))
    corpus = Corpus(Paragraph(row["title"], (row["text"],)) for row in rows)
    questions = [record.question for record in read_file(data / TWOWIKI, data / CORPUS)]
    corpus.search(questions[0], 10)
    each = sorted(cpu(lambda question=question: corpus.search(question, 10)) * 1000 for question in questions)
    print(f"\n{len(corpus):,} paragraphs: {statistics.median(each):.2f} ms a query (median), {each[-1]:.2f} ms at most")


def median(work: Callable[[], object]) -> float:
    """CPU seconds of a piece of work, the median of a few rounds."""
    return statistics.median(cpu(work) for _ in range(ROUNDS))


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of a piece of work."""
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
