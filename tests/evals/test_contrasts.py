"""What a run asks for: α and β of each method, which questions are scored, the frames' fit."""

import json

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.options import RunOptions, options_from
from macd_studio.evals.__main__ import main
from macd_studio.evals.paper.ours import Source, settle
from macd_studio.evals.paper.tables import read_table
from macd_studio.evals.running.answer import GRID
from macd_studio.evals.running.contrasts import read_contrasts, takes_contrast
from macd_studio.evals.running.rows import Row
from tests.evals.layouts import touch, write


def contrasts(named, alpha=None, beta=None, preset=None, options=None):
    default = ["macd", "yes-bias"]
    return read_contrasts(
        named, ["baseline"], default, alpha, beta, preset, options or RunOptions()
    )


def test_each_method_has_its_own():
    asked = contrasts("macd:alpha=2.6,beta=0.1,baseline,vcd:preset=published,sid,tcd:beta=0.3")
    assert asked.methods == ("baseline", "macd", "vcd", "sid", "tcd")
    assert asked.given == {"macd": (2.6, 0.1), "vcd": (1.0, 0.2), "tcd": (0.5, 0.3)}
    assert asked.sources == {
        "macd": "given", "vcd": "published", "sid": "chosen", "tcd": "given",
    }  # fmt: skip
    assert asked.tuned == ("sid",)
    assert "SID chosen for each method on a fifth" in asked.how("a fifth")
    assert "MACD, TCD given" in asked.how("a fifth")


def test_presets_are_those_of_the_paper():
    for name, pair in (("eventhallusion", (2.6, 0.0036)), ("mvbench", (1.0, 0.5)),
                       ("perception-test", (1.5, 0.5))):  # fmt: skip
        assert contrasts(f"macd:preset={name}").given == {"macd": pair}
        asked = contrasts("macd,vcd", preset=name)
        assert asked.given == {"macd": pair, "vcd": pair}
        assert asked.how("") == f"MACD, VCD by the preset {name}"
    assert contrasts("macd:preset=mvbench,beta=0.2").given == {"macd": (1.0, 0.2)}


def test_what_is_given_for_all_holds_where_a_method_has_none():
    asked = contrasts("macd:alpha=3,vcd", alpha=1.0, beta=0.4)
    assert asked.given == {"macd": (3.0, 0.4), "vcd": (1.0, 0.4)}
    assert asked.tuned == ()
    own = options_from({"vcd": {"contrast": {"alpha": 0.5, "beta": 0.1}}})
    assert contrasts("vcd:preset=published", options=own).given == {"vcd": (0.5, 0.1)}


def test_nothing_is_tuned_for_methods_without_alpha():
    asked = contrasts("baseline,head-only,olm,always-yes,macd+code")
    assert (asked.tuned, asked.given, asked.sources) == ((), {}, {})
    assert asked.how("") == "no method here takes them"
    assert contrasts("").tuned == ("macd", "yes-bias")
    asked = contrasts("vcd/tcd+mean-views,random-average-4")
    assert asked.tuned == ("vcd/tcd+mean-views", "random-average-4")
    assert "the constant on yes is chosen on x" in contrasts("yes-bias").how("x")


def test_methods_that_take_alpha_are_those_whose_answer_it_changes():
    from macd_studio.core.methods import METHODS

    names = {m.name for m in METHODS.values() if takes_contrast(m)}
    assert {"macd", "vcd", "sid", "tcd", "random-place", "blank"} <= names
    assert not names & {"baseline", "olm", "yes-bias", "head-only", "prompt-bias", "always-yes"}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("macd:alfa=2", r"macd takes no 'alfa'\. Give alpha, beta, preset"),
        ("macd:2.6", r"macd takes no '2\.6'"),
        ("macd:alpha=much", "alpha of macd is 'much'"),
        ("macd:alpha=21", "alpha is 21"),
        ("macd:alpha=nan", "alpha is nan"),
        ("macd:alpha=1,alpha=2", "given alpha twice"),
        ("macd:alpha=1,macd:alpha=2", "'macd' is named twice"),
        ("yes-bias,output-bias", "named twice"),
        ("alpha=1,macd", "'alpha=1' stands before any method"),
        ("macd:", "nothing follows 'macd:'"),
        ("baseline:alpha=1", "baseline takes no alpha"),
        ("macd+code:beta=1", "takes no beta"),
        ("macd:preset=published", "macd has no preset 'published'"),
        ("vcd:preset=none", "Choose one of toyworld, eventhallusion, .*, published"),
        ("nothing", "there is no method 'nothing'"),
    ],
)
def test_what_is_not_understood_is_refused(named, message):
    with pytest.raises(OptionError, match=message):
        contrasts(named)


def test_flags_that_exclude_each_other_are_refused(tmp_path, capsys):
    for flags in ("--alpha 1", "--beta 1", "--alpha 1 --beta 1 --preset mvbench"):
        command = ["run", "toyworld", *flags.split(), "--out", str(tmp_path)]
        assert main(command) == 2
    for options in ('{"contrast": {"alpha": 1}}', '{"vcd": {"contrast": {"beta": 0.1}}}'):
        command = ["run", "questions", "--data", ".", "--options", options, "--out", str(tmp_path)]
        assert main(command) == 2
    err = capsys.readouterr().err
    assert err.count("have no effect here") == 2
    assert "--preset and --alpha or --beta exclude" in err


