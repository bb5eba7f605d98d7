"""Pairs of joint replies as JSON, in the form that CoMLRL publishes: what a run writes of its own, and people by hand.

A file by hand holds texts. A run adds token ids, since a text alone does not tell how it was cut into tokens, whether
the reply was finished, or which messages a chat template was given; they count where the reader's tokenizer gives the
same texts for them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from comlrl_envs.errors import closest
from comlrl_learners.errors import ConfigError
from comlrl_learners.loading import embedded_tokens, writable
from comlrl_learners.pair_fields import RecordError, ids_of, number_of, short, switches_of, task_of, texts_of, turn_of
from comlrl_learners.policy import LLMPolicy
from comlrl_learners.preferences import Pair, histogram
from comlrl_learners.samples import Completion, Prompt

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GivenPairs:
    """What a pairs file holds.

    Attributes:
        pairs: The pairs, in the file's order.
        digest: sha256 of the file's content.
        replies_cut: Replies that did not fit `max_new_tokens` with their end.
    """

    pairs: list[Pair]
    digest: str
    replies_cut: int


def round_record(pairs: Sequence[Pair], returns: Sequence[float], team: Mapping[str, LLMPolicy]) -> dict[str, Any]:
    """What a run keeps of a round, as JSON values: its pairs, and how the returns of all candidates lie.

    Args:
        pairs: The round's pairs.
        returns: Of all candidates.
        team: Whose pairs they are.
    """
    checks: dict[tuple[int, str, tuple[int, ...]], str] = {}
    return {
        "num_pairs": len(pairs),
        "pairs": [to_record(pair, team, checks) for pair in pairs],
        "distribution": {
            "candidates": histogram(returns),
            "chosen": histogram([pair.chosen_return for pair in pairs]),
            "rejected": histogram([pair.rejected_return for pair in pairs]),
        },
    }


def to_record(
    pair: Pair, team: Mapping[str, LLMPolicy], checks: dict[tuple[int, str, tuple[int, ...]], str]
) -> dict[str, Any]:
    """A pair as a pairs file holds it, with the token ids of those who wrote it.

    Args:
        pair: The pair.
        team: Whose it is.
        checks: The `prompt_check` of each policy, text and ids so far: many pairs have one prompt.
    """
    agents = list(pair.chosen)
    prompts = {agent: pair.chosen[agent].prompt.ids for agent in agents}
    keys = {agent: (id(team[agent]), pair.prompts[agent], prompts[agent]) for agent in agents}
    for agent in agents:
        if keys[agent] not in checks:
            checks[keys[agent]] = prompt_check(team[agent], pair.prompts[agent], prompts[agent])
    return {
        "prompts": [pair.prompts[agent] for agent in agents],
        "winner_completions": [pair.chosen[agent].text for agent in agents],
        "loser_completions": [pair.rejected[agent].text for agent in agents],
        "winner_reward": pair.chosen_return,
        "loser_reward": pair.rejected_return,
        "candidate_reward_mean": pair.group_mean,
        "agents": agents,
        "task": pair.task_id,
        "turn": pair.turn,
        "prompt_ids": [list(prompts[agent]) for agent in agents],
        "prompt_checks": [checks[keys[agent]] for agent in agents],
        "winner_ids": [list(pair.chosen[agent].ids) for agent in agents],
        "loser_ids": [list(pair.rejected[agent].ids) for agent in agents],
        "winner_finished": [pair.chosen[agent].finished for agent in agents],
        "loser_finished": [pair.rejected[agent].finished for agent in agents],
    }


def prompt_check(policy: LLMPolicy, text: str, ids: Sequence[int]) -> str:
    """What ties a prompt's ids to its text and to the tokenizer: 16 hexadecimal digits."""
    read = policy.tokenizer.decode(list(ids))
    return hashlib.sha256(json.dumps([text, read]).encode()).hexdigest()[:16]


