"""Our own figures for a row of a table: answers, costs, boxes, and a file of ratings."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from macd_studio.core.errors import BenchmarkError, MacdError
from macd_studio.core.methods import find_method
from macd_studio.core.options import OWN_CONTRAST, PRESETS, RunOptions
from macd_studio.core.types import LOST
from macd_studio.evals.benchmarks import file_benchmark
from macd_studio.evals.benchmarks.base import Item, evaluation_options
from macd_studio.evals.benchmarks.files import FileBenchmark
from macd_studio.evals.benchmarks.layout import Reader, place, read_table
from macd_studio.evals.paper.tables import PaperTable, TableRow
from macd_studio.evals.running.answer import ONE_VIEW
from macd_studio.evals.running.engine import Engine, Worker
from macd_studio.evals.running.output import count_failures, failures_line
from macd_studio.evals.running.rows import Setting
from macd_studio.evals.running.run import Progress, complete, plan
from macd_studio.evals.scoring.score import figures, headline
from macd_studio.evals.statistics.intervals import clustered_share
from macd_studio.evals.statistics.stats import enough_differ, sign_flip

REASONING = re.compile(
    r"\b(why|how did|how does|because|cause[ds]?|reason|before|after|then|while|until|first|last"
    r"|comes|finally|result|in order to|so that|succeed\w*|successful\w*|fail\w*|complete[ds]?"
    r"|accident|unexpected|throughout|entire|whole|manage[ds]?|able to)\b"
)
ATTRIBUTE = re.compile(
    r"^(is|are|was|were) there\b|\bhow many\b|\bwhat colou?r\b|\bwhich (animal|vehicle|kind)"
    r"\b|\bwearing\b|\bwhere is\b|\b(is|are) (it|he|she|they|the \w+) (a|an|in|on|at)\b"
)
DIMENSIONS = ("reasoning depth", "content focus", "query length")


def label_queries(items: Sequence[Item]) -> dict[str, dict[str, str]]:
    """Question id → dimension → value.

    >>> from dataclasses import replace
    >>> one = Item("1", "v", "r", "", "yes-no", "Is there a dog in the video?", "yes")
    >>> two = replace(one, id="2", question="Did the man fall after he had jumped over it there?")
    >>> list(label_queries([one, two])["1"].values())
    ['descriptive', 'attribute-centric', 'short']
    >>> list(label_queries([one, two])["2"].values())
    ['reasoning-heavy', 'event-centric', 'long']
    """
    lengths = {i.id: len(i.question.split()) for i in items}
    median = statistics.median(lengths.values()) if lengths else 0
    labels = {}
    for item in items:
        text = item.question.lower()
        values = (
            "reasoning-heavy" if REASONING.search(text) else "descriptive",
            "attribute-centric" if ATTRIBUTE.search(text) else "event-centric",
            "long" if lengths[item.id] > median else "short",
        )
        labels[item.id] = dict(zip(DIMENSIONS, values, strict=True))
    return labels


Figures = dict[str, float | None]
COST_QUESTIONS = 4
"""Questions whose cost is measured one by one, after one that is not counted."""


class AnswersFailed(MacdError):
    """Not one question of a row was answered."""


@dataclass(frozen=True)
class Source:
    """Where our figures come from.

    data: benchmark → folder. fps, size: over those of the table where they are given.
    """

    backbone: str
    detector: str
    data: dict[str, Path]
    out: Path
    limit: int
    published: bool = True
    fps: float | None = None
    size: int | None = None
    contrast: tuple[float, float] | None = None
    engine: Engine | None = None
    study: Path | None = None
    cost_questions: int = COST_QUESTIONS


@dataclass(frozen=True)
class Ours:
    """Our figures for one row of a paper's table."""

    figures: Figures
    """Metric → value in the table's unit, None where it cannot be computed."""
    why: str = ""
    """Why a value is missing."""
    n: int = 0
    interval: tuple[float, float] | None = None
    items: Sequence[Item] = ()
    """Questions of the row's first benchmark."""
    right: tuple[bool, ...] = ()
    """Whether each of its answers is right."""
    false_yes: tuple[bool, ...] = ()
    """Whether each answer says yes where no is right; empty where no question is of that kind."""
    clusters: tuple[str, ...] = ()
    """What was drawn at random with each question."""
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    """Question id → dimension → value, of a row about some kind of question; of all questions."""
    failures: str = ""
    """How many answers failed, and why."""


