"""Video-POPE: is an object there, asked of any folder of clips whose objects are known.

After POPE (Li et al. 2023, "Evaluating Object Hallucination in Large Vision-Language Models"): each
clip is asked about objects that are there and about as many that are not, drawn in three ways, each
a split with as many yes as no: at random; the objects most frequent in the folder; and those that
most often come together with what is there. labels.jsonl or labels.csv beside the clips says what
is there; `python -m evals label FOLDER` writes it from a detector's tracks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from core.errors import BenchmarkError
from evals.benchmarks.files import Asked, FileBenchmark
from evals.benchmarks.layout import Reader, place, read_table, require_folder, require_unique

NAMES = ("labels.jsonl", "labels.csv", "labels.json")
SPLITS = ("random", "popular", "adversarial")
PER_CLIP = 3
"""Objects there that a clip is asked about, as many as POPE asks of an image."""


class VideoPope(FileBenchmark):
    """The questions are always the same for the same labels."""

    name = "video-pope"

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "clips")
        path = next((data / f for f in NAMES if (data / f).is_file()), None)
        if path is None:
            raise BenchmarkError(
                f"{place(data)} holds no {' or '.join(NAMES[:2])}",
                "Write one of {video, objects}, or have it written: python -m evals label FOLDER",
            )
        labels = _labels(path)
        if len({o for objects in labels.values() for o in objects}) < 2:
            raise BenchmarkError(
                f"{place(path)} names fewer than two objects", "Label clips of different objects"
            )
        there = {video: _some(video, objects) for video, objects in labels.items()}
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

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """The words that VLMEvalKit puts after the questions of POPE."""
        return "", " Please answer yes or no."


def absent_objects(split: str, video: str, labels: dict[str, tuple[str, ...]]) -> list[str]:
    """Objects of the folder that are not in the clip, the first to ask first.

    >>> labels = {"a": ("dog",), "b": ("dog", "ball"), "c": ("cat", "ball"), "d": ("cat", "ball")}
    >>> absent_objects("popular", "a", labels), absent_objects("adversarial", "a", labels)
    (['ball', 'cat'], ['ball', 'cat'])
    """
    objects = sorted({o for those in labels.values() for o in those})
    missing = [o for o in objects if o not in labels[video]]
    if split == "random":
        rng = np.random.default_rng(_seed(video))
        return [missing[i] for i in rng.permutation(len(missing))]
    if split == "popular":
        score = Counter(o for those in labels.values() for o in set(those))
    else:
        score = Counter()
        for those in labels.values():
            shared = len(set(those) & set(labels[video]))
            score.update({o: shared for o in set(those)})
    return sorted(missing, key=lambda o: (-score[o], o))


def _some(video: str, objects: Sequence[str]) -> list[str]:
    rng = np.random.default_rng(_seed(video) + 1)
    order = rng.permutation(len(objects))[:PER_CLIP]
    return [objects[i] for i in order]


def _seed(video: str) -> int:
    return int.from_bytes(hashlib.sha256(video.encode()).digest()[:4], "big")


def _article(noun: str) -> str:
    return "an" if noun[0].lower() in "aeiou" else "a"


def _labels(path: Path) -> dict[str, tuple[str, ...]]:
    names_by_video = []
    for where, record in read_table(path, "Give records of video and objects"):
        reader = Reader(path, where, record)
        objects = record.get("objects")
        if isinstance(objects, str):
            names = tuple(o.strip() for o in objects.split("|") if o.strip())
        else:
            names = tuple(o.strip() for o in reader.texts("objects") if o.strip())
        if not names and objects is None:
            raise reader.fail("'objects' is missing")
        names_by_video.append((reader.text("video"), tuple(dict.fromkeys(names))))
    require_unique(path, (video for video, _ in names_by_video))
    return {video: names for video, names in names_by_video if names}
