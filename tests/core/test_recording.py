"""What another decoder computed becomes a trace like any other, or is refused by its path."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.cli.main import main
from macd_studio.core.cli.reproduce import command, snippet
from macd_studio.core.decoding.contrast import score
from macd_studio.core.errors import MacdError, NumericalError, OptionError, QuestionError
from macd_studio.core.options import ContrastOptions, DecodeOptions, RunOptions
from macd_studio.core.report.summary import as_text
from macd_studio.core.rules import Linear
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.types import LOST
from macd_studio.core.whatif.edits import check_changeable
from macd_studio.viewer.notebook import viewer_frame
from macd_studio.viewer.payload import payload

ROOT = Path(__file__).parents[2]
T, K, V = 3, 2, 400
WORDS = [f"w{i} " for i in range(V)]


def logits(seed):
    return np.random.default_rng(seed).normal(0, 3, V).astype(np.float32)


def steps(n=2, two=True, alpha=1.0, beta=0.1):
    made = []
    for j in range(n):
        base, counter = logits(j), logits(100 + j)
        chosen = score(base, counter, alpha, beta).argmax() if two else base.argmax()
        made.append({"token": int(chosen), "base": base} | ({"others": [counter]} if two else {}))
    return made


def told(**changes):
    boxes = np.tile(np.array([0.1, 0.2, 0.5, 0.6]), (T, 1))
    boxes[1] = np.nan
    return {
        "frames": np.random.default_rng(0).integers(0, 255, (T, 24, 32, 3), np.uint8),
        "times": [0.0, 0.5, 1.0],
        "question": "Is there a dog?",
        "tracks": [
            {"id": 1, "label": "dog", "boxes": boxes, "confidence": 0.7},
            {"id": np.int64(4), "label": "cup", "boxes": boxes[::-1].tolist()},
        ],
        "levels": [1.0, 0.0],
        "strengths": [0.9, 0.5],
        "gradients": [0.2, -0.4],
        "query_loss": 1.25,
        "frame_levels": [0.0, 0.75, 1.0],
        "frame_gradients": [0.0, 0.1, 0.2],
        "answers": [
            {"name": "baseline", "steps": steps(two=False)},
            {"name": "macd", "steps": steps(), "alpha": 1.0, "beta": 0.1},
        ],
        "token_text": WORDS.__getitem__,
    } | changes


def test_a_recorded_run_is_told_without_an_ascent_and_with_its_levels():
    of_ascent = ("strengths", "gradients", "query_loss", "frame_gradients")
    given = {k: v for k, v in told().items() if k not in of_ascent}
    text = as_text(macd.record(**given))
    assert "gradient · " not in text.splitlines()[0]
    rows = [line for line in text.splitlines() if line.startswith(("1 dog", "4 cup"))]
    assert [row.split()[-1] for row in rows] == ["1", "0"]


def test_no_backbone_is_asked_for_that_could_not_change_it(tmp_path, capsys):
    file = tmp_path / "a.macd"
    file.write_bytes(pack(macd.record(**told())))
    for name in ("verdict", "evidence", "edit"):
        assert main([name, str(file)]) == 2
        said = capsys.readouterr().err
        assert "--backbone" not in said
        assert "no model here can change it" in said


def test_what_was_told_is_in_the_trace():
    trace = macd.record(**told(decoder="theirs", clip="dog.mp4", ascent={"r0": 0.6}))
    assert trace.warnings == ()
    assert trace.backbone.name == "theirs"
    assert trace.clip.name == "dog.mp4"
    assert (trace.clip.width, trace.clip.height) == (32, 24)
    assert trace.tracks[0].state.tolist() == [2, LOST, 2]
    assert [t.confidence for t in trace.tracks] == [0.7, 1.0]
    found = trace.counterfactual
    assert found.level.tolist() == [1.0, 0.0]
    np.testing.assert_allclose(found.margin, [0.3, -0.1])
    assert found.frame_level.tolist() == [0.0, 0.75, 1.0]
    (step,) = trace.steps
    assert (step.loss, step.gradient.tolist()) == (1.25, [0.2, -0.4])
    assert step.strength.tolist() == [0.6, 0.6]
    answer = trace.answers["macd"]
    assert (answer.alpha, answer.beta, answer.rule) == (1.0, 0.1, "linear")
    assert answer.second_views[0].view.as_dict()["level"] == (1.0, 0.0)
    assert answer.text == "".join(WORDS[s["token"]] for s in steps())
    assert trace.answers["baseline"].rule == "plain"
    assert trace.mask.frame_mask == "outside"


def test_it_is_saved_loaded_and_read_everywhere(tmp_path):
    trace = macd.record(**told())
    again = macd.load(macd.save(trace, tmp_path / "theirs.macd"))
    assert again.to_dict() == trace.to_dict()
    assert pack(unpack(pack(trace))) == pack(again)
    shown = json.loads(json.dumps(payload(again), allow_nan=False))["trace"]
    assert shown["again"] == {}  # no command of ours computes it
    assert [t["boxes"][1] for t in shown["tracks"]] == [None, None]
    assert shown["answers"]["macd"]["second_views"][0]["view"]["level"] == [1.0, 0.0]
    assert "Is there a dog?" in as_text(again)
    assert "<iframe" in viewer_frame(again)


def test_only_its_own_program_can_compute_it_again():
    trace = macd.record(**told())
    for words in (command, snippet):
        with pytest.raises(OptionError, match="another program"):
            words(trace)


@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (0.5, 0.3), (2.0, 0.01), (20.0, 1.0)])
def test_its_tokens_are_scored_anew_as_over_the_whole_vocabulary(alpha, beta):
    trace = unpack(pack(macd.record(**told(decode={"keep": 4}))))
    for j, step in enumerate(trace.answers["macd"].tokens):
        assert len(step.candidates) < V
        kept = score(step.base, step.others[0], alpha, beta)
        assert (
            step.candidates[kept.argmax()]
            == score(logits(j), logits(100 + j), alpha, beta).argmax()
        )
        p = np.exp(step.base[0] - step.base_log_z)
        whole = np.exp(logits(j).astype(float))
        assert p == pytest.approx(whole.max() / whole.sum(), rel=1e-5)


def test_steps_are_those_of_the_decode_loop(toyworld, toy_mp4):
    """The loop's own logits, recorded, give the loop's own steps."""
    from macd_studio.core.decoding.answers import decode
    from macd_studio.core.media.video import read_clip

    encoded = toyworld.encode(read_clip(toy_mp4), "Which animal is in the video?")
    base = toyworld.prefill(encoded, encoded.video)
    counter = toyworld.prefill(encoded, 0 * encoded.video)
    rows = [s.logits[0].numpy() for s in (base, counter)]
    rule = Linear(ContrastOptions(1.0, 0.1))
    (loops,) = decode(toyworld, base, [counter], rule, DecodeOptions(max_tokens=1, keep=5))
    one = {"token": loops.token, "base": rows[0], "others": [rows[1]]}
    trace = macd.record(
        **told(
            answers=[{"name": "macd", "steps": [one], "alpha": 1.0, "beta": 0.1}],
            token_text=toyworld.token_text,
            decode={"keep": 5},
        )
    )
    (mine,) = trace.answers["macd"].tokens
    assert mine.candidates.tolist() == loops.candidates.tolist()
    assert mine.texts == loops.texts
    assert mine.floor == pytest.approx(loops.floor, abs=1e-4)
    np.testing.assert_allclose(mine.others, loops.others, atol=1e-4)


def test_a_token_that_the_rule_would_not_choose_is_told():
    rows = steps(3)
    rows[1]["token"] = (rows[1]["token"] + 1) % V
    trace = macd.record(**told(answers=[{"name": "x", "steps": rows}]))
    assert trace.warnings == ("x: 1 token not as the rule linear chooses, the first at token 2",)
    unpack(pack(trace))


def test_the_contrast_of_the_run_is_that_of_the_answer():
    rows = steps(alpha=2.0, beta=0.5)
    answers = [{"name": "macd", "steps": rows, "alpha": 2.0, "beta": 0.5}]
    trace = macd.record(**told(answers=answers))
    assert trace.options.contrast.alpha == 2.0
    other = macd.record(**told(answers=answers, contrast={"alpha": 3}))
    assert other.options.contrast.alpha == 3.0


def test_an_end_token_ends_the_answer():
    rows = steps()
    end = rows[-1]["token"]
    trace = macd.record(**told(answers=[{"name": "macd", "steps": rows}], end_tokens=[end]))
    answer = trace.answers["macd"]
    assert (answer.finished, answer.text) == (True, WORDS[rows[0]["token"]])


def as_rows(answer):
    """The same answer, its logits one row a token for each view."""
    told = [(s["token"], s["base"], s.get("others", [])) for s in answer["steps"]]
    tokens, base, others = zip(*told, strict=True)
    rows = {"tokens": tokens, "base": np.stack(base)}
    rows["others"] = [np.stack(view) for view in zip(*others, strict=True)]
    return {n: v for n, v in answer.items() if n != "steps"} | rows


def test_rows_of_logits_are_taken_as_the_steps_are():
    import torch

    answers = told()["answers"]
    expected = pack(macd.record(**told()))
    rows = [as_rows(a) for a in answers]
    assert pack(macd.record(**told(answers=rows))) == expected
    tensors = [
        row | {"base": [torch.tensor(z) for z in row["base"]],
               "others": [[torch.tensor(z) for z in view] for view in row["others"]]}
        for row in rows
    ]  # fmt: skip
    assert pack(macd.record(**told(answers=tensors))) == expected


class Words:
    """What is asked of a tokenizer."""

    eos_token_id = steps()[-1]["token"]

    def decode(self, ids):
        (token,) = ids
        return WORDS[token]


def test_a_tokenizer_gives_the_texts_and_the_end():
    ends = [Words.eos_token_id]
    expected = macd.record(**told(end_tokens=ends))
    assert expected.answers["macd"].finished
    mine = macd.record(**told(token_text=None, tokenizer=Words()))
    assert pack(mine) == pack(expected)
    several = Words()
    several.eos_token_id = [3, *ends]
    assert pack(macd.record(**told(token_text=None, tokenizer=several))) == pack(expected)
    none = macd.record(**told(token_text=None, tokenizer=Words(), end_tokens=[]))
    assert not none.answers["macd"].finished


def test_tracks_of_another_trace_are_taken():
    first = macd.record(**told())
    again = macd.record(**told(tracks=first.tracks))
    assert pack(again) == pack(first)


FRAMES = told()["frames"]
PICTURES = np.random.default_rng(1).integers(0, 255, (T, 24, 32, 3), np.uint8)


def with_pictures(shown, **changes):
    """The answers, MACD's with what its second view showed."""
    baseline, macd = told()["answers"]
    return told(answers=[baseline, macd | {"second_views": [{"shown": shown}]} | changes])


