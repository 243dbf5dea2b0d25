"""The gallery: what it lists, what it writes, what it refuses, and its routes in the app."""

import hashlib
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from macd_studio.core.errors import OptionError
from macd_studio.core.traces.bundle import load, save
from macd_studio.macd_ui import engine
from macd_studio.macd_ui.examples import SHIPPED, described
from macd_studio.macd_ui.gallery import site
from macd_studio.macd_ui.gallery.__main__ import main
from macd_studio.macd_ui.gallery.routes import REAL, routes, site_of
from macd_studio.macd_ui.gallery.runs import (
    AGREE,
    DIFFER,
    OTHER,
    OUTCOMES,
    UNFINISHED,
    outcome_of,
    read_run,
)
from macd_studio.macd_ui.gallery.site import MAX_KB, Site, index_page, write_site
from macd_studio.macd_ui.settings import ServerSettings
from tests.small_trace import small_trace

HOSTILE = "<img src=x onerror=alert(1)> </script> {title} DATA SCRIPT & \"'"


@pytest.fixture
def folder(tmp_path):
    """Two small traces, one of them hostile."""
    place = tmp_path / "traces"
    place.mkdir()
    save(small_trace(), place / "plain.macd")
    trace = small_trace()
    hostile = replace(
        trace,
        question=HOSTILE,
        clip=replace(trace.clip, name=HOSTILE),
        backbone=replace(trace.backbone, name=HOSTILE),
        answers={n: replace(a, text=HOSTILE) for n, a in trace.answers.items()},
    )
    save(hostile, place / "hostile.macd")
    return place


