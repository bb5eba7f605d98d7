"""One agent alone: losses and gradients of MAGRPO, MARLOO and MADPO against TRL's GRPO, RLOO and DPO, in double.

On policy a group-normalised loss is 0 whatever the weights: old log-probs are perturbed, every gradient is compared.
"""

import math

import pytest
import torch

from comlrl_envs import from_reward
from comlrl_learners import MADPOConfig, MAGRPOConfig, MARLOOConfig
from comlrl_learners.advantages import group_advantages
from comlrl_learners.algorithms.actor import Actors
from comlrl_learners.algorithms.preference_steps import PreferenceSteps
from comlrl_learners.algorithms.reinforce import Reinforce
from comlrl_learners.policy import Request
from comlrl_learners.preferences import Pair
from comlrl_learners.rollout import Visit
from comlrl_learners.samples import Completion, Prompt, TokenSample

from .toy_models import VOCABULARY, toy_policy

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

PROMPTS = {"even": ((5, 6, 7, 13, 14), (8, 9, 10, 11, 12)), "ragged": ((5, 6, 7, 13, 14, 20, 21, 4), (8, 9, 10))}
RETURNS = ((0.25, 0.05, 0.12, 0.22), (0.02, 0.04, 0.03, 0.08))
# TRL's fused head rounds log-probs to single precision: with sums of seven of them, larger returns would show it.
LENGTHS = (3, 7, 5, 1, 6, 2, 7, 4)
CONFIGS = {
    "grpo": MAGRPOConfig(clip_range=0.2, num_generations=4, output_dir=None),
    "rloo": MARLOOConfig(clip_range=0.2, num_generations=4, output_dir=None),
}


