"""What can be compared: a folder of ours, samples of lmms-eval, predictions, a row of a paper.

Each becomes a `Figure`: answers to questions, how they are judged, and what they were computed
from; 100·Σ right / Σ counted, see `evals.scoring.score.sums`. A folder may be followed by
`:METHOD`. A row of a paper is written `paper:72.5,n=409`, and what it says of its own protocol
after that: `frames=8,dtype=float16,rule=official`. What a caption of a drawn run may name is what
its true caption names, so that nothing is drawn again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from macd_studio.core.errors import BenchmarkError, MacdError, OptionError
from macd_studio.core.validation import Number, shown
from macd_studio.evals.benchmarks import DRAWN
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.benchmarks.layout import place, read_json
from macd_studio.evals.protocol import lmms
from macd_studio.evals.protocol.bounds import NAME_OF_FILE, Protocol, read_protocol
from macd_studio.evals.protocol.figure import Figure, Parser, rule_parser
from macd_studio.evals.protocol.same import same_questions
from macd_studio.evals.running.contrasts import CONSTANT
from macd_studio.evals.scoring.answered import (
    AnsweredQuestions,
    Scores,
    holds_questions,
    no_clip,
    scores_by_id,
)
from macd_studio.evals.scoring.predictions import read_predictions
from macd_studio.evals.scoring.score import Over, check_over

POOLED = (
    "Regimes of drawn clips are taken together here, which their reports never do; --split REGIME"
    " compares one of {}."
)


def drawn_figure(
    report: Mapping[str, Any], protocol: Protocol, folder: Path, method: str, rule: str
) -> Figure:
    """The figure of one method of a run, over all of its regimes.

    Raises OptionError, and KeyError where the report is damaged.
    """
    from macd_studio.evals.running.rows import PACKED, unpack

    name = str(report["benchmark"])
    items = {
        i.id: Item(i.id, protocol.clips[i.clip].key, _regime(i.id), "", i.kind, "", i.truth)  # type: ignore[arg-type]
        for i in protocol.items
    }
    rows = unpack(folder / PACKED)
    if method == CONSTANT:
        texts = _with_constants(items, rows, report["constants"])
    else:
        texts = {r.item: r.text for r in rows if r.method == method and not (r.error or r.left_out)}
    scores = {r.item: r.scores for r in rows if r.method == method and r.scores}
    if not any(i in items for i in texts):
        raise OptionError(
            f"{shown(folder.name)} has no answer of {shown(method)} that did not fail",
            "Choose another --method",
        )
    regimes = ", ".join(dict.fromkeys(i.regime for i in items.values()))
    return Figure(
        title=f"{folder.name}:{method}",
        benchmark=name,
        items=items,
        texts={i: texts.get(i) for i in items},
        parser=rule_parser(name, next(iter(items.values())), rule),
        clusters={i.id: i.clip for i in items.values()},
        scores=scores,
        protocol=protocol,
        method=method,
        folder=str(folder),
        notes=(POOLED.format(regimes),) if "," in regimes else (),
    )


def _regime(name: str) -> str:
    """Of a drawn question, "SPLIT/REGIME/CLIP/QUESTION"."""
    parts = name.split("/")
    return parts[1] if len(parts) == 4 else ""


def _with_constants(
    items: Mapping[str, Item], rows: list[Any], constants: dict[str, float]
) -> dict[str, str]:
    """Answers of the tuned constant, which follow from the baseline's rows."""
    from macd_studio.evals.statistics.constant import answers_by_first, with_constants

    plain = {r.item: r for r in rows if r.method == "baseline"}
    texts = answers_by_first([r for name, r in plain.items() if name not in items])
    made = [with_constants(i, plain[i.id], constants, texts) for i in items.values()]
    return {r.item: r.text for r in made if not (r.error or r.left_out)}


