import os
from pathlib import Path

import pytest

from comlrl_envs.sandbox import Job, Sandbox
from comlrl_envs.sandbox.protection import MATRIX, table
from tests.envs.sandbox.attacks import ATTACKS, Attack

THREATS = {threat.name: threat for threat in MATRIX}
HONEST = Job("def f(): return 4", ("assert f() == 4",), ("f",))
PLACES = ("outside", "secret", "pid")


def filled(attack: Attack, folder: Path) -> str:
    known = {"outside": str(folder / "outside"), "secret": str(folder / "secret"), "pid": os.getpid()}
    program = attack.program
    for name, value in known.items():
        program = program.replace(f"{{{name}!r}}", repr(value)).replace(f"{{{name}}}", str(value))
    return program


@pytest.mark.parametrize("name", ATTACKS)
def test_what_the_matrix_says_is_so(
    sandbox: Sandbox, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack = ATTACKS[name]
    (tmp_path / "secret").write_text("x")
    tmp_path.chmod(0o755)
    job = Job(filled(attack, tmp_path), (attack.test,), ("f",), limits=attack.limits)
    monkeypatch.setenv("COMLRL_TEST_SECRET", "x")
    verdict = sandbox.run(job)
    # Who breaks the built-in functions of its own process may not even get to its tests.
    assert verdict.defined or attack.threat == "patch", verdict.problem
    stopped = getattr(THREATS[attack.threat], sandbox.backend)
    assert (verdict.passed == 0) == stopped, verdict
    assert (tmp_path / "outside").exists() == (name == "write_outside" and not stopped)
    if attack.outcome:
        assert verdict.tests[0].outcome == attack.outcome, verdict
    assert len(verdict.output) <= attack.limits.output_bytes
    # Whatever happened, the next program is judged as if nothing had been.
    assert sandbox.run(HONEST).passed == 1


def test_every_threat_of_the_matrix_is_tried() -> None:
    assert {attack.threat for attack in ATTACKS.values()} == set(THREATS)


def test_the_documentation_holds_the_matrix() -> None:
    page = Path(__file__).parents[3] / "docs" / "sandbox.md"
    assert table() in page.read_text(encoding="utf-8")
