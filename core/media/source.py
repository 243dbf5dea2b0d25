"""One video file: its pictures' times, read from packets, and the decoding of those wanted.

Used by `core.media.worker` only, inside its bounded process. Times are presentation timestamps
(pts) in units of the stream's time base until `Source.seconds` converts them.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Callable, Iterator
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any, BinaryIO

import av
import numpy as np
from av.stream import Disposition

FORMATS = "mov,mp4,matroska,webm,avi,mpegts,mpeg,flv,gif,asf,ogg,m4v,ivf"
MIN_SIDE, MAX_PIXELS = 16, 4096 * 2304
WITHOUT_SEEKING = ("mpeg", "mpegts")
"""After a seek, times are guessed again in program streams, and transport streams land too late."""
WITH_ALPHA = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
"""Codecs of which another decoder reads transparency too."""
BACK_S = 0.2
"""A clock that goes back by more, in seconds, was set anew: recordings were joined."""
WITH_LENGTHS = {"mov", "gif"}
"""Containers that hold how long each picture is shown; elsewhere it is mostly FFmpeg's estimate."""
BESIDE = Disposition.attached_pic | Disposition.timed_thumbnails | Disposition.dependent
"""Streams of pictures that are no video of their own: covers, thumbnails, parts of another one."""


class Reject(Exception):
    """A file that cannot be used: the name of an error class, cause, remedy."""

    def __init__(self, error: str, cause: str, remedy: str) -> None:
        super().__init__(cause)
        self.error, self.cause, self.remedy = error, cause, remedy


def _not_readable(why: str) -> Reject:
    return Reject(
        "NotAVideo",
        f"the file is not a readable video ({why})",
        "Use a complete mp4, mov, webm, mkv or avi file; re-encode it if it came from a broken"
        " download",
    )


class TimeIsUp(Exception):
    """The time for this way of reading is over."""