def names(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_the_command_writes_a_page_for_each_trace_by_its_hash(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert main([str(out), str(folder), str(folder / "plain.macd")]) == 0
    assert "2 runs" in capsys.readouterr().out
    hashes = {hashlib.sha256(p.read_bytes()).hexdigest()[:16] for p in folder.iterdir()}
    assert names(out) == {
        "index.html", "viewer.js", "viewer.css", "gallery.js", "gallery.css",
        *(f"t/{h}{end}" for h in hashes for end in (".html", ".webp")),
    }  # fmt: skip
    index = (out / "index.html").read_text()
    assert all(f'href="t/{h}.html"' in index for h in hashes)
    for page in [index, *(p.read_text() for p in (out / "t").glob("*.html"))]:
        assert "http:" not in page
        assert "https:" not in page


def test_no_string_of_a_trace_becomes_markup(folder, tmp_path):
    write_site(Site([folder]), tmp_path / "out")
    for page in (tmp_path / "out").rglob("*.html"):
        text = page.read_text()
        assert "<img src=x" not in text
        assert text.count("</script>") == (1 if page.name == "index.html" else 2)
    data = re.search(r'id="trace">(.*?)</script>', _hostile_page(tmp_path / "out"), re.S)[1]
    assert json.loads(data)["trace"]["question"] == HOSTILE


def _hostile_page(out):
    return next(t for p in out.glob("t/*.html") if "onerror" in (t := p.read_text()))


def test_a_folder_is_brought_up_to_date_and_another_is_left_alone(folder, tmp_path):
    out = tmp_path / "out"
    write_site(Site([folder]), out)
    before = names(out)
    (folder / "hostile.macd").unlink()
    write_site(Site([folder]), out)
    assert len(before - names(out)) == 2
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("five years of work")
    with pytest.raises(OptionError, match="not a gallery"):
        write_site(Site([folder]), mine)
    assert names(mine) == {"thesis.txt"}
    with pytest.raises(OptionError, match="not a folder"):
        write_site(Site([folder]), folder / "plain.macd")


def test_what_cannot_be_read_is_left_out_with_a_note(folder, tmp_path, capsys):
    (folder / "broken.macd").write_bytes(b"PK nothing")
    assert main([str(tmp_path / "out"), str(folder)]) == 0
    told = capsys.readouterr()
    assert "broken.macd is left out" in told.err
    assert "2 runs" in told.out
    for words, cause in (
        ([str(tmp_path / "none.macd")], "there is no"),
        ([str(tmp_path)], "no trace to show"),
        ([str(folder / "broken.macd")], "broken.macd is left out"),
    ):
        assert main([str(tmp_path / "other"), *words]) == 2
        assert cause in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_index_names_methods_by_title_and_no_folder_of_its_maker(folder, tmp_path):
    trace = small_trace()
    local = replace(trace.backbone, name="/home/somebody/models/tiny")
    save(replace(trace, backbone=local), folder / "local.macd")
    write_site(Site([folder]), tmp_path / "out")
    index = (tmp_path / "out" / "index.html").read_text()
    assert '<p class="quiet">tiny</p>' in index
    assert "somebody" not in index
    assert '<p class="quiet">toyworld</p>' in index
    assert "<dt>Baseline</dt>" in index
    assert '<option value="baseline">Baseline</option>' in index


def test_a_long_answer_leaves_candidates_out_and_says_so(folder, tmp_path, capsys):
    trace = small_trace()
    step = trace.answers["macd"].tokens[0]
    base = np.linspace(3, -3, 256, dtype=np.float32)
    wide = replace(
        step, token=0, candidates=np.arange(256), texts=tuple(f"word {i}" for i in range(256)),
        base=base, others=(np.sin(50 * base),), floor=-3.1,
    )  # fmt: skip
    tokens = tuple(replace(wide, index=i) for i in range(64))
    long = replace(trace.answers["macd"], tokens=tokens)
    save(replace(trace, answers=trace.answers | {"macd": long}), folder / "long.macd")
    assert main([str(tmp_path / "out"), str(folder)]) == 0
    assert not capsys.readouterr().err
    pages = [p.read_text() for p in (tmp_path / "out" / "t").glob("*.html")]
    assert all(len(page.encode()) <= 1000 * MAX_KB for page in pages)
    (page,) = [page for page in pages if "word 1" in page]
    kept = int(re.search(r"this page holds the (\d+) best candidates under each view", page)[1])
    data = json.loads(re.search(r'id="trace">(.*?)</script>', page, re.S)[1])
    shown = data["trace"]["answers"]["macd"]["tokens"]
    assert len(shown) == 64
    assert all(kept <= len(t["candidates"]) < 256 for t in shown)
    assert sum("best candidates" in p for p in pages) == 1


def test_a_page_that_cannot_be_small_is_told(folder, tmp_path, capsys):
    assert main([str(tmp_path / "out"), str(folder / "plain.macd"), "--max-kb", "20"]) == 0
    assert not capsys.readouterr().err
    trace = small_trace()
    step = trace.answers["macd"].tokens[0]
    long = replace(trace.answers["macd"], tokens=tuple(replace(step, index=i) for i in range(99)))
    save(replace(trace, answers=trace.answers | {"macd": long}), folder / "long.macd")
    assert main([str(tmp_path / "out"), str(folder / "long.macd"), "--max-kb", "20"]) == 0
    assert re.search(r"long.macd: its page takes \d+ kB", capsys.readouterr().err)


def test_outcomes():
    trace = small_trace()  # "yes" and "no"
    assert outcome_of(trace) == DIFFER
    same = trace.answers | {"macd": replace(trace.answers["macd"], text="Yes. ")}
    assert outcome_of(replace(trace, answers=same)) == AGREE
    assert outcome_of(replace(trace, status="stopped: decode")) == UNFINISHED
    assert outcome_of(replace(trace, answers={"macd": trace.answers["macd"]})) == OTHER
    example = replace(described(SHIPPED / "repaired.macd"), answer="No")
    assert outcome_of(trace, example) == OUTCOMES[False, True] == "MACD repairs it"
    assert outcome_of(trace, replace(example, answer="yes")) == OUTCOMES[True, False]
    said = {"baseline": "No, there is no book.", "macd": "no"}
    long = replace(
        trace, answers={n: replace(trace.answers[n], text=text) for n, text in said.items()}
    )
    assert outcome_of(long) == AGREE
    assert outcome_of(long, replace(example, answer="no")) == OUTCOMES[True, True]


def test_what_macd_spoils_stands_first():
    runs = [read_run(SHIPPED / name)[0] for name in ("background.macd", "harmed.macd")]
    page = index_page(runs)
    at = [page.index(f'<li data-example="{run.title}"') for run in runs]
    assert runs[1].outcome == OUTCOMES[True, False]
    assert at[1] < at[0]


def test_the_shipped_examples_have_the_outcomes_of_their_titles():
    found = {}
    for file in SHIPPED.glob("*.macd"):
        about = described(file)
        assert about.truth.startswith(f"True answer: {about.answer}.")
        found[about.title] = outcome_of(load(file), about)
    assert len(found) > 9
    assert found["Masks that MACD chose make a right answer wrong"] == "MACD spoils it"
    ends = {
        "wrong becomes right": "MACD repairs it",
        "wrong stays wrong": "MACD does not help",
        "right becomes wrong": "MACD spoils it",
        "right stays right": "both are right",
    }
    named = {title: ends[end] for title in found if (end := title.split(": ")[-1]) in ends}
    assert len(named) > 5
    assert {title: found[title] for title in named} == named


@pytest.mark.parametrize("index", ["{}", "[1]", '[{"video": 3}]', '[{"video": "a.mp4"}]', "["])
def test_an_index_of_another_kind_describes_nothing(tmp_path, index):
    shutil.copy(SHIPPED / "small.macd", tmp_path / "a.macd")
    (tmp_path / "index.json").write_text(index)
    assert described(tmp_path / "a.macd") is None
    assert Site([tmp_path]).refresh()[0].title == "small.mp4"


def app_of(folder, **settings):
    settings = ServerSettings(gallery=str(folder), **settings)
    return TestClient(Starlette(routes=routes(site_of(settings), settings)))


def test_the_app_shows_a_folder_as_it_is_now(folder):
    client = app_of(folder)
    index = client.get("/gallery")
    assert index.url.path == "/gallery/"
    assert index.text.count("<li ") == 2
    policy = index.headers["content-security-policy"]
    assert "unsafe-eval" not in policy
    assert "file:" not in policy
    assert "script-src 'self';" in policy
    for name in ("viewer.js", "gallery.js", "viewer.css", "gallery.css"):
        assert client.get(f"/gallery/{name}").status_code == 200
    (folder / "hostile.macd").unlink()
    assert client.get("/gallery/").text.count("<li ") == 1
    save(replace(small_trace(), question="Is it new?"), folder / "new.macd")
    digest = hashlib.sha256((folder / "new.macd").read_bytes()).hexdigest()
    for link in (digest, digest[:16]):  # also before anybody opened the index again
        answer = client.get(f"/t/{link}")
        assert answer.url.path == f"/gallery/t/{digest[:16]}.html"
        assert "Is it new?" in answer.text
    assert client.get(f"/gallery/t/{digest[:16]}.webp").headers["content-type"] == "image/webp"


@pytest.mark.parametrize("path", ["/t/0000000000000000", "/gallery/t/0000000000000000.html",
                                  "/gallery/plain.macd", "/gallery/t/../plain.macd",
                                  "/gallery/%2e%2e/traces/plain.macd", "/gallery//etc/passwd",
                                  "/gallery/t/plain.html", "/gallery/t/.html"])  # fmt: skip
def test_nothing_else_of_the_folder_is_given(folder, path):
    answer = app_of(folder).get(path)
    assert answer.status_code == 404
    assert "no such run" in answer.text


def test_a_file_that_was_changed_is_not_shown_under_its_old_address(folder):
    client = app_of(folder)
    digest = hashlib.sha256((folder / "plain.macd").read_bytes()).hexdigest()
    client.get("/gallery/")
    save(replace(small_trace(), question="Is it another?"), folder / "plain.macd")
    answer = client.get(f"/t/{digest}")
    assert answer.status_code == 404
    assert "Is it another?" not in answer.text


def test_what_cannot_be_read_is_tried_once_until_its_file_changes(folder, monkeypatch):
    reads = []
    monkeypatch.setattr(site, "read_run", lambda path: (reads.append(path.name), read_run(path))[1])
    client, plain = app_of(folder), folder / "plain.macd"
    sound = plain.read_bytes()
    old = f"/t/{hashlib.sha256(sound).hexdigest()}"
    (folder / "broken.macd").write_bytes(sound[:300])
    assert client.get(old).status_code == 200
    reads.clear()

    def ask():
        return [client.get(path).status_code for path in ("/gallery/", old, "/t/" + "0" * 64)]

    assert ask() == ask() == [200, 200, 404]
    assert reads == []
    plain.write_bytes(sound[:200])  # a run that was listed already
    assert [client.get(old).status_code for _ in range(3)] == [404] * 3
    assert ask() == [200, 404, 404]
    assert reads == ["plain.macd"]
    plain.write_bytes(sound)
    assert ask() == [200, 200, 404]


def test_without_a_folder_the_app_shows_the_examples():
    assert site_of(ServerSettings()).places == (SHIPPED, REAL)
    assert Path(SHIPPED).is_dir()


def test_a_picture_of_the_index_shows_where_faint_objects_are():
    trace = load(SHIPPED / "small.macd")
    faint = replace(trace, frames=np.full_like(trace.frames, 128))
    with Image.open(io.BytesIO(site.thumbnail(faint).content)) as picture:
        marked = np.asarray(picture.convert("RGB")).astype(int)
    assert (np.ptp(marked, axis=2) > 60).sum() > 40  # boxes in colours, where all else is grey
    bare = replace(faint, tracks=())
    with Image.open(io.BytesIO(site.thumbnail(bare).content)) as picture:
        assert np.ptp(np.asarray(picture.convert("RGB")).astype(int), axis=2).max() < 30


@pytest.mark.parametrize(
    ("part", "followed", "not_followed"),
    [
        ("mask", {"fusion": "or"}, {}),
        ("ascent", {"steps": 3, "eta": 0.5}, {"strengths": "shared"}),
        ("decode", {"max_tokens": 9}, {"search": "sample"}),
    ],
)
def test_a_browser_computes_no_change_under_an_option_that_it_does_not_follow(
    part, followed, not_followed, monkeypatch
):
    trace = load(SHIPPED / "repaired.macd")

    def why_not(others):
        changed = {part: replace(getattr(trace.options, part), **others)}
        return engine.why_not(replace(trace, options=replace(trace.options, **changed)))

    assert why_not(followed) == ""
    if not_followed:
        assert "options that need the app" in why_not(not_followed)
    monkeypatch.setitem(engine.FOLLOWED, part, ())  # as for one that is added
    assert "options that need the app" in why_not(followed)