def read_pairs(
    path: str | os.PathLike[str], team: Mapping[str, LLMPolicy], learning: Collection[str] | None = None
) -> GivenPairs:
    """Read pairs that this project or CoMLRL wrote, or people did.

    Args:
        path: UTF-8 text of JSON: a list of records, an object with `pairs`, or one of these on every line.
        team: Gives tokenizers and limits, and the agents of records that name none.
        learning: The agents that learn; None takes all.

    Raises:
        ConfigError: The file or a record cannot be used; the message names the file and the record's number.
    """
    where = f"pairs_file={os.fspath(path)!r}"
    try:
        content = Path(path).read_bytes()
        values = _json_values(content.decode("utf-8-sig"))
    except RecursionError as error:
        raise ConfigError(f"{where} cannot be read (it is nested too deeply). Give a JSON file of pairs.") from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{where} cannot be read ({error}). Give a JSON file of pairs.") from error
    records = [record for value in values for record in _records_of(value, where)]
    if not records:
        raise ConfigError(f"{where} holds no list of pairs.")
    reader = _Reader(where, team, team if learning is None else learning)
    pairs = [reader.pair(record, number) for number, record in enumerate(records)]
    if reader.replies_cut:
        log.warning(
            "%s: %d replies are longer than max_new_tokens allows and were cut, without an end token.",
            where, reader.replies_cut,
        )  # fmt: skip
    return GivenPairs(pairs, hashlib.sha256(content).hexdigest(), reader.replies_cut)


def _json_values(text: str) -> list[Any]:
    """The one value of a JSON text, or those on the lines of JSONL."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        # Not splitlines: a JSON text may hold U+2028 and its like inside a string.
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        try:
            first = [json.loads(line) for _, line in lines[:1]]
        except json.JSONDecodeError:
            first = []
        if not first:
            raise  # what is wrong with the whole says more than what is wrong with its first line
    return first + [_json_line(number, line) for number, line in lines[1:]]


def _json_line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {number}: {error.msg} at character {error.pos}") from error


def _records_of(value: Any, where: str) -> list[Any]:
    """The records in one JSON value: a list of them, an object with `pairs`, or a single one."""
    found = value.get("pairs", [value]) if isinstance(value, dict) else value
    if not isinstance(found, list):
        raise ConfigError(f"{where} holds no list of pairs.")
    return found


class _Reader:
    """Turns records into pairs of a team.

    Attributes:
        replies_cut: Replies so far that did not fit `max_new_tokens`.
    """

    def __init__(self, where: str, team: Mapping[str, LLMPolicy], learning: Collection[str]) -> None:
        self.where, self.team, self.learning = where, team, learning
        self.replies_cut = 0

    def pair(self, record: Any, number: int) -> Pair:
        """One pair.

        Raises:
            ConfigError: Naming the file and the pair's number.
        """
        try:
            return self._pair(record, number)
        except RecordError as error:
            raise ConfigError(f"{self.where}: Pair {number} {error}") from error

    def _pair(self, record: Any, number: int) -> Pair:
        if not isinstance(record, dict):
            raise RecordError(f"needs to be an object with 'prompts' and completions; it is {short(record)}.")
        agents = self._agents(record)
        texts = dict(zip(agents, texts_of(record, "prompts", agents), strict=True))
        prompts = self._prompts(record, texts)
        chosen, rejected = (self._half(record, half, prompts) for half in ("winner", "loser"))
        self._check_halves(chosen, rejected)
        won, lost = number_of(record, "winner_reward", 1.0), number_of(record, "loser_reward", 0.0)
        if won < lost:
            raise RecordError(f"has winner_reward={won}, less than loser_reward={lost}. Swap its halves or rewards.")
        mean = number_of(record, "candidate_reward_mean", won / 2 + lost / 2)
        return Pair(task_of(record, number), turn_of(record), texts, chosen, rejected, won, lost, mean)

    def _agents(self, record: Mapping[str, Any]) -> list[str]:
        """Who acts in a pair; at least one of them learns."""
        agents = record.get("agents", list(self.team))
        if not isinstance(agents, list) or not agents or not all(isinstance(agent, str) for agent in agents):
            raise RecordError(
                f"needs 'agents': a list of some of {list(self.team)}, or no such field; it holds {short(agents)}."
            )
        if strangers := [agent for agent in agents if agent not in self.team]:
            near = closest(strangers[0], self.team)
            raise RecordError(f"names the agents {strangers}, and the team is {list(self.team)}.{near}")
        if len(set(agents)) < len(agents):
            raise RecordError(f"names an agent twice: {agents}. Name each once.")
        if not any(agent in self.learning for agent in agents):
            raise RecordError(
                f"is of {agents}, and none of them learns. Leave it out, or take them out of frozen={tuple(agents)}."
            )
        return agents

    def _prompts(self, record: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Prompt]:
        """What each agent read: the ids that a run wrote, if they are those of the text, or else the text's own."""
        agents = list(texts)
        written = ids_of(record, "prompt_ids", agents)
        checks = texts_of(record, "prompt_checks", agents) if "prompt_checks" in record else [""] * len(agents)
        prompts: dict[str, Prompt] = {}
        for (agent, text), ids, check in zip(texts.items(), written, checks, strict=True):
            policy = self.team[agent]
            fits = ids and _embeds(policy, ids) and len(ids) <= (policy.max_prompt_tokens or len(ids))
            same = fits and prompt_check(policy, text, ids) == check
            prompts[agent] = Prompt(tuple(ids)) if same else policy.encode(text)
        return prompts

    def _half(self, record: Mapping[str, Any], half: str, prompts: Mapping[str, Prompt]) -> dict[str, Completion]:
        agents = list(prompts)
        texts = texts_of(record, f"{half}_completions", agents)
        written, finished = ids_of(record, f"{half}_ids", agents), switches_of(record, f"{half}_finished", agents)
        return {
            agent: self._reply(agent, prompts[agent], text, ids, ended)
            for agent, text, ids, ended in zip(agents, texts, written, finished, strict=True)
        }

    def _reply(self, agent: str, prompt: Prompt, text: str, written: list[int], finished: bool) -> Completion:
        """A text as if the agent had written it, without log-probs of its own."""
        policy = self.team[agent]
        ids = written if _spells(policy, written, text, finished) else _encoded(policy, text, finished)
        limit = policy.sampling.max_new_tokens
        if len(ids) > limit:
            ids, finished = ids[:limit], False
            text = _decoded(policy, ids)
            self.replies_cut += 1
        if not ids:
            raise RecordError(f"has a reply of {agent} that is empty and not finished: nothing of it can be learnt.")
        least = policy.sampling.min_new_tokens
        if agent in self.learning and finished and len(ids) <= least:
            raise RecordError(
                f"has a reply of {agent} that ends after {len(ids) - 1} tokens, and min_new_tokens={least} gives that "
                "no probability. Lower min_new_tokens, or leave the pair out."
            )
        return Completion(prompt, tuple(ids), (math.nan,) * len(ids), text, finished)

    def _check_halves(self, chosen: Mapping[str, Completion], rejected: Mapping[str, Completion]) -> None:
        """Refuse halves that are the same tokens to all who learn: their margin is 0 whatever is learnt."""
        learning = [agent for agent in chosen if agent in self.learning]
        if any(chosen[agent].ids != rejected[agent].ids for agent in learning):
            return
        cut = [agent for agent in learning if not chosen[agent].finished]
        limits = {agent: self.team[agent].sampling.max_new_tokens for agent in cut}
        remedy = f", cut to max_new_tokens {limits}. Raise it" if cut else ". Give two different ones"
        raise RecordError(f"has the same winner and loser for {learning}: equal tokens{remedy}, or leave the pair out.")


