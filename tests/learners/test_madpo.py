"""Preference pairs and MADPO on random policies."""

import json
import math

import numpy as np
import pytest
import torch
from envs.toys import TurnTaking

from comlrl_envs import TaskSet, TextEnv, TextGame, from_reward
from comlrl_envs.seeding import rng
from comlrl_learners import ConfigError, MADPOConfig, MADPOTrainer
from comlrl_learners.losses import preference_loss
from comlrl_learners.pairs_file import read_pairs
from comlrl_learners.preferences import (
    Pair,
    draw_pairs,
    from_json,
    node_returns,
    replay_shares,
    select_pairs,
    to_json,
)
from comlrl_learners.rollout import Visit
from comlrl_learners.samples import Completion, Prompt

from .strangers import Relay
from .toy_models import flat_gradient, flat_weights, toy_policy, toy_team

ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "two", "three", "four"))]
AGENTS = ("agent_0", "agent_1")


def spread(first, second):
    return [(sum(map(ord, a)) % 101) / 101 + (sum(map(ord, b)) % 97) / 50 for a, b in zip(first, second, strict=True)]


def again(prompt, agent_completions, num_agents):
    return [f"{prompt} {text[:4]}" for text in agent_completions]


def trainer(turns=1, policies=None, env=None, references=None, reward=spread, **settings):
    env = env or from_reward(ROWS, reward, feedback=again if turns > 1 else None, max_turns=turns)
    given = {"output_dir": None, "num_generations": 4, "items_per_rollout": 4, "learning_rate": 1e-3, **settings}
    return MADPOTrainer(env=env, policies=policies or toy_team(), config=MADPOConfig(**given), references=references)


def collect(one, count=4):
    return one.algorithm.collect([Visit(one.playground.tasks[i], 0, one.config.seed, "train") for i in range(count)])


def log_prob(policy, completion):
    """Summed log-prob under the sampling temperature, by a plain forward."""
    ids = torch.tensor([[*completion.prompt.ids, *completion.ids]])
    logits = policy.model(input_ids=ids).logits[0, len(completion.prompt.ids) - 1 : -1] / policy.sampling.temperature
    return logits.log_softmax(-1).gather(-1, ids[0, len(completion.prompt.ids) :, None]).sum()


def margin(team, pair, references=None):
    total = 0.0
    for agent in pair.chosen:
        for half, sign in ((pair.chosen, 1), (pair.rejected, -1)):
            total = total + sign * log_prob(team[agent], half[agent])
            if references is not None:
                total = total - sign * log_prob(references[agent], half[agent]).detach()
    return total


def test_pairs_are_chosen_by_gap_at_random_or_all():
    returns = [0.5, 1.0, 0.0, 0.5]
    everything = [(0, 2), (1, 0), (1, 2), (1, 3), (3, 2)]
    assert sorted(select_pairs(returns, "all", None, rng(0))) == everything
    assert select_pairs(returns, "reward_gap", 1, rng(0)) == [(1, 2)]
    assert select_pairs(returns, "reward_gap", 3, rng(0)) == [(1, 2), (0, 2), (1, 0)]
    drawn = [tuple(select_pairs(returns, "random", 2, rng(seed))) for seed in range(60)]
    assert len(set(drawn)) > 10 and all(set(pairs) <= set(everything) for pairs in drawn)
    assert select_pairs([0.3, 0.3], "all", None, rng(0)) == []


def test_replay_shares_by_enumeration():
    ages = [3, 2, 1, 0]
    assert replay_shares(ages, "current", 2, 0.5) == [0, 0, 0, 1]
    assert replay_shares(ages, "nearest_k", 2, 0.5) == [0, 0, 0.5, 0.5]
    assert replay_shares(ages, "all_history", 2, 0.5) == [0.25] * 4
    total = sum(0.5**age for age in ages)
    assert replay_shares(ages, "lambda_decay", 2, 0.5) == pytest.approx([0.5**age / total for age in ages])
    assert replay_shares(ages, "lambda_decay", 2, 0.0) == [0, 0, 0, 1]
    assert replay_shares(ages, "lambda_decay", 2, 1.0) == [0.25] * 4


def pair_of(number):
    completion = Completion(Prompt((1,)), (2,), (0.0,), "", True)
    return Pair(str(number), 0, {"a": ""}, {"a": completion}, {"a": completion}, 1.0, 0.0, 0.5)


