from dataclasses import dataclass

import pytest

import comlrl_envs
from comlrl_envs import OptionError, TaskError, TaskSet
from comlrl_envs.assemble import BASE, build_env
from tests.envs.toys import ROWS, TurnTaking

ID = "writing/length_ratio"


def test_every_base_keyword_is_accepted():
    settings = {
        "prompts": "{prompt}",
        "reward": "default",
        "feedback": "plain",
        "max_turns": 2,
        "tasks": [{"prompt": "x"}],
    }
    env = comlrl_envs.make(ID, **{**BASE, **settings})
    assert env.reset(seed=0)[0]["summarizer"] == "x" and env.game.max_turns == 2


def test_an_unknown_keyword_is_answered_with_the_closest_and_the_list():
    with pytest.raises(OptionError, match=r"Did you mean 'max_turns'.*target_min"):
        comlrl_envs.make(ID, max_turn=3)


def test_splits_and_slices():
    assert len(comlrl_envs.make(ID).tasks) == 60
    assert len(comlrl_envs.make(ID, split="eval").tasks) == 30
    assert [t.id for t in comlrl_envs.make(ID, split="train[1:3]").tasks] == ["rivers", "bread"]
    assert len(comlrl_envs.make(ID, split="eval[:10]").tasks) == 10
    with pytest.raises(OptionError, match="Did you mean 'eval'"):
        comlrl_envs.make(ID, split="evl")
    with pytest.raises(OptionError, match="demo"):
        comlrl_envs.make(ID, source="hub")


def test_a_slice_beyond_the_rows_is_told(caplog):
    assert len(comlrl_envs.make(ID, split="eval[:1000]").tasks) == 30
    assert "goes beyond the 30 rows there are (demo set)" in caplog.text
    caplog.clear()
    comlrl_envs.make(ID, split="eval[-30:30]")
    assert caplog.text == ""


def test_the_origin_of_the_tasks_is_kept():
    assert comlrl_envs.make(ID, split="train[:5]").tasks.origin == "demo set"
    rows = [{"prompt": "x"}]
    assert comlrl_envs.make(ID, tasks=rows).tasks.origin == "given rows"
    assert comlrl_envs.make(ID, tasks=TaskSet(rows, origin="a friend")).tasks.origin == "a friend"


def test_splits_share_no_text():
    train, test = ({t.fields["prompt"] for t in comlrl_envs.make(ID, split=s).tasks} for s in ("train", "eval"))
    assert len(train) == 60 and len(test) == 30 and not train & test


def test_own_tasks_are_checked(tmp_path):
    for tasks in ([{"text": "x"}], TaskSet([{"text": "x"}])):
        with pytest.raises(TaskError, match="prompt"):
            comlrl_envs.make(ID, tasks=tasks)
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "from a file"}\n')
    assert comlrl_envs.make(ID, tasks=str(path)).reset()[0]["elaborator"] == "from a file"


def test_own_reward_and_prompts():
    env = comlrl_envs.make(
        ID, reward=lambda a, b, prompts: [len(p) for p in prompts], prompts={"elaborator": "Long: {topic}"}, max_turns=2
    )
    observations, _ = env.reset(seed=0, options={"task": "bees"})
    assert observations == {"summarizer": "Write about bees.", "elaborator": "Long: bees"}
    _, rewards, *_, infos = env.step({"summarizer": "a", "elaborator": "b"})
    assert rewards["elaborator"] == len("Write about bees.") == infos["summarizer"]["term/reward"]
    assert infos["summarizer"]["metric/length_ratio"] == 1.0


@pytest.mark.parametrize("key", ["roles", "text_infos"])
def test_a_switch_takes_true_and_false_alone(key):
    for value in ("maybe", "", 1, None):
        with pytest.raises(OptionError, match=rf"{key}={value!r}; expected True or False"):
            comlrl_envs.make(ID, **{key: value})
    for value in (True, False):
        comlrl_envs.make(ID, **{key: value})


@dataclass(frozen=True)
class Typed(TurnTaking):
    """Its annotations are no texts, unlike those of a module that postpones them."""

    loud: bool = False
    volume: int = 0


def test_switches_of_a_scenario_are_found_by_its_types():
    def build(**kwargs):
        return build_env(Typed, lambda *_: ROWS, kwargs, name="toys/typed")

    assert build(loud=True, volume=1).game.scenario == Typed(loud=True, volume=1)
    with pytest.raises(OptionError, match="loud='no'; expected True or False"):
        build(loud="no")
    with pytest.raises(OptionError, match="text_infos=1"):
        build(text_infos=1)


@pytest.mark.parametrize("prompts", [3, 1.5, {"{prompt}"}])
def test_prompts_of_another_type_are_refused(prompts):
    with pytest.raises(OptionError, match=rf"prompts is a {type(prompts).__name__}; expected a template"):
        comlrl_envs.make(ID, prompts=prompts)


def test_prompts_that_name_no_agent_or_ask_for_one_are_explained():
    with pytest.raises(OptionError, match=r"prompts names 'topic'; the agents are .*takes quotes"):
        comlrl_envs.make(ID, prompts={"topic": "x"})
    with pytest.raises(OptionError, match=r"'summarizer', which is an agent.*mapping"):
        comlrl_envs.make(ID, prompts="{summarizer: Say {topic}}").reset(seed=0)
    with pytest.raises(TaskError, match=r"has no field 'tropic'.*Did you mean 'topic'"):
        comlrl_envs.make(ID, prompts="{tropic}").reset(seed=0)
