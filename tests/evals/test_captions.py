"""Captions against what is drawn: counting, tuning, and the captions of one clip."""

from dataclasses import replace

import numpy as np
import pytest

from macd_studio.core.methods import find_method
from macd_studio.core.options import RunOptions
from macd_studio.core.run.order import run_method
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks.toyworld_crossed import CrossedToyWorld
from macd_studio.evals.running.answer import item_seed, with_contrast
from macd_studio.evals.studies import captions
from macd_studio.evals.studies.captions import FEWER, GRID, Captions, caption_row, compare, tune
from macd_studio.evals.studies.first_token import ORACLE, VIDEO

WORLD = CrossedToyWorld()
N = 40


def told(of, **methods):
    """Captions of N clips. of: split; methods: name → what it says of clip i at a pair."""
    items = [i for i in WORLD.items(of, N) if i.regime == "captions"][:N]
    rows = []
    for item in items:
        there = sorted(WORLD.present(item.clip))
        other = next(c for c in WORLD.nouns if c not in there)
        texts = {VIDEO: {"": f"a {there[0]}, a {there[1]} and a {other}"}}
        for name, say in methods.items():
            texts[name] = {"{:g}, {:g}".format(*p): say(there, other, p) for p in GRID}
        rows.append({"captions": texts, "reads": dict.fromkeys(methods, 2.0)})
    return Captions(WORLD, items, rows)


def whole(there, other, pair):
    """Right, but at α = 1 alone."""
    return " and ".join(there) if pair[0] == 1 else other


def worse(there, other, pair):
    return other


def test_errors_are_what_is_invented_and_what_is_missed():
    some = told("test", macd=whole)
    counts = some.counts(some.named(VIDEO, None))
    there = np.array([len(WORLD.present(c)) for c in some.clips])
    assert (counts["errors"] == there - 2 + 1).all()
    assert (counts["invented"] == 1).all()
    right = some.counts(some.named("macd", (1.0, 0.5)))
    assert (right["errors"] == 0).all()
    assert (right["faint"] == 1).all()
    fewer = some.counts(some.named(FEWER, None))
    assert (fewer["invented"] == 0).all()  # the invention was named last
    assert (fewer["errors"] == there - 2).all()


def test_alpha_and_beta_are_those_with_the_fewest_errors():
    assert tune(told("choose", macd=whole), "macd") == (1.0, 0.5)
    assert tune(told("choose", macd=worse), "macd") == (0.25, 0.5)  # all alike


def test_methods_are_compared_at_what_was_tuned_and_what_knows_the_truth_is_not_tested():
    methods = {"macd": whole, "vcd": worse, ORACLE: whole}
    asked = {}

    def test(contrasts):
        asked.update(contrasts)
        return told("test", **methods)

    report = compare(told("choose", **methods), test, list(methods))
    assert asked["macd"] == (1.0, 0.5)
    figures = report["methods"]
    assert (report["n"], report["tests"]) == (N, 2)
    assert figures["macd"]["errors"][2] < 0 < figures["vcd"]["errors"][1]
    assert figures["macd"]["holm"] < 0.05
    assert "p" not in figures[ORACLE]
    assert figures[FEWER]["errors"][0] == pytest.approx(-1)
    lines = captions.markdown(report).splitlines()
    assert any(line.startswith("| MACD | 1, 0.5 | **−") for line in lines)
    assert any(line.startswith("| One object fewer | – | −1.00") for line in lines)


def test_captions_of_a_clip_are_those_of_whole_runs(toyworld):
    """Tokens that no contrast changes are taken from the video: the text stays the same."""
    item = WORLD.item("test/captions/2")
    clip, tracks = WORLD.clip(item.clip), WORLD.true_tracks(item.clip)
    pairs = [(8.0, 1e-4), (0.25, 0.5)]
    row = caption_row(
        toyworld, clip, tracks, item, {"mask-all": pairs, ORACLE: pairs[:1]}, RunOptions()
    )
    assert set(row["captions"]) == {VIDEO, "mask-all", ORACLE}
    assert set(row["captions"][VIDEO].values()) != set(row["captions"]["mask-all"].values())
    own = replace(RunOptions(), seed=item_seed(item.id), decode=captions.LONGEST)
    for pair in pairs:
        context = MethodContext(toyworld, toyworld.encode(clip, item.question), tracks, own)
        context.options = with_contrast(own, "mask-all", pair)
        answer = run_method(context, find_method("mask-all"))
        assert row["captions"]["mask-all"]["{:g}, {:g}".format(*pair)] == answer.text