def test_replayed_pairs_follow_the_shares_and_repeat_only_when_all_were_drawn():
    rounds = [[pair_of(i) for i in range(10)], [], [pair_of(i) for i in range(100, 130)]]
    counts = np.zeros(2)
    for seed in range(300):
        drawn = [int(pair.task_id) for pair in draw_pairs(rounds, [0.25, 0.5, 0.25], 20, rng(seed))]
        old = [number for number in drawn if number < 100]
        assert len(drawn) == 20 and len(set(old)) == min(10, len(old))
        counts += [len(old), 20 - len(old)]
    assert counts / counts.sum() == pytest.approx([0.5, 0.5], abs=0.03)
    assert draw_pairs([[], []], [0.5, 0.5], 4, rng(0)) == []


def test_the_loss_by_hand():
    margins = torch.tensor([0.0, 2.0, -3.0], dtype=torch.float64)
    expected = [-math.log(1 / (1 + math.exp(-0.5 * m))) for m in margins.tolist()]
    assert preference_loss(margins, 0.5).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("reference_free", [True, False])
def test_every_agents_gradient_is_that_of_the_whole_teams_margin(reference_free):
    references = None if reference_free else [toy_policy(seed, double=True) for seed in (8, 9)]
    one = trainer(
        policies=[toy_policy(s, double=True) for s in (1, 2)], references=references, reference_free=reference_free,
        max_grad_norm=1e9, microbatch_tokens=40,
    )  # fmt: skip
    pairs = collect(one).pairs
    assert len(pairs) == 16
    losses = [preference_loss(margin(one.team, pair, one.references), 0.1) for pair in pairs]
    torch.stack(losses).mean().backward()
    expected = {agent: flat_gradient(policy) for agent, policy in one.team.items()}
    seen = {}
    for agent, policy in one.team.items():
        policy.model.zero_grad()
        optimizer = one.algorithm.steps.optimizers[id(policy)]
        optimizer.step = lambda agent=agent, policy=policy: seen.update({agent: flat_gradient(policy)}) or 0.0
    told = one.algorithm.steps.take(pairs)
    for agent in AGENTS:
        torch.testing.assert_close(seen[agent], expected[agent], atol=1e-9, rtol=1e-6)
        assert expected[agent].abs().max() > 1e-4
    assert told["loss"] == pytest.approx(torch.stack(losses).mean().item())


def test_a_completion_is_read_once_however_many_pairs_share_it():
    one = trainer(pair_selection="all", pairs_per_node=None, policies=toy_policy(1))
    batch = collect(one)
    assert len(batch.pairs) > 20
    rows = []
    one.team["agent_0"].model.register_forward_hook(lambda model, given, output: rows.append(output.logits.shape[0]))
    one.algorithm.update(batch, 0, 1.0)
    completions = {(c.prompt.ids, c.ids) for p in batch.pairs for h in (p.chosen, p.rejected) for c in h.values()}
    # Prompts and completions, without a gradient for the margins and with one for the step.
    assert sum(rows) <= 2 * (len(completions) + 12)


def test_the_accuracy_rises_on_the_pairs_that_are_learnt_from():
    one = trainer(learning_rate=1e-2)
    batch = collect(one)
    told = [one.algorithm.steps.take(batch.pairs) for _ in range(10)]
    assert told[-1]["loss"] < told[0]["loss"] and told[-1]["accuracy"] > 0.9 > told[0]["accuracy"]


def test_pairs_of_later_turns_count_what_follows():
    one = trainer(2, discount=0.5, num_generations=2)
    batch = collect(one, 1)
    (root,) = batch.roots
    returns = node_returns([root, *[edge.child for edge in root.edges]], one.config)
    for edge, value in zip(root.edges, returns[id(root)], strict=True):
        assert value == pytest.approx(edge.reward + 0.5 * np.mean([leaf.reward for leaf in edge.child.edges]))
    assert {pair.turn for pair in batch.pairs} == {0, 1}


def test_who_does_not_act_is_in_no_pair():
    env = TextEnv(TextGame(TurnTaking(max_turns=2)), TaskSet(ROWS), "toy/turns")
    batch = collect(trainer(env=env), 2)
    assert {(pair.turn, *pair.chosen) for pair in batch.pairs} == {(0, "asker"), (1, "answerer")}


def test_pairs_survive_json_with_their_tokens():
    pair = collect(trainer()).pairs[0]
    restored = from_json(json.loads(json.dumps(to_json(pair))))
    assert (restored.task_id, restored.turn, restored.prompts) == (pair.task_id, pair.turn, pair.prompts)
    for half in ("chosen", "rejected"):
        for agent, completion in getattr(restored, half).items():
            assert completion.ids == getattr(pair, half)[agent].ids
            assert completion.prompt == getattr(pair, half)[agent].prompt


