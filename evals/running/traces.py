"""Traces of a benchmark's answers: kept while a run goes on, or computed again from its report.

A trace holds one method's answer beside plain decoding's and MACD's, all under that method's
options, α and β; its file is named by the key of the answer's row, so that it is known to be of the
same video, question, options, models and code.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from macd_studio.core.errors import MacdError
from macd_studio.core.objects.find import prompted, tracks_key
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.cache import StageCache
from macd_studio.core.text.words import visible
from macd_studio.core.traces.bundle import save
from macd_studio.core.types import Trace
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.files import FileBenchmark
from macd_studio.evals.running.answer import ONE_VIEW, PendingAnswer, item_seed, with_contrast
from macd_studio.evals.running.engine import Worker
from macd_studio.evals.running.prompting import PromptedLM
from macd_studio.evals.running.rows import Row, Setting
from macd_studio.evals.scoring.score import headline
from macd_studio.evals.statistics.metrics import normalised

Kept = Literal["wrong", "changed", "all"]
Pair = tuple[float, float]


def contrast_of(method: str, contrasts: dict[str, Pair]) -> Pair:
    """α and β of a method's rows in a run, see `evals.running.run.plan`."""
    return (1.0, 0.0) if method in ONE_VIEW else contrasts.get(method, (1.0, 0.1))


def compute_trace(worker: Worker, item: Item, method: str, contrast: Pair) -> Trace:
    """The trace of one answer, on the tracks that its row was computed with. Raises MacdError."""
    options = with_contrast(
        replace(worker.setting.options, seed=item_seed(item.id), lazy=False), method, contrast
    )
    prepared = worker.preparing.prepare(item.clip, (item.question,))
    if prepared.clip is None:
        assert prepared.error is not None
        raise prepared.error
    clip, detector = prepared.clip, worker.preparing.detector
    assert detector is not None
    chosen = prompted(detector, options.detect, item.question)
    cache, tracks = StageCache(), prepared.tracks_for(item.question)
    if tracks is None:
        tracks = worker.preparing.tracks_of(item.clip, clip, item.question)
    cache.put(tracks_key(clip, options, chosen, detector), (tracks, ()))
    asking: Any = PromptedLM(worker.lm, item.before, item.after)
    *_, last = run(
        lambda: clip,
        item.question,
        lambda: asking,
        lambda: detector,
        options,
        methods=[method],
        cache=cache,
    )
    assert last.trace is not None
    source = (
        f"asked as question {visible(item.id)} of {worker.setting.benchmark}"
        f"{', in its published prompt' if item.before or item.after else ''}; `python -m evals"
        " trace` computes it again"
    )
    return replace(last.trace, truth=item.truth, warnings=(*last.trace.warnings, source))


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


def differs(trace: Trace, method: str, text: str | None) -> str:
    """What differs between a trace's answer and that of the run; "" where they are the same."""
    answer = trace.answers.get(method)
    if answer is None:
        return f"{method} has no answer in the trace: {trace.skipped.get(method, trace.status)}"
    if answer.text == text:
        return ""
    return (
        f"{method} answers {answer.text[:80]!r} in the trace and {(text or '')[:80]!r} in the run"
    )
