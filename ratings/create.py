"""Makes a study file: chooses items, draws every arm, renders the media, freezes the rest."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import macd_studio as macd
from macd_studio.core.errors import OptionError
from macd_studio.core.masking.controls import PLACE, compare_masks
from macd_studio.core.system.whole import new_private_file
from macd_studio.core.text.words import writable
from macd_studio.core.validation import check_named
from macd_studio.ratings import arms as arm_module
from macd_studio.ratings.arms import (
    ARMS,
    BY_HAND,
    LEAST,
    MACD,
    MOST,
    Arm,
    ArmMask,
    NoMask,
)
from macd_studio.ratings.chain import stamp_after
from macd_studio.ratings.gold import Candidate, KnownItem, KnownSide, best, propose_one
from macd_studio.ratings.media import Item, Pictures, prepare, sizes, unwritable
from macd_studio.ratings.plan import (
    GOLD,
    MAIN,
    PAIRS,
    PROPOSED,
    RATINGS,
    TRAINING,
    Design,
    Scale,
    Shown,
    plan_tasks,
)
from macd_studio.ratings.preregistration import canonical, plan_of, sealed_sha256, sha256
from macd_studio.ratings.screening import Screening
from macd_studio.ratings.secret import hash_code, new_code
from macd_studio.ratings.source import Source
from macd_studio.ratings.study_file import create_tables, insert_row, seal

NOTHING, EVERYTHING = "nothing masked", "everything masked"
SAME = 0.97
"""Intersection over union from which two masks are one to a rater."""


@dataclass(frozen=True)
class StudyPlan:
    """What a study is made from, but for its clips.

    raters: how many are planned. repeat: share of the screens that are shown twice. proposed: known
    items at most that are proposed to the organiser. by_hand: traces changed by hand, the arm
    "by-hand" of the clips they are of.
    """

    arms: tuple[str, ...] = (MACD, PLACE)
    design: Design = "pair"
    scale: Scale = RATINGS
    raters: int = 3
    repeat: float = 0.1
    seed: int = 0
    instructions: str = ""
    gold: tuple[KnownItem, ...] = ()
    proposed: int = 0
    by_hand: tuple[Source, ...] = ()
    screening: Screening | None = None


@dataclass(frozen=True)
class LeftOut:
    """An item that is not in the study. hidden: share of all pixels that MACD's mask hides, [0, 1];
    None where there is no mask.
    """

    name: str
    reason: str
    hidden: float | None = None


@dataclass(frozen=True)
class Checked:
    """What an item that stays shows. times: seconds of its first and last frame. hidden: share of
    all pixels that the first arm hides, [0, 1]. shared, iou: by each other arm, how much of what
    the first arm hides it hides too, and intersection over union of both masks, [0, 1].
    """

    name: str
    frames: int
    times: tuple[float, float]
    hidden: float
    shared: Mapping[str, float]
    iou: Mapping[str, float]


@dataclass(frozen=True)
class Created:
    """What creation says. checks: of every item that stays; organiser: the code, kept nowhere;
    screens: of one rater, with known and repeated ones, without those that are only proposed.
    """

    checks: tuple[Checked, ...]
    left_out: tuple[LeftOut, ...]
    sha256: str
    organiser: str
    screens: int
    proposed: int = 0

    @property
    def items(self) -> int:
        """How many stay."""
        return len(self.checks)


def create_study(
    path: Path,
    sources: Iterable[Source],
    plan: StudyPlan,
    failed: Sequence[LeftOut] = (),
) -> Created:
    """Writes a new study file and its preregistration beside it.

    sources: read one after the other; none is kept when the next one is asked for. failed: clips
    that gave no source, which may be added while sources are read; they stand among what was left
    out. Raises OptionError where the file exists or cannot be written, an arm is not known, or no
    item stays.
    """
    check_plan(plan)
    beside = preregistration_path(path)
    for target in (path, beside):
        if target.exists():
            raise OptionError(f"{target.name[:200]!r} exists", "Choose another name")
    organiser, salt = new_code(), secrets.token_hex(32)
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    with Pictures(scratch.with_suffix(".pictures")) as pictures:
        items, proposed, left_out = _choose(sources, plan, pictures)
        left_out = [*failed, *left_out]
        if not items:
            reasons = ", ".join(f"{x.name}: {x.reason}" for x in left_out) or "no trace was given"
            raise OptionError(f"no item stays ({reasons})", "Give traces of other clips")
        known = [_known_item(k, pictures) for k in plan.gold]
        try:
            made = [*items, *known, *proposed]
            text = _write(scratch, made, pictures, left_out, plan, organiser, salt)
            _flush(scratch)
            beside.write_text(text, encoding="utf-8")
            scratch.rename(path)
        except (OSError, sqlite3.OperationalError) as error:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
            raise unwritable(error) from error
        finally:
            scratch.unlink(missing_ok=True)
    checks = tuple(_checked(item, items, plan.arms) for item in items)
    screens = _screens(plan, items, known)
    return Created(checks, tuple(left_out), sha256(text), organiser, screens, len(proposed))


def _checked(item: Item, items: Sequence[Item], arms: Sequence[str]) -> Checked:
    times = json.loads(item.row["times"])
    pixels = item.frames * item.row["width"] * item.row["height"]
    shared, iou = (
        {arm: float(item.sides[arm].details[what]) for arm in arms[1:]}
        for what in ("overlap", "iou")
    )
    hidden = item.sides[arms[0]].hidden / pixels
    name = _label(item, items)
    return Checked(name, item.frames, (times[0], times[-1]), hidden, shared, iou)


def _screens(plan: StudyPlan, items: Sequence[Item], known: Sequence[Item]) -> int:
    def shown(chosen: Iterable[Item]) -> list[Shown]:
        return [Shown(n, tuple(range(len(i.sides)))) for n, i in enumerate(chosen)]

    training, gold = (shown(i for i in known if i.part == part) for part in (TRAINING, GOLD))
    return len(plan_tasks(plan.design, shown(items), training, gold, plan.repeat, "", 0))


def _label(item: Item, items: Sequence[Item]) -> str:
    """The clip's name, with the question where there are several of it."""
    several = sum(i.name == item.name for i in items) > 1
    return f"{item.name}: {item.row['question']}" if several else item.name