def test_a_run_writes_its_pairs_and_learns_from_them_again(tmp_path):
    one = trainer(output_dir=str(tmp_path), max_steps=2)
    folder = one.train().folder
    written = sorted((folder / "preferences").glob("round-*.json"))
    assert [path.name for path in written] == ["round-000001.json", "round-000002.json"]
    data = json.loads(written[0].read_text(encoding="utf-8"))
    assert data["num_pairs"] == len(data["pairs"]) > 0
    assert sum(data["distribution"]["candidates"]["counts"]) == data["distribution"]["candidates"]["count"] == 16
    assert {"prompts", "winner_completions", "loser_completions", "winner_reward", "loser_reward"} <= data["pairs"][
        0
    ].keys()
    again_ = trainer(pairs_file=str(written[0]), max_steps=1, num_generations=1)
    before = {agent: flat_weights(policy) for agent, policy in again_.team.items()}
    result = again_.train()
    assert result.env_steps == 2 * data["num_pairs"]
    assert all(not torch.equal(flat_weights(policy), before[agent]) for agent, policy in again_.team.items())


def test_pairs_that_people_wrote_are_read(tmp_path):
    path = tmp_path / "pairs.json"
    record = {"prompts": ["one", "one"], "winner_completions": ["ab", "cd"], "loser_completions": ["x", ""]}
    path.write_text(json.dumps([record]), encoding="utf-8")
    team = dict(zip(AGENTS, toy_team(), strict=True))
    (pair,) = read_pairs(path, team).pairs
    assert [pair.chosen[agent].text for agent in AGENTS] == ["ab", "cd"]
    assert pair.rejected["agent_1"].ids == team["agent_1"].backbone.eos_ids[:1]
    assert pair.chosen["agent_0"].ids[-1] == team["agent_0"].backbone.eos_ids[0]


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "cannot be read"),
        ("[]", "no list of pairs"),
        ('[{"prompts": ["a"]}]', "Pair 0 needs 'prompts': a list of 2 texts"),
        ('{"pairs": [{"prompts": ["a", "b"], "winner_completions": ["a", 1]}]}', "needs 'winner_completions'"),
        ("[3]", "Pair 0 needs"),
        (
            '[{"agents": ["x"], "prompts": ["a"], "winner_completions": ["a"], "loser_completions": ["a"]}]',
            r"names the agents \['x'\]",
        ),
    ],
)
def test_files_that_hold_no_pairs_are_named(text, words, tmp_path):
    path = tmp_path / "pairs.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        trainer(pairs_file=str(path))


@pytest.mark.parametrize("replay", ["nearest_k", "all_history", "lambda_decay"])
def test_later_rounds_learn_from_earlier_pairs_and_resume_with_them(replay, tmp_path):
    def run(folder, rounds, resume=None):
        one = trainer(
            output_dir=str(tmp_path / folder), max_steps=rounds, items_per_rollout=2, replay=replay, replay_k=2,
            minibatch_size=6, num_updates=2, eval_every=0,
        )  # fmt: skip
        return one, one.train(resume)

    whole, _ = run("whole", 4)
    _, first = run("halves", 2)
    second, _ = run("halves", 4, first.folder)
    assert len(second.algorithm.rounds) == (2 if replay == "nearest_k" else 4)
    for agent, policy in whole.team.items():
        assert torch.equal(flat_weights(policy), flat_weights(second.team[agent]))


def test_a_strangers_environment_trains_unchanged():
    result = trainer(env=Relay, tasks_per_epoch=2, max_steps=2, eval_every=0).train()
    assert result.rounds == 2


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"num_generations": 1}, "pairs_file="),
        ({"beta": 0.0}, "beta=0.0"),
        ({"pair_selection": "all"}, "pairs_per_node=None"),
        ({"pair_selection": "best"}, "reward_gap"),
        ({"replay_lambda": 2.0}, "replay_lambda=2.0"),
        ({"pairs_per_node": 0}, "pairs_per_node=0"),
    ],
)
def test_what_cannot_work_is_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        MADPOConfig(**settings)


def test_no_pair_no_step():
    one = trainer(reward=lambda first, second: [0.5] * len(first), max_steps=1)
    before = flat_weights(one.team["agent_0"])
    rows = one.train().rows
    assert torch.equal(before, flat_weights(one.team["agent_0"]))
    assert [row["train/pairs"] for row in rows if "train/pairs" in row] == [0.0]
