"""Looks for clips that show the mechanism, and writes them with their traces to assets/examples.

`python -m toyworld.make_examples`: for every kind of example draws clips by a fixed seed, runs the
real pipeline with the shipped models, and keeps the first clip that shows it; the opening one is
taken from those that `toyworld.example_search` found. Every clip is `readable`. Nothing is picked
by hand beyond that. Each example's line of truth is computed from its spec, and its title says what
came of it; the index says how many clips were drawn until one was kept.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from macd_studio.commands import need_checkout
from macd_studio.commands import parser as command_line
from macd_studio.core.backbones import LocalLM, load_backbone
from macd_studio.core.masking.controls import OBJECTS, PLACE
from macd_studio.core.objects.detect import Detector, load_detector
from macd_studio.core.objects.truth import is_right
from macd_studio.core.run.pipeline import run
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.types import Clip, Trace
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.clips import drawn_clip, write_mp4
from macd_studio.toyworld.example_draws import SEED, Case
from macd_studio.toyworld.example_kinds import KINDS, OPENING, Kind, Right
from macd_studio.toyworld.example_search import (
    COUNTS,
    DRAWS,
    Searcher,
    baseline_is_right,
    describe_repair,
    meets,
)
from macd_studio.toyworld.example_truth import readable
from macd_studio.toyworld.priors import priors

OUT = assets() / "examples"
GOLD = OUT / "gold.json"
Row = dict[str, Any]
"""What the index says of an example."""


OUTCOMES = {
    (False, True): "wrong becomes right",
    (False, False): "wrong stays wrong",
    (True, False): "right becomes wrong",
    (True, True): "right stays right",
}


def describe(case: Case) -> str:
    """The truth in one line."""
    seen = ", ".join(
        f"{ask.with_article(o.label)} ({'still' if o.motion == 'still' else 'moving ' + o.motion})"
        for o in case.spec.objects
    )
    return f"True answer: {case.truth}. Drawn {priors().phrase[case.spec.scene]}: {seen}."


def answers(trace: Trace) -> dict[str, str]:
    """Each method's answer."""
    return {m: a.text for m, a in trace.answers.items()}


def trace_of(
    video: object,
    question: str,
    truth: str,
    kind: Kind,
    lm: LocalLM,
    detector: Detector,
) -> Trace:
    """The real pipeline's trace of a file, or of a call that gives a clip, with its truth."""
    *_, last = run(
        video,  # type: ignore[arg-type]
        question,
        lambda: lm,
        lambda: detector,
        kind.options,
        methods=kind.beside,
    )
    assert last.trace is not None
    return replace(last.trace, truth=truth)


def plain_trace(clip: Clip, question: str, lm: LocalLM, detector: Detector) -> Trace:
    """The trace of a drawn clip with the default options and no further methods."""
    *_, last = run(lambda: clip, question, lambda: lm, lambda: detector)
    assert last.trace is not None
    return last.trace


def measured(trace: Trace, lm: LocalLM) -> Trace:
    """The trace with its occlusion report and its controls."""
    bench = Workbench(trace, lm)
    bench.measure_occlusion()
    return bench.measure_controls()


def mapped(trace: Trace, lm: LocalLM) -> Trace:
    """The trace with every subset of its objects; as it is where it has none."""
    if not trace.tracks:
        return trace
    bench = Workbench(trace, lm)
    for _ in bench.choice_events():
        pass
    return bench.trace


def find(kind: Kind, seed: int, tries: int, lm: LocalLM, detector: Detector) -> Row | None:
    """The first clip of a kind that shows it, written with its trace; None where none does."""
    for number in range(tries):
        case = kind.case(number, seed)
        if kind.baseline is not None and baseline_is_right(case, lm) != kind.baseline:
            continue
        clip = drawn_clip(case.spec, kind.name, "0" * 64)
        trace = trace_of(lambda clip=clip: clip, case.question, case.truth, kind, lm, detector)
        if _shows(kind, trace, case, lm):
            row = _written(kind, case, number, lm, detector)
            if row is not None:
                return row
    return None


def find_opening(kind: Kind, lm: LocalLM, detector: Detector) -> Row | None:
    """The opening example, of the repairs that meet every criterion of the search.

    The one that fewest of the further random masks give too; a clip must meet them all as a file.
    """
    search = json.loads(COUNTS.read_text(encoding="utf-8"))
    searcher = Searcher(lm, detector)
    found = [row for n in search["chosen_from"] if (row := searcher.look(n)) is not None]
    for row in sorted(found, key=lambda row: sum(row[name] for name in (PLACE, OBJECTS))):
        case = kind.case(row["n"], search["seed"])
        written = _written(kind, case, row["n"], lm, detector, OUT / COUNTS.name)
        if written is not None:
            return written
    return None


def _shows(kind: Kind, trace: Trace, case: Case, lm: LocalLM) -> bool:
    right, made = _right(trace, case), trace.counterfactual
    if made is None or not (made.level.any() or made.frame_level.any()):
        return False  # there is nothing to compare with controls
    if not readable(trace.tracks, case.spec, case.asked) or not kind.shows(right, trace, case):
        return False
    return kind.confirms is None or kind.confirms(right, measured(trace, lm), case)


def _right(trace: Trace, case: Case) -> Right:
    return {m: bool(is_right(text, case.truth)) for m, text in answers(trace).items()}


