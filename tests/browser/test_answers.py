"""Answers as they are read: no end tokens, titles, marks where the truth is known."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.decoding.contrast import kept_candidates
from macd_studio.core.records import Thought
from macd_studio.core.token_logits import log_partition
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.types import StepWeights, TokenStep
from macd_studio.core.view_records import ShiftView
from macd_studio.viewer import JS, bundle, payload, status
from tests.browser.states import show, traced, unfold_all

WORDS = ["yes", "no", "dog", " and", "<end>", "<stop>"]
END, STOP = 4, 5


def step(index, token, counter=None):
    """A token that has the largest logit; of a contrast where the second view's choice is named."""
    base = np.full(len(WORDS), -2.0, np.float32)
    base[token] = 3.0
    other = None
    if counter is not None:
        base[counter] = 2.5
        other = np.zeros(len(WORDS), np.float32)
        other[token], other[counter] = -1.0, 2.0
    ids = kept_candidates([base] if other is None else [base, other], len(WORDS), -np.inf, token)
    return TokenStep(
        index, token, WORDS[token], ids, tuple(WORDS[i] for i in ids), base[ids],
        log_partition(base),
        () if other is None else (other[ids],), () if other is None else (log_partition(other),),
    )  # fmt: skip


def answered(baseline, macd, other=1):
    """The fake run with these tokens as answers; where α grows, `other` loses against them."""
    trace = traced(objects=2, steps=3)
    base, contrast = trace.answers["baseline"], trace.answers["macd"]

    def text(tokens):
        return "".join(WORDS[t] for t in tokens if t < END)

    def ends(tokens):
        return tokens[-1] >= END

    answers = {
        "baseline": replace(
            base, text=text(baseline), finished=ends(baseline),
            tokens=tuple(step(i, t) for i, t in enumerate(baseline)),
        ),
        "macd": replace(
            contrast, text=text(macd), finished=ends(macd),
            tokens=tuple(step(i, t, other) for i, t in enumerate(macd)),
        ),
    }  # fmt: skip
    return replace(trace, answers=answers, truth="yes")


def visible_tokens(page, method):
    strip = page.locator(f".mv-strip[data-method={method}] .mv-token")
    return [t.inner_text() for t in strip.all() if t.is_visible()]


@pytest.mark.parametrize(
    ("errors", "unsure"),
    [((8.5, 0.05), (0, 1)), ((8.5, 0.0), (1, 1)), ((0.05, 0.0), (0, 0)), ((0.0, 0.0), (0, 0))],
)
def test_tokens_of_a_server_are_certified_by_the_error_of_each_view(bare, errors, unsure):
    """The baseline leads by 5 nats in the video; MACD's token needs its second view."""
    trace = answered([0, END], [0, END])
    record = replace(trace.backbone, log_p_error=errors[0], video_log_p_error=errors[1])
    plain = trace.answers["baseline"]
    tokens = tuple(replace(token, weights=StepWeights()) for token in plain.tokens)
    answers = trace.answers | {"baseline": replace(plain, rule="plain", tokens=tokens)}
    page = show(bare, replace(trace, backbone=record, answers=answers))
    for method, wanted in zip(("baseline", "macd"), unsure, strict=True):
        token = page.locator(f".mv-strip[data-method={method}] .mv-token").first
        assert token.evaluate("(e) => e.classList.contains('mv-unsure')") == bool(wanted)


def test_end_tokens_are_hidden_until_they_are_asked_for(bare):
    page = show(bare, answered([0, END], [2, END]))
    assert visible_tokens(page, "baseline") == ["yes"]
    assert visible_tokens(page, "macd") == ["dog"]
    page.locator(".mv-root").focus()
    page.keyboard.press("j")
    assert page.evaluate("window.viewer.state.token") == 0  # the keys pass over it
    page.get_by_role("button", name="End tokens").click()
    assert visible_tokens(page, "macd") == ["dog", "<end>"]
    page.locator(".mv-root").focus()
    page.keyboard.press("j")
    assert page.evaluate("window.viewer.state.token") == 1


