"""Players that are not trained here: scripted ones, a person, a model behind an endpoint.

A policy answers many prompts at once, in one of three forms. The simplest, ``act``, reads texts. ``act_chat`` reads
the same as chat turns, for models with a chat template. ``act_episodes`` reads the episodes themselves, as the
oracle must. An ``InfrastructureError`` in place of a reply says that a machine failed: no reply, and no score.
"""

from comlrl_envs.policies.protocol import ChatPolicy, EpisodePolicy, Policy, Reply, TextPolicy, per_prompt

__all__ = ["ChatPolicy", "EpisodePolicy", "Policy", "Reply", "TextPolicy", "per_prompt"]