def test_the_pictures_of_the_second_view_are_kept_and_shown():
    trace = unpack(pack(macd.record(**with_pictures(PICTURES))))
    np.testing.assert_array_equal(trace.answers["macd"].second_views[0].shown, PICTURES)
    np.testing.assert_array_equal(trace.model_frames.pixels, FRAMES)
    assert trace.model_frames.times.tolist() == [0.0, 0.5, 1.0]
    assert trace.answers["baseline"].second_views == ()
    shown = payload(trace)["trace"]
    assert len(shown["model"]["frames"]) == T
    sent = shown["answers"]["macd"]["second_views"][0]["shown"]
    assert all(picture.startswith("data:image/webp") for picture in sent)
    assert macd.record(**told()).model_frames is None  # nothing to store beside them


def test_the_second_view_follows_from_its_mask():
    mask = np.zeros((T, 24, 32))
    mask[1], mask[2, :, :16] = 0.25, 1
    trace = macd.record(**with_pictures({"mask": mask, "fill": [255, 0, 100]}))
    shown = trace.answers["macd"].second_views[0].shown
    np.testing.assert_array_equal(shown[0], FRAMES[0])
    np.testing.assert_array_equal(shown[1], (0.75 * FRAMES[1] + [63.75, 0, 25]).round())
    assert (shown[2, :, :16] == (255, 0, 100)).all()
    np.testing.assert_array_equal(shown[2, :, 16:], FRAMES[2, :, 16:])
    blurred = macd.record(**with_pictures({"mask": mask, "fill": PICTURES}))
    shown = blurred.answers["macd"].second_views[0].shown
    np.testing.assert_array_equal(shown[2, :, :16], PICTURES[2, :, :16])


