"""Losses, targets and steps of the learners against what a page of arithmetic says they are."""

import numpy as np
import pytest
import torch

from comlrl_envs import from_reward
from comlrl_envs.seeding import rng
from comlrl_learners import (
    IACConfig,
    IACTrainer,
    MAACConfig,
    MAACTrainer,
    MADPOConfig,
    MADPOTrainer,
    MAGRPOConfig,
    NonFiniteError,
)
from comlrl_learners.algorithms.critics import ValueSample
from comlrl_learners.algorithms.preference_steps import PreferenceSteps
from comlrl_learners.critic import head_for
from comlrl_learners.judgement import judge_actions
from comlrl_learners.optimisation import WeightOptimizer
from comlrl_learners.preferences import Pair, draw_pairs
from comlrl_learners.rollout import Edge, Node, Visit
from comlrl_learners.samples import Completion, Prompt, TokenSample
from comlrl_learners.team import frozen_copies

from .toy_models import flat_weights, toy_policy, toy_team

ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "two", "three", "four"))]
AGENTS = ("agent_0", "agent_1")
PROMPTS = [Prompt((5, 6, 7)), Prompt((8, 9)), Prompt((10,)), Prompt((11, 12))]


def spread(first, second):
    return [(sum(map(ord, a)) % 101) / 101 + (sum(map(ord, b)) % 97) / 50 for a, b in zip(first, second, strict=True)]


def again(prompt, agent_completions, num_agents):
    return [f"{prompt} {text[:4]}" for text in agent_completions]


def trainer(cls, config_class, turns=1, policies=None, references=None, **settings):
    given = {"output_dir": None, "num_generations": 2, "items_per_rollout": 4, "learning_rate": 1e-3, **settings}
    return cls(
        env=from_reward(ROWS, spread, feedback=again if turns > 1 else None, max_turns=turns),
        policies=policies or toy_team(double=True),
        config=config_class(**given),
        references=references,
    )


def madpo(**settings):
    return trainer(MADPOTrainer, MADPOConfig, **{"num_generations": 4, "reference_free": False, **settings})


def collect(one, count=4, number=0):
    visits = [Visit(one.playground.tasks[i], number, one.config.seed, "train") for i in range(count)]
    return one.algorithm.collect(visits)


