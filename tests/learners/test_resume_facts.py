"""What must be as it was for a run to go on: who shares what, how policies read and write, pairs and rewards."""

import functools
import json
import os
import subprocess
import sys

import pytest
import torch

from comlrl_envs import from_reward, make
from comlrl_learners import ConfigError, IACTrainer, LLMPolicy, MAACTrainer, MADPOTrainer, MAGRPOTrainer, SamplingParams
from comlrl_learners.cli import main
from comlrl_learners.identity import described, described_policy

from .small import policy
from .small_policies import GAME, environment, held_out, trainer, weights

CHANGES = {
    "temperature": ({"temperature": 0.9}, r"sampling\.temperature was 1\.0 and is 0\.9"),
    "max_new_tokens": ({"max_new_tokens": 7}, r"sampling\.max_new_tokens was 8 and is 7"),
    "chat template": ({"chat": True}, r"chat_template was None and is"),
}


def member(seed, limit=None, **given):
    one = policy(seed=seed, **{"temperature": 1.0, "max_new_tokens": 8, **given})
    return one if limit is None else LLMPolicy(one.model, one.tokenizer, one.sampling, limit)


def made(folder, cls=MAGRPOTrainer, rounds=1, **given):
    settings = {"max_steps": rounds, "num_epochs": 9, "eval_every": 0, "run_name": "run", **given}
    return trainer(cls=cls, output_dir=str(folder), **settings)


def refused(run, words, cls=MAGRPOTrainer, **given):
    one = made(run.parent, cls, rounds=2, **given)
    before = weights(one)
    with pytest.raises(ConfigError, match=words) as caught:
        one.train(run)
    assert all(torch.equal(before[agent], now) for agent, now in weights(one).items())
    assert "Remove" not in str(caught.value)


def goes_on(run, cls=MAGRPOTrainer, **given):
    assert made(run.parent, cls, rounds=2, **given).train(run).rounds == 2


def test_separate_policies_do_not_become_one_shared_policy_nor_the_reverse(tmp_path):
    apart = made(tmp_path / "apart", policies=[member(1), member(2)]).train().folder
    refused(apart, r"team\.elaborator\.policy_of was 'elaborator' and is 'summarizer'", policies=member(1))
    shared = made(tmp_path / "shared", policies=member(1)).train().folder
    words = r"team\.elaborator\.policy_of was 'summarizer' and is 'elaborator'"
    refused(shared, words, policies=[member(1), member(2)])
    goes_on(shared, policies=member(3))


def test_critics_of_their_own_do_not_become_one_shared_critic(tmp_path):
    given = {"cls": IACTrainer, "use_separate_critic": True}
    apart = made(tmp_path / "apart", critics=[member(3), member(4)], **given).train().folder
    words = r"critics\.elaborator\.critic_of was 'elaborator' and is 'summarizer'"
    refused(apart, words, critics=member(3), **given)
    shared = made(tmp_path / "shared", critics=member(3), **given).train().folder
    refused(shared, r"critics\.elaborator\.critic_of was", critics=[member(3), member(4)], **given)
    goes_on(shared, critics=member(5), **given)


@pytest.mark.parametrize("kind", CHANGES)
def test_another_way_of_writing_is_refused_of_learners_and_of_frozen_partners(kind, tmp_path):
    change, words = CHANGES[kind]
    learning = made(tmp_path / "team", policies=[member(1), member(2)]).train().folder
    refused(learning, rf"team\.elaborator\.{words}", policies=[member(1), member(2, **change)])
    frozen = {"frozen": ("elaborator",)}
    beside = made(tmp_path / "partner", policies=[member(1), member(2)], **frozen).train().folder
    refused(beside, rf"team\.elaborator\.{words}", policies=[member(1), member(2, **change)], **frozen)
    goes_on(beside, policies=[member(1), member(2)], **frozen)


def test_another_prompt_limit_is_refused(tmp_path):
    run = made(tmp_path, policies=[member(1, limit=60), member(2)]).train().folder
    words = r"team\.summarizer\.max_prompt_tokens was 60 and is 50"
    refused(run, words, policies=[member(1, limit=50), member(2)])


def test_another_template_of_a_critic_is_refused(tmp_path):
    run = made(tmp_path, MAACTrainer, critics=member(3)).train().folder
    refused(run, r"critics\.summarizer\.chat_template was None and is", MAACTrainer, critics=member(3, chat=True))
    goes_on(run, MAACTrainer, critics=member(3))


def test_other_references_are_refused(tmp_path):
    run = made(tmp_path, references=[member(5), member(6)], kl_coef=0.1).train().folder
    refused(run, r"references\.weights was", references=[member(5), member(7)], kl_coef=0.1)
    refused(run, r"references\.policies\.elaborator\.policy_of was", references=member(5), kl_coef=0.1)
    goes_on(run, references=[member(5), member(6)], kl_coef=0.1)


def test_a_tokenizer_of_another_size_is_told_apart():
    one, other = member(1), member(1)
    other.tokenizer.add_tokens(["word"])
    differing = [key for key, value in described_policy(one).items() if value != described_policy(other)[key]]
    assert differing == ["vocabulary"]
    json.dumps(described_policy(one))