def with_third(rows):
    """Steps of two views with a third."""
    return [s | {"others": [*s["others"], logits(200 + j)]} for j, s in enumerate(rows)]


def test_every_second_view_has_its_own_pictures():
    answer = {"name": "three", "steps": with_third(steps()), "rule": "mean-views"}
    given = {"second_views": [{"shown": PICTURES}, {"shown": FRAMES[::-1]}]}
    trace = unpack(pack(macd.record(**told(answers=[answer | given]))))
    first, second = trace.answers["three"].second_views
    np.testing.assert_array_equal(first.shown, PICTURES)
    np.testing.assert_array_equal(second.shown, FRAMES[::-1])
    assert [first.view.kind, second.view.as_dict()["kind"]] == ["masks", "recorded"]
    given = {"second_views": [{}, {"shown": PICTURES, "view": {"kind": "blank"}}]}
    alone = unpack(pack(macd.record(**told(answers=[answer | given]))))
    first, second = alone.answers["three"].second_views
    assert first.shown is None
    np.testing.assert_array_equal(second.shown, PICTURES)
    assert second.view.kind == "blank"
    with pytest.raises(OptionError, match=r"answers\[0\].second_views is not a list of 2 second"):
        macd.record(**told(answers=[answer | {"second_views": [{}]}]))


