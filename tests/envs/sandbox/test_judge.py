import os
from pathlib import Path

from comlrl_envs.sandbox import Job, Limits, Sandbox
from comlrl_envs.sandbox.judge import clear

COLLIDING = "def f(): return {n * ((1 << 61) - 1) for n in range(30000)}, 10 ** 4000"


def test_what_a_program_returns_cannot_keep_the_tests_busy_for_ever(sandbox: Sandbox) -> None:
    tests = (
        "assert f()[1] > 0",
        "x, y = f()\nassert sum(1 for _ in range(y)) == 0",
        "x, y = f()\nassert y ** y == 0",
        "assert f()[1] > 0",
    )
    verdict = sandbox.run(Job("def f(): return 0, 10 ** 4000", tests, ("f",), limits=Limits(cpu_seconds=0.5)))
    assert [test.outcome for test in verdict.tests][:2] == ["passed", "timeout"]
    assert verdict.tests[2].outcome in ("timeout", "error")
    assert verdict.passed < 3 or verdict.tests[3].outcome == "passed"


def test_a_test_that_swallows_everything_has_not_passed(sandbox: Sandbox) -> None:
    program = "def f():\n    while True: pass"
    test = "try:\n    f()\nexcept BaseException:\n    pass"
    verdict = sandbox.run(Job(program, (test,), ("f",), limits=Limits(cpu_seconds=0.2)))
    assert verdict.tests[0].outcome == "timeout"


def test_jobs_leave_nothing_to_each_other(sandbox: Sandbox) -> None:
    first = Job("def f(): return 1", ("leak = f()\nimport random\nrandom.seed(5)\nopen('left', 'w').close()",), ("f",))
    second = Job(
        "import random, os\ndef f(): return [random.random(), os.listdir('.')]",
        ("import random\nassert 'leak' not in globals()", "assert f()[1] == []", "assert f()[0] == random.random()"),
        ("f",),
    )
    outcomes = sandbox.run_many([second, first, second, first, second] * 2)
    seconds = [verdict for number, verdict in enumerate(outcomes) if number % 5 in (0, 2, 4)]
    assert all(verdict == seconds[0] for verdict in seconds)
    assert seconds[0].tests[0].outcome == seconds[0].tests[1].outcome == "passed"  # type: ignore[union-attr]


def test_after_three_timeouts_the_rest_is_not_run(sandbox: Sandbox) -> None:
    program = "def f(n):\n    while n: pass\n    return 0"
    tests = tuple(f"assert f({number}) == 0" for number in (0, 1, 1, 0, 1, 0, 0))
    verdict = sandbox.run(Job(program, tests, ("f",), limits=Limits(cpu_seconds=0.1)))
    outcomes = [test.outcome for test in verdict.tests]
    assert outcomes == ["passed", "timeout", "timeout", "passed", "timeout", "not_run", "not_run"]


def test_output_is_kept_up_to_its_limit_also_of_a_program_that_dies(sandbox: Sandbox) -> None:
    program = (
        "import os\ndef f():\n    print('before')\n    os.write(1, b'raw')\n    os._exit(1)\ndef g(): print('x' * 50)"
    )
    verdict = sandbox.run(Job(program, ("f()", "g()"), ("f", "g"), limits=Limits(output_bytes=30)))
    assert verdict.output.startswith("rawxxx") or verdict.output.startswith("before")
    assert len(verdict.output) == 30 and verdict.output_cut


def test_folders_are_cleared_however_deep_or_locked(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "file").write_text("x")
    (folder / "link").symlink_to(tmp_path)
    (folder / "locked" / "inner").mkdir(parents=True)
    (folder / "locked").chmod(0)
    here = os.open(".", os.O_RDONLY)
    os.chdir(folder)
    for _ in range(1500):
        os.mkdir("deep")
        os.chdir("deep")
    os.fchdir(here)
    os.close(here)
    clear(str(folder))
    assert list(tmp_path.iterdir()) == []
