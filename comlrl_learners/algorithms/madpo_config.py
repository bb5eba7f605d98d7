"""Settings of MADPO, and what it asks of the policies that are to learn from pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from comlrl_learners.config import TrainerConfig
from comlrl_learners.errors import ConfigError
from comlrl_learners.policy import LLMPolicy
from comlrl_learners.preferences import PairSelection, Replay


@dataclass(kw_only=True)
class MADPOConfig(TrainerConfig):
    """Settings of MADPO; `num_generations` are the candidates, an epoch is a refreshed round of pairs."""

    beta: float = 0.1
    """How sharply a margin counts."""
    reference_free: bool = True
    """Take plain log-probs as margin (the published form), or their ratio to frozen references (DPO)."""
    pair_selection: PairSelection = "reward_gap"
    """Pairs with the widest gaps in return, in random order, or "all"."""
    pairs_per_node: int | None = 4
    """Pairs taken from the candidates of one point of an episode; None takes all that the selection gives."""
    pairs_file: str | None = None
    """Learn from the pairs in this JSON file, and sample none."""
    replay: Replay = "current"
    """Pairs of the "current" round, of the "nearest_k" rounds or "all_history" alike, or by "lambda_decay"."""
    replay_k: int = 2
    """Rounds of "nearest_k"."""
    replay_lambda: float = 0.5
    """A round's weight shrinks by this factor with each round that it is older."""

    def __post_init__(self) -> None:
        """Refuse combinations that cannot work.

        Raises:
            ConfigError: With the reason and the nearest setting that works.
        """
        super().__post_init__()
        if self.num_generations < 2 and self.pairs_file is None:
            raise ConfigError("num_generations=1 gives no pair. Use num_generations >= 2, or pairs_file=.")
        if not self.beta > 0:
            raise ConfigError(f"beta={self.beta} must be positive.")
        if self.pairs_per_node is not None and self.pairs_per_node < 1:
            raise ConfigError(f"pairs_per_node={self.pairs_per_node} must be 1 or more, or None.")
        if self.pair_selection == "all" and self.pairs_per_node is not None:
            raise ConfigError("pair_selection='all' takes every pair. Use pairs_per_node=None, or another selection.")
        if self.replay_k < 1 or not 0 <= self.replay_lambda <= 1:
            raise ConfigError(
                f"replay_k={self.replay_k} must be 1 or more, replay_lambda={self.replay_lambda} in [0, 1]."
            )
        self.refuse_idle(self.replay != "nearest_k", f"replay={self.replay!r} counts no rounds", "replay_k")
        self.refuse_idle(self.replay != "lambda_decay", f"replay={self.replay!r} has no decay", "replay_lambda")
        self.refuse_idle(
            self.pairs_file is not None,
            "pairs_file gives the same pairs each round",
            *("replay", "pair_selection", "pairs_per_node", "joint_mode", "prune_above", "discount"),
        )
        if self.minibatch_size == 1:
            raise ConfigError("minibatch_size=1 is half a pair. Use minibatch_size >= 2, or None.")
        self.check_sampling(self.sampling.truncates, "sampling")

    @property
    def wants_references(self) -> bool:
        """Whether frozen copies of the start are needed."""
        return not self.reference_free

    @property
    def no_references(self) -> str:
        """The setting that makes references idle, for messages."""
        return "reference_free=True takes plain log-probs"

    def check_sampling(self, truncates: bool, who: str) -> None:
        """Refuse a truncating sampler where its log-probs would be compared with those of another distribution."""
        if truncates and not self.reference_free:
            raise ConfigError(
                f"{who} truncates the distribution (top_p < 1 or top_k > 0), so ratios to a reference would compare "
                "two different distributions. Use top_p=1 and top_k=0, or reference_free=True."
            )


def check_samplers(config: MADPOConfig, team: Mapping[str, LLMPolicy]) -> None:
    """Hold the policies that learn, each with a sampling of its own, to what `sampling` is held to.

    Raises:
        ConfigError: One explores nothing, or does not fit the loss.
    """
    for agent, policy in team.items():
        if policy.sampling.temperature == 0:
            raise ConfigError(
                f"The policy of {agent} samples at temperature 0 and so explores nothing. Give it a positive "
                "temperature; eval_temperature may be 0."
            )
        config.check_sampling(policy.sampling.truncates, f"The policy of {agent}")
