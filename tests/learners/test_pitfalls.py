"""Settings, policies and environments that look right and are not: each is refused, or made right, before training."""

import dataclasses
import json
import threading

import pytest
import torch
from pettingzoo import ParallelEnv
from safetensors.torch import load_file, save_file

from comlrl_envs import from_reward, make
from comlrl_learners import (
    ConfigError,
    ForeignEnvError,
    LLMPolicy,
    MAGRPOConfig,
    MAGRPOTrainer,
    MAREINFORCEConfig,
    MARLOOConfig,
    PolicyError,
    SamplingParams,
)
from comlrl_learners.foreign import ForeignGame, SeedTask
from comlrl_learners.team import folder_name
from comlrl_learners.tracking import _new_folder

from .small import policy
from .small_policies import trainer, weights


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"baseline": None}, "baseline=None is none of none, mean"),
        ({"schedule": None}, "schedule=None"),
        ({"kl_coef": float("nan")}, "kl_coef=nan must be a finite number"),
        ({"reward_scale": float("inf")}, "reward_scale"),
        ({"max_steps": 1.5}, "max_steps=1.5 must be a whole number, or None"),
        ({"seed": 1.7}, "seed=1.7"),
        ({"num_generations": True}, "num_generations=True"),
        ({"agent_threads": "no"}, "agent_threads='no' must be True or False"),
        ({"learning_rate": "1e-3"}, "learning_rate='1e-3'"),
        ({"sampling": {"temperature": 1}}, "SamplingParams"),
        ({"eval_temperature": -1.0}, "eval_temperature=-1.0"),
        ({"adam_betas": (0.9, 1.0)}, "adam_betas"),
        ({"run_name": "a/../../b"}, "run_name"),
        ({"trackers": ("tensorboard",), "output_dir": None}, "output_dir"),
    ],
)
def test_values_of_another_kind_are_refused_by_name(settings, words):
    with pytest.raises(ConfigError, match=words):
        MAREINFORCEConfig(**{"num_generations": 4, **settings})


def test_another_algorithms_configuration_is_refused():
    with pytest.raises(ConfigError, match=r"MAGRPOTrainer was given a MARLOOConfig.*MAGRPOConfig"):
        MAGRPOTrainer(env="writing/length_ratio", policies="tiny", config=MARLOOConfig())


def test_a_loaded_policy_at_temperature_zero_is_refused():
    with pytest.raises(ConfigError, match="summarizer samples at temperature 0"):
        trainer(policies=policy(temperature=0.0))


def test_a_policy_without_sampling_takes_the_configurations():
    bare = policy()
    bare = LLMPolicy(bare.model, bare.tokenizer)
    one = trainer(policies=bare, sampling=SamplingParams(temperature=0.6, max_new_tokens=5))
    assert one.team["summarizer"].sampling == SamplingParams(temperature=0.6, max_new_tokens=5)
    assert bare.max_prompt_tokens == 256 - 5


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path):
    policy().save(tmp_path)
    file = tmp_path / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(file).items() if "layers.1.mlp" not in name}
    save_file(kept, file, metadata={"format": "pt"})
    with pytest.raises(PolicyError, match=r"lacks 3 weights \(model.layers.1.mlp"):
        LLMPolicy.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"garbage" * 20])
def test_a_broken_weight_file_is_told_so(tmp_path, content):
    policy().save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(PolicyError, match="causal language model"):
        LLMPolicy.load(tmp_path)


def test_the_same_weights_behind_two_policies_are_refused():
    one = policy()
    twin = LLMPolicy(one.model, one.tokenizer, dataclasses.replace(one.sampling, temperature=0.9))
    with pytest.raises(PolicyError, match="summarizer and elaborator hold the same weights"):
        trainer(policies=[one, twin])


def test_references_that_are_the_team_itself_are_copied():
    team = [policy(seed=1), policy(seed=2)]
    one = trainer(policies=team, references=list(team), kl_coef=0.1, max_steps=1)
    before = weights(one)
    one.train()
    assert all(p.requires_grad for member in team for p in member.model.parameters())
    assert not any(torch.equal(found, weights(one)[agent]) for agent, found in before.items())


def test_a_trainer_trains_once():
    one = trainer()
    one.train()
    with pytest.raises(ConfigError, match="called before"):
        one.train()


def test_torch_splits_no_sums_unless_asked_to():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        trainer(cpu_threads=None)
        assert torch.get_num_threads() == 2
        trainer()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_evaluation_beside_training_does_not_change_its_sampling():
    plain = trainer(max_steps=3, eval_every=0)
    plain.train()
    watched = trainer(max_steps=3, eval_every=0, eval_temperature=0.0)
    stop = threading.Event()
    watcher = threading.Thread(target=lambda: [watched.evaluate() for _ in iter(stop.is_set, True)])
    watcher.start()
    watched.train()
    stop.set()
    watcher.join()
    assert all(torch.equal(found, weights(plain)[agent]) for agent, found in weights(watched).items())


def test_an_eval_env_of_other_agents_is_refused():
    with pytest.raises(ConfigError, match=r"eval_env has the agents \('agent_0', 'agent_1'\)"):
        trainer(eval_env=from_reward([{"prompt": "a"}], lambda a, b: [0.0] * len(a)))


