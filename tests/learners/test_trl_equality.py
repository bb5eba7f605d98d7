"""Losses and every gradient against TRL's GRPO and RLOO: perturbed old log-probs, ragged lengths, T = 0.7, float64."""

import copy

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers.models.llama import modeling_llama

from comlrl_envs import from_reward
from comlrl_learners import MAGRPOConfig, MAGRPOTrainer, MARLOOConfig, MARLOOTrainer
from comlrl_learners.advantages import group_advantages
from comlrl_learners.samples import Completion, TokenSample

from .small import policy

pytest.importorskip("trl")
CLIP = 0.2
RETURNS = [[0.1, 0.9, 0.4, 0.45], [0.6, 0.3, 0.35, 0.5]]  # two groups of different spread
LENGTHS = (1, 12, 5, 3, 9, 2, 12, 7)
SCALES = {"token": 0.3, "sequence": 0.02}  # some ratios inside the clip range, some outside


def samples(member, advantages, noise):
    """Two prompts of different length, ragged completions, old log-probs that differ from the present ones."""
    generator = torch.Generator().manual_seed(11)
    prompts = [member.encode("a short one")] * 4 + [member.encode("quite a bit longer than the other one")] * 4
    written = []
    for prompt, length in zip(prompts, LENGTHS, strict=True):
        ids = torch.randint(4, 200, (length,), generator=generator).tolist()
        ids[-1] = 1 if length % 2 else ids[-1]
        now = member.logprobs([Completion(prompt, tuple(ids), (0.0,) * length, "", True)]).logprobs[0].detach()
        old = now + noise * torch.randn(length, generator=generator, dtype=torch.float64)
        written.append(Completion(prompt, tuple(ids), tuple(old.tolist()), "", ids[-1] == 1))
    return [TokenSample("agent_0", "t", 0, c, a, None) for c, a in zip(written, advantages, strict=True)]


def padded(rows, left=False):
    width = max(map(len, rows))
    values = [[0] * (width - len(r)) + list(r) if left else list(r) + [0] * (width - len(r)) for r in rows]
    mask = [[0] * (width - len(r)) + [1] * len(r) if left else [1] * len(r) + [0] * (width - len(r)) for r in rows]
    return torch.tensor(values), torch.tensor(mask)


def theirs(kind, member, batch, folder):
    """Loss and gradients of TRL's trainer on the same samples."""
    trl = pytest.importorskip("trl")
    config_class, trainer_class = getattr(trl, f"{kind}Config"), getattr(trl, f"{kind}Trainer")
    extra = {"loss_type": "grpo"} if kind == "GRPO" else {}
    arguments = config_class(
        output_dir=str(folder), per_device_train_batch_size=8, num_generations=4, beta=0.0, epsilon=CLIP,
        temperature=member.sampling.temperature, max_completion_length=12, report_to=[], use_cpu=True, bf16=False,
        activation_checkpointing=False, **extra,
    )  # fmt: skip
    trainer = trainer_class(
        model=copy.deepcopy(member.model),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["a"]}),
        processing_class=member.tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    prompt_ids, prompt_mask = padded([s.completion.prompt.ids for s in batch], left=True)
    completion_ids, completion_mask = padded([s.completion.ids for s in batch])
    old = torch.zeros(completion_ids.shape, dtype=torch.float64)
    for row, sample in zip(old, batch, strict=True):
        row[: len(sample.completion.ids)] = torch.tensor(sample.completion.logprobs, dtype=torch.float64)
    inputs = {
        "prompt_ids": prompt_ids, "prompt_mask": prompt_mask, "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "advantages": torch.tensor([s.advantage for s in batch], dtype=torch.float64),
        "old_per_token_logps": old, "old_logps": old.sum(-1), "num_items_in_batch": completion_mask.sum(),
    }  # fmt: skip
    loss = trainer._compute_loss(trainer.model, inputs)
    loss.backward()
    return loss.item(), {name: p.grad for name, p in trainer.model.named_parameters()}