def refuse_other_clips(first: Figure, second: Figure) -> None:
    """Raises OptionError for drawn runs whose questions have the same names and are others."""
    a, b = first.protocol, second.protocol
    if a is None or b is None or not (first.drawn or second.drawn):
        return
    if first.benchmark != second.benchmark:
        raise OptionError(
            f"{first.title} answers {first.benchmark}, {second.title} {second.benchmark}",
            "Compare runs over the same benchmark",
        )
    seeds = [p.setting.get("seed", 0) for p in (a, b)]
    if seeds[0] != seeds[1]:
        raise OptionError(
            f"{first.title} and {second.title} were asked about other clips: their --seed is"
            f" {shown(seeds[0])} and {shown(seeds[1])}",
            "Compare runs over the same drawing of the clips",
        )


PAPER = "paper:"
STATED = (
    "model", "frames", "fps", "size", "fit", "prompts", "dtype", "device", "seed", "search",
    "temperature", "max_tokens", "alpha", "beta", "transformers", "torch",
    "arguments", "rule", "over",
)  # fmt: skip
"""What a figure may say of its own protocol, in the words of this project."""
REMEDY = "Give a folder of `python -m evals run`, a file of answers, or paper:FIGURE,n=QUESTIONS"
FOLDER = "Give the --out folder of `python -m evals run`, of this version"


OTHERS = {
    "detectors.json": "a study that compares sources of objects",
    "pairs.json": "what pairs of clips tell",
}
"""Other results of `python -m evals` by a file of their folder."""


@dataclass(frozen=True)
class Asked:
    """How one side is asked for. rule, over: "" for its own; plain: of a folder plain decoding,
    where no method is named."""

    text: str
    method: str = ""
    rule: str = ""
    over: str = ""
    plain: bool = False


@dataclass(frozen=True)
class Questions:
    """The questions that answers of others belong to, of a folder of ours or of a benchmark."""

    benchmark: str
    items: Mapping[str, Item]
    clusters: Mapping[str, str]
    groups: Mapping[str, str]


def read_pair(
    a: Asked, b: Asked, questions: Questions | None = None, split: str = ""
) -> tuple[Figure, Figure]:
    """Both figures. questions: where neither side is a folder of ours. split: one split alone.

    Raises OptionError and BenchmarkError.
    """
    sides: list[Figure | None] = [_folder(z) if _is_folder(z) else None for z in (a, b)]
    known = questions or next((_questions(f) for f in sides if f is not None), None)
    own = [
        None if f else _answered(z, known is not None) for f, z in zip(sides, (a, b), strict=True)
    ]
    if known is None:
        known = next((_questions(f) for f in own if f is not None), None)
        sides = [f or o for f, o in zip(sides, own, strict=True)]
    for i, asked in enumerate((a, b)):
        if sides[i] is None:
            sides[i] = _row(asked) if asked.text.startswith(PAPER) else _answers(asked, known)
    first, second = sides
    assert first is not None
    assert second is not None
    if not (first.has_answers or second.has_answers):
        raise OptionError("two printed figures say nothing of single answers", REMEDY)
    told = (first.protocol and second.protocol) or (first.prompts and second.prompts)
    if first.has_answers and second.has_answers and not told:  # else other words are a cause
        asked_by = (own[0] or first).items, (own[1] or second).items
        first, second = same_questions(first, second, asked_by)
    refuse_other_clips(first, second)
    return (only(first, split), only(second, split)) if split else (first, second)


def only(figure: Figure, split: str) -> Figure:
    """The figure of one split or regime; a printed one stays. Raises OptionError for none such."""
    if not figure.has_answers:
        return figure
    items = {n: i for n, i in figure.items.items() if i.regime == split}
    if not items:
        names = dict.fromkeys(i.regime for i in figure.items.values())
        raise OptionError(
            f"{figure.title} has no questions of a split {shown(split)}",
            f"Choose {', '.join(names)}" if any(names) else "Leave --split out",
        )
    notes = () if figure.drawn else figure.notes
    return replace(
        figure, title=f"{figure.title}, {split}", items=items, stated=None, notes=notes,
        texts={n: figure.texts[n] for n in items},
    )  # fmt: skip


def _is_folder(asked: Asked) -> bool:
    return not asked.text.startswith(PAPER) and _split(asked.text)[0].is_dir()


def _split(text: str) -> tuple[Path, str]:
    """The path and the method after a colon, where the text as a whole is no path."""
    if Path(text).exists() or ":" not in text:
        return Path(text), ""
    path, _, method = text.rpartition(":")
    return Path(path), method


