"""A run → protocol.json: what its figures depend on, and another run may do otherwise.

Per question what its answer was computed from; once for all: annotation, scoring, options, models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from macd_studio.evals.benchmarks.base import Benchmark, Item
from macd_studio.evals.protocol.bounds import KIND, VERSION
from macd_studio.evals.protocol.figure import DRAWN_RULE
from macd_studio.evals.running.given import DIGITS, digest
from macd_studio.evals.running.rows import Row, Setting, code_fingerprint, files_fingerprint

Plain = dict[str, Any]
OF_THE_CLIP = ("clip", "frames", "times", "source", "read")
OF_PARTNER = " (partner)"
Answers = Mapping[tuple[str, str], Row]


def make_protocol(
    benchmark: Benchmark,
    setting: Setting,
    items: Sequence[Item],
    answers: Answers,
    report: Plain,
    sources: Mapping[str, tuple[Setting, Answers]] | None = None,
) -> Plain:
    """The protocol of a run as plain values; `border.read_protocol` takes them.

    answers: (question, method) → its row; what a question was computed from is the baseline's.
    report: of the run, with methods, contrasts, figures and failures. sources: of a study of
    detectors, where the objects of each come from, with the answers that were computed from them.
    """
    models, clips = _Listed(), _Listed()
    asked = [_item(benchmark, i, answers.get((i.id, "baseline")), models, clips) for i in items]
    return {
        "kind": KIND,
        "version": VERSION,
        "made_by": {"version": _version(), "code": code_fingerprint()[:DIGITS]},
        "benchmark": {
            "name": benchmark.name,
            "asked": len(items),
            "questions": len(getattr(benchmark, "everything", items)),
            "files": getattr(benchmark, "files", []),
            "content": benchmark.fingerprint(),
        },
        "scoring": {
            "rule": report.get("rule", DRAWN_RULE if report.get("kind") != "files" else ""),
            "source": report.get("source", ""),
            "over": report.get("over", "all"),
            "held_out": report.get("held_out", 0),
            "failed": report.get("failures", {}).get("failed", 0),
        },
        "setting": _setting(setting),
        "methods": {m: _method(m, items, answers, report) for m in report["methods"]},
        "sources": {
            name: _source(own, {m: _method(m, items, given, report) for m in report["methods"]})
            for name, (own, given) in (sources or {}).items()
        },
        "models": models.values,
        "clips": clips.values,
        "items": asked,
    }


class _Listed:
    """Plain values, each once; `at` gives the place of one."""

    def __init__(self) -> None:
        self.values: list[Plain] = []
        self._places: dict[str, int] = {}

    def at(self, value: Plain) -> int:
        place = self._places.setdefault(json.dumps(value, sort_keys=True), len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place


def _version() -> str:
    from macd_studio import __version__

    return str(__version__)


def _setting(setting: Setting) -> Plain:
    """The setting without the places of this machine."""
    plain = json.loads(json.dumps(asdict(setting)))
    for name in ("data", "clips", "masks", "offload", "benchmark"):
        del plain[name]
    for role in ("backbone", "detector"):
        path = Path(plain[role])
        plain[role] = path.name if path.exists() else plain[role]
    return dict(plain)


def _source(setting: Setting, methods: Plain) -> Plain:
    """Where objects come from: detector, thresholds, hash of the files; and what then failed."""
    plain = _setting(setting)
    return {
        "detector": plain["detector"] if setting.boxes == "detector" else "",
        "boxes": setting.boxes,
        "detect": plain["options"]["detect"],
        "masks": files_fingerprint(Path(setting.masks)) if setting.masks else "",
        "methods": methods,
    }


def _method(method: str, items: Sequence[Item], answers: Answers, report: Plain) -> Plain:
    contrast = report.get("contrasts", {}).get(method)
    rows = [(i.id, row) for i in items if (row := answers.get((i.id, method))) is not None]
    return {
        "alpha": None if contrast is None else contrast[0],
        "beta": None if contrast is None else contrast[1],
        "from": report.get("contrast_sources", {}).get(method, ""),
        "failed": [name for name, row in rows if row.error],
        "left_out": [name for name, row in rows if row.left_out],
    }


def _item(
    benchmark: Benchmark, item: Item, row: Row | None, models: _Listed, clips: _Listed
) -> Plain:
    given = row.given if row else {}
    shown: Plain = {n: given[n] for n in OF_THE_CLIP if n in given}
    group = getattr(benchmark, "group", None)
    partner = given.get("partner")
    return {
        "id": item.id,
        "clip": clips.at(Plain(key=item.clip) | shown),
        "partner": clips.at({"key": f"{item.clip}{OF_PARTNER}", **partner}) if partner else None,
        "by": models.at(given["by"]) if "by" in given else None,
        "kind": item.kind,
        "truth": item.truth,
        "asked": asked_hash(item),
        "around": around_hash(item),
        "prompt": given.get("prompt", ""),
        "tokens": given.get("tokens"),
        "cluster": _cluster(benchmark, item),
        "group": group(item) if group else "",
    }


def _cluster(benchmark: Benchmark, item: Item) -> str:
    """What was drawn with the question, without the places of this machine."""
    find, clip = getattr(benchmark, "cluster", None), item.clip.split("#")[0]
    named = str(find(item)) if find else clip
    return clip if named.endswith(clip) else named


def asked_hash(item: Item) -> str:
    """Of what the annotation asks: the question and its options."""
    return digest(json.dumps([item.question, list(item.options)]))


def around_hash(item: Item) -> str:
    """Of the text that is put around a question, without the options' words."""
    before, after = item.before, item.after
    for option in sorted(item.options, key=len, reverse=True):
        before, after = before.replace(option, "…"), after.replace(option, "…")
    return digest(json.dumps([before, after]))
