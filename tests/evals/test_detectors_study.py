"""`python -m evals detectors`: the same questions with objects of several sources."""

import json

import pytest

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.formats.own import MARK as OWN
from macd_studio.core.options import options_from
from macd_studio.core.types import LOST
from macd_studio.evals.__main__ import main
from macd_studio.evals.commands.detectors import compare, markdown, read_sources
from macd_studio.evals.protocol.bounds import NAME_OF_FILE, read_protocol
from macd_studio.evals.running.rows import Row, Setting


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Two questions, once with the true boxes and once with files that say the same."""
    out = tmp_path_factory.mktemp("detectors")
    setting = Setting("toyworld-crossed", options_from({}))
    benchmark, folder = setting.open(), out / "files"
    for item in benchmark.items("test", 2):
        if item.regime == "options":
            times = benchmark.clip(item.clip).times.tolist()
            tracks = [
                {"id": t.id, "label": t.label, "confidence": float(t.confidence),
                 "boxes": [[float(x) for x in box] if seen else None
                           for box, seen in zip(t.boxes, t.state != LOST, strict=True)]}
                for t in benchmark.true_tracks(item.clip)
            ]  # fmt: skip
            size = list(benchmark.clip(item.clip).size)
            own = {"format": OWN, "version": 1, "size": size, "times": times, "tracks": tracks}
            path = folder / f"{item.clip}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(own))
    sources = f"truth,files={folder},toyworld:0.9"
    words = ["toyworld-crossed", "--regimes", "options", "--n", "2", "--objects", sources]
    assert main(["detectors", *words, "--out", str(out)]) == 0
    return json.loads((out / "detectors.json").read_text()), (out / "detectors.md").read_text(), out


def test_files_that_say_the_truth_give_the_truths_answers(report):
    figures, text, _ = report
    part = figures["regimes"]["options"]
    truth, files, detector = part["sources"].values()
    assert part["n"] == 2
    assert truth["objects"] == files["objects"] > 1
    assert truth["asked"][0] == files["asked"][0] == 1
    assert truth["methods"] == files["methods"] | {
        "macd": files["methods"]["macd"] | {"over": truth["methods"]["macd"]["over"]}
    }
    assert truth["baseline"] == files["baseline"] == detector["baseline"]
    assert text.count("| options | 2 |") == 3


def test_the_protocol_says_where_objects_came_from(report, capsys):
    *_, out = report
    protocol = read_protocol(out / NAME_OF_FILE)
    truth, files, detector = protocol.sources.values()
    assert [s["boxes"] for s in (truth, files, detector)] == ["truth", "files", "detector"]
    assert (detector["detector"], detector["detect"]["confidence"]) == ("toyworld", 0.9)
    assert len(files["masks"]) == 20
    names = list(protocol.sources)
    assert names[1].startswith("files=files ")
    assert str(out) not in json.dumps(names), "places of this machine stay here"
    assert protocol.methods["macd"]["alpha"] == 1.0
    (item, other) = protocol.items
    assert item.clip != other.clip
    assert all(len(c.source[2]) == len(c.read[2]) == 32 for c in protocol.clips)
    assert main(["diff", str(out), str(out)]) == 2
    assert "holds a study that compares sources of objects" in capsys.readouterr().err


def test_what_is_paired_is_the_same_question():
    """By hand: of four questions one is won by the second source's objects, and none is lost."""
    benchmark = Setting("toyworld-crossed", options_from({})).open()
    items = benchmark.items("test", 4)[:4]
    wrong = ["x" if i.truth != "x" else "y" for i in items]

    def rows(texts, base, objects):
        plain = {
            (i.id, "baseline"): Row("", i.id, "baseline", t, tracks=[i.about], objects=objects)
            for i, t in zip(items, base, strict=True)
        }
        own = zip(items, texts, strict=True)
        return plain | {(i.id, "macd"): Row("", i.id, "macd", t) for i, t in own}

    truths = [i.truth for i in items]
    base = [truths[0], *wrong[1:]]
    found = compare(
        items,
        {"a": rows(base, base, 2), "b": rows([*truths[:2], *wrong[2:]], base, 4)},
        ["macd"],
        benchmark,
    )
    a, b = found["sources"].values()
    assert (a["objects"], b["objects"]) == (2, 4)
    assert a["baseline"][0] == b["baseline"][0] == 0.25
    assert a["methods"]["macd"]["gain"][0] == a["methods"]["macd"]["over"][0] == 0
    assert b["methods"]["macd"]["right"][0] == 0.5
    assert b["methods"]["macd"]["gain"][0] == b["methods"]["macd"]["over"][0] == 0.25
    assert b["asked"][0] == 1
    text = markdown({"sources": ["a", "b"], "regimes": {"options": found}})
    assert "| options | 4 | b | 4.0 |" in text
    assert "+25.0" in text


def test_each_source_sets_only_its_objects():
    setting = Setting("toyworld-crossed", options_from({}))
    low, high, grid, truth = (
        s.of(setting) for s in read_sources("toyworld:0.1,toyworld:0.7,grid,truth")
    )
    assert (low.options.detect.confidence, low.options.detect.low) == (0.1, 0.1)
    assert (high.options.detect.confidence, high.options.detect.low) == (0.7, 0.2)
    assert (grid.detector, grid.options) == ("grid", setting.options)
    assert (truth.boxes, truth.options) == ("truth", setting.options)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--objects", "truth"], "there is nothing to compare"),
        (["--objects", "truth,toyworld:x"], "the threshold 'x' is no number"),
        (["--objects", "truth,toyworld:2"], "confidence is 2"),
        (["--objects", "truth,yolo99"], "not a known detector"),
        (["--objects", "truth,files=/nowhere"], "there is no folder '/nowhere'"),
        (["--methods", "baseline"], "the baseline looks at no objects"),
        (["--regimes", "sums"], "there is no regime 'sums'"),
        (["--data", "x"], "--data is for benchmarks of video files"),
    ],
)
def test_what_cannot_be_compared_is_told(words, said, tmp_path, capsys):
    assert main(["detectors", "toyworld-crossed", *words, "--out", str(tmp_path / "out")]) == 2
    assert said in capsys.readouterr().err


def test_a_clip_without_a_file_is_an_answer_that_failed(tmp_path):
    setting = Setting("toyworld-crossed", options_from({}), boxes="files", masks=str(tmp_path))
    with pytest.raises(TracksError, match=r"holds no file .options-0.\. Name it as the clip"):
        setting.open().true_tracks("options-0")
    assert setting.open().name == "toyworld-crossed"
