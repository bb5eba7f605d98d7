"""IAC and MAAC on random policies whose rounds take hundredths of a second."""

import itertools

import numpy as np
import pytest
import torch
from envs.toys import TurnTaking

from comlrl_envs import TaskSet, TextEnv, TextGame, from_reward
from comlrl_learners import ConfigError, IACConfig, IACTrainer, MAACConfig, MAACTrainer, NonFiniteError, PolicyError
from comlrl_learners.critic import Critic, ValueHead, head_for, in_microbatches
from comlrl_learners.rollout import Visit
from comlrl_learners.samples import Prompt

from .strangers import Relay
from .toy_models import flat_weights, toy_policy, toy_team

ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "two", "three", "four"))]
AGENTS = ("agent_0", "agent_1")
KINDS = {
    "shared head": (IACTrainer, IACConfig, {}),
    "own critics": (IACTrainer, IACConfig, {"use_separate_critic": True}),
    "own critics of actions": (IACTrainer, IACConfig, {"use_separate_critic": True, "critic_type": "q"}),
    "central": (MAACTrainer, MAACConfig, {}),
    "central of actions": (MAACTrainer, MAACConfig, {"critic_type": "q"}),
}


def spread(first, second):
    return [(sum(map(ord, a)) % 101) / 101 + (sum(map(ord, b)) % 97) / 50 for a, b in zip(first, second, strict=True)]


def again(prompt, agent_completions, num_agents):
    return [f"{prompt} {text[:4]}" for text in agent_completions]


def game(turns=1, reward=spread):
    return from_reward(ROWS, reward, feedback=again if turns > 1 else None, max_turns=turns)


def trainer(kind, turns=1, policies=None, env=None, critics=None, references=None, **settings):
    cls, config_class, chosen = KINDS[kind]
    given = {"output_dir": None, "num_generations": 3, "items_per_rollout": 4, "learning_rate": 1e-3, **chosen}
    return cls(
        env=env or game(turns),
        policies=policies or toy_team(),
        config=config_class(**{**given, **settings}),
        critics=critics,
        references=references,
    )


def collect(one, count=4):
    return one.algorithm.collect([Visit(one.playground.tasks[i], 0, one.config.seed, "train") for i in range(count)])


def critics_of(one):
    return list({id(critic): critic for critic in one.algorithm.critics.values()}.values())


def value_by_hand(critic, prompt):
    """The head on the last hidden state of an unpadded forward."""
    output = critic.policy.model.model(input_ids=torch.tensor([prompt.ids]))
    return critic.head(output.last_hidden_state[:, -1]).item()


def excite(one):
    """Heads start near 0; give them something to say."""
    generator = torch.Generator().manual_seed(3)
    for critic in critics_of(one):
        with torch.no_grad():
            for parameter in critic.head.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("turns", [1, 2])
def test_every_actor_and_every_critic_moves(kind, turns):
    one = trainer(kind, turns, max_steps=2)
    before = {agent: flat_weights(policy) for agent, policy in one.team.items()}
    heads = [[p.detach().clone() for p in critic.head.parameters()] for critic in critics_of(one)]
    trunks = [flat_weights(critic.policy) for critic in critics_of(one)]
    result = one.train()
    assert all(not torch.equal(flat_weights(policy), before[agent]) for agent, policy in one.team.items())
    for critic, head, trunk in zip(critics_of(one), heads, trunks, strict=True):
        moved = zip(critic.head.parameters(), head, strict=True)
        assert all(not torch.equal(p, old) for p, old in moved)
        assert not torch.equal(flat_weights(critic.policy), trunk)
    assert all(np.isfinite(list(row.values())).all() for row in result.rows)


@pytest.mark.parametrize("kind", ["shared head", "own critics", "central"])
def test_values_are_those_of_a_plain_forward(kind):
    one = trainer(kind, policies=[toy_policy(seed, double=True) for seed in (1, 2)])
    excite(one)
    batch = collect(one)
    for agent in AGENTS:
        critic = one.algorithm.critics[agent]
        view = one.algorithm.view
        for root in batch.roots:
            expected = value_by_hand(critic, view.situation(critic, root, agent))
            old = [s.old_value for s in batch.samples[agent] if s.task_id == root.visit.task.id]
            assert old == pytest.approx([expected] * 3, abs=1e-9)


def test_a_head_on_the_policy_reads_the_forward_of_the_loss():
    one = trainer("shared head", policies=[toy_policy(seed, double=True) for seed in (1, 2)])
    excite(one)
    batch = collect(one)
    policy, head = one.team["agent_0"], one.algorithm.critics["agent_0"].head
    calls = []
    policy.model.register_forward_hook(lambda *_: calls.append(1))
    now = policy.logprobs([s.completion for s in batch.samples["agent_0"]], head=head)
    assert len(calls) == 2  # the prompts and the completions, as without a head
    assert now.values.tolist() == pytest.approx([s.old_value for s in batch.samples["agent_0"]], abs=1e-9)
    now.values.sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in head.parameters())
    assert policy.model.get_input_embeddings().weight.grad.abs().max() > 0


