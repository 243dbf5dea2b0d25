"""The audit: files of other programs, each control by another way, and the verdict."""

import csv
import json
import math
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import hypergeom, norm

from macd_studio.evals.__main__ import main
from macd_studio.evals.audit import answers, controls
from macd_studio.evals.audit.answers import Answers
from macd_studio.evals.audit.findings import cause, find, lead_over, power, verdict
from macd_studio.evals.audit.show import latex, plain
from macd_studio.evals.statistics.stats import (
    mcnemar,
    questions_needed,
    smallest_difference,
)
from macd_studio.evals.studies import audit_draws

DATA = Path(__file__).parent / "data" / "answers"
"""As VLMEvalKit at e8e78f0 writes answers: pandas with xlsxwriter, and tab-separated values."""


def audit(capsys, *args):
    code = main(["audit", *map(str, args)])
    out, err = capsys.readouterr()
    return code, out, err


def report(capsys, *args):
    code, out, err = audit(capsys, *args, "--json")
    assert code == 0, err
    return json.loads(out)


def yes_no(truth, before, after, clips=None, margins=None):
    """Answers from texts of y, n and . for one that cannot be read."""
    words = {"y": "yes", "n": "no", ".": None}
    told = [[words[z] for z in text] for text in (truth, before, after)]
    right = [np.array([a == t for a, t in zip(z, told[0], strict=True)]) for z in told[1:]]
    scores = [{} if m is None else {"yes": m, "no": 0.0} for m in margins or [None] * len(truth)]
    return Answers("yes-no", told[0], [()] * len(truth), told[1], told[2], *right,
                   clips or [str(i) for i in range(len(truth))], scores)  # fmt: skip


def choices(truth, before, after, options=("a", "bb", "ccc", "dddd"), scores=None):
    right = [np.array([a == t for a, t in zip(z, truth, strict=True)]) for z in (before, after)]
    n = len(truth)
    return Answers("choice", list(truth), [options] * n, list(before), list(after), *right,
                   [str(i) for i in range(n)], scores or [{}] * n)  # fmt: skip


def by_name(given):
    return {c.name: c for c in controls.controls_of(given)}


# files


