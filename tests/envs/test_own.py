"""Rows, prompts and rewards of the caller's own, on every id that ships."""

import itertools
import json

import pytest

import comlrl_envs
from comlrl_envs import OptionError, TaskError, TaskSet
from comlrl_envs.catalog import SHIPPED
from comlrl_envs.scenario import setting_names

IDS = [id for id, _ in SHIPPED]
every_id = pytest.mark.parametrize("id", IDS)


def demo(id):
    return comlrl_envs.make(id, source="demo")


def rows_of(id, count=6):
    """Rows of the demo set under ids of our own, as a file would hold them."""
    rows = [dict(task.fields) for task in demo(id).tasks[:count]]
    return json.loads(json.dumps([{**row, "id": f"own{i}"} for i, row in enumerate(rows)]))


def play(env, turns=1):
    observations, _ = env.reset(seed=0)
    for _ in range(turns):
        if env.agents:
            _, rewards, *_ = env.step({agent: f"A text by {agent}." for agent in env.agents})
    return observations, rewards


def test_every_shipped_id_is_listed():
    assert IDS and set(IDS) <= set(comlrl_envs.list_envs())


@every_id
@pytest.mark.parametrize("form", ["list", "dataset", "stream", "file", "function", "task_set"])
def test_own_tasks(id, form, tmp_path):
    rows = rows_of(id)
    if form in ("dataset", "stream"):
        datasets = pytest.importorskip("datasets")
        table = datasets.Dataset.from_list(rows)
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    given = {
        "list": lambda: rows,
        "dataset": lambda: table,
        "stream": lambda: table.to_iterable_dataset(),
        "file": lambda: str(path),
        "function": lambda: lambda: iter(rows),
        "task_set": lambda: TaskSet(rows, origin="mine"),
    }[form]()
    env = comlrl_envs.make(id, tasks=given, split="train[1:5]")
    assert [task.id for task in env.tasks] == ["own1", "own2", "own3", "own4"]
    assert env.tasks.origin == ("mine" if form == "task_set" else "given rows")
    listed = comlrl_envs.make(id, tasks=rows, split="train[1:5]")
    assert play(env) == play(listed)
    vector = comlrl_envs.make_vec(id, 2, tasks=given, split="train[1:5]")
    observations, _ = vector.reset(seed=0, options={"task": "own2"})
    assert observations[0] == listed.reset(seed=0, options={"task": "own2"})[0]


@every_id
def test_a_bad_row_of_your_own_is_named(id):
    with pytest.raises(TaskError, match="'mine'"):
        comlrl_envs.make(id, tasks=[{"id": "mine", "unheard_of": 1}])
    with pytest.raises(OptionError, match="tasks is a int"):
        comlrl_envs.make(id, tasks=3)
    with pytest.raises(OptionError, match="widen"):
        comlrl_envs.make(id, tasks=rows_of(id), split="train[90:]")


@every_id
@pytest.mark.parametrize("build", [comlrl_envs.make, lambda id, **kwargs: comlrl_envs.make_vec(id, 1, **kwargs)])
def test_own_prompts(id, build):
    rows = rows_of(id)
    field = next(name for name, value in rows[0].items() if isinstance(value, str) and name != "id")

    def first_prompts(prompts):
        observations, _ = build(id, tasks=rows, prompts=prompts).reset(seed=0, options={"task": "own0"})
        return observations[0] if isinstance(observations, list) else observations

    agents = demo(id).possible_agents
    said = f"Mine: {rows[0][field]}"
    template, function = f"Mine: {{{field}}}", lambda row: f"Mine: {row[field]}"
    own = first_prompts(None)
    for everyone in (template, function, [template] * len(agents), dict.fromkeys(agents, function)):
        assert all(text.startswith(said) for text in first_prompts(everyone).values())
    one = first_prompts({agents[0]: template})
    assert one[agents[0]].startswith(said) and {**own, agents[0]: one[agents[0]]} == one
    with pytest.raises(OptionError, match="the agents are"):
        first_prompts({"nobody": template})
    with pytest.raises(TaskError, match="has no field 'unheard_of'"):
        first_prompts("{unheard_of}")


def forms(count):
    """A reward of 0.25 a joint action in each form that it may take for ``count`` agents."""

    def each(*completions):
        assert len(completions) == count
        return [0.25] * len(completions[0])

    def with_rows(*completions, batch_items, prompts):
        assert len(batch_items) == len(prompts) == len(completions[0]) and batch_items[0]["id"].startswith("own")
        return [0.25] * len(prompts)

    def prompts_first(prompts, *completions):
        return [0.25] * len(prompts)

    def lists(completions):
        return [0.25] * len(completions[0])

    return [each, with_rows, prompts_first, *([lists] if count > 1 else [])]


@every_id
def test_own_rewards(id):
    rows = rows_of(id)
    count = len(demo(id).possible_agents)
    for reward in forms(count):
        env = comlrl_envs.make(id, tasks=rows, reward=reward)
        assert play(env)[1] == dict.fromkeys(env.possible_agents, 0.25), reward.__name__
        vector = comlrl_envs.make_vec(id, 3, tasks=rows, reward=reward)
        vector.reset(seed=0)
        _, rewards, *_ = vector.step([dict.fromkeys(live, "A text.") for live in vector.agents])
        assert [set(one.values()) for one in rewards] == [{0.25}] * 3
    with pytest.raises(OptionError, match="positional parameters"):
        comlrl_envs.make(id, source="demo", reward=eval("lambda " + ", ".join("abcdefgh"[: count + 2]) + ": 0"))


@every_id
def test_presets(id):
    scenario = type(demo(id).game.scenario)
    for name in scenario.presets if "reward" in setting_names(scenario) else ("default",):
        env = comlrl_envs.make(id, source="demo", reward=name)
        low, high = env.game.reward_range
        assert all(low <= reward <= high for reward in play(env)[1].values())
    with pytest.raises(OptionError, match="unheard_of"):
        comlrl_envs.make(id, source="demo", reward="unheard_of")


@every_id
def test_twenty_steps_and_an_evaluation_over_the_head_of_an_endless_stream(id):
    rows = rows_of(id)

    def endless():
        return ({**rows[i % len(rows)], "id": f"own{i}"} for i in itertools.count())

    tasks = TaskSet(endless, window=12)
    vector = comlrl_envs.make_vec(id, 4, tasks=tasks)
    seen = set()
    for step in range(20):
        vector.reset(seed=4 * step)
        vector.step([dict.fromkeys(live, "A text.") for live in vector.agents])
        seen |= {env.episode.task_id for env in vector.envs}
    assert len(seen) > 6 and seen <= {f"own{i}" for i in range(12)}
    env = comlrl_envs.make(id, tasks=tasks)
    for place in range(len(env.tasks)):
        env.reset(seed=0, options={"task": place})
        while env.agents:
            env.step(dict.fromkeys(env.agents, "A text."))
    head = [task.id for task in itertools.islice(env.tasks.stream(), 30)]
    assert head == [f"own{i}" for i in range(30)]
