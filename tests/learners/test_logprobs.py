import math

import pytest
import torch

from comlrl_learners.logprobs import distinct
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


@pytest.mark.parametrize(("double", "tolerance"), [(False, 1e-5), (True, 1e-9)])
def test_ragged_logprobs_equal_plain_forwards_of_unpadded_sequences(
    make_policy, architecture, ragged, plain_logprobs, double, tolerance
):
    one = make_policy(architecture, double=double)
    with torch.no_grad():
        found = one.logprobs(ragged)
        assert found.logprobs.dtype == (torch.float64 if double else torch.float32)
        for row, mask, completion in zip(found.logprobs, found.mask, ragged, strict=True):
            count = len(completion.ids)
            assert mask.tolist() == [True] * count + [False] * (found.mask.shape[1] - count)
            torch.testing.assert_close(row[:count], plain_logprobs(one, completion), atol=tolerance, rtol=0)


@pytest.mark.parametrize("double", [False, True])
def test_a_batch_of_single_tokens_equals_plain_forwards(make_policy, architecture, ragged, plain_logprobs, double):
    one = make_policy(architecture, double=double)
    short = [completion for completion in ragged if len(completion.ids) == 1]
    found = one.logprobs(short).logprobs
    assert found.shape == (2, 1)
    for row, completion in zip(found, short, strict=True):
        torch.testing.assert_close(row, plain_logprobs(one, completion), atol=1e-9 if double else 1e-5, rtol=0)


