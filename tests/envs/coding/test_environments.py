"""The four environments as they are played: figures of the published rewards, floors, bad rows, failing machines."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import comlrl_envs
from comlrl_envs import InfrastructureError, OptionError, TaskError
from comlrl_envs.coding.demo import functions
from comlrl_envs.coding.problems import from_row, problem_of
from comlrl_envs.sandbox import Sandbox, bubblewrap

FUNCTION_IDS = ("coding/humaneval", "coding/coop_humaneval", "coding/mbpp")
IDS = (*FUNCTION_IDS, "coding/classeval")

SQUARE = {
    "id": "square",
    "prompt": 'def f(n):\n    """Give the square of n, and one more.\n\n    >>> f(9)\n    82\n    """\n',
    "entry_point": "f",
    "test": "def check(candidate):\n" + "".join(f"    assert candidate({n}) == {n * n + 1}\n" for n in (0, 1, 2, 3)),
}
AUX = "def aux(n):\n    return n * n\n"
WHOLE = "def f(n):\n    return n * n + 1\n"
TEAM = "def f(n):\n    square = aux(n)\n    return square + 1\n"
QUARTER = "def f(n):\n    square = aux(n)\n    return square + 1 if n == 0 else None\n"
WRAPPER = "def f(n):\n    return aux(n)\n"
WRAPPED = "def aux(n):\n    return n * n + 1\n"
IGNORES = "def f(n):\n    aux(n)\n    return n * n + 1\n"
MENTIONS = 'def f(n):\n    """Use aux(n)."""\n    # aux(n)\n    return n * n + 1\n'
BROKEN = "def f(n):\n    return aux(n\n"


def play(id, row, actions, **kwargs):
    """Reward and infos of one joint action."""
    env = comlrl_envs.make(id, tasks=[row], **kwargs)
    env.reset(seed=0)
    _, rewards, _, _, infos = env.step(actions)
    return next(iter(rewards.values())), next(iter(infos.values()))


@pytest.mark.parametrize("form", ["check", "test_list"])
@pytest.mark.parametrize(
    ("main", "aux", "published", "strict"),
    [
        ("", "", 0.0, 0.0),
        ("", AUX, 0.4, 0.4),  # main is missing
        (WHOLE, "", 2.1, 2.1),  # main alone
        (WHOLE, AUX, 2.5, 2.5),  # the helper is not used
        (MENTIONS, AUX, 2.5, 2.5),  # nor is it by a comment or a text
        (IGNORES, AUX, 3.5, 2.0),  # its value is ignored
        (WRAPPER, WRAPPED, 3.0, 3.0),
        (TEAM, AUX, 4.0, 4.0),
        (QUARTER, AUX, 3.25, 1.75 + 0.25 * 1.5),
        (BROKEN, AUX, 1.0, 1.0),  # a syntax error
        ("def f(n):\n    return aux(n) and None", AUX, 1.5, 1.5),  # no test passes
        ("def f(n):\n    return aux(n)\nraise SystemExit", AUX, 1.5, 1.5),  # it never comes to a test
    ],
)
def test_figures_of_the_published_reward_and_of_the_strict_one(form, main, aux, published, strict):
    row = SQUARE
    if form == "test_list":
        asserts = [f"assert f({n}) == {n * n + 1}" for n in (0, 1, 2, 3)]
        row = {"id": "square", "prompt": SQUARE["prompt"], "test_list": asserts, "canonical_solution": WHOLE}
    id = "coding/mbpp" if form == "test_list" else "coding/humaneval"
    actions = {"helper": aux, "main": f"Here it is:\n```python\n{main}\n```\n" if main else ""}
    for preset, expected in (("published", published), ("strict", strict)):
        reward, infos = play(id, row, actions, reward=preset)
        assert reward == pytest.approx(expected), preset
        assert infos["metric/tests_den"] == 4.0


def test_one_agent_alone_reaches_less():
    reward, infos = play("coding/humaneval", SQUARE, {"main": WHOLE}, num_agents=1)
    assert reward == 2.1 and infos["metric/success"] == 1.0
    env = comlrl_envs.make("coding/humaneval", tasks=[SQUARE], num_agents=1)
    assert env.game.reward_range == (0.0, 2.1) and "aux" not in env.reset(seed=0)[0]["main"]


@pytest.mark.parametrize("preset", ["published", "strict"])
def test_each_of_several_helpers_has_its_part(preset):
    two = {"helper_1": "def aux_1(n):\n    return n * n", "helper_2": "def aux_2(n):\n    return 1"}
    both = "def f(n):\n    square, one = aux_1(n), aux_2(n)\n    return square + one"
    reward, infos = play("coding/humaneval", SQUARE, {**two, "main": both}, num_agents=3, reward=preset)
    assert reward == pytest.approx(4.0) and infos["metric/helper_called"] == 1.0
    first = "def f(n):\n    square = aux_1(n)\n    return square + 1"
    reward, _ = play("coding/humaneval", SQUARE, {**two, "main": first}, num_agents=3, reward=preset)
    assert reward == pytest.approx(3.75 if preset == "published" else 3.25)


def test_what_a_team_keeps_beside_its_functions_is_kept():
    aux = "import functools\nLIMIT = 100\n\nclass Box:\n    side = 1\n\n@functools.cache\ndef aux(n):\n"
    aux += "    def inner(x):\n        return x * x * Box.side\n    return min(inner(n), LIMIT)\n"
    main = "from math import floor\nONE = 1\nasync def other():\n    pass\n\ndef f(n):\n    square = aux(n)\n"
    main += "    def more(x):\n        return floor(x) + ONE\n    return more(square)\n"
    assert play("coding/humaneval", SQUARE, {"helper": aux, "main": main}, reward="strict")[0] == 4.0


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("reply", ["", "I cannot help with that.", "```python\n```", "\0\ud800" * 9])
def test_a_reply_without_code_scores_the_floor(id, reply):
    env = comlrl_envs.make(id, source="demo")
    env.reset(seed=0, options={"task": 0})
    _, rewards, _, _, infos = env.step(dict.fromkeys(env.possible_agents, reply))
    assert set(rewards.values()) == {0.0}
    assert all(info["metric/success"] == 0.0 for info in infos.values())


CLASS = {
    "id": "Box",
    "skeleton": "class Box:\n    def __init__(self, n):\n        self.n = n\n"
    + "".join(f'\n    def {name}(self):\n        """Do it."""\n' for name in "abcd"),
    "test": "import unittest\n\n\nclass BoxTest(unittest.TestCase):\n"
    + "".join(
        f"    def test_{name}_{n}(self):\n        self.assertEqual(Box({n}).{name}(), {n + place})\n\n"
        for place, name in enumerate("abcd")
        for n in (1, 2)
    ),
}


def method(name, place, wrong=False):
    return f"def {name}(self):\n    return self.n + {place}{' + 1' if wrong else ''}\n\n"


A, B, C, D = (method(name, place) for place, name in enumerate("abcd"))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (A + B, C + D, 6.0),
        (A + B, C + method("d", 3, wrong=True), 2 + 3),
        (A + B + C, C + method("d", 3, wrong=True), 4.75),
        (A + B + C + D, A + B + C + D, 5.0),
        (A + B + C + D, "", 6.0),
        (A + B, "", 1 + 2),
        (A + B, "def c(self:\n    return 1\n", 1 + 2),
        ("", "", 0.0),
    ],
)
def test_figures_of_the_class_reward(first, second, expected):
    reward, infos = play("coding/classeval", CLASS, {"coder_1": first, "coder_2": second})
    assert reward == pytest.approx(expected)
    assert infos["metric/success"] == float(expected == 6.0) and infos["metric/tests_den"] == 8.0


def test_the_oldest_reward_of_a_class_is_a_metric():
    joint = {
        **CLASS,
        "test": CLASS["test"] + "    def test_all(self):\n        self.assertEqual(Box(1).a() + Box(1).d(), 5)\n",
    }
    _, infos = play("coding/classeval", joint, {"coder_1": A + B, "coder_2": C + D})
    assert infos["metric/collaboration_score"] == pytest.approx(10.0)
    _, infos = play("coding/classeval", joint, {"coder_1": A + B, "coder_2": C + method("d", 3, wrong=True)})
    # 7 tests of one agent and one of both; 3 tests fail, one of them the joint one.
    assert infos["metric/collaboration_score"] == pytest.approx(3 + 5 * 6 / 9 + 2 * 6 / 10)


def test_in_a_partition_only_the_own_methods_are_taken():
    env = comlrl_envs.make("coding/classeval", tasks=[CLASS], assignment="partition")
    shown, _ = env.reset(seed=3)
    first, second = env.episode.state.shares
    assert sorted(first + second) == list("abcd") and len(first) == 2
    assert f"Write these methods, and no others: {', '.join(first)}." in shown["coder_1"]
    rewards = env.step({"coder_1": A + B + C + D, "coder_2": A + B + C + D})[1]
    assert rewards["coder_1"] == 5.0
    env.reset(seed=3)
    assert env.step({"coder_1": A + B + C + D, "coder_2": ""})[1]["coder_1"] == pytest.approx(1 + 2)


ATTACKS = {
    "prints a result and leaves": "    print('{{\"passed\": 8}}', flush=True)\n    import os\n    os._exit(0)",
    "walks frames": "    import sys\n    frame = sys._getframe()\n    while frame:\n"
    "        frame.f_globals.update(assertEqual=print)\n        frame = frame.f_back\n    return 0",
    "patches unittest": "    import unittest\n    unittest.TestCase.assertEqual = lambda *a, **k: None\n    return 0",
    "patches the result": "    import gc\n    for each in gc.get_objects():\n"
    "        if hasattr(each, 'addFailure'):\n            each.addFailure = each.addSuccess\n    return 0",
    "is equal to all": "    class Same:\n        def __eq__(self, other):\n            return True\n    return Same()",
    "is an equal number": "    class Same(int):\n        def __eq__(self, other):\n            return True\n"
    "        __hash__ = int.__hash__\n    return Same(0)",
    "leaves at exit": "    import atexit\n    atexit.register(print, 'OK')\n    raise SystemExit(0)",
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_class_that_cheats_scores_no_more_than_the_stubs(name):
    body = ATTACKS[name].replace("    ", "        ").replace("{{", "{").replace("}}", "}")
    methods = "".join(f"    def {each}(self):\n{body}\n\n" for each in "abcd")
    _, infos = play("coding/classeval", CLASS, {"coder_1": f"class Box:\n{methods}", "coder_2": ""})
    assert infos["metric/compiles"] == 1.0 and infos["metric/covered"] == 1.0
    assert infos["metric/tests_num"] == 0.0


FUNCTION_ATTACKS = {
    "is equal to all": "class Same:\n    def __eq__(self, other):\n        return True\n\ndef f(n):\n    return Same()",
    "leaves": "import os\nprint('passed', flush=True)\n\ndef f(n):\n    return os._exit(0)",
    "kills its parent": "import os\n\ndef f(n):\n    return os.kill(os.getppid(), 9)",
    "loops": "def f(n):\n    while n >= 0:\n        try:\n            n += 1\n        except:\n            return 0",
}


@pytest.mark.parametrize("name", FUNCTION_ATTACKS)
def test_a_function_that_cheats_or_breaks_off_passes_nothing(name):
    reward, infos = play("coding/humaneval", SQUARE, {"helper": "", "main": FUNCTION_ATTACKS[name]}, cpu_seconds=0.2)
    assert reward == pytest.approx(1.1) and infos["metric/tests_num"] == 0.0
    assert (infos["metric/timeouts"] > 0) == (name == "loops")


@pytest.mark.parametrize(
    ("id", "changes", "message"),
    [
        ("coding/humaneval", {"test": "def check(candidate):\n    pass\n"}, "there is no test"),
        ("coding/humaneval", {"test": "def check(candidate:\n"}, "'test' is no Python"),
        ("coding/coop_humaneval", {"test": None}, "'test' is None"),
        ("coding/humaneval", {"entry_point": "g"}, "shows no function 'g'"),
        ("coding/humaneval", {"entry_point": ""}, "'entry_point' is ''"),
        ("coding/humaneval", {"prompt": "Square it."}, "shows no function 'f'"),
        ("coding/classeval", {"test": "import unittest\n"}, "no method whose name begins with 'test'"),
        ("coding/classeval", {"test": "class"}, "'test' is not Python"),
        ("coding/classeval", {"class_name": "Bax"}, "Did you mean 'Box'"),
        ("coding/classeval", {"skeleton": "class Box:\n    x = 1\n"}, "no method to write"),
    ],
)
def test_a_bad_row_is_named(id, changes, message):
    row = {**(CLASS if id == "coding/classeval" else SQUARE), "id": "the bad one", **changes}
    with pytest.raises(TaskError, match=f"Task 'the bad one' .*{message}"):
        comlrl_envs.make(id, tasks=[SQUARE if id != "coding/classeval" else CLASS, row])
    env = comlrl_envs.make(id, source="demo")
    with pytest.raises(TaskError, match=message):
        env.reset(seed=0, options={"item": row})


@pytest.mark.parametrize("field", ["prompt", "entry_point", "test"])
def test_a_row_that_lacks_a_field_is_named(field):
    row = {name: value for name, value in SQUARE.items() if name != field}
    with pytest.raises(TaskError, match=f"Task 'square' has no field '{field}'"):
        comlrl_envs.make("coding/humaneval", tasks=[row])


def test_tests_that_cannot_be_run_are_the_rows_fault():
    row = {**SQUARE, "test": "LIMIT = 1 / 0\n" + SQUARE["test"]}
    env = comlrl_envs.make("coding/humaneval", tasks=[row])
    env.reset(seed=0)
    with pytest.raises(TaskError, match="ZeroDivisionError"):
        env.step({"helper": AUX, "main": TEAM})


@pytest.mark.parametrize("id", IDS)
def test_settings_are_checked(id):
    for kwargs in ({"backend": "docker"}, {"workers": -1}, {"cpu_seconds": 0}, {"num_agents": 0}, {"reward": "best"}):
        with pytest.raises(OptionError, match=next(iter(kwargs))):
            comlrl_envs.make(id, source="demo", **kwargs)


def test_a_row_whose_tests_cannot_be_set_up_is_named():
    row = {**SQUARE, "id": "my-row", "test": f"import nosuch\n{SQUARE['test']}"}
    with pytest.raises(TaskError, match=r"'my-row' cannot be judged: .*nosuch.*Mend its tests"):
        play("coding/humaneval", row, {"helper": AUX, "main": TEAM})


def test_an_entry_point_that_a_helper_would_take_is_refused():
    row = {**SQUARE, "prompt": SQUARE["prompt"].replace("def f", "def aux"), "entry_point": "aux"}
    with pytest.raises(TaskError, match=r"'square'.*rename it"):
        play("coding/humaneval", row, {})


def test_feedback_tells_no_value_of_a_call_that_raised():
    env = comlrl_envs.make("coding/humaneval", tasks=[SQUARE], max_turns=2)
    env.reset(seed=0)
    told = env.step({"helper": AUX, "main": "def f(n):\n    return aux(n) + int(input())"})[0]["main"]
    assert "EOFError" in told and "The value was" not in told


@pytest.mark.parametrize("id", FUNCTION_IDS)
def test_what_is_told_never_holds_a_call_that_scores(id):
    for split in ("train", "eval"):
        for row in functions.rows(id.removeprefix("coding/"), split):
            parts = problem_of(from_row(row)).split
            assert parts.disjoint and not set(parts.scoring) & set(parts.feedback)


@pytest.mark.parametrize(
    ("kwargs", "told"), [({}, 0), ({"max_turns": 2, "feedback": "plain"}, 0), ({"max_turns": 2}, 1)]
)
def test_all_tests_score_where_nothing_is_told_of_them(kwargs, told):
    row = {**SQUARE, "prompt": 'def f(n):\n    """Give the square of n, and one more."""\n'}
    reward, infos = play("coding/humaneval", row, {"main": "def f(n): return n * n + 1"}, num_agents=1, **kwargs)
    assert (reward, infos["metric/tests_num"], infos["metric/tests_den"]) == (2.1, 4 - told, 4 - told)


@pytest.mark.parametrize("mode", ["plain", "passed", "levels", "diagnosis"])
@pytest.mark.parametrize("hidden", [False, True])
def test_no_feedback_holds_what_scores(mode, hidden):
    """Canaries in arguments, results and messages of scoring tests turn up nowhere, whatever the team does."""
    asserts = [f"    assert candidate({n + 1}948617) == 'qzx{n}vjk', 'qzx{n}told'\n" for n in range(1 if hidden else 5)]
    prompt = 'def f(n):\n    """Find the word of n."""\n'
    row = {"id": "words", "prompt": prompt, "entry_point": "f", "test": "def check(candidate):\n" + "".join(asserts)}
    told = "".join(problem_of(from_row(row)).split.feedback) if not hidden else ""
    env = comlrl_envs.make("coding/humaneval", tasks=[row], max_turns=4, feedback=mode, text_infos=True)
    env.reset(seed=0)
    mains = (
        "def f(n):\n    return n",
        "def f(n):\n    raise ValueError('no')",
        "def f(n):\n    return aux(n) + None",
        "x",
    )
    for main in mains:
        returned = env.step({"helper": AUX, "main": main})
        for number in range(5):
            for mark in (f"{number + 1}948617", f"qzx{number}vjk", f"qzx{number}told"):
                assert mark in told or mark not in repr(returned)


def children():
    """Processes that this one started, of which the sandbox's workers are some."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def end(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def sleepers(count):
    """An environment of its own workers, and moves that take a while."""
    rows = [{**SQUARE, "id": str(number)} for number in range(count)]
    # Settings that no other test has, so that these workers are nobody else's.
    env = comlrl_envs.make("coding/humaneval", tasks=rows, num_agents=1, workers=2, cpu_seconds=2.875)
    main = "import time\n\ndef f(n):\n    time.sleep(0.15)\n    return n * n + 1  # {}\n"
    episodes = env.game.start_many(list(env.tasks), [0] * count)
    return env, [(each, {"main": main.format(f"{time.time()} {each.task_id}")}) for each in episodes]


