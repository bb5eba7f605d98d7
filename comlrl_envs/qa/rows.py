"""The one parser of the family's rows: of any public set, or written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comlrl_envs.errors import closest
from comlrl_envs.qa.forms import form_of, record
from comlrl_envs.qa.scorers import SCORERS
from comlrl_envs.tasks import Row


def parse(row: Row) -> Row:
    """A row as every game of the family plays it; a row that is one already stays as it is.

    Args:
        row: Of any form of ``forms.FORMS``. A row by hand has ``question`` and ``answers``, a list of texts, or one
            ``answer``, and if it likes ``id``, ``paragraphs``, ``support``, ``kind``, ``answerable``, ``steps`` (see
            ``records.from_row``) and ``scorer``, one of ``SCORERS``. A row with an answer that holds ``"#### "`` is
            one of GSM8K, any other question with an answer alone is by hand.

    Returns:
        ``QARecord.row()``, without an empty id; ``scorer``: the row's, or else the set's own, ``"squad_v2"`` of rows
        by hand; and what fields the row has beside those of its set, as they are: templates of ``prompts=`` may use
        them, and a row's ``entry``, a mapping, is there for who made the row.

    Raises:
        TaskError: The row is of no known form, or cannot be read.
        TypeError: It is no mapping, or ``entry`` or ``scorer`` is of another type.
        ValueError: There is no such scorer.
    """
    if not isinstance(row, Mapping):
        raise TypeError(f"the row is a {type(row).__name__}; expected a mapping of its fields, such as a dict")
    form = form_of(row)
    own = {**record(row).row(), "scorer": _scorer(row.get("scorer", form.scorer))}
    if not own["id"]:
        del own["id"]
    if "entry" in row and not isinstance(row["entry"], Mapping):
        raise TypeError(f"'entry' is a {type(row['entry']).__name__}; expected a mapping")
    known = form.fields | form.others | {"id"}
    return {**own, **{name: value for name, value in row.items() if name not in known and name not in own}}


def _scorer(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"'scorer' is a {type(given).__name__}; expected one of {', '.join(SCORERS)}")
    if given not in SCORERS:
        raise ValueError(f"the scorer is {given!r:.40}; expected one of {', '.join(SCORERS)}.{closest(given, SCORERS)}")
    return given
