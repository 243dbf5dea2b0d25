"""What a class predicted: saved answers read as nobody's word, counted question by question."""

import json
from xml.etree import ElementTree

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.objects.truth import is_right
from macd_studio.macd_ui.learn.__main__ import main
from macd_studio.macd_ui.learn.collect import MAX_BYTES, collect, read_saved, report
from macd_studio.macd_ui.learn.lessons import quiz
from macd_studio.macd_ui.learn.picture import BAR, BELIEF, OTHER, RIGHT, picture
from macd_studio.macd_ui.learn.site import Site

LEAN = "04-lean"


@pytest.fixture(scope="module")
def site():
    return Site()


@pytest.fixture(scope="module")
def task(site):
    ((where, task),) = site.tasks().items()
    assert where.startswith(f"{LEAN}/")
    return where, task


def answer(choice, confidence=0.7, **more):
    return {"choice": choice, "confidence": confidence, "right": False, "at": ""} | more


def saved(site, answers, chosen=None, **more):
    content = {"course": "macd-learn", "edition": site.edition(), "brier": 0.2}
    return content | {"answers": answers, "chosen": chosen or {}} | more


def write(folder, *contents):
    folder.mkdir(exist_ok=True)
    for n, content in enumerate(contents):
        (folder / f"{n}.json").write_text(json.dumps(content))
    return folder


def test_a_class_is_counted_by_option_and_misconception(site, task, tmp_path):
    where, known = task
    right = max(known.right, key=len)
    everything = sorted(known.labels)
    assert len(right) > 1
    assert tuple(everything) not in known.right  # the obvious choice does not repair the answer
    folder = write(
        tmp_path / "class",
        saved(site, {LEAN: answer(2, 0.9)}, {where: everything}),
        saved(site, {LEAN: answer(2, 0.5)}, {where: [*reversed(right), right[0]]}),
        saved(site, {LEAN: answer(1, 0.6, counts=[1, 20, 4])}),
        {"course": "other"},
    )
    found = collect(folder, site.edition(), site.questions())
    assert (found.files, len(found.refused)) == (3, 1)
    told = report(found, site.chapters(), site.tasks())
    assert "- 20 of 27: 0.6 to 0.85" in told
    assert "- 6 of 27: Above 0.85" in told
    assert "mean confidence 70 %" in told  # of those who gave one
    belief = "The gradient shows which object the answer depends on."
    assert f"**Misconception, 6 of 27:** {belief}" in told
    assert "- 1 of 2 chose objects that repair the answer" in told
    assert "**Misconception, 1 of 2:** Hiding everything is the surest way." in told
    assert "- 3.json: not saved by this course" in told


def test_the_task_knows_what_repairs_the_answer(site, task):
    _, known = task
    trace = site.examples["subsets"].trace
    layer = trace.choice_map.layer(True)
    plain = trace.answers["baseline"].text
    assert is_right(plain, trace.truth) is False
    assert known.right == {s.objects for s in layer if s.answer == trace.truth}
    assert 0 < len(known.right) < len(layer)
    text = json.dumps(site.course()["chapters"], ensure_ascii=False)
    assert f"{len(known.right)} of {len(layer)} choices repair the answer" in text


