# ruff: noqa: E501 — sentences stand whole
"""What the viewer says of answers and their tokens, case by case; see test_strings.py."""

from typing import Any

AT = {"alpha": 2, "beta": 0.1}
GREEDY = {"search": "greedy", "temperature": 1, "top_p": 0.9}
SAMPLED = {"search": "sample", "temperature": 1.5, "top_p": 0.9}


def step(others=1, weights=None, repeats=None):
    return {
        "index": 1, "others": [[0]] * others, "repeats": repeats,
        "weights": None if weights is None else {"base": 2, "others": weights},
    }  # fmt: skip


def answer(method="macd", rule="linear"):
    return {"method": method, "rule": rule}


def opened(count, tokens, beta=None):
    return [{"open": count, "tokens": tokens, "title": "MACD", "beta": beta}]


def outcome(same=False, at=None):
    return {
        "reference": {"title": "Baseline"},
        "contrast": {"title": "MACD"},
        "same": same,
        "at": at,
    }


ANSWERS: dict[str, Any] = {
    "divergenceText": [
        ([-1, "MACD", "x"], "Both ways of decoding give the same answer."),
        ([1, "Baseline", ""], "The answers diverge at token 2: there Baseline ends."),
        ([0, "", "A constant does."], "The answers diverge at token 1. A constant does."),
    ],
    "beginningText": [
        ([0, "MACD"], "MACD has no tokens."),
        ([1, "MACD"], "The answers agree in token 1, and MACD stops there."),
        ([2, "Baseline"], "The answers agree up to token 2, and Baseline stops there."),
    ],
    "turnText": [
        ([{"index": 2, "ends": True, "ended": True, "text": "x"}],
         "With these, the answer ends before token 3; the path diverges there."),
        ([{"index": 2, "ends": False, "ended": True, "text": "x"}],
         "With these, the answer goes on with x instead of ending; the path diverges there."),
        ([{"index": 2, "ends": False, "ended": False, "text": "x"}],
         "With these, token 3 becomes x; the path diverges there."),
    ],
    "notRescored": [
        (["mean"], "Answers of the rule mean are not scored again by α and β; each token shows the weights"
                   " it was chosen with.")
    ],
    "lockText": [
        ([False], "Locked: no other token passes the plausibility cut, so no contrast can change it, whatever α and the second view"),
        ([True], "Locked: with β above 1 only the video's own first choice passes the cut"),
    ],
    "openText": [
        (opened(0, 1), "No contrast can change the one token of MACD's answer."),
        (opened(0, 3), "No contrast can change any of the 3 tokens of MACD's answer."),
        (opened(1, 1), "The one token of MACD's answer was open to contrast."),
        (opened(3, 3), "All 3 tokens of MACD's answer were open to contrast."),
        (opened(1, 3), "1 of the 3 tokens of MACD's answer was open to contrast; no contrast can change the others."),
        (opened(2, 3), "2 of the 3 tokens of MACD's answer were open to contrast; no contrast can change the others."),
        (opened(2, 3, 0.5), "With β 0.5, 2 of the 3 tokens of MACD's answer are open to contrast; no contrast can change the others."),
        (opened(0, 3, 0.9), "With β 0.9, no contrast can change any of the 3 tokens of MACD's answer."),
    ],
    "cutText": [([1], "(cut at 1 token)"), ([64], "(cut at 64 tokens)")],
    "saidText": [([{"text": "", "cut": None}], "∅"), ([{"text": "yes", "cut": 64}], "yes (cut at 64 tokens)")],
    "contrastName": [
        ([outcome()], "MACD"), ([outcome(same=True)], "Baseline and MACD"),
        ([outcome(at={"alpha": 2, "beta": 0.1 + 0.2})], "MACD with α 2 and β 0.3"),
    ],
    "turnedAnswer": [
        ([{"index": 0, "ends": True, "ended": False, "text": "x"}], "ends at once"),
        ([{"index": 2, "ends": True, "ended": False, "text": "x"}], "ends before token 3"),
        ([{"index": 2, "ends": False, "ended": True, "text": "a b"}],
         "goes on with “a␣b” instead of ending; the rest is not decoded"),
        ([{"index": 2, "ends": False, "ended": False, "text": "x"}], "chooses “x” as token 3; the rest is not decoded"),
    ],
    "excerpts": [
        ([["yes", "no"]], ["yes", "no"]),
        ([["word " * 30, "word " * 20 + "other"]],
         ["… " + "word " * 16, "… " + "word " * 6 + "other"]),
        ([["a " * 60, "b " * 60]], ["a " * 44 + "a …", "b " * 44 + "b …"]),
    ],
    "measuredWith": [([{"alpha": 1, "beta": 0.1}], "Measured with α 1 and β 0.1, not with the values in hand.")],
    "changedTokens": [
        ([[], 5], "The contrast changed none of the 5 tokens."),
        ([[0, 3], 5], "The contrast changed 2 of the 5 tokens: 1 and 4."),
        ([list(range(10)), 20], "The contrast changed 10 of the 20 tokens: 1, 2, 3, 4, 5, 6, 7, 8 and 2 more."),
    ],
    "skippedText": [(["it has no frames"], "Not run: it has no frames."), (["No."], "Not run: No.")],
    "unavailableText": [(["it cannot"], "Not with this model: it cannot.")],
    "thoughtText": [
        (["", 3, True], "Thought before the answers: 3 tokens"),
        (["MACD", 1, False], "Thought before the answer of MACD: 1 token, cut"),
    ],
    "tokenTitle": [([0, 7, True], "here the answers diverge"), ([0, 7, False], "token 1, id 7")],
    "effectText": [([-0.5], "hiding this object alone: −0.50 to its log p")],
    "rankedEffect": [([0.5, 2], "hiding it alone: +0.50 to this token's log p (rank 2)")],
    "viewName": [(["macd", 0], "V_d"), (["macd", 1], "V′′"), (["vcd", 0], "V′")],
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
    "noBoundary": [
        (["mean"], "Only the linear rule has a boundary over α and β, and this answer is of mean.")
    ],
    "constantText": [
        ([0, "yes", 1.234],
         "A constant of +1.23 on the logit of “yes” would do the same at token 1, without a second"
         " view."),
        ([2, "no", None], "No stored logit tells which constant would make token 3 the same."),
    ],
}  # fmt: skip
"""Function → its arguments and what it says."""
