"""A zoo of drawn clips in real containers, each with what is known about it.

`python -m tests.zoo FOLDER` writes all of them; `make_zoo(folder, names)` some. The objects are the
toy world's, drawn at their true shape on frames of any shape, so that the embedded detector finds
them. A magenta marker stands in the upper left corner of the upright picture; beside it a strip of
dark and bright blocks counts the frames in binary, so that a decoded picture tells which it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from macd_studio.toyworld.scenes import draw_background, sprite

Picture = NDArray[np.uint8]

MARKER = (255, 0, 255)
BITS = 10
BLOCK = 0.032
"""Side of the marker and of each block of the strip, as a share of the short side."""
DARK, BRIGHT = 104, 152
"""The strip's two greys: with more contrast, detectors take it for an object."""
LABELS = ("dog", "car", "cup", "balloon", "cat", "pizza", "bus", "hat", "bird", "bike")
MS = Fraction(1, 1000)


@dataclass(frozen=True)
class ZooClip:
    """One clip and what must be found in it.

    width, height: of the upright picture with square pixels. objects: how many are drawn in all;
    size: their side as a share of the long side. turns: quarter turns that the display matrix
    makes. sar: shape of a stored pixel. gaps_ms: the spacing of the frames, again and again, where
    it varies. cuts: seconds at which scene and objects change; each scene has its share of the
    objects. notes: what reading it must tell, in part. detector_side: the image size at which the
    embedded detector finds all of them; None: its own.
    """

    name: str
    width: int
    height: int
    fps: Fraction = Fraction(25)
    frames: int = 50
    objects: int = 2
    size: float = 0.24
    codec: str = "libx264"
    pix_fmt: str = "yuv420p"
    turns: int = 0
    sar: Fraction = Fraction(1)
    gaps_ms: tuple[int, ...] = ()
    cuts: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    scene: str = "kitchen"
    detector_side: int | None = None
    fast: bool = field(default=False, compare=False)

    @property
    def aspect(self) -> float:
        """Width over height as displayed."""
        return self.width / self.height

    @property
    def times(self) -> list[Fraction]:
        """Seconds at which each frame comes on display."""
        if not self.gaps_ms:
            return [i / self.fps for i in range(self.frames)]
        ends = np.cumsum([self.gaps_ms[i % len(self.gaps_ms)] for i in range(self.frames)])
        return [Fraction(int(t), 1000) for t in (0, *ends[:-1])]

    @property
    def duration(self) -> float:
        """Seconds to the end of the last frame, within one frame where the rate varies."""
        return float(self.times[-1] + (MS * self.gaps_ms[-1] if self.gaps_ms else 1 / self.fps))

    def scene_at(self, time: float) -> int:
        """How many cuts lie before a time."""
        return sum(time >= cut for cut in self.cuts)


NTSC = Fraction(30000, 1001)
ZOO: dict[str, ZooClip] = {
    clip.name: clip
    for clip in (
        ZooClip("4x3.mp4", 768, 576, frames=75),
        ZooClip("16x9.mp4", 1280, 720, fps=NTSC, frames=90, scene="street"),
        ZooClip("2.35x1.mkv", 1280, 544, frames=50, scene="beach"),
        ZooClip("9x16.mp4", 540, 960, fps=Fraction(60), frames=120, scene="park"),
        ZooClip("1x1.webm", 480, 480, codec="libvpx-vp9", frames=40, scene="snow"),
        ZooClip("odd.mp4", 333, 250, pix_fmt="yuv444p", fast=True),
        ZooClip("odd-both.webm", 333, 251, codec="libvpx-vp9", frames=30),
        ZooClip("variable-fps.mp4", 480, 360, gaps_ms=(20, 20, 20, 180), frames=60,
                notes=("the frame rate varies",), fast=True),
        ZooClip("rotated.mp4", 360, 640, turns=1, frames=40, fast=True),
        ZooClip("rotated-back.mp4", 360, 640, turns=3, frames=40),
        ZooClip("upside-down.mp4", 480, 360, turns=2, frames=40),
        ZooClip("wide-pixels.mp4", 768, 576, sar=Fraction(16, 15), frames=40,
                notes=("pixels are not square (16/15)",), fast=True),
        ZooClip("wide-pixels-rotated.mp4", 576, 768, sar=Fraction(16, 15), turns=1, frames=40,
                notes=("pixels are not square (16/15)",)),
        ZooClip("1-frame.mp4", 480, 360, frames=1, fast=True,
                notes=("the clip has only 1 different picture to sample",)),
        ZooClip("1-second.mp4", 480, 360, frames=25, fast=True),
        ZooClip("60-seconds.mp4", 480, 360, fps=Fraction(15), frames=900),
        ZooClip("10-bit.mkv", 480, 360, pix_fmt="yuv420p10le", frames=40, fast=True,
                notes=("colours of more than 8 bits",)),
        ZooClip("10-bit-hevc.mp4", 480, 360, codec="libx265", pix_fmt="yuv420p10le", frames=40,
                notes=("colours of more than 8 bits",)),
        ZooClip("mpeg4.avi", 480, 360, codec="mpeg4", frames=40),
        ZooClip("hard-cuts.mp4", 480, 360, frames=75, cuts=(1.0, 2.0), objects=6, fast=True),
        ZooClip("0-objects.mp4", 480, 360, frames=40, objects=0),
        ZooClip("30-objects.mp4", 768, 576, frames=50, objects=30, size=0.13,
                detector_side=384),
    )
}  # fmt: skip


