"""Players that are not trained here: scripted ones, a person, a model behind an endpoint.

A policy answers many prompts at once, in one of three forms. The simplest, ``act``, reads texts. ``act_chat`` reads
the same as chat turns, for models with a chat template. ``act_episodes`` reads the episodes themselves, as the
oracle must. An ``InfrastructureError`` in place of a reply says that a machine failed: no reply, and no score.
"""

from comlrl_envs.policies.asking import ask, is_policy
from comlrl_envs.policies.build import build_policy, split_settings
from comlrl_envs.policies.openai import OpenAIPolicy
from comlrl_envs.policies.protocol import ChatPolicy, EpisodePolicy, Policy, Reply, TextPolicy, per_prompt
from comlrl_envs.policies.scripted import EchoPolicy, EmptyPolicy, OraclePolicy, RandomPolicy
from comlrl_envs.policies.usage import MeasuredReply, Usage, usage_of

__all__ = [
    "ChatPolicy",
    "EchoPolicy",
    "EmptyPolicy",
    "EpisodePolicy",
    "MeasuredReply",
    "OpenAIPolicy",
    "OraclePolicy",
    "Policy",
    "RandomPolicy",
    "Reply",
    "TextPolicy",
    "Usage",
    "ask",
    "build_policy",
    "is_policy",
    "per_prompt",
    "split_settings",
    "usage_of",
]
