"""A Ray that works in this process, one call after another, with actors that die on demand."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


class RayActorError(Exception):
    pass


class RayTaskError(Exception):
    def __init__(self, cause: Exception) -> None:
        self.cause = cause


@dataclass(frozen=True, eq=False)
class Reference:
    number: int
    group: Any


class FakeRay:
    """slow: clips whose result comes only after all others; deaths: clip → how often it kills."""

    def __init__(self, answer: Any, deaths: dict[str, int], slow: tuple[str, ...] = ()) -> None:
        self.answer, self.deaths, self.slow = answer, dict(deaths), slow
        self.started, self.calls, self.read_ahead = 0, [], []
        self.exceptions = SimpleNamespace(RayActorError=RayActorError, RayTaskError=RayTaskError)
        self.open = False

    def init(self, **how: Any) -> None:
        self.how, self.open = how, True

    def shutdown(self) -> None:
        self.open = False

    def remote(self, **resources: Any) -> Any:
        self.resources = resources
        return lambda kind: SimpleNamespace(remote=self._start)

    def _start(self, *args: Any) -> Any:
        self.started += 1
        number = self.started

        def call(group: Any, following: Any = None) -> Reference:
            self.calls.append((number, group[0].item.clip))
            self.read_ahead.append((number, following and following[0]))
            return Reference(len(self.calls), group)

        return SimpleNamespace(
            number=number,
            answer=SimpleNamespace(remote=call),
            pid=SimpleNamespace(remote=lambda: number),
        )

    def wait(self, references: list[Any], num_returns: int) -> tuple[list[Any], list[Any]]:
        quick = [r for r in references if r.group[0].item.clip not in self.slow]
        first = (quick or sorted(references, key=lambda r: -r.number))[0]
        return [first], [r for r in references if r is not first]

    def get(self, reference: Any) -> Any:
        if isinstance(reference, int):
            return reference
        clip = reference.group[0].item.clip
        if self.deaths.get(clip, 0) > 0:
            self.deaths[clip] -= 1
            raise RayActorError
        try:
            return self.answer(reference.group)
        except Exception as error:
            raise RayTaskError(error) from error
