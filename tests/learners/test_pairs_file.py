"""Pairs of joint replies as files: a run's own read back without loss, people's read for what they say."""

import hashlib
import json
import logging
import math
from pathlib import Path

import pytest
import torch
from envs.toys import TurnTaking
from transformers import AutoModelForCausalLM

from comlrl_envs import TaskSet, TextEnv, TextGame, from_reward
from comlrl_learners import ConfigError, LLMPolicy, MADPOConfig, MADPOTrainer, SamplingParams
from comlrl_learners.pairs_file import read_pairs
from comlrl_learners.rollout import Visit

from .small import CONFIGS, tokenizer
from .toy_models import flat_weights, toy_policy, toy_team

AGENTS = ("agent_0", "agent_1")
ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "two", "three", "four"))]
RECORD = {"prompts": ["one", "one"], "winner_completions": ["ab", "cd"], "loser_completions": ["x", "y"]}


def spread(first, second):
    return [(sum(map(ord, a)) % 101) / 101 + (sum(map(ord, b)) % 97) / 50 for a, b in zip(first, second, strict=True)]


def again(prompt, agent_completions, num_agents):
    return [f"{prompt} {text[:4]}" for text in agent_completions]


def chat_policy(seed, **sampling):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(CONFIGS["qwen2"])
    return LLMPolicy(model, tokenizer(chat=True), SamplingParams(**{"max_new_tokens": 6, **sampling}))


def trainer(turns=1, policies=None, rows=ROWS, env=None, **settings):
    env = env or from_reward(rows, spread, feedback=again if turns > 1 else None, max_turns=turns)
    given = {"output_dir": None, "num_generations": 4, "items_per_rollout": 4, "learning_rate": 1e-3, **settings}
    return MADPOTrainer(env=env, policies=policies or toy_team(), config=MADPOConfig(**given))


def talks():
    """Asker and answerer in turn; at the third turn the asker's chat holds its own first reply."""
    return TextEnv(TextGame(TurnTaking(max_turns=3)), TaskSet(ROWS), "toy/turns")


def collect(one):
    visits = [Visit(one.playground.tasks[i], 0, one.config.seed, "train") for i in range(len(one.playground.tasks))]
    return one.algorithm.collect(visits)


def team_of(policies=None):
    return dict(zip(AGENTS, policies or toy_team(), strict=True))


def write(tmp_path, *records):
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(list(records)), encoding="utf-8")
    return path


def tokens(pairs):
    """All that learning reads of some pairs."""
    return [
        (
            pair.task_id, pair.turn, dict(pair.prompts), pair.chosen_return, pair.rejected_return, pair.group_mean,
            [(a, c.prompt.ids, c.ids, c.text, c.finished) for h in (pair.chosen, pair.rejected) for a, c in h.items()],
        )
        for pair in pairs
    ]  # fmt: skip


def by_text(pairs):
    return sorted(json.dumps(found, default=list) for found in tokens(pairs))


def run_and_read(tmp_path, policies, **settings):
    """The pairs of a first round as they were, as they are read back, and where they lie."""
    expected = collect(trainer(policies=policies, **settings)).pairs
    one = trainer(
        policies=policies, output_dir=str(tmp_path), max_steps=1, eval_every=0, learning_rate=1e-9, **settings
    )
    path = one.train().folder / "preferences" / "round-000001.json"
    return expected, read_pairs(path, one.team), path


def test_a_runs_own_pairs_are_its_pairs(tmp_path):
    expected, given, _ = run_and_read(tmp_path, toy_team(), turns=2, num_generations=3)
    assert by_text(expected) == by_text(given.pairs)
    replies = [c for pair in given.pairs for half in (pair.chosen, pair.rejected) for c in half.values()]
    assert {pair.turn for pair in given.pairs} == {0, 1} and given.replies_cut == 0
    assert {reply.finished for reply in replies} == {False, True}


def test_a_chat_of_several_messages_is_read_back(tmp_path):
    policies = [chat_policy(1), chat_policy(2)]
    expected, given, _ = run_and_read(tmp_path, policies, env=talks(), num_generations=2)
    assert by_text(expected) == by_text(given.pairs)
    later = next(pair for pair in given.pairs if pair.turn == 2)
    ids = later.chosen["asker"].prompt.ids
    assert ids.count(2) == 2 and ids.count(3) == 2  # two messages of the game, a reply, and room for the next
    assert ids != policies[0].encode(later.prompts["asker"]).ids


