"""Three small machines of the demo set: a diary, a post office and a lounge, each with a state of its own.

They stand beside the classes of the public set: public attributes are the state that is compared, methods return
what the caller is told, and ``_load_scenario`` sets the state of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from comlrl_envs.tool_use.demo.wishes import (
    ADD_TASK,
    BOOK_TABLE,
    BUY,
    FIND_WORD,
    GET_WEATHER,
    OPEN_FILE,
    PLAY_SONG,
    SEND_MAIL,
    Tool,
)

WEATHER = ("sun", "rain", "wind", "snow")


class Diary:
    """What is to be done, and where a table is kept."""

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.tables: list[str] = []
        self.full: list[str] = []

    def _load_scenario(self, config: Mapping[str, Any], long_context: bool = False) -> None:
        self.tasks, self.tables, self.full = list(config["tasks"]), [], list(config["full"])

    def add_task(self, name: str) -> dict[str, Any]:
        """Put a task at the end of the list; one that is there already stays where it is."""
        if name in self.tasks:
            return {"error": f"{name} is on the list"}
        self.tasks.append(name)
        return {"task": name, "number": len(self.tasks)}

    def book_table(self, place: str) -> dict[str, Any]:
        """Book a table, where one is free."""
        if place in self.full:
            return {"error": f"no table is free at {place}"}
        self.tables.append(place)
        return {"table": place}


class Post:
    """A post office with a shop, which takes stamps for mails and coins for things."""

    def __init__(self) -> None:
        self.stamps = 0
        self.coins = 0
        self.sent: list[str] = []
        self.bought: list[str] = []

    def _load_scenario(self, config: Mapping[str, Any], long_context: bool = False) -> None:
        self.stamps, self.coins, self.sent, self.bought = int(config["stamps"]), int(config["coins"]), [], []

    def send_mail(self, to: str) -> dict[str, Any]:
        """Send a mail, which takes a stamp."""
        if not self.stamps:
            return {"error": "no stamps are left"}
        self.stamps -= 1
        self.sent.append(to)
        return {"sent_to": to, "stamps": self.stamps}

    def buy(self, item: str) -> dict[str, Any]:
        """Buy something, which takes a coin."""
        if not self.coins:
            return {"error": "no coins are left"}
        self.coins -= 1
        self.bought.append(item)
        return {"bought": item, "coins": self.coins}


class Lounge:
    """A screen and a player: two of its functions change nothing but what is open."""

    def __init__(self) -> None:
        self.playing = ""
        self.open = ""

    def _load_scenario(self, config: Mapping[str, Any], long_context: bool = False) -> None:
        self.playing, self.open = "", str(config["open"])

    def play_song(self, title: str) -> dict[str, Any]:
        """Play a song in the place of the last one."""
        before, self.playing = self.playing, title
        return {"playing": title, "stopped": before}

    def open_file(self, path: str) -> dict[str, Any]:
        """Open a file in the place of the last one."""
        before, self.open = self.open, path
        return {"open": path, "closed": before}

    def get_weather(self, city: str) -> dict[str, Any]:
        """The weather, which is the same in a city at all times."""
        return {"city": city, "weather": WEATHER[sum(map(ord, city)) % len(WEATHER)]}

    def find_word(self, word: str) -> dict[str, Any]:
        """How a word is written and how long it is."""
        return {"word": word, "letters": len(word)}


MACHINES: Mapping[str, type[Diary] | type[Post] | type[Lounge]] = {"Diary": Diary, "Post": Post, "Lounge": Lounge}
TOOLS_OF: Mapping[str, tuple[Tool, ...]] = {
    "Diary": (ADD_TASK, BOOK_TABLE),
    "Post": (SEND_MAIL, BUY),
    "Lounge": (PLAY_SONG, OPEN_FILE, GET_WEATHER, FIND_WORD),
}
