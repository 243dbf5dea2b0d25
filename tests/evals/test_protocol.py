"""What makes two figures differ: causes by name, with the points that are theirs."""

import json
import subprocess
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.evals.__main__ import main
from macd_studio.evals.protocol import bounds, inputs
from macd_studio.evals.protocol.inputs import Asked, read_pair
from macd_studio.evals.protocol.split import by_influence, split
from macd_studio.evals.statistics.stats import bootstrap_ratio
from tests.evals import protocols

AUDITED = Path(__file__).parent / "data" / "answers"
CAUSES = tuple(protocols.HOW)
SCORING = ("parser", "denominator", "annotation")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Causes → the folder of a run that differs by them, and its accuracy."""
    root, done = tmp_path_factory.mktemp("runs"), {}

    def run(*causes):
        if causes not in done:
            folder = root / ("+".join(c.replace(" ", "") for c in causes) or "plain")
            folder.mkdir()
            done[causes] = folder, protocols.run(folder, **protocols.joined(*causes))
        return done[causes]

    return run


def compared(first, second, **how):
    return split(*read_pair(Asked(str(first), **how), Asked(str(second), **how)))


@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_is_named_alone_with_the_points_that_are_its_own(made, cause):
    (plain, before), (other, after) = made(), made(cause)
    found = compared(plain, other)
    assert found.named == (cause,)
    (share,) = found.shares
    assert (found.first, found.second) == pytest.approx((before, after), abs=1e-3)
    assert before != after, "a cause that changes nothing shows nothing"
    for points in (share.alone, share.in_order, found.difference):
        assert points[0] == pytest.approx(after - before, abs=1e-3)
        assert points[1] <= points[0] <= points[2]
    assert share.n > 0
    assert found.interaction == 0
    assert share.detail


@pytest.mark.parametrize("pair", list(combinations(CAUSES, 2)), ids="+".join)
def test_two_causes_are_both_named_and_sum_to_the_difference(made, pair):
    (plain, before), (other, after) = made(), made(*pair)
    found = compared(plain, other)
    assert set(found.named) == set(pair)
    assert sum(s.in_order[0] for s in found.shares) == pytest.approx(after - before, abs=1e-3)
    alone = sum(s.alone[0] for s in found.shares)
    assert found.interaction == pytest.approx(after - before - alone, abs=1e-3)
    inputs_differ = [c for c in pair if c not in SCORING]
    if len(inputs_differ) == 2:  # answers alone cannot tell these apart
        assert [set(s.causes) for s in found.shares] == [set(pair)]
    if len(inputs_differ) == 1:
        by_name = {s.title: s for s in found.shares}
        own = made(inputs_differ[0])[1] - before
        assert by_name[inputs_differ[0]].alone[0] == pytest.approx(own, abs=1e-3)
        (scored,) = set(pair) - set(inputs_differ)
        assert by_name[scored].alone[0] == pytest.approx(made(scored)[1] - before, abs=1e-3)


def test_the_same_run_differs_by_nothing(made):
    plain, accuracy = made()
    first, second = read_pair(Asked(str(plain)), Asked(str(plain)))
    found = split(first, second)
    assert (found.shares, found.notes) == ((), ())
    (note,) = split(replace(first, stated=(accuracy, 119)), second).notes
    assert "% of 119; its answers give" in note
    assert "% of 120 here" in note


def test_what_a_method_does_not_depend_on_is_no_cause(made):
    found = compared(made()[0], made("α and β", "seed")[0], method="baseline")
    assert found.named == ("seed",)
    assert found.difference[0] == 0
    assert compared(made()[0], made("α and β")[0], method="baseline").named == ()


def test_questions_that_one_side_lacks_are_a_cause(made, tmp_path):
    plain, before = made()
    texts = texts_of(plain)
    file = tmp_path / "half.json"
    file.write_text(json.dumps({k: t for k, t in texts.items() if int(k) < 60}))
    found = compared(plain, file, rule="official")
    (share,) = found.shares
    assert share.causes == ("items",)
    assert (share.n, share.detail) == (60, "60 only in the first, 0 only in the second")
    assert share.alone[0] == share.in_order[0] == pytest.approx(found.second - before, abs=1e-3)


def texts_of(folder):
    report = json.loads((folder / "report.json").read_text())
    return {q["id"]: q["answers"]["macd"]["text"] for q in report["questions"]}


def test_answers_of_a_file_without_a_protocol_are_the_rest(made, tmp_path):
    plain, before = made()
    other, after = made("frames")
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(texts_of(other)))
    found = compared(plain, file, rule="official")
    assert found.named == ("cannot be told",)
    assert found.shares[0].in_order[0] == pytest.approx(after - before, abs=1e-3)


def samples(folder, texts, truths, date="20261101_120000", **results):
    """Files as lmms-eval 0.7.3 writes them."""
    path = folder / f"{date}_samples_task.jsonl"
    lines = []
    for i, (name, text) in enumerate(texts.items()):
        score = float(text.lower().startswith(truths[name]))
        lines.append({"doc_id": i, "doc_hash": f"h{name}", "target": truths[name],
                      "input": f"Is it {name}?\nPlease answer yes or no:", "filtered_resps": [text],
                      "token_counts": [None], "task_score": {"score": score}})  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    whole = {"config": {"model": "m", "model_args": "pretrained=org/model,max_num_frames=16"},
             "transformers_version": "4.57.0", **results}  # fmt: skip
    (folder / f"{date}_results.json").write_text(json.dumps(whole))
    return path


def test_samples_of_lmms_eval_are_compared_with_ours_and_with_each_other(made, tmp_path, capsys):
    (plain, before), (other, after) = made(), made("frames")
    truths = {str(i): ("yes", "no")[i % 2] for i in range(protocols.N)}
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    a, b = (samples(tmp_path / n, texts_of(f), truths) for n, f in (("a", plain), ("b", other)))
    found = compared(a, b)
    assert (found.first, found.second) == pytest.approx((before, after), abs=1e-3)
    assert found.named == ("cannot be told",)
    mixed = compared(plain, b, rule="official")
    assert mixed.difference[0] == pytest.approx(after - before, abs=1e-3)
    assert main(["diff", str(plain), str(b), "--rule", "official"]) == 0
    out = capsys.readouterr().out
    assert "| frames | 8 | 16 | yes |" in out
    assert "| transformers | 5.23.0 | 4.57.0 | yes |" in out


def test_the_same_words_that_were_judged_otherwise_are_the_parsers(made, tmp_path):
    plain, _ = made()
    truths = {str(i): ("yes", "no")[i % 2] for i in range(protocols.N)}
    file = samples(tmp_path, texts_of(plain), truths)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines[:6]:
        line["task_score"]["score"] = 1.0 - line["task_score"]["score"]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = compared(plain, file)
    assert found.named == ("parser",)
    assert found.shares[0].n == 6


def test_a_printed_row_is_held_against_ours(made, tmp_path, capsys):
    plain, before = made()
    assert main(["diff", str(plain), "paper:72.37,n=409,frames=16", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "No number of right answers of 409 questions gives 72.37 %" not in out
    assert "The printed figure is over 409 questions, ours over 120" in out
    assert "| frames | 8 | 16 | yes |" in out
    report = json.loads((tmp_path / "diff.json").read_text())
    assert report["printed"]["difference"][0] == pytest.approx(72.37 - before, abs=1e-3)
    assert "<script" not in (tmp_path / "diff.html").read_text()
    assert main(["diff", str(plain), "paper:72.51,n=120"]) == 0
    assert "No number of right answers of 120 questions gives 72.51 %" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "named"), [
    (["PLAIN", "paper:72.5"], "needs its number of questions"),
    (["PLAIN", "paper:172,n=9"], "the printed figure is 172"),
    (["PLAIN", "paper:72,n=9,colour=red"], "cannot say 'colour=red'"),
    (["paper:72,n=9", "paper:73,n=9"], "say nothing of single answers"),
    (["PLAIN", "nowhere"], "neither a folder nor a file"),
    (["PLAIN:vcd", "PLAIN"], "has no answers of 'vcd'"),
    (["PLAIN", "PLAIN", "--rule", "none"], "has no rule 'none'"),
    (["PLAIN", "PLAIN", "--over", "some"], "no way of counting"),
    (["PLAIN", "PLAIN", "--rerun", "0"], "--rerun is 0"),
    (["PLAIN", "PLAIN", "--python", "x"], "is for --rerun"),
    (["paper:72,n=9", "PLAIN", "--rerun", "3"], "Give such a folder as A"),
])  # fmt: skip
def test_what_cannot_be_compared_is_told_in_one_line(made, words, named, capsys):
    words = [w.replace("PLAIN", str(made()[0])) for w in words]
    assert main(["diff", *words]) == 2
    err = capsys.readouterr().err
    assert named in err
    assert err.count("\n") == 1


def damaged(text, **changes):
    value = json.loads(text)
    for path, new in changes.items():
        at = value
        *inner, last = path.split("__")
        for key in inner:
            at = at[int(key) if key.isdecimal() else key]
        at[int(last) if last.isdecimal() else last] = new
    return json.dumps(value)


@pytest.mark.parametrize(("changes", "named"), [
    ({"kind": "another"}, "is no protocol of version 1"), ({"version": 9}, "is no protocol"),
    ({"items__0__clip": 5000}, "names a clip or a model"), ({"items__0__by": 3}, "names a clip"),
    ({"items": {}}, "is no list"), ({"items__0__id": 5}, "items[0].id is 5"),
    ({"clips__0__times": ["x"]}, "clips[0].times[0] is 'x'"),
    ({"clips__0__source": [1, 2]}, "is not a size and a hash"),
    ({"models__0__dtype": []}, "models[0].dtype is a list"),
    ({"methods__macd__alpha": "2"}, "methods.macd.alpha"),
    ({"setting": [[[[[[[[[[1]]]]]]]]]]}, "setting is a list"),
])  # fmt: skip
def test_a_damaged_protocol_is_refused_with_its_place(made, tmp_path, changes, named):
    text = (made()[0] / bounds.NAME_OF_FILE).read_text()
    path = tmp_path / bounds.NAME_OF_FILE
    path.write_text(damaged(text, **changes))
    with pytest.raises(BenchmarkError) as caught:
        bounds.read_protocol(path)
    assert named in str(caught.value)


def test_files_that_are_too_large_are_refused_unread(made, tmp_path, monkeypatch):
    path = tmp_path / bounds.NAME_OF_FILE
    with path.open("wb") as file:
        file.truncate((bounds.LARGEST_MB + 1) * 2**20)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(BenchmarkError, match=f"larger than {bounds.LARGEST_MB} MB"):
        bounds.read_protocol(path)
    sample = tmp_path / "x_samples_y.jsonl"
    path.rename(sample)
    with pytest.raises(BenchmarkError, match="larger than"):
        inputs.lmms.read_samples(sample)


def test_a_protocol_read_again_says_what_was_computed(made):
    protocol = bounds.read_protocol(made()[0] / bounds.NAME_OF_FILE)
    assert len(protocol.items) == protocol.benchmark["asked"] == protocols.N
    assert (len(protocol.clips), len(protocol.models)) == (protocols.N // 2, 1)
    assert protocol.clips[0].source[:2] == (320, 320)
    assert protocol.scoring["over"] == "all"
    ((name, digest, size),) = protocol.benchmark["files"]
    assert name == "questions.jsonl"
    assert len(digest) == 64
    assert size > 0
    assert "data" not in protocol.setting, "places of this machine stay here"


def test_packages_explain_pictures_that_differ_by_them(made, tmp_path):
    """Another processor of another version of a package is no cause of its own."""
    plain, _ = made()
    first, second = read_pair(Asked(str(plain)), Asked(str(made("versions")[0])))
    clips = tuple(replace(c, read=(96, 96, "other")) for c in second.protocol.clips)
    second = replace(second, protocol=replace(second.protocol, clips=clips))
    found = split(first, second)
    assert found.named == ("versions",)
    assert "pictures differ by it" in found.shares[0].detail


def test_the_page_says_what_can_be_told_and_what_would_tell_more(made, tmp_path, capsys):
    def said(first, second, *words):
        assert main(["diff", str(first), str(second), *words]) == 0
        return capsys.readouterr().out

    plain, together = made()[0], "answers alone cannot tell them apart"
    same = said(plain, plain)
    assert "Nothing that is recorded differs, and all answers are the same." in same
    one = said(plain, made("α and β")[0])
    assert "| **α and β** | α 1 → 2 |" in one
    assert together not in one
    assert "*Interaction*" not in one
    two = said(plain, made("frames", "dtype")[0])
    assert "| **frames + dtype** |" in two
    assert together in two
    assert "--rerun N answers N questions again" in two
    assert "*Interaction*" in said(plain, made("frames", "parser")[0])
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(texts_of(made("frames")[0])))
    assert "what those of answers.json were computed from is not recorded" in said(plain, file)


def test_no_question_in_common_is_refused(made, tmp_path):
    first, _ = read_pair(Asked(str(made()[0])), Asked(str(made()[0])))
    other = replace(first, items={"x": replace(next(iter(first.items.values())), id="x")})
    with pytest.raises(OptionError, match="no question in common"):
        split(first, other)


def test_answers_to_unknown_questions_are_told(made, tmp_path, capsys):
    file = tmp_path / "more.json"
    file.write_text(json.dumps(texts_of(made()[0]) | {"other": "yes"}))
    assert main(["diff", str(made()[0]), str(file), "--rule", "official"]) == 0
    assert "1 of 121 predictions answer questions" in capsys.readouterr().out


def test_many_clusters_get_about_the_interval_of_few():
    """Beyond what is resampled, by each cluster's influence."""
    rng = np.random.default_rng(5)
    clusters = [str(i // 2) for i in range(800)]
    top, bottom = (rng.random((2, 800)) < 0.6).astype(float), np.ones((2, 800))
    bottom[1] = rng.random(800) < 0.9
    top[1] *= bottom[1]
    resampled = bootstrap_ratio(top[1], bottom[1], clusters, minus=(top[0], bottom[0]))
    linear = by_influence(clusters, [(1, top[1], bottom[1]), (-1, top[0], bottom[0])])
    assert linear[0] == pytest.approx(resampled[0])
    assert linear[1:] == pytest.approx(resampled[1:], abs=0.006)


def test_comparing_and_auditing_need_no_torch(made):
    import sys

    code = (
        "import sys; from macd_studio.evals.__main__ import main;"
        f"main(['diff', {str(made()[0])!r}, {str(made('frames')[0])!r}]);"
        f"main(['audit', {str(AUDITED / 'baseline.xlsx')!r}, {str(AUDITED / 'method.tsv')!r}]);"
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-400:]


def test_what_results_of_lmms_eval_state_is_a_cause(made, tmp_path):
    """Frames, arguments and prompts; a seed where nothing is sampled is none."""
    truths = {str(i): ("yes", "no")[i % 2] for i in range(protocols.N)}
    texts = [texts_of(made()[0]), texts_of(made("frames")[0])]
    given = {"model": "m", "model_args": "pretrained=org/model,max_num_frames=16"}

    def named(name, **changed):
        task = changed.pop("task", {})
        (tmp_path / name).mkdir()
        path = samples(tmp_path / name, texts[1], truths, config=given | changed, configs=task)
        return compared(plain, path)

    (tmp_path / "plain").mkdir()
    plain = samples(tmp_path / "plain", texts[0], truths, config=given | {"random_seed": 0})
    found = named("frames", model_args="pretrained=org/model,max_num_frames=8")
    assert found.named == ("frames",)
    assert found.shares[0].detail == "as stated, frames 16 → 8"
    assert any("what neither states may be part" in n for n in found.notes)
    found = named("more", model_args="pretrained=org/model,max_num_frames=8,dtype=float16,x=1")
    assert found.named == ("frames",), "what one side alone states is no difference"
    assert named("seed", random_seed=7).named == ("cannot be told",)
    sampled = {"task": {"generation_kwargs": {"do_sample": True, "temperature": 0.7}}}
    assert named("sampled", random_seed=7, task=sampled).named == ("seed",)
    first = read_pair(Asked(str(plain)), Asked(str(tmp_path / "sampled" / plain.name)))[1]
    assert first.said["search"] == "sample"
    path = tmp_path / "frames" / plain.name
    path.write_text(path.read_text().replace("answer yes or no:", "say yes or no:"))
    assert set(compared(plain, path).named) == {"frames", "template"}


def test_the_same_words_judged_otherwise_are_a_parser(made, tmp_path):
    truths = {str(i): ("yes", "no")[i % 2] for i in range(protocols.N)}
    texts = texts_of(made()[0])
    paths = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths.append(samples(tmp_path / name, texts, truths))
    lines = [json.loads(z) for z in paths[1].read_text().splitlines()]
    for line in lines[:7]:
        line["task_score"]["score"] = 1 - line["task_score"]["score"]
    paths[1].write_text("".join(json.dumps(z) + "\n" for z in lines))
    (share,) = compared(*paths).shares
    assert (share.causes, share.n) == (("parser",), 7)
    assert share.detail == "the same words are judged otherwise in 7 questions"
