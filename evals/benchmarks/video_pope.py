"""Video-POPE: is an object there, asked of any folder of clips whose objects are known.

After POPE (Li et al. 2023, "Evaluating Object Hallucination in Large Vision-Language Models"): each
clip is asked about objects that are there and about as many that are not, drawn in three ways, each
a split with as many yes as no: at random; the objects most frequent in the folder; and those that
most often come together with what is there. labels.jsonl or labels.csv beside the clips says what
is there, and of which objects it is not known whether they are, so that nobody asks about these;
`python -m evals label FOLDER` writes it from a detector's detections and tracks.

A folder with the files of POPE itself, `coco_pope_random.json` and so on, asks those questions of
its pictures, which lie in `val2014` or beside the files.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from macd_studio.core.errors import BenchmarkError
from macd_studio.core.text.words import count
from macd_studio.evals.benchmarks.base import LONG
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark
from macd_studio.evals.benchmarks.layout import (
    Reader,
    place,
    read_table,
    require_folder,
    require_unique,
)

NAMES = ("labels.jsonl", "labels.csv", "labels.json")
SPLITS = ("random", "popular", "adversarial")
PER_CLIP = 3
"""Objects there that a clip is asked about, as many as POPE asks of an image."""


@dataclass(frozen=True)
class Content:
    """What is in a clip: objects that are there, and those that may be there or not."""

    objects: tuple[str, ...]
    unsure: tuple[str, ...] = ()


class VideoPope(FileBenchmark):
    """The questions are always the same for the same labels."""

    name = "video-pope"
    limits = LONG
    _left_out = 0

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "clips")
        if published := sorted(data.glob("*_pope_*.json*")):
            yield from _published(data, published)
            return
        path = next((data / f for f in NAMES if (data / f).is_file()), None)
        if path is None:
            raise BenchmarkError(
                f"{place(data)} holds no {' or '.join(NAMES[:2])}",
                "Write one of {video, objects}, or have it written: python -m evals label FOLDER",
            )
        labels = _labels(path)
        names = {o for content in labels.values() for o in content.objects}
        if len(names) < 2:
            raise BenchmarkError(
                f"{place(path)} names fewer than two objects", "Label clips of different objects"
            )
        self._left_out = sum(len(names.intersection(c.unsure)) for c in labels.values())
        there = {video: _some(video, c.objects) for video, c in labels.items()}
        for split in SPLITS:
            for video, present in there.items():
                absent = absent_objects(split, video, labels)[: len(present)]
                pairs = [(o, "yes") for o in present[: len(absent)]] + [(o, "no") for o in absent]
                for i, (name, truth) in enumerate(pairs):
                    yield Asked(
                        id=f"{split}/{video}/{i}",
                        video=data / video,
                        regime=split,
                        kind="yes-no",
                        question=f"Is there {_article(name)} {name} in the video?",
                        truth=truth,
                        labels=(("object", name),),
                    )

    def check_sizes(self) -> list[str]:
        """How many objects were left out because it is not known whether they are there."""
        if not self._left_out:
            return []
        return [
            f"not asked about: {count(self._left_out, 'pair')} of a clip and an object, where it is"
            " unsure whether the object is there"
        ]

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """The words that VLMEvalKit puts after the questions of POPE."""
        return "", " Please answer yes or no."


PICTURES = ("val2014", "images", "")
"""Folders in which POPE's pictures may lie."""


def _published(data: Path, files: Sequence[Path]) -> Iterator[Asked]:
    """POPE's own questions, a split a file."""
    for path in files:
        split = path.stem.rpartition("_")[2]
        for where, record in read_table(path, "Download it again", lines=True):
            reader = Reader(path, where, record)
            name, question = reader.text("image"), reader.text("text", "question")
            truth = reader.text("label").lower()
            if truth not in ("yes", "no"):
                raise reader.fail(f"the label is {truth!r} instead of yes or no")
            if Path(name).name != name:
                raise reader.fail(f"{name!r} is not the name of a picture")
            tried = [data / folder / name for folder in PICTURES]
            words = re.search(r"\ban? (.+?) in the ima?ge", question)
            yield Asked(
                id=f"{split}/{reader.text('question_id')}",
                video=next((p for p in tried if p.is_file()), None)
                or next((p for p in tried[:-1] if p.parent.is_dir()), tried[0]),
                regime=split,
                kind="yes-no",
                question=question,
                truth=truth,
                labels=(("object", words[1] if words else "none"),),
            )


def absent_objects(split: str, video: str, labels: Mapping[str, Content]) -> list[str]:
    """Objects of the folder that are surely not in the clip, the first to ask first.

    >>> labels = {"a": Content(("dog",)), "b": Content(("dog", "ball")),
    ...           "c": Content(("cat", "ball"), unsure=("dog",)), "d": Content(("cat", "ball"))}
    >>> absent_objects("popular", "a", labels), absent_objects("adversarial", "a", labels)
    (['ball', 'cat'], ['ball', 'cat'])
    >>> absent_objects("popular", "c", labels), absent_objects("popular", "d", labels)
    ([], ['dog'])
    """
    objects = sorted({o for content in labels.values() for o in content.objects})
    asked = labels[video]
    missing = [o for o in objects if o not in asked.objects and o not in asked.unsure]
    if split == "random":
        rng = np.random.default_rng(_seed(video))
        return [missing[i] for i in rng.permutation(len(missing))]
    if split == "popular":
        score = Counter(o for content in labels.values() for o in content.objects)
    else:
        score = Counter()
        for content in labels.values():
            shared = len(set(content.objects) & set(asked.objects))
            score.update({o: shared for o in content.objects})
    return sorted(missing, key=lambda o: (-score[o], o))


def _some(video: str, objects: Sequence[str]) -> list[str]:
    rng = np.random.default_rng(_seed(video) + 1)
    order = rng.permutation(len(objects))[:PER_CLIP]
    return [objects[i] for i in order]


def _seed(video: str) -> int:
    return int.from_bytes(hashlib.sha256(video.encode()).digest()[:4], "big")


def _article(noun: str) -> str:
    return "an" if noun[0].lower() in "aeiou" else "a"


def _labels(path: Path) -> dict[str, Content]:
    """Video → what is in it; clips without any object that is surely there are left out."""
    by_video = []
    for where, record in read_table(path, "Give records of video and objects"):
        reader = Reader(path, where, record)
        objects = _names(reader, "objects")
        if not objects and record.get("objects") is None:
            raise reader.fail("'objects' is missing")
        unsure = _names(reader, "unsure")
        if both := set(objects) & set(unsure):
            raise reader.fail(f"{min(both)!r} is among 'objects' and 'unsure'")
        by_video.append((reader.text("video"), Content(objects, unsure)))
    require_unique(path, (video for video, _ in by_video))
    return {video: content for video, content in by_video if content.objects}


def _names(reader: Reader, field: str) -> tuple[str, ...]:
    """Names of objects, each once: a list, or a text separated by "|"."""
    value = reader.record.get(field)
    names = value.split("|") if isinstance(value, str) else reader.texts(field)
    return tuple(dict.fromkeys(o.strip() for o in names if o.strip()))
