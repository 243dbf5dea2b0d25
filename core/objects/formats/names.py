"""Frame numbers from the names of files: the number that varies, over the whole set of names.

`clip_mp4-0005_jpg.rf.e50eb7598b58.jpg` holds several numbers, and which of them counts frames is
seen only beside the other names: what stays the same is none, nor is a hash. Names that differ in
their words are of several videos.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NoReturn

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.annotations import clean_label
from macd_studio.core.objects.formats.bounds import MAX_FRAME, refuse

RENAME = "Name files by frame, as in frame_000012"
_HASHES = re.compile(
    r"\.rf\.[0-9a-z]+"  # Roboflow's
    r"|(?<![0-9a-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])"
    r"|(?<![0-9a-z])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{16,}(?![0-9a-z])",
    re.IGNORECASE,
)
_UPLOAD = re.compile(r"[0-9a-f]{8}-", re.IGNORECASE)  # Label Studio's, before each name
_FRAMES = ("frame", "frames", "frm", "fr", "f")
_PICTURES = (*_FRAMES, "img", "image", "im", "mask", "picture", "n")
"""Words that stand before a count of frames, and those before one that may be of anything."""
MAX_RUN = 12
"""Digits of a number in a name."""


@dataclass(frozen=True)
class _Name:
    """A name, parsed. words: between its numbers, one more than these."""

    name: str
    words: tuple[str, ...]
    numbers: tuple[str, ...]

    def without(self, field: int) -> str:
        """What names the video: everything before and after a number."""
        kept = "".join(
            word + ("" if i >= len(self.numbers) or i == field else self.numbers[i])
            for i, word in enumerate(self.words)
        )
        return re.sub(r"[\s_.-]+$|^[\s_.-]+", "", re.sub(r"([_.-])[_.-]+", r"\1", kept))


def numbered(of: str, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Video → name → number of its frame. A video is "" where the names are of one alone.

    of: the file, for messages. Raises TracksError where two names are of one frame, or where it is
    not clear which number counts frames; the message says which numbers there are.
    """
    groups: dict[tuple[str, ...], list[_Name]] = defaultdict(list)
    hashed = _hashed_prefix(names)
    for name in names:
        one = _taken_apart(name, hashed)
        if not one.numbers:
            refuse(of, f"has a file {clean_label(name)} without the number of its frame", RENAME)
        groups[(str(PurePosixPath(name).parent), *one.words)].append(one)
    videos: dict[str, dict[str, int]] = {}
    for key, group in groups.items():
        for video, numbers in _of_group(of, group).items():
            folder = key[0].strip(".")
            label = f"{folder}/{video}".strip("/") or video
            while label in videos:  # two spellings of one name
                label += " "
            videos[label] = numbers
    if len(videos) == 1:
        return {"": next(iter(videos.values()))}
    return videos


def _hashed_prefix(names: Sequence[str]) -> bool:
    stems = [PurePosixPath(name).name for name in names]
    found = [_UPLOAD.match(stem) for stem in stems]
    prefixes = {m[0] for m in found if m is not None}
    if not all(found) or not any(re.search("[a-f]", p, re.IGNORECASE) for p in prefixes):
        return False
    return all(re.search("[0-9]", stem[9:]) for stem in stems)


def _taken_apart(name: str, hashed: bool) -> _Name:
    stem = PurePosixPath(name).stem
    stem = _HASHES.sub("", stem[9:] if hashed else stem)
    parts = re.split(r"([0-9]+)", stem.lower())
    return _Name(name, tuple(parts[::2]), tuple(parts[1::2]))


