"""The published tables follow from the committed logits."""

import json

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.printing.plots import forest
from macd_studio.evals.studies import experiments
from macd_studio.evals.studies.experiments import (
    POOL,
    figures_of,
    main,
    merged,
    of_regime,
    read_pool,
)
from macd_studio.evals.studies.first_token import OptionLogits
from macd_studio.evals.studies.shared import FOLDER, plain


def close(a, b, where=""):
    """Whether two JSON values are alike but for the last digits of floats."""
    assert type(a) is type(b) or {type(a), type(b)} <= {int, float}, where
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            close(a[key], b[key], f"{where}/{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for x, y in zip(a, b, strict=True):
            close(x, y, where)
    else:
        assert a == pytest.approx(b, abs=1e-9), where


@pytest.mark.parametrize(
    ("name", "regime"),
    [
        pytest.param("crossed", "options", marks=pytest.mark.long),
        ("crossed", "presence"),
        pytest.param("crossed", "order", marks=pytest.mark.long),
        pytest.param("search", "options", marks=pytest.mark.long),
        pytest.param("seed-124/report", "options", marks=pytest.mark.long),
    ],
)
def test_the_published_tables_follow_from_the_logits(name, regime):
    told = json.loads((FOLDER / f"{name}.json").read_text())["regimes"][regime]
    found = plain(figures_of(name, regime))
    holm = [told["methods"].pop(m).pop("holm", None) for m in ()]
    for method, figures in told["methods"].items():
        for part in (figures, *figures.get("over", {}).values()):
            holm.append(part.pop("holm", None))
        close(found["methods"][method], figures, method)
    assert found["n"] == told["n"]
    assert any(h is not None for h in holm)


def test_the_command_writes_every_experiment(tmp_path, monkeypatch):
    pool = read_pool(FOLDER / POOL)
    small = {"crossed": {"presence": experiments.Part((80, 80), ("macd", "mask-all", "vcd"))}}
    monkeypatch.setattr(experiments, "EXPERIMENTS", small)
    assert main(["--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "crossed.json").read_text())
    assert report["regimes"]["presence"]["n"] == 80
    assert report["families"]["gains"] <= 3
    assert (tmp_path / "crossed.svg").stat().st_size > 1000
    with pytest.raises(OptionError, match="have no logits"):
        of_regime({}, "presence", (80, 80))
    broken = tmp_path / "broken.gz"
    broken.write_bytes(b"no gzip")
    with pytest.raises(OptionError, match="cannot be read"):
        read_pool(broken)
    assert np.all([len(row.views["baseline"]) >= 2 for row in pool.values()])


def test_a_later_pool_stands_for_an_earlier_one_of_the_same_model():
    first = OptionLogits("a", {"baseline": [1.0, 2.0], "vcd": [0.0, 0.0]}, {"vcd": 2.0})
    second = OptionLogits("a", {"baseline": [1.001, 2.0], "vcd": [5.0, 0.0], "macd": [1.0, 1.0]})
    row = merged([{"a": first, "b": first}, {"a": second}])["a"]
    assert row.views == {"baseline": [1.0, 2.0], "vcd": [5.0, 0.0], "macd": [1.0, 1.0]}
    assert row.reads == {"vcd": 2.0}
    other = OptionLogits("a", {"baseline": [1.1, 2.0]})
    with pytest.raises(OptionError, match="two models"):
        merged([{"a": first}, {"a": other}])


def test_a_method_that_a_regime_lacks_has_an_empty_row():
    def part(*methods):
        gain = {"delta": [0.1, 0.05, 0.15]}
        right = {"baseline": {"right": [0.7, 0.6, 0.8]}}
        return {"n": 9, "methods": right | dict.fromkeys(methods, gain)}

    marks = [
        forest({"regimes": {"one": part("vcd", "macd"), "two": part(*second)}}).count("<use ")
        for second in (("vcd", "macd"), ("vcd",))
    ]
    assert marks[0] > marks[1] > 0
