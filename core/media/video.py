"""file → Clip. Checks the file, has it decoded in a bounded process, and reads the result.

Knows nothing of detectors or models. Decoding itself is `core.media.worker`.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import math
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from macd_studio.core import errors
from macd_studio.core.media.frames import check_file, frames_of, joined
from macd_studio.core.options import VideoOptions
from macd_studio.core.system.bounded import Watch, end_process, start_process
from macd_studio.core.text import words
from macd_studio.core.text.words import writable
from macd_studio.core.types import Clip, Ints, Pixels

Times = NDArray[np.float64]


@dataclass(frozen=True)
class ReadLimits:
    """What reading one file may take.

    memory_bytes: address space of the decoder. seconds: wall time after which it is ended, whatever
    it does. exact_seconds: of these, how long it may look for the exact pictures; after that it
    takes the nearest key frames. hurry_seconds: it takes them earlier, where there are enough of
    them and the exact ones would take longer than that. megabytes: of the largest file that is
    read, instead of `VideoOptions.max_megabytes`.
    """

    memory_bytes: int
    seconds: float
    exact_seconds: float
    hurry_seconds: float | None = None
    megabytes: float | None = None


OWN_MACHINE = ReadLimits(memory_bytes=2**30, seconds=120, exact_seconds=80)
PUBLIC_SERVER = ReadLimits(memory_bytes=2**30, seconds=10, exact_seconds=4, megabytes=100)
"""For untrusted files."""
KEY_FRAMES_SHARE = 0.8
"""Of the time left for key frames, what the decoder plans with; the rest is for its start."""
MIN_SHARE = 0.5
"""Of the frames asked for, at least this part must be different for key frames to be of use."""
THREADS = 4
"""Of a decoder. Each holds pictures of its own, so memory must not depend on the machine."""
MAX_LINE, MAX_SIDE = 2**20, 1280
ASKED = ("frames", "at", "start", "end", "dense_fps", "dense_limit", "max_seconds")
"""Fields of `VideoOptions` that a decoder is told."""
SMALLER = "Cut or re-encode it, or allow larger files with --max-megabytes"


def read_clip(
    path: str | Path,
    options: VideoOptions | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    limits: ReadLimits = OWN_MACHINE,
    opened: Callable[[], None] = lambda: None,
) -> Clip:
    """Samples `options.frames` frames uniformly by timestamp, and denser small ones to track on.

    With `options.at` the sampled frames are those at these times instead.

    A picture is the one on display at the wanted time. Where finding it takes longer than
    `limits.exact_seconds`, or too much memory, it is the nearest key frame before; where the file
    has too few of them, only the beginning is used, up to where decoding had come. Times are always
    those of the pictures themselves, and the notes say which way was taken.

    Memory is bounded by the options, not by the clip's length: at most `frames` pictures of 1280 px
    and `dense_limit + frames` of 640 px are kept. cancelled: called several times per second; if it
    is true, decoding ends and Cancelled is raised. opened: called once a first picture is decoded:
    the file is a video then, whatever else is found in it. A picture (PNG, JPEG, WebP, BMP) is a
    clip of one frame whose duration is 0. Raises a VideoError for everything that
    is not a usable video; what was repaired or converted is listed in `Clip.notes`.
    """
    options = options or VideoOptions()
    most_mb = options.max_megabytes if limits.megabytes is None else limits.megabytes
    if str(path) and (pictures := frames_of(Path(path))):
        pipe = f"{pictures.kind}_pipe", options.frame_rate
        with joined(pictures, most_mb, SMALLER) as file:
            reader = _Reader(file, options, cancelled, limits, opened, pipe=pipe)
            file = file if pictures.path.is_dir() else pictures.path
            result = reader.read(file)
        file, told = pictures.path, pictures.notes(options.frame_rate, result.facts["count"])
    else:
        file, is_picture = check_file(path, most_mb, SMALLER)
        reader = _Reader(file, options, cancelled, limits, opened, is_picture)
        result, told = reader.read(file), []
    frames, dense = result.pictures["frames"].whole(), result.pictures["dense_frames"].whole()
    facts, notes = result.facts, [*told, *result.facts["notes"]]
    if len(frames.times) < options.wanted and facts["duration"]:
        only, whole = words.count(len(frames.times), "different picture"), facts["count"]
        pauses = whole is not None and whole > len(frames.times)  # some last longer than the others
        notes.append(
            f"the sampled times fall on only {only} of the clip's {whole}"
            if pauses
            else f"the clip has only {only} to sample"
        )
    return Clip(
        frames=frames.pixels,
        times=frames.times,
        dense_frames=dense.pixels,
        dense_times=dense.times,
        name=writable(file.name),
        sha256=reader.sha256,
        duration=float(facts["duration"]),
        size=(frames.pixels.shape[2], frames.pixels.shape[1]),
        title=str(facts["title"]),
        notes=tuple(notes),
        numbers=frames.numbers,
        fps=facts["fps"],
        count=facts["count"],
        full_size=_pair(facts["full_size"]),
        stored_size=_pair(facts["stored_size"]),
    )


def _pair(stated: list[int] | None) -> tuple[int, int] | None:
    return None if stated is None else (stated[0], stated[1])


class _Reader:
    """Reads one file in up to two processes: every picture needed, or else its key frames."""

    def __init__(
        self,
        file: Path,
        options: VideoOptions,
        cancelled: Callable[[], bool],
        limits: ReadLimits,
        opened: Callable[[], None],
        is_picture: bool = False,
        pipe: tuple[str, float] | None = None,
    ) -> None:
        self._file, self._options, self._opened = file, options, opened
        self._is_picture, self._pipe = is_picture, pipe
        self._cancelled, self._limits = cancelled, limits
        self._enough = max(1, math.ceil(MIN_SHARE * options.wanted))
        self._began = time.monotonic()
        self.sha256 = ""

    def _hash(self, file: Path) -> None:
        with suppress(OSError), file.open("rb") as content:
            self.sha256 = hashlib.file_digest(content, "sha256").hexdigest()

    def read(self, hashed: Path) -> _Result:
        """The pictures, with all of `facts` set, and `sha256`. Raises VideoError and Cancelled.

        hashed: the file that `sha256` is of; it is hashed while the pictures are decoded.
        """
        digest = threading.Thread(target=self._hash, args=(hashed,), name="hash clip", daemon=True)
        digest.start()
        result = self._read()
        digest.join()
        return result

    def _read(self) -> _Result:
        limits = self._limits
        spare = (limits.seconds - limits.exact_seconds) / 4  # for a decoder that does not return
        hard = limits.exact_seconds + spare
        exact = self._run(limits.exact_seconds, hard, THREADS, key_frames=False)
        if not exact.late:
            return exact
        if self._is_picture:
            raise errors.DecodeLimit(
                f"decoding the picture takes too much {exact.late}",
                "Scale it down, 1280 pixels on the long side are enough",
            )
        why = {
            "time": "reading every frame would have taken too long",
            "memory": "reading every frame would have taken too much memory",
        }[exact.late]
        left = limits.seconds - (time.monotonic() - self._began)
        keys = _Result()
        with suppress(errors.CorruptVideo):  # what was read until then may still be of use
            threads = THREADS if exact.late == "time" else 1  # each takes memory for its pictures
            planned = KEY_FRAMES_SHARE * max(left, 0.0)
            keys = self._run(planned, left, threads, key_frames=True)
        requested = self._options.wanted
        least, count = min(2, requested), len(keys.pictures["frames"])
        if count < self._enough:
            exact.keep_the_beginning(self._options)
            if len(exact.pictures["frames"]) >= max(least, count):
                end = exact.facts["end"]
                last = max(p.whole().times[-1] for p in exact.pictures.values() if len(p))
                exact.facts["notes"].append(
                    f"{why}, and too few key frames can be used instead: of its {end:.1f} s only"
                    f" the first {last:.1f} s were analysed. Re-encode the clip with a key frame"
                    " every second to have all of it"
                )
                return exact
        if count >= least:
            note = "the nearest key frames were used; times are those of the key frames"
            keys.facts["notes"].append(f"{why}: {note}")
            return keys
        too_much = f"more than {limits.memory_bytes / 2**20:.0f} MB of memory"
        if exact.late == "time":
            too_much = f"longer than {limits.seconds:g} s"
        raise errors.DecodeLimit(
            f"decoding takes {too_much}, and the clip's key frames alone are too few or too slow",
            "Choose a shorter range, cut the video, or re-encode it, at most 1280 pixels on the"
            " long side and with a key frame every second",
        )

    def _run(self, soft_s: float, hard_s: float, threads: int, key_frames: bool) -> _Result:
        """One process. It ends its work after soft_s by itself, and is ended after hard_s."""
        job = {name: getattr(self._options, name) for name in ASKED} | {
            "path": str(self._file),
            "memory_bytes": self._limits.memory_bytes,
            "seconds": soft_s,
            "hurry_seconds": self._limits.hurry_seconds,
            "limit_seconds": max(hard_s, 1.0),
            "threads": threads,
            "least_key_frames": self._enough,
            "key_frames": key_frames,
            "picture": self._is_picture,
            "pipe": self._pipe,
        }
        worker = _start_worker() if _ready is None else _ready.take()
        watch = Watch(worker, self._cancelled, hard_s)
        result = _Result()
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            with suppress(BrokenPipeError):  # it was ended already
                worker.stdin.write(json.dumps(job).encode() + b"\n")
                worker.stdin.close()
            ended = result.receive(worker.stdout, self._opened)
        finally:
            watch.stop()
            end_process(worker)
            if _ready is not None:
                _ready.refill()
        if watch.cancelled:
            raise errors.Cancelled("stopped while the video was read", "Nothing was computed")
        if watch.timed_out:
            result.late = "time"
        elif not ended:
            raise errors.CorruptVideo(
                "the decoder gave up on this file: damaged, or beyond its limits",
                "Re-encode it, at most 1280 pixels on the long side",
            )
        return result


class _Result:
    """What came from a decoder. late: why it could not finish, "time" or "memory"; else "".

    facts: from its last message about the clip, empty if none came.
    """

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}
        self.late = ""
        self.pictures = {"frames": _Pictures(0), "dense_frames": _Pictures(0)}

    def receive(self, stream: IO[bytes], opened: Callable[[], None]) -> bool:
        """Reads messages to the last one; false if the decoder ended before. Raises VideoError.

        opened: called with every picture.
        """
        while (line := stream.readline(MAX_LINE)).endswith(b"\n"):
            message = json.loads(line)
            if "plan" in message:
                self.pictures = {k: _Pictures(int(message["plan"][k])) for k in self.pictures}
                self.facts = message["known"]
            elif "picture" in message:
                slot, at, shape = message["slot"], float(message["time"]), message["shape"]
                pictures = self.pictures[message["picture"]]
                if not pictures.receive(stream, slot, at, shape):
                    return False
                pictures.numbers[slot] = int(message["number"])
                opened()
            elif "error" in message:
                kind = getattr(errors, message["error"])
                raise kind(message["cause"], message["remedy"])
            else:
                self.late = message["why"] if "late" in message else ""
                self.facts = message.get("done") or message.get("late") or self.facts
                return True
        return False

    def keep_the_beginning(self, options: VideoOptions) -> None:
        """Samples what was decoded in time: the tracker's pictures, which are smaller but more."""
        dense = self.pictures["dense_frames"].whole()
        if len(dense.times):
            start, last = float(self.facts["start"]), float(dense.times[-1])
            middles = start + (np.arange(options.frames) + 0.5) * (last - start) / options.frames
            sample_times = [t for t in options.at if t <= last] if options.at else middles
            picked = np.unique((np.searchsorted(dense.times, sample_times, "right") - 1).clip(0))
            self.pictures["frames"] = _Pictures.of(
                dense.pixels[picked], dense.times[picked], dense.numbers[picked]
            )


