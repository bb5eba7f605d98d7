"""What an evaluation says of each turn."""

import pytest

from comlrl_learners.evaluation import EvaluationPlan, evaluate_team, turn_means

from .small_policies import held_out, trainer


def test_a_turn_is_averaged_over_the_episodes_that_reach_it():
    means = turn_means([[0.0, 1.0, 4.0], [1.0], [0.5, 0.0]])
    assert means == {"turn_1/reward_mean": 0.5, "turn_2/reward_mean": 0.5, "turn_3/reward_mean": 4.0}


@pytest.mark.parametrize("rewards", [[], [[1.0], [0.0]]])
def test_a_single_turn_is_what_reward_mean_says_already(rewards):
    assert turn_means(rewards) == {}


@pytest.mark.parametrize("turns", [1, 2])
def test_a_game_of_several_turns_logs_each(turns):
    made = trainer(eval_env=held_out(max_turns=2))
    plan = EvaluationPlan(samples=2, temperature=None, max_turns=turns, discount=1.0, seed=0)
    metrics, roots = evaluate_team(made.held_out, made.team, plan)
    first = sum(root.edges[0].reward for root in roots) / len(roots)
    assert [name for name in metrics if name.startswith("turn_")] == [
        f"turn_{turn}/reward_mean" for turn in range(1, turns + 1) if turns > 1
    ]
    if turns == 2:
        assert metrics["turn_1/reward_mean"] == pytest.approx(first)
        assert metrics["turn_2/reward_mean"] == pytest.approx(metrics["reward_mean"])
        assert metrics["return_mean"] == pytest.approx(first + metrics["reward_mean"])