def test_advantages_and_targets_of_two_turns_by_hand():
    one = trainer("central", 2, discount=0.9, gae_lambda=0.5, advantage_norm="none", num_generations=2)
    excite(one)
    batch = collect(one, 1)
    (root,) = batch.roots
    critic, view = one.algorithm.critics["agent_0"], one.algorithm.view
    value = {id(n): critic.estimates([view.situation(critic, n, "agent_0")], 999).popitem()[1] for n in root.subtree()}
    expected = []
    for edge in root.edges:
        below = [leaf.reward - value[id(edge.child)] for leaf in edge.child.edges]
        delta = edge.reward + 0.9 * value[id(edge.child)] - value[id(root)]
        expected.append(delta + 0.9 * 0.5 * np.mean(below))
    for agent in AGENTS:
        first = batch.samples[agent][:2]
        assert [sample.advantage for sample in first] == pytest.approx(expected, abs=1e-5)
        assert [sample.value_target for sample in first] == pytest.approx(
            [a + value[id(root)] for a in expected], abs=1e-5
        )


def test_a_counterfactual_baseline_holds_the_partners_texts_fixed():
    one = trainer("central of actions", advantage_norm="none")
    excite(one)
    batch = collect(one, 1)
    (root,) = batch.roots
    critic, view = one.algorithm.critics["agent_0"], one.algorithm.view

    def q(i, j):
        return critic.estimates([view.action(critic, root, "agent_0", (i, j))], 999).popitem()[1]

    for k, sample in enumerate(batch.samples["agent_0"]):
        assert sample.advantage == pytest.approx(q(k, k) - np.mean([q(i, k) for i in range(3)]), abs=1e-6)
    for k, sample in enumerate(batch.samples["agent_1"]):
        assert sample.advantage == pytest.approx(q(k, k) - np.mean([q(k, j) for j in range(3)]), abs=1e-6)
    assert [s.target for s in batch.values["agent_0"]] == [edge.reward for edge in root.edges]


def test_one_candidate_has_no_counterfactual_and_learns_from_the_residual():
    one = trainer("own critics of actions", 2, num_generations=1, advantage_norm="none")
    batch = collect(one)
    for sample, value in zip(batch.samples["agent_0"], batch.values["agent_0"], strict=True):
        assert sample.advantage == pytest.approx(value.target - value.old_value)


@pytest.mark.parametrize("kind", ["own critics", "central"])
def test_equal_prompts_are_read_once(kind):
    one = trainer(kind)
    critic = one.algorithm.critics["agent_0"]
    rows = []
    critic.policy.model.register_forward_hook(
        lambda m, a, kwargs, out: rows.append(out.logits.shape[0]), with_kwargs=True
    )
    batch = collect(one)
    assert sum(rows) == 4
    one.algorithm.update(batch, 0, 1.0)
    assert sum(rows) == 8
    assert len(batch.values["agent_0"]) == 12


@pytest.mark.parametrize("size, steps", [(None, 1), (4, 3)])
def test_a_central_critic_takes_one_step_per_joint_minibatch(size, steps):
    one = trainer("central", minibatch_size=size, clip_range=None if size is None else 0.2)
    one.algorithm.update(collect(one), 0, 1.0)
    (optimizer,) = one.algorithm.critic_steps.optimizers.values()
    assert {int(state["step"]) for state in optimizer.adam.state.values()} == {steps}


def test_microbatches_change_nothing():
    def weights(tokens):
        one = trainer("own critics", policies=[toy_policy(s, double=True) for s in (1, 2)], microbatch_tokens=tokens)
        excite(one)
        one.algorithm.update(collect(one), 0, 1.0)
        return [flat_weights(critic.policy) for critic in critics_of(one)]

    for few, many in zip(weights(8), weights(4096), strict=True):
        torch.testing.assert_close(few, many, atol=1e-10, rtol=0)
    assert [[len(p.ids) for p in part] for part in in_microbatches([Prompt((1,) * n) for n in (5, 1, 2, 9)], 6)] == [
        [1, 2], [5], [9],
    ]  # fmt: skip


def test_who_only_watches_passes_on_what_comes_later():
    env = TextEnv(TextGame(TurnTaking(max_turns=3)), TaskSet(ROWS), "toy/turns")
    one = trainer("shared head", env=env, policies=toy_team(), discount=0.5, advantage_norm="none", num_generations=2)
    excite(one)
    batch = collect(one, 1)
    (root,) = batch.roots
    by = one.algorithm.critics
    for sample, edge in zip(batch.samples["answerer"], root.edges, strict=False):
        node = edge.child
        (value,) = {s.old_value for s in batch.samples["answerer"] if s.completion in node.completions["answerer"]}
        assert value == pytest.approx(value_by_hand(by["answerer"], node.completions["answerer"][0].prompt), abs=1e-5)
        assert sample.turn == 1
    asker = [sample for sample in batch.samples["asker"] if sample.turn == 0]
    for k, (sample, edge) in enumerate(zip(asker, root.edges, strict=True)):
        after = [
            leaf.reward
            + 0.5 * (value_by_hand(one.algorithm.critics["asker"], leaf.child.completions["asker"][0].prompt))
            for leaf in edge.child.edges
            if leaf.child is not None
        ]
        assert len(after) == 2
        assert sample.advantage == pytest.approx(edge.reward + 0.5 * np.mean(after) - sample.old_value, abs=1e-5), k


