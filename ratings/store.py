"""A study file that is being served: raters, their screens, and the append-only events.

study = Study(path)
study.append(rater, [event])  # returns when the event is on the disk; raises StudyBusy if it is not
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from macd_studio.ratings.chain import GENESIS, NEWEST, ORDER, link, stamp_after
from macd_studio.ratings.errors import Refused
from macd_studio.ratings.events import HIGH, LEFT, LOW, MAX_LOW, RIGHT, Event, refused_again
from macd_studio.ratings.plan import ADJUDICATED, MAIN, PAIRS, PROPOSED, TRAINING
from macd_studio.ratings.roster import CLOSED, MERGE, Rater, Roster, last_stamp
from macd_studio.ratings.screening import ASKED, FAILED, PASSED
from macd_studio.ratings.study_file import insert_row

MAX_OF_RATER, MAX_NOTES = 20_000, 2_000
"""Events of one rater, and those with a note; whoever rates for hours sends some hundred."""


@dataclass(frozen=True)
class Outcome:
    """What became of an event: committed, or refused with the reason."""

    uuid: str
    committed: bool
    reason: str = ""


class Study(Roster):
    """One open study; safe between threads. network: see `study_file.connect`."""

    # ---- what raters see

    def tasks(self, rater: Rater) -> list[dict[str, Any]]:
        """The rater's screens in order: opaque id, kind, ratings and reasons of each mask, done.

        Gold and repeated screens are items like all others.
        """
        answers, reasons, chosen = self.ratings(rater), self.reasons(), self.preferences(rater)
        done = {
            r["task"]: r["kind"]
            for r in self.rows(
                "SELECT task, kind FROM history WHERE rater = ? AND kind IN ('next', 'skip')"
                f" ORDER BY {ORDER}",
                rater.id,
            )
        }
        screens = []
        for r in self.rows("SELECT * FROM tasks WHERE rater = ? ORDER BY position", rater.id):
            places = [(r["id"], side) for side in range(1 if r["right_side"] is None else 2)]
            screens.append({
                "id": r["id"],
                "kind": TRAINING if r["part"] == TRAINING else "item",
                "ratings": [answers.get(place) for place in places],
                "reasons": [reasons.get(place, []) for place in places],
                "preference": chosen.get(r["id"]),
                "skipped": done.get(r["id"]) == "skip",
                "done": r["id"] in done,
            })  # fmt: skip
        return screens

    def ratings(self, rater: Rater | None = None) -> dict[tuple[str, int], int | None]:
        """By screen and side, the last rating; of one rater or of all."""
        given = self._given("'rate', 'undo'", rater)
        return {(r["task"], r["side"]): r["new"] for r in given}

    def preferences(self, rater: Rater | None = None) -> dict[str, int | None]:
        """By screen, the last preference, of `events`; of one rater or of all."""
        return {r["task"]: r["new"] for r in self._given("'prefer'", rater)}

    def _given(self, kinds: str, rater: Rater | None) -> list[sqlite3.Row]:
        whose, values = ("", ()) if rater is None else (" AND rater = ?", (rater.id,))
        query = f"SELECT task, side, new FROM history WHERE kind IN ({kinds}){whose}"
        return self.rows(f"{query} ORDER BY {ORDER}", *values)

    def screened(self, rater: Rater) -> str:
        """ASKED, PASSED or FAILED of the screening question; "" for whom none is asked.

        Adjudicators are chosen, and not asked. Who answered at two servers passes by either.
        """
        if self.screening is None or self.row(
            "SELECT 1 FROM tasks WHERE rater = ? AND part = ?", rater.id, ADJUDICATED
        ):
            return ""
        given = self.rows("SELECT new FROM events WHERE rater = ? AND kind = 'screening'", rater.id)
        if not given:
            return ASKED
        return PASSED if any(r["new"] == self.screening["answer"] for r in given) else FAILED

    def check_screened(self, rater: Rater) -> None:
        """Raises Refused for who may see no screen: the question is open, or was failed."""
        state = self.screened(rater)
        if state == FAILED:
            raise Refused("you cannot take part in this study", "You can close this page", 403)
        if state == ASKED:
            raise Refused("a question comes first", "Reload the page and answer it", 403)

    def _check_answer(self, rater: Rater, option: int | None) -> None:
        if self.screened(rater) != ASKED:
            raise Refused("no question is open", "Reload the page")
        if option is None or option > len((self.screening or {})["options"]):
            raise Refused("there is no such option", "Reload the page")

    def finished(self, rater: Rater) -> bool:
        """Whether the rater has confirmed to be at the end."""
        return bool(self.rows("SELECT 1 FROM events WHERE rater = ? AND kind = 'finish'", rater.id))

    def reasons(self) -> dict[tuple[str, int], list[str]]:
        """By screen and side, why it was rated low, as it stands."""
        rows = self.rows(
            f"SELECT task, side, note, new FROM history WHERE kind = 'reason' ORDER BY {ORDER}"
        )
        last = {(r["task"], r["side"], r["note"]): bool(r["new"]) for r in rows}
        given: dict[tuple[str, int], list[str]] = {}
        for task, side, word in sorted(place for place, on in last.items() if on):
            given.setdefault((task, side), []).append(word)
        return given

    def _task(self, rater: Rater, task: str) -> sqlite3.Row:
        row = self.row("SELECT * FROM tasks WHERE id = ? AND rater = ?", task, rater.id)
        if row is None:
            raise Refused("there is no such item", "Reload the page", 404)
        return row

    def describe(self, rater: Rater, task: str) -> dict[str, Any]:
        """What a screen shows beside its pictures."""
        row = self._task(rater, task)
        clip = self.row(
            "SELECT question, width, height, times, motion FROM clips WHERE id = ?", row["clip"]
        )
        assert clip is not None
        return {
            "id": task,
            "question": clip["question"],
            "width": clip["width"],
            "height": clip["height"],
            "times": json.loads(clip["times"]),
            "motion": json.loads(clip["motion"] or clip["times"]),
        }

    def media(self, rater: Rater, task: str, which: str) -> bytes:
        """A packed clip: "clip" without a mask, "0" behind the left one, "1" the right one."""
        row = self._task(rater, task)
        side = {"0": row["left_side"], "1": row["right_side"]}.get(which)
        if which == "clip":
            stored = self.row("SELECT media FROM clips WHERE id = ?", row["clip"])
        else:
            stored = self.row("SELECT media FROM sides WHERE id = ?", side)
        if stored is None:
            raise Refused("there is no such picture", "Reload the page", 404)
        return bytes(stored["media"])

    def proposals(self) -> list[dict[str, Any]]:
        """What the organiser is asked to confirm: item, role, times, and each mask's known ratings.

        also_main: whether the same clip and question are rated too.
        """
        roles = self.confirmed()
        main = {(i["clip_sha256"], i["question"]) for i in self.items if i["part"] == MAIN}
        found = []
        for clip in self.rows("SELECT * FROM clips WHERE part = ? ORDER BY id", PROPOSED):
            sides = self.rows(
                "SELECT low, high, reason FROM sides WHERE clip = ? ORDER BY arm", clip["id"]
            )
            found.append({
                "item": clip["id"],
                "clip": clip["name"],
                "question": clip["question"],
                "role": roles.get(clip["id"], ""),
                "also_main": (clip["sha256"], clip["question"]) in main,
                "times": json.loads(clip["times"]),
                "motion": json.loads(clip["motion"] or clip["times"]),
                "sides": [{"low": s["low"], "high": s["high"], "why": s["reason"]} for s in sides],
            })  # fmt: skip
        return found

    def proposed_media(self, item: str, which: str) -> bytes:
        """A packed clip of a proposed item: "clip", or the place of a mask in `proposals`."""
        number = int(item) if item.isascii() and item.isdigit() and len(item) < 10 else 0
        clip = self.row("SELECT media FROM clips WHERE id = ? AND part = ?", number, PROPOSED)
        sides = self.rows("SELECT media FROM sides WHERE clip = ? ORDER BY arm", number)
        found = None if clip is None else {"clip": clip, **dict(zip("01", sides, strict=False))}
        if found is None or which not in found:
            raise Refused("there is no such picture", "Reload the page", 404)
        return bytes(found[which]["media"])

    def feedback(self, rater: Rater, task: str) -> list[dict[str, Any]] | None:
        """For a training screen whose masks are all rated: how each should be, and why."""
        row = self._task(rater, task)
        if row["part"] != TRAINING:
            return None
        known = [
            self.rows("SELECT low, high, reason FROM sides WHERE id = ?", side)[0]
            for side in (row["left_side"], row["right_side"])
            if side is not None
        ]
        if self.scale == PAIRS:
            chosen = self.preferences(rater).get(task)
            if chosen is None:
                return None
            left, right = (side["low"] + side["high"] for side in known)
            fits = [chosen == (LEFT if left > right else RIGHT)] * 2
        else:
            answers = self.ratings(rater)
            ratings = [r for i in range(len(known)) if (r := answers.get((task, i))) is not None]
            if len(ratings) < len(known):
                return None
            fits = [
                (side["low"] or LOW) <= rating <= (side["high"] or HIGH)
                for side, rating in zip(known, ratings, strict=True)
            ]
        return [
            {"fits": fit, "why": side["reason"] or ""}
            for fit, side in zip(fits, known, strict=True)
        ]

    # ---- what raters do

    def append(self, rater: Rater, events: Sequence[Event]) -> list[Outcome]:
        """Writes events in one transaction; what is committed is on the disk when this returns.

        An event that is there already is committed. One that does not fit is refused, without the
        others. Raises StudyBusy where nothing could be written, Refused where the study is closed.
        """
        if self.state == CLOSED:
            raise Refused("the study is closed", "Ask whoever invited you", 409)
        outcomes = []
        with self.transaction() as db:
            there = db.execute("SELECT code_sha256 FROM raters WHERE id = ?", (rater.id,))
            if there.fetchone()["code_sha256"] != rater.code:  # erased since they were looked up
                raise Refused("this link opens no study", "Ask whoever invited you", 401)
            parents, stamp = _ends(db), last_stamp(db)
            sent, notes = db.execute(
                "SELECT count(*), count(CASE kind WHEN 'flag' THEN 1 END) FROM events"
                " WHERE rater = ?",
                (rater.id,),
            ).fetchone()
            finished = self.finished(rater)
            for event in events:
                same = db.execute("SELECT * FROM events WHERE uuid = ?", (event.uuid,))
                if stored := same.fetchall():
                    reason = refused_again(event, rater.id, stored)
                    outcomes.append(Outcome(event.uuid, not reason, reason))
                    continue
                try:
                    if finished:
                        raise Refused(
                            "you have confirmed that you are finished", "Ask whoever invited you"
                        )
                    old = self._old(rater, event)
                except Refused as error:
                    outcomes.append(Outcome(event.uuid, False, str(error)))
                    continue
                sent, notes = sent + 1, notes + (event.kind == "flag")
                if sent > MAX_OF_RATER or notes > MAX_NOTES:
                    reason = "you have sent more than a study keeps of one rater"
                    outcomes.append(Outcome(event.uuid, False, reason))
                    continue
                conflict = event.kind in ("rate", "undo", "prefer") and old != event.old
                finished = finished or event.kind == "finish"
                now = self.clock()
                stamp = stamp_after(now, stamp)
                row = asdict(event) | {
                    "old": old, "server_time": now, "conflict": int(conflict), "rater": rater.id,
                    "signer": rater.code, "writer": self.writer, "stamp": stamp, "parents": parents,
                }  # fmt: skip
                parents = row["chain"] = link(row)
                insert_row(db, "events", row)
                outcomes.append(Outcome(event.uuid, True))
        return outcomes

    def _old(self, rater: Rater, event: Event) -> int | None:
        """The side's rating before the event; raises Refused where the event fits no screen."""
        if event.kind == "screening":
            self._check_answer(rater, event.new)
        elif event.kind != "consent":
            self.check_screened(rater)
        if event.task is None:
            return None
        row = self._task(rater, event.task)
        if event.kind == ("rate" if self.scale == PAIRS else "prefer"):
            what = "a preference" if self.scale == PAIRS else "a rating"
            raise Refused(f"this study asks for {what}", "Reload the page")
        if event.kind == "prefer":
            return self.preferences(rater).get(event.task)
        if event.side is None:
            return None
        if event.side == 1 and row["right_side"] is None:
            raise Refused("there is no right mask", "Reload the page")
        last = self.row(
            "SELECT new FROM history WHERE task = ? AND side = ? AND kind IN ('rate', 'undo')"
            f" ORDER BY {NEWEST} LIMIT 1",
            event.task,
            event.side,
        )
        rating: int | None = None if last is None else last["new"]
        if event.kind == "reason" and event.new and (rating is None or rating > MAX_LOW):
            raise Refused("this mask is not rated low", f"Rate it {MAX_LOW} or lower first")
        return rating


def _ends(db: sqlite3.Connection) -> str:
    """What the next event continues: the newest event, or the ends of all merged branches."""
    last = db.execute(f"SELECT stamp, chain FROM events ORDER BY {NEWEST} LIMIT 1").fetchone()
    if last is None:
        return GENESIS
    merged = db.execute(
        "SELECT value FROM controls WHERE what = ? AND stamp > ? ORDER BY stamp DESC LIMIT 1",
        (MERGE, last["stamp"]),
    ).fetchone()
    return str(last["chain"] if merged is None else merged["value"])