def test_files_of_vlmevalkit_hold_all_that_is_needed(capsys):
    found = report(capsys, DATA / "baseline.xlsx", DATA / "method.tsv")
    (part,) = found["parts"]
    with (DATA / "method.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert (part["kind"], part["n"], part["clips"]) == ("choice", 60, 30)
    named = {c["name"]: c for c in part["controls"]}
    for letter in "ABCD":
        share = np.mean([r["answer"] == letter for r in rows])
        assert named[f"always {letter}"]["accuracy"] == pytest.approx(100 * share)
    right = np.mean([r["answer"] == r["prediction"].replace("The best answer is: ", "").strip("().")
                     for r in rows])  # fmt: skip
    assert part["method"][0] == pytest.approx(100 * right)
    assert part["unread"] == [1, 0], "Failed to obtain answer via API."
    # the same answers in both forms
    same = report(capsys, DATA / "method.tsv", DATA / "method.tsv")["parts"][0]
    assert (same["gain"][0], same["p"], same["repaired"], same["spoiled"]) == (0, 1, 0, 0)
    half = report(capsys, DATA / "baseline.xlsx", DATA / "method.tsv", "--split",
                  "Object Recognition")  # fmt: skip
    assert half["parts"][0]["n"] == 30


def samples(folder, texts, truths, clip=None, margins=None, question="Is it {}?"):
    """As lmms-eval writes them with --log_samples."""
    folder.mkdir()
    path = folder / "20261101_120000_samples_task.jsonl"
    lines = []
    for i, (text, truth) in enumerate(zip(texts, truths, strict=True)):
        metric = {"score": float(text.lower().strip(".") == truth.lower())}
        if clip:
            metric["video_name"] = clip(i)
        if margins is not None:
            metric["logits"] = {"Yes": margins[i], " yes": margins[i] - 3, "No": 0.0}
        lines.append({"doc_id": i, "doc_hash": f"h{i}", "target": truth, "acc": metric,
                      "filtered_resps": [text], "input": question.format(i),
                      "token_counts": [None]})  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_samples_of_lmms_eval_with_and_without_scores(tmp_path, capsys):
    rng = np.random.default_rng(0)
    truth = rng.random(200) < 0.5
    margins = 2.0 * truth - 1 + rng.standard_normal(200) - 0.8
    texts = [[("No.", "Yes.")[int(z)] for z in said] for said in (margins > 0, margins + 0.8 > 0)]
    truths = [("no", "yes")[int(z)] for z in truth]
    base = samples(tmp_path / "a", texts[0], truths, lambda i: f"v{i // 2}", margins.tolist())
    other = samples(tmp_path / "b", texts[1], truths, lambda i: f"v{i // 2}")
    (part,) = report(capsys, base, other)["parts"]
    assert (part["kind"], part["n"], part["clips"], part["scores"]) == ("yes-no", 200, 100, 200)
    named = {c["name"]: c for c in part["controls"]}
    assert named["constant"]["accuracy"] == pytest.approx(part["method"][0])
    assert named["constant"]["lead"][0] == 0
    assert part["says_yes_more_or_less_often_and_no_more_is_shown"]
    assert "a constant added to the baseline's scores gets as much" in part["verdict"]
    # without scores: by rates alone
    plain_base = samples(tmp_path / "c", texts[0], truths)
    part = report(capsys, plain_base, other)["parts"][0]
    assert {"random changes", "normal threshold", "as precise"} <= {
        c["name"] for c in part["controls"]
    }
    assert part["scores"] == 0
    assert part["clips"] == 100, "the other file knows them"
    none = report(capsys, plain_base, plain_base)["parts"][0]
    assert none["clips"] == 200
    assert any("No file says which questions share a clip" in n for n in none["notes"])


def test_samples_with_lettered_options(tmp_path, capsys):
    question = "Which {}?\nA. up\nB. very far down\nC. left\nAnswer with the letter."
    truths = ["B", "A", "C", "B"] * 10
    a = samples(tmp_path / "a", ["B"] * 40, truths, question=question)
    b = samples(tmp_path / "b", ["C"] * 40, ["very far down", "up", "left", "B"] * 10,
                question=question)  # fmt: skip
    (part,) = report(capsys, a, b)["parts"]
    named = {c["name"]: c["accuracy"] for c in part["controls"]}
    assert part["kind"] == "choice"
    assert (named["longest option"], named["shortest option"]) == (50, 25)
    assert named["guessing"] == pytest.approx(100 / 3)
    assert "always D" not in named


def records(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_records_without_ids_are_paired_by_clip_and_question(tmp_path, capsys):
    rows = [{"videoID": f"v{i // 2}", "question": f"Is it {i}?", "answer": ["Yes.", "no"][i % 2]}
            for i in range(20)]  # fmt: skip
    a = records(tmp_path / "a.jsonl", [r | {"response": "no"} for r in rows])
    b = records(tmp_path / "b.jsonl", [r | {"response": "Yes"} for r in rows[::-1]][:-2])
    (part,) = report(capsys, a, b)["parts"]
    assert (part["n"], part["clips"]) == (18, 9)
    assert (part["repaired"], part["spoiled"]) == (9, 9)
    assert any("2 questions of the baseline, 0 of the method" in n for n in part["notes"])
    rows[5]["answer"] = "yes"
    b = records(tmp_path / "b.jsonl", [r | {"response": "Yes"} for r in rows])
    part = report(capsys, a, b)["parts"][0]
    assert part["repaired"] == 10, "what is right is the baseline's"
    assert any("1 question have another right answer" in n or "1 question" in n
               for n in part["notes"])  # fmt: skip


def test_questions_of_several_kinds_are_told_apart(tmp_path, capsys):
    rows = [{"id": f"y{i}", "video": "v", "question": "q", "answer": "no"} for i in range(9)]
    rows += [{"id": f"c{i}", "video": "w", "question": "q", "answer": "up", "options": ["up", "no"]}
             for i in range(8)]  # fmt: skip
    rows += [{"id": "w", "video": "x", "question": "q", "answer": "a dog"}]
    a, b = (records(tmp_path / f"{n}.jsonl", [r | {"prediction": z} for r in rows])
            for n, z in (("a", "no"), ("b", "a dog")))  # fmt: skip
    found = report(capsys, a, b)
    assert [(p["kind"], p["n"]) for p in found["parts"]] == [("yes-no", 9), ("choice", 8),
                                                             ("word", 1)]  # fmt: skip
    assert found["parts"][2]["controls"] == []
    code, out, _ = audit(capsys, a, b)
    assert code == 0
    assert "## Questions with options" in out


def test_predictions_by_id_take_the_questions_of_the_other_file_or_of_a_folder(tmp_path, capsys):
    rows = [{"id": str(i), "video": f"{i}.mp4", "question": "q", "answer": ["yes", "no"][i % 2]}
            for i in range(12)]  # fmt: skip
    full = records(tmp_path / "a.jsonl", [r | {"prediction": "yes"} for r in rows])
    by_id = tmp_path / "b.json"
    by_id.write_text(json.dumps({r["id"]: "no" for r in rows}))
    assert report(capsys, full, by_id)["parts"][0]["repaired"] == 6
    data = records(tmp_path / "questions.jsonl", rows)
    scored = records(tmp_path / "s.jsonl", [{"id": r["id"], "prediction": "yes", "margin": 0.5}
                                            for r in rows])  # fmt: skip
    part = report(capsys, scored, by_id, "--benchmark", "questions", "--data", data)["parts"][0]
    assert part["scores"] == 12
    code, _, err = audit(capsys, by_id, by_id)
    assert (code, err.count("\n")) == (2, 1)
    assert "holds answers without their questions" in err


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"scores": {"yes": "high", "no": 0}}, "the score of 'yes' is 'high' instead of a number"),
        ({"scores": {"yes": float("nan"), "no": 0}}, "instead of a number"),
        ({"margin": True}, "is True instead of a number"),
        ({"logits": {str(i): 0 for i in range(300)}}, "there are 300 scores; give at most 200"),
    ],
)
def test_scores_that_are_none_are_refused(field, message, tmp_path, capsys):
    row = {"id": "1", "video": "v", "question": "q", "answer": "no", "prediction": "no"}
    path = records(tmp_path / "a.jsonl", [row | field])
    code, _, err = audit(capsys, path, path)
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


