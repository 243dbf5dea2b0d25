"""VidPair-Halluc: pairs of clips of one scene, of which another thing is true.

github.com/JethroJames/VidPair-Halluc, its reader and scorers read at c2e0da5, hub dataset
Jethro37/VidPair-Halluc: qa/hf/binary.jsonl and multiple_choice.jsonl, a question a line with
repo_video_path; pairs/pairs.json of {pair_id, positive_video, adversarial_video}; videos in
VidPair-Halluc/ID/. Open questions (open_ended.jsonl) are left out: a language model judges them.

Scorers: of yes and no evaluate/clipqa.py at c2e0da5. Of choices there is none in that release; the
former evaluate_mcq.py (b2ac63b) compares whole answers, and its part for single letters, which ends
with an undefined name there, stands here as a rule of its own. The values in the tests are what the
authors' functions give.

The dataset itself could not be opened here: fields beyond those that the reader and the scorers
name are taken from several likely names, and a record without any of them is refused.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from macd_studio.core.errors import BenchmarkError
from macd_studio.evals.benchmarks.base import LETTERS, Item
from macd_studio.evals.benchmarks.files import Asked, FileBenchmark, Official, letter_of
from macd_studio.evals.benchmarks.layout import (
    Reader,
    place,
    read_json,
    read_table,
    require_folder,
)
from macd_studio.evals.benchmarks.questions import without_letters

BINARY, CHOICE = "binary", "multiple_choice"
VIDEOS, PAIRS, LEFT_OUT = "VidPair-Halluc", "pairs/pairs.json", "qa/hf/open_ended.jsonl"
RELEASED = {BINARY: 4000, CHOICE: 4000}
MIN_READ = 2
"""Answers of yes or no that a folder of clips needs to count in the authors' figures."""
REMEDY = "Give the folder of the dataset; docs/benchmarks.md shows it"


class VidPairHalluc(FileBenchmark):
    """Binary and multiple-choice questions, each a split; a group is one question about a pair."""

    name = "vidpair-halluc"

    def read(self, data: Path) -> Iterator[Asked]:
        """See `FileBenchmark.read`."""
        require_folder(data, "VidPair-Halluc")
        self._root = data
        self.partners = _partners(data)
        pair_of = {v: name for name, both in self.partners.items() for v in both}
        found = [s for s in (BINARY, CHOICE) if (data / f"qa/hf/{s}.jsonl").is_file()]
        if not found:
            raise BenchmarkError(f"{place(data)} holds no qa/hf/{BINARY}.jsonl", REMEDY)
        for split in found:
            path = data / f"qa/hf/{split}.jsonl"
            for n, (where, record) in enumerate(read_table(path, REMEDY), 1):
                yield self._asked(split, n, Reader(path, where, record), pair_of)

    def partner(self, item: Item) -> str | None:
        """The other clip of its pair."""
        return self._partner_of.get(item.clip)

    @cached_property
    def _partner_of(self) -> dict[str, str]:
        """Clip → the other of its pair, by their keys."""
        found: dict[str, str] = {}
        for both in self.partners.values():
            first, second = (f"{VIDEOS}/{z}" for z in both)
            found |= {first: second, second: first}
        return {a: b for a, b in found.items() if b in self._clips}

    def _asked(self, split: str, n: int, one: Reader, pair_of: Mapping[str, str]) -> Asked:
        named = one.text("repo_video_path", "video_path").removeprefix(f"{VIDEOS}/")
        question, answer = one.text("question"), one.text("answer", "gt_answer", "label")
        options: tuple[str, ...] = ()
        if split == CHOICE:
            options = _options(one)
            letter = answer.strip("(). ").upper()
            truth = letter if letter in LETTERS[: len(options)] else letter_of(options, answer)
            if not truth:
                raise one.fail(f"the answer {answer[:40]!r} is none of the choices")
        else:
            truth = answer.lower().rstrip(".")
            if truth not in ("yes", "no"):
                raise one.fail(f"the answer is {truth[:40]!r} instead of yes or no")
        pair = pair_of.get(named, str(Path(named).parent))
        return Asked(
            id=one.text("qa_id", "question_id", "uid", default=f"{split}/{n}"),
            video=self._root / VIDEOS / named,
            regime=split,
            kind="choice" if split == CHOICE else "yes-no",
            question=question,
            truth=truth,
            options=options,
            cluster=pair,
            labels=(("aspect", one.text("aspect", "category", "semantic_aspect",
                                        default=_aspect(pair))),),
            group=f"{split}/{pair}/{question}",
        )  # fmt: skip

    def prompt(self, asked: Asked) -> tuple[str, str]:
        """The options alone: the authors' programs for local models are not published."""
        lines = "".join(f"\n{LETTERS[i]}. {o}" for i, o in enumerate(asked.options))
        return "", lines

    def check_sizes(self) -> list[str]:
        """See `FileBenchmark.check_sizes`."""
        notes = []
        for split in self.regimes:
            n = sum(a.regime == split for a in self.asked)
            if n != RELEASED[split]:
                notes.append(f"{split}: {n} questions; published: {RELEASED[split]}")
        if (self._root / LEFT_OUT).is_file():
            notes.append(f"{LEFT_OUT} is left out: a language model judges it")
        return notes

    def official(self, items: Sequence[Item], right: Mapping[str, bool | None]) -> list[Official]:
        """Binary: one question over both clips, one clip over both questions, and both together.

        As the authors count, answers without yes or no are left out of what they belong to, and a
        folder of clips with fewer than MIN_READ others is left out whole. Of choices the share
        that is right.
        """
        read = Counter(
            _folder_of(i) for i in items if i.regime == BINARY and right[i.id] is not None
        )
        by_question: dict[str, list[bool]] = defaultdict(list)
        by_clip: dict[str, list[bool]] = defaultdict(list)
        for i in items:
            said = right[i.id]
            if i.regime == BINARY and said is not None and read[_folder_of(i)] >= MIN_READ:
                by_question[self.group(i)].append(said)
                by_clip[i.clip].append(said)
        rows: list[Official] = []
        parts = {
            "same question, both clips": list(by_question.values()),
            "same clip, both questions": [z for z in by_clip.values() if len(z) > 1],
        }
        for words, groups in parts.items():
            if groups:
                hits = sum(map(all, groups))
                rows.append(Official(f"binary, {words}", 100 * hits / len(groups), len(groups)))
        if len(rows) == 2:
            n = rows[0].n + rows[1].n
            both = sum(r.percent * r.n for r in rows) / n
            rows.append(Official("binary, both, weighted", both, n))
        own = [bool(right[i.id]) for i in items if i.regime == CHOICE]
        if own:
            rows.append(Official("choices", 100 * sum(own) / len(own), len(own)))
        return rows


