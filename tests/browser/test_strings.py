# ruff: noqa: E501 — sentences stand whole
"""Every sentence of the viewer, case by case: what it says of given values."""

from typing import Any

import pytest

from macd_studio.viewer import JS, bundle

AT = {"alpha": 2, "beta": 0.1}
GREEDY = {"search": "greedy", "temperature": 1, "top_p": 0.9}
SAMPLED = {"search": "sample", "temperature": 1.5, "top_p": 0.9}


def step(others=1, weights=None, repeats=None):
    return {
        "index": 1, "others": [[0]] * others, "repeats": repeats,
        "weights": None if weights is None else {"base": 2, "others": weights},
    }  # fmt: skip


def at(frame=0, token=0, drawable=True):
    return {"frame": frame, "token": token, "drawable": drawable}


def answer(method="macd", rule="linear"):
    return {"method": method, "rule": rule}


STRENGTHS = {"kept": 0, "partly masked": 0.4, "masked": 1}
LEVELS = [{"value": value, "name": name} for name, value in STRENGTHS.items()]
ANY_BETWEEN = [LEVELS[0], {"value": None, "name": "partly masked"}, LEVELS[2]]


TRACKS = [{"id": 1, "label": "dog"}, {"id": 2, "label": "cat"}, {"id": 4, "label": "bus"}]
TRACE = {
    "tracks": TRACKS, "levels": LEVELS, "r0": 0.4, "groups": [[0, 1], [2, 3]], "times": [0, 1, 2, 3]
}  # fmt: skip
EACH = [{"track": t, "box": None, "groups": [g, g]} for t in (1, None) for g in (0, 1)]
PIECES = {"pieces": EACH}


BY_HAND = {
    "final": {
        "level": [1, 1, 0], "frame_level": [0, 0], "by_hand": [False, True, False],
        "frame_by_hand": [True, False],
    }
}  # fmt: skip


def smallest(pieces, lower):
    found = {
        "pieces": pieces, "lower": lower, "alike": 2, "given": pieces and {"answer": "no", "shown": []},
    }  # fmt: skip
    return PIECES | {"keep": found, "remove": found, "whole": {"answer": "yes"}}


def masked(level, frames=(0, 0)):
    return [TRACE | {"final": {"level": level, "frame_level": list(frames)}}]


def moves(method, lost):
    changes = [{"text": text, "lost": size} for text, size in lost.items()]
    return [{"token": 0, "method": method, "changes": changes}]


NAMED = ("person", "person", "tv", "bus", "chair", "chair", "knife", "bus", "chair", "chair")


def crowd(level):
    tracks = [{"id": k + 1, "label": label} for k, label in enumerate(NAMED)]
    return [TRACE | {"tracks": tracks, "final": {"level": level, "frame_level": [0, 0]}}]


CELLS = [{"id": k + 1, "label": f"row {k // 2 + 1}, column {k % 2 + 1}"} for k in range(6)]
ONE_FRAME = {"tracks": CELLS, "groups": [[0]], "times": [0]}
CROWDS = [
    ([1, 1, 0, 0, 1, 1, 0, 0, 1, 1], "Masked: persons 1 and 2, chairs 5–6 and 9–10."),
    ([1, 0, 1, 0.4, 0, 0, 0, 0.4, 0, 0], "Masked: person 1, tv 3; partly masked: buses 4 and 8."),
    ([0, 0, 0, 0, 1, 1, 1, 0, 0, 1], "Masked: chairs 5–6 and 10, knife 7."),
]


def at_step(level, loss, ended):
    return {"level": level, "strength": [1.0, 0.0, 0.5], "loss": loss, "ended": ended}


def seen(method, kind, **what):
    """An answer that is contrasted with a view of a kind."""
    view = {"kind": kind} | what
    return {"method": method, "title": method.upper(), "second_views": [{"view": view}]}


def knocked(after, **what):
    one = {"track": 1, "box": None, "layers": [2, 5], "tokens": 9, "before": "yes", "after": after,
           "score": [1.5, -0.5], "probability": [0.75, 0.25]}  # fmt: skip
    return one | what


