"""`python -m macd_ui.engine`: the embedded model for browsers, for sites that have no server.

Builds a folder, runs/browser-model or the one that MACD_BROWSER_MODEL names, which the gallery and
the course copy into `engine/`:

runtime.bin, ort.js, ort-threads.js   onnxruntime-web, fetched from npm's registry as RUNTIME says
weights.bin                           the shipped weights; like runtime.bin compressed by gzip
logits.onnx, gradient.onnx            the graphs over them, see `viewer.graph`
engine.json, LICENSES.txt             sizes and hashes; whose work the runtime is

With --optional a runtime that cannot be fetched is a note, and the sites do without the model. Exit
codes: 0 built, or optional; 2 where it cannot be built.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import urllib.request
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from macd_studio.commands import parser as command_line
from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.masking.controls import Hidden, random_place
from macd_studio.core.measurements import RANDOM_MASKS
from macd_studio.core.system.shipped import shipped
from macd_studio.core.text.words import visible
from macd_studio.core.types import LOST, Trace, Track
from macd_studio.core.whatif.edits import check_changeable
from macd_studio.macd_ui.sites import File, exit_code, text_file
from macd_studio.viewer.bundle import JS, bundle
from macd_studio.viewer.graph import FRAMES, SIDE, WEIGHTS, build
from macd_studio.viewer.payload import can_compare


@dataclass(frozen=True)
class Runtime:
    """A package of npm's registry. integrity: SHA-512 of its archive, as the registry gives it."""

    name: str
    version: str
    integrity: str
    licence: str
    files: tuple[tuple[str, str], ...]

    @property
    def address(self) -> str:
        """Of the archive."""
        return f"https://registry.npmjs.org/{self.name}/-/{self.name}-{self.version}.tgz"


RUNTIME = Runtime(
    "onnxruntime-web",
    "1.30.0",
    "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
    "MIT",
    (
        ("package/dist/ort.wasm.min.js", "ort.js"),
        ("package/dist/ort-wasm-simd-threaded.mjs", "ort-threads.js"),
        ("package/dist/ort-wasm-simd-threaded.wasm", "runtime.bin"),
    ),
)
"""What runs the model in a browser: the only place that names its version."""
WORKER, ABOUT, NOTICE = "worker.js", "engine.json", "LICENSES.txt"
SCRIPTS = ("ort.js", "ort-threads.js")
FETCHED = ("runtime.bin", "weights.bin", "logits.onnx", "gradient.onnx")
"""What the worker fetches itself, and shows the progress of."""
FOLDER = "engine"
"""Of the files in a site."""
FILLS = {"mean": 0.0, "black": None}
"""Fills of one colour, normalised; None: of black, which the means decide."""
FOLLOWED: dict[str, tuple[str, ...]] = {
    "mask": ("pad", "feather", "overlap", "swept", "fusion", "strength_twice", "fill", "frame_mask",
             "fill_seed", "shape"),
    "ascent": ("steps", "eta", "r0", "tau", "levels", "frame_fraction", "memory",
               "difference_step"),
    "decode": ("max_tokens", "max_thought", "contrast_thought", "temperature", "top_p", "beams",
               "length_penalty", "samples", "seed", "keep"),
}  # fmt: skip
"""Options that the scripts follow, or that greedy decoding by this model has no use for; a run in
which any other of these is not its default needs the app."""
_LICENCE = """{name} {version}, from {address}
Copyright (c) Microsoft Corporation. MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial
portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES
OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.

The model and the other files here are part of MACD Studio, AGPL-3.0-or-later.
"""


class EngineError(MacdError):
    """The runtime for browsers cannot be had."""


