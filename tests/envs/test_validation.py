"""Golden episodes, `validate` and its command."""

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
    DeniesItsChannel,
    KnowsAnyway,
    MovingBrief,
    PaysForNothing,
    PoorOracle,
    Relay,
    SetOrder,
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
    ran = run_cli("validate", "writing/length_ratio", "--tasks", "5", "--golden", str(golden), "--env.max_turns", "2")
    assert ran.returncode == 0, ran.stderr
    assert "writing/length_ratio-v0, split eval, 5 tasks" in ran.stdout
    assert re.search(r"oracle +pass +1\.0000 of 1\.0000 reachable", ran.stdout)
    assert re.search(r"channel +exempt +channel = False", ran.stdout)
    assert re.search(r"golden +pass", ran.stdout) and "All promises are kept." in ran.stdout


def test_the_command_fails_when_a_promise_is_broken(tmp_path):
    golden = tmp_path / "golden.json"
    record_golden("writing/length_ratio", golden)
    golden.write_text(golden.read_text().replace("Write about", "Tell about"))
    ran = run_cli("validate", "writing/length_ratio", "--tasks", "2", "--golden", str(golden), "--env.source", "demo")
    assert ran.returncode == 1
    assert "1 of 7 promises are broken" in ran.stdout and "raise the version" in " ".join(ran.stdout.split())
