"""Decodes one file in a process of its own: job on stdin as JSON, messages on stdout.

Runs as `python -m core.media.worker`, started by `core.media.video` only. A hostile file can at
worst kill this process: address space, processor time, open files and file size are limited,
formats and protocols are allow-listed, nothing is written to disk. Knows nothing of models. A
picture file is a clip of one frame and of no length.

A message is one line of JSON; the pixels of a picture follow their line. Pictures are sent as they
are decoded, so that the memory of this process does not grow with their number:

{"plan": {"frames": 8, "dense_frames": 200}, "known": {...}}  how many pictures will come, and what
    is known of the clip so far; pictures sent before do not count any more
{"picture": "frames", "slot": 0, "time": 0.2, "shape": [270, 480, 3]}  then 270·480·3 bytes
{"done": {...}}  all pictures were sent; what is known of the clip
{"late": {...} or null, "why": "time" or "memory"}  as done, but not all pictures were sent
{"error": "NotAVideo", "cause": ..., "remedy": ...}
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import IO, Any

import av
import numpy as np
from numpy.typing import NDArray

from macd_studio.core.media.picture import Turns, facts_of, on_white, open_picture, scaled, to_rgb
from macd_studio.core.media.reports import BACK, DAMAGED, redirect, reports
from macd_studio.core.media.sampling import tracker_count, tracker_times, uniform
from macd_studio.core.media.source import Reject, Source, TimeIsUp
from macd_studio.core.system.bounded import limit_process

SIDES = {"frames": 1280, "dense_frames": 640}
"""Of the pictures sent, the long one, by kind. Pixels."""
HDR_TRANSFERS = {16: "PQ", 18: "HLG"}
INDEX_SHARE = 0.5
"""Of the time for a job, at most this part goes into listing the file's packets."""
TRY_SHARE, HOPELESS = 0.25, 1.5
"""Exact reading is given up after this part of its time if it would take so many times its time."""
LONGER_S = 0.5
"""A header that tells this much more than the pictures last, in seconds, is worth a note."""
LATE_S = 0.25
"""So is a first picture that comes so much after the start of the file."""
REST_SHARE = 0.8
"""Of the time left after the sampled key frames, what the further ones are planned to take."""
Send = Callable[[dict[str, Any], NDArray[np.uint8] | None], None]