@dataclass(frozen=True)
class Engine:
    """The built folder, as the sites use it.

    elsewhere: path from a site to another one that holds the files, with its final slash; "" where
    the site holds them itself.
    """

    folder: Path
    elsewhere: str = ""

    @property
    def size(self) -> int:
        """Bytes that a browser loads with the first change."""
        listed = json.loads((self.folder / ABOUT).read_text(encoding="utf-8"))["files"]
        scripts = sum((self.folder / name).stat().st_size for name in SCRIPTS)
        return scripts + sum(int(file["bytes"]) for file in listed)

    def paths(self) -> list[str]:
        """Of its files in a site."""
        return (
            []
            if self.elsewhere
            else [f"{FOLDER}/{name}" for name in (WORKER, *SCRIPTS, *FETCHED, ABOUT, NOTICE)]
        )

    def file(self, path: str) -> File | None:
        """A file by its path in a site, None where it is none of these."""
        if path not in self.paths():
            return None
        name = path.removeprefix(f"{FOLDER}/")
        if name == WORKER:
            return text_file(f"{bundle(JS / 'worker.js')};", "javascript")
        content = (self.folder / name).read_bytes()
        kinds = {"js": "text/javascript", "json": "application/json", "txt": "text/plain"}
        kind = kinds.get(name.rpartition(".")[2], "application/octet-stream")
        return File(content, kind)

    def about(self, trace: Trace, run: str, up: str = "") -> dict[str, Any]:
        """What a payload says of it; `EngineAbout` in viewer/js/types.d.ts.

        run: address of the run's file. up: path of the site's folder, with its final slash.
        """
        return {
            "folder": f"{up}{self.elsewhere}{FOLDER}/",
            "run": run,
            "bytes": self.size,
            "whyNot": why_not(trace),
        }


def place() -> Path:
    """Where the model for browsers is built. Empty in the environment: nowhere."""
    named = os.environ.get("MACD_BROWSER_MODEL")
    return (
        Path(__file__).resolve().parents[1] / "runs/browser-model" if named is None else Path(named)
    )


def built(folder: Path | None = None) -> Engine | None:
    """The model as it was built; None where there is none of these weights and this runtime."""
    folder = folder or place()
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Engine(folder) if about.get("made_of") == _made_of() else None


def _made_of() -> dict[str, str]:
    """What decides about every file of it."""
    graphs = build(shipped("backbone"))
    parts = [(shipped("backbone") / WEIGHTS).read_bytes(), *graphs.values()]
    return {
        "model": hashlib.sha256(b"".join(hashlib.sha256(z).digest() for z in parts)).hexdigest(),
        "runtime": RUNTIME.integrity,
    }