@pytest.mark.parametrize("kind", ["shared head", "central"])
def test_the_kl_to_the_start_is_0_at_step_0_and_lowers_rewards_later(kind):
    one = trainer(kind, kl_coef=0.5, max_steps=2)
    rows = one.train().rows
    trained = [row for row in rows if "train/reward_mean" in row]
    assert trained[0]["train/agent_0/reference_kl"] == 0.0 < trained[1]["train/agent_0/reference_kl"]


def test_a_shared_policy_has_one_head_and_one_optimizer():
    shared = toy_policy(1)
    one = trainer("shared head", policies=shared)
    assert one.algorithm.critics["agent_0"] is one.algorithm.critics["agent_1"]
    (optimizer,) = one.algorithm.actors.optimizers.values()
    assert len(optimizer.adam.param_groups) == 2
    assert len({id(p) for p in optimizer.parameters}) == len(optimizer.parameters)


def test_a_head_has_its_own_learning_rate():
    one = trainer("shared head", critic_learning_rate=0.5)
    for optimizer in one.algorithm.actors.optimizers.values():
        assert [group["lr"] for group in optimizer.adam.param_groups] == [1e-3, 0.5]


@pytest.mark.parametrize("kind", KINDS)
def test_a_strangers_environment_trains_unchanged(kind):
    class Text(Relay):
        observed = str

    result = trainer(kind, env=Text, tasks_per_epoch=2, num_generations=1, max_steps=2, eval_every=0).train()
    assert result.rounds == 2


@pytest.mark.parametrize("kind", KINDS)
def test_two_runs_are_equal_bit_for_bit(kind):
    def run():
        one = trainer(kind, 2, max_steps=2)
        one.train()
        return [*map(flat_weights, one.team.values()), *(p for c in critics_of(one) for p in c.head.parameters())]

    assert all(torch.equal(a, b) for a, b in zip(run(), run(), strict=True))


def test_critics_may_be_other_models():
    other = toy_policy(9, hidden=32)
    one = trainer("central", critics=other)
    assert one.algorithm.critics["agent_0"].policy is other
    one.algorithm.update(collect(one), 0, 1.0)


def test_heads_start_small_by_seed_and_may_have_a_layer_inside():
    policy = toy_policy(1)
    plain, again_, deep = head_for(policy, None, 1), head_for(policy, None, 1), head_for(policy, 8, 1)
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), again_.parameters(), strict=True))
    assert [tuple(p.shape) for p in deep.parameters()] == [(8, 16), (8,), (1, 8), (1,)]
    assert 0.005 < plain.layers[0].weight.std() < 0.05
    assert isinstance(deep, ValueHead) and Critic(policy, deep).values([Prompt((3, 4))]).shape == (1,)


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: IACConfig(critic_type="q"), "use_separate_critic=True"),
        (lambda: MAACConfig(critic_type="q", gae_lambda=0.5), "gae_lambda=0"),
        (lambda: MAACConfig(gae_lambda=1.5), r"\[0, 1\]"),
        (lambda: IACConfig(value_clip_range=0.0), "positive"),
        (lambda: IACConfig(critic_learning_rate=-1.0), "positive"),
        (lambda: IACConfig(advantage_norm="group"), "none of none, batch"),
        (lambda: trainer("shared head", critics=toy_policy(5)), "use_separate_critic=True"),
        (lambda: trainer("central", critics=toy_team()), "one critic for all"),
    ],
)
def test_what_cannot_work_is_refused_with_the_nearest_that_does(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


def test_a_critic_that_is_an_actor_is_refused():
    team = toy_team()
    with pytest.raises(PolicyError, match="own models"):
        trainer("central", policies=team, critics=team[0])


def test_a_value_that_is_not_finite_is_named():
    one = trainer("central")
    batch = collect(one)
    with torch.no_grad():
        critics_of(one)[0].head.layers[0].bias.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match=r"value loss of agent 'agent_0' at turn 0 of task 'row-"):
        one.algorithm.update(batch, 0, 1.0)


def test_all_kinds_have_different_directions():
    gradients = {}
    for kind in KINDS:
        one = trainer(kind, advantage_norm="none")
        excite(one)
        gradients[kind] = torch.tensor([s.advantage for s in collect(one).samples["agent_0"]])
    # At the start a critic of its own says what a head on the policy would: it is a copy of it.
    assert torch.allclose(gradients.pop("own critics"), gradients["shared head"])
    for left, right in itertools.combinations(gradients, 2):
        assert not torch.allclose(gradients[left], gradients[right]), (left, right)
