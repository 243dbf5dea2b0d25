"""What is kept of an answered question: one JSON line a method, found again by its content."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

from macd_studio.core.backbones.weights_options import Dtype, Weights
from macd_studio.core.embedded import EMBEDDED, EVERYDAY, REAL_DETECTOR, SHIPPED
from macd_studio.core.errors import OptionError
from macd_studio.core.options import RunOptions, options_from
from macd_studio.core.system.shipped import TOYWORLD, assets
from macd_studio.core.validation import Maybe, Number, Rule, shown
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.benchmarks.base import Benchmark, Item

ROOT = Path(__file__).resolve().parents[2]
CODE = tuple(
    "macd.py masking decoding objects rules.py views methods.py run/order.py"
    " backbones text/question.py token_logits.py ../evals/running/answer.py"
    " ../evals/running/prompting.py".split()
)


NOT_LOOKED = -1
"""The number of objects of a row for which nobody looked for any."""


@dataclass(frozen=True)
class Row:
    """One method's answer to one item."""

    key: str
    """SHA-256 of everything the answer depends on."""
    item: str
    method: str
    text: str = ""
    margin: float | None = None
    """Score of "yes" less that of "no" at the first token, None where either was not kept."""
    grid: list[str] = field(default_factory=list)
    """First token for every α and β tried, split "choose" only."""
    gradient: list[tuple[str, float]] = field(default_factory=list)
    """(label, slope) of each track: dL/dr of a method that ascends, the measured change of one that
    measures."""
    first: str = ""
    """The first token's text."""
    scores: dict[str, float] = field(default_factory=dict)
    """Text → score of the best first tokens, of the baseline only."""
    probability: float | None = None
    """Probability of the answer under the method's own scores, [0, 1]."""
    tracks: list[str] = field(default_factory=list)
    """Labels of the objects that could be masked, of the baseline only."""
    reads: float | None = None
    """What the method takes, in prompts read (`answer.count_reads`)."""
    left_out: str = ""
    """Why the method does not apply to the question."""
    error: str = ""
    """Why there is no answer though the method applies."""
    letters: list[float | None] = field(default_factory=list)
    """Scores of the options' letters at the first token, None where one was not kept; of multiple
    choice only."""
    objects: int | None = None
    """How many objects could be masked, NOT_LOOKED where no method depended on them; None in rows
    of an earlier version."""
    penalty: float | None = None
    """The model's repetition penalty, taken after the contrast; None where it has none."""
    tokens: int | None = None
    """Tokens of the answer, the end included; None in rows of an earlier version."""
    open: int | None = None
    """Tokens that a contrast could change, because two or more pass the cut; None where nothing is
    contrasted, of a forced choice, and in rows of an earlier version."""
    certified: int | None = None
    """Tokens that are certified, see `core.decoding.certificate`; None where no server was
    asked."""
    clamped: float | None = None
    """Share of the second view's values that a server clamped to 8 bits; None where none was."""
    notes: list[str] = field(default_factory=list)
    """What was told of the clip when it was read, as that its file is cut off."""
    given: dict[str, Any] = field(default_factory=dict)
    """What the answer was computed from (`evals.running.given`), of the baseline only; a packed row
    leaves it out, protocol.json holds it."""


