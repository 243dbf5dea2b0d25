"""Judges mutants in forks of one pytest session, so that tests are imported and collected once.

`scripts.mutants` runs it in mutmut's copy of the checkout. The tests first run on the unchanged
module, which shows how long each takes and which functions it reaches. Then every mutant gets a
fork, which runs the tests that reach its function, the shortest first, until one fails.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

SURVIVED, NOTICED, NO_TEST, TIMED_OUT = "survived", "noticed", "no test", "timed out"
AT_LEAST_S, TIMES_AS_LONG = 60.0, 10.0
"""A mutant has timed out after that many seconds and times the duration of its tests."""


class Judge:
    """Takes the place of pytest's loop over the tests. verdicts: by mutant, once it ended."""

    def __init__(self, mutants: Sequence[str], processes: int) -> None:
        self.mutants, self.processes = mutants, processes
        self.verdicts: dict[str, str] = {}
        self._failed = False
        self._running: dict[int, tuple[str, float]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes a failure of the test, its setup or its teardown."""
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Judges every mutant; leaves `verdicts` empty where a test fails without one."""
        # a doctest's names are gone after its run
        names = {item: dict(item.dtest.globs) for item in session.items if _is_doctest(item)}
        reached, seconds = self._run_unchanged(session.items)
        if self._failed:
            return True
        # a fork that freed what the tests left would wait for a decoder's threads, which it lacks
        gc.collect()
        gc.freeze()
        for mutant in self.mutants:
            tests = reached[mutant.rpartition("__mutmut_")[0]]
            if not tests:
                self.verdicts[mutant] = NO_TEST
                continue
            while len(self._running) >= self.processes:
                self._wait()
            sys.stdout.flush()
            if (pid := os.fork()) == 0:
                for item, known in names.items():
                    item.dtest.globs.update(known)
                os._exit(self._run_mutant(mutant, sorted(tests, key=seconds.__getitem__)))
            end = time.monotonic() + AT_LEAST_S + TIMES_AS_LONG * sum(seconds[t] for t in tests)
            self._running[pid] = mutant, end
        while self._running:
            self._wait()
        return True

    def _run(self, items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
        """Runs the tests until one fails."""
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            yield item
            if self._failed:
                return

    def _run_unchanged(self, items: Sequence[pytest.Item]) -> tuple[Any, dict[pytest.Item, float]]:
        """The tests that reach each function, and seconds of each test."""
        from mutmut.mutation.trampoline import set_mutant_under_test
        from mutmut.state import state

        set_mutant_under_test("stats")
        reached, seconds = defaultdict(list), {}
        began = time.monotonic()
        for item in self._run(items):
            seconds[item], began = time.monotonic() - began, time.monotonic()
            for function in state()._stats:
                reached[function].append(item)
            state()._stats.clear()
        return reached, seconds

    def _run_mutant(self, mutant: str, tests: Sequence[pytest.Item]) -> int:
        """In the fork: 1 where a test fails or ends the session, else 0."""
        from mutmut.mutation.trampoline import set_mutant_under_test

        set_mutant_under_test(mutant)
        tests[0].config.option.tbstyle = "no"  # nobody reads why it fails
        try:
            for _ in self._run(tests):
                pass
        except BaseException:
            return 1
        return int(self._failed)

    def _wait(self) -> None:
        """Until one of the forks ended."""
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid:
                mutant, _ = self._running.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                late = code == -signal.SIGKILL
                self.verdicts[mutant] = TIMED_OUT if late else NOTICED if code else SURVIVED
                return
            for late_pid, (_, end) in self._running.items():
                if time.monotonic() > end:
                    os.kill(late_pid, signal.SIGKILL)
            time.sleep(0.02)


def _is_doctest(item: pytest.Item) -> bool:
    return isinstance(item, pytest.DoctestItem)


def main(task: Path) -> int:
    """Judges what the task names: {mutants, tests, processes, verdicts}; 1 where it could not."""
    asked = json.loads(task.read_text())
    judge = Judge(asked["mutants"], asked["processes"])
    options = ["-q", "--tb=short", "--rootdir=.", "-m", "not long and not browser"]
    pytest.main([*options, *asked["tests"]], plugins=[judge])
    if set(judge.verdicts) != set(asked["mutants"]):
        return 1
    Path(asked["verdicts"]).write_text(json.dumps(judge.verdicts))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
