"""The loop: what is visited, when it stops, what it logs, and that a seed decides all of it."""

import itertools
import math

import numpy as np
import pytest
import torch

from comlrl_envs import TaskSet, from_reward, make, register
from comlrl_envs.errors import RewardError
from comlrl_learners import (
    ConfigError,
    LLMPolicy,
    MAGRPOConfig,
    MAGRPOTrainer,
    MAREINFORCETrainer,
    MAReMaxTrainer,
    MARLOOTrainer,
)
from comlrl_learners.games import ForeignOptions, held_out_playground, open_playground
from comlrl_learners.optimisation import learning_rate_factor

from .small import policy
from .small_policies import AGENTS, GAME, SHORT, config, game, held_out, measured, same_weights, trainer, weights

ALL = [MAGRPOTrainer, MAREINFORCETrainer, MARLOOTrainer, MAReMaxTrainer]


def visits(**given):
    """The visits of every round, without playing them: the bounds that look at what was played are set aside."""
    made = trainer(**{"max_steps": None, "num_epochs": 3, "items_per_rollout": 5, "env": game("train[:12]"), **given})
    return [[(visit.task.id, visit.number) for visit in chosen] for chosen in made._schedule()]


def train(**given):
    made = trainer(**given)
    return made, made.train()


def train_rows(result):
    return [row for row in result.rows if "train/reward_mean" in row]


def eval_rows(result):
    return [row for row in result.rows if "eval/reward_mean" in row]


def test_an_epoch_visits_each_task_once():
    rounds = visits()
    assert [len(chosen) for chosen in rounds] == [5, 5, 2] * 3
    flat = list(itertools.chain(*rounds))
    for epoch in range(3):
        there = flat[12 * epoch : 12 * epoch + 12]
        assert {number for _, number in there} == {epoch}
        assert len({task for task, _ in there}) == 12


def test_the_seed_decides_the_order_and_epochs_differ():
    assert visits(seed=3) == visits(seed=3)
    flat = {seed: list(itertools.chain(*visits(seed=seed))) for seed in (0, 1, 2)}
    orders = [[task for task, number in flat[seed] if number == epoch] for seed in flat for epoch in range(3)]
    assert len(set(map(tuple, orders))) == 9


def test_what_is_played_is_what_the_schedule_says(tmp_path):
    _, result = train(num_epochs=2, max_steps=None, output_dir=str(tmp_path), transcripts_every=1, seed=5)
    played = [
        {line.split('"')[3] for line in file.read_text().splitlines()}
        for file in sorted((result.folder / "transcripts").glob("train-*"))
    ]
    wanted = [{task for task, _ in chosen} for chosen in
              visits(env=game(), num_epochs=2, items_per_rollout=2, seed=5)]  # fmt: skip
    assert played == wanted


def test_max_steps_bounds_the_rounds():
    made, result = train(max_steps=3, num_epochs=10)
    assert (result.rounds, made.rounds, made.planned_rounds(), len(train_rows(result))) == (3, 3, 3, 3)


def test_num_epochs_bounds_the_rounds():
    made, result = train(max_steps=100, num_epochs=1)
    assert (result.rounds, made.planned_rounds()) == (2, 2)


def test_max_env_steps_stops_after_the_round_that_reaches_it():
    for bound, rounds in ((1, 1), (4, 1), (5, 2), (8, 2)):
        _, result = train(max_steps=None, max_env_steps=bound)
        assert (result.rounds, result.env_steps) == (rounds, 4 * rounds)


def test_joint_actions_are_counted_in_cross_mode_and_over_turns():
    _, result = train(joint_mode="cross", env=game(max_turns=2), eval_env=held_out(max_turns=2))
    assert result.env_steps == 2 * (4 + 4 * 4)
    _, result = train(joint_mode="cross", env=game(max_turns=2), eval_env=held_out(max_turns=2), max_turns=1)
    assert result.env_steps == 2 * 4


def factors(horizon=10, **given):
    return [learning_rate_factor(MAGRPOConfig(**given), i, horizon) for i in range(horizon)]


