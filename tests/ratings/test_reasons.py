"""Reasons for a low rating: given and taken back, counted once, in report and export."""

from macd_studio.ratings.answers import main_answers, read_answers, read_screens
from macd_studio.ratings.events import REASONS
from macd_studio.ratings.export import rows
from macd_studio.ratings.render import markdown
from macd_studio.ratings.report import figures
from macd_studio.ratings.store import MAX_NOTES
from tests.ratings.studies import event, rate, rater_in

PLAN = {"clips": 3}


def give(study, rater, task, side, word, on=True):
    (outcome,) = study.append(
        rater, [event("reason", task, side=side, note=word, new=1 if on else None)]
    )
    return outcome


def tasks_of(study, rater):
    return [t["id"] for t in study.tasks(rater)]


def test_reasons_of_low_ratings_are_kept_and_counted(study):
    _, rater = rater_in(study)
    one, two, three = tasks_of(study, rater)
    rate(study, rater, one, (1, 4))
    rate(study, rater, two, (2, 2))
    rate(study, rater, three, (1, 5))
    assert give(study, rater, one, 0, "missed").committed
    assert give(study, rater, one, 0, "wrong").committed
    assert give(study, rater, two, 0, "lost").committed
    assert give(study, rater, two, 1, "lost").committed
    assert give(study, rater, two, 1, "lost", on=False).committed
    assert [t["reasons"] for t in study.tasks(rater)] == [
        [["missed", "wrong"], []], [["lost"], []], [[], []],
    ]  # fmt: skip
    given = {(a.task, a.side): a.reasons for a in read_answers(study) if a.reasons}
    assert given == {(one, 0): ("missed", "wrong"), (two, 0): ("lost",)}
    report = figures(study, 50)["reasons"]
    main = main_answers(read_answers(study), read_screens(study))
    for arm, row in report.items():
        low = [a for a in main if a.arm == arm and a.rating <= 2]
        assert row["low"] == len(low)
        assert row["without"] == sum(not a.reasons for a in low)
        assert row["given"] == {w: sum(w in a.reasons for a in low) for w in REASONS}
    assert sum(r["low"] for r in report.values()) == 4
    assert sum(sum(r["given"].values()) for r in report.values()) == 3
    text = markdown(figures(study, 50))
    assert "Why masks were rated low" in text
    assert (
        "missed the object | hides more than the object | misses it at times | wrong object" in text
    )
    exported = [(r["kind"], r["note"], r["new"]) for r in rows(study) if r["kind"] == "reason"]
    assert exported[-1] == ("reason", "lost", None)
    assert len(exported) == 5
    arms = {r["arm"] for r in rows(study) if r["kind"] == "reason"}
    assert arms <= {"macd", "random-elsewhere"}


def test_a_rating_that_is_raised_has_no_reasons_any_more(study):
    _, rater = rater_in(study)
    one, *_ = tasks_of(study, rater)
    rate(study, rater, one, (1, 4))
    give(study, rater, one, 0, "spilled")
    study.append(rater, [event("rate", one, side=0, old=1, new=4)])
    assert not any(a.reasons for a in read_answers(study))
    assert sum(r["low"] for r in figures(study, 50)["reasons"].values()) == 0
    assert "Why masks were rated low" not in markdown(figures(study, 50))


def test_reasons_need_a_low_rating(study):
    _, rater = rater_in(study)
    one, *_ = tasks_of(study, rater)
    assert not give(study, rater, one, 0, "missed").committed
    rate(study, rater, one, (3, 2))
    refused = give(study, rater, one, 0, "missed")
    assert "not rated low" in refused.reason
    assert give(study, rater, one, 1, "missed").committed
    assert give(study, rater, one, 0, "missed", on=False).committed  # nothing is taken back


def test_reasons_are_no_notes(study, monkeypatch):
    monkeypatch.setattr("macd_studio.ratings.store.MAX_NOTES", 1)
    _, rater = rater_in(study)
    one, *_ = tasks_of(study, rater)
    rate(study, rater, one, (1, 1))
    sent = [event("reason", one, side=0, note=word, new=1) for word in REASONS]
    outcomes = study.append(rater, [*sent, event("flag", one, note="a")])
    assert all(outcome.committed for outcome in outcomes)
    assert not study.append(rater, [event("flag", one, note="b")])[0].committed
    assert MAX_NOTES > 1