def test_answers_that_differ_in_how_they_end_are_the_same(bare):
    page = show(bare, answered([0, END], [0, STOP]))
    assert page.locator(".mv-verdict").first.inner_text() == (
        "Both ways of decoding give the same answer."
    )
    assert page.locator(".mv-parts").count() == 0


def test_where_one_answer_ends_and_the_other_goes_on_the_end_is_shown(bare):
    page = show(bare, answered([0, END], [0, 3, 2, END]))
    said = page.locator(".mv-verdict").first.inner_text()
    assert said.startswith("The answers diverge at token 2: there Baseline ends.")
    assert visible_tokens(page, "baseline") == ["yes", "<end>"]
    assert visible_tokens(page, "macd") == ["yes", "␣and", "dog"]


@pytest.mark.parametrize(("baseline", "macd"), [([0, 3], [0, 3, 2]), ([0, 3, 2], [0, 3])])
def test_an_answer_that_is_the_beginning_of_the_other_is_not_the_same(bare, baseline, macd):
    page = show(bare, answered(baseline, macd))
    short = "Baseline" if len(baseline) < len(macd) else "MACD"
    said = page.locator(".mv-verdict").first.inner_text()
    assert said == f"The answers agree up to token 2, and {short} stops there."
    assert page.locator(".mv-parts").all_inner_texts()[0] == "dog"
    assert page.evaluate("window.viewer.state.token") == min(2, len(macd) - 1)
    assert page.locator(".mv-bars-name").inner_text().startswith("MACD: token ")

    page = show(bare, answered([0, 3], [0, 3, END]))  # no word differs
    assert page.locator(".mv-verdict").first.inner_text() == (
        "Both ways of decoding give the same answer."
    )


def locked(page, method="macd"):
    strip = page.locator(f".mv-strip[data-method={method}] .mv-token")
    marks = ["mv-locked" in t.get_attribute("class") for t in strip.all()]
    titles = ["Locked: no other token passes" in t.get_attribute("title") for t in strip.all()]
    assert marks == titles
    return marks


def test_tokens_that_no_contrast_can_change_are_locked(bare):
    trace = answered([0, END], [2, END])
    macd, alone = trace.answers["macd"], step(1, END)
    sure = replace(alone, others=(np.zeros_like(alone.base),), others_log_z=(0.0,))
    macd = replace(macd, tokens=(macd.tokens[0], sure), alpha=1.0, beta=0.1)
    trace = replace(trace, answers=trace.answers | {"macd": macd})
    page = show(bare, trace)
    assert (locked(page), locked(page, "baseline")) == ([False, True], [False, False])
    said = page.locator(".mv-mechanism").inner_text()
    assert "The one token of MACD's answer was open to contrast." in said  # the other one ends it
    page.locator(".mv-live input").nth(1).focus()
    page.keyboard.press("Home")  # without a cut every token is open
    assert locked(page) == [False, False]
    page.keyboard.press("End")
    assert locked(page) == [True, True]


def test_a_lazy_run_says_that_nothing_was_open(bare):
    trace = answered([0, END], [0, END])
    tokens = tuple(step(i, t) for i, t in enumerate([0, END]))
    macd = replace(trace.answers["macd"], tokens=tokens, second_views=(), alpha=1.0, beta=0.1)
    options = replace(trace.options, lazy=True)
    trace = replace(trace, options=options, answers=trace.answers | {"macd": macd})
    page = show(bare, replace(trace, steps=(), counterfactual=None, tracks=(), timings_ms={}))
    assert locked(page) == [True, True]
    said = page.locator(".mv-mechanism").inner_text()
    assert said == "No contrast can change the one token of MACD's answer."
    assert page.locator(".mv-live").is_hidden()
    assert page.get_by_text("This run was lazy").is_visible()


