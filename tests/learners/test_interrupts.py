"""What a user's Ctrl-C, a bad reward or bad weights leave behind, in this process (see `test_cli` for a whole run)."""

import json
import math
import signal

import pytest
import torch

from comlrl_envs import from_reward, make
from comlrl_envs.errors import RewardError
from comlrl_learners import (
    LLMPolicy,
    MAGRPOConfig,
    MAGRPOTrainer,
    MAREINFORCEConfig,
    MAREINFORCETrainer,
    NonFiniteError,
)

from .small import policy

ROWS = [{"id": f"row-{i}", "prompt": text} for i, text in enumerate(("one", "two", "three", "four", "five"))]


def score(first, second):
    return [(sum(map(ord, one)) % 101) / 101 + (len(two) % 7) / 7 for one, two in zip(first, second, strict=True)]


def build(env, policies=None, **settings):
    given = {"output_dir": None, "num_generations": 3, "items_per_rollout": 2, "learning_rate": 1e-3, **settings}
    team = policies or [policy(seed=1), policy(seed=2)]
    return MAGRPOTrainer(env=env, policies=team, config=MAGRPOConfig(**given))


def weights(member):
    return torch.cat([p.detach().flatten().clone() for p in member.model.parameters()])


def interrupting(times):
    """A reward during which the user presses Ctrl-C so often."""

    def reward(first, second):
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return score(first, second)

    return from_reward(ROWS, reward)


def test_the_first_interrupt_lets_the_round_end_and_the_handler_comes_back():
    before = signal.getsignal(signal.SIGINT)
    trainer = build(interrupting(1))
    start = weights(trainer.team["agent_0"])
    result = trainer.train()
    assert (result.interrupted, result.rounds, len(result.rows)) == (True, 1, 1)
    assert not torch.equal(start, weights(trainer.team["agent_0"]))
    assert signal.getsignal(signal.SIGINT) is before


def test_the_second_interrupt_stops_at_once_and_still_saves(tmp_path):
    trainer = build(interrupting(2), output_dir=str(tmp_path), run_name="run")
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    for agent, member in trainer.team.items():
        saved = LLMPolicy.load(tmp_path / "run" / "checkpoints" / "final" / agent, member.sampling)
        assert torch.equal(weights(saved), weights(member))