def make_zoo(folder: Path, names: Sequence[str] | None = None) -> dict[str, Path]:
    """Writes the clips with those names, all if none are given; the same bytes every time."""
    folder.mkdir(parents=True, exist_ok=True)
    return {
        name: write_clip(ZOO[name], folder / name) for name in (ZOO if names is None else names)
    }


def write_clip(clip: ZooClip, path: Path) -> Path:
    """Encodes one clip."""
    width, height = _stored_size(clip)
    options = {"fflags": "+bitexact"}
    if path.suffix == ".mp4":
        options["movflags"] = "faststart"
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(clip.codec, rate=clip.fps)
        stream.width, stream.height, stream.pix_fmt = width, height, clip.pix_fmt
        stream.codec_context.thread_count = 1  # the bytes depend on the number of threads
        stream.options = {
            "libx264": {"crf": "14", "preset": "veryfast", "g": "30"},
            "libx265": {"crf": "14", "preset": "ultrafast", "x265-params": "log-level=none"},
            "libvpx-vp9": {"crf": "14", "b": "0", "deadline": "realtime", "cpu-used": "8"},
            "mpeg4": {"qscale": "2", "flags": "+qscale", "global_quality": "236"},
        }[clip.codec]
        if clip.sar != 1:
            stream.codec_context.sample_aspect_ratio = clip.sar
        unit = MS if clip.gaps_ms else 1 / clip.fps
        stream.codec_context.time_base = unit
        for picture, time in zip(draw(clip), clip.times, strict=True):
            turned = np.rot90(picture, clip.turns)
            stored = cv2.resize(turned, (width, height), interpolation=cv2.INTER_AREA)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(stored), format="rgb24")
            frame.pts, frame.time_base = int(time / unit), unit
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return set_display_matrix(path, clip.turns) if clip.turns else path


def _stored_size(clip: ZooClip) -> tuple[int, int]:
    upright = (clip.height, clip.width) if clip.turns % 2 else (clip.width, clip.height)
    return round(upright[0] / clip.sar), upright[1]


def set_display_matrix(path: Path, turns: int) -> Path:
    """Sets the display matrix in the track header of an mp4, which PyAV cannot write."""
    content = bytearray(path.read_bytes())
    at = content.index(b"tkhd") + 4 + 4 + 20 + 16
    cos, sin = [(1, 0), (0, 1), (-1, 0), (0, -1)][turns]
    matrix = 65536 * np.array([cos, sin, 0, -sin, cos, 0, 0, 0, 0])
    matrix[8] = 0x40000000
    content[at : at + 36] = matrix.astype(">i4").tobytes()
    path.write_bytes(content)
    return path


def draw(clip: ZooClip) -> Iterator[Picture]:
    """The upright pictures, (height, width, 3) RGB 0-255."""
    scenes = 1 + len(clip.cuts)
    grounds = [_ground(clip, scene) for scene in range(scenes)]
    share = clip.objects // scenes
    for index, time in enumerate(clip.times):
        scene = clip.scene_at(float(time))
        picture = grounds[scene].copy()
        for k in range(share):
            _paste(picture, clip, scene * share + k, k, share, float(time) / clip.duration)
        picture = (255 * picture.clip(0, 1)).astype(np.uint8)
        _mark(picture, index)
        yield picture