def settle(table: PaperTable, row: TableRow, source: Source, benchmark: str) -> Setting:
    """What one row's run is about."""
    options = replace(evaluation_options(row.options, file_benchmark(benchmark).limits), seed=0)
    if "max_tokens" not in row.options.get("decode", {}):
        options = replace(options, decode=replace(options.decode, max_tokens=32))
    return Setting(
        benchmark,
        options,
        source.backbone,
        row.detector or source.detector,
        data=str(source.data[benchmark]),
        fps=source.fps if source.fps is not None else table.fps,
        side=source.size if source.size is not None else table.size,
        published=source.published,
    )


def contrast_for(row: TableRow, benchmark: str, options: RunOptions) -> tuple[float, float]:
    """α and β of a row: its own, else those published with a rival, else the benchmark's."""
    if row.method in ONE_VIEW:
        return 1.0, 0.0
    if row.contrast is not None:
        return row.contrast
    if row.method in OWN_CONTRAST:
        own = getattr(options, row.method).contrast
        return own.alpha, own.beta
    preset = PRESETS.get(benchmark, PRESETS["eventhallusion"])
    return preset.alpha, preset.beta


def compute(table: PaperTable, row: TableRow, source: Source, progress: Progress) -> Ours:
    """Our figures of a row. What cannot be had is None, with the reason."""
    metrics: Figures = dict.fromkeys(table.metrics)
    missing = [b for b in table.benchmarks if b not in source.data]
    why = f"no data of {', '.join(missing)}" if missing else ""
    try:
        whole = Ours(metrics)
        for benchmark in table.benchmarks:
            if benchmark in source.data:
                answered = _answered(table, row, source, benchmark, progress)
                metrics |= answered.figures
                lacking = " ".join(filter(None, (whole.failures, answered.failures)))
                whole = replace(whole if whole.n else answered, failures=lacking)
        if any(m.startswith("cost.") for m in table.metrics):
            metrics |= _cost(table, row, source)
        if any(m.startswith("study.") for m in table.metrics):
            if source.study is None:
                return Ours(metrics, "give a file of ratings by --study")
            metrics |= study_figures(source.study, row.method)
        return replace(whole, figures=metrics, why=why)
    except AnswersFailed as error:
        return Ours(metrics, failures=str(error))
    except MacdError as error:
        return Ours(metrics, str(error))


def _answered(
    table: PaperTable, row: TableRow, source: Source, name: str, progress: Progress
) -> Ours:
    setting = settle(table, row, source, name)
    benchmark = setting.open()
    assert isinstance(benchmark, FileBenchmark)
    find_method(row.method)
    pair = source.contrast or contrast_for(row, name, setting.options)
    planned = [
        w
        for w in plan(benchmark, setting, "all", source.limit, [row.method], {row.method: pair})
        if _belongs(benchmark, w.item)
    ]
    items = [w.item for w in planned]
    labels: dict[str, dict[str, str]] = {}
    if row.label is not None:
        labels = label_queries(items)
        planned = [w for w in planned if labels[w.item.id][row.label[0]] == row.label[1]]
        items = [w.item for w in planned]
    if not items:
        return Ours({f"{name}.accuracy": None}, labels=labels)
    rows = complete(planned, setting, source.out / "rows", source.engine, progress)
    if all(rows[w.key].error for w in planned):
        raise AnswersFailed(f"every answer failed: {rows[planned[0].key].error.rstrip('.')}",
                            "Run it again once this is settled")  # fmt: skip
    failures = count_failures(rows[w.key] for w in planned)
    texts = {w.item.id: None if rows[w.key].error else rows[w.key].text for w in planned}
    whole = figures(benchmark, items, texts)
    bias = whole["bias"] or {}
    shares = {"accuracy": whole["accuracy"]} | {
        k: bias.get(k) for k in ("precision", "recall", "f1")
    }
    read = [headline(name, i).read(texts[i.id], i) for i in items]
    negatives = sum(i.truth == "no" for i in items)
    false_yes = tuple(r == "yes" and i.truth == "no" for r, i in zip(read, items, strict=True))
    shares["false_yes"] = 100 * sum(false_yes) / negatives if negatives else None
    scale = 1 if table.percent else 100
    right = tuple(headline(name, i).right(texts[i.id], i) for i in items)
    clusters = [benchmark.cluster(i) for i in items]
    _, low, high = clustered_share(np.array(right), clusters)
    return Ours(
        {f"{name}.{k}": None if v is None else v / scale for k, v in shares.items()},
        n=len(items),
        interval=(low, high),
        items=items,
        right=right,
        false_yes=false_yes if negatives else (),
        clusters=tuple(clusters),
        labels=labels,
        failures=failures_line(failures),
    )