def test_what_cannot_be_compared_is_one_line(tmp_path, capsys, monkeypatch):
    row = {"id": "1", "video": "v", "question": "q", "answer": "no", "prediction": "no"}
    one = records(tmp_path / "a.jsonl", [row])
    other = records(tmp_path / "b.jsonl", [row | {"id": "2"}])
    refused = {
        other: "have no question in common",
        "paper:72.5,n=9": "is a printed figure without single answers",
        tmp_path / "none.xlsx": "there is neither a folder nor a file",
    }
    for second, message in refused.items():
        code, _, err = audit(capsys, one, second)
        assert (code, err.count("\n")) == (2, 1)
        assert message in err
    monkeypatch.setattr(answers, "MOST", 0)
    assert "both answer 1 questions, more than 0. Give --split" in audit(capsys, one, one)[2]


# controls, each by another way


def test_the_expected_share_of_random_changes_is_that_of_all_draws():
    """Of four "no" two become "yes": every pair of them is tried, and those read as nothing."""
    given = yes_no("yynnyn", "nnnnyy", "yynnyy")
    changed = [0, 1, 2, 3]
    shares = []
    for pair in permutations(changed, 2):
        said = ["yes" if i in pair else z for i, z in enumerate(given.before)]
        shares.append([s == t for s, t in zip(said, given.truth, strict=True)])
    control = controls.matched_at_random(given)
    assert control.outcome == pytest.approx(np.mean(shares, 0))
    # letters: A loses two to B and C
    given = choices("AABBC", "AAAAC", "BAACC")
    shares = []
    for pair in permutations(range(4), 2):
        said = list("AAAAC")
        said[pair[0]], said[pair[1]] = "B", "C"
        shares.append([s == t for s, t in zip(said, given.truth, strict=True)])
    assert controls.matched_at_random(given).outcome == pytest.approx(np.mean(shares, 0))