def _questions(figure: Figure) -> Questions:
    return Questions(figure.benchmark, figure.items, figure.clusters, figure.groups)


def _folder(asked: Asked) -> Figure:
    """A report of ours with its protocol."""
    folder, named = _split(asked.text)
    for name, what in OTHERS.items():
        if (folder / name).is_file() and not (folder / "report.json").exists():
            raise OptionError(f"{place(folder)} holds {what}, which is no single figure", FOLDER)
    report = read_json(folder / "report.json", FOLDER)
    protocol = read_protocol(folder / NAME_OF_FILE)
    try:
        methods = list(report["methods"])
        method = asked.method or named or ("baseline" if asked.plain else _usual(methods))
        if method not in methods:
            raise OptionError(
                f"{place(folder)} has no answers of {shown(method)}", f"Choose {', '.join(methods)}"
            )
        if report.get("kind") == "files":
            return _of_report(report, protocol, folder, asked, method)
        if report["benchmark"] not in DRAWN:
            raise BenchmarkError(f"{place(folder)} holds no report of a run", FOLDER)
        figure = drawn_figure(report, protocol, folder, method, asked.rule)
        return replace(figure, over=check_over(asked.over or "all"))
    except MacdError:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise BenchmarkError(
            f"the report of {place(folder)} is damaged ({type(error).__name__})", "Run it again"
        ) from None


def _usual(methods: Sequence[str]) -> str:
    """The method that is compared where none is named: the first that is no reference."""
    return next((m for m in methods if m not in ("baseline", CONSTANT)), methods[0])


def _of_report(
    report: Mapping[str, Any], protocol: Protocol, folder: Path, asked: Asked, method: str
) -> Figure:
    items, texts, scores = {}, {}, {}
    for q in report["questions"]:
        items[q["id"]] = Item(
            q["id"], q["clip"], q["split"], "", q.get("kind") or _kind(protocol, q["id"]),
            q["question"], q["truth"], options=tuple(q["options"]),
        )  # fmt: skip
        texts[q["id"]] = q["answers"][method]["text"]
        if (margin := q["answers"][method].get("margin")) is not None:
            scores[q["id"]] = {"yes": float(margin), "no": 0.0}
    benchmark, first = str(report["benchmark"]), next(iter(items.values()))
    over = check_over(asked.over or str(report.get("over", "all")))
    own = not asked.rule and over == report.get("over", "all")
    scores = report["scores"][method]
    rule = asked.rule or str(report["rule"]).split(" ")[0]
    return Figure(
        title=f"{folder.name}:{method}",
        benchmark=benchmark,
        items=items,
        texts=texts,
        parser=rule_parser(benchmark, first, rule),
        over=over,
        clusters={i.id: i.cluster for i in protocol.items},
        scores=scores,
        groups={i.id: i.group for i in protocol.items if i.group},
        stated=(float(scores["accuracy"]), int(scores["n"])) if own else None,
        protocol=protocol,
        method=method,
        folder=str(folder),
    )


def _kind(protocol: Protocol, name: str) -> Any:
    return next((i.kind for i in protocol.items if i.id == name), "word")


def _answers(asked: Asked, known: Questions | None) -> Figure:
    """A file of answers that were given elsewhere."""
    path = Path(asked.text)
    if not path.is_file():
        raise OptionError(f"there is neither a folder nor a file {place(path)}", REMEDY)
    samples = lmms.read_samples(path)
    if samples is not None:
        return _of_samples(samples, path, asked, known)
    if known is None:
        raise OptionError(
            f"{place(path)} holds answers without their questions",
            "Give the other side as a folder of ours, or --benchmark and --data, or records of"
            " video, question, answer and prediction",
        )
    predictions = read_predictions(path, known.items.values())
    texts = {n: t for n, t in predictions.texts.items() if n in known.items}
    items = {n: known.items[n] for n in texts}
    first = next(iter(items.values()))
    return Figure(
        title=path.name,
        benchmark=known.benchmark,
        items=items,
        texts=texts,
        parser=rule_parser(known.benchmark, first, asked.rule or None),
        over=check_over(asked.over or "all"),
        clusters=known.clusters,
        scores=scores_by_id(path),
        groups=known.groups,
        notes=(f"{path.name}: {predictions.note}.",) if predictions.note else (),
    )