@pytest.mark.parametrize(("change", "why"), [
    ({"edition": "0"}, "another edition"),
    ({"course": None}, "not saved by this course"),
    ({"name": 1}, "name"),
    ({"name": "x" * 61}, "at most 60"),
    ({"name": "\0"}, "not text"),
    ({"answers": []}, "no table"),
    ({"answers": {"../x": answer(0)}}, "no question has"),
    ({"answers": {LEAN: 1}}, "no answer"),
    ({"answers": {LEAN: answer(-1)}}, "choice"),
    ({"answers": {LEAN: answer(1.5)}}, "choice"),
    ({"answers": {LEAN: answer(0, 2)}}, "confidence"),
    ({"answers": {LEAN: answer(3)}}, "choice"),
    ({"answers": {"made-up": answer(0)}}, "no question 'made-up'"),
    ({"answers": {"before/99": answer(0)}}, "no question"),
    ({"answers": {"before/0": answer(3)}}, "choice"),
    ({"answers": {LEAN: answer(0, counts=[1, 2, 3, 4])}}, "counts"),
    ({"answers": {LEAN: answer(0, counts=[0, 0, 0])}}, "all 0"),
    ({"answers": {LEAN: answer(0, counts=[1000, 0, 0])}}, "counts"),
    ({"answers": {LEAN: answer(0, counts="ab")}}, "counts"),
    ({"answers": {f"q-{n}": answer(0) for n in range(201)}}, "at most 200"),
    ({"chosen": {f"{LEAN}/3": [-1]}}, LEAN),
    ({"chosen": {f"{LEAN}/3": list(range(65))}}, LEAN),
])  # fmt: skip
def test_what_nobody_saved_is_refused(site, tmp_path, change, why):
    (folder,) = [write(tmp_path, saved(site, {LEAN: answer(0)}) | change)]
    with pytest.raises(OptionError, match=why):
        read_saved(folder / "0.json", site.edition(), site.questions())
    assert len(collect(folder, site.edition(), site.questions()).refused) == 1


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b"x" * (MAX_BYTES + 1), b""])
def test_no_file_of_a_folder_ends_the_others(site, tmp_path, content):
    write(tmp_path, saved(site, {LEAN: answer(0)}))
    (tmp_path / "bad.json").write_bytes(content)
    (tmp_path / "away.json").symlink_to(tmp_path / "0.json")
    found = collect(tmp_path, site.edition(), site.questions())
    assert (found.files, len(found.refused)) == (1, 2)


def test_the_command_tells_and_refuses(site, tmp_path, capsys):
    folder = write(tmp_path / "class", saved(site, {LEAN: answer(0)}))
    assert main(["collect", str(folder)]) == 0
    assert "# What 1 file of saved answers hold" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    for wrong in ("empty", "none"):
        assert main(["collect", str(tmp_path / wrong)]) == 2
    assert "no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("quiz", "title"),
    [("before", "Before the course"), ("after", "Chapter 8"), ("real", "Chapter 9")],
)
def test_the_clips_of_each_quiz_are_counted(site, tmp_path, capsys, quiz, title):
    keys = [key for key in site.questions() if key.startswith(f"{quiz}/")]
    right = [site.questions()[key].right for key in keys]
    wrong = [(k + 1) % 3 for k in right]
    folder = write(
        tmp_path / "class",
        saved(site, {key: answer(k, 0.9) for key, k in zip(keys, right, strict=True)}, name="A"),
        saved(site, {keys[0]: answer(right[0], 0.5), keys[1]: answer(wrong[1], 0.5)}, name="B"),
        saved(
            site, {keys[0]: answer(right[0]) | {"counts": [1 + (i == right[0]) for i in range(3)]}}
        ),
    )
    assert main(["collect", str(folder), "--names"]) == 0
    n, told = len(keys), capsys.readouterr().out
    sure = round(100 * (0.9 * n + 1.0) / (n + 2))
    assert f"- {title}: {n + 1 + 2} of {n + 2 + 4} answers to {n} questions right, mean" in told
    assert f"mean confidence {sure} %" in told
    assert f"{n} of {n}" in next(line for line in told.splitlines() if line.startswith("| A |"))
    assert "1 of 2" in next(line for line in told.splitlines() if line.startswith("| B |"))


