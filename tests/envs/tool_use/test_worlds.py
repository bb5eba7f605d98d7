"""Replays of the leaderboard's gold calls agree with its own execution, whatever is asked in whatever order."""

import ast
import json
import os
import random
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from comlrl_envs.errors import OptionError
from comlrl_envs.sources.tool_sets import BFCL
from comlrl_envs.tool_use.backends import Toolkit, demo
from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.worlds import Setup, World, Worlds, play, same, toolkit

from .wheel import wheel_path

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
DOCUMENTS = (
    "gorilla_file_system", "math_api", "message_api", "posting_api", "ticket_api", "trading_bot", "travel_booking",
    "vehicle_control",
)  # fmt: skip
POST = Setup(
    ("Diary", "Post"), json.dumps({"Diary": {"tasks": [], "full": ["Roma"]}, "Post": {"stamps": 2, "coins": 1}})
)
OFFICIAL_RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import state_checker

def instances(item, texts, key):
    return multi_turn_utils.execute_multi_turn_func_call(
        texts, item["config"], item["classes"], key, item["name"], long_context=item["long_context"]
    )

out = {}
for item in json.load(sys.stdin):
    results, gold = instances(item, item["texts"], "gold")
    verdicts = []
    for place, texts in enumerate(item["altered"]):
        verdicts.append(state_checker(instances(item, texts, f"altered{place}x")[1], gold)["valid"])
    out[item["name"]] = [results, verdicts]
