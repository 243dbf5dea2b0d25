"""Rules named after other programs say what these programs say, answer by answer."""

import json
import warnings
from pathlib import Path

import pytest

from macd_studio.evals.scoring.harnesses import LMMS_EVAL, VLMEVALKIT
from macd_studio.evals.scoring.rules import RULES
from tests.evals.harness_cases import item, judged, letters, of_lmms_eval, texts

DATA = Path(__file__).parent / "data" / "rules"
PROGRAMS = {
    "lmms-eval": f"lmms-eval-{LMMS_EVAL}.json",
    "vlmevalkit": f"vlmevalkit-{VLMEVALKIT}.json",
    "official": "authors.json",
}
"""Rule → what its program says of the answers; see `tests.evals.harness_cases`."""
ELSEWHERE = ("eventhallusion", "videohallucer", "vidhalluc", "vidpair-halluc")
"""Their authors' programs are asked in other tests: `test_rules`, `test_pair_rules`."""
COMPARED = [(n, b) for n in PROGRAMS for b, rules in RULES.items()
            if b.partition(":")[0] not in ELSEWHERE and n in {r.name for r in rules}]  # fmt: skip


def ours(name, benchmark):
    """Answer → the letters for which our rule counts it as right."""
    rule = next(r for r in RULES[benchmark] if r.name == name)
    return judged({benchmark: lambda text, truth: rule.right(text, item(benchmark, truth))})


@pytest.mark.parametrize(("name", "benchmark"), COMPARED)
def test_a_rule_says_what_its_program_said(name, benchmark):
    theirs = json.loads((DATA / PROGRAMS[name]).read_text(encoding="utf-8"))
    assert tuple(theirs["right"][benchmark]) == texts()
    assert ours(name, benchmark)[benchmark] == theirs["right"][benchmark]


def test_every_harness_is_compared():
    assert {(r.name, b) for b, rules in RULES.items() for r in rules if r.version} <= set(COMPARED)
    for name, file in PROGRAMS.items():
        said = json.loads((DATA / file).read_text(encoding="utf-8"))["right"]
        assert {b for n, b in COMPARED if n == name} == set(said)


def test_the_answers_tell_the_programs_apart():
    """Else equal tables would say nothing."""
    said = {n: json.loads((DATA / f).read_text(encoding="utf-8"))["right"]
            for n, f in PROGRAMS.items()}  # fmt: skip
    for a, b in (("lmms-eval", "vlmevalkit"), ("lmms-eval", "official")):
        for benchmark in ("mvbench", "video-mme"):
            differ = [t for t in texts() if said[a][benchmark][t] != said[b][benchmark][t]]
            assert len(differ) > 30


def test_the_installed_lmms_eval_says_the_same():
    """Only where lmms-eval is installed, which needs an environment of its own."""
    package = pytest.importorskip("lmms_eval", reason="lmms-eval is not installed")
    assert package is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = judged(of_lmms_eval())
    for benchmark, said in theirs.items():
        assert letters(benchmark)
        assert ours("lmms-eval", benchmark)[benchmark] == said
