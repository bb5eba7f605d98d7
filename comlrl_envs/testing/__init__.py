"""The conformance suite for authors of environments: what the shipped ones are checked with.

``check_env`` runs every check and lists all that fails. ``CHECKS`` holds them by name, each a function of a
``Subject``, for a test framework's parametrisation; nothing here needs one. ``validate`` measures what a sound game
shows in numbers. Golden episodes keep prompts and rewards of a version as they are.

>>> from comlrl_envs.testing import CHECKS, Subject
>>> CHECKS["rewards"](Subject("writing/length_ratio"))
"""

from comlrl_envs.testing.golden import check_golden, record_golden
from comlrl_envs.testing.hostile import hostile_text, hostile_texts
from comlrl_envs.testing.play import Chooser
from comlrl_envs.testing.proof import BlankCost, OracleProof
from comlrl_envs.testing.subject import CheckError, Subject
from comlrl_envs.testing.suite import CHECKS, Check, ConformanceError, Failure, check_env, run_check
from comlrl_envs.testing.validation import Line, Validation, validate

__all__ = [
    "CHECKS",
    "BlankCost",
    "Check",
    "CheckError",
    "Chooser",
    "ConformanceError",
    "Failure",
    "Line",
    "OracleProof",
    "Subject",
    "Validation",
    "check_env",
    "check_golden",
    "hostile_text",
    "hostile_texts",
    "record_golden",
    "run_check",
    "validate",
]