def ours(trainer_class, config_class, member, batch):
    """Loss and gradients as the trainer's own update accumulates them, in several micro-batches."""
    config = config_class(clip_range=CLIP, output_dir=None, microbatch_tokens=60)
    assert member.sampling.temperature == 0.7
    env = from_reward([{"prompt": "a"}], lambda completions: [0.0] * len(completions), num_agents=1)
    reinforce = trainer_class(env=env, policies=member, config=config).algorithm
    loss = reinforce._backward(member, batch)
    return loss, {name: p.grad for name, p in member.model.named_parameters()}


@pytest.fixture
def exact_llama(monkeypatch):
    """Llama without the float32 steps of its norm and of its rotary angles, which would blur the comparison."""

    def norm(self, hidden):
        return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    def rotary(self, hidden, position_ids):
        angles = position_ids[..., None].double() * self.inv_freq.double()
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos(), angles.sin()

    monkeypatch.setattr(modeling_llama.LlamaRMSNorm, "forward", norm)
    monkeypatch.setattr(modeling_llama.LlamaRotaryEmbedding, "forward", rotary)


@pytest.mark.usefixtures("exact_llama")
@pytest.mark.parametrize(
    ("kind", "trainer_class", "config_class", "level"),
    [("GRPO", MAGRPOTrainer, MAGRPOConfig, "token"), ("RLOO", MARLOOTrainer, MARLOOConfig, "sequence")],
)
def test_loss_and_every_gradient_equal_trls(kind, trainer_class, config_class, level, tmp_path):
    member = policy("llama", seed=5, double=True)
    config = config_class()
    advantages = np.concatenate([group_advantages(g, config.baseline, config.advantage_norm) for g in RETURNS])
    batch = samples(member, advantages.tolist(), SCALES[level])
    their_loss, their_gradients = theirs(kind, member, batch, tmp_path)
    our_loss, our_gradients = ours(trainer_class, config_class, member, batch)
    assert our_loss == pytest.approx(their_loss, abs=1e-6)
    assert abs(our_loss) > 1e-3
    assert set(our_gradients) == set(their_gradients)
    for name, gradient in our_gradients.items():
        assert gradient.abs().max() > 1e-6, name
        scale = max(1.0, float(gradient.abs().max()))
        assert (gradient - their_gradients[name]).abs().max() < 1e-6 * scale, name


def test_some_ratios_of_the_comparison_are_clipped_and_some_are_not():
    for level, scale in SCALES.items():
        member = policy("llama", seed=5, double=True)
        batch = samples(member, [0.0] * 8, scale)
        now = member.logprobs([s.completion for s in batch])
        old = [torch.tensor(s.completion.logprobs, dtype=torch.float64) for s in batch]
        differences = [row[: len(o)] - o for row, o in zip(now.logprobs, old, strict=True)]
        logs = torch.cat(differences) if level == "token" else torch.stack([d.sum() for d in differences])
        outside = ((logs.exp() - 1).abs() > CLIP).double().mean()
        assert 0 < outside < 1, level


def test_advantages_equal_trls():
    from trl.trainer.utils import nanstd

    grouped = torch.tensor(RETURNS, dtype=torch.float64)
    deviation = nanstd(grouped, dim=1).unsqueeze(1)
    grpo = (grouped - grouped.mean(1, keepdim=True)) / (deviation + 1e-4)
    rloo = grouped - (grouped.sum(1, keepdim=True) - grouped) / 3
    for config, expected in ((MAGRPOConfig(), grpo), (MARLOOConfig(), rloo)):
        for returns, row in zip(RETURNS, expected, strict=True):
            found = group_advantages(returns, config.baseline, config.advantage_norm)
            assert found.tolist() == pytest.approx(row.tolist(), abs=1e-12)
