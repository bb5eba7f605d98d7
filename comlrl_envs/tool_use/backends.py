"""Classes whose methods agents call, and the one way a call reaches them.

A call names a method of an allow-list and gives literal arguments; nothing is ever evaluated. The eight classes of the
Berkeley Function Calling Leaderboard come from the package ``bfcl-eval``, installed or as a wheel, and do what they do
there, but for this: a call changes nothing outside its instance (there: the precision of ``decimal`` and ``mpmath``,
default arguments, tables of the module), what does not end in milliseconds is refused, members of a set are told in
sorted order, and ages are those of the day of the package's release.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comlrl_envs.errors import MissingExtraError, OptionError
from comlrl_envs.sources.tool_sets import BFCL
from comlrl_envs.sources.wheel import installed, kept, places
from comlrl_envs.tool_use.calls import Call
from comlrl_envs.tool_use.guards import Guard, guards

MOST_RESULT = 100_000
"""Characters of a result; the rest is cut."""
_PACKAGE = BFCL.package
_SOURCE = f"{_PACKAGE}.eval_checker.multi_turn_eval.func_source_code"
_MODULES = {
    "GorillaFileSystem": ("gorilla_file_system", "pwd ls cat find wc sort grep du tail diff"),
    "MathAPI": ("math_api", ""),
    "MessageAPI": (
        "message_api",
        "list_users get_user_id message_get_login_status view_messages_sent search_messages get_message_stats",
    ),
    "TwitterAPI": (
        "posting_api",
        "posting_get_login_status list_all_following get_tweet get_user_tweets search_tweets get_tweet_comments "
        "get_user_stats",
    ),
    "TicketAPI": ("ticket_api", "get_ticket ticket_get_login_status get_user_tickets"),
    "TradingBot": (
        "trading_bot",
        "get_current_time get_symbol_by_name get_stock_info get_order_details get_account_info get_watchlist "
        "trading_get_login_status get_order_history get_transaction_history get_available_stocks "
        "filter_stocks_by_price notify_price_change",
    ),
    "TravelAPI": (
        "travel_booking",
        "travel_get_login_status get_budget_fiscal_year get_credit_card_balance retrieve_invoice get_booking_history "
        "list_all_airports compute_exchange_rate verify_traveler_information get_nearest_airport_by_city "
        "contact_customer_support get_all_credit_cards",
    ),
    "VehicleControlAPI": (
        "vehicle_control",
        "displayCarStatus get_outside_temperature_from_weather_com display_log estimate_drive_feasibility_by_mileage "
        "liter_to_gallon gallon_to_liter estimate_distance get_zipcode_based_on_city check_tire_pressure "
        "find_nearest_tire_shop",
    ),
}
"""By class its module, and the methods that leave its state as it is (of the second class: all)."""
OFFICIAL_CLASSES = tuple(_MODULES)
"""Names of the leaderboard's classes."""

_guards: dict[Callable[..., Any], Guard] = {}
_loading = threading.RLock()


@dataclass(frozen=True, eq=False)
class Toolkit:
    """Classes with methods that may be called.

    Attributes:
        classes: By name.
        methods: By name of a class those that may be called.
        reads: By name of a class those of them that leave the state as it is; need not be complete.
    """

    classes: Mapping[str, type]
    methods: Mapping[str, frozenset[str]]
    reads: Mapping[str, frozenset[str]] = field(default_factory=dict)


def run(instance: object, allowed: frozenset[str], call: Call) -> str:
    """What a call returns, as text: the one way in which calls of agents reach an object.

    Args:
        instance: Whose method is called.
        allowed: Names of its methods that may be called.
        call: Its arguments are copied, so that the state never holds a value of the call.

    Returns:
        A text as it is, a dictionary in JSON (or else as Python shows it), anything else as Python shows it, and for an
        exception ``"Error during execution: "`` and its message; ``MOST_RESULT`` characters at most.
    """
    if call.name not in allowed:
        return f"Error during execution: name {call.name!r} is not defined"
    try:
        function: Callable[..., Any] = getattr(type(instance), call.name)
        arguments = {**_fresh(function), **{name: _copy(value) for name, value in call.arguments.items()}}
        guard = _guards.get(function)
        result = function(instance, **arguments) if guard is None else guard(function, instance, arguments)
        return _text(result)[:MOST_RESULT]
    except Exception as error:
        return f"Error during execution: {error}"[:MOST_RESULT]


