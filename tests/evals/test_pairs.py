"""Pairs of clips: which can be used, and their figures against the redrawn-clip test."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.core.options import RunOptions
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks import open_files
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.pairs import items
from macd_studio.evals.pairs.items import PairItem, collect, drawn, pairs_of, usable
from macd_studio.evals.pairs.meter import (
    CLIP,
    MASK,
    PARTNER,
    PairRow,
    figures_of,
    markdown,
    read_pair,
)
from macd_studio.evals.protocol.bounds import NAME_OF_FILE, read_protocol
from macd_studio.evals.studies.first_token import REMOVED, contrasted, read_options, stack
from macd_studio.evals.studies.redrawn import margins
from tests.evals.layouts import MAKERS, PAIRS

N = 3


@pytest.fixture(scope="module")
def read(toyworld):
    """Drawn pairs, where they come from, and their rows without methods."""
    found, source = drawn(N, 9)
    rows = [
        read_pair(toyworld, p, source.clip(p.item.clip), source.clip(p.partner), source.tracks(p),
                  RunOptions(), ())
        for p in found.pairs
    ]  # fmt: skip
    return found, source, rows


def test_drawn_pairs_give_the_margins_of_the_redrawn_clip_test(read, toyworld):
    _, source, rows = read
    for row, clip in zip(rows, source._drawn.values(), strict=True):
        expected = margins(toyworld, *clip)
        for view, name in ((CLIP, "as it is"), (PARTNER, "redrawn"), (MASK, "mean")):
            assert row.margin(view) == pytest.approx(expected[name], abs=2e-3)
    meter = figures_of(rows, 1.0, 0.1)["meter"]
    per_pair = [r.margin(MASK) - r.margin(PARTNER) for r in rows]
    assert meter["mask"][0] == pytest.approx(np.mean(per_pair))
    assert meter["mask"][1] <= meter["mask"][0] <= meter["mask"][2]


def test_their_headroom_is_that_of_the_clip_drawn_again(read, toyworld):
    found, source, rows = read
    options = ("yes", "no")
    drawn_again = [
        read_options(toyworld, source.clip(p.item.clip), source.tracks(p),
                     Item(p.item.id, p.item.clip, "", "", "yes-no", p.item.question, "no",
                          about=p.item.about, options=options),
                     [REMOVED], RunOptions(), without=source.clip(p.partner))
        for p in found.pairs
    ]  # fmt: skip
    base, removed = (stack(drawn_again, v) for v in ("baseline", REMOVED))
    np.testing.assert_allclose(base, [r.views[CLIP] for r in rows], atol=2e-3)
    np.testing.assert_allclose(removed, [r.views[PARTNER] for r in rows], atol=2e-3)
    for alpha, beta in ((1.0, 0.1), (3.0, 0.01)):
        gain = (contrasted(base, removed, alpha, beta) == 1).mean() - (base.argmax(1) == 1).mean()
        part = figures_of(rows, alpha, beta)["headroom"]
        assert part["gains"][PARTNER][0] == pytest.approx(gain)


# what can be used


def pair(question="Is there a dog in the video?", added=(), truth="no", removed=("dog",)):
    return PairItem(Item("q", "c", "", "", "yes-no", question, "yes"), "p", removed, added, truth)


@pytest.mark.parametrize(("one", "why"), [
    (pair(), ""), (pair(added=("cat",)), ""), (pair(added=("dog",)), items.NAMED),
    (pair("Are there dogs?", added=("dog",)), items.NAMED), (pair(truth="yes"), items.STAYS),
    (pair("Is there a traffic light?", added=("light",)), items.NAMED),
    (pair("Is there a traffic light?", added=("traffic cone",)), ""),
])  # fmt: skip
def test_a_pair_is_used_where_the_partner_says_nothing_of_what_is_asked(one, why):
    assert usable(one) == why


def test_what_cannot_be_used_is_counted_with_the_reason():
    found = collect("x", [pair(), pair(truth="yes"), items.NO_PARTNER, items.NO_PARTNER])
    assert len(found.pairs) == 1
    assert found.left_out == {items.STAYS: 1, items.NO_PARTNER: 2}


def own(folder, **record):
    for name in ("a.mp4", "b.mp4"):
        (folder / name).write_bytes(b"")
    row = {"video": "a.mp4", "counterpart": "b.mp4", "question": "Is there a dog?",
           "answer": "yes", "removed": "dog, cat"}  # fmt: skip
    (folder / "q.jsonl").write_text(json.dumps(row | record) + "\n")
    return open_files("questions", folder / "q.jsonl")


def test_own_questions_name_the_partner_of_their_clip(tmp_path):
    benchmark = own(tmp_path)
    (one,) = pairs_of(benchmark).pairs
    assert (one.removed, one.added, one.replaced) == (("dog", "cat"), (), False)
    assert benchmark._clips[one.partner].video.name == "b.mp4"
    assert one.partner != one.item.clip
    (other,) = pairs_of(own(tmp_path, added="bird")).pairs
    assert other.replaced


def test_a_run_contrasts_with_the_partner_of_each_clip(tmp_path, toyworld, monkeypatch):
    """As `--methods pair`; clips without a partner are left out with the reason."""
    from macd_studio.evals.running.answer import PendingAnswer, answer_clip

    found, source = drawn(1, 9)
    (pair,) = found.pairs
    wanted = [PendingAnswer(pair.item, m, (1.0, 0.1), m) for m in ("baseline", "pair")]
    clips = source.clip(pair.item.clip), source.clip(pair.partner)
    with_partner = {r.method: r for r in answer_clip(
        wanted, toyworld, clips[0], (), RunOptions(), lambda item: clips[1])}  # fmt: skip
    alone = {r.method: r for r in answer_clip(wanted, toyworld, clips[0], (), RunOptions())}
    assert not with_partner["pair"].left_out
    assert with_partner["pair"].margin != with_partner["baseline"].margin
    assert "no partner of this clip was given" in alone["pair"].left_out
    assert alone["baseline"].given["by"]["family"] == "qwen2_5_vl"
    assert "by" not in alone["pair"].given


def test_a_set_without_usable_pairs_is_refused(tmp_path):
    with pytest.raises(
        BenchmarkError, match="no pair of questions can be used: 1 because what was"
    ):
        pairs_of(own(tmp_path, added="dog"))
    with pytest.raises(BenchmarkError, match="no partner"):
        pairs_of(own(tmp_path, counterpart=""))
    with pytest.raises(BenchmarkError, match="missing in"):
        pairs_of(own(tmp_path, counterpart="none.mp4"))


@pytest.fixture(scope="module")
def layouts(tmp_path_factory):
    return {name: MAKERS[name](tmp_path_factory.mktemp(name)) for name in PAIRS}


def test_pairs_of_published_layouts(layouts):
    found = pairs_of(open_files("vidpair-halluc", layouts["vidpair-halluc"]))
    # of two pairs about an object each clip's own object is asked for, which the other lacks
    assert len(found.pairs) == 4
    assert all(p.replaced and p.truth == "no" and p.item.truth == "yes" for p in found.pairs)
    for one in found.pairs:
        assert not any(items.names(one.item.question, label) for label in one.added)
        assert one.partner != one.item.clip
    assert found.left_out[items.OTHER_KIND] == 8
    shared = pairs_of(open_files("videohallucer", layouts["videohallucer"]))
    assert len(shared.pairs) == 4
    assert shared.left_out == {items.NO_PARTNER: 4}
    with pytest.raises(OptionError, match="has no pairs of clips that share their scene"):
        pairs_of(open_files("vidhalluc", layouts["vidhalluc"]))


def test_a_partner_of_which_nobody_says_what_it_shows_is_left_out():
    """What is asked of a clip may be in its partner too, where nobody asked there."""

    def item(clip, question, truth):
        return Item(f"{clip} {question}", clip, items.BINARY, "", "yes-no", question, truth,
                    labels=(("aspect", "object"),))  # fmt: skip

    asked = [item("a", "Is there a dog?", "yes"), item("b", "Is there a cat?", "yes")]
    both = [*asked, item("b", "Is there a dog?", "no"), item("a", "Is there a cat?", "no")]
    for everything, used in ((asked, 0), (both, 2)):
        benchmark = SimpleNamespace(everything=everything, partner=lambda i: "ab".strip(i.clip))
        found = collect("x", items._of_vidpair(benchmark))
        assert len(found.pairs) == used
        assert found.left_out == {items.STAYS: 2}


def test_the_command_writes_what_clip_and_partner_were_given(tmp_path, capsys):
    words = ["pairs", "drawn", "--n", "2", "--out", str(tmp_path)]
    assert main(words) == 0
    protocol = read_protocol(tmp_path / NAME_OF_FILE)
    assert [i.id for i in protocol.items] == ["0", "1"]
    for item in protocol.items:
        clip, partner = protocol.clips[item.clip], protocol.clips[item.partner]
        assert (clip.key, partner.key) == (item.id, f"{item.id} (partner)")
        assert clip.source[:2] == partner.source[:2]
        assert clip.source[2] != partner.source[2], "two clips, one of them without an object"
        assert clip.read[2] != partner.read[2]
        assert protocol.models[item.by]["family"] == "qwen2_5_vl"
    assert protocol.methods["pair"] == {"alpha": 1.0, "beta": 0.1, "from": "", "failed": (),
                                        "left_out": ()}  # fmt: skip
    assert main(["diff", str(tmp_path), str(tmp_path)]) == 2
    assert "holds what pairs of clips tell, which is no single figure" in capsys.readouterr().err


# figures


def row(i, clip, partner, mask=None, truth="yes", replaced=False, **more):
    views = {CLIP: [clip, 0.0], PARTNER: [partner, 0.0]} | {n: [z, 0.0] for n, z in more.items()}
    views |= {} if mask is None else {MASK: [mask, 0.0]}
    return PairRow(str(i), str(i), truth, replaced, views, mask is not None)


def test_the_meter_is_the_margin_of_the_mask_less_that_of_the_partner():
    rows = [row(0, 3.0, -1.0, 0.5), row(1, 2.0, -2.0, -1.5, replaced=True), row(2, 1.0, 0.5)]
    found = figures_of(rows, 1.0, 0.1)
    assert found["meter"]["mask"][0] == pytest.approx((1.5 + 0.5) / 2)
    assert found["meter"]["clip"][0] == pytest.approx(4.0)
    assert found["meter"]["answers_as_partner"][0] == 0.5
    assert (found["meter"]["n"], found["meter_of_removals"]["n"]) == (2, 1)
    assert (found["replaced"], found["nothing_to_mask"], found["pairs"]) == (1, 1, 3)


def test_the_headroom_is_what_contrast_with_the_partner_repairs():
    # a missed "yes" that the partner's lower margin lifts, one that it cannot, one that is right
    rows = [
        row(0, -0.5, -2.0, macd=-0.5),
        row(1, -0.5, -0.5, macd=-0.5),
        row(2, 1.0, -1.0, macd=4.0),
    ]
    part = figures_of(rows, 1.0, 0.1)["headroom"]
    assert part["baseline"][0] == pytest.approx(1 / 3)
    assert part["gains"][PARTNER][0] == pytest.approx(1 / 3)
    assert part["gains"]["macd"][0] == pytest.approx(-1 / 3)


def test_pairs_that_fail_are_told_and_counted():
    failed = PairRow("x", "x", "yes", False, {}, error="the file is damaged")
    found = figures_of([row(0, 1.0, 0.0, 0.5), failed], 1.0, 0.1, {items.STAYS: 3})
    text = markdown(found | {"name": "mine"})
    assert found["pairs"] == 1
    assert "1 pair failed, such as x: the file is damaged" in text
    assert f"3: {items.STAYS}" in text
    assert "a replacement" in text
    assert "| all pairs | 1 | +0.50 | +1.00 | 0.0 |" in text  # one pair tells nothing of others
    assert "oracle" not in text.lower()
