"""HumanEval by two: a helper and a main function that together solve a problem.

- Agents: ``helper`` writes a function ``aux``, ``main`` the function that is tested and may call it; both at the same
  time, neither sees the other's code. ``num_agents=1``: main alone; 3 and more: ``helper_1`` with ``aux_1`` and so on.
- Observation: the problem, and the helper's name with the parameters of the function; from the second turn on also the
  feedback: ``"plain"`` (a request to revise), ``"passed"`` (whether all checks passed), ``"levels"`` (a line each on
  function, syntax, tests and use of the helper), ``"diagnosis"`` (with lines, reasons and failing tests) or
  ``"expert"`` (edits by a model behind an OpenAI-compatible endpoint, which reads everybody's code and the diagnosis:
  ``expert_model="NAME"``, ``expert_base_url="http://..."``; the diagnosis if it gives no answer). No test that scores
  is ever shown: feedback has tests of its own, or where a task has one test alone, only its outcome. With
  ``max_turns=1`` or ``"plain"`` nothing is told of tests, and all of them score.
- Action: any text; the code in it is found by its syntax, in fences or not.
- Reward: in ``[0, 4]`` (main alone: 2.1). ``reward="published"`` (default): 0.4 if the helper's function returns
  something, 0.6 if main's does; where main's does, 0.5 if the program compiles; where it compiles, the share of tests
  passed; if a test passed and main calls the helper, 0.5, and 1.0 if main is no thin wrapper around it
  (one ``return`` that mentions the helper is one, whatever else it does); -0.5 if main ignores what the helper returns.
  ``reward="strict"``: those 0.5 and 1.0 in proportion to what the tests lose when the helper returns None.
- Episode end: after ``max_turns`` joint actions (default 1).
- Programs run in ``comlrl_envs.sandbox``; tests run outside the process of the program. Both may import the standard
  library alone. An expert takes the extra ``openai``.
- Metrics: ``tests_num`` of ``tests_den`` passed, ``compiles``, ``helper_called``, ``thin_wrapper``, ``timeouts``,
  ``success`` (all tests passed), ``expert_failed`` (an expert was asked and gave no answer); per agent ``usable`` (its
  function can be run) and ``characters``.
- Data: HumanEval (MIT), its first 32 problems held out, 130 to train on; rows such as ``{"prompt": "def f(x): ...",
  "entry_point": "f", "test": "def check(candidate): ..."}``; for the oracle ``aux`` and ``main``, an answer of two,
  or ``canonical_solution``, one of main alone. Demo set: 64 train and 32 eval problems written for this project (MIT).
- Channel: none; a helper is heard through its function alone. An ``"expert"`` may repeat to one what another wrote.
- Versions: v0, first release.

Example:
    >>> import comlrl_envs
    >>> env = comlrl_envs.make(
    ...     "coding/humaneval", source="demo", max_turns=2, feedback="levels"
    ... )
    >>> _ = env.reset(seed=0, options={"task": "market"})
    >>> main = "def market(a): part = aux(a); return part[0]"
    >>> observations, rewards, *_ = env.step({"helper": "", "main": main})
    >>> rewards["main"], observations["main"].split(chr(10))[-3]
    (1.1, 'Tests: none passed.')
    >>> env.step({"helper": "def aux(a): return sorted(a)", "main": main})[1]["main"]
    4.0
"""

from __future__ import annotations

from typing import Any

from comlrl_envs.coding.function_task import function_env
from comlrl_envs.env import TextEnv


def parallel_env(**kwargs: Any) -> TextEnv:
    """The environment; keyword arguments are the scenario's settings and those that every id accepts."""
    return function_env("humaneval", kwargs)