def test_a_moved_alpha_that_turns_an_end_token_says_what_becomes_of_the_answer(bare):
    alpha = "document.querySelector('.mv-live input')"
    page = show(bare, answered([0, END], [0, END]))
    page.evaluate(
        """(step) => { const { trace } = window.viewer.state;
        const [, last] = trace.answers.macd.tokens;
        last.base[last.candidates.indexOf(2)] = 4; // without contrast the answer would go on
        last.others[0][last.candidates.indexOf(2)] = 8;
        window.viewer.load(trace); }"""
    )
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")
    said = page.locator(".mv-verdict").first.inner_text()
    assert "the answer goes on with dog instead of ending" in said
    assert visible_tokens(page, "macd") == ["yes", "<end> → dog"]
    assert page.evaluate(f"{alpha}.value") == "0"

    page = show(bare, answered([0, 3, END], [0, 3, END]))
    page.evaluate(
        """() => { const { trace } = window.viewer.state;
        const [, second] = trace.answers.macd.tokens;
        second.base[second.candidates.indexOf(4)] = 4; // without contrast it would end here
        second.others[0][second.candidates.indexOf(4)] = 8;
        window.viewer.load(trace); }"""
    )
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")
    assert "the answer ends before token 2" in page.locator(".mv-verdict").first.inner_text()
    assert "␣and → ends here" in visible_tokens(page, "macd")


@pytest.mark.parametrize(("search", "lifted"), [("sample", 4), ("beam", 4), ("greedy", 9)])
def test_a_token_that_need_not_be_the_best_never_turns(bare, search, lifted):
    """Neither where the search chose otherwise, nor where another token was the best before."""
    trace = answered([0, END], [0, END])
    options = replace(trace.options, decode=replace(trace.options.decode, search=search))
    page = show(bare, replace(trace, options=options))
    page.evaluate(
        """(lifted) => { const { trace } = window.viewer.state;
        const [, last] = trace.answers.macd.tokens;
        last.base[last.candidates.indexOf(2)] = lifted;
        last.others[0][last.candidates.indexOf(2)] = 8;
        window.viewer.load(trace); }""",
        lifted,
    )
    same = "Both ways of decoding give the same answer."
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")
    assert page.locator(".mv-verdict").first.inner_text() == same
    assert page.locator(".mv-turned").count() == 0
    notes = " ".join(page.locator(".mv-bars-full > .mv-note").all_inner_texts())
    said = {"sample": "The answer was sampled at temperature 1 ", "beam": "found by beam search"}
    assert ("need not be those with the highest scores" in notes) == (search in said)
    assert said.get(search, "") in notes


def test_methods_go_by_their_titles_and_are_marked(bare):
    trace = traced(objects=2, steps=3)
    wrong = replace(trace.answers["vcd"], text="something else")
    trace = replace(trace, answers=trace.answers | {"vcd": wrong})
    page = show(bare, trace)
    rows = page.locator(".mv-methods tbody tr")
    titles = ["Baseline", "MACD", "VCD", "TCD", "Blank video"]
    assert rows.locator("th").all_inner_texts() == titles
    marks = [row.locator(".mv-right, .mv-wrong").get_attribute("class") for row in rows.all()]
    assert marks == [
        "mv-right" if a.text == trace.truth and name != "vcd" else "mv-wrong"
        for name, a in trace.answers.items()
    ]
    heads = page.locator(".mv-methods thead th").all_inner_texts()
    for name in ("ms added", "ms in all"):
        cells = rows.locator(f"td:nth-child({heads.index(name) + 1})").all_inner_texts()
        wanted = {"ms added": "ms", "ms in all": "total_ms"}[name]
        # half a millisecond is rounded up here, and to the even number in Python
        times = [getattr(a, wanted) for a in trace.answers.values()]
        assert cells == [str(math.floor(ms + 0.5)) for ms in times]
    options = page.locator(".mv-screens select").first.locator("option")
    assert options.all_inner_texts() == titles[1:]
    label = page.locator(".mv-screens canvas").first.get_attribute("aria-label")
    assert label.startswith("Second view of MACD, frame 1: the frames behind the masks")


