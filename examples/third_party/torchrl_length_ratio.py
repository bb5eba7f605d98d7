"""TorchRL trains two writers with its own PPO on ``writing/length_ratio``.

Each agent chooses among five replies of different lengths and sees its prompt as token ids; it has a policy, a critic
and an optimizer of its own, and never sees the other's choice. A team that chooses at random earns about 0.35; the
second reply has to be two to three times as long as the first, so the agents must agree on neighbouring lengths.
Rewards are measured on topics that training never shows, with choices drawn as in training.

    pip install -e ".[torchrl]" -c constraints.txt
    python examples/third_party/torchrl_length_ratio.py --seed 0

It takes about half a minute on one CPU core.
"""

import argparse
import warnings

import torch
from tensordict.nn import InteractionType, TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.envs import MarlGroupMapType, PettingZooWrapper
from torchrl.modules import ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss

import comlrl_envs
from comlrl_envs.views import ChoiceView, TokenObservations

REPLIES = ["word " * count for count in (2, 5, 12, 29, 70)]  # each about 2.4 times as long as the one before
LENGTH = 32  # bytes of a prompt that an agent sees


def make_env(split: str) -> PettingZooWrapper:
    """The environment as TorchRL takes it: token ids to look at, a number to choose."""
    env = TokenObservations(ChoiceView(comlrl_envs.make("writing/length_ratio", split=split), REPLIES), LENGTH)
    return PettingZooWrapper(env, group_map=MarlGroupMapType.ONE_GROUP_PER_AGENT)


def network(outputs: int) -> nn.Module:
    """Byte embeddings, one hidden layer."""
    return nn.Sequential(
        nn.Embedding(257, 8), nn.Flatten(-2), nn.Linear(8 * LENGTH, 64), nn.Tanh(), nn.Linear(64, outputs)
    )


def make_loss(agent: str) -> ClipPPOLoss:
    """One agent's policy and critic, in TorchRL's loss; keys name what belongs to the agent."""
    actor = ProbabilisticActor(
        TensorDictModule(network(len(REPLIES)), in_keys=[(agent, "observation")], out_keys=[(agent, "logits")]),
        in_keys=[(agent, "logits")],
        out_keys=[(agent, "action")],
        distribution_class=torch.distributions.Categorical,
        default_interaction_type=InteractionType.RANDOM,
        return_log_prob=True,
        log_prob_key=(agent, "sample_log_prob"),
    )
    critic = ValueOperator(network(1), in_keys=[(agent, "observation")], out_keys=[(agent, "state_value")])
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01, normalize_advantage=True)
    names = ("action", "sample_log_prob", "reward", "done", "terminated", "advantage", "value_target")
    loss.set_keys(value=(agent, "state_value"), **{name: (agent, name) for name in names})
    return loss


def mean_reward(env: PettingZooWrapper, policy: TensorDictSequential, topics: int, repeats: int = 5) -> float:
    """Mean reward over all topics of the split, each played ``repeats`` times."""
    total = 0.0
    with torch.no_grad():
        for task in list(range(topics)) * repeats:
            stepped = env.step(policy(env.reset(options={"task": task})))
            total += stepped["next", "summarizer", "reward"].item()
    return total / (topics * repeats)


def train(seed: int = 0, rounds: int = 50, episodes: int = 64, passes: int = 4) -> tuple[float, float]:
    """Mean reward on held-out topics before and after ``rounds`` rounds of ``episodes`` episodes each."""
    torch.manual_seed(seed)
    env, held_out = make_env("train"), make_env("eval")
    env.set_seed(seed)
    losses = [make_loss(agent) for agent in env.possible_agents]
    optimizers = [torch.optim.Adam(loss.parameters(), lr=3e-3) for loss in losses]
    policy = TensorDictSequential(*[loss.actor_network for loss in losses])
    topics = len(held_out.unwrapped.tasks)

    before = mean_reward(held_out, policy, topics)
    for _ in range(rounds):
        with torch.no_grad():
            batch = env.rollout(episodes, policy, break_when_any_done=False)
            for loss in losses:
                loss.value_estimator(batch)
        for loss, optimizer in zip(losses, optimizers, strict=True):
            for _ in range(passes):
                parts = loss(batch)
                optimizer.zero_grad()
                (parts["loss_objective"] + parts["loss_critic"] + parts["loss_entropy"]).backward()
                optimizer.step()
    return before, mean_reward(held_out, policy, topics)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    # TorchRL says at each start that it is tested with an older PettingZoo.
    warnings.filterwarnings("ignore", message="PettingZoo in TorchRL is tested")
    before, after = train(parser.parse_args().seed)
    print(f"held-out topics: mean reward {before:.3f} before, {after:.3f} after training")
