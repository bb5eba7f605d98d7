"""Views of text environments for learners that expect numbers, dictionaries or agents in turn.

Each view wraps any PettingZoo ``ParallelEnv`` whose observations and actions are ``str``. A view changes one side and
hands the other through, so one of each kind can be put together, in any order:

| view | observations | actions |
| --- | --- | --- |
| ``DictView`` | ``{"text": str}`` | as they are |
| ``TokenObservations`` | arrays of token ids | as they are |
| ``ChoiceView`` | as they are | ``Discrete``: which candidate reply |
| ``TokenActions`` | as they are | ``MultiDiscrete``: token ids |
| ``TokenView`` | arrays of token ids | ``MultiDiscrete``: token ids |

``aec`` gives PettingZoo's other interface, where agents act one by one.

Example:
    >>> import comlrl_envs
    >>> from comlrl_envs.views import ChoiceView, TokenObservations
    >>> env = TokenObservations(ChoiceView(comlrl_envs.make("writing/length_ratio"), ["Bees.", "Bees dance."]), 32)
    >>> observations, infos = env.reset(seed=0)
    >>> observations["summarizer"].shape, env.action_space("summarizer")
    ((32,), Discrete(2))
    >>> env.step({"summarizer": 0, "elaborator": 1})[1]["summarizer"]
    1.0
"""

from comlrl_envs.views.base import ActionView, ObservationView, View
from comlrl_envs.views.choice import ChoiceView
from comlrl_envs.views.dict_view import DictView, aec
from comlrl_envs.views.tokens import TokenActions, Tokenizer, TokenObservations, TokenView

__all__ = [
    "ActionView",
    "ChoiceView",
    "DictView",
    "ObservationView",
    "TokenActions",
    "TokenObservations",
    "TokenView",
    "Tokenizer",
    "View",
    "aec",
]
