import pickle

import pytest

from comlrl_envs import OptionError, RewardError, TaskError, TaskSet, from_reward

ROWS = [{"id": "one", "prompt": "First."}, {"id": "two", "prompt": "Second."}]


def same(first, second):
    return [float(a == b) for a, b in zip(first, second, strict=True)]


def test_defaults():
    env = from_reward(ROWS, same)
    observations, _ = env.reset(seed=0, options={"task": "one"})
    assert observations == {"agent_0": "First.", "agent_1": "First."}
    _, rewards, terminations, *_ = env.step({"agent_0": "x", "agent_1": "x"})
    assert rewards == {"agent_0": 1.0, "agent_1": 1.0} and all(terminations.values())
    assert env.game.term_names == ("reward", "clip")


def test_agents():
    assert from_reward(ROWS, lambda *c: [0.0], num_agents=3).possible_agents == ["agent_0", "agent_1", "agent_2"]
    assert from_reward(ROWS, same, agents=("w", "e")).possible_agents == ["w", "e"]
    for bad in ({"agents": "we"}, {"agents": ("w", "w")}, {"agents": ("w", "e"), "num_agents": 3}, {"num_agents": 0}):
        with pytest.raises(OptionError, match="agents"):
            from_reward(ROWS, same, **bad)


def test_formatters():
    def prompts(formatters):
        return from_reward(ROWS, same, formatters).reset(options={"task": 0})[0]

    assert prompts(lambda row: row["id"]) == {"agent_0": "one", "agent_1": "one"}
    assert prompts([lambda row: "A", lambda row: "B"]) == {"agent_0": "A", "agent_1": "B"}
    assert prompts({"agent_1": lambda row: "B", "agent_0": lambda row: "A"}) == {"agent_0": "A", "agent_1": "B"}
    for bad in ([str], {"agent_0": str, "agent_2": str}, ["A", "B"]):
        with pytest.raises(OptionError, match="formatters"):
            prompts(bad)
    with pytest.raises(TaskError, match="return a str"):
        prompts(lambda row: None)


def test_a_row_without_prompt_says_how_to_mend_it():
    with pytest.raises(TaskError, match="formatters="):
        from_reward([{"id": "x", "text": "t"}], same).reset()


def test_feedback_writes_whole_prompts_from_full_histories():
    calls = []

    def feedback(prompt, agent_completions, num_agents, prompt_history_per_agent, response_history_per_agent):
        calls.append((prompt, agent_completions, num_agents, prompt_history_per_agent, response_history_per_agent))
        return [f"next {len(calls)} {c}" for c in agent_completions]

    env = from_reward(ROWS, same, [lambda r: "A", lambda r: "B"], feedback, max_turns=3)
    env.reset(options={"task": 0})
    observations = env.step({"agent_0": "a1", "agent_1": "b1"})[0]
    assert observations == {"agent_0": "next 1 a1", "agent_1": "next 1 b1"}
    assert env.messages("agent_0") == [{"role": "user", "content": "next 1 a1"}]
    env.step({"agent_0": "a2", "agent_1": "b2"})
    env.step({"agent_0": "a3", "agent_1": "b3"})
    assert env.agents == []
    assert calls == [
        ("First.", ["a1", "b1"], 2, [["A"], ["B"]], [["a1"], ["b1"]]),
        ("First.", ["a2", "b2"], 2, [["A", "next 1 a1"], ["B", "next 1 b1"]], [["a1", "a2"], ["b1", "b2"]]),
    ]


def test_feedback_is_asked_only_for_episodes_that_go_on():
    calls = []

    def feedback(prompt, completions, num_agents):
        calls.append(completions)
        return completions

    env = from_reward(ROWS, same, feedback=feedback, max_turns=3, stop_reward=1.0)
    tasks = [env.tasks[0]] * 2
    episodes = env.game.start_many(tasks, [0, 0])
    moves = [{"agent_0": "x", "agent_1": "x"}, {"agent_0": "x", "agent_1": "y"}]
    stepped = env.game.step_many(list(zip(episodes, moves, strict=True)))
    assert [e.done for e in stepped] == [True, False] and calls == [["x", "y"]]


def test_feedback_problems():
    with pytest.raises(OptionError, match="feedback="):
        from_reward(ROWS, same, max_turns=2)
    env = from_reward(ROWS, same, feedback=lambda p, c, n: ["only one"], max_turns=2)
    env.reset(seed=0)
    with pytest.raises(OptionError, match="list of 2 prompts"):
        env.step({"agent_0": "x", "agent_1": "y"})


def test_one_reward_call_for_a_whole_level():
    calls = []

    def reward(first, second, batch_items, prompts):
        calls.append((first, second, [row["id"] for row in batch_items], prompts))
        return range(len(first))

    env = from_reward(ROWS, reward)
    tasks = [env.tasks[0], env.tasks[1], env.tasks[0]]
    episodes = env.game.start_many(tasks, [0, 0, 0])
    stepped = env.game.step_many([(e, {"agent_0": "x", "agent_1": "y"}) for e in episodes])
    assert calls == [(["x", "x"], ["y", "y"], ["one", "two"], ["First.", "Second."])]
    assert [e.reward for e in stepped] == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("result", [1.0, None, [], [1.0, 2.0], [float("nan")], [float("inf")], ["high"], [None]])
def test_bad_rewards_name_agents_turn_and_task(result):
    env = from_reward(ROWS, lambda a, b: result)
    env.reset(options={"task": "two"})
    with pytest.raises(RewardError) as caught:
        env.step({"agent_0": "x", "agent_1": "y"})
    assert all(word in str(caught.value) for word in ("agent_0", "turn 0", "two"))


def test_an_error_inside_the_reward_is_raised_as_it_is_after_one_call():
    calls = []

    def reward(first, second):
        calls.append(first)
        raise TypeError("my own mistake")

    env = from_reward(ROWS, reward)
    env.reset(seed=0)
    with pytest.raises(TypeError, match="my own mistake"):
        env.step({"agent_0": "x", "agent_1": "y"})
    assert len(calls) == 1


def test_range_clips():
    env = from_reward(ROWS, lambda a, b: [7.0], reward_range=(0.0, 1.0))
    env.reset(seed=0)
    _, rewards, *_, infos = env.step({"agent_0": "x", "agent_1": "y"})
    assert rewards["agent_0"] == 1.0 and infos["agent_0"]["term/clip"] == -6.0
    with pytest.raises(OptionError, match="reward_range"):
        from_reward(ROWS, same, reward_range=(1.0, 0.0))


def test_states_travel_and_envs_pickle():
    env = from_reward(TaskSet(ROWS), same)
    env.reset(seed=5)
    twin = pickle.loads(pickle.dumps(env))
    other = from_reward(ROWS, same)
    other.set_state(env.get_state())
    actions = {"agent_0": "x", "agent_1": "x"}
    assert twin.step(actions) == other.step(actions) == env.step(actions)
