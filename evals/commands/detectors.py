"""`python -m evals detectors BENCHMARK`: how much of a method's gain is its detector's.

The same questions and the same α and β, with the objects of several sources: detectors, each at a
threshold of its own; the true boxes of a drawn benchmark; masks from files. Every source is held
against the first, question by question.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from macd_studio.core.errors import OptionError
from macd_studio.core.methods import find_methods
from macd_studio.core.objects.detect import check_detector
from macd_studio.core.options import ContrastOptions, DetectOptions
from macd_studio.core.text.words import visible
from macd_studio.core.validation import Number, shown
from macd_studio.evals.benchmarks import BENCHMARKS, FILES
from macd_studio.evals.benchmarks.base import evaluation_options
from macd_studio.evals.commands import files as files_command
from macd_studio.evals.commands.common import add_engine_flags, check_engine_flags, find_engine
from macd_studio.evals.printing.figures import change, percent, table
from macd_studio.evals.running.output import (
    EXIT,
    check_folder,
    count_failures,
    failures_line,
    machine,
    say,
)

if TYPE_CHECKING:
    from macd_studio.evals.benchmarks.base import Benchmark, Item
    from macd_studio.evals.running.rows import Row, Setting

TRUTH, FILES_OF = "truth", "files="
SOURCES = "toyworld:0.5,toyworld:0.3,toyworld:0.7,truth"
"""The paper's thresholds, its own first, and what is truly there."""


@dataclass(frozen=True)
class Source:
    """Where objects come from: a detector with its threshold, the truth, or a folder of files."""

    name: str
    detector: str = "toyworld"
    confidence: float | None = None
    boxes: str = "detector"
    files: str = ""

    def in_protocol(self) -> str:
        """Its name without the places of this machine: of files the folder's and their hash."""
        if not self.files:
            return self.name
        from macd_studio.evals.running.rows import files_fingerprint

        folder = Path(self.files)
        return f"{FILES_OF}{folder.name} {files_fingerprint(folder)[:8]}"

    def of(self, setting: Setting) -> Setting:
        """The setting with these objects. What may continue a track is not above its threshold."""
        options = setting.options
        if self.confidence is not None:
            low = min(options.detect.low, self.confidence)
            detect = replace(options.detect, confidence=self.confidence, low=low)
            options = replace(options, detect=detect)
        chosen = replace(setting, options=options, boxes=self.boxes, masks=self.files)
        return chosen if self.boxes != "detector" else replace(chosen, detector=self.detector)


def read_sources(text: str) -> list[Source]:
    """Sources as the command line names them, separated by commas. Raises OptionError.

    >>> [(s.name, s.confidence, s.boxes) for s in read_sources("toyworld:0.3,truth")]
    [('toyworld:0.3', 0.3, 'detector'), ('truth', None, 'truth')]
    """
    found = []
    for name in dict.fromkeys(part.strip() for part in text.split(",") if part.strip()):
        if name == TRUTH:
            found.append(Source(name, boxes="truth"))
        elif name.startswith(FILES_OF):
            folder = name.removeprefix(FILES_OF)
            if not Path(folder).is_dir():
                raise OptionError(
                    f"there is no folder {shown(folder, 200)}",
                    "Give a folder with a file of tracks or masks for each clip",
                )
            found.append(Source(name, boxes="files", files=folder))
        else:
            detector, _, threshold = name.rpartition(":") if ":" in name else (name, "", "")
            check_detector(detector)
            confidence = _threshold(threshold) if threshold else None
            found.append(Source(name, detector, confidence))
    if len(found) < 2:
        raise OptionError("there is nothing to compare", "Name two sources of objects or more")
    return found


