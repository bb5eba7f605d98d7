"""The real sets that the environments are published on: where each lies, at which commit, under which licence."""

from __future__ import annotations

from collections.abc import Mapping

from comlrl_envs.sources.coding_sets import CODING_SETS
from comlrl_envs.sources.qa_sets import DATASETS, QA_SETS
from comlrl_envs.sources.real_set import SPLITS, UNPINNED, DataFile, RealSet
from comlrl_envs.sources.tool_sets import TOOL_DATASETS, TOOL_SETS

__all__ = ["REAL_SETS", "SPLITS", "DataFile", "RealSet"]

REAL_SETS: Mapping[str, RealSet] = {
    "writing/tldr": RealSet(
        repo="trl-lib/tldr",
        revision="21233da376667088e6eb1ce4ce19ed832c2935d3",
        licence="CC BY 4.0 (Webis-TLDR-17)",
        size="about 117,000 train rows, of which the first 1,000 are played",
        published={"train": "train[:1000]", "eval": "test[:1000]"},
        files={
            "train": (DataFile("tldr/train.jsonl"),),
            "eval": (DataFile("tldr/eval.jsonl"), DataFile("tldr/tldr_200.jsonl", stand_in=True)),
        },
        remark="Posts of people; names and addresses may stand in them.",
    ),
    "writing/arxiv": RealSet(
        repo="OpenMLRL/arXiv_abstract",
        revision=None,
        licence="not stated; abstracts of arXiv papers, whose rights are their authors'",
        size="abstracts of 100 to 300 tokens, of which the first 1,000 of each split are played",
        published={"train": "train[:1000]", "eval": "val[:1000]"},
        files={
            "train": (DataFile("arxiv/train.jsonl"),),
            "eval": (
                DataFile("arxiv/eval.jsonl"),
                DataFile("scitldr/dev.jsonl", stand_in=True, fields={"abstract_text": "source"}),
            ),
        },
        remark=UNPINNED,
    ),
    **CODING_SETS,
    **QA_SETS,
    **TOOL_SETS,
}
"""By id without version; a further set of an id as ``ID:NAME``."""

SETS_OF: Mapping[str, Mapping[str, str]] = {**DATASETS, **TOOL_DATASETS}
"""By id with several sets what ``dataset=`` takes, and the name above of each."""