def test_the_schedules_follow_their_closed_forms():
    assert factors(schedule="constant") == [1.0] * 10
    assert factors(schedule="linear") == pytest.approx([1 - i / 10 for i in range(10)])
    assert factors(schedule="cosine") == pytest.approx([(1 + math.cos(math.pi * i / 10)) / 2 for i in range(10)])


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_warm_up_rises_in_equal_steps_to_the_peak(schedule):
    found = factors(schedule=schedule, warmup_steps=3)
    assert found[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    after = {
        "constant": [1.0] * 7,
        "linear": [1 - i / 7 for i in range(7)],
        "cosine": [(1 + math.cos(math.pi * i / 7)) / 2 for i in range(7)],
    }
    assert found[3:] == pytest.approx(after[schedule])


def test_a_schedule_may_have_a_horizon_of_its_own():
    assert factors(schedule="linear", schedule_steps=4) == pytest.approx([1, 0.75, 0.5, 0.25, *[0.0] * 6])
    assert factors(5, schedule="linear", schedule_steps=20) == pytest.approx([1, 0.95, 0.9, 0.85, 0.8])


def test_every_round_moves_the_weights_by_default():
    for schedule in ("linear", "cosine"):
        assert all(factor > 0 for factor in factors(schedule=schedule, warmup_steps=2))


def test_the_scheduled_rate_is_logged_and_used():
    made, result = train(max_steps=2, schedule="linear", learning_rate=1e-3)
    assert [row["train/learning_rate"] for row in train_rows(result)] == [1e-3, 5e-4]
    used = {group["lr"] for one in made.algorithm.actors.optimizers.values() for group in one.adam.param_groups}
    assert used == {5e-4}
    one, _ = train(max_steps=1)
    other, _ = train(max_steps=1, schedule="linear")
    assert same_weights(one, other)
    one, _ = train(max_steps=2)
    assert not same_weights(one, made)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("given", [{}, {"clip_range": 0.2, "minibatch_size": 3, "num_updates": 2, "kl_coef": 0.1}])
def test_two_runs_with_one_seed_are_equal_bit_for_bit(seed, given):
    (one, first), (other, second) = (train(seed=seed, max_steps=2, **given) for _ in range(2))
    assert measured(first.rows) == measured(second.rows)
    assert len(first.rows) == 4
    assert same_weights(one, other)


@pytest.mark.parametrize("cls", ALL)
def test_every_algorithm_repeats_itself_and_learns_something(cls):
    (one, first), (other, second) = (train(cls=cls, policies="tiny") for _ in range(2))
    assert measured(first.rows) == measured(second.rows)
    assert same_weights(one, other)
    assert not same_weights(one, trainer(cls=cls, policies="tiny"))


def test_another_seed_gives_another_run():
    (one, first), (other, second) = (train(seed=seed) for seed in (0, 1))
    assert measured(first.rows) != measured(second.rows)
    assert not same_weights(one, other)


def test_seed_0_is_a_seed_and_no_default():
    assert MAGRPOConfig(seed=0).seed == 0
    torch.manual_seed(1)
    np.random.seed(1)
    one, _ = train(seed=0)
    torch.manual_seed(2)
    np.random.seed(2)
    other, _ = train(seed=0)
    assert same_weights(one, other)


def test_threads_change_nothing():
    (one, first), (other, second) = (train(max_steps=2, agent_threads=threads) for threads in (True, False))
    assert measured(first.rows) == measured(second.rows)
    assert same_weights(one, other)


def test_who_looks_does_not_change_training():
    runs = [train(max_steps=3, eval_every=every) for every in (1, None)]
    runs.append(train(max_steps=3, eval_every=2, eval_samples=3, eval_temperature=0.0))
    runs.append(train(max_steps=3, eval_env=game("eval[5:7]"), transcripts_every=0))
    for other, result in runs[1:]:
        assert measured(train_rows(result)) == measured(train_rows(runs[0][1]))
        assert same_weights(other, runs[0][0])


@pytest.mark.parametrize(("every", "rounds"), [(None, [0, 3]), (1, [0, 1, 2, 3]), (2, [0, 2, 3]), (3, [0, 3])])
def test_evaluation_comes_at_the_start_at_the_end_and_every_so_often(every, rounds):
    _, result = train(max_steps=3, eval_every=every)
    assert [row["round"] for row in eval_rows(result)] == rounds
    assert [step for step, _ in result.curve()] == [4 * done for done in rounds]


def test_evaluation_repeats_itself_and_leaves_the_temperature():
    made = trainer(eval_temperature=0.3, policies=LLMPolicy.load("tiny", SHORT))
    assert made.evaluate() == made.evaluate()
    assert {one.sampling.temperature for one in made.team.values()} == {1.0}
    assert made.evaluate() != trainer().evaluate()


def test_evaluation_at_temperature_0_does_not_depend_on_the_seed():
    assert trainer(seed=1, eval_temperature=0.0).evaluate() == trainer(seed=2, eval_temperature=0.0).evaluate()
    assert trainer(seed=1).evaluate() != trainer(seed=2).evaluate()


def test_eval_reward_is_the_last_turns_and_eval_return_the_discounted_sum(tmp_path):
    import json

    rules = {"max_turns": 2, "feedback": "levels"}
    _, result = train(
        env=game(**rules), eval_env=held_out(**rules), eval_samples=2, discount=0.5, output_dir=str(tmp_path)
    )
    row = eval_rows(result)[0]
    lines = (result.folder / "transcripts" / "eval-000000.jsonl").read_text().splitlines()
    played = [json.loads(line) for line in lines]
    by_turn = [[record["reward"] for record in played if record["turn"] == turn] for turn in (0, 1)]
    first, last = map(np.array, by_turn)
    assert len(first) == len(last) == 3 * 2
    assert set(first) != set(last)
    assert row["eval/reward_mean"] == pytest.approx(last.mean())
    assert row["eval/return_mean"] == pytest.approx((first + 0.5 * last).mean())
    assert row["eval/turns_mean"] == 2
    assert row["eval/episodes"] == 6
    assert row["eval/term/ratio_reward"] == pytest.approx(last.mean())
    assert row["eval/reward_sem"] == pytest.approx(last.reshape(3, 2).mean(1).std(ddof=1) / math.sqrt(3))


def test_training_reward_is_that_of_the_last_turn_as_in_evaluation(tmp_path):
    import json

    _, result = train(env=game(max_turns=2), eval_env=held_out(max_turns=2), output_dir=str(tmp_path))
    lines = (result.folder / "transcripts" / "train-000001.jsonl").read_text().splitlines()
    assert len(lines) == 2 * (2 + 4)
    rewards = [row["reward"] for row in map(json.loads, lines) if row["turn"] == 1]
    assert train_rows(result)[0]["train/reward_mean"] == pytest.approx(np.mean(rewards))
    assert train_rows(result)[0]["train/reward_std"] == pytest.approx(np.std(rewards))


def test_reward_scale_and_shift_do_not_change_what_is_logged():
    one = train_rows(train()[1])[0]
    other = train_rows(train(reward_scale=10.0, reward_shift=-3.0)[1])[0]
    assert one["train/reward_mean"] == other["train/reward_mean"]
    scaled = 10 * one["train/summarizer/return_mean"] - 3
    assert other["train/summarizer/return_mean"] == pytest.approx(scaled)


def ids(playground):
    return {playground.tasks[i].id for i in range(len(playground.tasks))}


def test_an_id_is_evaluated_on_its_held_out_split():
    made = MAGRPOTrainer(env=GAME, policies="tiny", config=config())
    assert (len(ids(made.playground)), len(ids(made.held_out))) == (60, 30)
    assert not ids(made.playground) & ids(made.held_out)


def test_an_environment_from_make_keeps_its_options_in_the_evaluation():
    env = game(roles=True, max_turns=2, feedback="levels", target_max=5.0, stop_reward=0.99, memory="last")
    made = MAGRPOTrainer(env=env, policies="tiny", config=config())
    assert made.playground.game is env.game
    twin = made.held_out.game
    assert twin.scenario == env.game.scenario
    assert (twin.scenario.roles, twin.max_turns, twin.memory, twin.stop_reward) == (True, 2, "last", 0.99)
    assert len(ids(made.held_out)) == 30
    assert not ids(made.playground) & ids(made.held_out)


def test_so_does_one_from_a_function():
    made = MAGRPOTrainer(env=lambda: game(roles=True), policies="tiny", config=config())
    assert made.held_out.game.scenario.roles
    assert len(ids(made.held_out)) == 30


def test_a_given_eval_env_is_where_it_is_evaluated():
    made = trainer(eval_env=make(GAME, split="eval[:2]", target_min=1.0, target_max=9.0))
    assert len(ids(made.held_out)) == 2
    assert made.held_out.game.scenario.target_max == 9.0
    assert made.evaluate()["episodes"] == 2
    by_id = trainer(eval_env=GAME)
    assert ids(by_id.held_out) == ids(by_id.playground) | ids(open_playground(make(GAME), ForeignOptions()))


def test_tasks_of_ones_own_are_not_evaluated_on_as_if_held_out():
    rows = [{"id": f"own-{n}", "prompt": f"Write about {n}."} for n in range(4)]
    made = MAGRPOTrainer(env=make(GAME, tasks=rows), policies="tiny", config=config())
    assert ids(made.playground) == {f"own-{n}" for n in range(4)}
    assert made.held_out is None


def rows_env(**more):
    rows = [{"id": str(n), "prompt": f"Say {n}."} for n in range(4)]
    return from_reward(rows, lambda one, other: [float(len(a) > len(b)) for a, b in zip(one, other, strict=True)],
                       **more)  # fmt: skip


def test_an_environment_without_a_held_out_split_trains_and_is_not_evaluated():
    made = MAGRPOTrainer(env=rows_env(), policies=policy(), config=config(eval_every=1))
    result = made.train()
    assert (made.held_out, result.rounds, result.curve(), len(result.rows)) == (None, 1, [], 1)
    with pytest.raises(ConfigError, match="Pass eval_env="):
        made.evaluate()


def test_so_does_a_registered_one_whose_maker_knows_no_split():
    register("tests/no_split", lambda: rows_env(), overwrite=True)
    made = MAGRPOTrainer(env="tests/no_split", policies=policy(), config=config())
    assert made.held_out is None
    assert made.train().rounds == 1


def test_a_reward_that_is_no_number_stops_the_run_and_names_its_place():
    rows = TaskSet([{"id": "only", "prompt": "Say it."}])
    env = from_reward(rows, lambda one, other: [float("nan")] * len(one))
    with pytest.raises(RewardError, match="only"):
        MAGRPOTrainer(env=env, policies=policy(), config=config()).train()


def test_the_logged_names_are_those_of_the_team():
    _, result = train()
    row = train_rows(result)[0]
    for agent in AGENTS:
        for name in ("loss", "grad_norm", "entropy", "return_mean", "zero_variance_groups", "metric/characters"):
            assert math.isfinite(row[f"train/{agent}/{name}"])
    assert {(r["round"], r["env_step"]) for r in result.rows} == {(0, 0), (1, 4)}
    assert all(math.isfinite(value) for r in result.rows for value in r.values())


def test_references_may_be_given():
    reference = policy(seed=9)
    made = trainer(policies=policy(seed=1), references=reference, kl_coef=0.5)
    row = train_rows(made.train())[0]
    assert row["train/summarizer/reference_kl"] > 0
    assert torch.equal(next(reference.model.parameters()), next(policy(seed=9).model.parameters()))


def test_a_run_that_writes_nothing_has_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, result = train()
    assert result.folder is None
    assert list(tmp_path.iterdir()) == []


def test_what_opens_no_game_is_named():
    with pytest.raises(ConfigError, match="gives a list"):
        open_playground(list, ForeignOptions())
    assert held_out_playground(GAME, ForeignOptions()) is not None


def test_weights_of_the_two_agents_are_told_apart():
    made, _ = train()
    assert set(weights(made)) == set(AGENTS)
