import copy

import pytest
import torch

from comlrl_envs import register
from comlrl_envs.errors import RewardError
from comlrl_learners import ConfigError, ForeignEnvError, MAGRPOConfig, MAGRPOTrainer
from comlrl_learners.algorithms.mareinforce import MAREINFORCEConfig, MAREINFORCETrainer
from comlrl_learners.evaluation import EvaluationPlan, evaluate_team
from comlrl_learners.foreign import EVAL_SEEDS, ForeignGame, SeedTask
from comlrl_learners.rollout import RolloutPlan, Visit, rollout

from .small import policy
from .strangers import Locked, Numbers, Relay, Streaming, Uneven


def settings(**given):
    return {"output_dir": None, "num_epochs": 1, "tasks_per_epoch": 4, "items_per_rollout": 2, "eval_samples": 1,
            "learning_rate": 1e-3, **given}  # fmt: skip


def train(env, cls=MAGRPOTrainer, config=MAGRPOConfig, **given):
    team = [policy(seed=1), policy(seed=2)]
    trainer = cls(env=env, policies=team, config=config(**settings(**given)))
    return trainer, trainer.train()


def weights(trainer):
    return {
        agent: torch.cat([p.detach().flatten() for p in member.model.parameters()])
        for agent, member in trainer.team.items()
    }


def rewards(result):
    return [row["train/reward_mean"] for row in result.rows if "train/reward_mean" in row]


def test_a_stranger_trains_for_two_rounds():
    before = {"host": policy(seed=1), "guest": policy(seed=2)}
    trainer, result = train(Relay(), num_generations=2, max_turns=2)
    assert (result.rounds, result.env_steps) == (2, 2 * 2 * (2 + 4))
    for agent, now in weights(trainer).items():
        start = torch.cat([p.detach().flatten() for p in before[agent].model.parameters()])
        assert not torch.equal(now, start)


def test_every_reward_of_a_tree_equals_a_play_from_the_start():
    team = {"host": policy(seed=1), "guest": policy(seed=2)}
    task = SeedTask("seed-5", 5)
    (root,), _ = rollout(ForeignGame(Relay()), team, [Visit(task, 0, 0, "train")], RolloutPlan(2))
    found = 0

    def walk(node, path):
        nonlocal found
        for edge in node.edges:
            actions = {a: node.completions[a][k].text for a, k in zip(node.acting, edge.index, strict=True)}
            env = Relay()
            env.reset(seed=5)
            for earlier in path:
                env.step(earlier)
            observations, expected, *_ = env.step(actions)
            assert edge.reward == next(iter(expected.values()))
            found += 1
            if edge.child is not None:
                shown = {a: observations[a] for a in edge.child.acting}
                assert dict(edge.child.episode.observations) == shown
                walk(edge.child, [*path, actions])

    walk(root, [])
    assert found == 2 + 4 + 8


def test_agents_that_left_write_no_more():
    team = {"host": policy(seed=1), "guest": policy(seed=2)}
    (root,), _ = rollout(ForeignGame(Relay()), team, [Visit(SeedTask("seed-5", 5), 0, 0, "train")], RolloutPlan(2))
    by_turn = {}
    for node in root.subtree():
        by_turn.setdefault(node.episode.turn, set()).add(node.acting)
        assert set(node.completions) == set(node.acting)
    assert by_turn == {0: {("host", "guest")}, 1: {("host", "guest")}, 2: {("host",)}}


@pytest.mark.parametrize(("env", "part"), [(Locked, "guard"), (Streaming, "stream")])
def test_what_cannot_be_copied_is_named_where_it_must_be(env, part):
    with pytest.raises(ForeignEnvError, match=rf"{env.__name__} cannot be copied.*'{part}'.*num_generations=1"):
        train(env(), num_generations=2)


@pytest.mark.parametrize(
    ("cls", "config", "given"),
    [(MAREINFORCETrainer, MAREINFORCEConfig, {"num_generations": 1}),
     (MAGRPOTrainer, MAGRPOConfig, {"num_generations": 2, "max_turns": 1})],
)  # fmt: skip
def test_elsewhere_it_is_warned_of_and_the_results_are_right(cls, config, given, caplog):
    _, copied = train(Relay(), cls, config, **given)
    assert not caplog.records
    locked, replayed = train(Locked(), cls, config, **given)
    assert "'guard'" in caplog.text
    assert rewards(replayed) == rewards(copied)
    assert replayed.curve() == copied.curve()
    plain, _ = train(Relay(), cls, config, **given)
    for agent, found in weights(locked).items():
        assert torch.equal(found, weights(plain)[agent])


def test_an_observation_that_is_no_text_is_named():
    with pytest.raises(ForeignEnvError, match=r"Numbers gives 'host' an observation of type int"):
        train(Numbers())


def test_unequal_rewards_are_refused_averaged_or_summed():
    with pytest.raises(ForeignEnvError, match='team_reward="mean" or "sum"'):
        train(Uneven(), num_generations=2, max_turns=1)
    _, equal = train(Relay(), num_generations=2, max_turns=1, num_epochs=1, max_steps=1)
    _, mean = train(Uneven(), num_generations=2, max_turns=1, max_steps=1, team_reward="mean")
    _, total = train(Uneven(), num_generations=2, max_turns=1, max_steps=1, team_reward="sum")
    assert rewards(mean)[0] == pytest.approx(rewards(equal)[0] + 0.5)
    assert rewards(total)[0] == pytest.approx(2 * rewards(equal)[0] + 1)