def _written(
    kind: Kind, case: Case, number: int, lm: LocalLM, detector: Detector, search: Path | None = None
) -> Row | None:
    """Clip and trace as files, and their row; None where the codec changes what the trace shows.

    search: the counts of the search whose criteria the trace must meet, too.
    """
    with TemporaryDirectory() as folder:
        video = Path(folder) / f"{kind.name}.mp4"
        write_mp4(case.spec, video)
        trace = trace_of(video, case.question, case.truth, kind, lm, detector)
        if not _shows(kind, trace, case, lm):
            return None
        further: Row = {}
        if search is not None:
            of_file = describe_repair(case, trace, lm)
            if not meets(of_file):
                return None
            drawn = {name: [of_file[name], DRAWS] for name in (PLACE, OBJECTS)}
            further = {"search": search.name, "draws": drawn}
        trace = measured(trace, lm)
        shutil.copy(video, OUT / video.name)
    save(mapped(trace, lm), OUT / f"{kind.name}.macd")
    return _row(kind, case, number, trace) | further


def _row(kind: Kind, case: Case, number: int, trace: Trace) -> Row:
    assert trace.controls is not None
    right = _right(trace, case)
    same = [o.name for o in trace.controls.outcomes if o.same]
    draws = sum(o.name == "random" for o in trace.controls.outcomes)
    outcome = OUTCOMES[right["baseline"], right["macd"]]
    return {
        "title": kind.title if kind.outcome_in_title else f"{kind.title}: {outcome}",
        "question": case.question,
        "truth": describe(case),
        "answer": case.truth,
        "video": f"{kind.name}.mp4",
        "kind": kind.name,
        "tries": number + 1,
        "answers": answers(trace),
        "controls": {
            "random": [same.count("random"), draws],
            "others": [name for name in same if name != "random"],
        },
    }


def write_gold(rows: list[Row]) -> None:
    """Questions of the rating study whose good and bad mask are known, about four of the examples.

    Two objects a clip, tracked under their own names: hiding the one that is asked for is right.
    """
    items: list[dict[str, Any]] = []
    for row in rows:
        labels = {t.id: t.label for t in load(OUT / f"{row['kind']}.macd").tracks}
        drawn = all(f" {label} (" in row["truth"] for label in labels.values())
        if len(items) == 4 or len(labels) < 2 or len(set(labels.values())) < len(labels):
            continue
        if not drawn:
            continue
        asked, other = list(labels)[-1 - len(items) % 2], list(labels)[-2 + len(items) % 2]
        about, beside = labels[asked], labels[other]
        right = {"hide": [asked], "low": 4, "high": 5}
        wrong = {"hide": [other], "low": 1, "high": 2}
        training = len(items) < 2
        if training:
            right["why"] = (
                f"This mask hides the {about}, which the question is about, and leaves the rest as"
                " it was: 4 or 5."
            )
            wrong["why"] = (
                f"This mask hides the {beside} and leaves the {about} in full view, so the"
                " question can still be answered: 1 or 2."
            )
        sides = [right, wrong] if len(items) % 3 == 0 else [wrong, right]
        question = f"Is there {ask.with_article(about)} in the video?"
        item = {"trace": f"{row['kind']}.macd", "question": question, "sides": sides}
        items.append(item | ({"training": True} if training else {}))
    GOLD.write_text(json.dumps(items, indent=1) + "\n")


def retrace(lm: LocalLM, detector: Detector) -> None:
    """Keeps the clips and computes their traces again; they must give the same answers."""
    rows = json.loads((OUT / "index.json").read_text())
    kinds = {kind.name: kind for kind in KINDS}
    for row in rows:
        video, kind = OUT / row["video"], kinds[row["kind"]]
        trace = trace_of(video, row["question"], row["answer"], kind, lm, detector)
        trace = mapped(measured(trace, lm), lm)
        assert answers(trace) == row["answers"], row
        save(trace, video.with_suffix(".macd"))


def main() -> None:
    """Command line."""
    need_checkout("toyworld.make_examples")
    parser = command_line("toyworld.make_examples", __doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--tries", type=int, default=1000, help="clips drawn for each kind")
    parser.add_argument("--only", nargs="+", default=[], help="kinds to look for again")
    parser.add_argument("--retrace", action="store_true", help="keep the clips, redo the traces")
    args = parser.parse_args()
    lm, detector = load_backbone("toyworld", "cpu"), load_detector("toyworld")
    if args.retrace:
        retrace(lm, detector)
        return
    index = OUT / "index.json"
    kept = {r["kind"]: r for r in json.loads(index.read_text())} if args.only else {}
    if not args.only:
        for old in (*OUT.glob("*.mp4"), *OUT.glob("*.macd")):
            old.unlink()
    for kind in KINDS:
        if not args.only or kind.name in args.only:
            if kind.name == OPENING:
                row = find_opening(kind, lm, detector)
            else:
                row = find(kind, args.seed, args.tries, lm, detector)
            print(
                kind.name, row and {n: row[n] for n in ("tries", "answers", "controls")}, flush=True
            )
            kept |= {kind.name: row} if row else {}
            rows = [kept[k.name] for k in KINDS if k.name in kept]
            index.write_text(json.dumps(rows, indent=1) + "\n")
    write_gold(list(kept.values()))


if __name__ == "__main__":
    main()
