from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from envs.toys import ROWS, TurnTaking

from comlrl_envs import Task, TextGame, from_reward
from comlrl_learners import NonFiniteError
from comlrl_learners.rollout import RolloutPlan, Visit, joint_indices, rollout

from .small import policy
from .toy_models import toy_policy, toy_team


@pytest.fixture(scope="module")
def team():
    return {"asker": policy(seed=1), "answerer": policy(seed=2)}


def visits(count=2, number=0, seed=0, purpose="train"):
    return [Visit(Task(f"row{i}", ROWS[i]), number, seed, purpose) for i in range(count)]


def played(team, given, plan, executor=None, game=None):
    roots, stats = rollout(game or TextGame(TurnTaking(max_turns=3)), team, given, plan, executor)
    return [node for root in roots for node in root.subtree()], stats


def spread(first, second):
    return sum(map(ord, first + second)) % 101 / 101


def texts(nodes):
    return [[c.ids for c in group] for node in nodes for group in node.completions.values()]


def test_joint_actions_pair_or_combine_completions():
    assert joint_indices(2, RolloutPlan(3)) == [(0, 0), (1, 1), (2, 2)]
    assert joint_indices(2, RolloutPlan(2, "cross")) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert joint_indices(1, RolloutPlan(2, "cross")) == joint_indices(1, RolloutPlan(2)) == [(0,), (1,)]


def test_only_those_whose_turn_it_is_write(team):
    nodes, stats = played(team, visits(), RolloutPlan(2))
    assert {(node.episode.turn, node.acting) for node in nodes} == {
        (0, ("asker",)),
        (1, ("answerer",)),
        (2, ("asker",)),
    }
    assert all(set(node.completions) == set(node.acting) for node in nodes)
    assert stats.joint_actions == 2 * (2 + 4 + 8) == sum(len(node.edges) for node in nodes)
    assert stats.tokens == sum(map(len, (ids for group in texts(nodes) for ids in group)))


def test_a_branch_is_the_path_of_edge_numbers(team):
    nodes, _ = played(team, visits(1), RolloutPlan(2))
    assert [node.branch for node in nodes] == [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)]
    root = nodes[0]
    assert root.edges[1].child is nodes[2]
    assert nodes[2].episode.past[0][0].reply == root.completions["asker"][1].text


def test_the_first_of_many_completions_equal_the_first_of_few(team):
    few, _ = played(team, visits(1), RolloutPlan(2, max_turns=1))
    many, _ = played(team, visits(1), RolloutPlan(5, max_turns=1))
    assert texts(many)[0][:2] == texts(few)[0]


@pytest.mark.parametrize("other", [{"number": 1}, {"seed": 1}, {"purpose": "eval"}])
def test_visit_seed_and_purpose_decide_the_draws(team, other):
    plan = RolloutPlan(4, max_turns=1)
    base, _ = played(team, visits(), plan)
    same, _ = played(team, visits(), plan)
    changed, _ = played(team, visits(**other), plan)
    assert texts(base) == texts(same)
    assert all(a != b for a, b in zip(texts(base), texts(changed), strict=True))


def test_an_agents_draws_depend_on_its_name_not_on_who_shares_its_weights():
    one = policy(seed=1)
    plan = RolloutPlan(3, max_turns=2)
    shared, _ = played({"asker": one, "answerer": one}, visits(), plan)
    apart, _ = played({"asker": one, "answerer": policy(seed=1)}, visits(), plan)
    assert texts(shared) == texts(apart)


def test_threads_change_nothing(team):
    alone, _ = played(team, visits(), RolloutPlan(2))
    with ThreadPoolExecutor(2) as executor:
        side_by_side, _ = played(team, visits(), RolloutPlan(2), executor)
    assert texts(alone) == texts(side_by_side)