@pytest.fixture
def planned(monkeypatch):
    """Every answer that a run asked for; the answers are made up instead of computed."""
    seen = []

    def complete(wants, setting, folder, *rest, **more):
        folder.mkdir(parents=True, exist_ok=True)
        seen.extend(wants)
        rows = {}
        for w in wants:
            grid = [] if w.contrast else ["yes"] * len(GRID)
            rows[w.key] = Row(w.key, w.item.id, w.method, "yes", grid=grid, first="yes",
                              scores={"yes": 1.0, "no": 0.0}, margin=1.0)  # fmt: skip
        return rows

    monkeypatch.setattr("macd_studio.evals.running.run.complete", complete)
    monkeypatch.setattr("macd_studio.evals.scoring.report.plots", lambda report: {})
    return seen


@pytest.fixture
def data(tmp_path):
    """Twelve clips with a question each."""
    root = tmp_path / "data"
    touch(*(root / f"{i}.mp4" for i in range(12)))
    lines = [f"{i}.mp4,Is it {i}?,{'yes' if i % 2 else 'no'}" for i in range(12)]
    write(root / "questions.csv", "\n".join(["video,question,answer", *lines]))
    return root


def answer(root, out, *words):
    assert main(["run", "questions", "--data", str(root), "--out", str(out), *words]) == 0
    return json.loads((out / "report.json").read_text())


def test_every_question_is_scored_where_nothing_is_tuned(planned, data, tmp_path):
    for i, words in enumerate((
        ("--methods", "baseline"),
        ("--methods", "baseline,macd:alpha=2.6,beta=0.1,olm"),
        ("--methods", "macd", "--preset", "eventhallusion"),
        ("--alpha", "1", "--beta", "0.1"),
    )):  # fmt: skip
        planned.clear()
        report = answer(data, tmp_path / str(i), *words)
        assert (report["n"], report["split"], report["held_out"]) == (12, "all", 0)
        assert all(w.contrast is not None for w in planned)
        if "macd" in report["methods"] and i < 3:
            pairs = {w.contrast for w in planned if w.method == "macd"}
            assert {tuple(report["contrasts"]["macd"])} == pairs
            assert pairs == {[(0, 0), (2.6, 0.1), (2.6, 0.0036)][i]}


def test_only_what_is_not_given_is_tuned(planned, data, tmp_path):
    report = answer(data, tmp_path / "out", "--methods", "macd:alpha=2.6,beta=0.1,vcd")
    assert report["contrasts"]["macd"] == [2.6, 0.1]
    assert report["contrast_sources"] == {"macd": "given", "vcd": "chosen"}
    assert report["n"] + report["held_out"] == 12
    assert report["held_out"] > 0
    tried = {w.method for w in planned if w.contrast is None}
    assert tried == {"vcd"}
    assert f"on a fifth of the clips ({report['held_out']} questions)" in report["how_chosen"]


def test_the_constant_is_tuned_on_clips_that_are_not_scored(planned, data, tmp_path):
    report = answer(data, tmp_path / "out", "--methods", "yes-bias,macd", "--preset", "mvbench")
    assert report["n"] + report["held_out"] == 12
    assert report["held_out"] > 0
    assert report["scores"]["yes-bias"]["n"] == report["n"]
    assert {w.method for w in planned if w.contrast is None} == set()
    tried = {w.item.id for w in planned if w.method == "macd"}
    assert len(tried) == report["n"]
    assert "the constant on yes is chosen on a fifth" in report["how_chosen"]


def test_too_few_clips_to_choose_on_are_one_line(planned, data, tmp_path, capsys):
    for i in range(12):
        (data / "questions.csv").write_text(f"video,question,answer\n{i}.mp4,Is it?,no\n")
        command = ["run", "questions", "--data", str(data), "--out", str(tmp_path / "out")]
        assert main(command) == 2
    err = capsys.readouterr().err
    assert err.count("of 1 question none is among the fifth") > 6
    assert err.count("no clip is left to score") > 0
    assert err.count("--preset") == err.count("\n") == 12


def test_frames_are_as_published_unless_another_fit_is_asked_for(planned, data, tmp_path):
    for words, fit in (
        ((), "native"),
        (("--fit", "pad"), "pad"),
        (("--options", '{"video": {"frames": 4}}'), "native"),
        (("--options", '{"video": {"fit": "pad"}}'), "pad"),
    ):
        report = answer(data, tmp_path / "out", "--methods", "baseline", *words)
        assert report["sampling"]["fit"] == report["setting"]["options"]["video"]["fit"] == fit
        assert f" frames, fit {fit}; prompts" in (tmp_path / "out/report.md").read_text()
    table = read_table("main")
    setting = settle(
        table, table.rows[0], Source("b", "d", {"mvbench": data}, tmp_path, 1), "mvbench"
    )
    assert setting.options.video.fit == "native"
    assert RunOptions().video.fit == "pad"
