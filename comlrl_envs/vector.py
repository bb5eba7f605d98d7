"""Many episodes stepped together, as lists."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from comlrl_envs.env import Infos, TextEnv, Texts, Transition
from comlrl_envs.errors import EpisodeError, OptionError, positive_int

Batch: TypeAlias = tuple[list[Texts], list[dict[str, float]], list[dict[str, bool]], list[dict[str, bool]], list[Infos]]
PerEnv: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None"


class VectorTextEnv:
    """``num_envs`` environments of one game, scored in one call a step.

    This is not a ``gymnasium.vector.VectorEnv``: texts are not stacked into arrays, everything is a list in the order
    of the environments, and an episode that ends stays over until it is reset by its index. There is no autoreset.

    Args:
        env: Says what to play; it is forked, not used.
        num_envs: How many, >= 1.

    Attributes:
        envs: The environments; each may be inspected, and stepped only here.
    """

    def __init__(self, env: TextEnv, num_envs: int) -> None:
        self.num_envs = positive_int("num_envs", num_envs)
        self.game = env.game
        self.tasks = env.tasks
        self.spec = env.spec
        self.possible_agents = list(env.possible_agents)
        self.envs = [env.fork() for _ in range(num_envs)]
        for place, twin in enumerate(self.envs):
            twin.take_stream(env, place)

    @property
    def agents(self) -> list[list[str]]:
        """The live agents of each environment; empty where the episode is over."""
        return [list(env.agents) for env in self.envs]

    def reset(
        self,
        seed: int | Sequence[int | None] | None = None,
        options: PerEnv = None,
        indices: Sequence[int] | None = None,
    ) -> tuple[list[Texts], list[Infos]]:
        """Begin episodes in all environments, or in those at ``indices``.

        Args:
            seed: One integer, to which each environment adds its index, or one a reset environment; None continues
                their own streams. The episode is the one that ``TextEnv.reset`` begins with that seed.
            options: As in ``TextEnv.reset``: one for all, or one a reset environment.
            indices: Which environments; default all.

        Returns:
            Observations and infos of the environments that were reset, in the order of ``indices``.
        """
        chosen = list(range(self.num_envs)) if indices is None else [self._place(i) for i in indices]
        if seed is None or isinstance(seed, Sequence):
            seeds = self._each("seed", [None] * len(chosen) if seed is None else seed, chosen)
        else:
            seeds = [operator.index(seed) + i for i in chosen]
        given = [options] * len(chosen) if options is None or isinstance(options, Mapping) else options
        began = [
            self.envs[i].reset(s, o)
            for i, s, o in zip(chosen, seeds, self._each("options", given, chosen), strict=True)
        ]
        return [observations for observations, _ in began], [infos for _, infos in began]

    def step(self, actions: Sequence[Mapping[str, str] | None]) -> Batch:
        """Play one joint action in each live environment.

        Args:
            actions: One joint action an environment; None or ``{}`` where the episode is over.

        Returns:
            Observations, rewards, terminations, truncations and infos, a list of each; empty dicts where the episode
            was over already.

        Raises:
            EpisodeError: An environment whose episode is over, or has not begun, was given actions.
        """
        self._each("actions", actions, range(self.num_envs))
        live = [i for i, env in enumerate(self.envs) if env.agents]
        for i, joint in enumerate(actions):
            if joint and not self.envs[i].agents:
                raise EpisodeError(f"Environment {i} is over or not begun: reset(indices=[{i}]), or pass None.")
        # No environment changes before all have been scored, so that a failure leaves every one as it was.
        stepped = self.game.step_many([(self.envs[i].episode, actions[i] or {}) for i in live])
        results: list[Transition] = [({}, {}, {}, {}, {}) for _ in self.envs]
        for i, episode in zip(live, stepped, strict=True):
            results[i] = self.envs[i].commit(episode)
        return (
            [result[0] for result in results],
            [result[1] for result in results],
            [result[2] for result in results],
            [result[3] for result in results],
            [result[4] for result in results],
        )

    def close(self) -> None:
        """Nothing to release: handles are shared in the process."""

    def _place(self, index: int) -> int:
        place = operator.index(index)
        if not 0 <= place < self.num_envs:
            raise OptionError(f"Environment index {index} is out of range; there are {self.num_envs}, from 0.")
        return place

    def _each(self, name: str, values: Sequence[Any], chosen: Sequence[int]) -> Sequence[Any]:
        if len(values) != len(chosen):
            raise OptionError(f"{name} holds {len(values)} entries for {len(chosen)} environments; give one each.")
        return values
