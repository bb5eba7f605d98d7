import pytest

from comlrl_learners import MAGRPOConfig
from comlrl_learners.optimisation import learning_rate_factor


@pytest.mark.parametrize(
    ("schedule", "expected"), [("constant", [1, 1, 1]), ("linear", [1, 0.5, 0]), ("cosine", [1, 0.5, 0])]
)
def test_schedules_after_warm_up(schedule, expected):
    config = MAGRPOConfig(schedule=schedule, warmup_steps=4)
    assert [learning_rate_factor(config, i, 14) for i in (4, 9, 14)] == pytest.approx(expected)
    assert [learning_rate_factor(config, i, 14) for i in range(4)] == pytest.approx([0.2, 0.4, 0.6, 0.8])


def test_a_horizon_of_its_own_ends_the_schedule():
    config = MAGRPOConfig(schedule="linear", schedule_steps=20)
    assert learning_rate_factor(config, 10, 100) == pytest.approx(0.5)
    assert learning_rate_factor(config, 30, 100) == 0.0
