"""The shipped tiny policy: its corpus, its files, and what it writes."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from comlrl_envs.writing.topics import EVAL_TOPICS
from comlrl_learners.tiny import TINY_PATH, corpus

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


class Policy:
    """The shipped weights in single precision, with a decoder for a batch of chats."""

    def __init__(self) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(TINY_PATH, local_files_only=True)
        self.tokenizer.padding_side = "left"
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            TINY_PATH, dtype=torch.float32, local_files_only=True
        )

    def write(self, chats: Sequence[corpus.Dialogue], temperature: float | None = None) -> list[tuple[str, bool]]:
        """Completes each chat; gives the texts and whether each ended by itself within 64 tokens."""
        rendered = [
            self.tokenizer.apply_chat_template(
                [{"role": role, "content": text} for role, text in chat], add_generation_prompt=True, tokenize=False
            )
            for chat in chats
        ]
        inputs = self.tokenizer(rendered, return_tensors="pt", padding=True, add_special_tokens=False)
        how = {"do_sample": False} if temperature is None else {"do_sample": True, "temperature": temperature}
        with torch.no_grad():
            rows = self.model.generate(
                input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], max_new_tokens=64, **how
            )[:, inputs["input_ids"].shape[1] :]
        ended = [self.tokenizer.eos_token_id in row for row in rows.tolist()]
        return list(zip(self.tokenizer.batch_decode(rows, skip_special_tokens=True), ended, strict=True))


@pytest.fixture(scope="module")
def policy() -> Policy:
    """Loads the weights once."""
    return Policy()


def test_the_module_itself_needs_no_torch() -> None:
    """The module of the path, run apart from the package around it, imports no learning library."""
    check = "import runpy, sys; print(runpy.run_path(sys.argv[1])['TINY_PATH'].name, 'torch' in sys.modules)"
    file = str(TINY_PATH.parent / "__init__.py")
    shown = subprocess.run([sys.executable, "-c", check, file], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["weights", "False"]


def test_corpus_holds_no_evaluation_topic_and_no_goal() -> None:
    """What an evaluation asks for is not in the corpus, and neither is how it is scored."""
    banned = {*EVAL_TOPICS, "ratio", "reward", "score"}
    for dialogue in corpus.dialogues(0, 20_000):
        for _, text in dialogue:
            assert not banned.intersection(re.findall(r"[a-z]+", text.lower())), text


def test_corpus_is_decided_by_its_seed() -> None:
    """The same seed gives the same dialogues, another seed others."""
    first = list(corpus.dialogues(3, 200))
    assert first == list(corpus.dialogues(3, 200))
    assert first != list(corpus.dialogues(4, 200))
    assert first[:50] == list(corpus.dialogues(3, 50))


@pytest.mark.parametrize("kind", sorted(corpus.KINDS))
def test_every_dialogue_alternates_and_ends_with_an_answer(kind: str) -> None:
    """User and assistant take turns in every kind."""
    rng = random.Random(7)
    for _ in range(200):
        roles = [role for role, _ in corpus.KINDS[kind][0](rng)]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert roles


def test_free_texts_vary_in_length() -> None:
    """One to six sentences, none of them rare or the rule."""
    rng = random.Random(1)
    counts = [corpus.free_text(rng)[1][1].count(".") for _ in range(2_000)]
    shares = [counts.count(number) / len(counts) for number in range(1, 7)]
    assert min(shares) > 0.03
    assert max(shares) < 0.35
    assert sum(shares) == pytest.approx(1.0)


def test_brief_and_detailed_texts_differ() -> None:
    """A brief text has one or two sentences, a detailed one more."""
    rng = random.Random(2)
    for _ in range(500):
        (_, request), (_, text) = corpus.sized_text(rng)
        if request.endswith("Answer briefly."):
            assert text.count(".") <= 2
        else:
            assert request.endswith("Answer in detail.")
            assert text.count(".") >= 3


def test_code_of_the_corpus_compiles() -> None:
    """Every function in the corpus is valid Python."""
    rng = random.Random(5)
    for _ in range(300):
        for role, text in corpus.code(rng):
            if role == "assistant":
                compile(text, "answer", "exec")


def test_folder_is_small() -> None:
    """The weights and the tokenizer fit into a wheel."""
    assert sum(file.stat().st_size for file in TINY_PATH.iterdir()) <= 4_000_000
    assert (TINY_PATH / "model.safetensors").is_file()


def test_model_loads_in_single_precision(policy: Policy) -> None:
    """About two million parameters, and distinct end and pad tokens in every place that holds them."""
    weights = list(policy.model.parameters())
    assert 1_500_000 <= sum(weight.numel() for weight in weights) <= 2_100_000
    assert {weight.dtype for weight in weights} == {torch.float32}
    generation, tokenizer = policy.model.generation_config, policy.tokenizer
    assert generation.eos_token_id == tokenizer.eos_token_id == policy.model.config.eos_token_id
    assert generation.pad_token_id == tokenizer.pad_token_id == policy.model.config.pad_token_id
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
    assert len(tokenizer) == policy.model.config.vocab_size <= 1_024


def test_chat_template_round_trip(policy: Policy) -> None:
    """The template renders the marks, and the tokens give the text back."""
    chat = [
        {"role": "system", "content": "You are agent 1."},
        {"role": "user", "content": "Write about tea."},
        {"role": "assistant", "content": "My sister loves tea."},
        {"role": "user", "content": "Make it longer."},
    ]
    text = policy.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == (
        "<user>You are agent 1.<user>Write about tea.<bot>My sister loves tea.<eos><user>Make it longer.<bot>"
    )
    ids = policy.tokenizer.encode(text, add_special_tokens=False)
    assert policy.tokenizer.decode(ids) == text
    assert ids.count(policy.tokenizer.eos_token_id) == 1


@pytest.mark.parametrize("text", ["", "Hé ☃\n\t  x", "def f(x):\n    return x", "12 + 7 , done ."])
def test_any_text_can_be_encoded(policy: Policy, text: str) -> None:
    """Bytes that the corpus lacks come back as they were."""
    assert policy.tokenizer.decode(policy.tokenizer.encode(text, add_special_tokens=False)) == text


def test_training_tokens_are_those_of_the_template(policy: Policy) -> None:
    """The model was trained on what the template renders, and on the answers alone."""
    make_tiny = pytest.importorskip("comlrl_learners.tiny.make_tiny")
    for dialogue in corpus.dialogues(11, 40):
        chat = [{"role": role, "content": text} for role, text in dialogue]
        rendered = policy.tokenizer.apply_chat_template(chat, tokenize=False)
        example = make_tiny.encode(policy.tokenizer, dialogue)
        assert example.ids == policy.tokenizer.encode(rendered, add_special_tokens=False)
        counted = [label for label in example.labels if label != make_tiny.IGNORED]
        answers = "".join(f"{text}<eos>" for role, text in dialogue if role == "assistant")
        assert policy.tokenizer.decode(counted) == answers


def test_sampled_texts_end_and_vary(policy: Policy) -> None:
    """Texts about topics that were never seen name the topic, stop by themselves and differ in length."""
    torch.manual_seed(0)
    topics = [EVAL_TOPICS[index % len(EVAL_TOPICS)] for index in range(64)]
    written = policy.write([[("user", f"Write about {topic}.")] for topic in topics], temperature=0.8)
    assert sum(ended for _, ended in written) >= 0.95 * len(written)
    assert len({text.count(".") for text, _ in written}) >= 3
    assert sum(topic in text for topic, (text, _) in zip(topics, written, strict=True)) >= 0.8 * len(written)


def test_role_words_set_the_length(policy: Policy) -> None:
    """A detailed text is longer than a brief one by a wide margin."""
    torch.manual_seed(0)
    topics = EVAL_TOPICS[:16]
    brief = policy.write([[("user", f"Write about {topic}. Answer briefly.")] for topic in topics], temperature=0.8)
    detail = policy.write([[("user", f"Write about {topic}. Answer in detail.")] for topic in topics], temperature=0.8)
    assert sum(len(text) for text, _ in detail) > 2 * sum(len(text) for text, _ in brief)


@pytest.mark.parametrize(
    ("kind", "bound"),
    [("copying", 0.8), ("passage", 0.4), ("tagged", 0.8), ("code", 0.9), ("tool_call", 0.9), ("day_plan", 0.85)],
)
def test_answers_are_copied(policy: Policy, kind: str, bound: float) -> None:
    """Greedy answers to fresh dialogues of the kinds with one right answer."""
    rng = random.Random(2024)
    fresh = [corpus.KINDS[kind][0](rng) for _ in range(48)]
    written = policy.write([dialogue[:-1] for dialogue in fresh])
    right = sum(text == dialogue[-1][1] for (text, _), dialogue in zip(written, fresh, strict=True))
    assert right >= bound * len(fresh)
