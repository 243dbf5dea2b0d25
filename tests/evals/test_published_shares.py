"""Published shares whose rows were not kept: their intervals follow from their counts."""

import json

import numpy as np
import pytest

from macd_studio.evals.commands.render import REPORT
from macd_studio.evals.statistics.intervals import clustered_share


def shares():
    """(where, share with its interval, questions), one question a clip."""
    for path in sorted(REPORT.glob("fills/*.json")):
        for part in json.loads(path.read_text())["regimes"].values():
            assert part["n"] == part["clips"]
            for name, figures in part["methods"].items():
                yield f"{path.stem} {name}", figures["right"], part["n"]
    for file in ("redrawn", "redrawn-former"):
        redrawn = json.loads((REPORT / f"{file}.json").read_text())
        for name, view in redrawn["views"].items():
            yield f"{file} {name}", view["false_yes"], redrawn["clips"]
    for part in json.loads((REPORT / "detectors.json").read_text())["regimes"].values():
        assert part["n"] == part["clips"]
        for source, one in part["sources"].items():
            yield source, one["asked"], part["n"]
            yield source, one["baseline"], part["n"]
            yield source, one["methods"]["macd"]["right"], part["n"]


def test_intervals_follow_from_counts():
    told = list(shares())
    assert len(told) > 50
    for where, share, n in told:
        hits = share[0] * n
        assert hits == pytest.approx(round(hits)), where
        exact = clustered_share(np.arange(n) < round(hits), range(n))
        assert share == pytest.approx(exact), where
