"""What a policy wrote, as token ids: the record that sampling fills and training reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prompt:
    """An encoded prompt."""

    ids: tuple[int, ...]
    """Token ids, at least one."""
    cut: int = 0
    """How many tokens were taken out of the middle to fit the model's context."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled reply; the ids are kept as drawn and never encoded again."""

    prompt: Prompt
    ids: tuple[int, ...]
    """Token ids, the end-of-sequence token included when it was drawn."""
    logprobs: tuple[float, ...]
    """Log-prob of each id under the distribution it was drawn from."""
    text: str
    finished: bool
    """Whether an end-of-sequence token was drawn; False means cut at `max_new_tokens`."""

    def __post_init__(self) -> None:
        """Hold ids and log-probs to one length."""
        if len(self.ids) != len(self.logprobs):
            raise ValueError(f"{len(self.ids)} token ids, but {len(self.logprobs)} log-probs: they must match.")


@dataclass(frozen=True, slots=True)
class Reference:
    """What a reference policy says about one completion."""

    logprobs: tuple[float, ...]
    """Its log-prob of each token."""
    kl: float
    """Estimate of the KL divergence of the policy from it, summed over the tokens, in nats."""


@dataclass(frozen=True, slots=True)
class TokenSample:
    """One completion with what the loss needs; the unit of `minibatch_size`."""

    agent: str
    task_id: str
    turn: int
    completion: Completion
    advantage: float
    reference: Reference | None = None
    value_target: float = 0.0
    """What a value head on the policy is to say about the prompt."""
    old_value: float = 0.0
    """What it said at sampling."""

    def __post_init__(self) -> None:
        """Hold reference log-probs to the completion's length."""
        reference = self.reference
        if reference is not None and len(reference.logprobs) != len(self.completion.ids):
            raise ValueError(
                f"{len(self.completion.ids)} token ids, but {len(reference.logprobs)} reference log-probs."
            )