def make(folder: Path | None = None) -> Engine:
    """Builds it where it is not there yet. Raises EngineError where the runtime cannot be had."""
    folder = folder or place()
    if (engine := built(folder)) is not None:
        return engine
    folder.mkdir(parents=True, exist_ok=True)
    made = _made_of()
    runtime = _runtime() if _former(folder) != made["runtime"] else {}
    weights = (shipped("backbone") / WEIGHTS).read_bytes()
    graphs = {f"{name}.onnx": text for name, text in build(shipped("backbone")).items()}
    licence = _LICENCE.format(**vars(RUNTIME), address=RUNTIME.address).encode()
    files = runtime | graphs | {"weights.bin": _packed(weights), NOTICE: licence}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    listed = [_listed(folder / name) for name in FETCHED]
    about = {"version": RUNTIME.version, "made_of": made, "files": listed}
    (folder / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
    return Engine(folder)


def _former(folder: Path) -> str:
    """The runtime of an earlier build, if it is still whole."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        whole = all((folder / name).is_file() for _, name in RUNTIME.files)
        return str(about["made_of"]["runtime"]) if whole else ""
    except (OSError, ValueError, KeyError):
        return ""


def _listed(file: Path) -> dict[str, Any]:
    content = file.read_bytes()
    return {
        "name": file.name,
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _packed(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def _runtime() -> dict[str, bytes]:
    """The files of the runtime by the names they get. Raises EngineError."""
    try:
        with urllib.request.urlopen(RUNTIME.address, timeout=60) as answer:
            archive = answer.read()
    except OSError as error:
        raise EngineError(
            f"{RUNTIME.name} cannot be fetched from npm's registry ({error})",
            "Check the connection and try again; without it the sites show what is saved",
        ) from error
    if base64.b64encode(hashlib.sha512(archive).digest()).decode() != RUNTIME.integrity:
        raise EngineError(
            f"{RUNTIME.address} is not the file that is expected",
            "Try again; if it stays so, a proxy changes what it passes on",
        )
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        read = {name: files.extractfile(path) for path, name in RUNTIME.files}
        found = {name: file.read() for name, file in read.items() if file is not None}
    return found | {"runtime.bin": _packed(found["runtime.bin"])}


def why_not(trace: Trace) -> str:
    """Why a browser cannot compute changes of this run, in a sentence; "" where it can."""
    frames, options = trace.model_frames, trace.options
    if trace.backbone.name != EMBEDDED:
        return (
            f"No change can be computed here: this run is of {visible(trace.backbone.name)[:100]}."
        )
    try:
        check_changeable(trace)
    except OptionError as error:
        return f"No change can be computed here: {error.cause}."
    assert frames is not None
    plain = (
        all(_follows(getattr(options, part), names) for part, names in FOLLOWED.items())
        and options.mask.fill in FILLS
        and not options.masks_only
        and frames.pixels.shape == (FRAMES, SIDE, SIDE, 3)
        and frames.content == (0, 0, SIDE, SIDE)
    )
    return (
        "" if plain else "No change can be computed here: this run has options that need the app."
    )


def _follows(options: Any, names: Sequence[str]) -> bool:
    """Whether all options but these are as by default."""
    return bool(options == replace(type(options)(), **{z: getattr(options, z) for z in names}))


@cache
def _backbone() -> Any:
    from macd_studio.core.backbones.load import load_backbone

    return load_backbone(EMBEDDED, "cpu")


def run_file(trace: Trace) -> File:
    """What the model needs of a run beside its payload; `EngineRun` in viewer/js/types.d.ts.

    Empty for a run that `why_not` has something against. Loads the embedded backbone.
    """
    if why_not(trace):
        return File(b"{}", "application/json")
    lm, options = _backbone(), trace.options
    assert trace.model_frames is not None
    encoded = lm.encode_frames(trace.model_frames, trace.question)
    ids = encoded.input_ids[0].tolist()
    video = [i for i, token in enumerate(ids) if token == lm.vision_token]
    mean, std = encoded.mean.tolist(), encoded.std.tolist()
    fill = [-m / s if options.mask.fill == "black" else 0.0 for m, s in zip(mean, std, strict=True)]
    frames = trace.model_frames.pixels
    data = {
        "frames": base64.b64encode(zlib.compress(frames.tobytes(), 9)).decode(),
        "shape": list(frames.shape[:3]),
        "mean": mean,
        "std": std,
        "fill": fill,
        "before": ids[: video[0]],
        "after": ids[video[-1] + 1 :],
        "positions": encoded.inputs["position_ids"][:, 0].tolist(),
        "next": lm.next_position(encoded),
        "query": encoded.query.tolist(),
        "targets": [ids[i] for i in encoded.query.tolist()],
        "end": sorted(lm.end_tokens),
        "texts": [lm.token_text(i) for i in range(lm.model.config.text_config.vocab_size)],
        "tracks": [_exact(track) for track in trace.tracks],
        "ascent": {n: getattr(options.ascent, n) for n in ("steps", "eta", "r0")},
        "decode": {"max_tokens": options.decode.max_tokens},
        "placements": _placements(trace) if can_compare(trace) else [],
    }
    return File(json.dumps(data, separators=(",", ":")).encode(), "application/json")


def _exact(track: Track) -> dict[str, Any]:
    """What of a track a payload rounds, whole."""
    return {
        "boxes": _boxes(track),
        "outlines": [
            None if outline is None else [ring.tolist() for ring in outline]
            for outline in track.outlines
        ],
        "brush": [
            {"points": s.points.tolist(), "radius": s.radius, "erase": s.erase} for s in track.brush
        ],
    }


def _boxes(track: Track) -> list[list[float] | None]:
    pairs = zip(track.boxes, track.state, strict=True)
    return [None if state == LOST else box.tolist() for box, state in pairs]


def _placements(trace: Trace) -> list[dict[str, Any]]:
    """The random masks that `core.whatif.controls` compares with."""
    levels = trace.counterfactual
    assert levels is not None
    hidden = Hidden(
        trace.tracks, levels.level, levels.frame_level, trace.groups, (SIDE, SIDE), trace.mask
    )
    placed = [random_place(hidden, trace.options.seed + draw) for draw in range(RANDOM_MASKS)]
    return [
        {"boxes": [_boxes(t) for t in z.tracks], "frame_level": z.frame_level.tolist()}
        for z in placed
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds the model for browsers; gives the exit code."""
    parser = command_line("macd_ui.engine", __doc__)
    parser.add_argument(
        "--optional", action="store_true", help="do without, where it is not to be had"
    )
    given = parser.parse_args(arguments)

    def work() -> None:
        try:
            engine = make()
        except EngineError as error:
            if not given.optional:
                raise
            print(f"note: {visible(str(error))}", file=sys.stderr)
            return
        print(f"{engine.size / 1e6:.1f} MB: {engine.folder}")

    return exit_code(work, "the model for browsers")


if __name__ == "__main__":
    sys.exit(main())