def test_the_chance_of_changes_is_the_hypergeometric_one(monkeypatch):
    monkeypatch.setattr(controls, "DRAWS", 99_999)
    truth = "y" * 12 + "n" * 28
    before = "n" * 40
    after = "y" * 9 + "n" * 3 + "y" * 6 + "n" * 22  # 9 of 15 changes are right
    exact = hypergeom(40, 12, 15)
    expected = 2 * min(exact.sf(8), exact.cdf(9))
    assert controls.chance_of_changes(yes_no(truth, before, after)) == pytest.approx(
        expected, rel=0.05
    )
    # where one answer is right everywhere nothing can be told
    assert controls.chance_of_changes(yes_no("y" * 9, "n" * 9, "yyynnnnnn")) == 1


def test_the_constant_is_found_by_trying_all():
    rng = np.random.default_rng(1)
    n = 60
    truth = rng.random(n) < 0.5
    margins = (1.0 * truth + rng.standard_normal(n)).round(1)  # with equals
    before = margins > 0
    after = rng.random(n) < 0.8
    text = ["".join("ny"[int(z)] for z in s) for s in (truth, before, after)]
    given = yes_no(*text, margins=margins.tolist())
    tried = [(margins + d > 0) for d in np.arange(-4, 4, 0.05)]
    nearest = min(abs(int(t.sum()) - int(after.sum())) for t in tried)
    best = {float((t == truth).mean()) for t in tried
            if abs(int(t.sum()) - int(after.sum())) == nearest}  # fmt: skip
    assert float(by_name(given)["constant"].outcome.mean()) in best
    assert (
        by_name(yes_no(text[0], text[1], text[1], margins=margins.tolist()))[
            "constant"
        ].outcome.tolist()
        == given.right_before.tolist()
    )


def test_scores_of_too_few_questions_are_not_used():
    given = yes_no("yn" * 10, "n" * 20, "y" * 20, margins=[0.5] * 17 + [None] * 3)
    assert "constant" not in by_name(given)
    given = yes_no("yn" * 10, "n" * 20, "y" * 20, margins=[-0.5] * 18 + [None] * 2)
    assert by_name(given)["constant"].outcome.mean() == pytest.approx(0.5)


@pytest.mark.parametrize(("bias", "shift"), [(-0.7, 0.9), (0.5, -0.8), (0.0, 0.4)])
def test_a_moved_threshold_of_normal_margins_gets_what_it_gets(bias, shift):
    ups, downs, apart = 6e6, 4e6, 0.9

    def sums(bias):
        hits, alarms = ups * norm.cdf(apart + bias), downs * norm.cdf(bias - apart)
        return hits, alarms, (hits + downs - alarms) / (ups + downs)

    hits, alarms, plain_share = sums(bias)
    moved = sums(bias + shift)
    made = controls.normal_change(np.array([hits, ups, alarms, downs, moved[0] + moved[1],
                                            ups + downs]))  # fmt: skip
    assert made == pytest.approx(moved[2] - plain_share, abs=1e-5)
    most = controls.precise_change(np.array([hits, ups, alarms, downs, moved[0] + moved[1],
                                             ups + downs]))  # fmt: skip
    assert most >= made - 1e-9
    none = np.array([hits, ups, alarms, downs, hits + alarms, ups + downs])
    assert controls.normal_change(none) == pytest.approx(0)


def test_the_most_of_a_threshold_keeps_the_precision():
    # 6 of 8 yes are right; four more, of which 3 would be
    sums = np.array([6.0, 10, 2, 10, 12, 20])
    assert controls.precise_change(sums) == pytest.approx((3 - 1) / 20)
    # four fewer: 8 of 12 no are right, and so are 8/3 of four more
    sums = np.array([6.0, 10, 2, 10, 4, 20])
    assert controls.precise_change(sums) == pytest.approx((2 - 2) / 20), "only two can be added"


def test_constants_on_letters_get_no_more_than_the_bound():
    """Of drawn scores, with every constant on A."""
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 4, 4000)
    scores = rng.standard_normal((4000, 4)) + 1.2 * np.eye(4)[truth]
    before = (scores - [0.8, 0, 0, 0]).argmax(1)
    for shift in (0.2, 0.5, 0.8, 1.5):
        after = (scores - [0.8 - shift, 0, 0, 0]).argmax(1)
        given = choices(*("".join("ABCD"[i] for i in z) for z in (truth, before, after)))
        lead = lead_over(by_name(given)["as precise"], given)
        assert lead.interval[0] < 0