def test_second_views_without_room_are_left_out(monkeypatch):
    """What each one takes is no longer there for those that come after it."""
    three = {"name": "three", "steps": with_third(steps()), "rule": "mean-views",
             "second_views": [{"shown": PICTURES}] * 2}  # fmt: skip
    views = [{"shown": PICTURES}]
    two = [{"name": f"m{i}", "steps": steps(), "second_views": views} for i in range(3)]
    content = pack(macd.record(**told(answers=[two[0], three, *two[1:]])))
    for views in range(6):
        monkeypatch.setattr("macd_studio.core.traces.read.ALL_PIXELS", (2 + views) * T * 24 * 32)
        answers = unpack(content).answers
        shown = [z.shown for n in ("m0", "three", "m1", "m2") for z in answers[n].second_views]
        assert [pixels is not None for pixels in shown] == [i < views for i in range(5)]


def test_pictures_that_no_file_holds_are_refused(monkeypatch):
    pixels = T * 24 * 32
    monkeypatch.setattr("macd_studio.core.recording.answers.ALL_PIXELS", 3 * pixels)
    macd.record(**with_pictures(PICTURES))
    monkeypatch.setattr("macd_studio.core.recording.answers.ALL_PIXELS", 3 * pixels - 1)
    with pytest.raises(OptionError, match="3 frames of 32 × 24 pixels"):
        macd.record(**with_pictures(PICTURES))


def test_no_model_here_changes_what_another_program_computed():
    trace = macd.record(**with_pictures(PICTURES))
    with pytest.raises(OptionError, match="another program computed"):
        check_changeable(trace)
    shown = payload(trace)["trace"]
    assert (shown["measurable"], shown["comparable"], shown["recorded"]) == (False, False, True)


def answer_with(**changes):
    return {"answers": [{"name": "x", "steps": steps(1)} | changes]}


def shows(**changes):
    return answer_with(second_views=[changes])


def step_with(**changes):
    return {"answers": [{"name": "x", "steps": [steps(1)[0] | changes]}]}