PARTNERS = moves("pair", {"x": 1})[0] | {"partner": True}
CASES: dict[str, Any] = {
    "excerpts": [
        ([["yes", "no"]], ["yes", "no"]),
        ([["word " * 30, "word " * 20 + "other"]],
         ["… " + "word " * 16, "… " + "word " * 6 + "other"]),
        ([["a " * 60, "b " * 60]], ["a " * 44 + "a …", "b " * 44 + "b …"]),
    ],
    "changedTokens": [
        ([[], 5], "The contrast changed none of the 5 tokens."),
        ([[0, 3], 5], "The contrast changed 2 of the 5 tokens: 1 and 4."),
        ([list(range(10)), 20], "The contrast changed 10 of the 20 tokens: 1, 2, 3, 4, 5, 6, 7, 8 and 2 more."),
    ],
    "candidatesNote": [
        ([answer(), step(), AT, GREEDY], "Token 2: score = (1+α)·logit(V) − α·logit(V_d), α 2, β 0.1"),
        ([answer("vcd", "mean"), step(2, [-1, 0.5]), AT, GREEDY],
         "Token 2: score = 2.000·logit(V) − 1.000·logit(V′) + 0.500·logit(V′′), rule mean"),
        ([answer("baseline", "plain"), step(0, repeats={"penalty": 1.1}), AT, GREEDY],
         "Token 2 of the baseline: greedy on the video as it is, then the model's repetition penalty 1.1"
         " on tokens of the prompt and the answer so far"),
        ([answer("olm", "head"), step(0), AT, GREEDY], "Token 2 of olm: the video as it is under the rule head"),
        ([answer("olm", "plain"), step(0), AT, GREEDY], "Token 2 of olm: greedy on the video as it is"),
        ([answer("baseline", "plain"), step(0), AT, GREEDY | {"search": "beam"}],
         "Token 2 of the baseline: the video as it is. The answer was found by beam search: its tokens"
         " need not be those with the highest scores."),
    ],
    "searchNote": [
        ([GREEDY], ""),
        ([GREEDY | {"search": "beam"}],
         "The answer was found by beam search: its tokens need not be those with the highest scores."),
        ([SAMPLED],
         "The answer was sampled at temperature 1.5 with top-p 0.9: its tokens need not be those with"
         " the highest scores. The probabilities shown are at temperature 1 without top-p."),
        ([SAMPLED | {"search": "vote", "temperature": 1, "top_p": 1}],
         "The answer won a vote of samples at temperature 1 with top-p 1: its tokens need not be those"
         " with the highest scores."),
    ],
    "flipText": [
        ([0, 0.1, [{"alpha": 0, "row": {"text": "no"}}], 20, True],
         "Token 1 with β 0.1: no at α 0, and no α up to 20 changes it."),
        ([0, 0, [{"alpha": 0, "row": {"text": "no"}}, {"alpha": 1.5, "row": {"text": "yes"}},
                 {"alpha": 3, "row": {"text": "x"}}], 20, True],
         "Token 1 with β 0: no at α 0, yes from α 1.500, x from α 3.000."),
        ([0, 0.1, [{"alpha": 0, "row": {"text": "no"}}], 20, False],
         "Token 1 with β 0.1, the highest score: no at α 0, and no α up to 20 changes it."),
    ],
    "viewText": [
        ([{"kind": "masks"}, at()], "the frames behind the masks, as the model read them"),
        ([{"kind": "blank"}, at(drawable=False)],
         "a video without content (its pixels are not stored in this trace)"),
        ([{"kind": "no-video"}, at(drawable=False)], "the question alone, without a video"),
        ([{"kind": "noise"}, at()], "the noise that the model read, cut off at black and white"),
        ([{"kind": "noise", "clamped": 0.125}, at()],
         "the noise as the server read it, in 8 bits: 12.5 % of its values were clamped to black or white"),
        ([{"kind": "frames", "frames": [0, 2]}, at()], "sees only frames 1, 3"),
        ([{"kind": "frames", "frames": [0, 2]}, at(frame=1)], "frame 2 is left out · sees only frames 1, 3"),
        ([{"kind": "pruned", "layer": 3, "ratio": 0.5}, at(token=1)],
         "token 2: all pixels, but from decoder layer 3 on only 50.0 % of the vision tokens"),
        ([{"kind": "own", "caption": "blurred"}, at()], "blurred"),
    ],
    "comparison": [
        (["Yes.", "yes"], "agrees"),
        (["no", "Yes"], "flipped"),
        (["a dog", "yes"], "changed"),
    ],
    "listed": [([[]], ""), ([["a"]], "a"), ([["a", "b"]], "a and b"), ([["a", "b", "c"]], "a, b and c")],
    "groupName": [([[0, 1, 2]], "frames 1–3"), ([[4]], "frame 5")],
    "levelIndex": [([LEVELS, 0], 0), ([LEVELS, 0.4], 1), ([LEVELS, 0.7], 1), ([LEVELS, 1], 2)],
    "levelName": [
        ([LEVELS, None], "not yet known"), ([LEVELS, 0], "kept"), ([LEVELS, 1], "masked"),
        ([LEVELS, 0.4], "partly masked"), ([ANY_BETWEEN, 0.9], "partly masked"),
    ],
    "maskedText": [
        ([TRACE | {"final": None}], ""), (masked([0.4, 0.6, 0]), "The dog and the cat were partly masked."),
        *((crowd(level), expected) for level, expected in CROWDS),
        ([TRACE | ONE_FRAME | {"final": {"level": [1, 1, 0, 0, 1, 1], "frame_level": [1]}}],
         "Masked: cells 1–2 and 5–6; what is outside the objects was masked."),
        (masked([1, 0, 0], (0.4, 0)),
         "The dog was masked; outside the objects, 2 of 4 frames were partly masked."),
        (masked([1, 0, 0], (0.4, 1)),
         "The dog was masked; outside the objects, 2 of 4 frames were masked and 2 of 4 frames were"
         " partly masked."),
        ([TRACE | {"groups": [[0], [1, 2, 3]], "final": {"level": [0, 0, 0], "frame_level": [1, 0]}}],
         "Outside the objects, 1 of 4 frames was masked."),
        ([TRACE | ONE_FRAME | {"final": {"level": [0] * 6, "frame_level": [0.4]}}],
         "What is outside the objects was partly masked."),
        ([TRACE | BY_HAND], "The dog was masked; 2 cat set to 1 by hand; frames 1–2 set to 0 by hand."),
        ([TRACE | BY_HAND | {"edits": [{"kind": "drop"}, {"kind": "label"}, {"kind": "level"}]}],
         "The dog was masked; 2 cat set to 1 by hand; frames 1–2 set to 0 by hand. The objects were"
         " changed by hand (1 change)."),
    ],
    "logitsText": [
        (moves("macd", {"a b": 1.25}), "Under the mask “a␣b” loses 1.3 logits."),
        (moves("vcd", {"x": 1, "y": -2}),
         "Under its second view “x” loses 1.0 logits and “y” gains 2.0 logits."),
        ([PARTNERS],
         "With the partner clip in this one's place “x” loses 1.0 logits."),
        (moves("macd", {"x": 0.0384, "y": -3e-9, "z": 0}),
         "Under the mask “x” loses 0.04 logits, “y” gains 3e−9 logits and “z” keeps its logit."),
    ],
    "withoutText": [
        (["the dog", True], "With the dog hidden, the model says: "),
        (["the dog", False], "With the dog hidden, the model's answer begins: "),
    ],
    "givenAlone": [(["VCD", True], "Given the second view of VCD alone, the model says: ")],
    "aboutPartner": [
        (["the partner clip b.mp4", True], "About the partner clip b.mp4, the model says: "),
        (["", False], "About the partner clip, the model's answer begins: "),
    ],
    "maskedThings": [
        ([["the dog"], 1, 0, False, True], "the dog"),
        ([["the dog", "the cat"], 2, 1, False, True], "the dog, the cat and the background of 1 frame"),
        ([["dogs 1 and 2, cats 3 and 4"], 4, 2, False, True], "4 objects and the background of 2 frames"),
        ([["dogs 1 and 2"], 2, 0, False, True], "dogs 1 and 2"),
        ([[], 0, 3, False, False], "3 frames"),
        ([[], 0, 3, False, True], "the background of 3 frames"),
        ([["the dog"], 1, 1, True, True], "the dog and the background"),
    ],
    "openQuestion": [
        ([False, True, True, None], "other choices of objects were not measured"),
        ([True, False, True, [3, 8]], "random masks were not measured"),
        ([True, True, False, [3, 8]], "which constant does the same is not known"),
        ([True, True, True, [3, 8]], "MACD's objects rank 3 of 8"),
        ([True, True, True, None], "MACD masks objects in part, or others than were measured, so it has no rank"),
    ],
    "replyText": [
        ([{"reply": "yes", "reason": "A.", "measured": True}], ["Yes.", "A."]),
        ([{"reply": "no", "reason": "B.", "measured": False}], ["No.", "B."]),
        ([{"reply": "cannot be said", "reason": "C.", "measured": True}], ["It cannot be said.", "C."]),
        ([{"reply": "cannot be said", "reason": "D.", "measured": False}], ["It cannot be said yet.", "D."]),
    ],
    "gradientReply": [
        ([{"verdict": "supported: x"}], ["Yes.", "Supported: x."]),
        ([{"verdict": "supported for what was hidden: x"}], ["In part.", "Supported for what was hidden: x."]),
        ([{"verdict": "partly supported: x"}], ["In part.", "Partly supported: x."]),
        ([{"verdict": "not supported: x"}], ["No.", "Not supported: x."]),
        ([{"verdict": "nothing was hidden; x"}], ["It cannot be said.", "Nothing was hidden; x."]),
    ],
    "tryEveryChoice": [
        ([3, 6, 20, None], "Try all 8 combinations of 3 objects (20 passes of the model)"),
        ([9, 6, 146, 3000], "Try all 64 combinations of 6 of the 9 objects (146 passes of the model, about 3.0 s)"),
    ],
    "choicesReply": [
        ([{"subsets": [{"frames": False, "flips": False}] * 4}],
         ["No.", "None of the 4 combinations that were tried changes it."]),
        ([{"subsets": [{"frames": f, "flips": f} for f in (False, True)]}],
         ["Yes.", "1 of the 2 combinations that were tried, with and without MACD's frame mask, changes it."]),
        ([{"subsets": [{"frames": True, "flips": f} for f in (True, True, False)]}],
         ["Yes.", "2 of the 3 combinations that were tried change it."]),
    ],
    "meaningText": [
        (["MACD", True, "", None, None], "Nothing was masked, so both answers are the same."),
        (["MACD", False, "", None, None], ""),
        (["MACD", True, "the dog", None, None], "MACD does not change the answer."),
        (["MACD", True, "the dog", True, None], "The answer does not depend on the dog: hidden or not, the model says the same."),
        (["MACD", True, "the dog", False, None], "MACD keeps the answer; with these parts hidden, the model gives another one."),
        (["MACD", True, "the dog", False, None, False], "MACD keeps the wrong answer; with these parts hidden, the model gives another one."),
        (["VCD", False, "the dog", False, None], "VCD changes the answer."),
        (["VCD", False, "the dog", False, None, True], "VCD corrects the answer."),
        (["VCD", False, "the dog", False, None, False], "VCD spoils the answer."),
        (["VCD", False, "the dog", False, None, False, False], "VCD changes the answer."),
        (["MACD", False, "the dog", False, {"reply": "yes", "first": "x", "measured": True}], "MACD changes the answer, and which objects it masks matters: at most a third of other masks do the same."),
        (["MACD", False, "the dog", False, {"reply": "no", "first": "20 of 20 random masks of the same area do the same", "measured": True}],
         "MACD changes the answer, but which objects it masks did not matter: 20 of 20 random masks of the same area do the same."),
        (["MACD", False, "the dog", False, {"reply": "cannot be said", "first": "6 of 20 do", "measured": True}],
         "MACD changes the answer. Whether it matters which objects it masks cannot be said: 6 of 20 do."),
        (["MACD", False, "the dog", False, {"reply": "cannot be said", "first": "", "measured": False}],
         "MACD changes the answer. Whether it matters which objects it masks was not measured."),
    ],
    "lossNote": [
        ([{"base": 2, "masked": 1.5, "byHand": False}],
         "This mask did not raise the query loss (2.000 without it, 1.500 with it),"
         " although the ascent climbs it."),
        ([{"base": 2, "masked": 1.5, "byHand": True}],
         "This mask, which was set by hand in part, does not raise the query loss (2.000"
         " without it, 1.500 with it)."),
    ],
    "tauText": [
        ([0.75, 0, False, None], "above r0 = 0.75 a mask becomes 1, below it 0, however little: only the sign decides"),
        ([0.75, 0.1, True, 0.25],
         "≈ approximate gradient · within τ = 0.1 of r0 = 0.75, the band, a mask stays partly masked"
         " · of the frames at most 25 % stay masked: those of the largest strengths"),
    ],
    "switchText": [
        ([LEVELS, 0.4, 1, 2, 3], "partly masked → masked before step 3"),
        ([LEVELS, 0.4, 0, 3, 3], "partly masked → kept at the end"),
    ],
    "framesMasked": [
        ([TRACE, [1, 0]], "2 of 4 frames"), ([TRACE, [0, 0]], "0 of 4 frames"),
        ([TRACE, [0.4, 0]], "2 of 4 partly"), ([TRACE, [0.4, 1]], "2 of 4, 2 partly"),
        ([ONE_FRAME | {"levels": LEVELS}, [0.4]], "partly masked"),
        ([ONE_FRAME | {"levels": LEVELS}, [1]], "masked"), ([ONE_FRAME | {"levels": LEVELS}, [0]], "kept"),
    ],
    "stepText": [
        ([TRACE, at_step([1, 0, 0.4], 2, True)],
         "query loss 2.000 given V_d · masked: 1 dog +0.600 · partly masked: 4 bus +0.100 ·"
         " kept: 2 cat −0.400 (strength − r0)"),
        ([TRACE, at_step([1, 1, 1], 2, False)],
         "query loss 2.000 at these strengths · masked: 1 dog +0.600, 2 cat −0.400 and 4 bus +0.100"
         " (strength − r0)"),
        ([TRACE | {"tracks": []}, at_step([], None, True)], ""),
    ],
    "controlChoice": [
        ([{"same": True, "text": "a b"}, True], "the same answer"),
        ([{"same": True, "text": "a b"}, False], "a␣b"),
        ([{"same": False, "text": "a b"}, True], "a␣b"),
    ],
    "choiceName": [
        ([[2, 1], TRACKS], "{1 dog, 2 cat}"), ([[2], TRACKS], "{2 cat}"),
        ([[], TRACKS], "{}, no object"),
    ],
    "choiceText": [
        ([{"flips": True, "margin": 1.25, "answer": "yes"}, "{2 cat}", 3, 16, "no", []],
         "{2 cat}: the baseline's “no” becomes “yes”. Margin +1.25, rank 3 of 16."),
        ([{"flips": False, "margin": None, "answer": None}, "{2 cat}", 16, 16, "no", ["MACD", "asked"]],
         "{2 cat}, MACD's choice, what is asked about: the answer stays “no”. No other token passes the"
         " cut, rank 16 of 16."),
        ([{"objects": [2], "flips": False, "margin": None, "answer": None}, "{2 cat}", 1, 2, "no", ["measured"]],
         "{2 cat}, the largest measured effect: the answer stays “no”. No other token passes the cut, rank 1 of 2."),
        ([{"objects": [1, 2], "flips": False, "margin": 1, "answer": None}, "{2 cat}", 1, 2, "no", ["measured"]],
         "{2 cat}, the largest measured effects: the answer stays “no”. Margin +1.00, rank 1 of 2."),
        ([{"flips": True, "margin": 1, "answer": "y" * 61}, "{2 cat}", 1, 2, "n" * 60, []],
         f"{{2 cat}}: the baseline's “{'n' * 60}” becomes “{'y' * 59}…”. Margin +1.00, rank 1 of 2."),
    ],
    "knockOutText": [
        ([TRACKS, knocked("yes"), False],
         ["Without 1 dog: ", "“yes” stays the same; this token's probability 75.0 % → 25.0 %, its logit 1.50"
                             " → −0.50 (9 vision tokens, layers 2–5)."]),
        ([TRACKS, knocked("no", box=[0, 0, 1, 1], layers=[3, 3]), True],
         ["Without region 0, 0, 1, 1: ", "“yes” → “no”; this token's probability 75.0 % → 25.0 %, its lead"
                                         " 1.50 → −0.50 (9 vision tokens, layer 3)."]),
        ([TRACKS, knocked("yes", track=9, layers=[3, 3]), False],
         ["Without object 9: ", "“yes” stays the same; this token's probability 75.0 % → 25.0 %, its logit"
                                " 1.50 → −0.50 (9 vision tokens, layer 3)."]),
    ],
    "noEnough": [
        ([None, False, True, "yes", TRACE],
         "The model's own answer, the baseline's, has no token here."),
        (["a b", True, True, "yes", TRACE],
         "For a␣b in the model's own answer, “yes”. Dimmed is what is hidden from the model."),
        (["x", False, True, "yes", ONE_FRAME],
         "The fewest objects that alone make the model say x in the model's own answer, “yes”."),
        (["x", False, True, "yes", TRACE],
         "The fewest objects and frames that alone make the model say x in the model's own answer, “yes”."),
        (["x", False, False, "yes", TRACE], "Nothing was looked for of x in the model's own answer, “yes”."),
    ],
    "piecesText": [
        ([[0, 1, 3], PIECES, TRACE], "1 dog in frames 1–4; background in frames 3–4"),
        ([[], PIECES, TRACE], "nothing of the video"),
        ([[0, 2], PIECES, ONE_FRAME], "1 row 1, column 1; background"), ([[], PIECES, ONE_FRAME], "nothing of the picture"),
        ([[0, 2], {"pieces": [*PIECES["pieces"][:1], {}, {"track": 1, "box": None, "groups": [2, 2]}]},
          TRACE | {"groups": [[0, 1], [2, 3], [4]]}], "1 dog in frames 1–2 and frame 5"),
    ],
    "smallestText": [
        (["keep", smallest([0], 1), TRACE],
         "Enough for “yes”: 1 dog in frames 1–2 (certified: no smaller set does it, 2 of this size do)."),
        (["remove", smallest([0, 1], 1), TRACE],
         "Without 1 dog in frames 1–4 it says “no” (an upper bound: the smallest has 1 to 2 pieces)."),
        (["keep", smallest(None, 5), TRACE], "No set of pieces keeps the answer with this margin: certified."),
        (["remove", smallest(None, 2), TRACE],
         "Nothing that is hidden changes the answer, as far as sets of fewer than 2 pieces show."),
        (["keep", {"keep": None, "pieces": []}, TRACE], ""),
    ],
    "evidenceChecks": [
        ([{"agreement": [], "maps": [{"kind": "a"}]}, "a", [{"sanity": 0.5}, None], None],
         ["Rank correlation with the map for a head of random weights: +0.50 under V, not known under V_d."
          " Near 1, the map does not depend on the token."]),
        ([{"agreement": [{"first": "a", "second": "b", "view": "video", "correlation": 0.25},
                         {"first": "b", "second": "a", "view": "counterfactual", "correlation": None},
                         {"first": "b", "second": "c", "view": "video", "correlation": 1}],
           "maps": [{"kind": "occlusion"}]},
          "a", [{"sanity": None}, {"sanity": -1}], "NAMES"],
         ["Rank correlation with the map for a head of random weights: not known under V, −1.00 under V_d."
          " Near 1, the map does not depend on the token.",
          "Agreement (rank correlation of magnitudes): with bee +0.25 under V, not known under V_d."]),
        *(([{"agreement": [], "maps": [{"kind": k} for k in ("attention", *other)]}, "attention",
            [{"sanity": 1}, {"sanity": 1}], None],
           ["Attention says where the model looks before this token, not what the token rests on."
            f" {words}",
            "Rank correlation with the map for a head of random weights: +1.00 under V, +1.00 under"
            " V_d. Near 1, the map does not depend on the token."])
          for other, words in (
              ((), "Tick “Occlusion by object” to measure what hiding each object changes."),
              (("occlusion",), "The last column is measured: the share of the changes in this token's"
                               " number when each object alone is hidden."))),
    ],
    "confidenceNote": [
        ([{"thresholds": {"starts": 0.5, "continues": 0.2}, "times": [0, 1]}],
         "Beside each name stands the mean confidence of its detections. A track needs one of at least 50 %,"
         " the detector's threshold, and goes on with detections of 20 % or more."),
        ([{"thresholds": {"starts": 0.5, "continues": 0.2}, "times": [0]}],
         "Beside each name stands the confidence of its detection, at least 50 %, the detector's threshold."),
    ],
    "editText": [
        ([TRACE, {"kind": "level", "track": 2, "level": 1}], "2 cat: level 1"),
        ([TRACE, {"kind": "frames", "track": 1, "level": 0.4}], "frames 3, 4: level 0.4"),
        ([ONE_FRAME, {"kind": "frames", "track": 0, "level": 1}], "outside the objects: level 1"),
        ([TRACE, {"kind": "drop", "track": 9}], "object 9 dropped"),
        ([TRACE, {"kind": "merge", "track": 1, "other": 9}], "object 9 merged into 1 dog"),
        ([TRACE, {"kind": "label", "track": 1, "label": "wolf"}], "object 1 called wolf"),
        ([TRACE, {"kind": "brush", "track": 1, "erase": True}], "1 dog: mask erased by hand"),
        ([TRACE, {"kind": "brush", "track": 9, "erase": False}], "object 9: mask drawn by hand"),
        ([TRACE, {"kind": "add", "label": "owl"}], "added owl"),
    ],
    "occlusionVerdict": [
        ([[1, -1], [0.5, -0.1], [1, 0]],
         "supported: for every object the loss moves the way its gradient says"),
        ([[1, 1], [0.5, -0.1], [0, 0.75]],
         "nothing was hidden; for 1 of 2 objects the loss moves the way their gradient says"),
        ([[1, 1], [0.5, -0.1], [1, 0]],
         "supported for what was hidden: the loss rises without it; for 1 of 2 objects the loss"
         " moves the way their gradient says"),
        ([[1, 1, 1], [-0.5, 0.1, 0.2], [1, 0, 0]],
         "partly supported: for 2 of 3 objects the loss moves the way their gradient says"),
        ([[1], [-0.5], [1]],
         "not supported: for the one object the loss does not move the way its gradient says"),
    ],
}  # fmt: skip
"""Function → its arguments and what it says."""


@pytest.fixture(scope="module")
def said(bare):
    """Function → what it gives for the arguments of each of its cases."""
    given = {name: [arguments for arguments, _ in cases] for name, cases in CASES.items()}
    script = """(given) => {
      const strings = %s, names = new Map([["b", "Bee"]]);
      const capital = (text) => text.toUpperCase();
      const own = (value) => (value === "NAMES" ? names : value === "TITLED" ? capital : value);
      const ask = (name) => given[name].map((all) => strings[name](...all.map(own)));
      return Object.fromEntries(Object.keys(given).map((name) => [name, ask(name)]));
    }"""
    return bare.evaluate(
        script % bundle(*sorted((JS / "strings").glob("*.js")), JS / "happened.js"), given
    )


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_says_what_is_so(said, name):
    assert said[name] == [expected for _, expected in CASES[name]]
