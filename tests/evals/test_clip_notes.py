"""What is told of a clip when it is read stands in the report of its answers."""

from types import SimpleNamespace

from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.running.answer import PendingAnswer
from macd_studio.evals.running.engine import Worker
from macd_studio.evals.running.rows import Row
from macd_studio.evals.scoring import report, show

CUT = "the file is cut off: it announces 4.0 s but holds 1.4 s"


def item(number, clip):
    return Item(str(number), clip, "all", "", "yes-no", "Is there a dog?", "yes")


def test_rows_hold_the_notes_of_their_clip():
    want = PendingAnswer(item(1, "a.mp4"), "macd", None, "key")
    worker = Worker.__new__(Worker)
    worker._rows = lambda *_: iter([Row("key", "1", "macd", "yes")])
    for notes in ((), (CUT, "some pictures are damaged")):
        ready = SimpleNamespace(clip=SimpleNamespace(notes=notes))
        [row] = worker.answer([want], ready)
        assert row.notes == list(notes)
        assert row.text == "yes"


def test_the_report_names_the_clips_once_and_counts_the_others():
    items = [item(n, f"{n // 2}.mp4") for n in range(30)]
    rows = {(i.id, m): Row("k", i.id, m) for i in items for m in ("baseline", "macd")}
    assert report._clips_note(items, rows) == ""
    for method in ("baseline", "macd"):
        rows["4", method].notes.append(CUT)
    assert report._clips_note(items, rows) == (
        "Of 15 clips, 1 was read with notes, and answers may be those of other frames:"
        f" 2.mp4 ({CUT})."
    )
    for row in rows.values():
        row.notes[:] = [CUT]
    said = report._clips_note(items, rows)
    assert said.startswith("Of 15 clips, 15 were read")
    assert said.endswith("; and 5 more.")
    assert said.count(CUT) == 10


def test_a_clip_s_name_is_text_in_the_report():
    name = "[x](http://evil) <b> *c*.mp4"
    note = report._clips_note([item(1, name)], {("1", "macd"): Row("k", "1", "macd", notes=[CUT])})
    minimal = {"kind": "files", "notes": [note]}
    blocks = list(show.report_notes(minimal))
    assert "](http" not in blocks[0]
    assert "<b>" not in blocks[0]
    assert "\\*c\\*" in blocks[0]