def test_control_tokens_in_a_content_stay_text():
    one = policy(chat=True)
    spelled = one.encode("bees<b>ok<eos><u>snow")
    framed = one.encode(
        [
            {"role": "user", "content": "bees"},
            {"role": "assistant", "content": "ok"},
            {"role": "user", "content": "snow"},
        ]
    )
    control = {0, 1, 2, 3}
    assert sum(i in control for i in framed.ids) == 5
    assert sum(i in control for i in spelled.ids) == 2
    assert one.tokenizer.decode([i for i in spelled.ids if i not in control]) == "bees<b>ok<eos><u>snow"


def test_lone_surrogates_in_rows_are_replaced_where_text_meets_tokens():
    for chat in (False, True):
        one = policy(chat=chat)
        assert one.encode("a\ud800b").ids == one.encode("a\ufffdb").ids


def test_a_token_that_the_model_does_not_embed_is_named():
    one = policy()
    one.tokenizer.add_tokens(["<new>"])
    with pytest.raises(PolicyError, match="token id 260, but the model embeds 260"):
        one.encode("a <new> b")


def test_ids_of_agents_are_safe_folder_names():
    names = ["../../x", ".", "..", "a/b", "a", "rôle 1", "a\0b"]
    quoted = [folder_name(name) for name in names]
    assert len(set(quoted)) == len(names)
    assert not any("/" in name or "\0" in name or set(name) <= {"."} for name in quoted)
    assert folder_name("summarizer") == "summarizer"


def test_two_runs_of_one_name_get_two_folders(tmp_path):
    made = []
    workers = [threading.Thread(target=lambda: made.append(_new_folder(tmp_path / "run"))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(path.name for path in made) == ["run", *(f"run-{i}" for i in range(2, 9))]


def test_an_output_dir_that_is_a_file_is_named(tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(ConfigError, match="taken"):
        trainer(output_dir=str(tmp_path / "taken")).train()


def test_a_column_as_a_parameter_of_a_reward_is_refused():
    with pytest.raises(ValueError, match=r"'word' is a column.*batch_items"):
        from_reward([{"prompt": "a", "word": "b"}], lambda first, second, word: [0.0])
    with pytest.raises(ValueError, match=r"needs the keyword 'weight'"):
        from_reward([{"prompt": "a"}], lambda first, second, *, weight: [0.0])


def test_a_reward_that_reads_prompts_is_asked_once_per_prompt():
    env = make(
        "writing/length_ratio", max_turns=2, reward=lambda a, b, prompts: [float(sum(map(ord, p))) for p in prompts]
    )
    game = env.game
    start = game.start_many([env.tasks[0]], [0])[0]
    seconds = game.step_many([(start, {"summarizer": t, "elaborator": "b"}) for t in ("aaaa", "zzzz")])
    same = {"summarizer": "s", "elaborator": "s"}
    together = [episode.reward for episode in game.step_many([(episode, same) for episode in seconds])]
    assert together == [game.step_many([(episode, same)])[0].reward for episode in seconds]
    assert together[0] != together[1]


def test_nothing_asks_for_another_try_once_an_episode_is_over():
    env = make("writing/length_ratio", render_mode="ansi")
    env.reset(seed=0)
    env.step({"summarizer": "a", "elaborator": "bb"})
    assert "Write your text again" not in env.render()


class Alternating(ParallelEnv):
    """Shows a text to the next mover alone."""

    def __init__(self, names=("a", "b")):
        self.possible_agents = list(names)
        self.agents = []

    def reset(self, seed=None, options=None):
        self.turn, self.agents = 0, self.possible_agents[:1]
        return {self.agents[0]: "go"}, {self.agents[0]: {}}

    def step(self, actions):
        assert list(actions) == self.agents
        mover = self.agents[0]
        self.turn += 1
        self.agents = [] if self.turn == 4 else [self.possible_agents[self.turn % 2]]
        over = {mover: self.turn == 4}
        return dict.fromkeys(self.agents, "go on"), {mover: 1.0}, over, {mover: False}, {mover: {}}


def test_a_stranger_that_shows_texts_to_the_next_mover_alone_is_played_to_its_end():
    game = ForeignGame(Alternating())
    episode = game.start_many([SeedTask("seed-0", 0)], [0])[0]
    movers = []
    while not episode.done:
        movers += game.acting(episode)
        episode = game.step_many([(episode, dict.fromkeys(game.acting(episode), "hi"))])[0]
    assert movers == ["a", "b", "a", "b"]


@pytest.mark.parametrize("names", [(1, 2), ("a", "a"), ("", "b")])
def test_a_strangers_agents_must_have_names(names):
    with pytest.raises(ForeignEnvError, match="Different, non-empty str ids"):
        ForeignGame(Alternating(names))


def test_transcripts_tell_repeated_samples_apart(tmp_path):
    one = trainer(output_dir=str(tmp_path), eval_samples=2)
    folder = one.train().folder
    rows = [json.loads(line) for line in (folder / "transcripts" / "eval-000000.jsonl").read_text().splitlines()]
    assert len({(row["task"], row["visit"], tuple(row["branch"])) for row in rows}) == len(rows)


def test_an_unknown_metric_of_a_curve_is_named():
    with pytest.raises(ConfigError, match=r"'train/rewad_mean'.*'train/reward_mean'"):
        trainer().train().curve("train/rewad_mean")


def test_configurations_of_defaults_are_valid():
    assert MAGRPOConfig().cpu_threads == 1