def _of_samples(samples: lmms.Samples, path: Path, asked: Asked, known: Questions | None) -> Figure:
    """Samples of lmms-eval, by its rule where this project knows it, else by its verdicts."""
    items, texts, verdicts = samples.items, samples.texts, samples.verdicts
    benchmark, parser = samples.task, Parser(f"lmms-eval, {samples.metric}")
    over: Over = "all"
    prompts: Mapping[str, str] = {k: i.question for k, i in items.items()}
    clusters: Mapping[str, str] = samples.clusters
    scores: Mapping[str, Scores] = samples.scores
    groups: Mapping[str, str] = {}
    if known is not None:
        names = lmms.names_of(path, known.items)
        items = {n: known.items[n] for n in names.values()}
        prompts = {names[k]: t for k, t in prompts.items() if k in names}
        texts = {names[k]: t for k, t in texts.items() if k in names}
        verdicts = {names[k]: v for k, v in verdicts.items() if k in names}
        scores = {names[k]: v for k, v in scores.items() if k in names}
        benchmark, clusters, groups = known.benchmark, known.clusters, known.groups
        first = next(iter(items.values()))
        rule = asked.rule or lmms.rule_of(benchmark, first)
        if rule:
            parser = rule_parser(benchmark, first, rule)
            over = "answered" if lmms.drops(benchmark, first, rule) else "all"
    return Figure(
        title=path.name,
        benchmark=benchmark,
        items=items,
        texts=texts,
        parser=parser,
        over=check_over(asked.over or over),
        verdicts=verdicts,
        clusters=clusters,
        scores=scores,
        groups=groups,
        prompts=prompts,
        said=samples.said,
    )


def _answered(asked: Asked, beside: bool) -> Figure | None:
    """A file that holds its questions, too; None for another.

    beside: the questions are known from elsewhere, so that it need not be right in all.
    """
    path = Path(asked.text)
    if asked.text.startswith(PAPER) or not path.is_file() or not holds_questions(path):
        return None
    try:
        own = AnsweredQuestions(path)
    except BenchmarkError:
        if beside:
            return None
        raise
    items = {i.id: i for i in own.everything}
    first = next(iter(items.values()))
    return Figure(
        title=path.name,
        benchmark=own.name,
        items=items,
        texts=own.texts,
        parser=rule_parser(own.name, first, asked.rule or None),
        over=check_over(asked.over or "all"),
        clusters={n: c for n, i in items.items() if not (c := own.cluster(i)).endswith(no_clip(n))},
        scores=own.scores,
        groups={n: own.group(i) for n, i in items.items()},
    )


def _row(asked: Asked) -> Figure:
    """A printed figure: `paper:72.5,n=409` and what it says of itself."""
    head, *rest = asked.text.removeprefix(PAPER).split(",")
    said: dict[str, str] = {}
    for part in rest:
        name, equals, value = part.partition("=")
        name = name.strip()
        if not equals or name not in ("n", *STATED) or name in said:
            raise OptionError(
                f"a row of a paper cannot say {shown(part)}",
                f"Write NAME=VALUE, once each, of n, {', '.join(STATED)}",
            )
        said[name] = value.strip()[:200]
    accuracy = _number(head.removeprefix("accuracy="), 0, 100, "the printed figure")
    if "n" not in said:
        raise OptionError("a printed figure needs its number of questions", "Add n=QUESTIONS")
    n = int(_number(said.pop("n"), 1, 1e7, "n", whole=True))
    rule = asked.rule or said.get("rule", "not stated")
    return Figure(
        title=f"{accuracy:g} % of {n}",
        benchmark="",
        items={},
        texts={},
        parser=Parser(rule),
        over=check_over(asked.over or said.get("over", "all")),
        stated=(accuracy, n),
        said=said,
    )


def _number(text: str, low: float, high: float, name: str, whole: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        raise OptionError(f"{name} is {shown(text)}", "Give a number") from None
    read: Callable[[Any, str], Any] = Number(low, high, whole=whole).read
    return float(read(value, name))