def test_names_are_told_when_asked_for_and_nowhere_else(site, tmp_path, capsys):
    right = site.questions()[LEAN].right
    wrong = (right + 1) % 3
    folder = write(
        tmp_path / "class",
        saved(site, {LEAN: answer(right, 0.5), "before/0": answer(1)}, name=" Zoë  B "),
        saved(site, {}, name="a|b\x1b[2J"),
        saved(site, {LEAN: answer(wrong, 0.9, right=True)}, name="Zoë B"),
        saved(site, {LEAN: answer(1)}),
    )
    drawn = tmp_path / "class.svg"
    assert main(["collect", str(folder), "--picture", str(drawn)]) == 0
    assert "Zoë" not in capsys.readouterr().out + drawn.read_text(encoding="utf-8")
    assert main(["collect", str(folder), "--names"]) == 0
    told = capsys.readouterr().out
    first = site.questions()["before/0"].right
    assert f"| Zoë B | 1 | 1 | 50% | {int(first == 1)} of 1 | – | – |" in told
    assert "| Zoë B | 1 | 0 | 90% | – | – | – |" in told
    assert "| a\\|b\\\\x1b\\[2J | 0 | 0 | – |" in told
    assert told.rstrip().splitlines()[-3].startswith("| no name | 1 ")
    assert "More than one file: Zoë B." in told


@pytest.mark.parametrize(("name", "told"), [
    ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
    ("[x](y)", "\\[x\\](y)"),
    ("![](http://a/b.png)", "!\\[\\](http://a/b.png)"),
    ("&lt; *a* `b` _c_", "&amp;lt; \\*a\\* \\`b\\` \\_c\\_"),
])  # fmt: skip
def test_a_name_is_text_in_the_table_and_below_it(site, tmp_path, capsys, name, told):
    folder = write(tmp_path / "class", *(saved(site, {}, name=name) for _ in range(2)))
    (folder / "[a](b).json").write_text("no")
    assert main(["collect", str(folder), "--names"]) == 0
    out = capsys.readouterr().out
    assert out.count(f"| {told} | 0 | 0 | – |") == 2
    assert f"More than one file: {told}." in out
    assert "- \\[a\\](b).json: not JSON" in out


def test_the_course_knows_how_many_options_each_question_has(site):
    asked = site.questions()
    for chapter in site.chapters():
        if chapter.prediction is not None:
            p = chapter.prediction
            assert (asked[chapter.name].options, asked[chapter.name].right) == (
                len(p.options),
                p.answer,
            )
    kinds = {f"{name}/{i}": item for name, items in quiz().items() for i, item in enumerate(items)}
    assert set(asked) - set(kinds) == {c.name for c in site.chapters() if c.prediction}
    assert {item["kind"] for item in kinds.values()} == {
        "contrast",
        "gradient",
        "levels",
        "controls",
    }
    for key in kinds:
        assert 0 <= asked[key].right < asked[key].options >= 2


def test_the_picture_has_a_bar_for_every_answer_as_long_as_its_share(site, tmp_path):
    answers = [answer(2), answer(2), answer(2), answer(1)]
    folder = write(tmp_path / "class", *(saved(site, {LEAN: a}) for a in answers))
    found = collect(folder, site.edition(), site.questions())
    (chapter,) = (c for c in site.chapters() if c.name == LEAN)
    root = ElementTree.fromstring(picture(found, site.chapters()))
    space = "{http://www.w3.org/2000/svg}"
    bars = [r for r in root.iter(f"{space}rect") if r.get("height") == "16.0"]
    assert len(bars) == len(chapter.prediction.options)
    assert [float(b.get("width")) for b in bars] == pytest.approx([1, BAR / 4, BAR * 3 / 4])
    shows = {o for _, options in chapter.shown_by for o in options}
    for i, bar in enumerate(bars):
        kind = RIGHT if i == chapter.prediction.answer else BELIEF if i in shows else OTHER
        assert bar.get("fill") == kind
    texts = [t.text for t in root.iter(f"{space}text")]
    assert "3 of 4 (75%)" in texts
    assert not any("href" in name for e in root.iter() for name in e.attrib)


def test_a_folder_without_predictions_has_a_picture_too(site, tmp_path):
    found = collect(write(tmp_path / "class", saved(site, {})), site.edition(), site.questions())
    assert "No file holds a prediction" in picture(found, site.chapters())


def test_a_picture_that_cannot_be_written_is_told(site, tmp_path, capsys):
    folder = write(tmp_path / "class", saved(site, {LEAN: answer(0)}))
    assert main(["collect", str(folder), "--picture", str(tmp_path / "no" / "x.svg")]) == 2
    assert "the picture cannot be written" in capsys.readouterr().err