def test_a_reward_that_is_no_number_is_named():
    class Broken(Relay):
        uneven = float("nan")

    with pytest.raises(RewardError, match=r"Broken gave the rewards .* at turn 0 of seed-"):
        train(Broken(), num_generations=2, max_turns=1)


def test_seeds_of_training_and_evaluation_are_disjoint():
    seen = []

    class Watched(Relay):
        def reset(self, seed=None, options=None):
            seen.append(seed)
            return super().reset(seed, options)

        def __deepcopy__(self, memo):
            twin = Watched()
            twin.__dict__.update({name: copy.deepcopy(value, memo) for name, value in vars(self).items()})
            return twin

    trainer, _ = train(Watched, num_generations=2, max_turns=1)
    tasks, held_out = trainer.playground.tasks, trainer.held_out.tasks
    training = {tasks[i].seed for i in range(len(tasks))}
    evaluation = {held_out[i].seed for i in range(len(held_out))}
    assert (len(training), len(evaluation)) == (4, 32)
    assert max(training) < EVAL_SEEDS <= min(evaluation)
    assert training | evaluation | {0} == set(seen)
    assert len({tasks[i].id for i in range(4)} | {held_out[i].id for i in range(32)}) == 36


def test_what_is_no_environment_is_named():
    with pytest.raises(ConfigError, match=r"gives a int.*writing/length_ratio"):
        MAGRPOTrainer(env=3, policies=policy(), config=MAGRPOConfig(output_dir=None))


def test_branches_of_one_episode_go_on_from_equal_states_and_leave_it_as_it_was():
    game = ForeignGame(Relay())
    (start,) = game.start_many([SeedTask("seed-5", 5)], [0])
    (middle,) = game.step_many([(start, {"host": "x", "guest": "y"})])
    moves = [{"host": text, "guest": "b"} for text in ("a", "a", "c", "a")]
    found = [outcome.reward for outcome in game.step_many([(middle, move) for move in moves])]
    assert found[0] == found[1] == found[3] != found[2]
    assert game.step_many([(middle, moves[0])])[0].reward == found[0]
    assert (middle.turn, middle.env.turn, start.env.turn) == (1, 1, 0)


def test_the_users_own_environment_is_never_stepped():
    mine = Relay()
    train(mine, num_generations=2, max_turns=2)
    assert (mine.turn, mine.agents) == (0, ["host", "guest"])


@pytest.mark.parametrize("turns", [1, 2, None])
def test_max_turns_or_the_environments_own_end_ends_an_episode(turns):
    _, result = train(Relay(), MAREINFORCETrainer, MAREINFORCEConfig, num_generations=1, max_turns=turns, max_steps=1)
    assert result.env_steps == 2 * (turns or 3)
    assert result.rows[0]["eval/turns_mean"] == (turns or 3)


def test_a_stranger_is_evaluated_on_its_last_reward_and_the_discounted_sum():
    team = {"host": policy(seed=1), "guest": policy(seed=2)}
    trainer, _ = train(Relay(), max_turns=2, discount=0.5, num_generations=2, max_steps=1)
    plan = EvaluationPlan(samples=1, temperature=None, max_turns=2, discount=0.5, seed=0)
    metrics, roots = evaluate_team(trainer.held_out, team, plan)
    firsts = [root.edges[0].reward for root in roots]
    lasts = [root.edges[0].child.edges[0].reward for root in roots]
    assert metrics["reward_mean"] == pytest.approx(sum(lasts) / 32)
    assert metrics["return_mean"] == pytest.approx((sum(firsts) + 0.5 * sum(lasts)) / 32)


def test_two_runs_of_a_stranger_are_equal_bit_for_bit():
    (one, first), (other, second) = (train(Relay(), num_generations=2, max_turns=2) for _ in range(2))
    assert rewards(first) == rewards(second)
    for agent, found in weights(one).items():
        assert torch.equal(found, weights(other)[agent])


def test_an_agent_cut_short_by_truncation_leaves_too():
    class Cut(Relay):
        def step(self, actions):
            observations, given, ends, _, infos = super().step(actions)
            return observations, given, dict.fromkeys(ends, False), ends, infos

    game = ForeignGame(Cut())
    (episode,) = game.start_many([SeedTask("seed-5", 5)], [0])
    seen = []
    while not episode.done:
        seen.append(game.acting(episode))
        (episode,) = game.step_many([(episode, dict.fromkeys(game.acting(episode), "x"))])
    assert seen == [("host", "guest"), ("host", "guest"), ("host",)]


def test_a_registered_stranger_is_evaluated_on_other_seeds():
    register("tests/stranger", lambda: Relay(), overwrite=True)
    trainer, _ = train("tests/stranger", num_generations=2, max_turns=1, max_steps=1)
    tasks, held_out = trainer.playground.tasks, trainer.held_out.tasks
    assert not {tasks[i].id for i in range(len(tasks))} & {held_out[i].id for i in range(len(held_out))}


class Silent(Relay):
    """Shows nothing to an agent that has just left, as many environments do."""

    def step(self, actions):
        observations, rewards, ends, cuts, infos = super().step(actions)
        return {a: None if ends[a] else text for a, text in observations.items()}, rewards, ends, cuts, infos


def test_an_agent_that_has_left_needs_no_observation():
    game = ForeignGame(Silent())
    episode = game.start_many([SeedTask("seed-1", 1)], [0])[0]
    for present in (("host", "guest"), ("host", "guest"), ("host",)):
        assert game.acting(episode) == present
        episode = game.step_many([(episode, dict.fromkeys(present, "hello"))])[0]
    assert episode.done
