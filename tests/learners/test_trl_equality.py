"""One agent alone: the losses and gradients of MAGRPO and MARLOO against TRL's GRPO and RLOO, in double precision.

On policy a group-normalised loss is 0 whatever the weights: old log-probs are perturbed, every gradient is compared.
"""

import pytest
import torch

from comlrl_learners import MAGRPOConfig, MARLOOConfig
from comlrl_learners.advantages import group_advantages
from comlrl_learners.algorithms.reinforce import Reinforce
from comlrl_learners.samples import Completion, Prompt, TokenSample

from .small import policy

trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")

PROMPTS = ((5, 6, 7, 13, 14), (8, 9, 10, 11, 12))
RETURNS = ((1.0, 0.2, 0.5, 0.9), (0.1, 0.15, 0.12, 0.3))
LENGTHS = (3, 7, 5, 1, 6, 2, 7, 4)


def samples(one, config):
    """Two groups of four ragged completions with perturbed old log-probs."""
    generator = torch.Generator().manual_seed(0)
    advantages = [a for returns in RETURNS for a in group_advantages(returns, config.baseline, config.advantage_norm)]
    made = []
    for i, length in enumerate(LENGTHS):
        ids = torch.randint(4, 200, (length,), generator=generator).tolist()
        bare = Completion(Prompt(PROMPTS[i // 4]), tuple(ids), (0.0,) * length, "", True)
        now = one.logprobs([bare]).logprobs[0].detach()
        old = now + 0.15 * torch.randn(length, generator=generator, dtype=torch.float64)
        completion = Completion(bare.prompt, bare.ids, tuple(old.tolist()), "", True)
        made.append(TokenSample("agent", "task", 0, completion, float(advantages[i])))
    return made


def padded(rows, left=False):
    width = max(map(len, rows))
    fill = [[0] * (width - len(row)) for row in rows]
    ids = torch.tensor([[*f, *r] if left else [*r, *f] for r, f in zip(rows, fill, strict=True)])
    mask = torch.tensor([[0] * len(f) + [1] * len(r) if left else [1] * len(r) + [0] * len(f)
                         for r, f in zip(rows, fill, strict=True)])  # fmt: skip
    return ids, mask


def trl_trainer(kind, one, folder, **settings):
    config_class, trainer_class = {
        "grpo": (trl.GRPOConfig, trl.GRPOTrainer), "rloo": (trl.RLOOConfig, trl.RLOOTrainer),
    }[kind]  # fmt: skip
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


@pytest.mark.parametrize(
    ("kind", "config"),
    [("grpo", MAGRPOConfig(clip_range=0.2, output_dir=None)), ("rloo", MARLOOConfig(clip_range=0.2, output_dir=None))],
)
def test_loss_and_every_gradient_equal_trl(kind, config, tmp_path):
    one = policy(double=True, temperature=0.7)
    with torch.no_grad():
        # Norms and rotations are computed in single precision inside the model; ordinary weights keep that below 1e-6.
        for parameter in one.model.parameters():
            parameter.mul_(0.3 if parameter.dim() > 1 else 1.0)
    made = samples(one, config)
    ours = Reinforce(config, None, {"agent": one}, None, None).sample_losses(one, made).mean()
    ours.backward()
    expected = gradients(one)
    one.model.zero_grad()

    prompt_ids, prompt_mask = padded([s.completion.prompt.ids for s in made], left=True)
    completion_ids, completion_mask = padded([s.completion.ids for s in made])
    width = completion_ids.shape[1]
    old = torch.tensor([[*s.completion.logprobs, *[0.0] * (width - len(s.completion.ids))] for s in made]).double()
    inputs = {
        "prompt_ids": prompt_ids, "prompt_mask": prompt_mask, "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "advantages": torch.tensor([s.advantage for s in made], dtype=torch.float64),
        "old_per_token_logps": old, "old_logps": old.sum(1), "num_items_in_batch": completion_mask.sum(),
    }  # fmt: skip
    trainer = trl_trainer(kind, one, tmp_path, **({"loss_type": "grpo"} if kind == "grpo" else {}))
    one.model.train(False)
    theirs = trainer._compute_loss(trainer.model, inputs)
    theirs.backward()
    assert float(ours) == pytest.approx(float(theirs), abs=1e-6)
    found = gradients(one)
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=0)
    assert max(gradient.abs().max() for gradient in expected.values()) > 1e-3


def test_group_advantages_equal_trls_formula():
    returns = torch.tensor(RETURNS, dtype=torch.float64)
    expected = (returns - returns.mean(1, keepdim=True)) / (returns.std(1, keepdim=True) + 1e-4)
    found = torch.stack([torch.from_numpy(group_advantages(row, "mean", "group")) for row in RETURNS])
    torch.testing.assert_close(found, expected)