def test_equal_programs_are_judged_once_and_a_sample_of_chance_is_not_remembered(monkeypatch):
    ran = []
    run_many = Sandbox.run_many

    def noted(sandbox, jobs):
        jobs = list(jobs)
        ran.extend(jobs)
        return run_many(sandbox, jobs)

    monkeypatch.setattr(Sandbox, "run_many", noted)
    env = comlrl_envs.make("coding/humaneval", tasks=[SQUARE], num_agents=1, max_turns=3, cpu_seconds=0.4)
    (start,) = env.game.start_many(list(env.tasks), [0])
    right, slow = (
        {"main": f"{WHOLE}SEEN = {time.time()}\n"},
        {"main": f"def f(n):\n    while {time.time()}: pass\n    return n\n"},
    )
    first = env.game.step_many([(start, right)] * 5)
    assert len(ran) == 2  # its tests that score, and those that are told
    assert env.game.step_many([(start, right)]) == first[:1] and len(ran) == 2
    env.game.step_many([(start, slow)])
    env.game.step_many([(start, slow)])
    # Time is measured: a loaded machine must not leave its mark.
    assert len(ran) == 6


def test_workers_that_are_killed_are_replaced_and_their_programs_run_again():
    env, moves = sleepers(6)
    before, ended = children(), []
    thread = threading.Thread(target=lambda: ended.extend(env.game.step_many(moves, on_error="keep")))
    thread.start()
    while not children() - before:
        time.sleep(0.02)
    time.sleep(1.0)
    end(children() - before)
    thread.join(120)
    assert [(each.reward, each.error) for each in ended] == [(2.1, "")] * 6


