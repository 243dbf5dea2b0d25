"""Planning: the power of the exact test against simulated tests, and what the command says."""

import json

import numpy as np
import pytest
from scipy.stats import binomtest

from macd_studio.evals.__main__ import main
from macd_studio.evals.statistics.stats import questions_needed


@pytest.mark.parametrize(
    ("difference", "discordance"), [(0.08, 0.2), pytest.param(0.1, 0.35, marks=pytest.mark.long)]
)
def test_the_number_of_questions_has_the_power_it_says(difference, discordance):
    n = questions_needed(difference, discordance)
    rng = np.random.default_rng(1)
    gained, lost = (discordance + difference) / 2, (discordance - difference) / 2
    drawn = rng.multinomial(n, [gained, lost, 1 - gained - lost], size=3000)
    found = [binomtest(int(g), int(g + z), 0.5).pvalue <= 0.05 for g, z, _ in drawn if g + z]
    assert sum(found) / len(drawn) == pytest.approx(0.8, abs=0.025)


def test_the_command_takes_the_discordance_of_a_run(tmp_path, capsys):
    compared = {"macd": {"all": {"repaired": 30, "spoiled": 10}}}
    report = {"kind": "files", "n": 200, "compared": compared}
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert main(["power", "--difference", "5", "--run", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "discordance 20.0 % (of 200 questions, macd against the baseline)" in out
    assert "658 questions show 5 points" in out
    assert main(["power", "--n", "193", "--discordance", "30"]) == 0
    assert "11.3" in capsys.readouterr().out
    assert main(["power", "--n", "658", "--difference", "5", "--discordance", "20"]) == 0
    assert "a power of 80.1 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--difference", "5"], "discordance is not known"),
        (["--discordance", "5"], "neither --difference nor --n"),
        (["--difference", "30", "--discordance", "20"], "needs at least"),
        (["--n", "0", "--discordance", "20"], "--n is 0"),
        (["--difference", "5", "--run", "/nowhere"], "there is no file"),
    ],
)
def test_wrong_plans_are_one_line(flags, named, capsys):
    assert main(["power", *flags]) == 2
    err = capsys.readouterr().err
    assert named in err
    assert err.count("\n") == 1