@pytest.mark.long
def test_any_method_opens_in_the_viewer_with_its_own_view(bare):
    trace = traced(objects=2, steps=3)
    page = show(bare, trace)
    page.get_by_label("Ascent step", exact=True).fill("1")  # a step has no stored pixels
    pictures = set()
    for name in ("vcd", "tcd", "blank", "macd"):
        page.locator(f".mv-methods tr[data-method={name}] button").click()
        assert page.locator(f".mv-strip[data-method={name}] .mv-token").count()
        view = "Masked" if name == "macd" else "Second view"
        shown = page.get_by_role("group", name="View").get_by_role("button", name=view, exact=True)
        assert shown.get_attribute("aria-pressed") == "true", name
        pictures.add(page.evaluate("document.querySelector('.mv-stage canvas').toDataURL()"))
        pressed = page.locator(".mv-methods button[aria-pressed=true]")
        assert pressed.count() == 2  # the reference, and this one
    assert len(pictures) >= 3
    page.locator(".mv-methods tr[data-method=tcd] button").click()
    frames = trace.answers["tcd"].second_views[0].view.as_dict()["frames"]
    left_out = next(i for i in range(len(trace.frames)) if i not in frames)
    page.locator(".mv-transport .mv-scrub").first.fill(str(left_out))
    assert "is left out" in page.locator(".mv-stage .mv-note").first.inner_text()


@pytest.mark.parametrize(("first", "words"), [
    (2, "the frames, with noise of 75 grey levels from frame 3 on"),
    (None, "no semantic shift was found: the frames as they are"),
])  # fmt: skip
def test_the_frame_of_a_semantic_shift_is_named(bare, first, words):
    trace = traced(objects=2, steps=1)
    vcd = trace.answers["vcd"]
    record = ShiftView(75.0, first, "own", (0.9, 0.5, 0.9))
    shown = replace(vcd.second_views[0], view=record)
    ours = {"ssacd": replace(vcd, method="ssacd", second_views=(shown,))}
    page = show(bare, replace(trace, answers=trace.answers | ours))
    page.locator(".mv-methods tr[data-method=ssacd] button").click()
    assert words in page.locator(".mv-stage .mv-note").first.inner_text()


@pytest.mark.long
def test_any_linear_answer_is_decoded_on_and_others_say_why(bare):
    trace = traced(objects=2, steps=3)
    page = show(bare, trace)
    again = page.locator(".mv-live .mv-button")
    page.locator(".mv-methods tr[data-method=vcd] button").click()
    page.locator(".mv-live input").first.fill("4")
    assert again.is_enabled()
    again.click()
    (action,) = page.evaluate("window.sent")
    assert (action["do"], action["method"], action["alpha"]) == ("redecode", "vcd", 4)

    named = trace.answers | {"mine": replace(trace.answers["vcd"], method="mine")}
    page = show(bare, replace(trace, answers=named))
    page.locator(".mv-methods tr[data-method=mine] button").click()
    page.locator(".mv-live input").first.fill("4")
    assert again.is_disabled()
    reasons = page.locator(".mv-bars-full > .mv-note").all_inner_texts()
    assert any(r.startswith("No method here is called 'mine'") for r in reasons), reasons


def test_the_recorded_pictures_of_a_second_view_are_shown(bare):
    """Another program's pictures lie on the canvas while its second view is switched on."""
    frames = np.full((2, 24, 32, 3), 40, np.uint8)
    shown = frames.copy()
    shown[1] = (200, 30, 60)  # the first frame is shown as it is
    row = np.array([2.0, 1.9], np.float32)
    answers = [
        {"name": "plain", "tokens": [0], "base": [row]},
        {
            "name": "mine",
            "tokens": [0],
            "base": [row],
            "others": [[row]],
            "second_views": [{"shown": shown}],
        },
    ]
    trace = macd.record(
        frames, [0.0, 1.0], "Is it?", answers=answers, token_text={0: "yes", 1: "no"}
    )
    page = show(bare, unpack(pack(trace)))
    second = page.get_by_role("button", name="Second view")

    def middle():
        return page.evaluate(
            """async () => { await new Promise((r) => setTimeout(r, 50));
            const canvas = document.querySelector('.mv-stage canvas');
            const at = [canvas.width / 2, canvas.height / 2, 1, 1];
            return [...canvas.getContext('2d').getImageData(...at).data].slice(0, 3); }"""
        )

    def pictured(colour):
        for _ in range(100):  # a picture is drawn once it is decoded
            if np.abs(np.subtract(middle(), colour)).max() <= 3:
                return True
        return False

    assert second.is_enabled()
    page.locator(".mv-transport .mv-scrub").first.fill("1")
    assert pictured((40, 40, 40))
    second.click()
    assert pictured((200, 30, 60))
    page.locator(".mv-transport .mv-scrub").first.fill("0")
    assert pictured((40, 40, 40))


