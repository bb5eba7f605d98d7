import pytest
import torch

from comlrl_learners.microbatches import padded_tokens, plan
from comlrl_learners.samples import Completion, Prompt

from .small import CONFIGS, policy


def ragged(one, lengths=(1, 5, 9, 3), ids=None):
    """Completions of the prompts' own tokens; two share a prompt."""
    prompts = [one.encode(text) for text in ("ab", "a longer prompt", "ab", "mid one")]
    generator = torch.Generator().manual_seed(3)
    rows = [torch.randint(4, 100, (n,), generator=generator).tolist() for n in lengths]
    rows = rows if ids is None else ids
    return [Completion(p, tuple(r), (0.0,) * len(r), "", True) for p, r in zip(prompts, rows, strict=True)]


def solo(one, completion):
    """Log-probs by a plain forward of one unpadded sequence."""
    ids = torch.tensor([[*completion.prompt.ids, *completion.ids]])
    logits = one.model(input_ids=ids).logits[0] / one.sampling.temperature
    start = len(completion.prompt.ids)
    return logits.log_softmax(-1)[start - 1 : -1].gather(-1, ids[0, start:, None])[:, 0]


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize(("double", "tolerance"), [(False, 1e-5), (True, 1e-6)])
def test_a_padded_batch_equals_solo_forwards(kind, double, tolerance):
    one = policy(kind, double=double)
    completions = ragged(one)
    found = one.logprobs(completions)
    for row, mask, completion in zip(found.logprobs, found.mask, completions, strict=True):
        assert mask.sum() == len(completion.ids)
        torch.testing.assert_close(row[: len(completion.ids)], solo(one, completion), atol=tolerance, rtol=0)


def test_logprobs_of_known_logits_have_closed_form():
    one = policy(double=True, temperature=0.5)
    with torch.no_grad():
        for parameter in one.model.parameters():
            parameter.zero_()
        one.model.model.embed_tokens.weight[:, 0] = 1.0
        one.model.model.norm.weight.fill_(1.0)
        one.model.lm_head.weight.zero_()
        one.model.lm_head.weight[7, 0] = 1.0
    # The normed hidden state has one place that is not 0, so token 7 has one logit and all others 0.
    size, epsilon = one.model.config.vocab_size, one.model.config.rms_norm_eps
    strong = torch.tensor(1 / 32 + epsilon, dtype=torch.float64).rsqrt() / 0.5
    normaliser = torch.log(strong.exp() + size - 1)
    found = one.logprobs(ragged(one, ids=[[7], [8, 7], [9], [7, 7, 8]])).logprobs.detach()
    for value, expected in ((found[0, 0], strong - normaliser), (found[1, 0], -normaliser)):
        assert float(value) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("pad", ["<pad>", "<eos>"])
def test_the_end_token_is_trained_and_padding_is_not(pad):
    one = policy(double=True, pad=pad)
    completions = ragged(one, ids=[[5, 1], [6, 1, 9, 1], [7, 8, 9, 10, 11, 12, 1], [1]])
    found = one.logprobs(completions)
    found.logprobs.retain_grad()
    (found.logprobs * found.mask).sum().backward()
    assert found.mask.sum() == 14
    assert one.model.lm_head.weight.grad[1].abs().sum() > 0
    short = completions[:1]
    one.model.zero_grad()
    one.logprobs(short).logprobs[0, 1].backward()
    assert one.model.lm_head.weight.grad[1].abs().sum() > 0
    alone = one.model.lm_head.weight.grad.clone()
    one.model.zero_grad()
    one.logprobs(completions).logprobs[0, 1].backward()
    torch.testing.assert_close(one.model.lm_head.weight.grad, alone, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", ["qwen2", "gpt2"])
def test_gradients_do_not_depend_on_how_a_batch_is_cut(kind):
    one = policy(kind)
    completions = ragged(one) * 2

    def gradient(parts):
        one.model.zero_grad()
        for part in parts:
            found = one.logprobs(part)
            (-(found.logprobs * found.mask).sum() / len(completions)).backward()
        return torch.cat([p.grad.flatten() for p in one.model.parameters() if p.grad is not None])

    whole = gradient([completions])
    for parts in ([[c] for c in completions], plan(completions, lambda c: c, 20)):
        torch.testing.assert_close(gradient(parts), whole, atol=1e-5, rtol=1e-4)


def test_entropy_is_that_of_the_distribution():
    one = policy(double=True, temperature=0.7)
    completion = ragged(one)[1]
    ids = torch.tensor([[*completion.prompt.ids, *completion.ids]])
    logits = one.model(input_ids=ids).logits[0, len(completion.prompt.ids) - 1 : -1] / 0.7
    expected = torch.distributions.Categorical(logits=logits).entropy()
    torch.testing.assert_close(one.logprobs([completion], entropy=True).entropy[0], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("budget", [1, 30, 64, 10_000])
def test_a_plan_holds_every_item_once_within_the_budget(budget):
    completions = ragged(policy()) * 3
    numbered = list(enumerate(completions))
    parts = plan(numbered, lambda item: item[1], budget)
    assert sorted(i for part in parts for i, _ in part) == list(range(12))
    assert all(len(part) == 1 or padded_tokens([c for _, c in part]) <= budget for part in parts)


def test_ids_and_logprobs_of_different_length_are_refused():
    with pytest.raises(ValueError, match="2 token ids, but 1"):
        Completion(Prompt((1,)), (1, 2), (0.0,), "", True)
