import dataclasses

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import comlrl_learners.policy as policy_module
from comlrl_learners.generation.cache import growing_cache
from comlrl_learners.generation.fused import FusedDecoder, can_fuse
from comlrl_learners.policy import Request

from .small import CONFIGS, FUSED, LLAMA_LIKE, policy

TEXTS = ("a", "some words", "a", "three more words", "zz", "some words", "b", "longest of all prompts")


def requests(one):
    return [Request(one.encode(text), key) for key, text in enumerate(TEXTS)]


@pytest.mark.parametrize("kind", CONFIGS)
def test_eight_at_once_equal_one_at_a_time_in_any_order(kind, monkeypatch):
    one = policy(kind)
    given = requests(one)
    together = one.generate(given)
    alone = [one.generate([request])[0] for request in given]
    backwards = one.generate(given[::-1])[::-1]
    monkeypatch.setattr(policy_module, "GENERATION_TOKENS", 80)
    chunked = one.generate(given)
    for other in (alone, backwards, chunked):
        assert [c.ids for c in other] == [c.ids for c in together]


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("minimum", [0, 12])
def test_logprobs_at_sampling_equal_those_at_update(kind, minimum):
    one = policy(kind, min_new_tokens=minimum)
    written = one.generate(requests(one))
    assert minimum == 0 or all(len(c.ids) == 12 for c in written)
    found = one.logprobs(written)
    for row, completion in zip(found.logprobs, written, strict=True):
        assert torch.tensor(completion.logprobs) == pytest.approx(row[: len(completion.ids)].detach(), abs=1e-5)


def test_rows_that_end_leave_the_batch_and_change_nothing():
    one = policy()
    with torch.no_grad():
        one.model.lm_head.weight[1] *= 6
    written = one.generate(requests(one) * 4)
    assert len({len(c.ids) for c in written}) > 2
    assert all(c.ids[-1] == 1 and 1 not in c.ids[:-1] for c in written if c.finished)
    assert [c.ids for c in written[:8]] == [one.generate([request])[0].ids for request in requests(one)]


def test_every_end_id_ends_a_completion():
    one = policy()
    one.model.generation_config.eos_token_id = [1, 50]
    several = policy_module.LLMPolicy(one.model, one.tokenizer, one.sampling)
    assert several.backbone.eos_ids == (1, 50)
    with torch.no_grad():
        one.model.lm_head.weight[50] = one.model.lm_head.weight.abs().max() * 5
    ends = {c.ids[-1] for c in several.generate(requests(several)) if c.finished}
    assert 50 in ends


def test_an_end_token_inside_the_prompt_ends_nothing():
    one = policy(min_new_tokens=4, pad="<eos>")
    completion = one.generate([Request(one.encode("a<eos>b"), 0)])[0]
    assert 1 in completion.prompt.ids
    assert len(completion.ids) >= 4
    assert completion.text


def test_changed_weights_are_seen_by_the_next_decode():
    one = policy()
    before = one.generate(requests(one))
    with torch.no_grad():
        one.model.model.layers[0].self_attn.q_proj.weight.mul_(-3)
    after = one.generate(requests(one))
    assert before[0].ids != after[0].ids
    row = one.logprobs(after[:1]).logprobs[0]
    assert torch.tensor(after[0].logprobs) == pytest.approx(row.detach(), abs=1e-5)


@pytest.mark.parametrize("kind", FUSED)
def test_a_fused_step_equals_the_models_own(kind):
    one = policy(kind)
    assert can_fuse(one.model)
    with torch.inference_mode():
        results = []
        for advance in (one.backbone.forward, FusedDecoder(one.model).step):
            cache = growing_cache(2, 12)
            _, mask = one.backbone.read_prompts([[3, 4, 5], [6, 7, 8, 9, 10]], cache)
            mask = torch.nn.functional.pad(mask, (0, 4), value=1)
            positions = torch.tensor([[3], [5]])
            steps = [
                advance(torch.tensor([[11 + t], [20 + t]]), mask[:, : 6 + t], positions + t, cache) for t in range(4)
            ]
            results.append(torch.cat(steps, 1))
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-4)


def test_what_is_not_the_plain_layer_decodes_through_its_own_forward():
    for kind in set(CONFIGS) - set(FUSED):
        assert not can_fuse(policy(kind).model)
    for change in ({"attention_bias": True}, {"mlp_bias": True}, {"hidden_act": "gelu"}):
        assert not can_fuse(LlamaForCausalLM(LlamaConfig(**LLAMA_LIKE, **change)))
    peft = pytest.importorskip("peft")
    wrapped = peft.get_peft_model(policy().model, peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    assert not can_fuse(wrapped.get_base_model())


def test_the_growing_cache_equals_the_dynamic_one():
    torch.manual_seed(0)
    ours, theirs = growing_cache(1, 6), DynamicCache()
    for length in (3, 1, 2):
        keys, values = torch.randn(4, 2, length, 8), torch.randn(4, 2, length, 8)
        for one, other in zip(ours.update(keys, values, 0), theirs.update(keys, values, 0), strict=True):
            assert torch.equal(one, other)
        for cache in (ours, theirs):
            cache.batch_select_indices(torch.tensor([1, 0, 3, 3]))
    assert ours.get_seq_length() == theirs.get_seq_length() == 6


def test_a_lora_team_member_trains_and_decodes():
    peft = pytest.importorskip("peft")
    base = policy()
    model = peft.get_peft_model(base.model, peft.LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM"))
    one = policy_module.LLMPolicy(model, base.tokenizer, dataclasses.replace(base.sampling))
    written = one.generate(requests(one))
    one.logprobs(written).logprobs.sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters() if p.requires_grad)