def _spells(policy: LLMPolicy, ids: Sequence[int], text: str, finished: bool) -> bool:
    """Whether these ids are this text to this policy, and end where it says."""
    if not ids or not _embeds(policy, ids):
        return False
    ends = [number in policy.backbone.eos_ids for number in ids]
    if any(ends[:-1]) or ends[-1] != finished:
        return False
    return _decoded(policy, ids) == text


def _decoded(policy: LLMPolicy, ids: Sequence[int]) -> str:
    """The text of a reply, as generation gives it."""
    return policy.tokenizer.batch_decode([list(ids)], skip_special_tokens=True)[0]


def _encoded(policy: LLMPolicy, text: str, finished: bool) -> list[int]:
    """The ids of a reply's text, in which control tokens that it spells are text, and its end."""
    ids = policy.tokenizer(writable(text), add_special_tokens=False, split_special_tokens=True)["input_ids"]
    if not _embeds(policy, ids):
        raise RecordError(
            f"has the token id {max(ids)} in a reply, but the model embeds {embedded_tokens(policy.model)} tokens. Use "
            "the model's own tokenizer."
        )
    return [*ids, policy.backbone.eos_ids[0]] if finished else list(ids)


def _embeds(policy: LLMPolicy, ids: Sequence[int]) -> bool:
    return max(ids, default=0) < embedded_tokens(policy.model)
