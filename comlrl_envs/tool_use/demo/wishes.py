"""What people ask for in the demo sets, and the functions that do it.

The splits share no value, so no request either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

COUNTS = {"train": 64, "eval": 32}
CITIES = {"train": ("Oslo", "Rome", "Paris", "Cairo", "Lima", "Delhi"), "eval": ("Tokyo", "Bern", "Madrid", "Vienna")}
NAMES = {
    "train": ("Mira", "Tom", "Anna", "Leo", "Nina", "Omar", "Ida", "Sam"),
    "eval": ("Rosa", "Paul", "Eva", "Ben"),
}
WORDS = {"train": ("boats", "music", "milk", "songs", "games", "roads"), "eval": ("trees", "wind", "hats", "coins")}


@dataclass(frozen=True)
class Tool:
    """A function of the demo sets.

    Attributes:
        name: Of the function.
        parameter: Its only one, a string.
        wish: What a request says for it, with ``{}`` in the place of the value.
        values: By split what the value may be.
        told: What the function does, for its document.
    """

    name: str
    parameter: str
    wish: str
    values: dict[str, tuple[str, ...]]
    told: str

    @property
    def document(self) -> dict[str, Any]:
        """Its document, in the form of the public sets."""
        properties = {self.parameter: {"type": "string", "description": f"The {self.parameter} that is meant."}}
        return {
            "name": self.name,
            "description": self.told,
            "parameters": {"type": "dict", "properties": properties, "required": [self.parameter]},
        }


GET_WEATHER = Tool("get_weather", "city", "show the weather in {}", CITIES, "Show the weather in a city.")
PLAY_SONG = Tool("play_song", "title", "play the song {}", WORDS, "Play a song.")
SEND_MAIL = Tool("send_mail", "to", "send a mail to {}", NAMES, "Send a mail to somebody.")
FIND_WORD = Tool("find_word", "word", "look up {}", WORDS, "Look a word up.")
BOOK_TABLE = Tool("book_table", "place", "book a table at {}", CITIES, "Book a table at a place.")
ADD_TASK = Tool("add_task", "name", "add the task {}", WORDS, "Put a task on the list.")
OPEN_FILE = Tool("open_file", "path", "open the file {}", WORDS, "Open a file.")
BUY = Tool("buy", "item", "buy some {}", WORDS, "Buy something.")
TOOLS = (GET_WEATHER, PLAY_SONG, SEND_MAIL, FIND_WORD, BOOK_TABLE, ADD_TASK, OPEN_FILE, BUY)


@dataclass(frozen=True)
class Wish:
    """A thing that is asked for.

    Attributes:
        tool: What does it.
        value: What the tool is given.
    """

    tool: Tool
    value: str

    @property
    def words(self) -> str:
        """As a part of a request."""
        return self.tool.wish.format(self.value)

    @property
    def call(self) -> dict[str, dict[str, str]]:
        """The call that does it, by name, and its argument by name."""
        return {self.tool.name: {self.tool.parameter: self.value}}


def wish(tool: Tool, split: str, rng: np.random.Generator) -> Wish:
    """A wish with a value of the split."""
    values = tool.values[split]
    return Wish(tool, values[int(rng.integers(len(values)))])


def some(tools: Sequence[Tool], count: int, rng: np.random.Generator) -> list[Tool]:
    """So many of the tools, each once, in any order."""
    return [tools[int(place)] for place in rng.permutation(len(tools))[:count]]


def asked(wishes: Sequence[Wish]) -> str:
    """A request for all of them."""
    return " and ".join(each.words for each in wishes)
