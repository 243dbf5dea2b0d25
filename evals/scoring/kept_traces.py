"""Traces of a run's answers, kept during the run: all, wrong or changed ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from macd_studio.core.errors import MacdError
from macd_studio.core.text.words import visible
from macd_studio.core.traces.bundle import save
from macd_studio.evals.benchmarks.files import FileBenchmark
from macd_studio.evals.running.answer import PendingAnswer
from macd_studio.evals.running.engine import Worker
from macd_studio.evals.running.rows import Row, Setting
from macd_studio.evals.running.traces import compute_trace, differs
from macd_studio.evals.scoring.score import headline
from macd_studio.evals.statistics.metrics import normalised

Kept = Literal["wrong", "changed", "all"]


class TraceKeeper:
    """Saves traces of a run's answers as soon as all methods have answered a question.

    which: "wrong": answers that do not count as right; "changed": those that differ from plain
    decoding's; "all". Of plain decoding itself only where no other method was run. A trace that is
    there already is not computed again. The models are loaded in this process for the first one.
    """

    def __init__(
        self,
        which: Kept,
        setting: Setting,
        benchmark: FileBenchmark,
        methods: Sequence[str],
        folder: Path,
        tracks: Path,
        rule: str | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.which, self.setting, self.benchmark, self.rule = which, setting, benchmark, rule
        self.methods, self.folder, self.tracks, self.say = tuple(methods), folder, tracks, say
        self.saved = 0
        self._worker: Worker | None = None
        self._answers: dict[str, dict[str, tuple[PendingAnswer, Row]]] = defaultdict(dict)

    def take(self, want: PendingAnswer, row: Row) -> None:
        """A row of the run, new or known from before."""
        by_method = self._answers[want.item.id]
        by_method[want.method] = want, row
        if set(by_method) >= set(self.methods):
            del self._answers[want.item.id]
            for method in self.methods:
                if self._is_kept(by_method, method):
                    self._save(*by_method[method])

    def _is_kept(self, by_method: dict[str, tuple[PendingAnswer, Row]], method: str) -> bool:
        want, row = by_method[method]
        if row.error or row.left_out or (method == "baseline" and len(self.methods) > 1):
            return False
        if self.which == "wrong":
            decisive = headline(self.benchmark.name, want.item, self.rule)
            return not decisive.right(row.text, want.item)
        if self.which == "changed" and "baseline" in by_method:
            return normalised(row.text) != normalised(by_method["baseline"][1].text)
        return True

    def _save(self, want: PendingAnswer, row: Row) -> None:
        path = self.folder / f"{row.key}.macd"
        if path.is_file():
            return
        assert want.contrast is not None
        try:
            self._worker = self._worker or Worker(self.setting, self.tracks)
            trace = compute_trace(self._worker, want.item, want.method, want.contrast)
            self.folder.mkdir(parents=True, exist_ok=True)
            save(trace, path)
        except MacdError as error:
            self.say(visible(f"note: no trace of {want.item.id} by {want.method}: {error}"))
            return
        self.saved += 1
        if difference := differs(trace, want.method, row.text):
            self.say(visible(f"note: question {want.item.id}: {difference}"))
