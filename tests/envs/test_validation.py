"""Golden episodes, `validate` and its command."""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Mapping

import pytest

from comlrl_envs import OptionError, Score, State, Step
from comlrl_envs.registry import register
from comlrl_envs.testing import CheckError, Subject, check_golden, record_golden, run_check, validate

from . import relay
from .relay import (
    BlanksNothing,
    BoundsByWord,
    DeniesItsChannel,
    KnowsAnyway,
    MovingBrief,
    Overhears,
    PaysForNothing,
    PaysSilence,
    PoorOracle,
    Relay,
    Secretive,
    SetOrder,
    Stumbles,
    UnknownFloor,
)


@pytest.fixture
def relay_id():
    id = "toy/golden_relay-v0"
    register(id, f"{relay.__name__}:relay_env", overwrite=True)
    return id


def half_advance(self: Relay, state: State, actions: Mapping[str, str]) -> Step:
    lengths = {agent: float(len(text)) for agent, text in actions.items()}
    return Step(state, Score({"answer": 0.5}, {"success": 0.0}, {"characters": lengths}))


def test_golden_episodes_hold_until_a_prompt_or_a_reward_changes(relay_id, tmp_path, monkeypatch):
    path = tmp_path / "relay.json"
    record_golden(relay_id, path, [{}, {"max_turns": 3}])
    check_golden(relay_id, path)
    check_golden("toy/golden_relay", path)
    assert run_check("golden", Subject(relay_id, golden=path)) is None
    monkeypatch.setattr(Relay, "brief", MovingBrief.brief)
    with pytest.raises(CheckError, match=r"is shown .* raise the version"):
        check_golden(relay_id, path)
    monkeypatch.undo()
    monkeypatch.setattr(Relay, "advance", half_advance)
    with pytest.raises(CheckError, match=r"answer is 0\.5"):
        check_golden(relay_id, path)


def test_a_golden_file_is_for_one_version(relay_id, tmp_path):
    path = tmp_path / "relay.json"
    record_golden(relay_id, path, tasks=1)
    register("toy/golden_relay-v1", f"{relay.__name__}:relay_env", overwrite=True)
    with pytest.raises(CheckError, match="not of toy/golden_relay-v1"):
        check_golden("toy/golden_relay-v1", path)
    with pytest.raises(OptionError, match="cannot be read"):
        check_golden(relay_id, tmp_path / "none.json")
    path.write_text("[]")
    with pytest.raises(OptionError, match="holds no golden episodes"):
        check_golden(relay_id, path)
    with pytest.raises(OptionError, match="no JSON values"):
        record_golden(relay_id, path, [{"rules": Relay}])


def no_episodes(data):
    data["episodes"] = []


def a_number_of_episodes(data):
    data["episodes"] = 5


def no_turns(data):
    data["episodes"][1]["turns"] = []


def half_the_turns(data):
    del data["episodes"][2]["turns"][1:]


def no_kwargs(data):
    del data["episodes"][0]["kwargs"]


def no_reward(data):
    del data["episodes"][0]["turns"][1]["reward"]


def terms_of_text(data):
    data["episodes"][0]["turns"][1]["terms"] = {"answer": "much"}


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (no_episodes, "'episodes' is a list"),
        (a_number_of_episodes, "'episodes' is a int, '5'"),
        (no_turns, "episode 1 stops after 0 turns"),
        (half_the_turns, "episode 2 stops after 1 turns"),
        (no_kwargs, "episode 0 has no 'kwargs'"),
        (no_reward, "episode 0, turn 1 has no 'reward'"),
        (terms_of_text, "episode 0, turn 1 has terms that are no numbers"),
    ],
)
def test_a_golden_file_must_hold_whole_episodes(relay_id, tmp_path, harm, told):
    path = tmp_path / "relay.json"
    record_golden(relay_id, path, tasks=1)
    data = json.loads(path.read_text())
    harm(data)
    path.write_text(json.dumps(data))
    with pytest.raises(OptionError, match=f"{told}.*record_golden"):
        check_golden(relay_id, path)
    with pytest.raises(OptionError, match=told):
        validate(relay_id, tasks=1, golden=path)


@pytest.mark.parametrize(
    ("where", "promise"),
    [
        ("begin", "oracle"),
        ("brief", "oracle"),
        ("observe", "replay"),
        ("advance", "floor random"),
        ("oracle", "oracle"),
        ("reachable", "oracle"),
        ("blank", "channel"),
    ],
)
def test_what_a_scenario_raises_fails_the_promise_that_names_it(relay_id, where, promise):
    found = validate(relay_id, kwargs={"rules": Stumbles, "where": where}, tasks=2)
    failed = {line.promise: line for line in found.lines if line.verdict == "fail"}
    assert f"Stumbles.{where} raised ZeroDivisionError: seventh shelf" in failed[promise].seen
    assert failed[promise].mend and not found.passed