def test_options_by_length_and_constants_by_letters():
    given = choices("AABD", "ABBD", "DDBD", ("zz", "b", "yy", "aaaa"))
    named = by_name(given)
    assert named["longest option"].outcome.tolist() == [0, 0, 0, 1]
    assert named["shortest option"].outcome.tolist() == [0, 0, 1, 0]
    assert by_name(choices("A", "A", "A", ("b", "a")))["longest option"].outcome.tolist() == [1]
    assert named["guessing"].outcome.tolist() == [0.25] * 4
    scores = [{"a": 3.0, "b": 0.0, "d": 2.9}, {"a": 1.0, "b": 2.0, "d": 0.0},
              {"a": 0.0, "b": 3.0, "d": 0.0}, {"a": 0.0, "b": 0.0, "d": 9.0}]  # fmt: skip
    scored = by_name(choices("AABD", "ABBD", "DBBD", scores=scores))
    assert scored["constants"].outcome.tolist() == [0, 0, 1, 1]
    assert "random changes" not in scored


def test_answers_that_cannot_be_read_are_a_control_of_their_own():
    truth = "yn" * 20
    given = yes_no(truth, "." * 14 + truth[14:], truth)
    found = find(given)
    lead = next(z for z in found.leads if z.control.name == "readable")
    assert lead.interval[0] == 0
    assert not found.survives
    assert "it gains where the baseline's answers cannot be read" in cause(found)
    assert "readable" not in by_name(yes_no(truth, truth, truth))


def test_answers_that_the_method_left_unreadable_are_named_as_what_it_loses():
    truth = "yn" * 20
    lost = yes_no(truth, truth, "." * 30 + truth[30:])
    assert cause(find(lost)).startswith("30 of the method's 40 answers cannot be read")
    told = verdict(find(lost), power(lost.difference, lost.clusters))
    assert "The method loses: −75.0" in told
    assert "0 of the baseline's." in told
    wrong = yes_no(truth, truth, "." * 2 + "ny" * 14 + truth[30:])  # most of it is read, and wrong
    assert "cannot be read" not in cause(find(wrong))


# verdicts


def test_verdicts_that_came_with_answers_stay_where_a_constant_leaves_them():
    """As where a rule takes "Yes and no" for right."""
    given = yes_no("ynyn", "yyyn", "yyyn", margins=[1, 1, 1, -1])
    given.right_before[1] = True
    assert by_name(given)["constant"].outcome.tolist() == [1, 1, 1, 1]


def test_what_only_scores_can_tell_does_not_survive_and_is_no_shift():
    """More yes, and more right ones than a threshold of normal margins gets; a bound is not."""
    truth = "y" * 200 + "n" * 200
    before = "y" * 110 + "n" * 90 + "y" * 20 + "n" * 180
    after = "y" * 145 + "n" * 55 + "y" * 25 + "n" * 175
    found = find(yes_no(truth, before, after))
    named = {z.control.name: z for z in found.leads}
    assert named["normal threshold"].survives
    assert not named["as precise"].survives
    assert found.matched is not named["as precise"]
    assert (found.gains, found.survives, found.shifted) == (True, False, False)
    told = verdict(found, power(found.given.difference, found.given.clusters))
    assert "a constant may get as much, which only the baseline's scores can tell (at most" in told


