"""Fixtures of the learners' tests: a policy of any architecture, its plain forward, and ragged completions."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from transformers import AutoModelForCausalLM, GPTNeoXConfig

from comlrl_learners import LLMPolicy, SamplingParams
from comlrl_learners.samples import Completion, Prompt

from .small import COMMON, CONFIGS, tokenizer

ARCHITECTURES = {
    **CONFIGS,
    "gpt_neox": GPTNeoXConfig(
        **COMMON, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=256,
    ),
}  # fmt: skip


class WideNorm(nn.Module):
    """RMSNorm in the dtype of its input: those of transformers round to float32 on the way."""

    def __init__(self, weight, offset, epsilon):
        super().__init__()
        self.weight, self.offset, self.epsilon = weight, offset, epsilon

    def forward(self, hidden):
        return nn.functional.rms_norm(hidden, self.weight.shape, self.weight + self.offset, self.epsilon)


def widen(model):
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__.endswith("RMSNorm"):
                gemma = type(child).__name__.startswith("Gemma")
                epsilon = child.eps if gemma else child.variance_epsilon
                setattr(parent, name, WideNorm(child.weight, 1.0 if gemma else 0.0, epsilon))
    return model.double()


def build(config, seed=0, double=False):
    """A random model whose logits are far from flat, with biases and norms that are not trivial."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15)
            elif "bias" in name:
                parameter.normal_(0, 0.05)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return widen(model) if double else model.float()


@pytest.fixture(params=sorted(ARCHITECTURES))
def architecture(request):
    return request.param


@pytest.fixture
def make_policy():
    """A function: architecture or config, and options of the tokenizer and the sampling, to a policy."""

    def make(kind="qwen2", seed=0, *, double=False, chat=False, pad="<pad>", eos_ids=None, limit=None, **sampling):
        model = build(ARCHITECTURES[kind] if isinstance(kind, str) else kind, seed, double)
        if eos_ids is not None:
            model.generation_config.eos_token_id = eos_ids
        chosen = {"max_new_tokens": 12, "temperature": 0.7, **sampling}
        return LLMPolicy(model, tokenizer(chat, pad), SamplingParams(**chosen), limit)

    return make


@pytest.fixture
def save_policy(make_policy):
    """A function: folder and options of `make_policy`, to the folder that now holds model and tokenizer."""

    def save(folder, **options):
        one = make_policy(**options)
        one.save(folder)
        return str(folder), one

    return save


@pytest.fixture
def write():
    """A function: prompt ids and completion ids, to a completion."""
    return lambda prompt, ids: Completion(Prompt(tuple(prompt)), tuple(ids), (0.0,) * len(ids), "", True)


@pytest.fixture
def ragged(write):
    """Eight completions of lengths 1 to 9 over prompts of lengths 1 to 11, two of them shared."""
    generator = torch.Generator().manual_seed(5)
    prompts = [torch.randint(4, 100, (n,), generator=generator).tolist() for n in (1, 4, 11, 6)]
    rows = [(0, 1), (1, 5), (2, 9), (3, 1), (1, 3), (2, 2), (0, 7), (3, 4)]
    return [write(prompts[i], torch.randint(4, 100, (n,), generator=generator).tolist()) for i, n in rows]


@pytest.fixture
def plain_logprobs():
    """A function: the log-probs of one completion by a full forward of its unpadded sequence, without a cache."""

    def logprobs(one, completion, temperature=0.7):
        ids = torch.tensor([[*completion.prompt.ids, *completion.ids]])
        start = len(completion.prompt.ids)
        logits = one.model(input_ids=ids, use_cache=False).logits[0, start - 1 : -1]
        return (logits / temperature).log_softmax(-1).gather(-1, ids[0, start:, None])[:, 0]

    return logprobs


@pytest.fixture
def lora():
    """A function: a policy, to one whose model PEFT wraps with adapters that are not zero."""
    peft = pytest.importorskip("peft")

    def wrap(one):
        config = peft.LoraConfig(target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False, r=4)
        return LLMPolicy(peft.get_peft_model(one.model, config), one.tokenizer, one.sampling)

    return wrap
