"""How many tool calls a second the stateful classes of `tool_use/multi_turn` answer, on one core.

    OMP_NUM_THREADS=1 python tool_speed.py

The calls are the 800 gold lists of the Berkeley Function Calling Leaderboard's multi-turn part. "Replay" plays each
list once from its beginning. "Branching" plays four different calls from each state of each list, one after the other:
the gold one and three others of the same list, so that no result is found among those of before. "Forgotten" is the
same where hardly a state is kept, so that the log is replayed for almost each of them; its calls do not count.
CPU time, without reading the rows; with `--built`, also without making the first state of each item.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from comlrl_envs.sources.tool_sets import BFCL
from comlrl_envs.sources.wheel import DATA_DIR, kept
from comlrl_envs.tool_use.backends import official
from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.worlds import Setup, Worlds

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
DOCUMENTS = "bfcl_eval/data/multi_turn_func_doc/"
BRANCHES = 4
Item = tuple[Setup, list[Call]]
Asked = tuple[Setup, tuple[str, ...], list[Call]]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="where bfcl/ with the wheel lies; default: the cache")
    parser.add_argument("--built", action="store_true", help="make the first states before the clock starts")
    options = parser.parse_args()
    if options.data_dir is not None:
        os.environ[DATA_DIR] = str(options.data_dir)
    official()
    wheel = kept(BFCL)
    if wheel is None:
        raise SystemExit(f"The gold lists are read from the wheel: put it into a data folder as {BFCL.data_path}.")
    items = list(read(wheel))
    print("| what | calls | CPU s | calls a second |\n| --- | --- | --- | --- |")
    measured("replay", items, replay, Worlds(len(items)), built=options.built)
    measured("branching", items, branching, Worlds(len(items)), built=options.built)
    measured("forgotten", items, branching, Worlds(len(items), most_states=1), built=options.built)


def read(wheel: Path) -> Iterator[Item]:
    """How each item begins and its gold calls."""
    with zipfile.ZipFile(wheel) as packed:

        def rows(name: str) -> list[dict[str, Any]]:
            return [json.loads(line) for line in packed.read(name).decode("utf-8").splitlines()]

        names = [name for name in packed.namelist() if name.startswith(DOCUMENTS) and name.endswith(".json")]
        order = {row["name"]: list(row["parameters"]["properties"]) for name in names for row in rows(name)}
        for category in CATEGORIES:
            file = f"BFCL_v4_multi_turn_{category}.json"
            gold = {row["id"]: row["ground_truth"] for row in rows(f"bfcl_eval/data/possible_answer/{file}")}
            for row in rows(f"bfcl_eval/data/{file}"):
                calls = [call(text, order) for turn in gold[row["id"]] for text in turn]
                config = json.dumps(row["initial_config"])
                yield Setup(tuple(row["involved_classes"]), config, category == "long_context"), calls


def call(text: str, order: dict[str, list[str]]) -> Call:
    """The call of a gold text, positional arguments named in the order of the documents."""
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    given = dict(zip(order[node.func.id], map(ast.literal_eval, node.args), strict=False))
    return Call(node.func.id, {**given, **{str(each.arg): ast.literal_eval(each.value) for each in node.keywords}})


def replay(setup: Setup, calls: list[Call]) -> Iterator[Asked]:
    """The list from its beginning."""
    yield setup, (), calls


def branching(setup: Setup, calls: list[Call]) -> Iterator[Asked]:
    """From each state the next gold call and others of the list."""
    log = tuple(each.text for each in calls)
    for place in range(len(calls)):
        # The gold call first: the other branches then start from a state that was left.
        turned = {each.text: each for each in calls[place:] + calls[:place]}
        for each in list(turned.values())[:BRANCHES]:
            yield setup, log[:place], [each]


def measured(
    name: str, items: list[Item], asked: Callable[[Setup, list[Call]], Iterator[Asked]], worlds: Worlds, *, built: bool
) -> None:
    """Time what is asked of the worlds and print a row."""
    if built:
        for setup, _ in items:
            worlds.play(setup, (), ())
    questions = [question for item in items for question in asked(*item)]
    started = time.process_time()
    for question in questions:
        worlds.play(*question)
    taken = time.process_time() - started
    count = sum(len(calls) for _, _, calls in questions)
    print(f"| {name} | {count:,} | {taken:.2f} | {count / taken:,.0f} |")


if __name__ == "__main__":
    main()
