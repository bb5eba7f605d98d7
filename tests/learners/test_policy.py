import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import processors
from transformers import GPT2Config

from comlrl_learners import LLMPolicy, PolicyError, SamplingParams
from comlrl_learners.policy import Request, distinct_policies
from comlrl_learners.samples import Prompt

from .small import COMMON

EOS, USER, ASSISTANT = 1, 2, 3
TURNS = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "ok"},
    {"role": "user", "content": "go on"},
]


def encoded(one, text):
    return tuple(one.tokenizer(text, add_special_tokens=False)["input_ids"])


def test_text_goes_through_the_chat_template(make_policy):
    one = make_policy(chat=True)
    assert one.uses_chat
    assert one.encode("hi") == Prompt((USER, *encoded(one, "hi"), ASSISTANT))


def test_two_turns_go_through_the_chat_template_with_the_reply_closed(make_policy):
    one = make_policy(chat=True)
    expected = (USER, *encoded(one, "hi"), ASSISTANT, *encoded(one, "ok"), EOS, USER, *encoded(one, "go on"), ASSISTANT)
    assert one.encode(TURNS) == Prompt(expected)


def test_without_a_template_text_is_plain(make_policy):
    one = make_policy()
    assert not one.uses_chat
    assert one.encode("hi") == Prompt(encoded(one, "hi"))
    assert one.encode(TURNS) == Prompt(encoded(one, "hi\n\nok\n\ngo on"))


def begin_with_end_token(one):
    """Make the tokenizer put a special token before each text, as Llama's does."""
    backend = one.tokenizer.backend_tokenizer
    backend.post_processor = processors.TemplateProcessing(single="<eos> $A", special_tokens=[("<eos>", EOS)])


def test_a_beginning_token_of_the_template_is_not_doubled(make_policy):
    one = make_policy(chat=True)
    begin_with_end_token(one)
    one.tokenizer.chat_template = "<eos>" + one.tokenizer.chat_template
    assert one.encode("hi").ids == (EOS, USER, *encoded(one, "hi"), ASSISTANT)


def test_plain_text_gets_the_special_tokens_of_its_tokenizer(make_policy):
    one = make_policy()
    begin_with_end_token(one)
    assert one.encode("hi").ids == (EOS, *encoded(one, "hi"))


def test_an_empty_text_becomes_an_end_token(make_policy):
    assert make_policy().encode("") == Prompt((EOS,))


def test_messages_keep_fields_of_their_own_out_of_the_template(make_policy):
    one = make_policy(chat=True)
    assert one.encode([{**TURNS[0], "name": "x"}]) == one.encode("hi")


@pytest.mark.parametrize(("limit", "head", "tail"), [(10, 5, 5), (7, 4, 3), (2, 1, 1), (1, 1, 0)])
def test_a_long_prompt_keeps_half_the_room_at_each_end_and_counts_the_cut(make_policy, limit, head, tail):
    one = make_policy(limit=limit)
    text = "abcdefghijklmnopqrstuvwxyz"
    whole = encoded(one, text)
    assert one.encode(text) == Prompt(whole[:head] + whole[26 - tail :], cut=26 - limit)


def test_a_prompt_that_just_fits_is_not_cut(make_policy):
    one = make_policy(limit=5)
    assert one.encode("abcde") == Prompt(encoded(one, "abcde"), cut=0)


def test_a_cut_chat_keeps_the_frame_of_its_template(make_policy):
    prompt = make_policy(chat=True, limit=9).encode("x" * 50)
    assert (prompt.ids[0], prompt.ids[-1], len(prompt.ids), prompt.cut) == (USER, ASSISTANT, 9, 43)


def test_room_for_the_prompt_is_what_the_context_leaves(make_policy):
    short = GPT2Config(**COMMON, n_embd=16, n_layer=1, n_head=2, n_positions=20)
    one = make_policy(short, max_new_tokens=12, min_new_tokens=12)
    assert one.max_prompt_tokens == 8
    written = one.generate([Request(one.encode("x" * 100), 0)])[0]
    assert len(written.prompt.ids) + len(written.ids) == 20
    with pytest.raises(PolicyError, match=r"max_new_tokens=19 .* context of 20 tokens. Lower max_new_tokens"):
        make_policy(short, max_new_tokens=19)


def test_end_ids_of_the_generation_config_and_the_tokenizer_are_joined(make_policy):
    assert make_policy(eos_ids=[60, 50]).backbone.eos_ids == (60, 50, EOS)
    assert make_policy(eos_ids=60).backbone.eos_ids == (60, EOS)
    assert make_policy(eos_ids=EOS).backbone.eos_ids == (EOS,)


def test_a_model_without_an_end_token_is_refused(make_policy):
    one = make_policy()
    one.tokenizer.eos_token = None
    one.model.generation_config.eos_token_id = None
    with pytest.raises(PolicyError, match=r"no end-of-sequence id.*Set `eos_token_id`"):
        LLMPolicy(one.model, one.tokenizer)


def test_a_folder_without_a_tokenizer_names_the_mend(make_policy, tmp_path):
    make_policy().model.save_pretrained(tmp_path)
    with pytest.raises(PolicyError, match=r"holds no tokenizer.*AutoTokenizer.from_pretrained\(BASE_MODEL\)") as caught:
        LLMPolicy.load(tmp_path)
    assert f"save_pretrained({str(tmp_path)!r})" in str(caught.value)


def test_a_folder_without_weights_names_the_mend(make_policy, tmp_path):
    make_policy().tokenizer.save_pretrained(tmp_path)
    with pytest.raises(PolicyError, match=r"holds no causal language model.*folder written by save_pretrained"):
        LLMPolicy.load(tmp_path)