def test_a_save_that_is_broken_off_leaves_nothing_called_final(tmp_path, monkeypatch):
    trainer = build(from_reward(ROWS, score), output_dir=str(tmp_path), run_name="run", max_steps=1)
    second = trainer.team["agent_1"]

    def broken_off(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(second, "save", broken_off)
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert not (tmp_path / "run" / "checkpoints" / "final").exists()
    assert all(json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())


def test_where_one_policy_fails_the_other_ends_its_step_before_the_team_is_saved(tmp_path):
    trainer = build(from_reward(ROWS, score), output_dir=str(tmp_path), run_name="run")
    failing, other = trainer.team.values()
    next(failing.model.parameters()).register_hook(lambda gradient: gradient * math.inf)
    before = weights(failing), weights(other)
    with pytest.raises(NonFiniteError, match="agent_0"):
        trainer.train()
    final = tmp_path / "run" / "checkpoints" / "final"
    assert torch.equal(weights(LLMPolicy.load(final / "agent_0", failing.sampling)), before[0])
    saved = weights(LLMPolicy.load(final / "agent_1", other.sampling))
    assert torch.equal(saved, weights(other))
    assert not torch.equal(saved, before[1])


def test_a_reward_that_is_no_number_names_task_turn_and_agents():
    trainer = build(from_reward(ROWS, lambda first, second: [math.nan for _ in first]))
    with pytest.raises(RewardError, match=r"Task 'row-\d', turn 0, agents .*'agent_0'.*nan"):
        trainer.train()


@pytest.mark.parametrize("place", ["lm_head", "embed_tokens"])
def test_weights_that_are_no_numbers_name_agent_turn_and_task(place):
    broken = policy(seed=2)
    with torch.no_grad():
        next(p for name, p in broken.model.named_parameters() if place in name).fill_(math.nan)
    trainer = build(from_reward(ROWS, score), [policy(seed=1), broken])
    before = weights(trainer.team["agent_0"])
    with pytest.raises(NonFiniteError, match=r"'agent_1' at turn 0 of task 'row-\d'.*float32"):
        trainer.train()
    assert torch.equal(before, weights(trainer.team["agent_0"]))


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_an_evaluation_of_such_weights_names_them_too(temperature):
    broken = policy(seed=2)
    with torch.no_grad():
        broken.model.model.embed_tokens.weight.fill_(math.nan)
    env = from_reward(ROWS, score)
    config = MAGRPOConfig(output_dir=None, eval_temperature=temperature)
    trainer = MAGRPOTrainer(env=env, policies=[policy(seed=1), broken], config=config, eval_env=env)
    with pytest.raises(NonFiniteError, match="'agent_1' at turn 0"):
        trainer.evaluate()
    assert broken.sampling.temperature == 0.7


@pytest.mark.parametrize("chat", [True, False])
def test_the_second_turn_shows_the_reply_closed_by_the_template_or_marked_as_text(chat):
    team = [policy(seed=1, chat=chat), policy(seed=2, chat=chat)]
    config = MAREINFORCEConfig(output_dir=None, num_generations=1, items_per_rollout=2, max_steps=1, eval_samples=1)
    tasks = [{"id": "bees", "prompt": "Write about bees."}]
    env = make("writing/length_ratio", max_turns=2, tasks=tasks)
    trainer = MAREINFORCETrainer(env=env, policies=team, config=config)
    batches, collect = [], trainer.algorithm.collect
    trainer.algorithm.collect = lambda visits: batches.append(collect(visits)) or batches[-1]
    trainer.train()
    (root,) = batches[0].roots
    (edge,) = root.edges
    reply = root.completions["summarizer"][0].text
    shown = team[0].tokenizer.decode(edge.child.completions["summarizer"][0].prompt.ids)
    assert shown.startswith("<u>Write about bees.<b>" if chat else "Write about bees.\n\n--- Your earlier reply ---\n")
    assert shown.endswith("proportion of lengths.<b>" if chat else "proportion of lengths.")
    assert (f"{reply}<eos><u>Write your text again" if chat else f"{reply}\n--- End of your reply ---") in shown


def test_prompts_of_the_second_turn_are_those_that_upstreams_feedback_wrote():
    def again(prompt, agent_completions, num_agents, prompt_history_per_agent, response_history_per_agent):
        assert num_agents == len(agent_completions) == 2
        assert [replies[-1] for replies in response_history_per_agent] == agent_completions
        return [f"{prompt}|{text[:4]}|{len(seen)}" for text, seen in zip(
            agent_completions, prompt_history_per_agent, strict=True)]  # fmt: skip

    writers = [lambda row: f"A {row['prompt']}", lambda row: f"B {row['prompt']}"]
    trainer = build(from_reward(ROWS, score, formatters=writers, feedback=again, max_turns=2), max_steps=1)
    batches, collect = [], trainer.algorithm.collect
    trainer.algorithm.collect = lambda visits: batches.append(collect(visits)) or batches[-1]
    before = [weights(member) for member in trainer.team.values()]
    assert trainer.train().env_steps == 2 * (3 + 9)
    assert all(not torch.equal(a, weights(m)) for a, m in zip(before, trainer.team.values(), strict=True))
    for root in batches[0].roots:
        prompt = root.visit.task.fields["prompt"]
        for agent, letter in (("agent_0", "A"), ("agent_1", "B")):
            decode = trainer.team[agent].tokenizer.decode
            assert decode(root.completions[agent][0].prompt.ids) == f"{letter} {prompt}"
            for edge in root.edges:
                reply = root.completions[agent][edge.index[0]].text
                shown = decode(edge.child.completions[agent][0].prompt.ids)
                assert shown == f"{prompt}|{reply[:4]}|1"


def test_cut_prompts_are_counted():
    short = policy(seed=1)
    short.max_prompt_tokens = 4
    row = build(from_reward(ROWS, score), [short, policy(seed=2)], items_per_rollout=5, max_steps=1).train().rows[0]
    assert row["train/agent_0/prompts_cut"] == pytest.approx(1 / 5)
    assert row["train/agent_1/prompts_cut"] == 0
    assert row["train/agent_0/prompt_tokens"] == pytest.approx((3 + 3 + 4 + 4 + 4) / 5)