@dataclass(frozen=True)
class Setting:
    """What a run is about, the same for all its items."""

    benchmark: str
    options: RunOptions
    backbone: str = "toyworld"
    detector: str = "toyworld"
    boxes: str = "detector"
    """Where boxes come from: "detector", "truth" or "files"."""
    data: str = ""
    """Folder of a benchmark of video files."""
    fps: float | None = None
    side: int | None = None
    """`fps` and `side`: see `evals.benchmarks.files.Sampling`."""
    published: bool = True
    """Whether its questions are asked in the published prompt, or bare."""
    seed: int = 0
    """Which drawing of a drawn benchmark's clips, see `seeded`."""
    held: Weights = "as-is"
    """How the backbone's weights are quantised."""
    offload: bool = False
    """Whether weights that do not fit lie off the device, which changes no answer."""
    masks: str = ""
    """The folder of the files of masks, with the boxes "files"."""
    dtype: Dtype = "auto"
    """What the backbone computes in."""
    clips: str = ""
    """The folder whose videos are shown instead."""

    def open(self) -> Benchmark:
        """The benchmark, its files checked. Raises OptionError and BenchmarkError."""
        if self.clips:
            return self._with_other_clips()
        if self.masks:
            from macd_studio.evals.running.tracks import Annotated

            return Annotated(replace(self, masks="").open(), Path(self.masks), self.options.track)
        if not self.data:
            return seeded(find_benchmark(self.benchmark), self.seed)
        from macd_studio.evals.benchmarks.files import Sampling

        sampling = Sampling(self.options.video, self.fps, self.side)
        return find_benchmark(self.benchmark, Path(self.data), sampling, self.published)

    def _with_other_clips(self) -> Benchmark:
        from macd_studio.evals.benchmarks import open_files
        from macd_studio.evals.benchmarks.files import FileBenchmark, OtherClips, Sampling

        shown = replace(self, data=self.clips, clips="", masks="").open()
        assert isinstance(shown, FileBenchmark)
        sampling = Sampling(self.options.video, self.fps, self.side)
        asked = open_files(self.benchmark, Path(self.data), sampling, self.published, videos=False)
        both: Any = OtherClips(asked, shown)
        if not self.masks:
            return both  # type: ignore[no-any-return]
        from macd_studio.evals.running.tracks import Annotated

        return Annotated(both, Path(self.masks), self.options.track)

    def as_dict(self) -> dict[str, Any]:
        """As plain values; `read_setting` takes them."""
        return asdict(self)

    def content(self, benchmark: Benchmark) -> str:
        """Names the setting by its content, models and code included, wherever its files lie."""
        import torch  # rows are read without

        parts = self.as_dict() | {"of": benchmark.fingerprint(), "code": code_fingerprint()}
        del parts["data"], parts["clips"]  # the fingerprint is that of what lies there
        del parts["offload"]
        parts["masks"] = files_fingerprint(Path(self.masks)) if self.masks else ""
        if not self.masks:
            del parts["masks"]  # as before there were any
        if self.dtype == "auto":
            del parts["dtype"]
        parts |= {role: _model_content(parts[role]) for role in ("backbone", "detector")}
        parts["device"] = "cuda" if torch.cuda.is_available() else "cpu"
        if "toyworld" in (self.backbone, self.detector):
            parts["weights"] = json.loads((TOYWORLD / "manifest.json").read_text())
        if {EVERYDAY, REAL_DETECTOR} & {self.backbone, self.detector}:
            parts["everyday"] = json.loads((assets() / EVERYDAY / "manifest.json").read_text())
        return _sha(parts)

    def detector_content(self) -> str:
        """Digest of what tracks depend on besides the clip and the options: detector and code."""
        part = {EMBEDDED: EMBEDDED, REAL_DETECTOR: EVERYDAY}.get(self.detector)
        weights = (assets() / part / "manifest.json").read_text() if part else ""
        return _sha([_model_content(self.detector), weights, code_fingerprint()])


def read_setting(values: Any) -> Setting:
    """The setting that `Setting.as_dict` gave. Raises OptionError for anything else."""
    names = [f.name for f in fields(Setting)]
    if isinstance(values, Mapping):
        values = {
            "held": "as-is",
            "offload": False,
            "masks": "",
            "dtype": "auto",
            "clips": "",
            **values,
        }  # older reports do not say
    if not isinstance(values, Mapping) or set(values) != set(names):
        raise OptionError("the setting of the report is damaged", "Run it again")
    options = options_from(values["options"])
    kinds = {"boxes": ("detector", "truth", "files"), "published": (True, False),
             "held": get_args(Weights), "dtype": get_args(Dtype),
             "offload": (True, False)}  # fmt: skip
    numbers: dict[str, Rule] = {"fps": Maybe(Number(0.01, 60)), "seed": Number(0, 9999, whole=True),
               "side": Maybe(Number(28, 2048, whole=True))}  # fmt: skip
    for name in names:
        value = values[name]
        if name in numbers:
            numbers[name].read(value, name)
        elif name in kinds and value not in kinds[name]:
            raise OptionError(f"{name} is {shown(value)} in the report", "Run it again")
        elif name not in (*kinds, "options") and not isinstance(value, str):
            raise OptionError(f"{name} is {shown(value)} in the report", "Run it again")
    return Setting(**{**values, "options": options})