class Reading:
    """One job: the requested pictures, and what is learnt while they are sent.

    job: as `core.media.video` writes it. now: the clock, in seconds. Raises Reject for files that
    cannot be used, TimeIsUp when the job's time is over.
    """

    def __init__(self, job: dict[str, Any], send: Send, now: Callable[[], float]) -> None:
        self.job, self.now = job, now
        self._send = send
        self._end = now() + job["seconds"]
        self._has_key_frames: bool | None = None
        self.reached: float | None = None
        self.notes: list[str] = []
        self.full_size: tuple[int, int] | None = None
        self.stored_size: tuple[int, int] | None = None
        self.hdr = self.deep = self.damaged = self.clear = self.woven = False
        self.turns = Turns()
        index_end = now() + INDEX_SHARE * job["seconds"]
        self.source = Source(
            job["path"], job["threads"], partial(self._check_until, self._end),
            partial(self._check_until, index_end), job["pipe"],
        )  # fmt: skip
        self._listed = now()
        self._choose_range()

    def _check_until(self, end: float) -> None:
        if self.now() > end:
            raise TimeIsUp

    def _choose_range(self) -> None:
        source, job = self.source, self.job
        duration, claimed = source.duration, source.claimed_duration
        if source.cut_short:
            self.notes.append(
                f"the file has too many pictures to list: those after {duration:.1f} s were left"
                " out"
            )
        elif source.is_cut:
            longer = claimed > duration + LONGER_S
            but = f"it announces {claimed:.1f} s but holds {duration:.1f} s"
            self.notes.append(
                f"the file is cut off: {but if longer else 'bytes are missing at its end'};"
                " what is there was analysed"
            )
        elif claimed > duration + max(LONGER_S, 0.05 * duration):
            self.notes.append(
                f"the file announces {claimed:.1f} s, but its pictures end at {duration:.1f} s"
            )
        self._tell_clock(source)
        start, end = float(job["start"]), float(job["end"] or duration)
        lasts = f"lasts {duration:.1f} s"
        if self._is_late(source):
            lasts += " from its first picture on"
        if start >= duration:
            if source.cut_short:
                raise TimeIsUp
            raise Reject(
                "VideoTooLong" if claimed > start else "NotAVideo",
                f"the range starts at {start:g} s but the video {lasts}",
                "Choose an earlier start",
            )
        if source.cut_short and job["end"] is None:
            end = max(duration, claimed)
        if end - start > job["max_seconds"]:
            raise Reject(
                "VideoTooLong",
                f"the video lasts {_spoken(end - start)}, more than {_spoken(job['max_seconds'])}",
                "Choose a range with --start and --end, in seconds",
            )
        late = [t for t in job["at"] if t >= duration]
        if late and not source.cut_short:
            raise Reject(
                "VideoTooLong" if claimed > late[0] else "NotAVideo",
                f"a frame was picked at {late[0]:g} s but the video {lasts}",
                "Pick earlier frames",
            )
        self.start, self.end = start, min(end, duration)
        aspect = source.stream.sample_aspect_ratio or Fraction(1)
        self.aspect = aspect if Fraction(1, 8) < aspect < 8 else Fraction(1)

    @staticmethod
    def _is_late(source: Source) -> bool:
        return source.begins > max(LATE_S, 2 * source.seconds_of_step)

    def _tell_clock(self, source: Source) -> None:
        """Notes what tells this clip's times from those that a player shows."""
        if self._is_late(source):
            self.notes.append(
                f"the first picture comes {source.begins:.1f} s after the start of the file;"
                " all times count from the first picture"
            )
        if source.clocks > 1:
            again = "once" if source.clocks == 2 else f"{source.clocks - 1} times"
            self.notes.append(
                f"the times of the file begin anew {again}, as in recordings that were joined or"
                " whose clock was set: the parts follow each other here"
            )
        if source.streams > 1:
            self.notes.append(
                f"the file holds {source.streams} videos; the one that players show was read"
            )

    def read_exactly(self) -> None:
        """Sends the pictures on display at the sample times, whatever must be decoded for them."""
        sent = self._send_exactly(self.end)
        reached = self.start if self.reached is None else self.reached
        if not sent or reached < self.end - max(0.5, 2 * self.source.seconds_of_step):
            self.notes.append(
                f"pictures after {reached:.1f} s cannot be decoded; what is whole was used"
            )
            sent = self._send_exactly(max(reached, self.start + 1e-3))
        if not sent:
            raise Reject(
                "CorruptVideo",
                "the file opens but not one of its pictures can be decoded",
                "Record or export it again",
            )

    def _send_exactly(self, end: float) -> int:
        """Returns how many different sampled pictures were sent."""
        source = self.source
        sampled = sorted({source.at(t) for t in self._sample_times(end)})
        dense: list[int] = []
        fps, limit = self._dense
        if times := tracker_times(self.start, end, self._sample_times(end), fps, limit):
            # the tracker's pictures include the sampled ones: boxes need no guessing there
            dense = sorted({source.at(t) for t in times} | set(sampled))
        self._plan(sampled, dense)
        timestamps = sorted({*sampled, *dense})
        last = None
        for at, frame in source.pictures(timestamps):
            self._send_picture(frame, at)
            last = at
            self._give_up_in_time((timestamps.index(at) + 1) / len(timestamps))
            self.reached = end if at == timestamps[-1] else source.seconds(frame.pts)
        return 0 if last is None else len(self._sent["frames"])

    def _give_up_in_time(self, share: float) -> None:
        """Ends exact reading as soon as it is clear that it will not end in time.

        share: of the wanted pictures, those decoded. Without key frames to use instead, as much of
        the beginning as possible is wanted.
        """
        if self._has_key_frames is None:
            times = self._sample_times(self.end)
            keys = {self.source.key_at(t) for t in times} - {None}
            self._has_key_frames = len(keys) >= self.job["least_key_frames"]
        if not self._has_key_frames:
            return
        spent, granted = self.now() - self._listed, self._end - self._listed
        if self.job.get("hurry_seconds") is not None:
            granted = min(granted, self.job["hurry_seconds"])
        if spent > max(TRY_SHARE, HOPELESS * share) * granted:
            raise TimeIsUp

    def read_key_frames(self) -> None:
        """Sends the key frames nearest before the wanted times: the sampled ones, then the dense.

        Of the dense ones only as many as the time allows, evenly spread; fewer are not a failure.
        """
        source = self.source
        sampled = self._key_frames_at(self._sample_times(self.end))
        if not sampled:
            raise Reject("CorruptVideo", "the file has no key frame to begin with", "Re-encode it")
        dense: list[int] = []
        if count := tracker_count(self.start, self.end, *self._dense):
            # no bursts: key frames lie too far apart
            dense = self._key_frames_at(uniform(self.start, self.end, count))
            dense = sorted({*dense, *sampled})
        self._plan(sampled, dense)
        began = self.now()
        for frame in source.key_frames(sampled):
            self._send_picture(frame, frame.pts)
        if not self._sent["frames"]:
            raise Reject("CorruptVideo", "no key frame can be decoded", "Re-encode it")
        rest = [k for k in dense if k not in self._slots["frames"]]
        each = (self.now() - began) / len(sampled)
        room = int(REST_SHARE * max(0.0, self._end - self.now()) / max(each, 1e-9))
        if room < len(rest):
            rest = [rest[int(i * len(rest) / room)] for i in range(room)]
        try:
            for frame in source.key_frames(rest) if rest else ():
                self._send_picture(frame, frame.pts)
        except TimeIsUp:
            pass

    def _sample_times(self, end: float) -> list[float]:
        """Times of the frames for the backbone up to `end`: those picked by hand, or uniform."""
        if self.job["at"]:
            return [t for t in self.job["at"] if t <= end]
        return uniform(self.start, end, self.job["frames"])

    def _key_frames_at(self, times: Sequence[float]) -> list[int]:
        return sorted({k for k in map(self.source.key_at, times) if k is not None})

    @property
    def _dense(self) -> tuple[float, int]:
        return float(self.job["dense_fps"]), int(self.job["dense_limit"])

    def _plan(self, sampled: Sequence[int], dense: Sequence[int]) -> None:
        """Tells how many pictures will come, and gives each of them its slot."""
        kinds = {"frames": sampled, "dense_frames": dense}
        plan = {kind: len(pts) for kind, pts in kinds.items()}
        self._send({"plan": plan, "known": self.facts()}, None)
        self._slots = {kind: {p: i for i, p in enumerate(pts)} for kind, pts in kinds.items()}
        self._sent = {kind: set[int]() for kind in kinds}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def _send_picture(self, frame: av.VideoFrame, timestamp: int) -> None:
        """Sends a picture with its own time, once, to the slot of the one that was wanted."""
        self.hdr |= int(getattr(frame, "color_trc", 0) or 0) in HDR_TRANSFERS  # not before PyAV 16
        self.deep |= frame.format.components[0].bits > 8
        self.damaged |= bool(frame.is_corrupt)
        self.woven |= bool(frame.interlaced_frame)
        turn = self.turns.of(frame)
        shown, clear = on_white(frame)
        self.clear |= clear
        for kind, side in SIDES.items():
            if timestamp not in self._slots[kind] or frame.pts in self._sent[kind]:
                continue
            self._sent[kind].add(frame.pts)
            width, height = round(frame.width * self.aspect), frame.height
            self.full_size = (height, width) if turn.swaps else (width, height)
            if self.aspect != 1:
                width = frame.width
                self.stored_size = (height, width) if turn.swaps else (width, height)
            picture = to_rgb(shown, side, self.aspect, turn)
            if self._shapes.setdefault(kind, picture.shape) != picture.shape:
                raise Reject(
                    "NotAVideo",
                    "the picture size changes within the file",
                    "Re-encode it to one size",
                )
            message = {
                "picture": kind,
                "slot": self._slots[kind][timestamp],
                "time": self.source.seconds(frame.pts),
                "number": int(np.searchsorted(self.source.pts, frame.pts)),
                "shape": picture.shape,
            }
            self._send(message, picture)

    def facts(self) -> dict[str, Any]:
        """The clip's range, duration, title and notes, as a message. Seconds."""
        notes = list(self.notes)
        if self.aspect != 1:
            notes.append(
                f"pixels are not square ({self.aspect}); frames were stretched to the true shape"
            )
        if self.hdr:
            notes.append("HDR colours were converted to 8 bits without tone mapping")
        elif self.deep:
            notes.append("colours of more than 8 bits were converted to 8 bits")
        if self.turns.slanted:
            notes.append("the file asks for a slanted picture; it was turned by quarters only")
        if self.woven:
            notes.append(
                "pictures are interlaced: what moves has comb-like edges, as each is of two"
                " moments; ffmpeg -vf bwdif makes them whole"
            )
        if self.clear:
            notes.append("transparent parts are shown on white")
        if self.damaged:
            notes.append("some pictures are damaged")
        told = reports()
        if self.source.clocks > 1:  # a joint looks like damage, and is told already
            told = [note for note in told if note not in (DAMAGED, BACK)]
        still = self.source.container.format.name == "gif" and len(self.source.pts) == 1
        return {
            "start": self.start,
            "end": self.end,
            "duration": 0.0 if still else self.source.duration,  # a picture has no time
            "title": self.source.container.metadata.get("title", "")[:200],
            "fps": _rate(self.source),
            "count": None if self.source.cut_short else len(self.source.pts),
            "full_size": self.full_size,
            "stored_size": self.stored_size,
            "notes": list(dict.fromkeys([*notes, *_rate_notes(self.source), *told])),
        }


