"""How the official scorers of question-answering sets reduce an answer to what they compare.

Nothing is Unicode-normalised anywhere, articles end at Unicode word boundaries, and ``lower`` is no case folding: the
functions give, character for character, what the scorers of the sets give.
"""

from __future__ import annotations

import re
import string

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_DELETED = str.maketrans("", "", string.punctuation)
_SPACED = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))  # the quotes that TriviaQA lists
_DROP_WORDS = re.compile("[ -]")


def squad(text: str) -> str:
    """As SQuAD 1.1 and 2.0, HotpotQA, 2WikiMultihopQA and MuSiQue do: no ASCII punctuation, no articles.

    >>> squad("The U.S. and a New-York")
    'us and newyork'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DELETED)).split())


def triviaqa(text: str) -> str:
    """As TriviaQA does: punctuation turns into spaces.

    >>> triviaqa("The U.S. and a New-York")
    'u s and new york'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_SPACED)).split())


def drop(text: str) -> str:
    """As DROP does: words end at a space or a hyphen, and what ``float`` takes is a number.

    >>> drop("The 5 pens, 1,200 words")
    '5.0 pens 1200.0 words'
    """
    words = (" ".join(_ARTICLES.sub(" ", _drop_word(word)).split()) for word in _DROP_WORDS.split(text))
    return " ".join(word for word in words if word)


def _drop_word(word: str) -> str:
    lowered = word.lower()
    bare = lowered if is_number(lowered) else lowered.translate(_DELETED)
    return str(float(bare)) if is_number(bare) else bare


def is_number(text: str) -> bool:
    """Whether ``float`` takes ``text``: also ``"1e3"``, ``"nan"`` and full-width digits."""
    if text[:1].isascii() and text[:1].isalpha() and text[:3].lower() not in ("nan", "inf"):
        # Most words are refused so in a fraction of the time that ``float`` takes.
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True
