"""``evaluate``: policies at an environment, with intervals, on disk if wanted, continued if interrupted."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import comlrl_envs
from comlrl_envs.env import TextEnv
from comlrl_envs.errors import OptionError, closest, positive_int
from comlrl_envs.evaluation.playing import Assignment, Player
from comlrl_envs.evaluation.protocols import budget, check_protocol, variant
from comlrl_envs.evaluation.records import EpisodeRecord
from comlrl_envs.evaluation.report import SUCCESS, Report, summarise
from comlrl_envs.evaluation.results import ResultsFolder
from comlrl_envs.evaluation.settings import describe_env, describe_policy, split_of, task_digest
from comlrl_envs.policies.asking import is_policy
from comlrl_envs.policies.build import build_policy
from comlrl_envs.policies.protocol import Policy
from comlrl_envs.registry import make, spec
from comlrl_envs.seeding import derive
from comlrl_envs.tasks import Task

PolicyLike: TypeAlias = "str | Policy"
Policies: TypeAlias = "PolicyLike | Sequence[PolicyLike] | Mapping[str, PolicyLike]"
Progress: TypeAlias = Callable[[int, int, int], None]
"""Called after each batch with the episodes finished, planned and failed."""
DOWN_AFTER = 8
"""Failed episodes in a row, none finished in between, after which a run does not begin another batch."""


def evaluate(
    env: str | TextEnv,
    policies: Policies,
    *,
    episodes: int | None = None,
    k: Sequence[int] = (1,),
    samples: int | None = None,
    protocol: str = "parallel",
    seed: int = 0,
    out: str | os.PathLike[str] | None = None,
    batch_size: int = 32,
    progress: Progress | None = None,
) -> Report:
    """Play a set of tasks with given policies and report what they earn.

    Each of the first ``episodes / samples`` tasks of the set is played ``samples`` times. The seed of an episode
    depends on ``seed``, its task and its sample number alone, and built-in policies draw by the episode, so a second
    run is equal to the first, and a longer one begins with the shorter one's episodes.

    With ``out``, every finished episode is on disk at once, and calling ``evaluate`` again with the same settings
    goes on where it stopped: what is finished is kept, what failed is played again. ``samples`` and ``episodes`` may
    be larger than before, not smaller.

    Keyword arguments of the environment go to ``make``: ``evaluate(make(ID, split="eval", max_turns=2), "random")``.

    Args:
        env: An id, played on its ``eval`` split, or an environment, played on the tasks that it has; ``make`` takes
            the ``train`` split unless told otherwise.
        policies: A name (see ``build_policy``) or a policy object for all agents, a list in agent order, or a dict by
            agent. Equal names are one object; it plays each agent on its own.
        episodes: Episodes in all, a multiple of ``samples``; None plays every task.
        k: For which k to report pass@k, the chance that one of k episodes of a task succeeds. It needs the metric
            ``success``; without one the default is left out, and more is refused.
        samples: Episodes a task; None takes the largest ``k``.
        protocol: One of ``PROTOCOLS``: ``"parallel"``, ``"single"``, ``"pipeline"``, ``"discussion"``, ``"solo"`` or
            ``"majority"``; see ``evaluation.protocols``.
        seed: Any integer.
        out: Folder of the results; None keeps them in memory only.
        batch_size: Episodes played in lock step; a policy is asked once an agent, turn and batch.
        progress: Called after each batch with the numbers of finished, planned and failed episodes.

    Returns:
        The report. An episode that a machine failed (``InfrastructureError``, of a policy or of the scenario) counts
        as failed; it has no score. If every episode of whole batches failed, ``DOWN_AFTER`` or more of them, what they
        need is down: the run stops, ``Report.stopped`` says so, and the rest is left unplayed.

    Raises:
        OptionError: An argument does not fit, the environment tells agents what only the judge knows
            (``Scenario.ablation``), a policy's server refuses to serve, or the folder is in use or holds other
            settings.
        TaskError: A row cannot be played.
    """
    ks, samples = _counts(k, samples)
    positive_int("batch_size", batch_size)
    chosen = check_protocol(protocol)
    with _opened(env) as given:
        _refuse_ablation(given)
        played, draws = variant(chosen, given), budget(chosen, given)
        success = _declares_success(played, ks)
        tasks = _head(played, episodes, samples)
        stored = out is not None
        names, team = _seat(policies, played.possible_agents, stored)
        settings = {
            "version": comlrl_envs.__version__,
            "env": describe_env(played, stored),
            "agents": list(played.possible_agents),
            "policies": names,
            "protocol": chosen,
            **({"draws": draws} if chosen == "majority" else {}),
            "tasks": len(tasks),
            "samples": samples,
            "episodes": len(tasks) * samples,
            "k": ks,
            "seed": seed,
            "batch_size": batch_size,
            "tasks_sha256": task_digest(tasks) if stored else "",
            "origin": played.tasks.origin,
            "split": split_of(played),
            "reward_range": list(played.game.reward_range),
            "max_turns": played.game.max_turns,
            "success": success,
        }
        plan = [Assignment(t, n, derive("evaluate", seed, t.id, n)) for t in tasks for n in range(samples)]
        player = Player(played.game, team, chosen, played.max_cycles, draws)
        if out is None:
            records, stopped = _play(player, plan, batch_size, progress)
            return summarise(settings, records, stopped=stopped)
        with ResultsFolder(out, settings, lambda count: task_digest(tasks[:count])) as folder:
            records, stopped = _play(player, plan, batch_size, progress, folder)
            report = summarise(settings, records, folder.path, stopped)
            folder.finish(report.to_json())
            return report


def _play(
    player: Player,
    plan: Sequence[Assignment],
    batch_size: int,
    progress: Progress | None,
    folder: ResultsFolder | None = None,
) -> tuple[list[EpisodeRecord], str]:
    """Play what is planned and not in the folder; returns the records of both, and why it stopped before the end."""
    records = [] if folder is None else [*folder.records]
    done = {record.key for record in records}
    left = [assignment for assignment in plan if (assignment.task.id, assignment.sample) not in done]
    finished, failed, in_a_row = len(done), 0, 0
    for start in range(0, len(left), batch_size):
        batch = player.play(left[start : start + batch_size])
        records += batch
        if folder is not None:
            for record in batch:
                folder.add(record)
        bad = sum(bool(record.error) for record in batch)
        finished, failed = finished + len(batch) - bad, failed + bad
        in_a_row = in_a_row + bad if bad == len(batch) else 0
        if progress is not None:
            progress(finished, len(plan), failed)
        if in_a_row >= DOWN_AFTER and start + batch_size < len(left):
            return records, f"the last {in_a_row} episodes all failed"
    return records, ""


@contextlib.contextmanager
def _opened(env: str | TextEnv) -> Iterator[TextEnv]:
    """The environment; one that was made here is closed again."""
    if isinstance(env, TextEnv):
        yield env
        return
    if not isinstance(env, str):
        raise OptionError(
            f"env is a {type(env).__name__}; expected an id such as 'writing/length_ratio', or a TextEnv."
        )
    parameters = inspect.signature(spec(env).load()).parameters.values()
    takes_split = any(p.name == "split" or p.kind is p.VAR_KEYWORD for p in parameters)
    made = make(env, split="eval") if takes_split else make(env)
    try:
        yield made
    finally:
        made.close()


def _refuse_ablation(env: TextEnv) -> None:
    scenario = env.game.scenario
    if scenario.ablation:
        mode = f"feedback={vars(scenario)['feedback']!r}" if "feedback" in vars(scenario) else "its feedback"
        raise OptionError(
            f"{env.metadata['name']}: {mode} tells agents what only the judge knows, such as whether their answer is "
            "right. It is there for ablations, to train and to play with; choose another feedback to evaluate."
        )


def _counts(k: Sequence[int], samples: int | None) -> tuple[list[int], int]:
    if isinstance(k, int):
        k = (k,)
    ks = sorted({positive_int("k", each) for each in k})
    count = max(ks, default=1) if samples is None else positive_int("samples", samples)
    if ks and ks[-1] > count:
        raise OptionError(f"k={ks} asks for pass@{ks[-1]}, but samples={count}: play at least {ks[-1]} samples a task.")
    return ks, count


def _declares_success(env: TextEnv, ks: Sequence[int]) -> bool:
    declared = SUCCESS in env.game.metric_names
    if not declared and max(ks, default=1) > 1:
        metrics = ", ".join(env.game.metric_names) or "none"
        raise OptionError(
            f"k={list(ks)} asks for pass@k, which counts the metric 'success', but {env.metadata['name']} declares "
            f"{metrics}. Leave k out."
        )
    return declared


def _head(env: TextEnv, episodes: int | None, samples: int) -> list[Task]:
    """The first tasks of the set."""
    count = len(env.tasks)
    if episodes is not None:
        positive_int("episodes", episodes)
        count, rest = divmod(episodes, samples)
        if rest:
            near = f"{count * samples} or {(count + 1) * samples}" if count else str(samples)
            raise OptionError(f"episodes={episodes} is no multiple of samples={samples}; play {near}.")
    if count > len(env.tasks):
        raise OptionError(
            f"episodes={episodes} with samples={samples} needs {count} tasks, and {env.metadata['name']} has "
            f"{len(env.tasks)} here. Lower episodes to {len(env.tasks) * samples}, or raise samples."
        )
    tasks = [env.tasks[place] for place in range(count)]
    twice = len(tasks) - len({task.id for task in tasks})
    if twice:
        raise OptionError(f"{twice} of the first {count} tasks have an id that another one has; ids must differ.")
    return tasks


def _seat(policies: Policies, agents: Sequence[str], stored: bool) -> tuple[dict[str, Any], dict[str, Policy]]:
    """What to write of each agent's policy, and the policies; equal names are built once."""
    given = _by_agent(policies, agents)
    built: dict[str, Policy] = {}
    for name in given.values():
        if isinstance(name, str) and name not in built:
            built[name] = build_policy(name)
    team = {agent: built[policy] if isinstance(policy, str) else policy for agent, policy in given.items()}
    for agent, policy in team.items():
        if not is_policy(policy):
            raise OptionError(
                f"The policy of {agent!r} is a {type(policy).__name__}; expected a name such as 'random', or an object "
                "with act, act_chat or act_episodes. Wrap a function of one prompt by per_prompt(...)."
            )
    return {agent: describe_policy(given[agent], team[agent], stored) for agent in agents}, team


def _by_agent(policies: Policies, agents: Sequence[str]) -> dict[str, PolicyLike]:
    if isinstance(policies, str) or is_policy(policies):
        return dict.fromkeys(agents, policies)  # type: ignore[arg-type]
    if isinstance(policies, Mapping):
        for name in policies:
            if name not in agents:
                raise OptionError(f"policies name {name!r}; the agents are {list(agents)}.{closest(name, agents)}")
        missing = [agent for agent in agents if agent not in policies]
        if missing:
            raise OptionError(f"policies leave out {missing}; name one for each of {list(agents)}.")
        return {agent: policies[agent] for agent in agents}
    if not isinstance(policies, Sequence):
        wrap = (
            " Wrap a function of one prompt by per_prompt(...) of comlrl_envs.policies." if callable(policies) else ""
        )
        raise OptionError(
            f"policies is a {type(policies).__name__}; expected a name, a policy, a list or a dict.{wrap}"
        )
    if len(policies) != len(agents):
        raise OptionError(f"{len(policies)} policies for {len(agents)} agents ({', '.join(agents)}); give one each.")
    return dict(zip(agents, policies, strict=True))
