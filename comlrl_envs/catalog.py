"""The ids that ship with the package."""

from __future__ import annotations

from comlrl_envs.registry import register

SHIPPED: tuple[tuple[str, str], ...] = (
    ("writing/length_ratio-v0", "comlrl_envs.writing.length_ratio:parallel_env"),
    ("writing/tldr-v0", "comlrl_envs.writing.tldr:parallel_env"),
    ("writing/arxiv-v0", "comlrl_envs.writing.arxiv:parallel_env"),
    ("coding/humaneval-v0", "comlrl_envs.coding.humaneval:parallel_env"),
    ("coding/coop_humaneval-v0", "comlrl_envs.coding.coop_humaneval:parallel_env"),
    ("coding/mbpp-v0", "comlrl_envs.coding.mbpp:parallel_env"),
    ("coding/classeval-v0", "comlrl_envs.coding.classeval:parallel_env"),
    ("qa/split_context-v0", "comlrl_envs.qa.split_context:parallel_env"),
    ("qa/debate-v0", "comlrl_envs.qa.debate:parallel_env"),
    ("qa/retrieve_answer-v0", "comlrl_envs.qa.retrieve_answer:parallel_env"),
    ("qa/workers_manager-v0", "comlrl_envs.qa.workers_manager:parallel_env"),
    ("tool_use/parallel-v0", "comlrl_envs.tool_use.parallel:parallel_env"),
    ("tool_use/multi_turn-v0", "comlrl_envs.tool_use.multi_turn:parallel_env"),
)


def register_shipped() -> None:
    """Enter all of them; imports none of their modules."""
    for id, entry_point in SHIPPED:
        register(id, entry_point)