class _Pictures:
    """Pictures of one size in slots, some of which may stay empty: where none came."""

    def __init__(self, slots: int) -> None:
        self.times: Times = np.full(slots, np.nan)
        self.numbers: Ints = np.zeros(slots, np.int64)
        self.pixels: Pixels = np.zeros((0, 1, 1, 3), np.uint8)

    @classmethod
    def of(cls, pixels: Pixels, times: Times, numbers: Ints) -> _Pictures:
        """Pictures (T, H, W, 3) with their times and numbers."""
        pictures = cls(0)
        pictures.pixels, pictures.times, pictures.numbers = pixels, times, numbers
        return pictures

    def __len__(self) -> int:
        return int(np.isfinite(self.times).sum())

    def receive(self, stream: IO[bytes], slot: int, at: float, shape: list[int]) -> bool:
        """Reads one picture into its slot; false if the stream ends before it is whole."""
        if not len(self.pixels):
            height, width, channels = shape
            if not 0 < height <= MAX_SIDE or not 0 < width <= MAX_SIDE or channels != 3:
                return False
            self.pixels = np.empty((len(self.times), *shape), np.uint8)
        if not 0 <= slot < len(self.times) or list(self.pixels.shape[1:]) != shape:
            return False
        view = memoryview(self.pixels[slot].reshape(-1))
        done = 0
        while done < len(view):
            n = stream.readinto(view[done:])  # type: ignore[attr-defined]
            if not n:
                return False
            done += n
        self.times[slot] = at
        return True

    def whole(self) -> _Pictures:
        """Without the empty slots; read-only."""
        came = np.isfinite(self.times)
        pixels = self.pixels if came.all() or not came.any() else self.pixels[came]
        if not came.any():
            pixels = pixels[:0]
        pixels.flags.writeable = False
        return self.of(pixels, self.times[came], self.numbers[came])


def keep_worker_ready() -> None:
    """From now on a started decoder waits for the next file, which saves its start; for servers."""
    global _ready
    _ready = _Ready()


class _Ready:
    """One decoder process that has no job yet; it ends with this process, at the latest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: subprocess.Popen[bytes] | None = _start_worker()
        atexit.register(self.close)

    def take(self) -> subprocess.Popen[bytes]:
        """The waiting decoder, or a new one."""
        with self._lock:
            decoder, self._waiting = self._waiting, None
        if decoder is not None and decoder.poll() is None:
            return decoder
        if decoder is not None:
            end_process(decoder)
        return _start_worker()

    def refill(self) -> None:
        """Starts the next one, once the taken one has done its job: both would want the cores."""
        with self._lock:
            if self._waiting is None:
                self._waiting = _start_worker()

    def close(self) -> None:
        """Ends the waiting decoder."""
        with self._lock:
            if self._waiting is not None:
                end_process(self._waiting)


_ready: _Ready | None = None


def _start_worker() -> subprocess.Popen[bytes]:
    """A decoder that waits for its one job on stdin, and ends when stdin closes without one."""
    return start_process("macd_studio.core.media.worker")