def test_pairs_that_were_edited_are_refused_and_the_same_ones_are_not(tmp_path):
    def write(better, worse):
        record = {"prompts": ["a", "b"], "winner_completions": [better] * 2, "loser_completions": [worse] * 2}
        (tmp_path / "pairs.json").write_text(json.dumps([record]))

    given = {"pairs_file": str(tmp_path / "pairs.json")}
    write("yes", "no")
    run = made(tmp_path, MADPOTrainer, **given).train().folder
    write("no", "yes")
    refused(run, "pairs was", MADPOTrainer, **given)
    write("yes", "no")
    goes_on(run, MADPOTrainer, **given)


def longer(sign=1.0, weight=1.0):
    """A reward function made anew at each call."""

    def reward(first, second):
        return [sign * weight * float(len(b) - len(a)) for a, b in zip(first, second, strict=True)]

    return reward


def negated(first, second):
    return [-float(len(b) - len(a)) for a, b in zip(first, second, strict=True)]


def plain(first, second):
    return [float(len(b) - len(a)) for a, b in zip(first, second, strict=True)]


ROWS = [{"id": f"row-{i}", "prompt": "word " * (i + 1)} for i in range(4)]


@pytest.mark.parametrize(
    "make_env", [lambda f: from_reward(ROWS, f), lambda f: make(GAME, split="train[:4]", reward=f)]
)
def test_a_function_made_anew_goes_on_and_another_one_does_not(make_env, tmp_path):
    def given(function):
        return {"env": make_env(function), "eval_env": make_env(function)}

    for name, first, same, others in (
        ("closure", longer(), longer(), [longer(-1.0), longer(1.0, 2.0), plain]),
        ("plain", plain, plain, [negated, longer()]),
        ("partial", functools.partial(plain), functools.partial(plain), [functools.partial(negated)]),
    ):
        run = made(tmp_path / name, **given(first)).train().folder
        for other in others:
            refused(run, r"env\.(options|callables)", **given(other))
        goes_on(run, **given(same))


def test_rules_of_a_game_without_an_id_are_compared(tmp_path):
    def again(prompt, agent_completions, num_agents, prompt_history_per_agent=(), response_history_per_agent=()):
        return [prompt] * num_agents

    def given(turns):
        env = from_reward(ROWS, plain, max_turns=turns, feedback=again)
        return {"env": env, "eval_env": env}

    run = made(tmp_path, **given(2)).train().folder
    refused(run, r"env\.rules\.max_turns was 2 and is 3", **given(3))
    goes_on(run, **given(2))


class Judge:
    """A reward that tells its settings."""

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, first, second):
        return [self.weight] * len(first)

    def settings(self):
        return {"weight": self.weight}


class Mute:
    """A reward that tells nothing."""

    def __call__(self, first, second):
        return [0.0] * len(first)


def test_objects_are_known_by_class_and_settings():
    name = f"{__name__}:Judge"
    assert described(Judge(2.0)) == {"object": name, "weight": 2.0} != described(Judge(3.0))
    assert described(Mute()) == {"object": f"{__name__}:Mute"} == described(Mute())
    assert described(Judge(2.0).__call__)["of"] == described(Judge(2.0))
    assert described(SamplingParams()) != described(SamplingParams(top_k=3))


def test_a_value_that_holds_itself_is_described_once():
    def again(first, second):
        return again(first, second)

    rows = [1]
    rows.append(rows)
    assert described(rows) == [1, "itself"]
    assert len(described(again)["sha256"]) == 64


@pytest.mark.slow
def test_what_describes_a_function_is_the_same_in_every_process(tmp_path):
    (tmp_path / "rewards.py").write_text(
        "def make(word):\n"
        "    def reward(first, second):\n"
        "        return [float(word in {'one', 'two', 'three', 'four'}) for _ in first]\n"
        "    return reward\n"
    )
    code = (
        "import json, rewards; from comlrl_learners.identity import described;"
        "print(json.dumps(described([rewards.make('one'), {'a', 'b', 'c'}])))"
    )
    told = set()
    for seed in ("1", "2"):
        variables = environment(PYTHONHASHSEED=seed)
        variables["PYTHONPATH"] = os.pathsep.join([str(tmp_path), variables["PYTHONPATH"]])
        told.add(subprocess.run([sys.executable, "-c", code], env=variables, text=True, capture_output=True).stdout)
    assert len(told) == 1 and "sha256" in told.pop()


def test_the_command_names_the_algorithm_of_the_run_first(tmp_path, save_policy, capsys):
    model, _ = save_policy(tmp_path / "model")
    run = made(tmp_path, IACTrainer, policies=model, env=GAME, eval_env=held_out()).train().folder
    assert main(["maac", "--resume", str(run)]) == 1
    told = capsys.readouterr().err
    assert "is a run of iac, and the command says maac" in told
    assert f"comlrl-train iac --resume {run}" in told and "unknown setting" not in told
    assert main(["iac", f"--resume={run}", "--max_steps", "2", "--progress", "false"]) == 0