@pytest.mark.parametrize("policies", [toy_team, lambda: [chat_policy(1), chat_policy(2)]])
def test_a_step_on_a_runs_own_file_is_the_runs_step(policies, tmp_path):
    sampled = trainer(policies=policies(), env=talks(), output_dir=str(tmp_path), max_steps=1, eval_every=0)
    path = sampled.train().folder / "preferences" / "round-000001.json"
    given = trainer(policies=policies(), env=talks(), pairs_file=str(path), max_steps=1, eval_every=0)
    start = {agent: flat_weights(policy) for agent, policy in given.team.items()}
    given.train()
    for agent, policy in sampled.team.items():
        assert torch.equal(flat_weights(policy), flat_weights(given.team[agent]))
        assert not torch.equal(flat_weights(policy), start[agent])


def test_the_documents_example_can_be_learnt_from(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "learners.md").read_text(encoding="utf-8")
    (example,) = [part.split("```")[0] for part in text.split("```json\n")[1:] if "winner_completions" in part]
    path = tmp_path / "pairs.json"
    path.write_text(example, encoding="utf-8")
    team = dict(zip(("summarizer", "expander"), [chat_policy(seed, max_new_tokens=64) for seed in (1, 2)], strict=True))
    first, second = read_pairs(path, team).pairs
    assert list(first.chosen) == ["summarizer", "expander"] and first.task_id == "0"
    assert (second.task_id, second.turn, list(second.chosen)) == ("rain", 1, ["expander"])
    assert all(reply.finished for pair in (first, second) for reply in pair.chosen.values())


def test_ids_of_an_edited_text_are_not_used(tmp_path):
    policies = [chat_policy(1), chat_policy(2)]
    _, given, path = run_and_read(tmp_path, policies, turns=2, num_generations=3)
    records = json.loads(path.read_text(encoding="utf-8"))["pairs"]
    records[0]["winner_completions"][0] = "new"
    records[0]["winner_finished"][0] = True
    records[0]["prompts"][1] = "another"
    (pair, *others) = read_pairs(write(tmp_path, *records), team_of(policies)).pairs
    body = policies[0].tokenizer("new")["input_ids"]
    assert pair.chosen["agent_0"].ids == (*body, policies[0].backbone.eos_ids[0])
    assert pair.chosen["agent_1"].ids == given.pairs[0].chosen["agent_1"].ids
    assert pair.chosen["agent_1"].prompt == policies[1].encode("another")
    assert tokens(others) == tokens(given.pairs[1:])


def test_ids_of_another_vocabulary_are_not_used(tmp_path):
    _, _, path = run_and_read(tmp_path, toy_team())
    others = [chat_policy(1, max_new_tokens=24), chat_policy(2, max_new_tokens=24)]
    records = json.loads(path.read_text(encoding="utf-8"))["pairs"]
    different = [r for r in records if r["winner_completions"] != r["loser_completions"]]
    for pair, record in zip(read_pairs(write(tmp_path, *different), team_of(others)).pairs, different, strict=True):
        for agent, text, finished in zip(AGENTS, record["winner_completions"], record["winner_finished"], strict=True):
            policy, reply = dict(zip(AGENTS, others, strict=True))[agent], pair.chosen[agent]
            ids = tuple(policy.tokenizer(text)["input_ids"])
            assert reply.prompt == policy.encode("one" if record["task"] == "row-0" else record["prompts"][0])
            assert reply.ids == ((*ids, 1) if finished else ids)


def test_replies_that_are_too_long_are_cut_without_an_end_and_counted(tmp_path, caplog):
    record = {**RECORD, "winner_completions": ["abcdefgh", "abcdef"], "loser_completions": ["abcde", ""]}
    team = team_of()
    with caplog.at_level(logging.WARNING):
        given = read_pairs(write(tmp_path, record), team)
    (pair,) = given.pairs
    letters = team["agent_0"].tokenizer.convert_tokens_to_ids(list("abcdef"))
    for agent in AGENTS:
        assert pair.chosen[agent].ids == tuple(letters) and not pair.chosen[agent].finished
        assert pair.chosen[agent].text == "abcdef"
    assert pair.rejected["agent_0"].ids == (*letters[:5], 1) and pair.rejected["agent_0"].finished
    assert given.replies_cut == 2 and "2 replies are longer" in caplog.text
    assert collect(trainer(pairs_file=str(write(tmp_path, record)))).metrics["replies_cut"] == 2