def _text(result: object) -> str:
    if type(result) is dict:
        try:
            return json.dumps(result)
        except (TypeError, ValueError, RecursionError):
            return str(result)
    return str(result)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copy, value))
    return value


def _fresh(function: Callable[..., Any]) -> dict[str, Any]:
    """Copies of the defaults that a method could change for all who call it later."""
    changeable = _changeable_defaults(function)
    return {name: _copy(value) for name, value in changeable} if changeable else {}


@functools.lru_cache(maxsize=1024)
def _changeable_defaults(function: Callable[..., Any]) -> tuple[tuple[str, Any], ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple((each.name, each.default) for each in parameters if isinstance(each.default, (list, dict)))


@functools.cache
def demo() -> Toolkit:
    """The machines of the demo set, with all their public methods."""
    from comlrl_envs.tool_use.demo.machines import MACHINES

    methods = {
        name: frozenset(each for each in vars(machine) if not each.startswith("_"))
        for name, machine in MACHINES.items()
    }
    return Toolkit(dict(MACHINES), methods)


def official() -> Toolkit:
    """The eight classes of the leaderboard, loaded once in a process.

    They come from the installed package ``bfcl-eval`` of the version that the sets are of, or else from its
    wheel in a data folder or the cache.

    Raises:
        MissingExtraError: The package ``mpmath`` is not installed.
        OptionError: Neither package nor wheel is found, or another version is imported already.
        TaskError: The file that should be the wheel is another one.
    """
    with _loading:
        return _load()


@functools.cache
def _load() -> Toolkit:
    try:
        importlib.import_module("mpmath")
    except ImportError as missing:
        raise MissingExtraError("tools", "The classes of the Berkeley Function Calling Leaderboard") from missing
    classes: dict[str, type] = {}
    methods, reads = {}, {}
    with _findable():
        for name, (module_name, reading) in _MODULES.items():
            module = importlib.import_module(f"{_SOURCE}.{module_name}")
            classes[name] = getattr(module, name)
            methods[name] = _documented(module, f"{module_name}.json")
            reads[name] = frozenset(reading.split()) or methods[name]
    for (name, method), guard in guards().items():
        _guards[getattr(classes[name], method)] = guard
    return Toolkit(classes, methods, reads)


@contextmanager
def _findable() -> Iterator[None]:
    """While it lasts, the package can be imported."""
    if installed(BFCL):
        yield
        return
    wheel = str(_wheel())
    loaded = sys.modules.get(_PACKAGE)
    if loaded is not None and not any(path.startswith(wheel) for path in loaded.__path__):
        raise OptionError(
            f"Another {_PACKAGE} is imported in this process, from {list(loaded.__path__)}; expected {BFCL.version}. "
            f"Install {BFCL.requirement}, or do not import it before."
        )
    sys.path.insert(0, wheel)
    try:
        yield
    finally:
        sys.path.remove(wheel)


def _wheel() -> Path:
    found = kept(BFCL)
    if found is None:
        raise OptionError(
            f"The classes of {BFCL.requirement} are not at hand. Run `comlrl-envs fetch tool_use/multi_turn`, or put "
            f"{BFCL.filename} into {places(BFCL)[0].parent}."
        )
    return found


def _documented(module: types.ModuleType, name: str) -> frozenset[str]:
    """Names of the functions that a file of the package documents."""
    assert module.__file__ is not None and module.__spec__ is not None
    path = Path(module.__file__).parents[3] / "data" / "multi_turn_func_doc" / name
    loader: Any = module.__spec__.loader
    return frozenset(json.loads(line)["name"] for line in loader.get_data(str(path)).decode("utf-8").splitlines())


def _forget_lock() -> None:
    """In a fork: a lock that a thread of the parent held stays held here."""
    global _loading
    _loading = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)
