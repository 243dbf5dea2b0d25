"""`python -m evals fetch --to FOLDER`: the clips of *everyday*, cut from their public sources."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import quote

import av
import httpx

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.system.whole import written_whole
from macd_studio.core.text.words import count
from macd_studio.evals.benchmarks.everyday import CLIPS, QUESTIONS, Source, questions, sources
from macd_studio.evals.benchmarks.layout import place
from macd_studio.evals.running.output import EXIT, check_folder, say

ADDRESS = "https://raw.githubusercontent.com/{}/{}/{}"
"""Of a file: repository, commit, path."""
LIST = "list.json"
LARGEST = 64 * 2**20
"""Bytes of a source; the largest of the set has 4 MB."""
TIMEOUT = 60.0
Get = Callable[[str, str, str], bytes]
"""(repository, commit, path) → the file. Raises BenchmarkError."""


def add(commands: Any) -> None:
    """Its parser."""
    parser = commands.add_parser("fetch", help="get the clips of the benchmark everyday")
    parser.set_defaults(run=run)
    parser.add_argument("--to", type=Path, required=True, help="the folder that `run` then reads")
    parser.add_argument(
        "--mirror",
        type=Path,
        help="a folder that holds OWNER/NAME, git repositories with or without a work tree, which"
        " are read instead of the network",
    )


def run(args: argparse.Namespace) -> int:
    """Gets every clip that is not there yet; says which cannot be had, and why."""
    check_folder(args.to)
    if args.mirror is not None and not args.mirror.is_dir():
        raise BenchmarkError(f"there is no folder {place(args.mirror)}", "Give one by --mirror")
    args.to.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(QUESTIONS, args.to / QUESTIONS.name)
    wanted, missing = sources(), 0
    (args.to / LIST).write_text(gallery_list(wanted), encoding="utf-8")
    with httpx.Client(follow_redirects=True, timeout=TIMEOUT) as client:
        get = from_mirror(args.mirror) if args.mirror else from_network(client)
        for source in wanted:
            try:
                fetch(source, args.to / f"{source.name}.mp4", get)
            except (BenchmarkError, OSError, av.FFmpegError) as error:
                missing += 1
                say(f"{source.name}: {error}")
    print(f"{count(len(wanted) - missing, 'clip')} of {len(wanted)} are in {place(args.to)}")
    return EXIT if missing else 0


def gallery_list(clips: Sequence[Source]) -> str:
    """Clips that may be passed on and their questions, as `macd_ui.gallery.record` reads them."""
    free = {source.name: source for source in clips if source.footage}
    rows = []
    for question in questions().values():
        if (source := free.get(question["clip"])) is not None:
            at = f"https://github.com/{source.repository}/blob/{source.commit}/{source.path}"
            about = {"video": f"{source.name}.mp4", "licence": source.footage, "source": at}
            rows.append(about | {name: question[name] for name in ("question", "answer")})
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def fetch(source: Source, to: Path, get: Get) -> None:
    """Cuts one clip where it is not there whole; takes it from what ships where it does.

    The same source gives another file where the encoder is another version, so the source is
    checked by its SHA-256 and the clip by its frames and size. Raises BenchmarkError.
    """
    if to.is_file() and shape_of(to) == (source.frames, *source.size):
        return
    with written_whole(to) as part:
        if (ours := CLIPS / to.name).is_file():
            shutil.copyfile(ours, part)
        else:
            files = [get(source.repository, source.commit, path) for path in source.files]
            if hashlib.sha256(b"".join(files)).hexdigest() != source.sha256:
                raise BenchmarkError(
                    "the source is another file than it was", "Look for it in another mirror"
                )
            cut(source, files, part)
        if (found := shape_of(part)) != (source.frames, *source.size):
            raise BenchmarkError(
                f"the cut has frames, width and height {found} instead of"
                f" {(source.frames, *source.size)}",
                "Install the packages of constraints.txt",
            )


def from_network(client: httpx.Client) -> Get:
    """Files by their public address."""

    def get(repository: str, commit: str, path: str) -> bytes:
        address = ADDRESS.format(repository, commit, quote(path))
        pieces, size = [], 0
        try:
            with client.stream("GET", address) as answer:
                answer.raise_for_status()
                for piece in answer.iter_bytes():
                    pieces.append(piece)
                    size += len(piece)
                    if size > LARGEST:
                        raise BenchmarkError(f"{address} is too large", "Give a --mirror")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise BenchmarkError(
                f"{address} cannot be read ({error or type(error).__name__})",
                "Try again, or give a --mirror",
            ) from None
        return b"".join(pieces)

    return get


def from_mirror(folder: Path) -> Get:
    """Files of git repositories at hand."""

    def get(repository: str, commit: str, path: str) -> bytes:
        done = subprocess.run(
            ["git", "-C", str(folder / repository), "cat-file", "blob", f"{commit}:{path}"],
            capture_output=True,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().partition("\n")[0]
            raise BenchmarkError(
                f"{repository} has no {path} there ({said})",
                f"Clone it, or fetch its commit {commit}",
            )
        return done.stdout

    return get


def frames_of(source: Source, files: list[bytes]) -> Iterator[av.VideoFrame]:
    """The frames of the source that the clip shows."""
    if len(files) > 1 or "{" in source.path:
        for file in files:
            with av.open(io.BytesIO(file)) as opened:
                yield next(opened.decode(video=0))
        return
    with av.open(io.BytesIO(files[0])) as opened:
        for i, frame in enumerate(opened.decode(video=0)):
            if i >= source.first + source.frames:
                return
            if i >= source.first:
                yield frame


def cut(source: Source, files: list[bytes], to: Path) -> None:
    """Writes the clip: H.264 of quality 22 without sound. Raises av.FFmpegError."""
    rate = Fraction(source.fps).limit_denominator(1001)
    with av.open(str(to), "w", format="mp4", options={"movflags": "faststart"}) as film:
        stream = film.add_stream("libx264", rate=rate)
        stream.width, stream.height = source.size
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": "22", "preset": "medium"}
        for i, frame in enumerate(frames_of(source, files)):
            if source.crop_left:
                pixels = frame.to_ndarray(format="rgb24")[:, source.crop_left :]
                frame = av.VideoFrame.from_ndarray(pixels.copy(), format="rgb24")
            picture = frame.reformat(
                *source.size,
                format="yuv420p",
                interpolation="BICUBIC",
                dst_colorspace="ITU601",  # what readers assume of a file that does not say
                dst_color_range="MPEG",
            )
            picture.pts, picture.time_base = i, 1 / rate
            picture.pict_type = av.video.frame.PictureType.NONE  # not the source's: all "I" of JPEG
            film.mux(stream.encode(picture))
        film.mux(stream.encode())


def shape_of(clip: Path) -> tuple[int, int, int]:
    """(frames, width, height) of a clip; zeros of what is no video."""
    try:
        with av.open(str(clip)) as opened:
            stream = opened.streams.video[0]
            return sum(1 for _ in opened.decode(stream)), stream.width, stream.height
    except (av.FFmpegError, IndexError):
        return 0, 0, 0
