"""`python -m macd_ui.gallery.record LIST OUT`: clips and questions run on any backbone.

LIST is a JSON array (docs/gallery.md). OUT gets a copy of each clip, its trace beside it, an
`index.json` as in assets/examples and a CREDITS.md: ready for a gallery, for MACD_EXAMPLES_DIR, or
to be committed. What is in OUT already stays, so a recording that was interrupted goes on.
Exit codes: 0 everything is recorded, 1 some runs failed, 2 bad input.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from macd_studio.commands import parser as command_line
from macd_studio.core.api import check_backbone, run_video
from macd_studio.core.embedded import EVERYDAY, REAL_DETECTOR
from macd_studio.core.errors import MacdError, OptionError, TraceError
from macd_studio.core.methods import find_methods
from macd_studio.core.options import RunOptions, options_from
from macd_studio.core.system.whole import written_whole
from macd_studio.core.text.question import clean_question
from macd_studio.core.text.words import count, visible
from macd_studio.core.traces.bundle import load, save
from macd_studio.core.types import Trace
from macd_studio.macd_ui.clips import digest
from macd_studio.macd_ui.sites import exit_code

if TYPE_CHECKING:
    from macd_studio.core.backbones import LocalLM
    from macd_studio.core.objects.detect import Detector

MAX_ROWS = 500
MAX_LIST = 2**20
LONGEST = 500
"""Characters of a text in the list."""
NEEDED = ("video", "question", "licence", "source")
OPTIONAL = ("title", "truth", "answer", "credit")


@dataclass(frozen=True)
class Entry:
    """One row of the list. name: of its files in the output, unique."""

    name: str
    video: Path
    texts: dict[str, str]

    @property
    def question(self) -> str:
        """As asked."""
        return self.texts["question"]


def read_list(path: Path) -> list[Entry]:
    """The rows of a list, all of them sound. Raises OptionError, QuestionError."""
    try:
        if path.stat().st_size > MAX_LIST:
            raise OptionError(f"{path} is larger than 1 MB", "Split the list")
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise OptionError(
            f"the list {visible(str(path))} cannot be read ({type(error).__name__})",
            "Name a JSON file as in docs/gallery.md",
        ) from None
    if not isinstance(rows, list) or not 0 < len(rows) <= MAX_ROWS:
        raise OptionError(
            f"the list is not an array of 1 to {MAX_ROWS} rows", "See docs/gallery.md"
        )
    found: list[Entry] = []
    for number, row in enumerate(rows, 1):
        texts = _texts(row, number)
        video = path.parent / texts["video"]
        if not video.is_file():
            raise OptionError(
                f"row {number}: there is no {visible(str(video))[:200]}", "Put it beside the list"
            )
        stem = "".join(c if c.isalnum() and c.isascii() else "-" for c in video.stem)[:40]
        taken = sum(entry.name.rpartition("-")[0] == stem for entry in found)
        found.append(Entry(f"{stem}-{taken + 1}", video, texts))
    return found


def _texts(row: Any, number: int) -> dict[str, str]:
    problem = ""
    if not isinstance(row, dict):
        problem = "is not an object"
    elif unknown := set(row) - {*NEEDED, *OPTIONAL}:
        problem = f"has the unknown key {visible(str(min(unknown)))[:60]!r}"
    elif missing := [n for n in NEEDED if not row.get(n)]:
        problem = f"has no {missing[0]}"
    elif wrong := [n for n, v in row.items() if not isinstance(v, str) or len(v) > LONGEST]:
        problem = f"{wrong[0]} is not text of up to {LONGEST} characters"
    if problem:
        raise OptionError(f"row {number} {problem}", "See docs/gallery.md")
    return {name: row.get(name, "") for name in (*NEEDED, *OPTIONAL)} | {
        "question": clean_question(row["question"])
    }


def record(
    entries: Sequence[Entry],
    out: Path,
    lm: LocalLM,
    detector: Detector,
    options: RunOptions,
    methods: Sequence[str] = (),
    report: Callable[[str], object] = lambda line: None,
) -> list[str]:
    """Runs what is not yet recorded; gives what failed, in lines. The index is written each time.

    Raises OptionError where the folder cannot be written to.
    """
    failed: list[str] = []
    rows: list[dict[str, Any]] = []
    out.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        clip = out / f"{entry.name}{entry.video.suffix.lower()}"
        file = clip.with_suffix(".macd")
        try:
            trace = _recorded(file, entry, lm, options, methods)
            if trace is None:
                report(f"{entry.name}: {entry.question}")
                trace = run_video(
                    entry.video,
                    entry.question,
                    options,
                    backbone=lm,
                    detector=detector,
                    methods=methods,
                )
                trace = _without_folders(trace)
                shutil.copyfile(entry.video, clip)
                save(trace, file)
        except MacdError as error:
            failed.append(f"{entry.name}: {visible(str(error))}")
            continue
        rows.append(_row(entry, clip, trace))
        _write(out / "index.json", json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        _write(out / "CREDITS.md", credits_of(rows))
    return failed


def _recorded(
    file: Path, entry: Entry, lm: LocalLM, options: RunOptions, methods: Sequence[str]
) -> Trace | None:
    """The trace of an earlier recording of the same run; None where there is none."""
    try:
        trace = load(file)
    except TraceError:
        return None
    names = {m.name for m in find_methods(methods)}
    same = (
        trace.status == "complete"
        and trace.question == entry.question
        and trace.clip.sha256 == digest(str(entry.video))
        and trace.backbone.name == _last_part(lm.info.name)
        and trace.options == options
        and not trace.edits
        and names <= {*trace.answers, *trace.skipped}
    )
    return trace if same else None


def _without_folders(trace: Trace) -> Trace:
    """The trace with model and detector by their last names: it is recorded to be published."""
    backbone = replace(trace.backbone, name=_last_part(trace.backbone.name))
    detector = replace(trace.detector, name=_last_part(trace.detector.name))
    return replace(trace, backbone=backbone, detector=detector)


def _last_part(name: str) -> str:
    """A file or folder of this machine without the folders above it; other names as they are."""
    return Path(name).resolve().name if name and Path(name).exists() else name


def _row(entry: Entry, clip: Path, trace: Trace) -> dict[str, Any]:
    return entry.texts | {
        "title": entry.texts["title"] or entry.question,
        "video": clip.name,
        "backbone": trace.backbone.name,
        "revision": trace.backbone.revision,
        "answers": {name: answer.text for name, answer in trace.answers.items()},
    }


def credits_of(rows: Sequence[dict[str, Any]]) -> str:
    """Where each clip comes from, and under which licence, in Markdown."""
    lines = ["# Clips", "", "| file | licence | source | credit |", "|---|---|---|---|"]
    for row in rows:
        cells = [row["video"], row["licence"], row["source"], row["credit"]]
        escaped = (
            " ".join(cell.split()).replace("|", "\\|").replace("<", "&lt;") for cell in cells
        )
        lines.append(f"| {' | '.join(escaped)} |")
    return "\n".join(lines) + "\n"


def _write(path: Path, text: str) -> None:
    """Writes the file whole or not at all."""
    with written_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Records a list; gives the exit code."""
    parser = command_line("macd_ui.gallery.record", __doc__)
    parser.add_argument("list", metavar="LIST", help="JSON: clips, questions and licences")
    parser.add_argument("out", metavar="OUT", help="folder of the recording")
    parser.add_argument("--backbone", default=EVERYDAY, metavar="ID", help="or a folder")
    parser.add_argument(
        "--detector", default=REAL_DETECTOR, metavar="NAME", help="see docs/backbones.md"
    )
    parser.add_argument("--device", default="auto")
    parser.add_argument("--methods", nargs="*", default=[], help="beside baseline and MACD")
    parser.add_argument(
        "--options",
        default="{}",
        metavar="JSON",
        help='by stage, such as \'{"ascent": {"steps": 2}}\'',
    )
    given = parser.parse_args(arguments)

    def run() -> int:
        entries = read_list(Path(given.list))
        find_methods(given.methods)
        options = _options(given.options)
        check_backbone(given.backbone)
        from macd_studio.core.backbones import load_backbone
        from macd_studio.core.objects.detect import load_detector

        lm = load_backbone(given.backbone, given.device)
        detector = load_detector(given.detector, lm.info.device.split(":")[0])
        failed = record(
            entries, Path(given.out), lm, detector, options, given.methods,
            lambda line: print(line, file=sys.stderr, flush=True),
        )  # fmt: skip
        for line in failed:
            print(f"failed: {line}", file=sys.stderr)
        print(f"{count(len(entries) - len(failed), 'run')} recorded in {given.out}")
        return 1 if failed else 0

    return exit_code(run, "the recording")


def _options(text: str) -> RunOptions:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        raise OptionError(
            "--options is no JSON", 'Write it like {"ascent": {"steps": 2}}'
        ) from None
    return options_from(values)


if __name__ == "__main__":
    sys.exit(main())