def _belongs(benchmark: FileBenchmark, item: Item) -> bool:
    """The paper's EventHallusion is the former split `mix`, which alone counts where it is."""
    return "mix" not in benchmark.regimes or item.regime == "mix"


def _cost(table: PaperTable, row: TableRow, source: Source) -> Figures:
    """Time and memory of single questions, asked one by one; and boxes a frame."""
    from macd_studio.core.run.order import run_method
    from macd_studio.core.views.context import MethodContext
    from macd_studio.evals.running.answer import with_contrast
    from macd_studio.evals.running.prompting import PromptedLM

    (name,) = table.benchmarks
    setting = settle(table, row, source, name)
    worker = Worker(setting, source.out / "tracks")
    items = list({i.clip: i for i in setting.open().items("all", source.limit)}.values())
    pair = source.contrast or contrast_for(row, name, setting.options)
    options = with_contrast(setting.options, row.method, pair)
    times: list[float] = []
    memory: list[float] = []
    boxes: list[float] = []
    for k, item in enumerate(items[: source.cost_questions + 1]):
        prepared = worker.preparing.prepare(item.clip, (item.question,))
        if prepared.clip is None or prepared.tracks is None:
            continue
        seen = np.array([t.state != LOST for t in prepared.tracks])
        boxes.append(float(seen.sum(0).mean()) if len(seen) else 0.0)
        if not any(m in table.metrics for m in ("cost.latency_ms", "cost.memory_gb")):
            continue
        asking: Any = PromptedLM(worker.lm, item.before, item.after)
        encoded = asking.encode(prepared.clip, item.question, fit=options.video.fit)
        context = MethodContext(asking, encoded, prepared.tracks, options)
        answer = run_method(context, find_method(row.method))
        if k or len(items) == 1:
            times.append(answer.total_ms)
            memory.append(answer.memory_mb / 1024)
    return {
        "cost.latency_ms": statistics.median(times) if times else None,
        "cost.memory_gb": max(memory) if memory else None,
        "cost.boxes": statistics.mean(boxes) if boxes else None,
    }


def add_overheads(table: PaperTable, computed: Sequence[Ours]) -> None:
    """Percent more than the table's first row, in place."""
    for part, whole in (("latency_overhead", "latency_ms"), ("memory_overhead", "memory_gb")):
        if f"cost.{part}" not in table.metrics:
            continue
        base = computed[0].figures.get(f"cost.{whole}")
        for one in computed:
            value = one.figures.get(f"cost.{whole}")
            comparable = base is not None and value is not None and base > 0
            one.figures[f"cost.{part}"] = 100 * (value / base - 1) if comparable else None  # type: ignore[operator]


def study_figures(path: Path, condition: str) -> Figures:
    """Mean, standard deviation and share of high ratings of one kind of mask.

    The file holds records of condition ("random" or "macd") and score, 1 to 5. Raises
    BenchmarkError.
    """
    remedy = "Give CSV or JSONL of condition and score"
    scores: list[float] = []
    for where, record in read_table(path, remedy):
        reader = Reader(path, where, record)
        score = reader.number("score")
        if score is None or not 1 <= score <= 5:
            raise reader.fail("'score' is not a number from 1 to 5")
        if reader.text("condition") == condition:
            scores.append(score)
    if len(scores) < 2:
        raise BenchmarkError(f"{place(path)} holds fewer than two ratings of {condition!r}", remedy)
    return {
        "study.mean": statistics.mean(scores),
        "study.sd": statistics.stdev(scores),
        "study.high": 100 * sum(s >= 4 for s in scores) / len(scores),
    }


def p_of(a: Ours, b: Ours, what: Literal["right", "false_yes"] = "right") -> float | None:
    """`sign_flip`'s p of two rows over the same questions; None without them, or without a test.

    what: right answers, or those that say yes where no is right, as the paper's McNemar has it.
    """
    if not a.n or [i.id for i in a.items] != [i.id for i in b.items]:
        return None
    first, second = (np.array(getattr(one, what), int) for one in (a, b))
    if not len(first):
        return None
    difference = second - first
    return sign_flip(difference, a.clusters) if enough_differ(difference, a.clusters) else None
