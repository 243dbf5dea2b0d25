"""What all benchmarks of video files share: items, splits, clips and their content.

`OtherClips` has the questions of one folder and the video files of another.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np

from macd_studio.core.errors import BenchmarkError, OptionError, VideoTooLarge, VideoTooLong
from macd_studio.core.media.sampling import tracker_times
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import WIDEST_S, VideoOptions
from macd_studio.core.types import Clip, Track
from macd_studio.evals.benchmarks.base import LETTERS, Balance, Item, Kind, Split
from macd_studio.evals.benchmarks.layout import (
    hashed,
    noting_files,
    place,
    require_unique,
    require_videos,
)

CHOOSE_SHARE = 0.2
"""Of the clips, those on which α and β are chosen where they are not given."""
PICTURES = (".jpg", ".jpeg", ".png")
MAX_FRAMES = 256


@dataclass(frozen=True)
class Sampling:
    """How frames are taken from a file.

    fps: frames sampled a second, instead of `video.frames`; at most 256. size: side in pixels to
    which sampled frames are resized, both ways, before the backbone's own processor sees them.
    """

    video: VideoOptions = VideoOptions()  # noqa: RUF009  (frozen)
    fps: float | None = None
    size: int | None = None


@dataclass(frozen=True)
class Asked:
    """One question of a benchmark as its files have it."""

    id: str
    video: Path
    """A file, or a folder of pictures with their rate `picture_fps`."""
    regime: str
    kind: Kind
    question: str
    truth: str
    """The right answer: "yes" or "no", the letter of an option, or the answer itself."""
    options: tuple[str, ...] = ()
    start: float = 0.0
    end: float | None = None
    """`start` and `end`: of a clip that was cut from the video, seconds."""
    picture_fps: float | None = None
    cluster: str = ""
    """What was drawn at random for this question; the video where it is ""."""
    labels: tuple[tuple[str, str], ...] = ()
    group: str = ""
    """Questions of one group are right only together, such as those of a pair."""


@dataclass(frozen=True)
class Official:
    """A figure as a benchmark's authors report it, in percent of n."""

    name: str
    percent: float
    n: int