def test_a_reply_may_be_said_to_be_unfinished(tmp_path):
    record = {**RECORD, "winner_finished": [False, True]}
    (pair,) = read_pairs(write(tmp_path, record), team_of()).pairs
    assert pair.chosen["agent_0"].ids[-1] != 1 and pair.chosen["agent_1"].ids[-1] == 1


def test_control_tokens_that_a_reply_spells_are_text(tmp_path):
    policies = [chat_policy(1, max_new_tokens=24), chat_policy(2, max_new_tokens=24)]
    record = {**RECORD, "winner_completions": ["a<eos>b<u>", "cd"]}
    (pair,) = read_pairs(write(tmp_path, record), team_of(policies)).pairs
    reply = pair.chosen["agent_0"]
    assert reply.ids.count(1) == 1 and reply.ids[-1] == 1 and 2 not in reply.ids
    assert policies[0].tokenizer.decode(reply.ids[:-1]) == "a<eos>b<u>"


def test_lone_surrogates_in_a_reply_are_replaced_as_in_prompts(tmp_path):
    policies = [chat_policy(1), chat_policy(2)]
    record = {**RECORD, "prompts": ["a\ud800", "b"], "winner_completions": ["c\ud800", "cd"]}
    (pair,) = read_pairs(write(tmp_path, record), team_of(policies)).pairs
    assert policies[0].tokenizer.decode(pair.chosen["agent_0"].ids[:-1]) == "c\ufffd"
    assert pair.chosen["agent_0"].prompt == policies[0].encode("a\ufffd")


@pytest.mark.parametrize("turns", [1, 2])
def test_a_run_on_prompts_with_surrogates_writes_json_and_reads_it_back(turns, tmp_path):
    rows = [{"prompt": "a\ud800\u2028é"}, {"prompt": "b"}]
    one = trainer(
        turns, [chat_policy(1), chat_policy(2)], rows=rows, output_dir=str(tmp_path), max_steps=1, num_generations=3
    )
    folder = one.train().folder
    (path,) = (folder / "preferences").glob("round-*")
    text = path.read_text(encoding="utf-8")
    assert "\\ud800" in text and "é" in text
    assert any("\ud800" in prompt for record in json.loads(text)["pairs"] for prompt in record["prompts"])
    assert (folder / "preferences" / "drift.png").stat().st_size > 0
    assert len(read_pairs(path, one.team).pairs) == json.loads(text)["num_pairs"]


def test_records_that_cannot_be_written_leave_no_file(tmp_path):
    one = trainer(output_dir=str(tmp_path), max_steps=1)
    collect_ = one.algorithm.collect

    def spoilt(visits):
        batch = collect_(visits)
        batch.records["preferences"]["num_pairs"] = math.nan
        return batch

    one.algorithm.collect = spoilt
    with pytest.raises(ValueError, match="not JSON compliant"):
        one.train()
    (folder,) = tmp_path.iterdir()
    assert not (folder / "preferences").exists() and list(folder.glob("*.partial")) == []


@pytest.mark.parametrize(
    "spell",
    [
        lambda records: json.dumps(records),
        lambda records: json.dumps({"pairs": records, "note": "by hand"}, indent=2),
        lambda records: "\n".join(json.dumps(record) for record in records) + "\n\n",
        lambda records: "\r\n".join(json.dumps({"round": i, "pairs": [r]}) for i, r in enumerate(records)),
        lambda records: json.dumps(records[0], ensure_ascii=False) + "\n" + json.dumps(records[1:]),
    ],
)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_json_and_json_lines_are_read_with_or_without_a_byte_order_mark(spell, mark, tmp_path):
    records = [{**RECORD, "task": f"t{i}", "prompts": ["one\u2028two", "é"]} for i in range(3)]
    path = tmp_path / "pairs"
    path.write_bytes(mark + spell(records).encode("utf-8"))
    given = read_pairs(path, team_of())
    assert [pair.task_id for pair in given.pairs] == ["t0", "t1", "t2"]
    assert given.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert {pair.prompts["agent_0"] for pair in given.pairs} == {"one\u2028two"}