def test_a_missing_folder_names_the_mend(tmp_path):
    with pytest.raises(PolicyError, match="nowhere' does not exist"):
        LLMPolicy.load(tmp_path / "nowhere")


def test_a_half_precision_file_is_loaded_in_single_precision(save_policy, tmp_path):
    folder, one = save_policy(tmp_path)
    one.model.half().save_pretrained(folder)
    stored = load_file(tmp_path / "model.safetensors")
    assert {weight.dtype for weight in stored.values()} == {torch.float16}
    again = LLMPolicy.load(folder, one.sampling, device="cpu")
    assert {parameter.dtype for parameter in again.model.parameters()} == {torch.float32}
    assert {p.dtype for p in LLMPolicy.load(folder, one.sampling, dtype="auto", device="cpu").model.parameters()} == {
        torch.float16
    }


def test_a_half_precision_file_whose_config_names_no_dtype_is_loaded_in_single_precision(save_policy, tmp_path):
    folder, one = save_policy(tmp_path)
    file = tmp_path / "model.safetensors"
    save_file({name: weight.half() for name, weight in load_file(file).items()}, file, metadata={"format": "pt"})
    again = LLMPolicy.load(folder, one.sampling, device="cpu")
    assert {parameter.dtype for parameter in again.model.parameters()} == {torch.float32}
    torch.testing.assert_close(again.model.lm_head.weight, one.model.lm_head.weight.half().float())


@pytest.mark.parametrize("chat", [False, True])
def test_a_saved_policy_loads_with_equal_logprobs_and_prompts(save_policy, tmp_path, architecture, ragged, chat):
    folder, one = save_policy(tmp_path, kind=architecture, chat=chat, pad="<eos>", eos_ids=[1, 50])
    again = LLMPolicy.load(folder, one.sampling, device="cpu")
    assert torch.equal(again.logprobs(ragged).logprobs, one.logprobs(ragged).logprobs)
    assert again.encode(TURNS) == one.encode(TURNS)
    assert (again.uses_chat, again.backbone.eos_ids) == (chat, (1, 50))
    assert again.tokenizer.pad_token_id == again.tokenizer.eos_token_id
    assert again.max_prompt_tokens == one.max_prompt_tokens == 256 - 12


def test_loading_leaves_the_global_generator_alone(save_policy, tmp_path):
    folder, one = save_policy(tmp_path)
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one = LLMPolicy.load(folder, one.sampling, device="cpu")
    one.act(["a"], "x", np.random.default_rng(0))
    assert torch.equal(torch.get_rng_state(), before)


def test_act_returns_one_string_per_prompt_decided_by_the_generator_and_the_agent(make_policy):
    one = make_policy()
    prompts = ["a", "longer", "a"]
    first = one.act(prompts, "x", np.random.default_rng(4))
    assert len(first) == 3 and all(isinstance(text, str) for text in first)
    assert first == one.act(prompts, "x", np.random.default_rng(4))
    assert first != one.act(prompts, "x", np.random.default_rng(5))
    assert first != one.act(prompts, "y", np.random.default_rng(4))
    assert first[0] != first[2]


def test_act_on_nothing_is_nothing(make_policy):
    assert make_policy().act([], "x", np.random.default_rng(0)) == []


def test_no_requests_give_no_completions(make_policy):
    assert make_policy().generate([]) == []


def test_texts_are_the_decoded_ids_without_special_tokens(make_policy):
    one = make_policy(max_new_tokens=40)
    written = one.generate([Request(one.encode("a"), key) for key in range(6)])
    for completion in written:
        assert completion.text == one.tokenizer.decode([i for i in completion.ids if i > 3])


def test_generation_leaves_no_gradient_and_dropout_off(make_policy):
    one = make_policy("gpt2")
    one.generate([Request(one.encode("a"), 0)])
    assert not one.model.training
    assert all(parameter.grad is None for parameter in one.model.parameters())
    assert one.logprobs(one.generate([Request(one.encode("a"), 0)])).logprobs.requires_grad


def test_a_shared_policy_is_listed_once_with_its_agents(make_policy):
    first, second = make_policy(), make_policy(seed=1)
    team = {"a": first, "b": second, "c": first}
    assert distinct_policies(team) == [(first, ("a", "c")), (second, ("b",))]


def test_the_default_sampling_is_the_plain_distribution(make_policy):
    assert SamplingParams() == SamplingParams(1.0, 1.0, 0, 256, 0)
    one = make_policy()
    one.backbone.model.config.max_position_embeddings = 512
    assert LLMPolicy(one.model, one.tokenizer).sampling == SamplingParams()


@pytest.mark.parametrize("limit", [0, -3, 10_000])
def test_a_prompt_limit_outside_the_context_is_refused(make_policy, limit):
    one = make_policy()
    with pytest.raises(PolicyError, match=f"max_prompt_tokens={limit} must lie in"):
        LLMPolicy(one.model, one.tokenizer, one.sampling, max_prompt_tokens=limit)


@pytest.mark.parametrize(("given", "words"), [({"dtype": "floaty32"}, "float32"), ({"device": "cuda:99"}, "cpu"),
                                              ({"device": "toaster"}, "cpu")])  # fmt: skip
def test_an_unknown_dtype_or_device_is_named_with_what_works(given, words):
    with pytest.raises(PolicyError, match=f"{next(iter(given.values()))}.*{words}"):
        LLMPolicy.load("tiny", **given)