def samples(one, config, prompts):
    """Two groups of four ragged completions with perturbed old log-probs."""
    generator = torch.Generator().manual_seed(58)
    advantages = [a for returns in RETURNS for a in group_advantages(returns, config.baseline, config.advantage_norm)]
    made = []
    for i, length in enumerate(LENGTHS):
        ids = torch.randint(3, len(VOCABULARY), (length,), generator=generator).tolist()
        bare = Completion(Prompt(prompts[i // 4]), tuple(ids), (0.0,) * length, "", True)
        now = one.logprobs([bare]).logprobs[0].detach()
        old = now + 0.15 * torch.randn(length, generator=generator, dtype=torch.float64)
        completion = Completion(bare.prompt, bare.ids, tuple(old.tolist()), "", True)
        made.append(TokenSample("agent", "task", 0, completion, float(advantages[i])))
    return made


def padded(rows, left=False):
    width = max(map(len, rows))
    fill = [[0] * (width - len(row)) for row in rows]
    ids = [[*f, *r] if left else [*r, *f] for r, f in zip(rows, fill, strict=True)]
    ones = [[1] * len(row) for row in rows]
    mask = [[*f, *r] if left else [*r, *f] for r, f in zip(ones, fill, strict=True)]
    return torch.tensor(ids), torch.tensor(mask)


def trl_inputs(made):
    prompt_ids, prompt_mask = padded([s.completion.prompt.ids for s in made], left=True)
    completion_ids, completion_mask = padded([s.completion.ids for s in made])
    width = completion_ids.shape[1]
    old = torch.tensor(
        [[*s.completion.logprobs, *[0.0] * (width - len(s.completion.ids))] for s in made], dtype=torch.float64
    )
    return {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "advantages": torch.tensor([s.advantage for s in made], dtype=torch.float64),
        "old_per_token_logps": old,
        "old_logps": old.sum(1),
        "num_items_in_batch": completion_mask.sum(),
    }


def trl_trainer(kind, one, folder):
    config_class, trainer_class, settings = {
        "grpo": (trl.GRPOConfig, trl.GRPOTrainer, {"loss_type": "grpo"}),
        "rloo": (trl.RLOOConfig, trl.RLOOTrainer, {}),
    }[kind]
    config = config_class(
        output_dir=str(folder), report_to=[], per_device_train_batch_size=4, num_generations=4, beta=0.0,
        epsilon=0.2, temperature=0.7, bf16=False, use_cpu=True, **settings,
    )  # fmt: skip
    trainer = trainer_class(
        model=one.model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=config,
        train_dataset=datasets.Dataset.from_dict({"prompt": ["a"] * 4}),
        processing_class=one.tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def gradients(one):
    return {name: p.grad.clone() for name, p in one.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("prompts", PROMPTS)
@pytest.mark.parametrize("kind", CONFIGS)
def test_loss_and_every_gradient_equal_trl(kind, prompts, tmp_path):
    config, one = CONFIGS[kind], toy_policy(double=True, temperature=0.7)
    made = samples(one, config, PROMPTS[prompts])
    ours = Actors(config, {"agent": one}, None).sample_losses(one, made).mean()
    ours.backward()
    expected = gradients(one)
    one.model.zero_grad()
    trainer = trl_trainer(kind, one, tmp_path)
    one.model.train(False)
    theirs = trainer._compute_loss(trainer.model, trl_inputs(made))
    theirs.backward()
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-6)
    found = gradients(one)
    assert expected.keys() == found.keys() == dict(one.model.named_parameters()).keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=0)
    assert max(gradient.abs().max() for gradient in expected.values()) > 0.03
    assert abs(ours.item()) > 1e-4


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_compared_samples_lie_inside_and_outside_the_clip_range_on_both_sides(kind):
    one = toy_policy(double=True, temperature=0.7)
    kinds = set()
    for sample in samples(one, CONFIGS[kind], PROMPTS["even"]):
        now = one.logprobs([sample.completion]).logprobs[0].detach()
        logs = now - torch.tensor(sample.completion.logprobs, dtype=torch.float64)
        for ratio in [logs.sum().exp()] if kind == "rloo" else logs.exp():
            kinds.add((sample.advantage > 0, "low" if ratio < 0.8 else "high" if ratio > 1.2 else "inside"))
    assert kinds == {(better, place) for better in (True, False) for place in ("low", "inside", "high")}


def test_group_advantages_equal_trls_formula():
    returns = torch.tensor(RETURNS, dtype=torch.float64)
    expected = (returns - returns.mean(1, keepdim=True)) / (returns.std(1, keepdim=True) + 1e-4)
    found = torch.stack([torch.from_numpy(group_advantages(row, "mean", "group")) for row in RETURNS])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", CONFIGS)
def test_advantages_of_what_was_played_equal_trls_formulas(kind):
    """From the rewards of real completions to the advantages on the samples: GRPO's, and RLOO's leave-one-out."""
    env = from_reward(
        [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "two"))],
        lambda texts: [sum(map(ord, text)) % 17 / 17 for text in texts],
        num_agents=1,
    )
    algorithm = Reinforce(CONFIGS[kind], env.game, {"agent_0": toy_policy(seed=3)}, None, None)
    batch = algorithm.collect([Visit(env.tasks[i], 0, 0, "train") for i in range(2)])
    rewards = torch.tensor([[edge.reward for edge in root.edges] for root in batch.roots], dtype=torch.float64)
    assert (rewards.std(1) > 0).all()
    if kind == "grpo":
        expected = (rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)
    else:
        expected = rewards - (rewards.sum(1, keepdim=True) - rewards) / 3
    found = torch.tensor([s.advantage for s in batch.samples["agent_0"]], dtype=torch.float64).view(2, 4)
    torch.testing.assert_close(found, expected)


def test_madpo_of_one_agent_equals_trls_dpo_in_loss_and_every_gradient(tmp_path):
    one, reference = toy_policy(double=True, temperature=1.0), toy_policy(7, double=True, temperature=1.0)
    prompts = ("ab", "cdefg", "h")
    drawn = {p: one.generate([Request(one.encode(p), 10 * i + k) for k in range(2)]) for i, p in enumerate(prompts)}
    pairs = [Pair(p, 0, {"agent": p}, {"agent": a}, {"agent": b}, 1.0, 0.0, 0.5) for p, (a, b) in drawn.items()]
    config = MADPOConfig(beta=0.3, reference_free=False, max_grad_norm=1e9)
    steps = PreferenceSteps(config, 0.3, {"agent": one}, {"agent": reference}, None)
    found = {}
    optimizer = steps.optimizers[id(one)]
    optimizer.step = lambda: found.update(gradients(one)) or 0.0
    ours = steps.take(pairs)["loss"]
    one.model.zero_grad()
    rows = [pair.chosen["agent"] for pair in pairs] + [pair.rejected["agent"] for pair in pairs]
    width = max(len(c.prompt.ids) + len(c.ids) for c in rows)
    padded = [width - len(c.prompt.ids) - len(c.ids) for c in rows]
    inputs = {
        "input_ids": torch.tensor([[*c.prompt.ids, *c.ids, *[0] * p] for c, p in zip(rows, padded, strict=True)]),
        "attention_mask": torch.tensor([[1] * (width - p) + [0] * p for p in padded]),
        "completion_mask": torch.tensor(
            [[0] * len(c.prompt.ids) + [1] * len(c.ids) + [0] * p for c, p in zip(rows, padded, strict=True)]
        ),
    }
    trainer = trl.DPOTrainer(
        model=one.model,
        ref_model=reference.model,
        args=trl.DPOConfig(output_dir=str(tmp_path), report_to=[], beta=0.3, bf16=False, use_cpu=True),
        train_dataset=datasets.Dataset.from_dict({"prompt": ["a"], "chosen": ["b"], "rejected": ["c"]}),
        processing_class=one.tokenizer,
    )
    one.model.train(False)
    theirs = trainer._compute_loss(trainer.model, inputs, False)
    theirs.backward()
    assert ours == pytest.approx(theirs.item(), abs=1e-6) and abs(ours - math.log(2)) > 1e-3
    expected = gradients(one)
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=0)
    assert max(gradient.abs().max() for gradient in expected.values()) > 0.03