def _threshold(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise OptionError(
            f"the threshold {shown(text)} is no number", "Write, say, toyworld:0.3"
        ) from None
    return DetectOptions(confidence=value).confidence


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("detectors", help="how much of a gain is the detector's")
    parser.set_defaults(run=run)
    parser.add_argument("benchmark", choices=tuple(BENCHMARKS))
    parser.add_argument(
        "--objects",
        default=SOURCES,
        metavar="LIST",
        help="sources of objects, each compared with the first: DETECTOR or DETECTOR:THRESHOLD,"
        f" {TRUTH} for the true boxes of a drawn benchmark, {FILES_OF}FOLDER for files of tracks or"
        " masks named as the clips (default: %(default)s)",
    )
    parser.add_argument("--methods", default="macd", help="with commas (default: %(default)s)")
    parser.add_argument("--regimes", default="", help="with commas; all of them without it")
    parser.add_argument("--alpha", type=float, default=1.0, help="of all (default: %(default)s)")
    parser.add_argument("--beta", type=float, default=0.1, help="of all (default: %(default)s)")
    parser.add_argument("--n", type=int, default=300, help="questions a regime")
    parser.add_argument("--backbone", default="toyworld")
    parser.add_argument("--detector", default="toyworld", help=argparse.SUPPRESS)
    parser.add_argument(
        "--seed", type=int, default=0, help="another drawing of the clips, 0 to 9999"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/detectors"))
    parser.set_defaults(weights="as-is", dtype="auto", offload=False, lazy=False)
    add_engine_flags(parser)
    files_command.add_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Answers with every source, prints the table, writes table and figures into --out."""
    sources = read_sources(args.objects)
    of_files = args.benchmark in FILES
    if of_files:
        files_command.check(args)
        if any(s.boxes == "truth" for s in sources):
            raise OptionError(f"{args.benchmark} has no true boxes", "Leave truth out of --objects")
    else:
        files_command.refuse_flags(args)
    methods = [m.name for m in find_methods(args.methods.split(","))]
    methods = [m for m in methods if m != "baseline"]
    if not methods:
        raise OptionError("the baseline looks at no objects", "Name a method that masks objects")
    contrast = ContrastOptions(args.alpha, args.beta)
    Number(2, 100_000, whole=True).read(args.n, "n")
    Number(0, 9999, whole=True).read(args.seed, "seed")
    check_engine_flags(args)
    check_folder(args.out)
    engine = find_engine(args)
    from macd_studio.evals.protocol.bounds import NAME_OF_FILE
    from macd_studio.evals.protocol.record import make_protocol
    from macd_studio.evals.running.output import write_json
    from macd_studio.evals.running.rows import Setting, code_fingerprint
    from macd_studio.evals.running.run import complete, plan, ticking

    if of_files:
        setting = files_command.setting_of(args)
    else:
        options = evaluation_options({"decode": {"max_tokens": 24}})
        setting = Setting(args.benchmark, options, args.backbone, seed=args.seed)
    given = dict.fromkeys(methods, (contrast.alpha, contrast.beta))
    benchmark = setting.open()
    wanted = [r.strip() for r in args.regimes.split(",") if r.strip()] or list(benchmark.regimes)
    if unknown := [r for r in wanted if r not in benchmark.regimes]:
        raise OptionError(
            f"there is no regime {shown(unknown[0])}", f"Choose of {', '.join(benchmark.regimes)}"
        )
    answers: dict[str, dict[tuple[str, str], Row]] = {}
    computed: list[Row] = []
    items: list[Item] = []
    for source in sources:
        own = source.of(setting)
        planned = plan(own.open(), own, "all" if of_files else "test", args.limit or args.n,
                       ["baseline", *methods], given)  # fmt: skip
        planned = [w for w in planned if w.item.regime in wanted]
        rows = complete(planned, own, args.out / "rows", engine, ticking(source.name, say))
        answers[source.name] = {(w.item.id, w.method): rows[w.key] for w in planned}
        computed += rows.values()
        items = list({w.item.id: w.item for w in planned}.values())
    report = {
        "benchmark": args.benchmark, "sources": [s.name for s in sources], "methods": methods,
        "alpha": contrast.alpha, "beta": contrast.beta, "seed": args.seed,
        "backbone": args.backbone, "failures": count_failures(computed),
        "made_by": {"code": code_fingerprint()[:16]}, "machine": machine(),
        "regimes": {
            regime: compare(
                [i for i in items if i.regime == regime], answers, methods, benchmark
            )
            for regime in wanted
        },
    }  # fmt: skip
    text = markdown(report)
    write_json(args.out / "detectors.json", report)
    (args.out / "detectors.md").write_text(text + "\n", encoding="utf-8")
    about = scoring(benchmark, items) | {
        "methods": ["baseline", *methods], "failures": report["failures"],
        "contrasts": {m: list(own) for m, own in given.items()},
        "contrast_sources": dict.fromkeys(methods, "given"),
    }  # fmt: skip
    used = {s.in_protocol(): (s.of(setting), answers[s.name]) for s in sources}
    own, of_own = next(iter(used.values()))
    protocol = make_protocol(benchmark, own, items, of_own, about, used)
    write_json(args.out / NAME_OF_FILE, protocol)
    print(visible(text))
    say(f"written to {args.out}: detectors.md, detectors.json, {NAME_OF_FILE}")
    if failed := failures_line(report["failures"]):
        say(f"error: {visible(failed)}")
        return EXIT
    return 0


def scoring(benchmark: Benchmark, items: Sequence[Item]) -> dict[str, Any]:
    """By which rule answers are judged, as a report of a run says it."""
    if benchmark.name not in FILES:
        return {}
    from macd_studio.evals.scoring.score import headline

    rule = headline(benchmark.name, items[0])
    return {"kind": "files", "rule": rule.title, "source": rule.source}


def compare(
    items: Sequence[Item],
    answers: Mapping[str, Mapping[tuple[str, str], Row]],
    methods: Sequence[str],
    benchmark: Benchmark,
) -> dict[str, Any]:
    """Figures of one regime's questions by source, each in [0, 1] with its 95 % interval.

    answers: source → (item, method) → row; the first source is what the others are held against.
    asked: how often an object with the label of the asked one was found, where something is asked
    about. gain: a method's right answers less the baseline's. over: less its own with the first
    source.
    """
    from macd_studio.evals.statistics.intervals import clustered_share
    from macd_studio.evals.statistics.stats import mean_difference

    clips = [i.clip for i in items]
    first = next(iter(answers))
    figures: dict[str, Any] = {"n": len(items), "clips": len(set(clips)), "sources": {}}
    about = np.array([bool(i.about) for i in items])
    for source, rows in answers.items():
        base = [rows[i.id, "baseline"] for i in items]
        found = np.array([i.about in r.tracks for i, r in zip(items, base, strict=True)], bool)
        counts = [r.objects for r in base if r.objects is not None and r.objects >= 0]
        plain = hits(items, base, benchmark)
        part: dict[str, Any] = {
            "objects": float(np.mean(counts)) if counts else None,
            "baseline": clustered_share(plain, clips),
            "methods": {},
        }
        if about.any():
            asked = [c for c, known in zip(clips, about, strict=True) if known]
            part["asked"] = clustered_share(found[about], asked)
        for method in methods:
            right = hits(items, [rows[i.id, method] for i in items], benchmark)
            reference = [answers[first][i.id, method] for i in items]
            part["methods"][method] = {
                "right": clustered_share(right, clips),
                "gain": mean_difference(plain, right, clips),
                "over": mean_difference(hits(items, reference, benchmark), right, clips),
            }
        figures["sources"][source] = part
    return figures


def hits(items: Sequence[Item], rows: Sequence[Row], benchmark: Benchmark) -> np.ndarray[Any, Any]:
    """Which answers are right, (N,); one that failed is not."""
    from macd_studio.evals.scoring.score import headline
    from macd_studio.evals.statistics.table import right

    def judged(item: Item, row: Row) -> bool:
        if row.error or row.left_out:
            return False
        if benchmark.name in FILES:
            return headline(benchmark.name, item).right(row.text, item)
        return right(item, row.text, benchmark)

    return np.array([judged(i, r) for i, r in zip(items, rows, strict=True)], bool)


def markdown(report: Mapping[str, Any]) -> str:
    """The table of a report: points of accuracy with 95 % intervals."""
    first = report["sources"][0]
    rows = []
    for regime, part in report["regimes"].items():
        for source, one in part["sources"].items():
            asked = percent(one.get("asked"))
            many = "–" if one["objects"] is None else f"{one['objects']:.1f}"
            for method, figures in one["methods"].items():
                over = "–" if source == first else change(figures["over"])
                rows.append([regime, part["n"], source, many, asked, method,
                             percent(figures["right"]), change(figures["gain"]), over])  # fmt: skip
    heads = ["regime", "n", "objects of", "objects a clip", "asked object found, %", "method",
             "right, %", "over the baseline", f"over its own with {first}"]  # fmt: skip
    return table(heads, rows)
