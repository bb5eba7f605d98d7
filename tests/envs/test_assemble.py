import pytest

import comlrl_envs
from comlrl_envs import OptionError, TaskError, TaskSet
from comlrl_envs.assemble import BASE

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