def _rate(source: Source) -> float | None:
    """Frames per second, by the median of the time between two; None of a single picture."""
    gaps = np.diff(source.pts)
    return 1 / float(np.median(gaps) * source.unit) if len(gaps) else None


def _rate_notes(source: Source) -> list[str]:
    gaps = np.diff(source.pts)
    if len(gaps) < 3:
        return []
    low, high = np.percentile(gaps, [5, 95])
    notes = []
    if high > 1.5 * max(low, 1):
        notes.append("the frame rate varies; frames were chosen by their timestamps")
    fps = _rate(source)
    if fps is not None and fps > 130:
        notes.append(f"{fps:.0f} frames per second; frames were chosen by their timestamps")
    return notes


def _spoken(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"


def read_picture(job: dict[str, Any], send: Send) -> None:
    """Sends the one picture of a file, for backbone and detector; raises Reject, MemoryError."""
    if job["start"] or job["end"] is not None or job["at"]:
        raise Reject("NotAVideo", "a picture has no range of time", "Leave the range out")
    picture, notes = open_picture(job["path"])
    known = facts_of(notes)
    send({"plan": dict.fromkeys(SIDES, 1), "known": known}, None)
    for kind, side in SIDES.items():
        pixels = scaled(picture, side)
        message = {
            "picture": kind, "slot": 0, "time": 0.0, "number": 0, "shape": pixels.shape,
        }  # fmt: skip
        send(message, pixels)
    send({"done": known | {"notes": [*known["notes"], *reports()]}}, None)


def read(job: dict[str, Any], send: Send, now: Callable[[], float] = time.monotonic) -> None:
    """Does the job and reports how it ended. `seconds` in the job count from now on, by `now`."""
    reading: Reading | None = None
    why = ""
    try:
        if job["picture"]:
            read_picture(job, send)
            return
        reading = Reading(job, send, now)
        if job["key_frames"]:
            reading.read_key_frames()
        else:
            reading.read_exactly()
    except Reject as reject:
        send({"error": reject.error, "cause": reject.cause, "remedy": reject.remedy}, None)
        return
    except TimeIsUp:
        why = "time"
    except MemoryError:
        why = "memory"
    facts = None if reading is None else reading.facts()
    send({"late": facts, "why": why} if why else {"done": facts}, None)


def writer_to(out: IO[bytes]) -> Send:
    """Writes messages as `core.media.video` reads them."""

    def send(message: dict[str, Any], picture: NDArray[np.uint8] | None) -> None:
        out.write(json.dumps(message).encode() + b"\n")
        if picture is not None:
            out.write(np.ascontiguousarray(picture).data)
        out.flush()

    return send


def main() -> None:
    """One job, then the end of the process."""
    line = sys.stdin.readline()
    if not line:  # the parent process ended without sending a job
        return
    job = json.loads(line)
    limit_process(job["memory_bytes"], job["limit_seconds"], job["threads"])
    redirect()
    read(job, writer_to(sys.stdout.buffer))


if __name__ == "__main__":
    main()
