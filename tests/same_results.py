"""What runs give, written to a file, and two such files compared, for changes to the code alone.

    python -m tests.same_results record before.json
    python -m tests.same_results compare before.json after.json

Tokens, levels, verdicts and texts must be equal, floats within `TOLERANCE`. Covers the shipped
examples with the embedded model, the families with code of their own and five without, each whole:
both answers, further methods, searches, lazy runs, thoughts, changes by hand, controls, occlusion,
evidence and what is enough. What depends on the machine (times, memory, versions) is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import macd_studio as macd
from macd_studio.core.backbones import load_backbone
from macd_studio.core.methods import METHODS
from macd_studio.core.system.shipped import assets
from macd_studio.core.types import Trace
from macd_studio.core.whatif.edits import read_edit
from macd_studio.core.whatif.workbench import Workbench
from tests.fakes import clip
from tests.families import NAMES, tiny
from tests.universal_models import universal

TOLERANCE = 1e-5
"""Logits of float32 that come from batches of other shapes differ by this much at most."""
UNIVERSAL = ("llava_onevision", "qwen3_5", "glm4v_moe", "molmo2", "video_llama_3")
MACHINE = frozenset({
    "ms", "total_ms", "memory_mb", "timings_ms", "peak_memory_mb", "milliseconds", "versions",
    "device_name", "weights_hash", "shared",
})  # fmt: skip
"""Fields that tell of the machine or of what was shared, not of the result."""
LARGEST = 4096
"""Arrays with more values are kept by their hash."""
QUESTION = "Is there a dog in the video?"
EXTRA = ("vcd", "sid", "tcd", "macd-measured", "random-mask")


def plain(value: Any) -> Any:
    """A trace, or a part of one, as JSON holds it."""
    if is_dataclass(value) and not isinstance(value, type):
        names = (f.name for f in fields(value) if f.name not in MACHINE)
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items() if k not in MACHINE}
    if isinstance(value, frozenset | set):
        return sorted(plain(v) for v in value)
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        if value.size > LARGEST:
            return hashlib.sha256(np.ascontiguousarray(value)).hexdigest()
        return value.astype(float).tolist() if value.dtype.kind == "f" else value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return value


def measured(trace: Trace, lm: Any) -> Iterator[tuple[str, Any]]:
    """What is measured on a finished trace, and what changes by hand give."""
    bench = Workbench(trace, lm)
    yield "occlusion", _tried(lambda: bench.measure_occlusion().occlusion)
    yield "controls", _tried(lambda: bench.measure_controls(4).controls)
    yield "redecoded", _tried(lambda: bench.redecode(0.7, 0.2).answers)
    if trace.tracks:
        first = trace.tracks[0].id
        level, drop = ({"kind": k, "track": first} for k in ("level", "drop"))
        yield "level", _tried(lambda: _edited(trace, lm, level | {"level": 1.0}))
        yield "dropped", _tried(lambda: _edited(trace, lm, drop))
    yield "evidence", _tried(lambda: macd.evidence(trace, backbone=lm).evidence)
    few = {"budget": 24, "spans": 1}
    yield "enough", _tried(lambda: macd.enough(trace, backbone=lm, **few).enough)


def _edited(trace: Trace, lm: Any, edit: dict[str, Any]) -> Any:
    bench = Workbench(trace, lm)
    for _ in bench.change(read_edit(edit, trace)):
        pass
    return bench.trace.counterfactual, bench.trace.answers


def _tried(call: Callable[[], Any]) -> Any:
    """What a call gives, or the sentence it is refused with."""
    try:
        return call()
    except macd.MacdError as error:
        return f"refused: {error}"


def run_all() -> Iterator[tuple[str, Any]]:
    """Every case: its name, and what it gives."""
    toy = load_backbone("toyworld", "cpu")
    examples = assets() / "examples"
    for path in sorted(examples.glob("*.macd")):
        trace = macd.load(path)
        for name, value in measured(trace, toy):
            yield f"{path.stem}/{name}", value
        again = macd.trace(
            path.with_suffix(".mp4"), trace.question, backbone=toy, options=trace.options
        )
        yield f"{path.stem}/run", again
    one = macd.load(examples / "repaired.macd")
    whole = [name for name, method in METHODS.items() if method.fixed is None]
    video = examples / "repaired.mp4"
    yield "repaired/methods", macd.compare(video, one.question, whole, backbone=toy)
    for search in ("beam", "vote", "sample"):
        for lazy in (False, True):
            yield f"repaired/{search}/{lazy}", macd.compare(
                video, one.question, ["vcd", "mask-all"], backbone=toy, lazy=lazy, seed=3,
                decode={"search": search, "max_tokens": 6, "beams": 3, "samples": 3},
            )  # fmt: skip
    for path in sorted(examples.glob("*.mp4"))[:4]:
        asked = macd.load(path.with_suffix(".macd")).question
        yield f"{path.stem}/lazy", macd.compare(path, asked, ["vcd"], backbone=toy, lazy=True)
    for name in (*NAMES, *UNIVERSAL):
        lm = tiny(name) if name in NAMES else universal(name)
        trace = macd.compare(
            clip(4, 96), QUESTION, EXTRA, backbone=lm, decode={"max_tokens": 4},
            ascent={"steps": 2},
        )  # fmt: skip
        yield f"{name}/run", trace
        for part, value in measured(trace, lm):
            yield f"{name}/{part}", value
        lazy = macd.compare(
            clip(4, 96), QUESTION, ["vcd"], backbone=lm, decode={"max_tokens": 4}, lazy=True
        )
        yield f"{name}/lazy", lazy


def differences(a: Any, b: Any, where: str = "") -> Iterator[str]:
    """Every place where two results differ, and by how much."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(a.keys() | b.keys()):
            if key not in a or key not in b:
                yield f"{where}/{key}: only in {'the second' if key in b else 'the first'}"
            else:
                yield from differences(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from differences(one, other, f"{where}/{i}")
    elif isinstance(a, float) and isinstance(b, float):
        if a != b and not abs(a - b) <= TOLERANCE * max(1.0, abs(a)) and not (a != a and b != b):
            yield f"{where}: {a!r} and {b!r}"
    elif a != b:
        yield f"{where}: {str(a)[:80]!r} and {str(b)[:80]!r}"


def main(arguments: list[str] | None = None) -> int:
    """Records what runs give, or compares two records; 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("record").add_argument("file", type=Path)
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "record":
        found = {}
        for name, value in run_all():
            found[name] = plain(value)
            print(name, flush=True)
        given.file.write_text(json.dumps(found))
        return 0
    before, after = (json.loads(p.read_text()) for p in (given.before, given.after))
    found = list(differences(before, after))
    print(*found[:200], sep="\n")
    print(f"{len(before)} and {len(after)} results, {len(found)} differences")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
