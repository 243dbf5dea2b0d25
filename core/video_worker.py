"""Decodes one file in a process of its own: job on stdin as JSON, header and pixels on stdout.

Runs as `python -m core.video_worker`, started by `core.video` only. A hostile file can at worst
kill this process: address space, processor time, open files and file size are limited, formats
and protocols are allow-listed, nothing is written to disk. Knows nothing of models.
"""

from __future__ import annotations

import json
import resource
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.stream import Disposition
from numpy.typing import NDArray

from core import words

FORMATS = "mov,mp4,matroska,webm,avi,mpegts,mpeg,flv,gif,asf,ogg,m4v,ivf"
MIN_SIDE, MAX_PIXELS = 16, 4096 * 2304
FRAME_SIDE, DENSE_SIDE = 1280, 640
HDR_TRANSFERS = {16: "PQ", 18: "HLG"}


class Reject(Exception):
    """A file that cannot be used: the name of an error class, cause, remedy."""

    def __init__(self, error: str, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.error, self.cause, self.remedy = error, cause, remedy


def limit_process(memory_bytes: int, seconds: int) -> None:
    """Bounds this process before it looks at the file."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Source:
    """An open file with the time of every picture in it, read from packets without decoding."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._open()
        except (av.error.FFmpegError, ValueError) as error:
            raise Reject(
                "NotAVideo",
                f"the file is not a readable video ({type(error).__name__})",
                "Use a complete mp4, mov, webm, mkv or avi file; re-encode it if it came from a"
                " broken download",
            ) from None
        streams = [s for s in self.container.streams.video if not _is_cover(s)]
        if not streams:
            raise Reject(
                "NoVideoStream", "the file has no moving picture, only sound", "Choose a video"
            )
        self.stream = streams[0]
        self.stream.thread_type = "AUTO"
        self._check_size()
        self.unit = self.stream.time_base or Fraction(1, 1000)
        self.pts, self.keys, self.step = self._index()

    def _open(self) -> None:
        options = {"format_whitelist": FORMATS, "protocol_whitelist": "file"}
        self.container = av.open(self.path, options=options)

    def _from_the_start(self) -> Iterator[av.VideoFrame]:
        """Every picture in order: for files in which a jump lands too late."""
        index = self.stream.index
        self._former = self.container  # closing it can wait for ever on its decoder's threads
        self._open()
        self.stream = self.container.streams[index]
        self.stream.thread_type = "AUTO"
        return self._decode()

    def _check_size(self) -> None:
        width, height = self.stream.codec_context.width, self.stream.codec_context.height
        if width * height > MAX_PIXELS:
            raise Reject(
                "VideoTooLarge",
                f"frames are {width}×{height}, above {MAX_PIXELS / 1e6:.1f} megapixels",
                "Scale the video down, 1280 pixels on the long side are enough",
            )
        if min(width, height) < MIN_SIDE:
            raise Reject(
                "VideoTooSmall",
                f"frames are {width}×{height}",
                f"Use a video of at least {MIN_SIDE}×{MIN_SIDE} pixels",
            )

    def _index(self) -> tuple[list[int], list[int], int]:
        pts, keys, step = [], [], 0
        packets = self.container.demux(self.stream)
        while True:
            try:
                packet = next(packets)
            except StopIteration:
                break
            except av.error.FFmpegError:
                break  # a truncated tail; the comparison with the header reports it
            at = packet.pts if packet.pts is not None else packet.dts
            if at is None or packet.size == 0:
                continue
            pts.append(at)
            step = packet.duration or step
            if packet.is_keyframe:
                keys.append(at)
        if not pts:
            raise Reject("CorruptVideo", "the file holds no pictures", "Record or export it again")
        pts = sorted(set(pts))
        if len(pts) > 1:
            step = int(np.median(np.diff(pts)))
        return pts, sorted(keys) or pts[:1], max(step, 1)

    def seconds(self, pts: int) -> float:
        """Time of a picture from the first one."""
        return float((pts - self.pts[0]) * self.unit)

    @property
    def duration(self) -> float:
        """Seconds from the first picture to the end of the last one."""
        return float((self.pts[-1] + self.step - self.pts[0]) * self.unit)

    @property
    def claimed_duration(self) -> float:
        """What the header says, 0 where it says nothing."""
        if self.stream.duration:
            return float(self.stream.duration * self.unit)
        return (self.container.duration or 0) / 1e6

    def at(self, seconds: float) -> int:
        """The picture on display at a time: the last one that began before or then."""
        target = self.pts[0] + seconds / float(self.unit)
        return self.pts[max(0, bisect_right(self.pts, target + 1e-6) - 1)]

    def pictures(self, wanted: list[int]) -> Iterator[tuple[int, av.VideoFrame]]:
        """Decodes the wanted pictures in order, jumping over whole GOPs where none is wanted.

        A jump in a transport stream may land behind the key frame it was meant for: what is shown
        then is from a later time, so such a file is read from its start, without jumps. After a
        jump in a program stream (.mpg) the times of pictures themselves are guessed anew.
        """
        groups: dict[int, list[int]] = {}
        for pts in wanted:
            groups.setdefault(max(0, bisect_right(self.keys, pts) - 1), []).append(pts)
        here = -2
        frames: Iterator[av.VideoFrame] = iter(())
        shown: av.VideoFrame | None = None
        jumps = self.container.format.name != "mpeg"
        if not jumps:
            frames = self._from_the_start()
        for key, wants in groups.items():
            waiting = list(wants)
            if jumps and (key > here + 1 or here < 0):
                self.container.seek(self.keys[key], stream=self.stream, backward=True)
                frames = self._decode()
                shown = next(frames, None)
                if shown is None or shown.pts > waiting[0]:
                    frames, jumps = self._from_the_start(), False
                    shown = next(frames, None)
            here = key
            while waiting:
                if shown is not None and shown.pts >= waiting[0]:
                    yield waiting.pop(0), shown
                    continue
                following = next(frames, None)
                if following is None:
                    if shown is None:
                        return
                    for pts in waiting:
                        if pts - shown.pts <= 2 * self.step:
                            yield pts, shown
                    return
                if shown is not None and following.pts > waiting[0]:
                    yield waiting.pop(0), shown
                shown = following

    def _decode(self) -> Iterator[av.VideoFrame]:
        packets = self.container.demux(self.stream)
        while True:
            try:
                packet = next(packets)
                for frame in packet.decode():
                    if frame.pts is not None:
                        yield frame
            except StopIteration:
                return
            except av.error.EOFError:
                return
            except av.error.FFmpegError:
                continue  # a damaged packet; what follows may be whole


def _is_cover(stream: Any) -> bool:
    return bool(stream.disposition & Disposition.attached_pic)


def to_rgb(frame: av.VideoFrame, side: int, aspect: Fraction) -> NDArray[np.uint8]:
    """Upright RGB with square pixels, the long side at most `side`."""
    width, height = max(1, round(frame.width * aspect)), frame.height
    scale = min(1.0, side / max(width, height))
    width, height = max(2, round(width * scale)), max(2, round(height * scale))
    picture = frame.reformat(width=width, height=height, format="rgb24").to_ndarray()
    return np.rot90(picture, round(frame.rotation / 90)) if frame.rotation else picture


def uniform(start: float, end: float, n: int) -> list[float]:
    """Middles of n equal parts of [start, end]."""
    return [start + (i + 0.5) * (end - start) / n for i in range(n)]


def read(
    job: dict[str, Any], opened: Callable[[], None] = lambda: None
) -> tuple[dict[str, Any], list[NDArray[np.uint8]]]:
    """Header and two arrays: sampled frames, dense frames. Raises Reject.

    opened: called with every first picture that is decoded.
    """
    source = Source(job["path"])
    notes: list[str] = []
    duration = source.duration
    claimed = source.claimed_duration
    if claimed > duration + max(0.5, 0.05 * duration):
        notes.append(
            f"the file is cut off: it announces {claimed:.1f} s but holds {duration:.1f} s;"
            " what is there was analysed"
        )
    start, end = float(job["start"]), float(job["end"] or duration)
    if start >= duration:
        raise Reject(
            "VideoTooLong" if claimed > start else "NotAVideo",
            f"the range starts at {start:g} s but the video lasts {duration:.1f} s",
            "Choose an earlier start",
        )
    end = min(end, duration)
    if end - start > job["max_seconds"]:
        raise Reject(
            "VideoTooLong",
            f"the video lasts {_spoken(end - start)}, more than {_spoken(job['max_seconds'])}",
            "Choose a range with --start and --end, in seconds",
        )
    header, arrays = _take(source, job, start, end, notes, opened)
    reached = header.pop("reached")
    if reached < end - max(0.5, 2 * float(source.step * source.unit)):
        notes.append(f"pictures after {reached:.1f} s cannot be decoded; what is whole was used")
        header, arrays = _take(source, job, start, max(reached, start + 1e-3), notes, opened)
        header.pop("reached")
    header["duration"] = duration
    header["title"] = source.container.metadata.get("title", "")[:200]
    header["notes"] = list(dict.fromkeys([*notes, *_notes(source)]))
    return header, arrays


def _take(
    source: Source,
    job: dict[str, Any],
    start: float,
    end: float,
    notes: list[str],
    opened: Callable[[], None],
) -> tuple[dict[str, Any], list[NDArray[np.uint8]]]:
    sampled = sorted({source.at(t) for t in uniform(start, end, job["frames"])})
    if len(sampled) < job["frames"]:
        notes.append(
            f"the clip has only {words.count(len(sampled), 'different picture')} to sample"
        )
    count = min(job["dense_limit"], round((end - start) * job["dense_fps"]))
    dense: set[int] = set()
    if job["dense_fps"] > 0:
        # the tracker's pictures include the sampled ones, so that boxes need no guessing there
        dense = {source.at(t) for t in uniform(start, end, max(1, count))} | set(sampled)
    aspect = source.stream.sample_aspect_ratio or Fraction(1)
    aspect = aspect if Fraction(1, 8) < aspect < 8 else Fraction(1)
    if aspect != 1:
        notes.append(f"pixels are not square ({aspect}); frames were stretched to the true shape")
    pictures: dict[int, NDArray[np.uint8]] = {}
    small: dict[int, NDArray[np.uint8]] = {}
    hdr = deep = damaged = False
    last = sampled[0]
    keep = set(sampled)
    for pts, frame in source.pictures(sorted(dense | keep)):
        if not (pictures or small):
            opened()
        if pts in keep:
            pictures[pts] = to_rgb(frame, FRAME_SIDE, aspect)
        if pts in dense:
            small[pts] = to_rgb(frame, DENSE_SIDE, aspect)
        hdr |= int(frame.color_trc or 0) in HDR_TRANSFERS
        deep |= frame.format.components[0].bits > 8
        damaged |= bool(frame.is_corrupt)
        last = pts
    if not pictures:
        raise Reject(
            "CorruptVideo",
            "the file opens but not one of its pictures can be decoded",
            "Record or export it again",
        )
    if hdr:
        notes.append("HDR colours were converted to 8 bits without tone mapping")
    elif deep:
        notes.append("colours of more than 8 bits were converted to 8 bits")
    if damaged:
        notes.append("some pictures are damaged")
    frames, dense_frames = _stack(pictures), _stack(small)
    header = {
        "shapes": [frames.shape, dense_frames.shape],
        "times": [source.seconds(p) for p in sorted(pictures)],
        "dense_times": [source.seconds(p) for p in sorted(small)],
        "size": [frames.shape[2], frames.shape[1]],
        "reached": end if last >= max(dense | keep) else source.seconds(last),
    }
    return header, [frames, dense_frames]


def _stack(pictures: dict[int, NDArray[np.uint8]]) -> NDArray[np.uint8]:
    if not pictures:
        return np.zeros((0, 1, 1, 3), np.uint8)
    first = pictures[min(pictures)].shape
    same = [pictures[p] for p in sorted(pictures) if pictures[p].shape == first]
    if len(same) < len(pictures):
        raise Reject(
            "NotAVideo", "the picture size changes within the file", "Re-encode it to one size"
        )
    return np.stack(same)


def _notes(source: Source) -> list[str]:
    gaps = np.diff(source.pts)
    if len(gaps) < 3:
        return []
    low, high = np.percentile(gaps, [5, 95])
    notes = []
    if high > 1.5 * max(low, 1):
        notes.append("the frame rate varies; frames were chosen by their timestamps")
    fps = 1 / float(np.median(gaps) * source.unit)
    if fps > 130:
        notes.append(f"{fps:.0f} frames per second; frames were chosen by their timestamps")
    return notes


def _spoken(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"


def main() -> None:
    """One job, then the end of the process."""
    line = sys.stdin.readline()
    if not line:  # whoever started this process ended without a job for it
        return
    job = json.loads(line)
    limit_process(job["memory_bytes"], job["seconds"])
    av.logging.set_level(av.logging.PANIC)
    out = sys.stdout.buffer

    def opened() -> None:
        out.write(b'{"opened": true}\n')
        out.flush()

    try:
        header, arrays = read(job, opened)
    except Reject as reject:
        header = {"error": reject.error, "cause": reject.cause, "remedy": reject.remedy}
        arrays = []
    except MemoryError:
        header = {
            "error": "DecodeLimit",
            "cause": "decoding needs more memory than is allowed",
            "remedy": "Scale the video down or choose fewer frames",
        }
        arrays = []
    out.write(json.dumps(header).encode() + b"\n")
    for array in arrays:
        out.write(np.ascontiguousarray(array).data)
    out.flush()


if __name__ == "__main__":
    main()
