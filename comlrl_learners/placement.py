"""Which device each agent's model lies on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from comlrl_envs.errors import closest
from comlrl_learners.errors import ConfigError

Devices: TypeAlias = "dict[str, str] | tuple[str, ...] | str | None"
"""One device for all, one per agent in order, or some by agent; None leaves the choice."""


def check_devices(setting: str, given: object) -> None:
    """Hold a setting to the forms of `Devices`.

    Raises:
        ConfigError: It is none of them.
    """
    names = given.values() if isinstance(given, dict) else given if isinstance(given, (tuple, list)) else [given]
    for name in names:
        if not isinstance(name, (str, type(None))):
            raise ConfigError(
                f"{setting}={given!r}: {name!r} is no device. Give names such as 'cpu' or 'cuda:0': one, one per "
                "agent, or a dict by agent."
            )


def place(devices: Devices | Sequence[str], agents: Sequence[str], setting: str) -> dict[str, str | None]:
    """The device of each agent, None where none was named.

    Args:
        devices: See `Devices`.
        agents: The agents whose models are placed, in order.
        setting: Name of the setting, for messages.

    Raises:
        ConfigError: Another number of devices than of agents, or an unknown agent.
    """
    if devices is None or isinstance(devices, str):
        return dict.fromkeys(agents, devices)
    if isinstance(devices, Mapping):
        for name in devices:
            if name not in agents:
                raise ConfigError(f"{setting} names {name!r}, and there is {list(agents)}.{closest(name, agents)}")
        return {agent: devices.get(agent) for agent in agents}
    if len(devices) != len(agents):
        raise ConfigError(
            f"{setting} lists {len(devices)} devices for {len(agents)} models ({', '.join(agents)}). Give one for "
            "each, or a single one for all."
        )
    return dict(zip(agents, devices, strict=True))
