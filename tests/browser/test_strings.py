# ruff: noqa: E501 — sentences stand whole
"""Every sentence of the viewer, case by case: what it says of given values."""

import pytest

from macd_studio.viewer import JS, bundle
from tests.browser.answer_sentences import ANSWERS
from tests.browser.level_sentences import ANY_BETWEEN, LEVELS, OF_LEVELS
from tests.browser.run_sentences import OF_RUNS

pytestmark = pytest.mark.browser

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


def report(index, same, **named):
    outcomes = [{"name": "random", "same": one} for one in same]
    outcomes += [{"name": name.replace("_", "-"), "same": one} for name, one in named.items()]
    return [{"index": index, "outcomes": outcomes, "macd": "yes", "constant": 1.5}]


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
RULE = "Without any mask, adding +1.50 to the logit of “yes” is enough."
CASES = ANSWERS | OF_LEVELS | OF_RUNS | {
    "listed": [([[]], ""), ([["a"]], "a"), ([["a", "b"]], "a and b"), ([["a", "b", "c"]], "a, b and c")],
    "capitalized": [(["it is"], "It is"), ([""], "")],
    "trackName": [([TRACKS[0]], "1 dog")],
    "hasConfidences": [
        ([{"tracks": [{"confidence": 1}, {"confidence": 0.5}]}], True),
        ([{"tracks": [{"confidence": 1}]}], False),
    ],
    "frameNumbers": [([[0, 1]], "1, 2")],
    "groupName": [([[0, 1, 2]], "frames 1–3"), ([[4]], "frame 5")],
    "seconds": [([1250], "1.3 s")],
    "levelIndex": [([LEVELS, 0], 0), ([LEVELS, 0.4], 1), ([LEVELS, 0.7], 1), ([LEVELS, 1], 2)],
    "levelName": [
        ([LEVELS, None], "not yet known"), ([LEVELS, 0], "kept"), ([LEVELS, 1], "masked"),
        ([LEVELS, 0.4], "partly masked"), ([ANY_BETWEEN, 0.9], "partly masked"),
    ],
    "levelText": [
        ([LEVELS, None, False], "…"), ([LEVELS, 0.4, False], "0.4 partly masked"),
        ([LEVELS, 1, True], "1 masked, set by hand"),
    ],
    "levelSign": [
        ([LEVELS, 0], "0"), ([LEVELS, 1], "r0 = 0.4"), ([LEVELS, 2], "1"), ([ANY_BETWEEN, 1], "0 < level < 1")
    ],
    "changeOf": [([2, 8], "Change 2 of 8 by hand: each is read and answered anew.")],
    "marginOfLevel": [
        ([None, 0.75], ""), ([0.7634, 0.75], "r − r0 = +0.013"), ([0.25, 0.75], "r − r0 = −0.500"),
    ],
    "stepLabel": [([0], "step 1:"), ([4], "step 5:")],
    "maskedText": [
        ([TRACE | {"final": None}], ""), (masked([0, 0, 0]), "Nothing was masked."),
        (masked([1, 0, 0.4]), "The dog was masked; the bus was partly masked."),
        (masked([1, 1, 0], (1, 0)),
         "The dog and the cat were masked; outside the objects, 2 of 4 frames were masked."),
        (masked([0.4, 0.6, 0]), "The dog and the cat were partly masked."),
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
    "purposeText": [
        ([TRACE, None], "What would the model say without these objects?"),
        ([TRACE | {"tracks": []}, None], "What would the model say without parts of the picture?"),
        ([TRACE, seen("macd", "masks")], "What would the model say without these objects?"),
        ([TRACE, seen("vcd", "noise")], "What would the model say under the second view of VCD?"),
        ([TRACE, seen("pair", "pair", caption="the partner clip b.mp4")],
         "What does the model say about the partner clip b.mp4?"),
        ([TRACE, seen("pair", "pair")], "What does the model say about the partner clip?"),
    ],
    "verdictText": [([True, "yes"], "right"), ([False, "yes"], "wrong: the true answer is yes")],
    "lossNote": [
        ([{"base": 2, "masked": 1.5, "byHand": False}],
         "This mask did not raise the query loss (2.000 with the video, 1.500 with the mask),"
         " although the ascent climbs it."),
        ([{"base": 2, "masked": 1.5, "byHand": True}],
         "This mask, which was set by hand in part, does not raise the query loss (2.000 with the video,"
         " 1.500 with the mask)."),
    ],
    "undetectedNote": [
        ([["owl"]], "No object is called “owl”: it was not detected, or is not there, so no mask can be"
                    " chosen for it."),
        ([["owl", "elk"]], "No objects are called “owl” and “elk”: they were not detected, or are not"
                           " there, so no masks can be chosen for them."),
    ],
    "lossText": [
        ([1, 2, TRACE], "1.000 given the video, 2.000 given the counterfactual (nats per token)."),
        ([1, 2, ONE_FRAME], "1.000 given the picture, 2.000 given the counterfactual (nats per token)."),
    ],
    "isPicture": [([ONE_FRAME], True), ([TRACE], False), ([{"times": [0.5]}], False)],
    "partName": [([[0], ONE_FRAME], "the picture"), ([[0], TRACE], "frame 1")],
    "confidenceNote": [
        ([{"starts": 0.25, "continues": 0.1}],
         "Beside each name stands the mean confidence of its detections. A track needs one of at least"
         " 25 %, the detector's threshold, and goes on with detections of 10 % or more.")
    ],
    "noObjects": [
        ([True, True], "No objects were found: only the frame mask is used."),
        ([False, True], "looking for objects …"),
        ([False, False], "The run ended before it had looked for objects."),
    ],
    "stepName": [
        ([0, 3, 2], "before step 1 of 3 · query loss 2.000"), ([3, 3, None], "end, after 3 steps"),
        ([1, 1, 1.25], "end, after 1 step · query loss 1.250"),
    ],
    "tauText": [
        ([0.75, 0.005, False], "band: within τ = 0.005 of r0 = 0.75"),
        ([0.75, 0, True], "≈ approximate gradient · r0 = 0.75, no dead band (τ = 0)"),
    ],
    "levelValue": [([0.75], "0.75"), ([1], "1"), ([0.12345], "0.123")],
    "levelKey": [([LEVELS, 1], "0.4 partly masked"), ([ANY_BETWEEN, 1], "between: partly masked")],
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
    "barsName": [
        ([{"title": "MACD", "tokens": [{"text": "a b"}, {"text": "c"}]}, 0, 1], "MACD: token 1 of 1, a␣b")
    ],
    "barLabel": [(["a", "12 %", False], "a: 12 %"), (["a", "12 %", True], "a: 12 %, the highest")],
    "stepText": [
        ([TRACE, at_step([1, 0, 0.4], 2, True)],
         "query loss 2.000 given V_d · masked: 1 dog +0.600 · partly masked: 4 bus +0.100 ·"
         " kept: 2 cat −0.400 (strength − r0)"),
        ([TRACE, at_step([1, 1, 1], 2, False)],
         "query loss 2.000 at these strengths · masked: 1 dog +0.600, 2 cat −0.400 and 4 bus +0.100"
         " (strength − r0)"),
        ([TRACE | {"tracks": []}, at_step([], None, True)], ""),
    ],
    "strengthSummary": [
        ([TRACE, [1, 0, 0.5]],
         "Strength by ascent step: 1 dog from 0.4 to 1.000, 2 cat from 0.4 to 0.000, 4 bus from 0.4 to 0.500."
         " Grey: frame groups. The level line is r0 = 0.4."),
        ([TRACE | {"tracks": []}, []],
         "Strength by ascent step: no objects. Grey: frame groups. The level line is r0 = 0.4."),
    ],
    "lossSummary": [
        ([[1, 2, 3], None],
         "Query loss by ascent step, given the masks at their strengths: from 1.000 to 3.000 nats per"
         " token."),
        ([[1, 2], 1.5],
         "Query loss by ascent step, given the masks at their strengths: from 1.000 to 2.000 nats per"
         " token; at the end, given V_d: 1.500."),
    ],
    "controlText": [
        (report(0, [True], reversed=False),
         "One random mask of the same area was drawn, and it chooses “yes”. The reversed gradient does not"
         f" choose “yes”. {RULE}"),
        (report(0, [True, False, False], blank=True, mask_all=True),
         "1 of the 3 random masks of the same area chooses “yes”, as MACD does. A blank video and masking"
         f" every object choose “yes”, as MACD does. {RULE}"),
        (report(None, [False, False, True], blank=False),
         "MACD's masks do not change the answer. 2 of the 3 random masks of the same area change it. A"
         " blank video changes it."),
        (report(None, [True], blank=True),
         "MACD's masks do not change the answer. One random mask of the same area was drawn, and it does"
         " not change it. A blank video does not change it."),
    ],
    "controlChoice": [
        ([{"same": True, "text": "a b"}, True], "the same answer"),
        ([{"same": True, "text": "a b"}, False], "a␣b"),
        ([{"same": False, "text": "a b"}, True], "a␣b"),
    ],
    "controlCost": [
        ([21, 2500], "21 control views in 2.5 s; each is decoded with MACD's α and β up to this token.")
    ],
    "compareWithRandom": [
        ([None], "Compare with random masks"), ([1500], "Compare with random masks (about 1.5 s)")
    ],
    "tryEveryChoice": [
        ([16, None], "Try every choice (16 views)"),
        ([16, 1500], "Try every choice (16 views, about 1.5 s)"),
    ],
    "choiceName": [
        ([[2, 1], TRACKS], "{1 dog, 2 cat}"), ([[2], TRACKS], "{2 cat}"),
        ([[], TRACKS], "{}, no object"),
    ],
    "marginText": [([None], "no other token"), ([-0.5], "−0.50")],
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
    "choicesCost": [
        ([{"subsets": [0, 0], "milliseconds": 300, "left_out": []}, TRACKS],
         "2 subsets in 0.3 s, each decoded with MACD's α and β."),
        ([{"subsets": [0, 0], "milliseconds": 300, "left_out": [2]}, TRACKS],
         "2 subsets in 0.3 s, each decoded with MACD's α and β. Never masked, as their measured effects"
         " are smaller: 2 cat."),
    ],
    "choiceMarks": [([{"measured": 3, "asked": 3, "enough": 1}, 3], ["measured", "asked"])],
    "choiceLevel": [([0], "0 objects"), ([1], "1 object"), ([2], "2 objects")],
    "occlusionNote": [
        ([None], "Natural logarithms; the answer is the baseline's."),
        ([-0.5], "Natural logarithms; the answer is the baseline's. Rank correlation of gradient and"
                 " measured change: −0.50."),
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
    "tokenName": [(["a b", 1, "MACD"], "a␣b, token 2 of MACD")],
    "evidenceText": [
        (["x", None, [1, -2]], "For x: its logit is 1.00 given V and −2.00 given V_d."),
        (["x", "a b", [1, 2]], "For x: its lead over a␣b is 1.00 given V and 2.00 given V_d."),
    ],
    "noEvidence": [
        (["", True, "z"], "Choose a token."), (["x", True, "z"], "Nothing was measured of x yet."),
        (["x", False, "z"], "The trace holds nothing of x. Measured were: z."),
    ],
    "measuredTokens": [
        ([{"evidence": [{"target": {"text": "x", "index": 0, "answer": "macd"}},
                        {"target": {"text": "y", "index": 1, "answer": "gone"}}],
           "answers": {"macd": {"title": "MACD"}}}],
         "x (token 1 of MACD), y (token 2 of gone)")
    ],
    "lensName": [(["a b"], "probability of a␣b")],
    "costText": [([20], "about 0.1 s"), ([500], "about 0.5 s"), ([2600], "about 3 s")],
    "curveLabel": [
        (["Attention", [1, 0.5], [0, 0.25]],
         "Attention: probability 1.00 0.50 as cells are hidden, 0.00 0.25 as they are shown"),
    ],
    "faithfulText": [
        ([{"kinds": [{"kind": "a"}], "band": [-0.25, 0.5]}, "TITLED"],
         "Most faithful for this token: A. The score is the area under insertion less that under deletion."
         " Random orders, drawn faintly, score −0.250 to +0.500."),
        ([{"kinds": [], "band": None}, "TITLED"],
         "The score is the area under insertion less that under deletion."),
    ],
    "enoughCost": [
        ([256, None], "at most 256 views"), ([64, 2600], "at most 64 views, about 3 s"),
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
    "pieceName": [
        ([{"track": 2, "box": None}, TRACE], "2 cat"), ([{"track": 9, "box": None}, TRACE], "object 9"),
        ([{"track": None, "box": [0, 0, 0.5, 1]}, TRACE], "region 0, 0, 0.5, 1"),
        ([{"track": None, "box": None}, TRACE], "background"),
    ],
    "piecesText": [
        ([[0, 1, 3], PIECES, TRACE], "1 dog in frames 1–4; background in frames 3–4"),
        ([[], PIECES, TRACE], "nothing of the video"),
        ([[0, 2], PIECES, ONE_FRAME], "1 row 1, column 1; background"), ([[], PIECES, ONE_FRAME], "nothing of the picture"),
        ([[0, 2], {"pieces": [*PIECES["pieces"][:1], {}, {"track": 1, "box": None, "groups": [2, 2]}]},
          TRACE | {"groups": [[0, 1], [2, 3], [4]]}], "1 dog in frames 1–2 and frame 5"),
    ],
    "givenText": [
        (["Given these alone", {"answer": "yes", "probability": 0.25, "margin": -1.5}],
         "Given these alone: “yes”, this token's probability 25.0 %, its lead −1.50 logits."),
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
    "colourRange": [
        (["2", True, False], "−2 against to 2 for the token, logits a cell; the same for all three"),
        (["2", False, True], "0 to 2, of the row's attention a cell; the same for all three"),
    ],
    "evidenceChecks": [
        ([{"agreement": []}, "a", [{"sanity": 0.5}, None], None],
         ["Rank correlation with the map for a head of random weights: +0.50 under V, not known under V_d."
          " Near 1, the map does not depend on the token."]),
        ([{"agreement": [{"first": "a", "second": "b", "view": "video", "correlation": 0.25},
                         {"first": "b", "second": "a", "view": "counterfactual", "correlation": None},
                         {"first": "b", "second": "c", "view": "video", "correlation": 1}]},
          "a", [{"sanity": None}, {"sanity": -1}], "NAMES"],
         ["Rank correlation with the map for a head of random weights: not known under V, −1.00 under V_d."
          " Near 1, the map does not depend on the token.",
          "Agreement (rank correlation of magnitudes): with bee +0.25 under V, not known under V_d."]),
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
    "computedHere": [
        ([12.87],
         "Computed in your browser by the embedded model; the first change loads it, 13 MB. Nothing"
         " leaves this page."),
    ],
    "loadingText": [([3_140_000, 12_850_000], "Loading the model: 3.1 of 12.8 MB")],
    "engineFailed": [
        (["no such operator"],
         "The model in this page stopped (no such operator). Reload the page to try again; what is"
         " saved can be looked at.")
    ],
    "isMaskedAlready": [([0.75], "It is at level 0.75 already: nothing changed. Choose another level.")],
    "notSeenOn": [(["dog", 2], "dog is not seen on frame 3: draw where it has a box.")],
    "stepMessage": [([2, 10, 0.41251], "Ascent step 2 of 10, loss 0.413")],
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
    "editsOfMacd": [
        (["VCD"], "Changes by hand are made to MACD's mask, not to VCD: choose MACD as the contrast.")
    ],
}  # fmt: skip


OF_A_TRACE = {"differenceText", "outcomePieces", "sentencesOf"}
"""Held against traces in many states: tests/viewer/test_run_claims.py."""


@pytest.fixture(scope="module")
def said(bare):
    """Function → what it gives for the arguments of each of its cases."""
    given = {name: [arguments for arguments, _ in cases] for name, cases in CASES.items()}
    script = """(given) => {
      const strings = %s, names = new Map([["b", "Bee"]]);
      const capital = (text) => text.toUpperCase();
      const own = (value) => (value === "NAMES" ? names : value === "TITLED" ? capital : value);
      const ask = (name) => given[name].map((all) => strings[name](...all.map(own)));
      const functions = Object.keys(strings).filter((name) => typeof strings[name] === "function");
      return Object.fromEntries(functions.map((name) => [name, name in given ? ask(name) : null]));
    }"""
    return bare.evaluate(
        script % bundle(*sorted((JS / "strings").glob("*.js")), JS / "happened.js"), given
    )


def test_every_function_of_the_catalogue_has_its_cases(said):
    assert {name for name, texts in said.items() if texts is None} == OF_A_TRACE
    assert set(CASES) <= set(said)


@pytest.mark.parametrize("name", CASES)
def test_a_sentence_says_what_is_so(said, name):
    assert said[name] == [expected for _, expected in CASES[name]]