def test_workers_that_do_not_start_fail_every_move_under_the_name_of_its_task(monkeypatch):
    env, moves = sleepers(3)
    Sandbox(workers=2).close()
    monkeypatch.setattr(bubblewrap, "interpreter", lambda: "/bin/false")
    kept = env.game.step_many(moves, on_error="keep")
    assert [each.rewards for each in kept] == [()] * 3
    assert all(f"Task '{number}' could not be scored" in each.error for number, each in enumerate(kept))
    with pytest.raises(InfrastructureError, match="Task '0' could not be scored") as caught:
        env.game.step_many(moves)
    assert caught.value.task == "0"


def test_workers_that_are_killed_again_and_again_are_a_failure_of_the_machine_and_no_reward():
    env, moves = sleepers(3)
    before, over = children(), threading.Event()

    def kill():
        while not over.wait(0.01):
            end(children() - before)

    killer = threading.Thread(target=kill)
    killer.start()
    failures = []
    try:
        for _ in range(8):
            # New workers each time: one whose caretaker is gone may still come to its verdict, which is right.
            Sandbox(workers=2).close()
            ended = env.game.step_many(moves, on_error="keep")
            assert all((each.error and not each.rewards) or each.rewards == (2.1,) for each in ended)
            failures += [each.error for each in ended if each.error]
        with pytest.raises(InfrastructureError, match=r"could not be scored: .*worker"):
            for number in range(8):
                Sandbox(workers=2).close()
                # Text of its own, so that no verdict of before is at hand.
                env.game.step_many([(moves[0][0], {"main": f"{moves[0][1]['main']}# {number}\n"})])
    finally:
        over.set()
        killer.join()
    assert failures
    assert [each.reward for each in env.game.step_many(moves)] == [2.1] * 3


