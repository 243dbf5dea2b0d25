"""Views that go on apart and together, against a batch in which they always are together."""

import numpy as np
import pytest

from macd_studio.core.decoding import batch as batches
from macd_studio.core.decoding.batch import LazyViewBatch, ViewBatch, open_views
from macd_studio.core.decoding.views import DEFAULTS
from macd_studio.core.errors import NumericalError
from macd_studio.core.rules import Plain
from tests.core.test_lazy import Planned, opened, rule_of, views_of
from tests.core.test_loop_reference import LM, rows_of, states

RULE = rule_of("linear", 0.5)


def both(lm, names, rows=1):
    """The same views in a lazy batch, all handed over, and in one that reads all."""
    base, *others = views_of(lm, names)
    lazy = LazyViewBatch(lm, base, rows)
    lazy.open(others)
    return lazy, ViewBatch(lm, *views_of(lm, "b"), views_of(lm, names[1:]), rows)


def step(batches, tokens):
    for batch in batches:
        batch.next_logits(0, RULE)
        batch.step(tokens)


def check(lazy, eager):
    found = rows_of(lazy, 0, RULE)
    assert found == rows_of(eager, 0, RULE)
    return len(found)


@pytest.mark.parametrize("names", ["bq", "bpq"])
def test_hypotheses_part_and_meet_under_every_view(names, monkeypatch):
    monkeypatch.setattr(batches, "IDLE_TOKENS", 2)
    lm = Planned(opened=(1, 6), end_after=30)
    lazy, eager = pair = both(lm, names, 3)
    step(pair, [1, 2, 3])
    assert check(lazy, eager) == len(names)  # open at the second token
    for tokens in ([4, 5, 6], [0, 1, 2], [1, 1, 2], [5, 4, 3], [7, 6, 5]):
        step(pair, tokens)
    assert lazy._seconds is not None
    assert {len(s.cache) for s in lazy._seconds} == {3}
    for batch in pair:
        batch.select([2, 0])
    assert check(lazy, eager) == len(names)
    assert [list(lazy.fed(r)) for r in range(2)] == [list(eager.fed(r)) for r in range(2)]


def test_hypotheses_leave_before_a_second_view_is_read():
    lm = Planned(opened=(2,), end_after=30)
    lazy, eager = pair = both(lm, "bq", 3)
    step(pair, [1, 2, 3])
    for batch in pair:
        batch.select([2, 0])
    step(pair, [4, 5])
    assert check(lazy, eager) == 2


@pytest.mark.parametrize("kept", [0, 1, 2, 3, 4, 6])
def test_what_was_read_apart_is_cropped_too(kept, monkeypatch):
    """The second views read three tokens, and then none of the next four."""
    monkeypatch.setattr(batches, "IDLE_TOKENS", 1)
    lm = Planned(opened=(1, kept + 1, 12), end_after=30)
    lazy, eager = pair = both(lm, "bpq")
    for token in (1, 2, 3, 4, 5, 6, 7):
        step(pair, [token])
    for batch in pair:
        batch.crop(kept)
        batch.step([0])
    assert check(lazy, eager) == 3


def test_views_that_go_on_together_again_are_cropped_together(monkeypatch):
    monkeypatch.setattr(batches, "IDLE_TOKENS", 1)
    lm = Planned(opened=(1, 5, 2), end_after=30)
    lazy, eager = pair = both(lm, "bq")
    for token in (1, 2, 3, 4, 5):
        step(pair, [token])
    assert check(lazy, eager) == 2
    assert lazy._seconds is None
    for batch in pair:
        batch.crop(1)
        batch.step([6])
    assert check(lazy, eager) == 2


def test_a_logit_that_is_not_finite_names_its_token():
    lazy = opened(lm := Planned((), 9), *views_of(lm, "bq"))
    lazy.crop(0)
    with pytest.raises(NumericalError, match=r"\btoken 5\b"):
        lazy.next_logits(4, RULE)
    with pytest.raises(NumericalError, match=r"\btoken 1\b"):
        lazy.video_logits()


def test_what_follows_in_the_video_is_that_of_the_first_hypothesis():
    for names in ("b", "bq", "bp"):
        base, *others = states(names)
        batch = ViewBatch(LM, base, others, 2)
        assert batch.video_logits().values.tolist() == LM.row("b", []).tolist()
        batch.step([1, 2])
        assert batch.video_logits().values.tolist() == LM.row("b", [1]).tolist()


@pytest.mark.parametrize("names", ["bq", "bp", "bqp", "bpq"])
def test_what_is_hidden_is_told_of_each_hypothesis(names):
    base, *others = states(names)
    batch = ViewBatch(LM, base, others, 3)
    batch.step([4, 5, 6])
    for row, token in enumerate((4, 5, 6)):
        expected = LM.seen(names[1], [token]).tolist()
        assert batch.hidden(row).tolist() == expected


def test_each_hypothesis_is_fed_a_token():
    batch = ViewBatch(LM, *states("b"), [], 2)
    for tokens in ([1], [1, 2, 3]):
        with pytest.raises(ValueError, match="zip"):
            batch.step(tokens)


def test_views_are_opened_by_where_the_model_is(monkeypatch):
    base, other = states("bq")
    lazy = open_views(LM, base, None, DEFAULTS, 3)
    assert (type(lazy), lazy.rows) == (LazyViewBatch, 3)
    eager = open_views(LM, base, [other], DEFAULTS, 2)
    assert (type(eager), eager.rows) == (ViewBatch, 2)
    assert np.shape(rows_of(eager, 0, Plain())) == (2, 2, 9)
    assert eager.options is lazy.options is DEFAULTS
    for others in (None, [other]):
        assert open_views(LM, base, others, DEFAULTS).rows == 1
    monkeypatch.setattr(batches, "AskedViews", lambda *given: given)
    for others, rows in ((["second"], 2), (None, 1)):
        given = (LM, "handle", others, rows, DEFAULTS)
        assert open_views(LM, "handle", others, DEFAULTS, rows) == given
