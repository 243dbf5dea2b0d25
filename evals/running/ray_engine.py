"""Rows by actors of Ray: on this machine, which starts by itself, or on a cluster.

Each actor loads backbone and detector once and answers clip after clip. The driver hands out clips
and alone keeps rows, so a clip is answered once whatever happens to its actor: one that dies is
replaced, and its clip is done again. When no clip is left, idle actors take over the clips that
have been worked on longest, and the first result counts. An actor reads the clip that is reserved
for it while its model works on another.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import macd_studio
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.system.process import configure_process
from macd_studio.evals.running.engine import Engine, Group, Worker, clip_of, need_objects
from macd_studio.evals.running.rows import Row, Setting
from macd_studio.evals.running.tracks import ClipOf, Prepared

INSTALL = "Install it: pip install 'macd-studio[ray]' (it is in requirements-dev.txt)"
ATTEMPTS = 3
"""How often a clip is begun before its rows say that it failed."""
DEATHS = 8
"""How many actors in a row may die before the run ends: none then lives long enough to work."""


def import_ray() -> Any:
    """Ray. Raises OptionError with the line that installs it."""
    try:
        import ray
    except ImportError:
        raise OptionError("several workers need Ray, which is not installed", INSTALL) from None
    return ray


class Actor:
    """What runs in a process of its own."""

    def __init__(self, setting: Setting, tracks: Path, threads: int, objects: bool = True) -> None:
        configure_process()
        import torch

        torch.set_num_threads(threads)
        self._error: MacdError | None = None
        try:
            self._worker = Worker(setting, tracks, objects)
        except MacdError as error:  # an actor that fails to start would be replaced again and again
            self._error = error
        self._pool = ThreadPoolExecutor(1)
        self._ahead: tuple[ClipOf, Future[Prepared]] | None = None

    def pid(self) -> int:
        """Of its process."""
        return os.getpid()

    def answer(self, group: Group, following: ClipOf | None = None) -> list[Row]:
        """All rows of one clip; following: the clip that is to be read meanwhile."""
        if self._error is not None:
            raise self._error
        ahead, self._ahead = self._ahead, None
        prepared = ahead[1].result() if ahead and ahead[0] == clip_of(group) else None
        if following is not None:
            reading = self._pool.submit(self._worker.preparing.prepare, *following)
            self._ahead = following, reading
        return list(self._worker.answer(group, prepared))


@dataclass
class _Task:
    """A clip being worked on by one actor since a moment."""

    index: int
    actor: Any
    began: float


def ray_engine(
    workers: int,
    address: str | None = None,
    gpus_per_worker: float = 0.0,
    threads: int | None = None,
    started: Any = None,
) -> Engine:
    """An engine of that many actors.

    address: of a running cluster, "auto" for this machine's; without it Ray starts here and ends
    with the run. gpus_per_worker: GPUs that each actor is given, 0 on a CPU. threads: of torch in
    each actor, an equal share of this machine's cores without it. started: called with the process
    id of each actor on this machine.
    """
    ray = import_ray()
    each = threads or max(1, (os.cpu_count() or 1) // workers)

    def run(groups: list[Group], setting: Setting, tracks: Path) -> Iterator[Row]:
        with _Connected(ray, address, workers, each):
            yield from _Driver(ray, groups, setting, tracks, workers, gpus_per_worker, each,
                               started).rows()  # fmt: skip

    return run


class _Connected:
    """A connection to Ray; what was started for it ends with it."""

    def __init__(self, ray: Any, address: str | None, workers: int, threads: int) -> None:
        self._ray, self._address = ray, address
        self._cpus = workers * threads

    def __enter__(self) -> None:
        root = str(Path(macd_studio.__file__).parents[1])
        paths = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        how: dict[str, Any] = {
            "log_to_driver": False,
            "logging_level": "ERROR",
            "runtime_env": {"env_vars": {"PYTHONPATH": paths, "HF_HUB_OFFLINE":
                            os.environ.get("HF_HUB_OFFLINE", "0")}},
        }  # fmt: skip
        if self._address is None:
            how |= {"num_cpus": self._cpus, "include_dashboard": False}
        try:
            self._ray.init(address=self._address, **how)
        except Exception as error:
            raise OptionError(
                f"Ray did not start ({type(error).__name__}: {str(error).splitlines()[0][:150]})",
                "Check --address, or leave it out to start Ray on this machine",
            ) from None

    def __exit__(self, *_: object) -> None:
        self._ray.shutdown()


class _Driver:
    """Hands out clips, and takes their rows."""

    def __init__(
        self,
        ray: Any,
        groups: list[Group],
        setting: Setting,
        tracks: Path,
        workers: int,
        gpus: float,
        threads: int,
        started: Any,
    ) -> None:
        self._ray, self._groups, self._setting = ray, groups, setting
        self._make = ray.remote(num_cpus=threads, num_gpus=gpus)(Actor).remote
        self._how = (setting, tracks, threads, any(map(need_objects, groups)))
        self._workers, self._started = min(workers, len(groups)), started
        self._waiting = deque(range(len(groups)))
        self._reserved: dict[int, int] = {}  # id of an actor → the clip that it reads ahead
        names = ("RayActorError", "OutOfMemoryError")  # the latter where a node evicts an actor
        self._deadly = tuple(
            kind for name in names if (kind := getattr(ray.exceptions, name, None)) is not None
        )
        self._tasks: dict[Any, _Task] = {}
        self._attempts = [0] * len(groups)
        self._finished = [False] * len(groups)
        self._deaths = 0

    def rows(self) -> Iterator[Row]:
        """All rows, clip by clip, as they come."""
        for actor in [self._start() for _ in range(self._workers)]:
            self._give(actor)
        while self._tasks and not all(self._finished):
            ready, _ = self._ray.wait(list(self._tasks), num_returns=1)
            task = self._tasks.pop(ready[0])
            try:
                rows = self._ray.get(ready[0])
            except self._deadly:
                self._deaths += 1
                self._release(task.actor)
                if self._deaths > DEATHS:
                    raise _failed("every worker ended by itself, memory may be short") from None
                yield from self._again(task.index)
                self._give(self._start())
                continue
            except self._ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, MacdError):
                    raise error.cause from None
                raise
            self._deaths = 0
            if not self._finished[task.index]:
                self._finished[task.index] = True
                yield from rows
            self._give(task.actor)

    def _start(self) -> Any:
        actor = self._make(*self._how)
        if self._started is not None:
            self._started(self._ray.get(actor.pid.remote()))
        return actor

    def _give(self, actor: Any) -> None:
        """The next clip, or the one that another actor has worked on longest by itself.

        A clip that an actor died of is left to one actor at a time.
        """
        reserved = self._reserved.pop(id(actor), None)
        if reserved is not None:
            index = reserved
        elif self._waiting:
            index = self._waiting.popleft()
        elif self._reserved:  # what another would do later
            _, index = self._reserved.popitem()
        else:
            counts: dict[int, list[_Task]] = {}
            for task in self._tasks.values():
                if not self._finished[task.index] and not self._attempts[task.index]:
                    counts.setdefault(task.index, []).append(task)
            alone = [tasks[0] for tasks in counts.values() if len(tasks) == 1]
            if not alone:
                return
            index = min(alone, key=lambda t: t.began).index
        following = None
        if self._waiting:
            self._reserved[id(actor)] = self._waiting.popleft()
            following = clip_of(self._groups[self._reserved[id(actor)]])
        reference = actor.answer.remote(self._groups[index], following)
        self._tasks[reference] = _Task(index, actor, time.monotonic())

    def _release(self, actor: Any) -> None:
        """Puts back the clip that was reserved for a dead actor."""
        reserved = self._reserved.pop(id(actor), None)
        if reserved is not None:
            self._waiting.appendleft(reserved)

    def _again(self, index: int) -> Iterator[Row]:
        """Puts the clip of a dead actor back; after ATTEMPTS its rows say that it failed."""
        self._attempts[index] += 1
        if self._finished[index] or any(t.index == index for t in self._tasks.values()):
            return
        if self._attempts[index] < ATTEMPTS:
            self._waiting.appendleft(index)
            return
        self._finished[index] = True
        key, *_ = clip_of(self._groups[index])
        for want in self._groups[index]:
            text = f"the worker ended {ATTEMPTS} times while it answered {key}"
            yield Row(want.key, want.item.id, want.method, error=text)


def _failed(why: str) -> MacdError:
    return OptionError(f"the run on Ray stopped: {why}", "Choose fewer workers and run it again")