def preregistration_path(path: Path) -> Path:
    """Where the preregistration of a study lies: beside it."""
    return path.with_suffix(".preregistration.json")


def check_plan(plan: StudyPlan) -> None:
    """Raises OptionError for arms that are not known, or too few of them."""
    for arm in plan.arms:
        check_named(arm, [*ARMS, BY_HAND], "arm")
    if len(set(plan.arms)) != len(plan.arms) or len(plan.arms) < 2:
        raise OptionError("a study compares at least two different arms", "Name them by --arms")
    if plan.scale == PAIRS and plan.design != "pair":
        raise OptionError("a preference is between two masks", "Choose --design pair")
    if BY_HAND in plan.arms and not plan.by_hand:
        raise OptionError("the arm by-hand needs masks", "Give traces by --by-hand FILES")


def _choose(
    sources: Iterable[Source], plan: StudyPlan, pictures: Pictures
) -> tuple[list[Item], list[Item], list[LeftOut]]:
    """The main items, the proposed ones, and what is left out."""
    items: list[Item] = []
    left_out: list[LeftOut] = []
    proposed: dict[Candidate, Item] = {}
    drawn = {s.key: s for s in plan.by_hand}
    taken = {k.source.key: "used for training or gold" for k in plan.gold}
    for number, source in enumerate(sources):
        reason = source.problem or taken.get(source.key, "")
        sides: dict[str, ArmMask] = {}
        share = None
        if not reason:
            share = _share(source, arm_module.macd(source, np.random.default_rng(0)))
            try:
                sides = _draw_arms(source, plan, drawn.get(source.key), number, share)
            except NoMask as error:
                reason = str(error)
        if reason:
            left_out.append(LeftOut(source.name, reason, share))
        else:
            taken[source.key] = "given twice"
            items.append(prepare(MAIN, source, sides, {}, pictures, secrets.token_hex(32)))
        if plan.proposed:
            # what the study has no other use for first: fewer clips are seen for two purposes
            candidate = Candidate(source.sha256, not reason, number)
            _consider(candidate, source, proposed, plan.proposed, pictures)
        del sides, source  # before the next one is read
    ordered = best(proposed, plan.proposed)
    return items, [proposed[c] for c in ordered], left_out