def test_a_bound_on_the_mean_reward_ends_only_the_nodes_above_it(team):
    game = TextGame(TurnTaking(max_turns=3)).with_reward(lambda asker, answerer: list(map(spread, asker, answerer)))
    everything, _ = played(team, visits(), RolloutPlan(2), game=game)
    means = sorted(sum(e.reward for e in node.edges) / 2 for node in everything if node.episode.turn < 2)
    bound = means[len(means) // 2]
    pruned, _ = played(team, visits(), RolloutPlan(2, prune_above=bound), game=game)
    assert 2 < len(pruned) < len(everything)
    for node in pruned:
        over = sum(edge.reward for edge in node.edges) / 2 > bound
        assert all((edge.child is None) == (over or node.episode.turn == 2) for edge in node.edges)


def test_nothing_to_visit_is_nothing(team):
    assert played(team, [], RolloutPlan(2))[0] == []


# Two agents that act together, with feedback between the turns.

ITEMS = ("a", "a longer prompt", "mid one")


def duo_reward(first, second):
    return [spread(one, two) for one, two in zip(first, second, strict=True)]


def duo_game(turns=2, reward=duo_reward):
    def feedback(prompt, agent_completions, num_agents, **histories):
        return [f"{prompt}: {text}" for text in agent_completions]

    rows = [{"id": name, "prompt": name} for name in ITEMS]
    return from_reward(rows, reward, feedback=feedback if turns > 1 else None, max_turns=turns)


def duo(env, plan, names=ITEMS, team=None, executor=None):
    """The roots of the named tasks' trees."""
    tasks = {env.tasks[i].id: env.tasks[i] for i in range(len(env.tasks))}
    members = dict(zip(("agent_0", "agent_1"), team or toy_team(), strict=True))
    visits = [Visit(tasks[name], 0, 0, "train") for name in names]
    return rollout(env.game, members, visits, plan, executor)[0]


def written(root):
    return {
        (node.branch, agent): [c.ids for c in group]
        for node in root.subtree()
        for agent, group in node.completions.items()
    }


@pytest.mark.parametrize("joint_mode", ["aligned", "cross"])
def test_a_task_is_played_alike_alone_and_among_others_in_any_order(joint_mode):
    env, plan = duo_game(), RolloutPlan(2, joint_mode)
    together = duo(env, plan)
    alone = duo(env, plan, ITEMS[2:])
    backwards = duo(env, plan, ITEMS[::-1])
    assert written(together[2]) == written(alone[0]) == written(backwards[0])
    assert written(together[0]) == written(backwards[2])
    rewards = [[edge.reward for node in root.subtree() for edge in node.edges] for root in (together[2], alone[0])]
    assert rewards[0] == rewards[1]


def test_agents_branches_turns_and_tasks_draw_unlike_each_other():
    """One policy and one prompt everywhere: only the keys of the draws differ."""
    rows = [{"id": name, "prompt": "same"} for name in ("x", "y")]
    env = from_reward(rows, duo_reward, feedback=lambda prompt, texts, *_, **__: [prompt] * 2, max_turns=2)
    visits = [Visit(env.tasks[i], 0, 0, "train") for i in range(2)]
    shared = toy_policy(1, min_new_tokens=6)
    roots, _ = rollout(env.game, {"agent_0": shared, "agent_1": shared}, visits, RolloutPlan(3))
    drawn = [ids for root in roots for group in written(root).values() for ids in group]
    assert len(drawn) == 2 * 2 * (3 + 9)
    assert len(set(drawn)) == len(drawn)


def test_each_joint_action_is_scored_on_the_texts_it_names():
    for joint_mode in ("aligned", "cross"):
        for root in duo(duo_game(), RolloutPlan(3, joint_mode)):
            for node in root.subtree():
                for edge in node.edges:
                    texts = [node.completions[f"agent_{a}"][k].text for a, k in enumerate(edge.index)]
                    assert edge.reward == spread(*texts) == edge.score.terms["reward"]


def test_the_next_turns_prompt_is_the_feedback_on_that_branch():
    (root,) = duo(duo_game(), RolloutPlan(2), ITEMS[:1])
    encode = toy_policy().encode
    for edge in root.edges:
        for agent, k in zip(root.acting, edge.index, strict=True):
            said = root.completions[agent][k].text
            assert {c.prompt for c in edge.child.completions[agent]} == {encode(f"a: {said}")}


@pytest.mark.parametrize(("joint_mode", "joint"), [("aligned", 3), ("cross", 9)])
def test_a_node_has_k_completions_per_agent_and_k_or_k_squared_joint_actions(joint_mode, joint):
    (root,) = duo(duo_game(), RolloutPlan(3, joint_mode), ITEMS[:1])
    nodes = list(root.subtree())
    assert len(nodes) == 1 + joint
    assert all(len(group) == 3 for node in nodes for group in node.completions.values())
    assert all(len(node.edges) == joint for node in nodes)


@pytest.mark.parametrize(("limit", "depth"), [(1, 1), (2, 2), (5, 3), (None, 3)])
def test_the_plan_may_end_an_episode_earlier_and_not_later_than_the_game(limit, depth):
    (root,) = duo(duo_game(3), RolloutPlan(2, max_turns=limit), ITEMS[:1])
    assert {node.episode.turn for node in root.subtree()} == set(range(depth))


def test_a_node_is_pruned_by_its_mean_and_only_above_the_bound():
    def reward(first, second, batch_items):
        return [{"a": 0.5, "a longer prompt": 0.75, "mid one": 0.25}[item["id"]] for item in batch_items]

    roots = duo(duo_game(reward=reward), RolloutPlan(2, prune_above=0.5))
    continued = [[edge.child is not None for edge in root.edges] for root in roots]
    assert continued == [[True, True], [False, False], [True, True]]


@pytest.mark.parametrize("shared", [False, True])
def test_weights_that_are_no_number_name_agent_turn_and_task(shared):
    team = [toy_policy(1)] * 2 if shared else toy_team()
    with torch.no_grad():
        next(team[1].model.parameters()).fill_(float("nan"))
    with pytest.raises(NonFiniteError, match=rf"'agent_{1 - shared}' at turn 0 of task 'mid one'"):
        duo(duo_game(), RolloutPlan(2), ITEMS[2:], team)


def test_a_failure_in_one_thread_comes_through_as_it_is():
    team = toy_team()
    with torch.no_grad():
        next(team[0].model.parameters()).fill_(float("nan"))
    with ThreadPoolExecutor(2) as executor, pytest.raises(NonFiniteError, match="'agent_0'"):
        duo(duo_game(), RolloutPlan(2), team=team, executor=executor)


def test_rollouts_leave_the_weights_and_the_global_generators_alone():
    team = toy_team()
    before = [parameter.clone() for member in team for parameter in member.model.parameters()]
    torch.manual_seed(3)
    state = torch.get_rng_state()
    duo(duo_game(), RolloutPlan(2), team=team)
    assert torch.equal(state, torch.get_rng_state())
    now = [parameter for member in team for parameter in member.model.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(before, now, strict=True))
    assert all(parameter.grad is None for parameter in now)