def _ground(clip: ZooClip, scene: int) -> NDArray[np.float32]:
    """A background, as large as the frame needs it and cut to its shape."""
    names = [clip.scene, "street", "park", "snow"]
    side = max(clip.width, clip.height)
    ground = draw_background(names[scene], np.random.default_rng(7 + scene))
    ground = cv2.resize(ground, (side, side), interpolation=cv2.INTER_LINEAR)
    top, left = (side - clip.height) // 2, (side - clip.width) // 2
    return ground[top : top + clip.height, left : left + clip.width]


def _paste(
    picture: NDArray[np.float32], clip: ZooClip, which: int, place: int, of: int, moment: float
) -> None:
    left, y, side = _spot(clip, which, place, of, moment)
    shape = sprite(LABELS[which % len(LABELS)], side, which % 2 == 1)
    part = picture[y : y + side, left : left + side]
    shape = shape[: part.shape[0], : part.shape[1]]
    part *= 1 - shape[..., 3:]
    part += shape[..., :3]


def _spot(clip: ZooClip, which: int, place: int, of: int, moment: float) -> tuple[int, int, int]:
    """Left, top and side of one object in a grid below the strip; it sways by a part of its cell.

    which: its number in the clip; place: among the `of` objects of its scene; moment: share of the
    clip that has passed.
    """
    top = round(2 * BLOCK * min(clip.width, clip.height))
    columns = max(1, round((of * clip.width / (clip.height - top)) ** 0.5))
    rows = -(-of // columns)
    cell = clip.width / columns, (clip.height - top) / rows
    side = min(round(clip.size * max(clip.width, clip.height)), int(0.95 * min(cell)))
    row, column = divmod(place, columns)
    sway = 0.5 + 0.5 * np.sin(2 * np.pi * (0.8 * moment + which / 7))
    left = round(column * cell[0] + sway * max(0.0, cell[0] - side) * 0.8)
    y = round(top + row * cell[1] + (1 - sway) * max(0.0, cell[1] - side) * 0.5)
    return left, y, side


def drawn_boxes(clip: ZooClip, index: int) -> list[tuple[str, NDArray[np.float64]]]:
    """Label and square of each object on a frame, x0 y0 x1 y1 in shares of the frame."""
    time = float(clip.times[index])
    scene, share = clip.scene_at(time), clip.objects // (1 + len(clip.cuts))
    found = []
    for k in range(share):
        which = scene * share + k
        left, y, side = _spot(clip, which, k, share, time / clip.duration)
        label = LABELS[which % len(LABELS)]
        box = np.array([left, y, left + side, y + side])
        found.append((label, box / [clip.width, clip.height, clip.width, clip.height]))
    return found


def _block(width: int, height: int) -> int:
    return max(8, round(BLOCK * min(width, height)))


def _mark(picture: Picture, index: int) -> None:
    side = _block(picture.shape[1], picture.shape[0])
    picture[:side, :side] = MARKER
    for bit in range(BITS):
        left = (2 + bit) * side
        picture[:side, left : left + side] = BRIGHT if index >> bit & 1 else DARK


def has_marker(picture: Picture) -> bool:
    """Whether the marker stands in the upper left corner of a decoded picture."""
    side = _block(picture.shape[1], picture.shape[0])
    inside = picture[side // 4 : side - side // 4, side // 4 : side - side // 4]
    return bool(np.abs(inside.mean((0, 1)) - MARKER).max() < 60)


def read_index(picture: Picture) -> int:
    """Which frame a decoded picture is, read from its strip."""
    side = _block(picture.shape[1], picture.shape[0])
    inner = slice(side // 4, side - side // 4)
    blocks = [picture[inner, (2 + b) * side : (3 + b) * side][:, inner] for b in range(BITS)]
    return sum(int(b.mean() > 128) << i for i, b in enumerate(blocks))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.zoo FOLDER")
    for name, made in make_zoo(Path(sys.argv[1])).items():
        print(f"{name:<26}{made.stat().st_size / 1000:>8.0f} kB")