def test_power_takes_the_observed_discordance_and_the_clips():
    difference = np.repeat([1, -1, 0], [30, 20, 150])
    could = power(difference, range(200))
    assert could.shows == smallest_difference(200, 0.25, 0.8)
    assert could.needed == questions_needed(0.05, 0.25, 0.8)
    assert power(difference, np.arange(200) // 2).shows > could.shows
    assert power(np.zeros(9), range(9)).shows is None


def test_a_gain_that_sees_more_survives_and_says_over_what():
    rng = np.random.default_rng(3)
    case = audit_draws.Case("", sees=0.6)
    found = find(audit_draws.draw(case, 400, 2, True, rng))
    assert found.survives
    told = verdict(found, power(found.given.difference, found.given.clusters))
    assert "survives every control; least is left over" in told
    assert found.p_questions == mcnemar(found.given.right_before, found.given.right_after)


def test_always_the_same_answer_is_named():
    """A poor baseline, and a method that is better: yes every time is better still."""
    rng = np.random.default_rng(4)
    truth = rng.random(300) < 0.71
    before = rng.random(300) < 0.35
    after = np.where(rng.random(300) < 0.5, truth, before)
    found = find(yes_no(*("".join("ny"[int(z)] for z in s) for s in (truth, before, after))))
    assert found.gains
    assert not found.survives
    assert "always yes gets as much" in cause(found)


def test_no_gain_says_what_could_have_been_shown():
    given = yes_no("yn" * 100, "yn" * 90 + "ny" * 10, "yn" * 88 + "ny" * 7 + "yn" * 5)
    could = power(given.difference, given.clusters)
    told = verdict(find(given), could)
    assert told.startswith("No gain is shown: ")
    assert f"show {100 * could.shows:.1f} points or more" in told
    same = yes_no("yn" * 9, "yn" * 9, "yn" * 9)
    told = verdict(find(same), power(same.difference, same.clusters))
    assert "show no difference" in told


def test_the_page_the_data_and_the_rows_say_the_same(tmp_path, capsys):
    code, out, _ = audit(capsys, DATA / "baseline.xlsx", DATA / "method.tsv", "--out", tmp_path)
    assert code == 0
    told = json.loads((tmp_path / "audit.json").read_text())
    page, row = ((tmp_path / f"audit.{z}").read_text() for z in ("md", "tex"))
    (part,) = told["parts"]
    assert page.rstrip("\n") in out
    assert row.rstrip("\n") in out
    assert f"| {part['baseline'][0]:.1f} | {part['method'][0]:.1f} |" in page
    last = row.splitlines()[-1]
    heads, cells = (z.strip("% \\").split(" & ") for z in row.splitlines())
    assert len(heads) == len(cells) == 9
    assert f"& {part['baseline'][0]:.1f} & {part['method'][0]:.1f} &" in last
    assert "−" not in row
    assert "→" not in row
    for control in part["controls"]:
        assert f"| {control['name']} |" in page


def test_names_from_outside_are_plain_text_in_both_rows():
    class Named:
        title, method, notes, benchmark = "a|b_c & 5 % \\x *z*", "m", (), ""
        parser = type("P", (), {"name": "r"})

    given = yes_no("yn" * 9, "yn" * 9, "nn" * 9)
    line = latex(plain(Named, Named, [find(given)])).splitlines()[-1]
    assert line.startswith(r"a/b\_c \& 5 \% \textbackslash{}x ∗z∗ & ")


# simulation


def test_random_changes_and_shifts_do_not_survive_and_shifts_are_named():
    """A small sample of `audit_draws`: no more false survivals than .05 allows by luck."""
    for title, scored in (("yes more often, +0.6", True), ("yes more often, +0.6", False),
                          ("answers flipped at random, 10 %", False)):  # fmt: skip
        case = next(c for c in audit_draws.CASES if c.title == title)
        found = audit_draws.measure(case, 120, 1, scored, 60)
        assert found["survives"] <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 60)
        if case.only_shifts:
            assert found["named"] >= 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / 60)


@pytest.mark.long
@pytest.mark.parametrize("scored", [True, False])
@pytest.mark.parametrize(("n", "each"), audit_draws.DESIGNS)
def test_the_size_is_kept_in_every_design(n, each, scored):
    for case in audit_draws.CASES:
        if case.sees:
            continue
        found = audit_draws.measure(case, n, each, scored, 300)
        assert found["survives"] <= 0.05 + 2.6 * math.sqrt(0.05 * 0.95 / 300), case.title
        if case.only_shifts and case.kind == "yes-no" and case.unequal == 1:
            assert found["named"] >= 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / 300), case.title


def test_power_is_as_stated():
    found = audit_draws.measure_power(400, 1, 0.0, 0.3, 200)
    assert found["shown"] == pytest.approx(0.8, abs=2.6 * math.sqrt(0.16 / 200))