HOLE = logits(0).copy()
HOLE[3] = -np.inf
BAD = {
    "float frames": ({"frames": FRAMES / 255}, r"frames are float64 \(3, 24, 32, 3\)"),
    "frames of one channel": ({"frames": FRAMES[..., :1]}, "frames are uint8"),
    "no frame": ({"frames": FRAMES[:0]}, "frames are uint8"),
    "a time missing": ({"times": [0, 1]}, r"times is an array \(2,\) for 3 frames"),
    "times that fall": ({"times": [0, 2, 1]}, "times .* falls"),
    "a time that is no number": ({"times": [0, np.nan, 1]}, "times holds .* not finite"),
    "a box outside": ({"tracks": [{"id": 1, "label": "a", "boxes": [[0, 0, 1, 1.5]] * T}]},
                      r"tracks\[0\].boxes has one outside"),
    "corners swapped": ({"tracks": [{"id": 1, "label": "a", "boxes": [[0.5, 0, 0, 1]] * T}]},
                        "corners swapped"),
    "an infinite box": ({"tracks": [{"id": 1, "label": "a", "boxes": [[0, 0, 1, np.inf]] * T}]},
                        r"tracks\[0\].boxes holds .* not finite"),
    "boxes of other frames": ({"tracks": [{"id": 1, "label": "a", "boxes": [[0, 0, 1, 1]]}]},
                              r"tracks\[0\].boxes is an array \(1, 4\)"),
    "no boxes": ({"tracks": [{"id": 1, "label": "a"}]}, r"tracks\[0\].boxes is missing"),
    "no label": ({"tracks": [{"id": 1, "boxes": [[0, 0, 1, 1]] * T}]}, "label is missing"),
    "two tracks of one id": ({"tracks": told()["tracks"][:1] * 2}, r"tracks\[1\].id"),
    "an unknown key": ({"tracks": [told()["tracks"][0] | {"colour": 1}]}, "'colour'"),
    "a level too many": ({"levels": [0, 1, 1]}, r"levels is an array \(3,\)"),
    "a level over 1": ({"levels": [0, 1.01]}, "levels holds a value outside"),
    "strengths without levels": ({"levels": None, "frame_levels": None}, "without levels"),
    "gradients without a loss": ({"query_loss": None}, "without query_loss"),
    "gradients without those of frames": ({"frame_gradients": None}, "without frame_gradients"),
    "a loss without gradients": ({"gradients": None}, "without gradients"),
    "an infinite loss": ({"query_loss": np.inf}, "query_loss"),
    "frame levels of other frames": ({"frame_levels": [0, 1]}, r"frame_levels is an array \(2,\)"),
    "no answer": ({"answers": []}, "answers is not a list"),
    "no steps": (answer_with(steps=[]), r"answers\[0\].steps is not a list"),
    "steps and tokens": (answer_with(tokens=[1]), "both steps and tokens"),
    "tokens of two axes": (
        {"answers": [{"name": "x", "tokens": [[1]], "base": logits(0)[None]}]},
        r"tokens is an array \(1, 1\)"),
    "a row too few": (
        {"answers": [{"name": "x", "tokens": [1, 2], "base": logits(0)[None]}]},
        r"\[0\].base has 1 rows for 2 tokens"),
    "a number for rows": (
        {"answers": [{"name": "x", "tokens": [1], "base": logits(0)[None], "others": [3]}]},
        r"answers\[0\].others\[0\] has no rows"),
    "tokens without logits": ({"answers": [{"name": "x", "tokens": [1]}]}, "base is missing"),
    "half a token among rows": (
        {"answers": [{"name": "x", "tokens": [1.5], "base": logits(0)[None]}]}, "token is 1.5"),
    "neither texts nor tokenizer": ({"token_text": None}, "neither token_text nor"),
    "texts and tokenizer": ({"tokenizer": Words()}, "both token_text and"),
    "a tokenizer that cannot decode": (
        {"token_text": None, "tokenizer": object()}, "tokenizer cannot decode"),
    "no name": ({"answers": [{"steps": steps(1)}]}, r"answers\[0\].name is missing"),
    "one name twice": ({"answers": answer_with()["answers"] * 2}, r"answers\[1\].name"),
    "a rule that is none": (answer_with(rule="quadratic"), "no rule 'quadratic'"),
    "a rule of words": (answer_with(rule="yes-bias"), "vocabulary"),
    "a second view that the rule does not take": (answer_with(rule="plain"), "a second view"),
    "no second view, which the rule takes": (
        {"answers": [{"name": "x", "steps": steps(1, two=False), "rule": "code"}]}, "no second"),
    "a second view at times": (answer_with(steps=steps(1) + steps(1, two=False)), "as many second"),
    "alpha of another rule": (answer_with(rule="code", alpha=1.0), "does not take"),
    "alpha too large": (answer_with(alpha=21), r"answers\[0\].alpha is 21"),
    "beta that is no number": (answer_with(beta=np.nan), r"answers\[0\].beta"),
    "a view of one view": (
        answer_with(steps=steps(1, two=False), second_views=[{}]), "a list of 0 second views"),
    "a view of no kind": (shows(view={"kind": 3}), "view.kind"),
    "pictures of floats": (shows(shown=FRAMES / 255), "shown is float64"),
    "pictures of other frames": (shows(shown=FRAMES[1:]), r"shown is uint8 \(2, 24, 32, 3\)"),
    "pictures of another size": (shows(shown=FRAMES[:, 1:]), r"frames' shape \(3, 24, 32, 3"),
    "pictures of rows that differ": (shows(shown=[[1], [1, 2]]), "shown is not an array"),
    "two views of one": (answer_with(second_views=[{}] * 2), "not a list of 1 second view"),
    "a second view of its own kind": (shows(pixels=FRAMES), "pixels"),
    "logits that are no list": (step_with(others=3), "others is no list"),
    "a mask without a fill": (shows(shown={"mask": FRAMES[..., 0] / 255}), "fill is missing"),
    "a mask over 1": (shows(shown={"mask": FRAMES[..., 0], "fill": [0] * 3}),
                      r"shown.mask holds a value outside 0 to 1"),
    "a mask of other frames": (shows(shown={"mask": [[0.5]], "fill": [0] * 3}),
                               r"mask is an array \(1, 1\)"),
    "a bare fill": (shows(shown={"mask": FRAMES[..., 0] / 255, "fill": 3}), "fill is one number"),
    "a fill below black": (
        shows(shown={"mask": FRAMES[..., 0] / 255, "fill": [-1, 0, 0]}), "0 to 255"),
    "a mask of holes": (
        shows(shown={"mask": FRAMES[..., 0] * np.nan, "fill": [0] * 3}), "not finite"),
    "a token outside": (step_with(token=V), r"steps\[0\].token is 400"),
    "a token below": (step_with(token=-1), r"steps\[0\].token is -1"),
    "half a token": (step_with(token=1.5), "token is 1.5"),
    "views of two sizes": (step_with(others=[logits(0)[:-1]]), r"others\[0\] is an array \(399,\)"),
    "a batch of rows": (step_with(base=logits(0)[None]), r"base is an array \(1, 400\)"),
    "words for logits": (step_with(base=["a"] * V), "base is not an array of numbers"),
    "a text that is missing": ({"token_text": {}}, "no text of token"),
    "a text that is none": ({"token_text": lambda token: token}, "token_text of"),
    "an unknown option": ({"mask": {"filling": "black"}}, "mask.filling"),
    "options twice": ({"options": RunOptions(), "mask": {}}, "as a whole"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_a_trace_is_refused_by_its_path(case):
    changes, message = BAD[case]
    with pytest.raises(OptionError, match=message):
        macd.record(**told(**changes))


@pytest.mark.parametrize("changes", [step_with(base=HOLE), step_with(others=[HOLE * np.nan])])
def test_logits_that_are_not_finite_are_refused(changes):
    with pytest.raises(NumericalError, match=r"answers\[0\].steps\[0\]"):
        macd.record(**told(**changes))


def test_a_blank_question_is_refused():
    with pytest.raises(QuestionError):
        macd.record(**told(question=" "))
    assert issubclass(QuestionError, MacdError)


@pytest.mark.long
def test_the_example_decodes_as_the_method_blank_does(tmp_path, monkeypatch, capsys, toyworld):
    out = tmp_path / "own.macd"
    monkeypatch.setattr(sys, "argv", ["own_decoder.py", str(out)])
    runpy.run_path(str(ROOT / "examples" / "own_decoder.py"))
    own = macd.load(out)
    clip = ROOT / "assets" / "examples" / "repaired.mp4"
    project = macd.compare(
        clip,
        own.question,
        "blank",
        backbone=toyworld,
        device="cpu",
        contrast={"alpha": 1.0, "beta": 0.1},
    )
    assert not own.warnings
    for mine, theirs in (("own", "blank"), ("baseline", "baseline")):
        a, b = own.answers[mine], project.answers[theirs]
        assert [s.token for s in a.tokens] == [s.token for s in b.tokens]
        assert a.text == b.text
        for mine_step, step in zip(a.tokens, b.tokens, strict=True):
            assert mine_step.base_log_z == pytest.approx(step.base_log_z, abs=1e-3)
    assert own.answers["own"].text != own.answers["baseline"].text
    assert own.answers["own"].second_views[0].view.kind == "blank"
    theirs = project.answers["blank"].second_views[0].shown.astype(int)
    assert np.abs(own.answers["own"].second_views[0].shown.astype(int) - theirs).max() <= 1
