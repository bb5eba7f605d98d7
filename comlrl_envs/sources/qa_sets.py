"""The real sets of the question-answering family.

An environment plays one of several sets: the first by its id alone, a further one as ``ID:NAME``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from comlrl_envs.qa.forms import file_rows, joined_rows
from comlrl_envs.sources.real_set import UNPINNED, DataFile, RealSet

_TRAIN, _EVAL = (0, 70), (70, 100)
"""Parts of a file that serves both splits."""


def _official(train: tuple[str, ...], evaluation: tuple[str, ...]) -> dict[str, tuple[DataFile, ...]]:
    """The publishers' own files, any one for a split."""
    return {
        split: tuple(DataFile(path, read=file_rows) for path in paths)
        for split, paths in (("train", train), ("eval", evaluation))
    }


def _or_else(
    official: Mapping[str, tuple[DataFile, ...]], path: str, group: str | None = None, corpus: str | None = None
) -> dict[str, tuple[DataFile, ...]]:
    """The official files, or else the parts of one stand-in."""
    read = file_rows if corpus is None else partial(joined_rows, corpus=corpus)
    return {
        split: (*official[split], DataFile(path, stand_in=True, read=read, percent=percent, group=group))
        for split, percent in (("train", _TRAIN), ("eval", _EVAL))
    }


_CUT = "Of the last article of a slice, paragraphs whose questions lie beyond it are not there."

_SETS: Mapping[str, RealSet] = {
    "hotpotqa": RealSet(
        repo="hotpotqa/hotpot_qa",
        revision=None,
        licence="CC BY-SA 4.0",
        size="90,447 train and 7,405 validation questions, of which the first 1,000 of each are played",
        published={"train": "train[:1000]", "eval": "validation[:1000]"},
        files=_or_else(
            _official(("hotpotqa/hotpot_train_v1.1.json",), ("hotpotqa/hotpot_dev_distractor_v1.json",)),
            "hotpotqa/hipporag_hotpotqa_train_100.json",
        ),
        config="distractor",
        remark=UNPINNED,
    ),
    "musique": RealSet(
        repo="dgslibisey/MuSiQue",
        revision=None,
        licence="CC BY 4.0",
        size="19,938 train questions, of which the first 1,000 are played, and 2,417 validation questions",
        published={"train": "train[:1000]", "eval": "validation[:]"},
        files=_or_else(
            _official(
                ("musique/musique_ans_v1.0_train.jsonl", "musique/musique_full_v1.0_train.jsonl"),
                ("musique/musique_ans_v1.0_dev.jsonl", "musique/musique_full_v1.0_dev.jsonl"),
            ),
            "musique/hipporag_musique_train_100.json",
        ),
        remark=f"Answerable questions; the files of MuSiQue-Full have a twin without an answer for each. {UNPINNED}",
    ),
    "2wikimultihopqa": RealSet(
        repo="framolfese/2WikiMultihopQA",
        revision=None,
        licence="Apache-2.0",
        size="167,454 train and 12,576 validation questions, of which the first 1,000 of each are played",
        published={"train": "train[:1000]", "eval": "validation[:1000]"},
        files=_or_else(
            _official(("2wikimultihopqa/train.json",), ("2wikimultihopqa/dev.json",)),
            "2wikimultihopqa/lag_2wiki_dev_354_support_in_corpus.json",
            corpus="2wikimultihopqa_corpus.json",
        ),
        remark="The copy of the set's authors, xanhho/2WikiMultihopQA, has a script, which `datasets` no longer runs. "
        f"The stand-in has supporting paragraphs alone. {UNPINNED}",
    ),
    "strategyqa": RealSet(
        repo="ChilleD/StrategyQA",
        revision=None,
        licence="MIT",
        size="1,603 train and 687 test questions",
        published={"train": "train[:]", "eval": "test[:]"},
        files={
            "train": (
                DataFile("strategyqa/strategyqa_train.json", percent=(0, 90)),
                DataFile("strategyqa/train.json"),
                DataFile("strategyqa/dev.json", stand_in=True, percent=_TRAIN),
            ),
            "eval": (
                DataFile("strategyqa/strategyqa_train.json", percent=(90, 100)),
                DataFile("strategyqa/dev.json", stand_in=True, percent=_EVAL),
            ),
        },
        remark=f"On the hub the facts of a question are one text, which is cut into sentences. {UNPINNED}",
    ),
    "gsm8k": RealSet(
        repo="openai/gsm8k",
        revision=None,
        licence="MIT",
        size="7,473 train questions, of which the first 1,000 are played, and 1,319 test questions",
        published={"train": "train[:1000]", "eval": "test[:]"},
        files={
            "train": (DataFile("gsm8k/train.jsonl"), DataFile("gsm8k/train_first1000.jsonl")),
            "eval": (DataFile("gsm8k/test.jsonl"),),
        },
        config="main",
        remark=UNPINNED,
    ),
    "boolq": RealSet(
        repo="google/boolq",
        revision=None,
        licence="CC BY-SA 3.0",
        size="9,427 train and 3,270 validation questions, of which the first 1,000 of each are played",
        published={"train": "train[:1000]", "eval": "validation[:1000]"},
        files=_or_else(_official(("boolq/train.jsonl",), ("boolq/dev.jsonl",)), "boolq/allennlp_fixture_boolq.jsonl"),
        remark=UNPINNED,
    ),
    "squad": RealSet(
        repo="rajpurkar/squad",
        revision=None,
        licence="CC BY-SA 4.0",
        size="87,599 train and 10,570 validation questions, of which the first 5,000 and 2,000 are played",
        published={"train": "train[:5000]", "eval": "validation[:2000]"},
        files=_or_else(
            _official(("squad/train-v1.1.json",), ("squad/dev-v1.1.json",)),
            "squad/dev-v1.1.part_a_24articles.json",
            group="title",
        ),
        remark=f"{_CUT} {UNPINNED}",
    ),
    "squad_v2": RealSet(
        repo="rajpurkar/squad_v2",
        revision=None,
        licence="CC BY-SA 4.0",
        size="130,319 train and 11,873 validation questions, of which the first 5,000 and 2,000 are played",
        published={"train": "train[:5000]", "eval": "validation[:2000]"},
        files=_official(("squad/train-v2.0.json",), ("squad/dev-v2.0.json",)),
        remark=f"Some questions have no answer. {_CUT} {UNPINNED}",
    ),
}
"""By the name that ``dataset=`` takes."""

_PLAYED: Mapping[str, tuple[str, ...]] = {
    "qa/split_context": ("hotpotqa", "musique", "2wikimultihopqa", "strategyqa"),
    "qa/debate": ("gsm8k", "strategyqa", "boolq"),
    "qa/retrieve_answer": ("hotpotqa", "musique", "2wikimultihopqa"),
    "qa/workers_manager": ("squad", "squad_v2", "musique"),
}

DATASETS: Mapping[str, Mapping[str, str]] = {
    id: {dataset: f"{id}:{dataset}" if place else id for place, dataset in enumerate(names)}
    for id, names in _PLAYED.items()
}
"""By id what ``dataset=`` takes, the default first, and under which name the set is known."""

QA_SETS: Mapping[str, RealSet] = {
    name: _SETS[dataset] for names in DATASETS.values() for dataset, name in names.items()
}
"""By id without version, or ``ID:NAME``."""
