"""Many draws of each control, against the same views read one by one."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.masking.controls import arrangements
from macd_studio.core.options import RunOptions
from macd_studio.core.text.question import word_tokens
from macd_studio.core.views.context import MethodContext
from macd_studio.core.views.table import find_view, hidden_pixels_of
from macd_studio.evals.benchmarks import find_benchmark
from macd_studio.evals.running.answer import choices_of, item_seed
from macd_studio.evals.studies import control_draws
from macd_studio.evals.studies.control_draws import ORDERS, PLACES, read_draws, stored
from macd_studio.evals.studies.first_token import oracle_view


@pytest.fixture(scope="module")
def read(toyworld):
    benchmark = find_benchmark("toyworld-crossed")
    item = next(i for i in benchmark.items("choose", 80) if i.regime == "options")
    clip, tracks = benchmark.clip(item.clip), benchmark.true_tracks(item.clip)
    options = RunOptions()
    row = read_draws(toyworld, clip, tracks, item, options)
    own = replace(options, seed=item_seed(item.id), choices=choices_of(item, options))
    context = MethodContext(toyworld, toyworld.encode(clip, item.question), tracks, own)
    return row, context, item


def of_options(context, item, logits):
    ids = [word_tokens(context.lm.tokens, option) for option in item.options]
    return [max(float(logits[i]) for i in tokens) for tokens in ids]


def test_a_row_holds_what_the_views_read_alone_hold(read):
    row, context, item = read
    assert row.video == pytest.approx(of_options(context, item, context.base.logits[0]), abs=1e-3)
    view = find_view("macd")(context)
    assert row.macd == pytest.approx(of_options(context, item, view.state.logits[0]), abs=1e-3)
    assert row.level == list(view.record.level)
    assert len(row.places) == PLACES
    assert len({tuple(d.logits) for d in row.places}) > 1


def test_the_oracle_s_row_holds_its_own_views(read, toyworld):
    _, context, item = read
    clip = find_benchmark("toyworld-crossed").clip(item.clip)
    row = read_draws(toyworld, clip, context.tracks, item, RunOptions(), "oracle")
    view = oracle_view(context, item.about)
    assert row.macd == pytest.approx(of_options(context, item, view.state.logits[0]), abs=1e-3)
    assert row.choice == "oracle"
    assert [tuple(d.level) for d in row.objects] == list(arrangements(row.level))
    alone = [t.label == item.about for t in context.tracks]
    assert row.level == alone
    assert sum(alone) == 1
    assert len(row.objects) == len(context.tracks)


def test_every_order_of_the_levels_is_there_once(read):
    row, context, _ = read
    levels = [tuple(d.level) for d in row.objects]
    assert levels == list(arrangements(row.level))
    hidden = hidden_pixels_of(context, context.counterfactual(context.options.mask))
    many = replace(hidden, level=np.arange(len(hidden.level) or 1) / 10, tracks=hidden.tracks)
    drawn = list(control_draws.orders(replace(many, level=np.linspace(0, 1, 4)), 0))
    assert len(drawn) == ORDERS


def test_the_command_goes_on_where_it_stopped(toyworld, tmp_path, monkeypatch, capsys):
    benchmark = find_benchmark("toyworld-crossed")
    items = [i for i in benchmark.items("choose", 80) if i.regime == "options"][:2]
    monkeypatch.setattr(type(benchmark), "items", lambda *_: items)
    models = toyworld, lambda item: (benchmark.clip(item.clip), benchmark.true_tracks(item.clip))
    monkeypatch.setattr("macd_studio.evals.studies.shared.open_models", lambda *_: models)
    args = ["--n", "2", "--split", "2", "--out", str(tmp_path)]
    assert control_draws.main(args) == 0
    first = stored(tmp_path / "draws.json.xz")
    assert set(first) == {i.id for i in items}
    nothing_is_missing = "macd_studio.evals.studies.control_draws.read_draws"
    monkeypatch.setattr(nothing_is_missing, lambda *_, **__: pytest.fail("a clip is read again"))
    assert control_draws.main(args) == 0
    assert control_draws.main(["--n", "0"]) == 2
    assert "n" in capsys.readouterr().err
