import math

import pytest
import torch

from comlrl_learners.critic import explained_variance
from comlrl_learners.losses import value_loss
from comlrl_learners.values import action_targets, counterfactual, edge_advantages, idle_value

REWARDS, VALUES = [0.3, -1.0, 2.0, 0.5], [0.1, 0.4, -0.2, 0.7]


def backwards(discount, gae_lambda):
    """GAE as it is written for a chain of steps."""
    advantages, ahead = [0.0] * len(REWARDS), 0.0
    for step in reversed(range(len(REWARDS))):
        following = VALUES[step + 1] if step + 1 < len(VALUES) else 0.0
        ahead = REWARDS[step] + discount * following - VALUES[step] + discount * gae_lambda * ahead
        advantages[step] = ahead
    return advantages


@pytest.mark.parametrize("discount", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("gae_lambda", [0.0, 0.7, 1.0])
def test_a_chain_of_nodes_is_generalised_advantage_estimation(discount, gae_lambda):
    found, value, ahead = [], None, None
    for step in reversed(range(len(REWARDS))):
        (advantage,) = edge_advantages([REWARDS[step]], VALUES[step], [value], [ahead], discount, gae_lambda)
        found.insert(0, advantage)
        value, ahead = VALUES[step], advantage
    assert found == pytest.approx(backwards(discount, gae_lambda))


def test_one_step_targets_at_lambda_0_and_whole_returns_at_1():
    assert edge_advantages([1.0], 0.25, [0.5], [9.0], 0.9, 0.0) == pytest.approx([1.0 + 0.45 - 0.25])
    whole = backwards(0.9, 1.0)[0] + VALUES[0]
    assert whole == pytest.approx(sum(0.9**step * reward for step, reward in enumerate(REWARDS)))


def test_children_count_by_their_means_and_a_leaf_has_none():
    assert edge_advantages([1.0, 2.0], 0.5, [0.3, None], [0.2, None], 0.5, 0.5) == pytest.approx(
        [1.0 - 0.5 + 0.5 * (0.3 + 0.5 * 0.2), 1.5]
    )
    assert idle_value([1.0, 2.0], [0.4, None], 0.5) == pytest.approx((1.2 + 2.0) / 2)
    assert action_targets([1.0, 2.0], [0.4, None], 0.5) == pytest.approx([1.2, 2.0])


def test_a_counterfactual_compares_with_what_else_might_have_been_written():
    assert counterfactual([1.0, 2.0, 6.0], 2) == pytest.approx(3.0)
    assert sum(counterfactual([1.0, 2.0, 6.0], k) for k in range(3)) == pytest.approx(0.0)


def test_value_losses_by_hand():
    values = torch.tensor([1.0, 1.0, 0.6], requires_grad=True)
    targets, before = torch.tensor([0.0, 2.0, 0.0]), torch.tensor([0.5, 0.5, 0.5])
    assert value_loss(values, targets, before, None).tolist() == pytest.approx([1.0, 1.0, 0.36])
    clipped = value_loss(values, targets, before, 0.2)
    # The second moved towards its target further than allowed: its loss is that of 0.7, and moving on gains nothing.
    assert clipped.tolist() == pytest.approx([1.0, 1.69, 0.36])
    clipped.sum().backward()
    assert values.grad.tolist() == pytest.approx([2.0, 0.0, 1.2])


def test_explained_variance():
    assert explained_variance([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 1.0
    assert explained_variance([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]) == pytest.approx(0.0)
    assert explained_variance([3.0, 2.0, 1.0], [1.0, 2.0, 3.0]) == pytest.approx(-3.0)
    assert explained_variance([3.0], [1.0]) == 0.0 and not math.isnan(explained_variance([0.0, 0.0], [1.0, 1.0]))