@pytest.mark.parametrize(
    ("where", "value", "promise", "told"),
    [
        ("oracle", ["<m>"], "oracle", "oracle returned a list; expected a dict"),
        ("advance", None, "oracle", "advance returned a NoneType; expected a Step"),
        ("observe", None, "floor echo", "observe returned a NoneType; expected a str"),
        ("reachable", "all", "oracle", "reachable returned a str; expected a finite number"),
        ("blank", 3, "channel", "blank returned a int; expected a str"),
    ],
)
def test_what_a_scenario_returns_wrongly_is_named(relay_id, where, value, promise, told):
    found = validate(relay_id, kwargs={"rules": Stumbles, "where": where, "value": value}, tasks=2)
    failed = {line.promise: line for line in found.lines if line.verdict == "fail"}
    assert f"Stumbles.{told}" in failed[promise].seen and failed[promise].mend


def test_episodes_that_never_end_are_measured_so_far(relay_id):
    found = validate(relay_id, kwargs={"max_turns": 10**7}, tasks=2)
    verdicts = {line.promise: line for line in found.lines}
    assert verdicts["oracle"].verdict == verdicts["replay"].verdict == "pass"
    assert "100 turns of 10000000 at most were played" in verdicts["oracle"].seen
    assert found.oracle.mean == pytest.approx(0.99)


REGISTERED = """
from comlrl_envs.registry import register
from tests.envs.relay import relay_env

def parallel_env(**kwargs):
    return relay_env(**kwargs)

register("toy/by_import-v0", "{name}:parallel_env")
"""


def test_a_module_that_registers_itself_is_replayed(tmp_path, monkeypatch):
    (tmp_path / "registered_toy.py").write_text(REGISTERED.format(name="registered_toy"))
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("registered_toy")
    found = validate("toy/by_import", tasks=2, kwargs={"max_turns": 3})
    assert [line.verdict for line in found.lines if line.promise == "replay"] == ["pass"]


def test_what_only_this_process_knows_is_looked_for(relay_id, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setattr(relay, "only_here", relay.relay_env, raising=False)
    register("toy/only_here-v0", f"{relay.__name__}:only_here", overwrite=True)
    with pytest.raises(CheckError, match=r"(?s)AttributeError.*only this one has imported"):
        run_check("replay", Subject("toy/only_here-v0"))


def test_validation_holds_the_numbers(relay_id):
    found = validate(relay_id, split="train")
    assert found.passed and (found.id, found.split, found.tasks) == (relay_id, "train", 12)
    assert (found.oracle.mean, found.oracle.reachable, found.oracle.gap) == (0.5, 0.5, 0.0)
    assert found.floors["random"] == (0.0, 0.01)
    reader, writer = found.blanks
    assert (reader.agent, reader.mean, reader.changed) == ("reader", 0.5, 12)
    assert 0.0 < reader.low < 0.5 < reader.high < 1.0
    assert writer.changed == 0
    verdicts = {line.promise: line.verdict for line in found.lines}
    assert verdicts["blank reader"] == "pass" and verdicts["blank writer"] == "exempt"
    assert verdicts["replay"] == "pass"


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (PoorOracle, "oracle"),
        (PaysForNothing, "floor empty"),
        (UnknownFloor, "floor emty"),
        (KnowsAnyway, "blank reader"),
        (BlanksNothing, "channel"),
        (DeniesItsChannel, "channel"),
        (Overhears, "channel"),
        (Secretive, "channel"),
        (PaysSilence, "oracle"),
        (BoundsByWord, "floor empty"),
        (SetOrder, "replay"),
    ],
)
def test_validation_names_what_is_broken(relay_id, broken, promise):
    found = validate(relay_id, kwargs={"rules": broken}, tasks=4)
    failed = {line.promise: line for line in found.lines if line.verdict == "fail"}
    assert promise in failed and failed[promise].mend and not found.passed
    assert found.tasks == 4


def test_one_task_is_too_few_to_prove_a_cost(relay_id):
    found = validate(relay_id, tasks=1)
    assert [line.promise for line in found.lines if line.verdict == "fail"] == ["blank reader"]


def run_cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from comlrl_envs.cli import main; sys.exit(main(sys.argv[1:]))"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)


def test_the_command_prints_a_table(tmp_path):
    golden = tmp_path / "golden.json"
    record_golden("writing/length_ratio", golden)
    ran = run_cli(
        "validate", "writing/length_ratio", "--max_tasks", "5", "--golden", str(golden), "--env.max_turns", "2"
    )
    assert ran.returncode == 0, ran.stderr
    assert "writing/length_ratio-v0, split eval, 5 tasks" in ran.stdout
    assert re.search(r"oracle +pass +1\.0000 of 1\.0000 reachable", ran.stdout)
    assert re.search(r"channel +exempt +channel = False", ran.stdout)
    assert re.search(r"golden +pass", ran.stdout) and "All promises are kept." in ran.stdout


def test_the_command_fails_when_a_promise_is_broken(tmp_path):
    golden = tmp_path / "golden.json"
    record_golden("writing/length_ratio", golden)
    golden.write_text(golden.read_text().replace("Write about", "Tell about"))
    ran = run_cli(
        "validate", "writing/length_ratio", "--max_tasks", "2", "--golden", str(golden), "--env.source", "demo"
    )
    assert ran.returncode == 1
    assert "1 of 7 promises are broken" in ran.stdout and "raise the version" in " ".join(ran.stdout.split())