def test_pairs_of_nobody_who_learns_are_refused(tmp_path):
    record = {"agents": ["agent_1"], "prompts": ["one"], "winner_completions": ["a"], "loser_completions": ["b"]}
    with pytest.raises(ConfigError, match=r"Pair 0 is of \['agent_1'\], and none of them learns"):
        trainer(pairs_file=str(write(tmp_path, record)), frozen=("agent_1",))
    same = {**RECORD, "winner_completions": ["ab", "c"], "loser_completions": ["ab", "d"]}
    with pytest.raises(ConfigError, match=r"Pair 0 has the same winner and loser for \['agent_0'\]"):
        trainer(pairs_file=str(write(tmp_path, same)), frozen=("agent_1",))


def test_a_reply_that_ends_before_it_may_is_refused(tmp_path):
    path = write(tmp_path, RECORD)
    with pytest.raises(
        ConfigError, match="Pair 0 has a reply of agent_0 that ends after 2 tokens, and min_new_tokens=3"
    ):
        read_pairs(path, team_of(toy_team(min_new_tokens=3)))


@pytest.mark.parametrize(
    "content, words",
    [
        (b"[" * 100_000, "nested too deeply"),
        (b"", "cannot be read"),
        (b"\xff\xfe[\x00]\x00", "cannot be read"),
        (b"null", "holds no list of pairs"),
        (b'{"pairs": null}', "holds no list of pairs"),
        (b"{}", "Pair 0 needs 'prompts'"),
        (json.dumps(RECORD).encode() + b"\n{", "line 2"),
        (b'{\n"pairs": [}\n', "line 2 column"),
    ],
)
def test_a_file_that_holds_no_pairs_is_named(content, words, tmp_path):
    path = tmp_path / "pairs.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"pairs_file='.*pairs\.json'.*{words}"):
        read_pairs(path, team_of())


def test_the_content_of_the_file_is_a_fact(tmp_path):
    path = write(tmp_path, RECORD)
    assert trainer(pairs_file=str(path)).algorithm.facts() == {"pairs": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert trainer().algorithm.facts() == {"pairs": None}


def test_candidates_that_are_alike_to_who_learns_make_no_pair():
    one = trainer(joint_mode="cross", frozen=("agent_1",), pair_selection="all", pairs_per_node=None)
    pairs = collect(one).pairs
    assert pairs and all(pair.chosen["agent_0"].ids != pair.rejected["agent_0"].ids for pair in pairs)


def test_people_teach_a_team_two_turns(tmp_path):
    first = {"prompts": ["one", "one"], "winner_completions": ["aa", "bb"], "loser_completions": ["c", "d"]}
    second = {"prompts": ["one aa"], "agents": ["agent_0"], "winner_completions": ["ee"], "loser_completions": ["f"]}
    path = write(tmp_path, first, {**second, "turn": 1, "task": "one"})
    one = trainer(2, pairs_file=str(path), max_steps=8, learning_rate=1e-2)
    before = flat_weights(one.team["agent_1"])
    rows = [row for row in one.train().rows if "train/loss" in row]
    assert rows[-1]["train/accuracy"] == 1.0 and rows[-1]["train/loss"] < rows[0]["train/loss"]
    assert not torch.equal(before, flat_weights(one.team["agent_1"]))


@pytest.mark.parametrize(
    "sampling, settings, words",
    [
        ({"top_k": 3}, {"reference_free": False}, "The policy of agent_0 truncates the distribution"),
        ({"top_p": 0.9}, {"reference_free": False}, "The policy of agent_0 truncates the distribution"),
        ({"temperature": 0}, {"reference_free": False}, "The policy of agent_0 samples at temperature 0"),
        ({"temperature": 0}, {}, "The policy of agent_0 samples at temperature 0"),
    ],
)
def test_loaded_policies_are_held_to_what_the_settings_are(sampling, settings, words):
    with pytest.raises(ConfigError, match=words):
        trainer(policies=[toy_policy(1, **sampling), toy_policy(2)], **settings)
    trainer(policies=[toy_policy(2), toy_policy(1, **sampling)], frozen=("agent_1",), **settings)