def _folder_of(item: Item) -> str:
    """The folder of its clip, which is one entry of the authors' files."""
    return str(Path(item.clip).parent)


def _partners(data: Path) -> dict[str, tuple[str, str]]:
    """Pair → its two videos below VIDEOS; {} without the file. Raises BenchmarkError."""
    path = data / PAIRS
    if not path.is_file():
        return {}
    entries = read_json(path)
    if not isinstance(entries, list):
        raise BenchmarkError(f"{place(path)} holds no list of pairs", REMEDY)
    pairs = {}
    for n, entry in enumerate(entries, 1):
        one = Reader(path, f"pair {n}", entry)
        first, second = (
            one.text(name).removeprefix(f"{VIDEOS}/")
            for name in ("positive_video", "adversarial_video")
        )
        pairs[one.text("pair_id", default=str(n))] = (first, second)
    return pairs


def _aspect(pair: str) -> str:
    """`dynamic_relation` of `dynamic_relation_0012`."""
    head, _, number = pair.removeprefix("T_").rpartition("_")
    return head if number.isdecimal() else pair


def _options(one: Reader) -> tuple[str, ...]:
    """Of choices_json, option_map_json, choices or options: a list, or an object by letter."""
    names = ("choices_json", "option_map_json", "choices", "options")
    value = next((one.record[n] for n in names if one.record.get(n)), None)
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise one.fail("its choices are not valid JSON") from None
    if isinstance(value, dict):
        if sorted(value) != list(LETTERS[: len(value)]):
            raise one.fail("its choices are not lettered A, B and so on")
        value = [value[z] for z in sorted(value)]
    if not isinstance(value, list) or not 2 <= len(value) <= len(LETTERS):
        raise one.fail("it has no list of choices")
    if not all(isinstance(v, str) for v in value):
        raise one.fail("its choices hold something that is not text")
    return without_letters([v.strip() for v in value])
