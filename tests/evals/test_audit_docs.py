"""Every figure of docs/audit.md: generated from docs/audit.json, or computed here again."""

import json

import pytest

from macd_studio.evals.__main__ import main
from macd_studio.evals.audit.printed import at_the_same_rate
from macd_studio.evals.paper.published import FOLDER, diagnose, read_table
from macd_studio.evals.printing.figures import table
from macd_studio.evals.studies import audit_draws
from macd_studio.parts import ROOT

REPORT = ROOT / "docs" / "audit.json"
PAGE = ROOT / "docs" / "audit.md"


def causes_table(rows):
    """What was changed, and what was named of it."""
    lines = [
        [r["changed"], str(r["answers"]), f"{r['second'] - r['first']:+.1f}".replace("-", "−"),
         ", ".join(r["given"]) or "–", ", ".join(r["named"]) or "–", judged(r)]
        for r in rows
    ]  # fmt: skip
    return str(
        table(["changed", "answers that differ", "points", "true causes", "named", ""], lines)
    )


def judged(row):
    given, named = set(row["given"]), set(row["named"]) - {"cannot be told"}
    missed, invented = given - named, named - given
    if not missed and not invented:
        return "right"
    if not (row["answers"] or named):
        return "no answer differs"
    parts = [f"{' and '.join(sorted(z))} {what}" for z, what in
             ((missed, "not named"), (invented, "invented")) if z]  # fmt: skip
    return "; ".join(parts)


def printed_table():
    """Rows of the main table whose counts are known, beside their baselines'."""
    rows = read_table(FOLDER / "main.csv").rows
    lines = [
        [f"{r.labels['model']} {r.labels['method']}", f"{f.before:.1f}", f"{f.after:.1f}",
         f"{100 * f.yes[0] / f.n:.1f} → {100 * f.yes[1] / f.n:.1f}", f"{f.random:.1f}",
         f"{f.normal:.1f}", f"{f.most:.1f}"]
        for r, f in zip(rows, at_the_same_rate(rows), strict=True) if f
    ]  # fmt: skip
    heads = ["row", "baseline", "method", '"yes"', "random", "threshold", "at most"]
    return str(table(heads, lines))


def largest_false(report):
    """The largest share of draws in which something survives that sees no more."""
    return max(100 * c["survives"] for c in report["cells"] if not c["case"]["sees"])


def test_the_tables_are_those_of_the_data():
    report, page = json.loads(REPORT.read_text()), PAGE.read_text()
    for made in (*audit_draws.tables(report), causes_table(report["diff"]), printed_table()):
        assert made in page
    assert f"{report['draws']} draws a cell" in page
    both = [c["survives"] for c in report["cells"]
            if c["case"]["sees"] and c["case"]["shift"] and not c["scored"]]  # fmt: skip
    assert both == [0] * len(audit_draws.DESIGNS), "survived in no draw here"
    assert f"most of all in {largest_false(report):.1f} %" in page


def test_what_the_simulation_must_show():
    """Size at most .05 but for the error of the simulation; shifts named in 95 % of draws."""
    report = json.loads(REPORT.read_text())
    error = 1.96 * (0.05 * 0.95 / report["draws"]) ** 0.5
    for cell in report["cells"]:
        case = audit_draws.Case(**cell["case"])
        if not case.sees:
            assert cell["survives"] <= 0.05 + error, cell
        if case.only_shifts and case.kind == "yes-no" and case.unequal == 1:
            assert cell["named"] >= 0.95 - error, cell
    for cell in report["power"]:
        assert cell["shown"] == pytest.approx(0.8, abs=0.03 + 2 * error), cell


def test_the_sentences_about_printed_rows(capsys):
    rows = read_table(FOLDER / "main.csv").rows
    found = {
        (r.labels["model"], r.labels["method"]): f
        for r, f in zip(rows, at_the_same_rate(rows), strict=True)
    }
    vcd, macd = found["Qwen2-VL-2B", "VCD"], found["Qwen2.5-VL-3B", "MACD"]
    assert vcd.before < vcd.after < vcd.random
    plain = next(r for r in rows if r.labels["model"] == "Qwen2-VL-2B")
    tp, fn, fp, tn = diagnose(plain).example
    assert tp / (tp + fn) < fp / (fp + tn), "yes more often where no is right"
    assert max(macd.random, macd.normal, macd.most) < macd.after
    assert macd.after == pytest.approx(100 * 137 / 193), "as always yes"
    assert main(["doctor", "--table", str(FOLDER / "main.csv")]) == 1
    out = capsys.readouterr().out
    assert '; "yes" 29.5 → 62.7 %, with which changes at random get 52.3' in out
    for discordance, least in ((30, "11.3"), (10, "6.5")):
        main(["power", "--n", "193", "--discordance", str(discordance)])
        assert f"193 questions show {least}" in capsys.readouterr().out
        assert f"from {least} points on" in PAGE.read_text().replace("\n", " ")


@pytest.mark.real
@pytest.mark.parametrize(
    ("first", "second"), [("video_llava", "gemini"), ("video_llava", "gpt4o"), ("gpt4o", "gemini")]
)
def test_the_rows_of_published_answers(first, second, real, capsys):
    folder = real / "benchmarks" / "eventhallusion"
    files = [str(folder / f"{z}_predictions.json") for z in (first, second)]
    code = main(["audit", *files, "--benchmark", "eventhallusion", "--data", str(folder)])
    out = capsys.readouterr().out
    assert code == 0
    line = next(z for z in out.splitlines() if z.startswith(f"| {second}_predictions.json | 409"))
    _, _, n, before, after, gain, yes, control, lead, _, _ = (z.strip() for z in line.split("|"))
    names = {"video_llava": "Video-LLaVA", "gpt4o": "GPT-4o", "gemini": "Gemini"}
    cells = (names[first], names[second], n, before, after, gain, yes, f"{control}: {lead}")
    assert f"| {' | '.join(cells)} |" in PAGE.read_text()
    if first == "gpt4o":
        told = out.splitlines()[2]
        for words in ("No gain is shown", 'the method says "yes" less often',
                      "moving the threshold of normal margins gets more"):  # fmt: skip
            assert words in told.replace("The method", "the method")