def _of_group(of: str, group: Sequence[_Name]) -> dict[str, dict[str, int]]:
    """Names of the same words: by the number that counts, of one video or of several."""
    columns = list(zip(*(one.numbers for one in group), strict=True))
    longest = max(len(digits) for column in columns for digits in column)
    if longest > MAX_RUN:
        refuse(of, f"has a file whose name holds a number of {longest} digits", RENAME)
    values = [[int(digits) for digits in column] for column in columns]
    varying = [i for i, column in enumerate(values) if len(set(column)) > 1]
    if not varying:
        if len(group) > 1:
            _refuse_twins(of, group[0], group[1], values)
        return _counted(of, group, values, _only_field(of, group[0], values))
    alone = [i for i in varying if len(set(values[i])) == len(group)]
    if len(alone) > 1:
        alone = _counting(group[0], alone, _FRAMES) or alone
    if len(alone) == 1:
        return _counted(of, group, values, alone[0])
    if not alone:
        return _of_several(of, group, values, varying)
    raise TracksError(
        f"{of} has names with several numbers that differ from file to file, and which of them"
        f" counts frames is not clear: {_fields(group[0], values, alone)}",
        RENAME,
    )


def _of_several(
    of: str, group: Sequence[_Name], values: list[list[int]], varying: list[int]
) -> dict[str, dict[str, int]]:
    """Names in which one number is the video's: it differs, and another counts within it."""
    for field in reversed(varying):
        videos: dict[str, dict[str, int]] = defaultdict(dict)
        frames: dict[str, set[int]] = defaultdict(set)
        for i, one in enumerate(group):
            video = one.without(field)
            videos[video][one.name] = _frame(of, one, values[field][i])
            frames[video].add(values[field][i])
        if all(len(frames[v]) == len(videos[v]) for v in videos):
            return dict(videos)
    seen: dict[tuple[int, ...], _Name] = {}
    for i, one in enumerate(group):
        key = tuple(column[i] for column in values)
        if key in seen:
            _refuse_twins(of, seen[key], one, values)
        seen[key] = one
    raise TracksError(
        f"{of} has names in which no number counts frames: {_fields(group[0], values, varying)}",
        RENAME,
    )


def _counted(
    of: str, group: Sequence[_Name], values: list[list[int]], field: int
) -> dict[str, dict[str, int]]:
    numbers = {one.name: _frame(of, one, values[field][i]) for i, one in enumerate(group)}
    constant = all(len(set(column)) == 1 for i, column in enumerate(values) if i != field)
    return {group[0].without(field) if constant else "": numbers}


def _frame(of: str, one: _Name, value: int) -> int:
    if value > MAX_FRAME:
        refuse(
            of, f"has a file {clean_label(one.name)} of frame {value}, beyond {MAX_FRAME}", RENAME
        )
    return value


def _counting(one: _Name, fields: Sequence[int], words: Sequence[str]) -> list[int]:
    """Those before which one of the words stands."""
    return [i for i in fields if re.split("[^a-z]", one.words[i].rstrip("_-. "))[-1] in words]


def _only_field(of: str, one: _Name, values: list[list[int]]) -> int:
    """The number that counts in a single name."""
    fields = list(range(len(values)))
    apart = [i for i in fields if not one.words[i][-1:].isalpha()]  # not the 4 of mp4
    fields = _counting(one, fields, _PICTURES) or apart or fields
    if len(fields) > 1:
        raise TracksError(
            f"{of} has one file, {clean_label(one.name)}, and which number of its name counts"
            f" frames is not clear: {', '.join(one.numbers[i] for i in fields)}",
            RENAME,
        )
    return fields[0]


def _refuse_twins(of: str, one: _Name, two: _Name, values: list[list[int]]) -> NoReturn:
    raise TracksError(
        f"{of} has two files of one frame, {clean_label(one.name)} and {clean_label(two.name)}; the"
        f" numbers in its names are {_fields(one, values, range(len(values)))}",
        "Give each frame one file",
    )


def _fields(one: _Name, values: list[list[int]], fields: Sequence[int]) -> str:
    """The numbers in words: the text before each, and its range."""
    told = []
    for i in fields:
        low, high = min(values[i]), max(values[i])
        before = one.words[i][-20:]
        told.append(f"{before}{low}" + (f" to {before}{high}" if high > low else ""))
    return "; ".join(told)