def test_measuring_leaves_alpha_and_beta_where_they_were_moved(bare):
    trace = answered([0, END], [2, END])
    page = show(bare, trace)
    alpha, beta = page.locator(".mv-live input").all()
    alpha.fill("3.2")
    beta.fill("0.4")
    shown = page.locator(".mv-live output")
    update = "(data) => window.viewer.update(data)"
    measured = replace(trace, timings_ms={**trace.timings_ms, "views": 1.0})
    running = {"state": status("views", 0.5, "measuring", running=True), "frames": False}
    for more in (running, {"frames": False}):
        page.evaluate(update, payload(measured, **more))
        assert shown.all_inner_texts() == ["3.20", "0.40"]
    again = replace(trace.answers["macd"], alpha=0.5)
    decoded = replace(trace, answers={**trace.answers, "macd": again})
    page.evaluate(update, payload(decoded))
    assert shown.first.inner_text() == "0.50"  # another answer comes with its own


def test_every_number_has_the_same_minus_sign(bare):
    trace = answered([0, 2, END], [2, 0, END])
    page = show(bare, trace)
    unfold_all(page)
    text = page.locator(".mv-root").inner_text()
    assert re.search("−[0-9]", text)
    assert re.findall(r"(?<![\w-])-[0-9.]+|e-[0-9]", text) == []
    numbers = "[-0.13, 0.001, -0.001, 3, -0].map((x) => text.fixed(x))"
    fixed = bare.evaluate(f"(text => {numbers})({bundle(JS / 'text.js')})")
    assert fixed == ["−0.13", "0.00", "0.00", "3.00", "0.00"]
    assert bare.evaluate(f"({bundle(JS / 'text.js')}).signed(-0.00012)") == "−1.2e−4"


def test_confidences_stand_beside_the_thresholds_of_the_detector(bare):
    trace = traced(objects=2, steps=3)
    page = show(bare, trace)
    assert page.locator(".mv-rail .mv-note").is_visible()
    told = page.locator(".mv-rail .mv-note").inner_text()
    assert "at least 50 %, the detector's threshold" in told
    assert "detections of 20 % or more" in told
    assert "%" in page.locator(".mv-object-name").first.inner_text()
    tracks = tuple(replace(t, confidence=1.0) for t in trace.tracks)
    show(bare, replace(trace, tracks=tracks))  # as regions without a class have it
    assert page.locator(".mv-rail .mv-note").is_hidden()
    assert "%" not in page.locator(".mv-object-name").first.inner_text()


def test_a_time_stands_beside_measure_where_every_map_was_timed(bare):
    page = show(bare, traced(objects=2, steps=3), costs={"evidence": {"gradient": 3000.0}})
    page.locator(".mv-evidence > summary").click()
    told = page.locator(".mv-evidence-ask .mv-note").first
    page.get_by_label("Attention", exact=True).wait_for()
    for kind in ("Attention", "Occlusion by object"):
        assert told.inner_text() == ""
        page.get_by_label(kind, exact=True).uncheck()
    assert told.inner_text() == "about 3 s"


