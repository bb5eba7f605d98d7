import functools

import pytest

from comlrl_envs import OptionError
from comlrl_envs.reward_call import FeedbackFunction, RewardFunction

TWO = (["a1", "a2"], ["b1", "b2"])
ITEMS = [{"i": 0}, {"i": 1}]
PROMPTS = ["p1", "p2"]


def call(func, completions=TWO):
    return RewardFunction(func, len(completions))(completions, ITEMS, PROMPTS)


class Method:
    def score(self, a, b):
        return ("method", a, b)

    def __call__(self, a, b, *, batch_items):
        return ("object", a, b, batch_items)


@pytest.mark.parametrize(
    ("func", "got"),
    [
        (lambda a, b: (a, b), TWO),
        (lambda a, b=None: (a, b), TWO),
        (lambda a, b, scale=1.0: (a, b, scale), (*TWO, 1.0)),
        (lambda *texts: texts, TWO),
        (lambda texts: texts, list(TWO)),
        (lambda prompts, a, b: (prompts, a, b), (PROMPTS, *TWO)),
        (lambda first, a, b: (first, a, b), (PROMPTS, *TWO)),
        (lambda prompts, *texts: (prompts, texts), (PROMPTS, TWO)),
        (lambda a, b, batch_items: (a, b, batch_items), (*TWO, ITEMS)),
        (lambda a, b, batch_items=None, prompts=None: (a, b, batch_items, prompts), (*TWO, ITEMS, PROMPTS)),
        (lambda prompts, a, b, *, batch_items: (prompts, a, b, batch_items), (PROMPTS, *TWO, ITEMS)),
        (lambda texts, *, prompts: (texts, prompts), (list(TWO), PROMPTS)),
        (lambda a, b, **rest: (a, b, rest), (*TWO, {"batch_items": ITEMS, "prompts": PROMPTS})),
        (functools.partial(lambda a, b, scale: (a, b, scale), scale=3), (*TWO, 3)),
        (Method().score, ("method", *TWO)),
        (Method(), ("object", *TWO, ITEMS)),
    ],
)
def test_forms(func, got):
    assert call(func) == got


def test_one_agent():
    one = (["a1"],)
    assert call(lambda a: a, one) == ["a1"]
    assert call(lambda prompts, a: (prompts, a), one) == (PROMPTS, ["a1"])


@pytest.mark.parametrize("func", [lambda: 0, lambda a, b, c, d: 0, lambda prompts, a: 0])
def test_a_signature_that_fits_no_form_is_refused(func):
    with pytest.raises(OptionError, match="positional"):
        RewardFunction(func, 2)


def test_not_callable_or_not_readable():
    with pytest.raises(OptionError, match="int"):
        RewardFunction(3, 2)
    with pytest.raises(OptionError, match="wrap it in a def"):
        RewardFunction(dict.update, 2) and RewardFunction(max, 2)


def test_feedback_takes_histories_only_if_it_asks():
    arguments = ("p", ["a", "b"], [["x"], ["y"]], [["a"], ["b"]])
    assert FeedbackFunction(lambda p, c, n: (p, c, n))(*arguments) == ("p", ["a", "b"], 2)
    both = FeedbackFunction(lambda p, c, n, prompt_history_per_agent=None, **rest: (prompt_history_per_agent, rest))
    assert both(*arguments) == ([["x"], ["y"]], {"response_history_per_agent": [["a"], ["b"]]})
