"""The rule of shipping: every bar reached, then the lowest loss; nothing else counts."""

import json
from copy import deepcopy
from pathlib import Path

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.toyworld.choose_weights import QUALITY, Training, choose, read_training

LOG = Path(__file__).parents[2] / "docs" / "training" / "backbone.jsonl"


def trained(name, loss, **worse):
    accuracy = deepcopy(QUALITY)
    accuracy["breaking"] |= worse
    return Training(Path(name), loss, accuracy)


def test_the_lowest_loss_of_those_that_reach_every_bar():
    some = [trained("a", 0.8), trained("b", 0.7), trained("c", 0.6, order=0.739)]
    assert choose(some) == some[1]
    assert some[2].missed == ["breaking order 73.9% < 74%"]
    assert choose(some[2:]) is None


def test_a_log_is_read_and_an_unfinished_one_refused(tmp_path):
    rows = LOG.read_text().splitlines()
    (tmp_path / "log.jsonl").write_text("\n".join(rows))
    found = read_training(tmp_path)
    losses = [json.loads(row)["total"] for row in rows if '"total"' in row]
    assert found.loss == losses[-1]
    assert found.missed == []
    (tmp_path / "log.jsonl").write_text("\n".join(rows[:-1]))
    with pytest.raises(OptionError, match="no finished training"):
        read_training(tmp_path)
    with pytest.raises(OptionError, match="no finished training"):
        read_training(tmp_path / "nowhere")