json.dump(out, sys.stdout)
"""


@dataclass(frozen=True)
class Item:
    """A gold list, its texts as the leaderboard writes them, and logs of which a call was left out."""

    name: str
    setup: Setup
    calls: tuple[Call, ...]
    texts: tuple[str, ...]
    left_out: tuple[int, ...]

    @property
    def log(self) -> tuple[str, ...]:
        return tuple(call.text for call in self.calls)

    def without(self, places: list[int]) -> list[int]:
        return [place for place in range(len(self.calls)) if place not in places]

    def written(self) -> dict[str, object]:
        altered = [[self.texts[place] for place in self.without([gone])] for gone in self.left_out]
        return {
            "name": self.name, "classes": self.setup.classes, "config": json.loads(self.setup.config),
            "long_context": self.setup.long_context, "texts": self.texts, "altered": altered,
        }  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("mpmath")
    folder = tmp_path_factory.mktemp("data")
    (folder / BFCL.data_path).parent.mkdir()
    (folder / BFCL.data_path).symlink_to(wheel_path())
    patch = pytest.MonkeyPatch()
    patch.setenv("COMLRL_DATA_DIR", str(folder))
    yield wheel_path()
    patch.undo()


@pytest.fixture(scope="module")
def items(wheel: Path) -> list[Item]:
    with zipfile.ZipFile(wheel) as packed:

        def rows(name: str) -> list[dict]:
            return [json.loads(line) for line in packed.read(f"bfcl_eval/data/{name}.json").decode().splitlines()]

        documents = [row for name in DOCUMENTS for row in rows(f"multi_turn_func_doc/{name}")]
        order = {row["name"]: list(row["parameters"]["properties"]) for row in documents}
        found = []
        for category in CATEGORIES:
            name = f"BFCL_v4_multi_turn_{category}"
            for row, gold in zip(rows(name), rows(f"possible_answer/{name}"), strict=True):
                assert row["id"] == gold["id"]
                texts = tuple(text for turn in gold["ground_truth"] for text in turn)
                setup = Setup(
                    tuple(row["involved_classes"]), json.dumps(row["initial_config"]), category == "long_context"
                )
                gone = random.Random(row["id"]).sample(range(len(texts)), min(2, len(texts)))
                found.append(Item(row["id"], setup, tuple(read(text, order) for text in texts), texts, tuple(gone)))
    return found


@pytest.fixture(scope="module")
def official(wheel: Path, items: list[Item]) -> dict[str, tuple[list[str], list[bool]]]:
    """By item what its gold calls return there, and the verdicts on its altered logs."""
    done = subprocess.run(
        [sys.executable, "-c", OFFICIAL_RUN, str(wheel)],
        input=json.dumps([item.written() for item in items]), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def read(text: str, order: dict[str, list[str]]) -> Call:
    node = ast.parse(text, mode="eval").body
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    given = dict(zip(order[node.func.id], map(ast.literal_eval, node.args), strict=False))
    return Call(node.func.id, {**given, **{each.arg: ast.literal_eval(each.value) for each in node.keywords}})


def test_all_gold_lists_give_the_official_results_in_any_order_and_again(items, official):
    worlds = Worlds()
    for seed in (0, 1):
        for item in random.Random(seed).sample(items, len(items)):
            assert list(worlds.play(item.setup, (), item.calls)) == official[item.name][0], item.name
    assert len(items) == 800
    assert sum(len(item.calls) for item in items) == 4625


def test_calls_asked_singly_in_shuffled_order_give_the_official_results(items, official):
    asked = [(item, place) for item in items[::4] for place in range(len(item.calls))]
    random.Random(2).shuffle(asked)
    worlds = Worlds(most_worlds=16)
    for item, place in asked:
        got = worlds.play(item.setup, item.log[:place], item.calls[place : place + 1])
        assert list(got) == official[item.name][0][place : place + 1], (item.name, place)


def test_branches_in_mid_episode_leave_each_other_alone(items, official):
    worlds = Worlds()
    for item in items:
        half = len(item.calls) // 2
        for other in reversed(item.calls):
            worlds.play(item.setup, item.log[:half], (other, *item.calls[:2]))
        got = worlds.play(item.setup, item.log[:half], item.calls[half:])
        assert list(got) == official[item.name][0][half:], item.name


def test_the_smallest_cache_gives_the_same(items, official):
    worlds = Worlds(most_worlds=1, most_states=1)
    asked = [(item, place) for item in items[::10] for place in range(len(item.calls))]
    random.Random(3).shuffle(asked)
    for item, place in asked:
        got = worlds.play(item.setup, item.log[:place], item.calls[place:])
        assert list(got) == official[item.name][0][place:], (item.name, place)
        assert len(worlds) == 1


def test_the_state_check_says_what_the_official_one_says(items, official):
    worlds = Worlds()
    seen = set()
    for item in items:
        assert worlds.same(item.setup, item.log, list(item.log))
        for gone, verdict in zip(item.left_out, official[item.name][1], strict=True):
            log = tuple(item.log[place] for place in item.without([gone]))
            assert worlds.same(item.setup, log, item.log) is verdict, (item.name, gone)
            assert worlds.same(item.setup, item.log, log) is verdict, (item.name, gone)
            seen.add(verdict)
    assert seen == {True, False}


def test_calls_said_to_change_nothing_change_nothing(items):
    import pickle

    checked = set()
    for item in items[::2]:
        tools = toolkit(item.setup.classes)
        world = World(tools, item.setup)
        for place, call in enumerate(item.calls):
            owner = next(name for name in item.setup.classes if call.name in tools.methods[name])
            if call.name in tools.reads[owner]:
                object_there = world._at(item.log[:place]).versions[owner].seen(tools.methods[owner])
                before = pickle.dumps(vars(pickle.loads(pickle.dumps(object_there))))
                world.play(item.log[:place], [call])
                assert pickle.dumps(vars(pickle.loads(pickle.dumps(object_there)))) == before, call.text
                checked.add(call.name)
    assert len(checked) > 30


def test_threads_share_worlds(items, official):
    worlds = Worlds(most_worlds=4)

    def ask(seed: int) -> None:
        for item in random.Random(seed).sample(items[::20], 40):
            half = len(item.calls) // 2
            assert list(worlds.play(item.setup, item.log[:half], item.calls[half:])) == official[item.name][0][half:]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_goes_on_though_another_thread_held_the_lock(items, official):
    item = items[0]
    half = len(item.calls) // 2
    worlds = Worlds()
    worlds.play(item.setup, (), item.calls[:half])
    with worlds._lock:
        child = os.fork()
        if child == 0:
            right = list(worlds.play(item.setup, item.log[:half], item.calls[half:])) == official[item.name][0][half:]
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(worlds.play(item.setup, item.log[:half], item.calls[half:])) == official[item.name][0][half:]


def test_default_arguments_are_not_shared_between_episodes(wheel):
    setup = Setup(("TwitterAPI",), json.dumps({"TwitterAPI": {"authenticated": True}}))
    for name in ("ann", "bob"):
        calls = [
            Call("post_tweet", {"content": name}),
            Call("mention", {"tweet_id": 0, "mentioned_usernames": [name]}),
            Call("get_tweet", {"tweet_id": 0}),
        ]
        assert json.loads(Worlds().play(setup, (), calls)[-1])["mentions"] == [name]


def test_tables_of_the_modules_are_not_shared_between_episodes(wheel):
    travel = Setup(("TravelAPI",), json.dumps({"TravelAPI": {"access_token": "t", "token_expires_in": 9}}), True)
    cards = json.loads(play(travel, (), [Call("get_all_credit_cards", {})])[0])["credit_card_list"]
    card, entry = next((card, entry) for card, entry in cards.items() if entry["balance"] > 5000)
    flight = {"travel_date": "2024-11-11", "travel_from": "SFO", "travel_to": "LAX", "travel_class": "economy"}
    booked = Call("book_flight", {"access_token": "t", "card_id": card, **flight})
    for _ in range(2):
        results = Worlds().play(travel, (), [booked, Call("get_all_credit_cards", {})])
        assert json.loads(results[0])["booking_status"]
        assert 0 < entry["balance"] - json.loads(results[1])["credit_card_list"][card]["balance"] <= 400


def test_values_of_a_call_are_not_the_states():
    setup = Setup(("Keeper",), "{}")
    worlds = Worlds(tools=Toolkit({"Keeper": Keeper}, {"Keeper": frozenset({"keep", "grow"})}))
    given = Call("keep", {"values": [1]})
    assert worlds.play(setup, (), [given, Call("grow", {})]) == ("None", "[1, 0]")
    assert given.arguments["values"] == [1]


class Keeper:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def keep(self, values: list[int]) -> None:
        self.values = values

    def show(self) -> str:
        return repr(self.values)

    def grow(self) -> list[int]:
        self.values.append(0)
        return self.values


def test_logs_are_read_again_whatever_they_hold():
    setup = Setup(("Keeper",), "{}")
    for value in ("x" * 30_000, "\0\n'\"\\", "\u202e\U0001f600", -1.5, 10**300, True, None, [[], {"a": [1, -2.0]}]):
        log = (Call("keep", {"values": value}).text,)
        worlds = Worlds(tools=Toolkit({"Keeper": Keeper}, {"Keeper": frozenset({"keep", "show"})}))
        assert worlds.play(setup, log, [Call("show", {})]) == (repr(value)[:100_000],)


def test_machines_of_the_demo_set():
    mail, thing = Call("send_mail", {"to": "Ann"}), Call("buy", {"item": "tea"})
    results = play(POST, (), [mail, thing, thing])
    assert results == (
        '{"sent_to": "Ann", "stamps": 1}',
        '{"bought": "tea", "coins": 0}',
        '{"error": "no coins are left"}',
    )
    assert play(POST, (mail.text,), [mail]) == ('{"sent_to": "Ann", "stamps": 0}',)
    assert same(POST, (mail.text, thing.text), (thing.text, mail.text, thing.text))
    assert not same(POST, (mail.text,), (thing.text,))
    assert play(POST, (), [Call("play_song", {"title": "x"})]) == (
        "Error during execution: name 'play_song' is not defined",
    )


@pytest.mark.parametrize("classes", [("Pots",), ("Post", "MathAPI"), ("__class__",)])
def test_unknown_classes_are_refused(classes):
    with pytest.raises(OptionError, match="unknown here"):
        play(Setup(classes, "{}"), (), [])


def test_errors_say_what_is_expected():
    with pytest.raises(OptionError, match="JSON object"):
        play(Setup(("Diary",), "[]"), (), [])
    with pytest.raises(OptionError, match=r"expected texts of calls"):
        play(POST, ("no call",), [])
    with pytest.raises(OptionError, match=r"expected texts of calls"):
        play(POST, ("send_mail(to=print(1))",), [])
    with pytest.raises(OptionError, match="most_worlds"):
        Worlds(0)
    with pytest.raises(OptionError, match="Did you mean 'Diary'"):
        World(demo(), Setup(("Diari",), "{}"))