class FileBenchmark:
    """A folder of videos with questions. Subclasses say where both are and how to ask.

    Everything is read and checked when one is made, before any model is loaded; raises
    BenchmarkError. files: [name, SHA-256, bytes] of those that hold the questions. published:
    whether to put the published prompt around the questions, or to ask them bare. videos: whether
    they have to be there.
    """

    name = ""
    levels: tuple[str, ...] = ()
    nouns: tuple[str, ...] = ()
    balance: Mapping[str, Balance] = MappingProxyType({})
    seeds: Mapping[str, int] = MappingProxyType({"choose": 0, "test": 0, "all": 0})
    max_tokens = 16
    limits: Mapping[str, Any] = MappingProxyType({})
    """Of its videos, over those of `VideoOptions`: max_seconds, max_megabytes, fit."""

    def __init__(
        self,
        data: Path,
        sampling: Sampling | None = None,
        published: bool = True,
        videos: bool = True,
    ) -> None:
        self.data, self.sampling, self.published = data, sampling or Sampling(), published
        self.with_videos = videos
        with noting_files() as files:
            self.asked = list(self.read(data))
        self.files = hashed(data if data.is_dir() else data.parent, files)
        if not self.asked:
            raise BenchmarkError(f"{place(data)} holds no question", "Download it again")
        require_unique(data, (a.id for a in self.asked))
        if videos:
            require_videos(data, [a.video for a in self.asked])
        self.regimes = tuple(dict.fromkeys(a.regime for a in self.asked))
        self._clips = {_clip_key(data, a): a for a in self.asked}
        self._groups = {a.id: a.group for a in self.asked if a.group}

    def read(self, data: Path) -> Iterable[Asked]:
        """The questions of a folder. Raises BenchmarkError."""
        raise NotImplementedError

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """What the published prompt puts before and after the question."""
        return "", ""

    def check_sizes(self) -> list[str]:
        """What differs from the published benchmark, in words; empty where nothing does."""
        return []

    def official(
        self, items: Sequence[Item], right: Mapping[str, bool | None]
    ) -> Sequence[Official]:
        """Figures that its authors report where a share of single questions is not all.

        right: question → whether its answer is, by the official rule; None where that leaves it
        out.
        """
        return ()

    @cached_property
    def everything(self) -> list[Item]:
        """All questions, in the order of the files."""
        return [self._item(a) for a in self.asked]

    def _item(self, asked: Asked) -> Item:
        before, after = self.prompt(asked) if self.published else ("", "")
        return Item(
            id=asked.id,
            clip=_clip_key(self.data, asked),
            regime=asked.regime,
            level="",
            kind=asked.kind,
            question=asked.question,
            truth=asked.truth,
            options=asked.options,
            before=before,
            after=after,
            labels=asked.labels,
        )

    def items(self, split: Split, n: int) -> list[Item]:
        """See `Benchmark.items`. A fifth of the clips is for choosing, by a hash of their key."""
        chosen: list[Item] = []
        by_regime: dict[str, dict[str, list[Item]]] = defaultdict(lambda: defaultdict(list))
        for item in self.everything:
            by_regime[item.regime][self.cluster(item)].append(item)
        for clusters in by_regime.values():
            n_taken = 0
            for cluster, items in sorted(clusters.items(), key=lambda pair: _rank(pair[0])):
                if n_taken >= n:
                    break
                if split == "all" or (split == "choose") == (_rank(cluster) < CHOOSE_SHARE):
                    chosen += items
                    n_taken += len(items)
        return chosen

    def cluster(self, item: Item) -> str:
        """What was drawn at random with the item: its video, unless the files name another."""
        asked = self._clips[item.clip]
        return asked.cluster or str(asked.video)

    def partner(self, item: Item) -> str | None:
        """The key of another clip of the same scene, in which another thing is true.

        None where none is known.
        """
        return None

    def add_clip(self, asked: Asked) -> str:
        """Makes a clip known that no question is about; its key."""
        key = _clip_key(self.data, asked)
        self._clips.setdefault(key, asked)
        return key

    def group(self, item: Item) -> str:
        """The group that a question belongs to, right only as a whole; "" where it has none."""
        return self._groups.get(item.id, "")

    def clip(self, key: str) -> Clip:
        """Decoded again each time: the sampled frames of the file between start and end."""
        asked = self._clips[key]
        if asked.video.is_dir():
            return _resized(_read_pictures(asked, self.sampling), self.sampling.size)
        _check_size(asked.video, self.sampling.video)
        options = replace(self.sampling.video, start=asked.start, end=asked.end)
        if self.sampling.fps is not None:
            first = _read(asked.video, replace(options, frames=1, dense_fps=0.0))
            if first.is_picture:
                return _resized(_read(asked.video, options), self.sampling.size)
            seconds = min(asked.end or first.duration, first.duration) - asked.start
            options = replace(options, frames=frames_at(seconds, self.sampling.fps))
        return _resized(_read(asked.video, options), self.sampling.size)

    def true_tracks(self, key: str) -> tuple[Track, ...]:
        """Raises OptionError: nothing is known about what is in the files."""
        raise OptionError(f"{self.name} has no true boxes", "Choose the boxes of the detector")

    def present(self, key: str) -> tuple[str, ...]:
        """Nothing is known."""
        return ()

    def fingerprint(self) -> str:
        """Of questions, prompts and sampling, and of the videos' names, sizes and times."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        sampling = asdict(self.sampling)
        digest.update(json.dumps([self.name, self.published, sampling]).encode())
        for item in self.everything:
            digest.update(json.dumps(asdict(item)).encode())
            if (partner := self.partner(item)) is not None:
                digest.update(partner.encode())
        videos = {a.video for a in (*self.asked, *self._clips.values())}
        for path in sorted(v for v in videos if v.exists()):
            stat = path.stat()
            digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode())
        return digest.hexdigest()[:16]


def _check_size(video: Path, options: VideoOptions) -> None:
    """Raises VideoTooLarge with the flag that helps; what else is wrong is told by the reader."""
    size = video.stat().st_size / 1e6 if video.is_file() else 0.0
    if size > options.max_megabytes:
        raise VideoTooLarge(
            f"{place(Path(video.name))} has {size:.0f} MB, more than {options.max_megabytes:g} MB",
            "Give a larger --max-megabytes, or re-encode it",
        )


def _read(video: Path, options: VideoOptions) -> Clip:
    """The clip. Raises VideoError; the limit of time with a flag of evaluations."""
    try:
        return read_clip(video, options)
    except VideoTooLong as error:
        if "--start" not in error.remedy:
            raise
        raise VideoTooLong(error.cause, "Give a larger --max-seconds") from None


def _clip_key(root: Path, asked: Asked) -> str:
    video = asked.video
    name = str(video.relative_to(root)) if video.is_relative_to(root) else str(video)
    cut = asked.start or asked.end is not None
    return (
        f"{name}#{asked.start:g}-{'' if asked.end is None else f'{asked.end:g}'}" if cut else name
    )


def _rank(cluster: str) -> float:
    """A number in [0, 1) that looks random and is always the same."""
    return int(hashlib.sha256(Path(cluster).name.encode()).hexdigest()[:8], 16) / 2**32


def frames_at(seconds: float, fps: float) -> int:
    """How many frames a rate gives, 1 to 256.

    >>> frames_at(4.0, 1), frames_at(0.2, 1), frames_at(3600, 2)
    (4, 1, 256)
    """
    return max(1, min(MAX_FRAMES, round(seconds * fps)))


def letter_of(options: Sequence[str], answer: str) -> str | None:
    """The letter of the option that is the answer, None where it is not one of them.

    >>> letter_of(["left", "right"], "right"), letter_of(["left"], "up")
    ('B', None)
    """
    return LETTERS[list(options).index(answer)] if answer in options else None


def _resized(clip: Clip, side: int | None) -> Clip:
    if side is None:
        return clip
    frames = [cv2.resize(f, (side, side), interpolation=cv2.INTER_AREA) for f in clip.frames]
    return replace(clip, frames=np.stack(frames), size=(side, side))


def _read_pictures(asked: Asked, sampling: Sampling) -> Clip:
    """A folder of pictures of a known rate, such as MVBench's tvqa frames."""
    fps = asked.picture_fps or 1.0
    files = sorted(p for p in asked.video.iterdir() if p.suffix.lower() in PICTURES)
    times = np.arange(len(files)) / fps
    end = asked.end if asked.end is not None else len(files) / fps
    inside = np.flatnonzero((times >= asked.start) & (times < end))
    if not len(inside):
        raise BenchmarkError(
            f"{place(asked.video)} has no picture from {asked.start:g} to {end:g} s",
            "Unpack the folder again",
        )
    n_frames = sampling.video.frames
    if sampling.fps is not None:
        n_frames = frames_at(len(inside) / fps, sampling.fps)
    few = np.unique(inside[((np.arange(n_frames) + 0.5) / n_frames * len(inside)).astype(int)])
    step = max(1, -(-len(inside) // sampling.video.dense_limit))
    dense = inside[::step]
    if step / fps > WIDEST_S:
        limit = sampling.video.dense_limit
        wanted = tracker_times(times[inside[0]], times[inside[-1]], times[few], fps, limit)
        dense = np.unique([*few, *np.searchsorted(times, np.array(wanted) - 0.5 / fps)])
    pictures = {i: _picture(files[i]) for i in {*few.tolist(), *dense.tolist()}}
    digest = hashlib.sha256()
    for picture in pictures.values():
        digest.update(picture.tobytes())
    frames = np.stack([pictures[i] for i in few])
    return Clip(
        frames=frames,
        times=times[few],
        dense_frames=np.stack([pictures[i] for i in dense]),
        dense_times=times[dense],
        name=asked.video.name,
        sha256=digest.hexdigest(),
        duration=len(inside) / fps,
        size=(frames.shape[2], frames.shape[1]),
    )


def _picture(path: Path) -> np.ndarray:
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise BenchmarkError(f"{place(path)} is not a picture", "Unpack the folder again")
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)


class OtherClips:
    """A benchmark of files whose clips are those that another folder has for the same questions.

    Questions are matched by id; those that the other folder lacks are left out. Which part of a
    video is shown comes with the video. Anything else is that of the folder of questions.
    """

    def __init__(self, asked: FileBenchmark, shown: FileBenchmark) -> None:
        self._asked, self._shown = asked, shown
        self._clips: Mapping[str, Item] = {i.id: i for i in shown.everything}
        self._own = {i.id: i for i in asked.everything if i.id in self._clips}
        self.everything = [self._item(i) for i in self._own.values()]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._asked, name)

    def _item(self, item: Item) -> Item:
        return replace(item, clip=self._clips[item.id].clip)

    def items(self, split: Split, n: int) -> list[Item]:
        """See `Benchmark.items`; the folder of questions says which are in a split."""
        return [self._item(i) for i in self._asked.items(split, n) if i.id in self._own]

    def clip(self, key: str) -> Clip:
        """The other folder's clip."""
        return self._shown.clip(key)

    def partner(self, item: Item) -> str | None:
        """The other folder's partner of the clip."""
        return self._shown.partner(self._clips[item.id])

    def cluster(self, item: Item) -> str:
        """As the folder of questions has it."""
        return self._asked.cluster(self._own[item.id])

    def fingerprint(self) -> str:
        """Of both folders."""
        both = f"{self._asked.fingerprint()} {self._shown.fingerprint()}"
        return hashlib.sha256(both.encode()).hexdigest()[:16]