def test_a_thought_is_folded_and_no_part_of_the_answers(bare):
    words = "First I look at <b>the dog</b>.\nThen I answer."
    trace = replace(traced(), thought=Thought(words, (1, 2, 3), True))
    page = show(bare, trace)
    fold = page.locator("details.mv-thought")
    verdict = page.locator(".mv-verdict").first.bounding_box()
    place = fold.bounding_box()
    assert verdict["y"] - place["y"] - place["height"] >= 6
    assert fold.locator("summary").inner_text() == "Thought before the answers: 3 tokens"
    assert not fold.locator("p").is_visible()
    fold.locator("summary").click()
    assert fold.locator("p").inner_text() == words  # as text: nothing in it is markup
    assert "First I look" not in page.locator(".mv-strips").inner_text()
    assert "First I look" not in page.locator(".mv-headline").inner_text()
    own = replace(trace.answers["macd"], thought=Thought("hm", (4,), False))
    page = show(bare, replace(trace, thought=None, answers=trace.answers | {"macd": own}))
    summary = page.locator("details.mv-thought summary").all_inner_texts()
    assert summary == ["Thought before the answer of MACD: 1 token, cut"]
    assert show(bare, traced()).locator("details.mv-thought").count() == 0


def test_device_time_and_memory_are_named(bare):
    trace = traced()
    gpu = replace(trace.backbone, device="cuda", device_name="NVIDIA X", dtype="bfloat16")
    timings = {"video": 12.25, "ascent": 340.0}
    page = show(bare, replace(trace, backbone=gpu, timings_ms=timings, peak_memory_mb=512.0))
    fold = page.locator("details.mv-took")
    assert not fold.locator("dl").is_visible()
    fold.locator("summary").click()
    pairs = zip(*(fold.locator(tag).all_inner_texts() for tag in ("dt", "dd")), strict=True)
    assert dict(pairs) == {
        "device": "cuda (NVIDIA X), bfloat16", "video": "12.2 ms",
        "ascent": "340 ms", "memory": "peak memory of the GPU 512 MB",
    }  # fmt: skip


def test_the_bars_write_exact_shares_and_end_at_the_last_token(bare):
    show(bare, answered([0, 2], [1, 2], other=0))
    tokens = bare.locator(".mv-strip[data-method=macd] .mv-token")
    after = bare.locator(".mv-bars-head button").last
    tokens.first.click()
    told = bare.locator(".mv-bars-score .mv-bar-best").get_attribute("aria-label")
    assert "%" in told
    assert "≤" not in told
    assert after.is_enabled()
    after.click()
    assert tokens.nth(1).get_attribute("aria-pressed") == "true"
    assert after.is_disabled()


def test_bars_are_as_long_as_what_they_say_and_show_what_either_view_finds_likeliest(bare):
    """Of eight candidates the best three of the video and the best two of the masked video."""
    base = np.linspace(4, 0, 8, dtype=np.float32)
    other, ids, names = base[::-1].copy(), np.arange(8), tuple("abcdefgh")
    one = TokenStep(0, 0, "a", ids, names, base, log_partition(base), (other,),
                    (log_partition(other),))  # fmt: skip
    trace = answered([0], [0])
    answers = trace.answers | {"macd": replace(trace.answers["macd"], tokens=(one,))}
    show(bare, replace(trace, answers=answers))
    bare.locator(".mv-strip[data-method=macd] .mv-token").first.click()
    for kind, logits in (("video", base), ("masked", other)):
        shares = np.exp(logits - log_partition(logits))
        bars = bare.locator(f".mv-bars-{kind} li")
        assert bars.locator(".mv-bar-name").all_inner_texts() == list("abcgh")
        for at, bar in zip("abcgh", bars.all(), strict=True):
            share = float(shares["abcdefgh".index(at)])
            assert (
                bar.locator(".mv-bar-value")
                .inner_text()
                .replace("\N{NO-BREAK SPACE}", " ")
                .startswith(f"{100 * share:.1f} %")
            )
            width = bar.locator(".mv-bar-fill").evaluate(
                "fill => fill.getBoundingClientRect().width"
                " / fill.parentElement.getBoundingClientRect().width"
            )
            assert width == pytest.approx(share, abs=0.01)