def _consider(
    candidate: Candidate,
    source: Source,
    proposed: dict[Candidate, Item],
    most: int,
    pictures: Pictures,
) -> None:
    """Adds a known item of the clip where it is among the best so far, and drops the one after."""
    chosen = best([*proposed, candidate], most)
    if candidate in chosen and (proposal := propose_one(source)) is not None:
        parts = proposal.source, proposal.masks, proposal.known
        proposed[candidate] = _known(PROPOSED, *parts, pictures)
        for one in proposed.keys() - set(chosen):
            del proposed[one]


def _share(source: Source, mask: ArmMask) -> float:
    """How much of all pixels a mask hides, [0, 1]."""
    return mask.hidden / float(len(source.frames) * source.size[0] * source.size[1])


def _draw_arms(
    source: Source, plan: StudyPlan, drawn: Source | None, number: int, share: float
) -> dict[str, ArmMask]:
    if share < LEAST:
        raise NoMask(NOTHING)
    if share > MOST:
        raise NoMask(EVERYTHING)
    sides: dict[str, ArmMask] = {}
    for name in plan.arms:
        rng = np.random.default_rng([plan.seed, number, sorted([*ARMS, BY_HAND]).index(name)])
        arm: Arm | None = ARMS.get(name)
        if arm is None:
            if drawn is None:
                raise NoMask("no mask drawn by hand")
            if drawn.frames.shape != source.frames.shape:
                raise NoMask("the mask drawn by hand is of other frames")
            arm = arm_module.by_hand(drawn)
        sides[name] = arm(source, rng)
        if name != MACD and _share(source, sides[name]) < LEAST:
            raise NoMask(f"{NOTHING} by {name}")
    first = sides[plan.arms[0]].mask
    for name in plan.arms[1:]:
        ratio, overlap = compare_masks(first, sides[name].mask)
        iou = overlap / (1 + ratio - overlap)
        if iou >= SAME:
            raise NoMask(f"{name} is one mask with {plan.arms[0]} (IoU {SAME} or more)")
        compared = {"area_ratio": ratio, "overlap": overlap, "iou": iou}
        details = {what: round(value, 5) for what, value in compared.items()}
        sides[name] = ArmMask(sides[name].mask, sides[name].details | details)
    return sides


def _known(
    part: str,
    source: Source,
    masks: Sequence[ArmMask],
    known: Sequence[KnownSide],
    pictures: Pictures,
) -> Item:
    names = [f"known-{n}" for n in range(1, 1 + len(masks))]
    ratings = {n: (k.low, k.high, k.why) for n, k in zip(names, known, strict=True)}
    sides = dict(zip(names, masks, strict=True))
    return prepare(part, source, sides, ratings, pictures, secrets.token_hex(32))


def _known_item(item: KnownItem, pictures: Pictures) -> Item:
    source = item.read()
    masks = [arm_module.hide_tracks(source, side.hide) for side in item.sides]
    return _known(TRAINING if item.training else GOLD, source, masks, item.sides, pictures)