@pytest.mark.parametrize("prompt_length", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("kind", ["gemma3", "mistral-window"])
def test_a_sliding_window_sees_the_same_past_behind_padding(make_policy, write, plain_logprobs, kind, prompt_length):
    one = make_policy(kind, double=True)
    completions = [write(range(10, 10 + prompt_length), range(30, 39)), write(range(50, 62), range(20, 22))]
    for row, completion in zip(one.logprobs(completions).logprobs, completions, strict=True):
        expected = plain_logprobs(one, completion)
        torch.testing.assert_close(row[: len(expected)], expected, atol=1e-9, rtol=0)
    before = one.logprobs([write([10, *range(60, 68)], [30, 31])]).logprobs
    after = one.logprobs([write([11, *range(60, 68)], [30, 31])]).logprobs
    assert kind == "gemma3" or (before - after).abs().max() < 1e-12


def test_a_head_of_known_logits_gives_their_log_softmax(make_policy, write):
    """GPT-NeoX with no weights but the last norm's bias: its hidden state, so its logits, are the same everywhere."""
    one = make_policy("gpt_neox", double=True)
    logits = torch.linspace(-2, 3, one.model.config.vocab_size, dtype=torch.float64)
    with torch.no_grad():
        for parameter in one.model.parameters():
            parameter.zero_()
        one.model.gpt_neox.final_layer_norm.bias[0] = 1.0
        one.model.get_output_embeddings().weight[:, 0] = logits
    expected = [value / 0.7 for value in logits.tolist()]
    normaliser = math.log(sum(math.exp(value) for value in expected))
    completions = [write([9], [5]), write([4, 1, 8], [1, 7, 200, 1]), write([9], [200, 0])]
    found = one.logprobs(completions, entropy=True)
    for row, completion in zip(found.logprobs.tolist(), completions, strict=True):
        closed = [expected[token] - normaliser for token in completion.ids]
        assert row[: len(closed)] == pytest.approx(closed, abs=1e-9)
    chances = [math.exp(value - normaliser) for value in expected]
    entropy = -sum(chance * math.log(chance) for chance in chances)
    assert found.entropy[found.mask].tolist() == pytest.approx([entropy] * 7, abs=1e-9)


def test_the_gradient_on_known_logits_is_one_minus_probability_at_every_token(make_policy, write):
    """d log p(token) / d bias-like head = (onehot - p) / T, summed over the tokens, the end token among them."""
    one = make_policy("gpt_neox", double=True)
    logits = torch.linspace(-2, 3, one.model.config.vocab_size, dtype=torch.float64)
    head = one.model.get_output_embeddings().weight
    with torch.no_grad():
        for parameter in one.model.parameters():
            parameter.zero_()
        one.model.gpt_neox.final_layer_norm.bias[0] = 1.0
        head[:, 0] = logits
    completions = [write([4, 1, 8], [7, 1]), write([9], [6, 1, 5, 1, 0])]
    found = one.logprobs(completions)
    torch.where(found.mask, found.logprobs, 0.0).sum().backward()
    expected = -7 * (logits / 0.7).softmax(-1)
    for token in (7, 1, 6, 1, 5, 1, 0):
        expected[token] += 1
    torch.testing.assert_close(head.grad[:, 0], expected / 0.7, atol=1e-9, rtol=0)


def gradient_of(one, completions, rows):
    """Gradient of the summed log-probs of some rows of a batch."""
    one.model.zero_grad()
    found = one.logprobs(completions)
    torch.where(found.mask, found.logprobs, 0.0)[rows].sum().backward()
    return torch.cat([p.grad.flatten() for p in one.model.parameters() if p.grad is not None])


def test_longer_rows_in_the_batch_change_no_gradient_of_the_others(make_policy, architecture, write):
    one = make_policy(architecture, double=True)
    short = [write([5, 6], [7, 1]), write([8, 1, 9], [1])]
    long = [*short, write(range(20, 35), range(40, 52)), write([5, 6], range(60, 70))]
    torch.testing.assert_close(gradient_of(one, long, [0, 1]), gradient_of(one, short, [0, 1]), atol=1e-8, rtol=0)


@pytest.mark.parametrize("pad", ["<pad>", "<eos>"])
def test_no_gradient_reaches_the_embedding_of_the_pad_token(make_policy, architecture, write, pad):
    tied = make_policy(architecture, pad=pad).model.get_output_embeddings().weight
    one = make_policy(architecture, double=True, pad=pad)
    embedding = one.model.get_input_embeddings()
    one.model.lm_head = torch.nn.Linear(*reversed(tied.shape), bias=False, dtype=torch.float64)
    gradient_of(one, [write([5, 6], [7]), write(range(20, 30), range(40, 50))], [0, 1])
    used = {5, 6, *range(20, 30), *range(40, 49)}
    touched = embedding.weight.grad.abs().sum(-1).nonzero()[:, 0].tolist()
    # Two layers of a window of 4 do not reach back to the first of ten tokens.
    assert set(touched) <= used and {6, 29, 48} <= set(touched)


def test_the_masked_sum_has_zero_gradient_at_every_pad_and_none_elsewhere(make_policy, ragged):
    found = make_policy().logprobs(ragged)
    found.logprobs.retain_grad()
    torch.where(found.mask, found.logprobs, 0.0).sum().backward()
    assert torch.equal(found.logprobs.grad != 0, found.mask)
    assert int(found.mask.sum()) == sum(len(completion.ids) for completion in ragged)


@pytest.mark.parametrize("eos_ids", [[1], [50, 1], [60, 50]])
def test_the_loss_reaches_the_end_token_of_every_kind(make_policy, write, eos_ids):
    one = make_policy(eos_ids=eos_ids, pad="<eos>", double=True)
    for end in eos_ids:
        completion = write([5, end, 6], [7, end])
        one.model.zero_grad()
        one.logprobs([completion]).logprobs[0, -1].backward()
        with_end = one.model.lm_head.weight.grad.clone()
        assert with_end[end].abs().max() > 1e-3
        beside = one.logprobs([completion, write([5], range(9, 19))]).logprobs[0, :2]
        torch.testing.assert_close(beside, one.logprobs([completion]).logprobs[0], atol=1e-9, rtol=0)


def test_pad_id_equal_to_the_end_id_changes_no_logprob(make_policy, write, plain_logprobs):
    completions = [write([1, 5, 1], [1, 7, 1, 1]), write([1], [1]), write([6, 1, 1, 8], [9, 1])]
    found = [make_policy(pad=pad).logprobs(completions) for pad in ("<pad>", "<eos>")]
    assert torch.equal(found[0].logprobs, found[1].logprobs) and torch.equal(found[0].mask, found[1].mask)
    assert found[0].mask.sum(-1).tolist() == [4, 1, 2]
    one = make_policy(pad="<eos>")
    for row, completion in zip(found[1].logprobs, completions, strict=True):
        torch.testing.assert_close(row[: len(completion.ids)], plain_logprobs(one, completion), atol=1e-5, rtol=0)


def test_min_new_tokens_takes_all_end_ids_out_of_the_first_places(make_policy, write):
    one = make_policy(eos_ids=[1, 50], min_new_tokens=2, double=True)
    completion = write([5, 6], [7, 8, 9])
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    logits = one.model(input_ids=ids).logits[0, 1:4] / 0.7
    logits[:2, [1, 50]] = float("-inf")
    expected = logits.log_softmax(-1).gather(-1, torch.tensor([[7], [8], [9]]))[:, 0]
    found = one.logprobs([completion], entropy=True)
    torch.testing.assert_close(found.logprobs[0], expected, atol=1e-6, rtol=0)
    found.entropy.sum().backward()
    assert torch.isfinite(found.entropy).all()
    assert all(torch.isfinite(p.grad).all() for p in one.model.parameters() if p.grad is not None)


def test_entropy_is_none_unless_asked_for(make_policy, ragged):
    assert make_policy().logprobs(ragged).entropy is None


def test_distinct_keeps_the_order_of_appearance():
    assert distinct([(3,), (1, 2), (3,), (2,), (1, 2)]) == ([(3,), (1, 2), (2,)], [0, 1, 0, 2, 1])


def test_a_model_wrapped_by_peft_gets_its_positions_behind_padding(
    make_policy, architecture, ragged, plain_logprobs, lora
):
    one = lora(make_policy(architecture))
    for row, completion in zip(one.logprobs(ragged).logprobs, ragged, strict=True):
        torch.testing.assert_close(row[: len(completion.ids)], plain_logprobs(one, completion), atol=1e-5, rtol=0)