def excite(head):
    """Heads start near 0; give one something to say."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)


def node_of(children):
    """A node whose joint actions lead to these nodes, or to the end; what its edges earned is not to be read."""
    edges = [Edge((k, k), -99.0, None, child) for k, child in enumerate(children)]
    return Node(Visit(None, 0, 0, "train"), (), None, AGENTS, edges=edges)


@pytest.mark.parametrize("discount", [0.5, 1.0, 0.0])
def test_targets_of_actions_follow_the_mean_estimate_of_the_childs_actions(discount):
    last = node_of([None, None])
    middle = node_of([None, last])
    root = node_of([middle, None])
    rewards = {id(root): [1.0, 2.0], id(middle): [3.0, 5.0], id(last): [7.0, 11.0]}
    q = {id(root): [0.25, -1.0], id(middle): [1.0, 2.0], id(last): [4.0, 10.0]}
    judged = judge_actions([root, middle, last], rewards, lambda node, index: q[id(node)][index[0]], discount)
    targets = {id(root): [1 + discount * 1.5, 2.0], id(middle): [3.0, 5 + discount * 7.0], id(last): [7.0, 11.0]}
    for node in (root, middle, last):
        found, expected = judged[id(node)], targets[id(node)]
        assert found.targets == pytest.approx(expected)
        assert found.estimates == q[id(node)]
        assert found.advantages == pytest.approx([y - v for y, v in zip(expected, q[id(node)], strict=True)])


def test_where_an_agent_only_watches_the_mean_target_takes_the_place_of_the_mean_estimate():
    watched = node_of([None, None])
    root = node_of([watched, None])
    rewards = {id(root): [1.0, 2.0], id(watched): [3.0, 5.0]}
    judged = judge_actions([root, watched], rewards, lambda node, _: None if node is watched else 0.25, 0.5)
    assert list(judged) == [id(root)]
    assert judged[id(root)].targets == pytest.approx([1 + 0.5 * 4.0, 2.0])


@pytest.mark.parametrize("discount", [0.5, 1.0])
def test_a_central_critic_of_actions_bootstraps_from_what_it_said_of_the_next_turn(discount):
    one = trainer(MAACTrainer, MAACConfig, 2, critic_type="q", discount=discount)
    excite(one.algorithm.critics["agent_0"].head)
    batch = collect(one, 1)
    (root,) = batch.roots
    first, rest = batch.values["agent_0"][:2], batch.values["agent_0"][2:]
    assert [sample.turn for sample in (*first, *rest)] == [0, 0, 1, 1, 1, 1]
    below = [np.mean([sample.old_value for sample in rest[2 * k : 2 * k + 2]]) for k in range(2)]
    leaves = [leaf.reward for edge in root.edges for leaf in edge.child.edges]
    assert min(abs(said - np.mean(leaves[2 * k : 2 * k + 2])) for k, said in enumerate(below)) > 0.01
    expected = [edge.reward + discount * said for edge, said in zip(root.edges, below, strict=True)]
    assert [sample.target for sample in first] == pytest.approx(expected)
    assert [sample.target for sample in rest] == pytest.approx(leaves)


def clipped_by_hand(values):
    """Old values, targets and losses for 4 values under a clip range of 0.1; the clip decides the first and the third.

    Each value lies 0.5 above (below) its old one, so the held value lies 0.4 below (above) it.
    """
    before = [values[0] - 0.5, values[1] - 0.5, values[2] + 0.5, values[3] + 0.05]
    targets = [values[0] + 1, values[1] - 1, values[2] - 1, values[3] + 2]
    losses = []
    for value, old, target in zip(values, before, targets, strict=True):
        held = min(max(value, old - 0.1), old + 0.1)
        losses.append(max((target - value) ** 2, (target - held) ** 2))
    assert losses == pytest.approx([1.4**2, 1.0, 1.4**2, 4.0])
    return before, targets, losses


@pytest.mark.parametrize("kind", ["own", "central"])
def test_the_clip_range_of_values_reaches_the_loss_of_a_critics_own_model(kind):
    own = {"use_separate_critic": True} if kind == "own" else {}
    classes = (IACTrainer, IACConfig) if kind == "own" else (MAACTrainer, MAACConfig)
    clipped, plain = (trainer(*classes, value_clip_range=bound, **own) for bound in (0.1, None))
    critic = clipped.algorithm.critics["agent_0"]
    before, targets, expected = clipped_by_hand(critic.values(PROMPTS).tolist())
    rows = [
        (row, ValueSample("agent_0", "row-0", 0, prompt, target, old))
        for row, (prompt, target, old) in enumerate(zip(PROMPTS, targets, before, strict=True))
    ]
    losses = clipped.algorithm.critic_steps.sample_losses(critic, PROMPTS, rows)
    assert losses.tolist() == pytest.approx(expected)
    losses.sum().backward()
    # What is held has no slope; of the two others, d/db (V - y)^2 = 2 (V - y).
    assert critic.head.layers[-1].bias.grad.item() == pytest.approx(2 * (1 - 2))
    unclipped = plain.algorithm.critic_steps.sample_losses(critic, PROMPTS, rows)
    assert unclipped.tolist() == pytest.approx([1.0, 1.0, 1.0, 4.0])


def head_samples(values, before, targets, advantage):
    made = [Completion(prompt, (13, 14, 1), (-1.0, -1.0, -1.0), "", True) for prompt in PROMPTS]
    return [
        TokenSample("agent_0", "row-0", 0, completion, advantage, None, target, old)
        for completion, target, old, _ in zip(made, targets, before, values, strict=True)
    ]


def head_values(one):
    policy, head = one.team["agent_0"], one.algorithm.critics["agent_0"].head
    made = [Completion(prompt, (13,), (-1.0,), "", False) for prompt in PROMPTS]
    return policy.logprobs(made, head=head).values.tolist()


def test_the_clip_range_of_values_reaches_the_loss_of_a_head_on_the_policy():
    one = trainer(IACTrainer, IACConfig, value_clip_range=0.1, value_loss_coef=0.3)
    values = head_values(one)
    before, targets, expected = clipped_by_hand(values)
    losses = one.algorithm.actors.sample_losses(one.team["agent_0"], head_samples(values, before, targets, 0.0))
    assert losses.tolist() == pytest.approx([0.3 * loss for loss in expected])


def test_the_coefficient_weighs_the_value_loss_and_nothing_else():
    half, quarter = (trainer(IACTrainer, IACConfig, value_loss_coef=coef) for coef in (0.5, 0.25))
    values = head_values(half)
    targets = [value + shift for value, shift in zip(values, (1.0, -2.0, 0.5, 3.0), strict=True)]
    samples = head_samples(values, values, targets, advantage=0.7)
    more, less = (one.algorithm.actors.sample_losses(one.team["agent_0"], samples) for one in (half, quarter))
    assert (more - less).tolist() == pytest.approx([0.25 * error for error in (1.0, 4.0, 0.25, 9.0)])
    assert (2 * less - more).abs().min() > 0.1  # The policy's own loss is there beside it.


def pair_of(name, chosen=(5, 6, 1), rejected=(7, 8, 1), agents=AGENTS, turn=0):
    halves = (
        {agent: Completion(Prompt((3, 4)), ids, (-1.0,) * 3, "", True) for agent in agents}
        for ids in (chosen, rejected)
    )
    return Pair(name, turn, dict.fromkeys(agents, ""), *halves, 1.0, 0.0, 0.5)


@pytest.mark.parametrize(
    "sizes, expected",
    [((50, 50, 50), (0.6, 0.1, 0.3)), ((50, 0, 50), (2 / 3, 0, 1 / 3)), ((50, 50, 0), (6 / 7, 1 / 7, 0))],
)
def test_rounds_are_drawn_in_proportion_to_unequal_shares(sizes, expected):
    rounds = [[pair_of(f"{place}-{i}") for i in range(size)] for place, size in enumerate(sizes)]
    drawn = [pair.task_id for pair in draw_pairs(rounds, [0.6, 0.1, 0.3], 30_000, rng(0))]
    assert len(drawn) == 30_000
    found = [sum(name.startswith(f"{place}-") for name in drawn) / 30_000 for place in range(3)]
    # Five standard deviations of a share at most.
    assert found == pytest.approx(expected, abs=0.015)
    for place, size in enumerate(sizes):
        times = [drawn.count(f"{place}-{i}") for i in range(size)]
        assert not times or max(times) - min(times) <= 1


def test_a_share_of_0_draws_nothing():
    rounds = [[pair_of(f"{place}-{i}") for i in range(5)] for place in range(3)]
    drawn = draw_pairs(rounds, [0.0, 1.0, 0.0], 5, rng(0))
    assert sorted(pair.task_id for pair in drawn) == [f"1-{i}" for i in range(5)]


def steps_of(references=True):
    team = dict(zip(AGENTS, toy_team(double=True), strict=True))
    frozen = frozen_copies(team, team) if references else None
    config = MADPOConfig(output_dir=None, learning_rate=1e-3, reference_free=not references)
    return PreferenceSteps(config, 0.1, team, frozen, None)


@pytest.mark.parametrize("broken", ["policy", "reference"])
def test_a_loss_that_is_not_finite_names_its_pair(broken):
    steps = steps_of()
    scorer = (steps.team if broken == "policy" else steps.references)["agent_1"]
    with torch.no_grad():
        scorer.model.get_input_embeddings().weight[20] = float("nan")
    before = [flat_weights(policy) for policy in steps.team.values()]
    sound, unsound = pair_of("sound"), pair_of("unsound", chosen=(20, 6, 1), turn=3)
    with pytest.raises(NonFiniteError, match=r"pair of agent_0, agent_1 at turn 3 of task 'unsound' is not finite"):
        steps.take([sound, unsound])
    after = [flat_weights(policy) for policy in steps.team.values()]
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(after, before, strict=True))
    assert np.isfinite(steps.take([sound])["loss"])


def test_what_references_said_is_kept_for_the_pairs_that_stay_and_for_no_others():
    steps = steps_of()
    first, second = pair_of("first"), pair_of("second", chosen=(5, 6, 1), rejected=(9, 10, 1))
    steps.refer([first, second])
    said = dict(steps._reference_sums)
    assert {key[2] for key in said} == {(5, 6, 1), (7, 8, 1), (9, 10, 1)} and len(said) == 6
    steps.forget_all_but([second])
    assert steps._reference_sums == {key: value for key, value in said.items() if key[2] != (7, 8, 1)}
    steps.forget_all_but([])
    assert steps._reference_sums == {}


@pytest.mark.parametrize("replay", ["current", "nearest_k"])
def test_a_round_drops_what_references_said_about_pairs_that_cannot_be_drawn_again(replay):
    one = madpo(replay=replay, **({"replay_k": 2} if replay == "nearest_k" else {}))
    batches = [collect(one, number=number) for number in range(3)]
    for number, batch in enumerate(batches):
        one.algorithm.update(batch, number, 1.0)
    recent = batches[1:] if replay == "nearest_k" else batches[2:]
    drawable = {
        c.ids for batch in recent for pair in batch.pairs for h in (pair.chosen, pair.rejected) for c in h.values()
    }
    known = {key[2] for key in one.algorithm.steps._reference_sums}
    assert known and known <= drawable


def test_a_rate_moves_the_weights_and_the_head_each_from_its_own_peak():
    policy = toy_policy(1)
    optimizer = WeightOptimizer(
        policy, ("agent_0",), MAGRPOConfig(output_dir=None), head_for(policy, None, 1), rate=0.2, head_rate=0.6
    )
    for factor in (0.5, 0.1, 1.0):  # A share of the peak, not of what was there before.
        optimizer.set_rate(factor)
        assert [group["lr"] for group in optimizer.adam.param_groups] == pytest.approx([0.2 * factor, 0.6 * factor])


@pytest.mark.parametrize("decay", [0.1, 0.0])
def test_without_a_gradient_a_step_only_shrinks_the_weights(decay):
    policy = toy_policy(1, double=True)
    head = head_for(policy, None, 1)
    excite(head)
    config = MAGRPOConfig(output_dir=None, learning_rate=0.5, weight_decay=decay)
    optimizer = WeightOptimizer(policy, ("agent_0",), config, head, head_rate=0.2)
    before, head_before = flat_weights(policy), head.layers[0].weight.detach().clone()
    for weight in optimizer.masters:
        weight.grad = torch.zeros_like(weight)
    optimizer.set_rate(0.5)
    assert optimizer.step() == 0.0
    torch.testing.assert_close(flat_weights(policy), before * (1 - 0.25 * decay), atol=1e-12, rtol=0)
    torch.testing.assert_close(head.layers[0].weight.detach(), head_before * (1 - 0.1 * decay), atol=1e-12, rtol=0)


def test_a_reference_scores_under_the_sampling_of_the_policy_that_it_scores():
    team = {"agent_0": toy_policy(1, temperature=0.7, max_new_tokens=6)}
    other = {"agent_0": toy_policy(1, temperature=1.9, max_new_tokens=9)}
    frozen = frozen_copies(other, team)["agent_0"]
    assert frozen.sampling == team["agent_0"].sampling
    written = [Completion(prompt, (13, 14, 1), (-1.0,) * 3, "", True) for prompt in PROMPTS]
    with torch.no_grad():
        ours, theirs, alone = (p.logprobs(written).logprobs for p in (team["agent_0"], frozen, other["agent_0"]))
    torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=0)
    assert (theirs - alone).abs().max() > 0.1


@pytest.mark.parametrize("given", ["copies of the start", "the same weights at another temperature"])
def test_the_margin_to_the_start_is_0_before_the_first_step(given):
    hot = None if given == "copies of the start" else toy_team(double=True, temperature=1.9)
    one = madpo(references=hot)
    pairs = collect(one).pairs
    assert len(pairs) > 4
    told, later = one.algorithm.steps.take(pairs), one.algorithm.steps.take(pairs)
    # torch may multiply by weights that take no gradient in another order, so the last bits are its own.
    assert told["margin"] == pytest.approx(0.0, abs=1e-12) and told["loss"] == pytest.approx(np.log(2), abs=1e-12)
    assert all(told[f"{agent}/grad_norm"] > 0 for agent in AGENTS)
    assert later["margin"] > 1e-3