class Source:
    """An open file with the time of every picture in it, read from packets without decoding.

    check: called for each packet that is decoded; raises TimeIsUp to end the decoding.
    check_index: likewise while packets are listed; `cut_short` is then true, and pictures after
    those listed are unknown.
    pipe: FFmpeg's name of a format of pictures without a container, and how many are a second.
    """

    def __init__(
        self,
        path: str,
        threads: int = 1,
        check: Callable[[], None] = lambda: None,
        check_index: Callable[[], None] = lambda: None,
        pipe: tuple[str, float] | None = None,
    ) -> None:
        self.path, self.threads, self.check, self._pipe = path, threads, check, pipe
        self._former: list[Any] = []
        try:
            self._open()
        except (av.error.FFmpegError, ValueError) as error:
            if isinstance(error, MemoryError):
                raise Reject(
                    "DecodeLimit",
                    "the file has more streams, or longer tables, than a video needs",
                    "Re-encode it, with the video as its only stream",
                ) from None
            raise _not_readable(type(error).__name__) from None
        if not self.container.streams:
            raise _not_readable("no streams")
        self._use(self._chosen().index)
        self._check_size(self.stream.codec_context.width, self.stream.codec_context.height)
        self.unit = self.stream.time_base or Fraction(1, 1000)
        self.cut_short = False
        self._list_packets(check_index)

    def _chosen(self) -> Any:
        """The stream that players show: the first of those marked as default, else the first.

        streams: how many moving pictures the file has.
        """
        streams = [s for s in self.container.streams.video if not s.disposition & BESIDE]
        if not streams:
            raise Reject(
                "NoVideoStream",
                "the file has no moving picture, at most sound, words or a cover",
                "Choose a video",
            )
        readable = [s for s in streams if s.codec_context is not None]
        if not readable:
            raise _not_readable("its pictures are coded in a way that is unknown here")
        moving = [s for s in readable if s.frames != 1]  # of an animated AVIF the first one stands
        self.streams = len(moving) or len(streams)
        marked = [s for s in moving or readable if s.disposition & Disposition.default]
        return (marked or moving or readable)[0]

    def _open(self) -> None:
        options = {"format_whitelist": FORMATS, "protocol_whitelist": "file"}
        if self._pipe is None:
            self.container = av.open(self.path, options=options)
            return
        name, rate = self._pipe
        options |= {"format_whitelist": name, "framerate": f"{rate:g}"}
        self.container = av.open(self.path, format=name, options=options)

    def _use(self, index: int) -> None:
        self.stream = self.container.streams[index]
        self.stream.thread_type = "AUTO"
        self.stream.codec_context.thread_count = self.threads
        # headers inside the stream may announce another size than the container does
        options = {"max_pixels": str(MAX_PIXELS * 9 // 8)}
        self.stream.codec_context.options = options
        self.decoder = self.stream.codec_context
        name = WITH_ALPHA.get(self.decoder.name)
        if name in av.codecs_available and self.stream.metadata.get("alpha_mode") == "1":
            self.decoder = av.CodecContext.create(name, "r")
            self.decoder.extradata = self.stream.codec_context.extradata
            self.decoder.options, self.decoder.thread_count = options, self.threads

    def _reopen(self) -> None:
        """The same stream from its start, with a fresh decoder."""
        # closing the former container can wait for ever on its decoder's threads
        self._former.append(self.container)
        self._open()
        self._use(self.stream.index)

    def _check_size(self, width: int, height: int) -> None:
        if not width or not height:
            raise _not_readable("its pictures have no size, or one that no decoder takes")
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

    def _list_packets(self, check: Callable[[], None]) -> None:
        """Sets pts: those of all pictures on display, ascending; keys: where a decoder can start.

        key_pictures: the keys on display. An edit list can hide pictures, keys among them: those
        are decoded for what follows but belong to no time of the clip.
        """
        pts, keys, hidden, step = array("q"), array("q"), set(), 0
        total, last, held = 0, -math.inf, 0
        self.clocks = 1
        for packet in self._packets():
            at = _time_of(packet)
            if at is None or packet.size == 0:
                continue
            if packet.is_keyframe:
                keys.append(at)
                if packet.is_discard:
                    hidden.add(at)
            if packet.is_discard:
                continue
            pts.append(at)
            step = packet.duration or step
            total += packet.duration or 0
            if at >= last:
                last, held = at, packet.duration or 0
            try:
                check()
            except TimeIsUp:
                self.cut_short = True
                break
        if not pts:
            if self.cut_short:
                raise TimeIsUp
            raise Reject("CorruptVideo", "the file holds no pictures", "Record or export it again")
        self.pts = np.unique(np.frombuffer(pts, np.int64))
        self.keys = np.unique(np.frombuffer(keys, np.int64)) if keys else self.pts[:1]
        self.key_pictures = [int(k) for k in self.keys if int(k) not in hidden]
        if self._in_order:
            self.key_pictures = []  # a key frame's own time is known only after those before it
        if len(self.pts) > 1:
            step = int(np.median(np.diff(self.pts)))
        self.step = max(step, 1)
        first, last = int(self.pts[0]), int(self.pts[-1])
        if "mov" in self.kinds:  # its pictures' lengths are in the order of decoding
            held = first + total - last
        self._end = last + (held if held > 0 else self.step)
        self.is_cut = not self.cut_short and is_cut(self.path, self.container.format.name)

    def _packets(self) -> Iterator[av.Packet]:
        """All packets from here to the end. Where the clock of a stream that counts on goes back,
        as in joined recordings, times go on from those before; clocks: how many there are."""
        shift, last, clocks = 0, None, 1
        counts_on = bool(set(WITHOUT_SEEKING) & {*self.kinds})
        for packet in _whole(self.container.demux(self.stream)):
            if packet.dts is not None and counts_on:
                back = None if last is None else float((last - packet.dts - shift) * self.unit)
                if back is not None and back > BACK_S:
                    shift = last - packet.dts + (packet.duration or 1)
                    clocks += 1
                packet.dts += shift
                if packet.pts is not None:
                    packet.pts += shift
                last = packet.dts
            self.clocks = max(self.clocks, clocks)
            yield packet

    @property
    def kinds(self) -> list[str]:
        """FFmpeg's names for the container."""
        return str(self.container.format.name).split(",")

    @property
    def _in_order(self) -> bool:
        """Whether pictures get their times by their order: avi has none where it has B-frames."""
        return self.container.format.name == "avi" and bool(self.stream.codec_context.has_b_frames)

    @property
    def _seeks(self) -> bool:
        """Whether times are of one clock, and of a container."""
        return self._pipe is None and self.clocks == 1

    def seconds(self, pts: int) -> float:
        """Time of a picture from the first one."""
        return float((pts - int(self.pts[0])) * self.unit)

    @property
    def duration(self) -> float:
        """Seconds from the first picture to the end of the last one, which is shown as long as the
        file says, or else as long as a picture usually is.
        """
        alone, known = len(self.container.streams) == 1, self.seconds(self._end)
        if not alone or self.is_cut or self.cut_short or WITH_LENGTHS & {*self.kinds}:
            return known
        return max(known, self.claimed_duration)

    @property
    def begins(self) -> float:
        """Seconds from the start of the file's own clock to the first picture, on which all
        others count.
        """
        clock = 0.0 if "mov" in self.kinds else (self.container.start_time or 0) / 1e6
        return float(int(self.pts[0]) * self.unit) - clock

    @property
    def seconds_of_step(self) -> float:
        """The usual time from one picture to the next."""
        return float(self.step * self.unit)

    @property
    def claimed_duration(self) -> float:
        """From the first picture to the end that the header tells, 0 where it tells none."""
        if self.stream.duration:
            return float(self.stream.duration * self.unit)
        end, first = (self.container.duration or 0) / 1e6, float(int(self.pts[0]) * self.unit)
        if "matroska" in self.kinds and end > first:  # its length is the time of its end
            return end - first
        return max(0.0, end - self.begins)

    def at(self, seconds: float) -> int:
        """The picture on display at a time: the last one that began before or then."""
        target = self.pts[0] + seconds / float(self.unit)
        return int(self.pts[max(0, np.searchsorted(self.pts, target + 1e-6, "right") - 1)])

    def key_at(self, seconds: float) -> int | None:
        """The last key frame that began before a time or then; None before the first."""
        target = self.pts[0] + seconds / float(self.unit)
        place = int(np.searchsorted(self.key_pictures, target + 1e-6, "right"))
        return self.key_pictures[place - 1] if place else None

    def pictures(self, timestamps: list[int]) -> Iterator[tuple[int, av.VideoFrame]]:
        """Decodes the wanted pictures in order, jumping over whole GOPs where none is wanted.

        Yields a wanted time and the picture on display then, whose own time may be earlier where
        the wanted one is damaged. It is never later by more than one step.

        A jump may land behind the key frame it was meant for, as it does in transport streams: what
        is shown then is from a later time, so such a file is read from its start, without jumps.
        """
        for pts, frame in self._on_display(timestamps):
            if frame.pts <= pts + self.step:
                yield pts, frame

    def _on_display(self, timestamps: list[int]) -> Iterator[tuple[int, av.VideoFrame]]:
        groups: dict[int, list[int]] = {}
        for pts in timestamps:
            group = max(0, int(np.searchsorted(self.keys, pts, "right")) - 1)
            groups.setdefault(group, []).append(pts)
        here = -2
        frames: Iterator[av.VideoFrame] = iter(())
        shown: av.VideoFrame | None = None
        jumps = self._seeks and self.container.format.name != "mpeg" and not self._in_order
        if not jumps:
            self._reopen()
            frames = self._decode()
        for key, wants in groups.items():
            waiting = list(wants)
            if jumps and (key > here + 1 or here < 0):
                self.container.seek(int(self.keys[key]), stream=self.stream, backward=True)
                self.decoder.flush_buffers()
                frames = self._decode()
                shown = next(frames, None)
                if shown is None or shown.pts > waiting[0]:
                    self._reopen()
                    frames, jumps = self._decode(), False
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
        times: list[int] = []
        together = self.clocks > 1
        for packet in self._packets() if together else _whole(self.container.demux(self.stream)):
            self.check()
            if self._in_order and packet.size:
                heappush(times, packet.pts if packet.pts is not None else packet.dts)
            for frame in self._decoded(packet):
                if times:
                    frame.pts = heappop(times)
                yield frame

    def _decoded(self, packet: av.Packet | None) -> Iterator[av.VideoFrame]:
        try:
            # None ends the stream for the decoder, which hands out what it still holds
            for frame in self.decoder.decode(packet):
                if frame.pts is not None:
                    self._check_size(frame.width, frame.height)
                    yield frame
        except MemoryError:
            raise
        except av.error.FFmpegError:
            return  # a damaged packet; what follows may be whole

    def key_frames(self, timestamps: list[int]) -> Iterator[av.VideoFrame]:
        """Decodes the wanted ones of `key_pictures`, in order, and nothing else.

        Each is decoded by itself: without the pictures between them, their order numbers mean
        nothing, and a decoder that had several at once would mix them up.
        """
        self._reopen_for_keys()
        for packet in self._key_packets(timestamps):
            self.check()
            yield from self._decoded(packet)
            yield from self._decoded(None)
            self.decoder.flush_buffers()

    def _reopen_for_keys(self) -> None:
        self._reopen()
        context = self.decoder
        context.thread_type, context.skip_frame = "SLICE", "NONKEY"

    def _key_packets(self, timestamps: list[int]) -> Iterator[av.Packet]:
        """The packets with these times, jumping over what lies between two of them.

        Where a jump lands too late, the rest is looked for from the start, without jumps.
        """
        missing = sorted(timestamps)
        if self._seeks and self.container.format.name not in WITHOUT_SEEKING:
            near = -2
            while missing:
                key = int(np.searchsorted(self.keys, missing[0]))
                if key > near + 1:
                    self.container.seek(missing[0], stream=self.stream, backward=True)
                near = key
                found = self._key_packet(missing[0])
                if found is None:
                    self._reopen_for_keys()
                    break
                missing.pop(0)
                yield found
        wanted = set(missing)
        for packet in self._packets() if wanted else ():
            at = _time_of(packet)
            if at in wanted and packet.is_keyframe:
                wanted.discard(at)
                yield packet
            if not wanted:
                return

    def _key_packet(self, timestamp: int) -> av.Packet | None:
        """The next packet with this time; None if the file is past it."""
        for packet in _whole(self.container.demux(self.stream)):
            at = _time_of(packet)
            if at is None or packet.size == 0 or not packet.is_keyframe:
                continue
            if at >= timestamp:
                return packet if at == timestamp else None
        return None


def _time_of(packet: av.Packet) -> int | None:
    at: int | None = packet.pts if packet.pts is not None else packet.dts
    return at


def _whole(packets: Iterator[av.Packet]) -> Iterator[av.Packet]:
    """Packets up to where the file ends, even in the middle of one."""
    while True:
        try:
            packet = next(packets)
        except MemoryError:
            raise
        except (StopIteration, av.error.FFmpegError):
            return
        yield packet


MAX_PARTS = 100_000
"""Of a file that is a sequence of parts, those that are looked at."""
TAIL = 4096
"""Bytes at a file's end in which its last mark is looked for."""
SEGMENT = 0x18538067
"""What a Matroska file consists of, after its header."""
FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
"""The object of an ASF file that holds its size."""


def is_cut(path: str, container: str) -> bool:
    """Whether the file ends before the end that its structure announces, by sizes alone.

    container: FFmpeg's names of the format. False where it cannot be told, as of live streams.
    """
    look = next((_LOOKS[name] for name in container.split(",") if name in _LOOKS), None)
    if look is None:
        return False
    try:
        with open(path, "rb") as file:
            return look(file, os.fstat(file.fileno()).st_size)
    except OSError:
        return False


def _boxes(file: BinaryIO, size: int) -> bool:
    """mp4 and mov: a box that continues after the end of the file."""
    at = 0
    for _ in range(MAX_PARTS):
        file.seek(at)
        head = file.read(16)
        if len(head) < 8 or not head[4:8].isascii() or not head[4:8].decode().isprintable():
            return False  # what was appended to a file by a camera is no box
        length = int.from_bytes(head[:4], "big")
        if length == 1 and len(head) == 16:
            length = int.from_bytes(head[8:], "big")
        if length < 8:  # 0: to the end of the file
            return False
        at += length
        if at >= size:
            return at > size
    return False


def _segment(file: BinaryIO, size: int) -> bool:
    """Matroska and WebM: a segment of a known size."""
    at = 0
    for _ in range(16):  # header and padding come before it
        file.seek(at)
        name, length, here = _element(file.read(12))
        if not here or length is None:
            return False
        if name == SEGMENT:
            return at + here + length > size
        at += here + length
    return False


def _element(head: bytes) -> tuple[int, int | None, int]:
    """Name, length, and length of the two: of an EBML element; 0 for the last where it is none."""
    if not head or not head[0]:
        return 0, None, 0
    named = 9 - head[0].bit_length()
    if named > 4 or len(head) <= named or not head[named]:
        return 0, None, 0
    long = 9 - head[named].bit_length()
    if len(head) < named + long:
        return 0, None, 0
    value = int.from_bytes(head[named : named + long], "big") & ((1 << 7 * long) - 1)
    unknown = value == (1 << 7 * long) - 1
    return int.from_bytes(head[:named], "big"), None if unknown else value, named + long


def _chunks(file: BinaryIO, size: int) -> bool:
    """avi: one or more RIFF chunks; a recorder that was killed leaves a length of 0 or all ones."""
    at = 0
    for _ in range(MAX_PARTS):
        file.seek(at)
        head = file.read(8)
        length = int.from_bytes(head[4:], "little")
        if len(head) < 8 or head[:4] != b"RIFF" or length in (0, 2**32 - 1):
            return False
        at += 8 + length + length % 2
        if at >= size:
            return at - length % 2 > size
    return False


def _trailer(file: BinaryIO, size: int) -> bool:
    """gif: its last byte is a semicolon, which padding may follow."""
    file.seek(max(0, size - TAIL))
    return not file.read(TAIL).rstrip(b"\0\r\n\t ").endswith(b";")


def _properties(file: BinaryIO, size: int) -> bool:
    """asf and wmv: the size in its header, unless it was broadcast."""
    head = file.read(2**16)
    at = head.find(FILE_PROPERTIES)
    if at < 0 or len(head) < at + 92:
        return False
    announced = int.from_bytes(head[at + 40 : at + 48], "little")
    return not head[at + 88] & 1 and announced > size


_LOOKS: dict[str, Callable[[BinaryIO, int], bool]] = {
    "mov": _boxes, "mp4": _boxes, "matroska": _segment, "webm": _segment, "avi": _chunks,
    "gif": _trailer, "asf": _properties,
}  # fmt: skip