def seeded(benchmark: Benchmark, seed: int) -> Benchmark:
    """The benchmark with clips drawn from other seeds; 0 leaves it as it is.

    Raises OptionError where its clips are not drawn.
    """
    if seed:
        if not benchmark.seeds:
            raise OptionError(
                f"the clips of {benchmark.name} are not drawn", "Leave --seed out, or give 0"
            )
        benchmark.seeds = {
            split: first + SEED_STEP * seed for split, first in benchmark.seeds.items()
        }
    return benchmark


SEED_STEP = 1000


def _model_content(name: str) -> str:
    """A model's name, or the fingerprint of its files where it is a local one."""
    path = Path(name)
    return name if name in SHIPPED or not path.exists() else files_fingerprint(path)


def files_fingerprint(path: Path) -> str:
    """Of the contents of a model's files and their names within its folder."""
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    return _sha([(f.relative_to(path).as_posix(), _file_digest(f, f.stat())) for f in files])


@cache
def _file_digest(file: Path, stat: os.stat_result) -> str:
    """sha256 of a file; stat: so that a file that was changed is read again."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def row_key(content: str, item: Item, method: str, contrast: tuple[float, float] | None) -> str:
    """The key of an answer; contrast: (α, β), None where a whole grid was tried."""
    return _sha([content, asdict(item), method, contrast])


def _sha(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]


@cache
def code_fingerprint(root: Path = ROOT / "core") -> str:
    """Of the contents of the code that an answer depends on, the same in every clone."""
    digest = hashlib.sha256()
    for name in CODE:
        path = root / name
        files = sorted(path.glob("*.py"), key=lambda f: f.name) if path.is_dir() else [path]
        for file in files:
            digest.update(f"{name}/{file.name}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def append(path: Path, row: Row) -> None:
    """Adds one line, flushed; a line torn by a kill is dropped by `read`."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def read(folder: Path) -> Iterator[Row]:
    """Every whole row of a folder's files."""
    for path in sorted(folder.glob("rows-*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if (row := _row(line)) is not None:
                yield row


def _row(line: str) -> Row | None:
    """The row of a line; None for one that is torn or of another version."""
    try:
        raw = json.loads(line)
        raw["gradient"] = [tuple(pair) for pair in raw.get("gradient", ())]
        return Row(**raw)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


PACKED = "rows.jsonl.gz"
"""The rows of a published run, all in one file."""


def pack(path: Path, rows: Iterable[Row]) -> None:
    """Writes rows as compressed JSON lines, without what is empty; equal rows give equal bytes.

    Numbers are rounded to six significant digits, and keys are left out: a packed row is known by
    its item and its method.
    """
    lines = []
    for row in sorted(rows, key=lambda r: (r.item, r.method)):
        values = asdict(replace(row, key="", given={}))
        kept = {k: v for k, v in values.items() if v not in ("", None, [], {})}
        lines.append(json.dumps(_rounded(kept), separators=(",", ":"), ensure_ascii=False))
    whole = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(whole, compresslevel=9, mtime=0))


def unpack(path: Path) -> list[Row]:
    """The rows that `pack` wrote. Raises OptionError for a file that is damaged."""
    try:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()
        rows = [_row('{"key": "", ' + line[1:]) for line in lines]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise OptionError(
            f"the rows of {path.name} cannot be read ({type(error).__name__})", "Run it again"
        ) from None
    if not rows or None in rows:
        raise OptionError(f"{path.name} holds lines that are not rows", "Run it again")
    return [row for row in rows if row is not None]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return [_rounded(v) for v in value] if isinstance(value, list | tuple) else value
