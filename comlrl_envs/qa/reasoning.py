"""Tasks of PyPI's reasoning-gym, made for one agent, as rows that a team can play in ``qa/debate``.

A row carries what its generator's own scorer needs, so that a state scores alone and in any process. Generators are
played that were looked through: equal seeds give equal tasks, gold is right, and no answer runs as code or keeps the
scorer busy. ``REFUSED`` says why the others are not.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import json
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from comlrl_envs.errors import MissingExtraError, OptionError, TaskError, closest, positive_int
from comlrl_envs.qa import tags
from comlrl_envs.qa.answers import NOTHING, AnswerScore
from comlrl_envs.qa.rows import parse
from comlrl_envs.tasks import Row

SCORER = "reasoning_gym"
"""The scorer that such a row names."""
ANSWER_CHARS = 10_000
"""Of an answer that count; boards and lists of moves are long, so words do not count."""
LIMITS = tags.Limits(answer_words=ANSWER_CHARS)
"""How much of an answer is read before it is cut to ``ANSWER_CHARS``."""

CHECKED = frozenset(
    """
    ab acre advanced_geometry aiw arc_1d base_conversion basic_arithmetic bf binary_alternation
    bitwise_arithmetic caesar_cipher calendar_arithmetic chain_sum circuit_logic color_cube_rotation count_bits
    count_primes course_schedule cryptarithm decimal_arithmetic decimal_chain_sum dice emoji_mystery
    family_relationships figlet_font fraction_simplification futoshiki game_of_life gcd group_anagrams
    gsm_symbolic jugs kakurasu knights_knaves largest_island lcm leg_counting letter_counting letter_jumble
    mahjong_puzzle manipulate_matrix maze mini_sudoku modulo_grid needle_haystack number_filtering number_format
    number_sequence number_sorting palindrome_generation palindrome_partitioning path_star polynomial_equations
    pool_matrix power_function prime_factorization products quantum_lock rectangle_count rotate_matrix
    rotten_oranges self_reference sentence_reordering shortest_path simple_equations simple_geometry sokoban
    spell_backward string_manipulation string_splitting string_synthesis sudoku survo syllogism time_intervals
    tower_of_hanoi tsumego word_sequence_reversal word_sorting zebra_puzzles
    """.split()
)
"""Generators that are played."""

_CODE = "its scorer runs the answer as code"
_BUSY = "a short answer keeps its scorer busy without end, or fills the memory"
_NO_GOLD = "it gives no gold answer"
_VARIES = "its tasks differ from process to process"
_TUPLES = "its scorer takes no gold answer for right once the task was written as JSON"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("binary_matrix", "n_queens", "spiral_matrix", "string_insertion"), _CODE),
    **dict.fromkeys(("countdown", "puzzle24", "polynomial_multiplication"), _CODE),
    **dict.fromkeys(("simple_integration", "intermediate_integration"), _CODE),
    **dict.fromkeys(("coin_flip", "rubiks_cube"), _BUSY),
    **dict.fromkeys(("boxnet", "graph_color", "propositional_logic", "rush_hour"), _NO_GOLD),
    **dict.fromkeys(("arc_agi", "rearc"), _TUPLES),
    **dict.fromkeys(("codeio", "isomorphic_strings", "knight_swap", "list_functions"), _VARIES),
    **dict.fromkeys(("ransom_note", "word_ladder"), _VARIES),
    "complex_arithmetic": "its scorer takes 'nan' for right",
    "game_of_life_halting": "its scorer takes any answer for right",
    "composite": "it mixes others; ask for these one by one",
}
"""Generators that are not played, and why."""

# What scorers of the generators raise on answers that they cannot read.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
# What they raise on settings that make no task.
_UNMADE = (*_UNREADABLE, AssertionError, MemoryError, RuntimeError)


def reasoning_tasks(name: str, size: int, seed: int, **settings: Any) -> list[Row]:
    """Tasks of a generator of reasoning-gym, for ``tasks=`` of ``qa/debate``.

    What has no gold answer, or one that its own scorer does not take for right, is left out, and the next takes its
    place.

    Args:
        name: Of the generator, one of ``CHECKED``.
        size: How many, >= 1.
        seed: Of the generator, 0 to 2**32 - 1.
        settings: Of the generator, JSON values.

    Returns:
        Rows ``{"id", "question", "answers", "scorer", "entry"}``.

    Raises:
        MissingExtraError: reasoning-gym is not installed.
        OptionError: The generator is not known, is refused, or does not take these settings.
        TaskError: It has not as many tasks.
    """
    positive_int("size", size)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise OptionError(f"seed={seed!r}; expected an integer from 0 to 2**32 - 1.")
    check_name(name)
    try:
        kept = json.dumps({**settings, "size": size, "seed": seed}, sort_keys=True)
    except (TypeError, ValueError) as bad:
        raise OptionError(f"The settings of {name} cannot be written as JSON: {bad}.") from bad
    rows: list[Row] = []
    place = 0
    while len(rows) < size and place < 2 * size + 20:
        row = _row(name, json.loads(kept), place)
        rows += [row] if row is not None else []
        place += 1
    if len(rows) < size:
        raise TaskError(f"{name} made {len(rows)} tasks with a gold answer in {place} tries; {size} were asked for.")
    return rows


def _row(name: str, settings: Mapping[str, Any], place: int) -> Row | None:
    """The row of a task, if it can be played."""
    item = _item(name, json.dumps(settings, sort_keys=True), place)
    question, answer = item["question"], item["answer"]
    if not isinstance(answer, str) or not answer.strip() or not question.strip():
        return None
    entry = {"generator": name, "settings": dict(settings), "place": place}
    row = {"id": f"{name}-{settings['seed']}-{place}", "question": question, "answers": [answer], "scorer": SCORER}
    return {**row, "entry": entry} if _gold_is_right(entry, answer) else None


def _gold_is_right(entry: Mapping[str, Any], answer: str) -> bool:
    """Whether the gold answer, said between tags, is worth everything."""
    said = tags.read(f"<answer>{answer}</answer>", LIMITS)
    return score(verbatim(said) or "", json.dumps(entry, sort_keys=True)).em == 1.0


def check_name(name: str) -> None:
    """Raise ``OptionError`` unless this generator is played."""
    if name in REFUSED:
        raise OptionError(f"The generator {name!r} of reasoning-gym is not played: {REFUSED[name]}.")
    if name not in CHECKED:
        raise OptionError(
            f"The generator {name!r} is not among the {len(CHECKED)} of reasoning-gym that are known to be safe."
            f"{closest(name, CHECKED)}"
        )


def parse_row(row: Row) -> Row:
    """``rows.parse``, for rows of ``reasoning_tasks`` too.

    Raises:
        KeyError: Such a row lacks a field.
        TaskError: It cannot be read.
        TypeError: Its entry is no mapping.
        ValueError: It is not what its generator makes.
        OptionError: Its generator is refused, or makes nothing with such settings.
    """
    if row.get("scorer") != SCORER:
        return parse(row)
    own = parse({field: value for field, value in row.items() if field != "scorer"})
    entry = row["entry"]
    name, settings, place = entry["generator"], entry["settings"], entry["place"]
    check_name(name)
    made = _row(name, settings, positive_int("place", place + 1) - 1)
    if made is None or (made["question"], made["answers"]) != (own["question"], own["answers"]):
        raise ValueError(f"its question and answer are not those that {name} makes with these settings in this place")
    return {**own, "entry": made["entry"], "scorer": SCORER}


@functools.lru_cache(maxsize=1024)
def score(answer: str, entry: str) -> AnswerScore:
    """What a generator's scorer gives for an answer.

    Args:
        answer: Of at most ``ANSWER_CHARS`` characters.
        entry: A row's, as JSON text.

    Returns:
        ``em``: whether the score is 1; the others: the score, in [0, 1]. What the scorer cannot read is worth nothing.
    """
    known = json.loads(entry)
    settings = json.dumps(known["settings"], sort_keys=True)
    generator, item = _generator(known["generator"], settings), _item(known["generator"], settings, known["place"])
    try:
        with _undisturbed():
            worth = float(generator.score_answer(answer, item))
    except _UNREADABLE:
        return NOTHING
    part = min(1.0, max(0.0, worth)) if math.isfinite(worth) else 0.0
    # A sum of parts may come out a little above 1 for an answer that is not the gold one.
    return AnswerScore(float(worth == 1.0), part, part, part)


def verbatim(said: tags.Said) -> str | None:
    """The answer of a reply, cut; None if it has none."""
    return None if said.answer is None else said.answer[:ANSWER_CHARS]


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Some generators print while they work, or draw from the global generators, which are others' to use."""
    plain, numpys = random.getstate(), np.random.get_state()
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(numpys)


@functools.lru_cache(maxsize=4096)
def _item(name: str, settings: str, place: int) -> Mapping[str, Any]:
    """A task of a generator, as this gives it."""
    generator = _generator(name, settings)
    try:
        with _undisturbed():
            item: Mapping[str, Any] = generator[place]
    except _UNMADE as bad:
        raise OptionError(
            f"The generator {name!r} of reasoning-gym makes no task {place} with {settings}: {bad}"
        ) from bad
    return item


@functools.lru_cache(maxsize=64)
def _generator(name: str, settings: str) -> Any:
    try:
        gym = importlib.import_module("reasoning_gym")
    except ImportError as missing:
        raise MissingExtraError("reasoning", "reasoning_tasks") from missing
    try:
        with _undisturbed():
            return gym.create_dataset(name, **json.loads(settings))
    except _UNMADE as bad:
        raise OptionError(f"The generator {name!r} of reasoning-gym takes no such settings: {bad}") from bad
