import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from comlrl_learners.losses import clipped_ratio, policy_gradient
from comlrl_learners.microbatches import padded_tokens, plan
from comlrl_learners.samples import Completion, Prompt

ADVANTAGES = (1.0, -2.0, 0.5, 3.0, -0.25, 0.0, 1.5, -1.0)


def completion(prompt, length):
    return Completion(Prompt(tuple(range(prompt))), (7,) * length, (0.0,) * length, "", True)


def same(items):
    return items


SIZES = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=40)


@settings(deadline=None)
@given(SIZES, st.integers(1, 400))
def test_every_item_is_planned_once_within_the_budget(sizes, budget):
    items = list(enumerate(completion(*size) for size in sizes))
    parts = plan(items, lambda item: item[1], budget)
    assert sorted(index for part in parts for index, _ in part) == list(range(len(items)))
    assert all(len(part) == 1 or padded_tokens([c for _, c in part]) <= budget for part in parts)


@settings(deadline=None)
@given(SIZES, st.integers(1, 400), st.randoms(use_true_random=False))
def test_plans_are_equal_for_equal_items_and_keep_their_sizes_under_any_order(sizes, budget, random):
    items = [completion(*size) for size in sizes]
    first = plan(items, same, budget)
    assert first == plan(list(items), same, budget)
    shuffled = random.sample(items, len(items))
    assert plan(shuffled, same, budget) == first


def test_an_item_above_the_budget_gets_a_part_of_its_own():
    items = [completion(2, 3), completion(50, 50), completion(2, 3)]
    assert [len(part) for part in plan(items, same, 10)] == [2, 1]


def test_a_budget_that_holds_all_gives_one_part():
    items = [completion(n, 9 - n) for n in range(1, 9)]
    assert plan(items, same, padded_tokens(items)) and len(plan(items, same, padded_tokens(items))) == 1


def test_nothing_gives_no_parts():
    assert plan([], same, 10) == []


def test_padded_tokens_count_each_distinct_prompt_once():
    assert padded_tokens([completion(5, 2), completion(5, 4), completion(3, 1)]) == 2 * 5 + 3 * 4


def losses_and_gradient(one, parts, loss):
    """One value per completion, by its place in the whole batch, and the gradient of their mean."""
    one.model.zero_grad()
    values = {}
    for part in parts:
        found = one.logprobs([c for _, c in part])
        advantages = torch.tensor([ADVANTAGES[place] for place, _ in part], dtype=found.logprobs.dtype)
        row = loss(found.logprobs, found.mask, advantages)
        (row.sum() / len(ADVANTAGES)).backward()
        values.update(zip((place for place, _ in part), row.tolist(), strict=True))
    gradient = torch.cat([p.grad.flatten() for p in one.model.parameters() if p.grad is not None])
    return torch.tensor([values[place] for place in sorted(values)]), gradient


def reinforce(norm):
    return lambda logprobs, mask, advantages: policy_gradient(logprobs, mask, advantages, norm, 12)


def clipped(level):
    def loss(logprobs, mask, advantages):
        old = logprobs.detach() - 0.1
        return clipped_ratio(logprobs, old, mask, advantages, 0.2, level, "mean", 12)

    return loss


@pytest.mark.parametrize("loss", [reinforce("mean"), reinforce("sum"), clipped("token"), clipped("sequence")])
def test_losses_and_gradients_of_eight_equal_those_of_eight_batches_of_one(make_policy, ragged, loss):
    one = make_policy("qwen3")
    numbered = list(enumerate(ragged))
    together, gradient = losses_and_gradient(one, [numbered], loss)
    alone, summed = losses_and_gradient(one, [[item] for item in numbered], loss)
    torch.testing.assert_close(alone, together, atol=1e-5, rtol=0)
    torch.testing.assert_close(summed, gradient, atol=1e-5, rtol=1e-5)
    assert gradient.abs().max() > 0.1


def test_gradients_do_not_depend_on_the_token_budget(make_policy, architecture, ragged):
    one = make_policy(architecture)
    numbered = list(enumerate(ragged))
    results = [
        losses_and_gradient(one, plan(numbered, lambda item: item[1], budget), reinforce("mean"))
        for budget in (10**6, 1, 30)
    ]
    for loss, gradient in results[1:]:
        torch.testing.assert_close(loss, results[0][0], atol=1e-5, rtol=0)
        torch.testing.assert_close(gradient, results[0][1], atol=1e-5, rtol=1e-5)