def class_briefs(**kwargs):
    env = comlrl_envs.make("coding/classeval", tasks=[CLASS], **kwargs)
    return env.reset(seed=0)[0]


def test_a_brief_of_a_class_asks_each_coder_for_its_own_methods_only():
    (alone,) = class_briefs(num_agents=1).values()
    assert alone == class_briefs(num_agents=1, assignment="partition")["coder_1"]
    assert alone.startswith("Complete the class Box. The methods to write are a, b, c, d.\n")
    assert not any(word in alone for word in ("teammate", "together", "coder", "choose"))
    assert all("choose your share" in text for text in class_briefs().values())
    dealt = class_briefs(num_agents=5, assignment="partition")
    idle = [text for text in dealt.values() if "no method to write" in text]
    assert len(idle) == 1 and "an empty reply will do" in idle[0] and "Reply with" not in idle[0]
    assert all("choose" not in text for text in dealt.values())
    assert sum("Write these methods, and no others: " in text for text in dealt.values()) == 4


def test_a_coder_is_told_of_a_method_that_was_dealt_to_a_teammate():
    env = comlrl_envs.make("coding/classeval", tasks=[CLASS], assignment="partition", max_turns=2)
    env.reset(seed=3)
    _, second = env.episode.state.shares
    shown = env.step({"coder_1": A + B + C + D, "coder_2": ""})[0]
    assert f"{', '.join(second)} are coder_2's to write; yours were not taken" in shown["coder_1"]
    assert all(f"from whom they are dealt to: {second[0]} (" in text for text in shown.values())


def test_a_class_whose_methods_are_written_twice_passes_not_all_checks():
    for mode, expected in (("passed", "Not all checks passed."), ("levels", "both wrote b; leave each method")):
        env = comlrl_envs.make("coding/classeval", tasks=[CLASS], max_turns=2, feedback=mode)
        env.reset(seed=0)
        shown, rewards, *_ = env.step({"coder_1": A + B, "coder_2": B + C + D})
        assert rewards["coder_1"] == 5.75 and all(expected in text for text in shown.values())


def test_what_stubs_earn_by_the_published_rules():
    reward, infos = play("coding/classeval", CLASS, {"coder_1": CLASS["skeleton"], "coder_2": ""})
    assert reward == 2.0 and infos["metric/covered"] == 1.0
    reward, infos = play("coding/classeval", CLASS, {"coder_1": "", "coder_2": ""})
    assert (reward, infos["metric/compiles"], infos["metric/collaboration_score"]) == (0.0, 1.0, 3.0)