def _write(
    path: Path,
    items: Sequence[Item],
    pictures: Pictures,
    left_out: Sequence[LeftOut],
    plan: StudyPlan,
    organiser: str,
    salt: str,
) -> str:
    """Fills the new database; gives the text of the preregistration."""
    key = secrets.token_hex(32)
    new_private_file(path)
    db = sqlite3.connect(path, isolation_level=None)
    try:
        db.execute("PRAGMA synchronous = OFF")  # `create_study` flushes the finished file once
        create_tables(db)
        db.execute("BEGIN")
        room = sizes(items)
        described = [_insert(db, i + 1, item, pictures, room) for i, item in enumerate(items)]
        sealed: dict[str, Any] = {
            "seed": plan.seed,
            "left_out": [
                {"clip": writable(x.name), "reason": x.reason}
                | ({} if x.hidden is None else {"hidden": round(x.hidden, 5)})
                for x in left_out
            ],
        }
        asked = plan.screening
        if asked is not None:
            sealed["screening"] = asked.sealed
        text = canonical({
            "version": 2,
            "study": secrets.token_hex(8),
            "software": macd.__version__,
            "design": plan.design,
            "arms": list(plan.arms),
            "raters": plan.raters,
            "repeat": plan.repeat,
            "assignment_key_sha256": sha256(key),
            "instructions_sha256": sha256(plan.instructions),
            "items": public_items(described, salt),
            "left_out": dict(Counter(x.reason for x in left_out)),
            "overlap": _overlaps(described, plan.arms),
            "sealed_sha256": sealed_sha256(salt, sealed),
            "scale": plan.scale,
            "analysis": plan_of(plan.scale),
        })  # fmt: skip
        rows = {
            "preregistration": text,
            "sealed": canonical(sealed | {"items": described}),
            "salt": salt,
            "key": key,
            "login_key": secrets.token_hex(32),
            "instructions": plan.instructions,
        }
        if asked is not None:
            rows["screened_out"] = json.dumps({"code": asked.code, "address": asked.address})
        db.executemany("INSERT INTO meta VALUES (?, ?)", list(rows.items()))
        now = time.time()
        for stamp, (what, value) in enumerate(
            (("organiser", hash_code(organiser)), ("open", None)), stamp_after(now, 0)
        ):
            row = {"time": now, "what": what, "value": value, "writer": "", "stamp": stamp}
            insert_row(db, "controls", row)
        seal(db)
        db.execute("COMMIT")
    finally:
        db.close()
    return text


def public_items(described: Sequence[dict[str, Any]], salt: str) -> list[dict[str, Any]]:
    """What the preregistration says of each item: neither its part nor anything of its arms.

    Sorted by clip and question, since the study's own numbers follow the parts.
    """
    public = [
        {name: item[name] for name in ("clip", "clip_sha256", "question", "frames")}
        | {"sealed_sha256": sealed_sha256(salt, item)}
        for item in described
    ]
    return sorted(public, key=lambda item: (item["clip_sha256"], item["question"]))


def _insert(
    db: sqlite3.Connection, number: int, item: Item, pictures: Pictures, room: tuple[int, int]
) -> dict[str, Any]:
    """Adds one item; gives what the preregistration seals of it. room: of `items.sizes`."""
    row = {"id": number, "part": item.part, **item.row}
    insert_row(db, "clips", row | {"media": pictures.padded(item.slot, room[0])})
    db.executemany(
        "INSERT INTO objects VALUES (?, ?, ?, ?, ?)", [(number, *one) for one in item.objects]
    )
    described = {}
    media = {arm: pictures.padded(side.slot, room[1]) for arm, side in item.sides.items()}
    # sides are numbered in an order that says nothing: by the hash of their media
    hashes = {arm: hashlib.sha256(content).hexdigest() for arm, content in media.items()}
    for arm in sorted(item.sides, key=hashes.__getitem__):
        side = item.sides[arm]
        low, high, why = side.known or (None, None, None)
        details = json.dumps(side.details)
        values = (number, arm, side.hidden, details, low, high, why, hashes[arm])
        cursor = db.execute(
            "INSERT INTO sides (clip, arm, hidden, details, low, high, reason, media_sha256, media)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*values, media[arm]),
        )
        db.executemany(
            "INSERT INTO coverage VALUES (?, ?, ?)",
            [(cursor.lastrowid, track, share) for track, share in side.coverage.items()],
        )
        described[arm] = {
            "hidden_pixels": round(side.hidden, 1),
            "media_sha256": hashes[arm],
            **side.details,
        }
        if low is not None:
            described[arm] |= {"low": low, "high": high}
    return {
        "number": number,
        "part": item.part,
        "clip": item.name,
        "clip_sha256": item.row["sha256"],
        "question": item.row["question"],
        "frames": item.frames,
        "arms": described,
    }


def _overlaps(described: Sequence[dict[str, Any]], arms: Sequence[str]) -> dict[str, list[float]]:
    """By arm but the first, the overlaps of all main items, sorted: which is whose stays sealed."""
    main = [item["arms"] for item in described if item["part"] == MAIN]
    return {arm: sorted(item[arm]["overlap"] for item in main) for arm in arms[1:]}


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
