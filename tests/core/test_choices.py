"""The choice map against views that are read one by one, and the verdicts that rest on it."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import macd_studio as macd
from macd_studio.core.cli.main import main
from macd_studio.core.errors import Cancelled, OptionError, TraceError
from macd_studio.core.measurements import (
    ChoiceMap,
    Enough,
    Given,
    Piece,
    Smallest,
    Subset,
    Target,
    rank,
)
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load, pack, unpack
from macd_studio.core.views.measured import measured_changes
from macd_studio.core.whatif.controls import measure_choices
from macd_studio.core.whatif.edits import read_edit
from macd_studio.core.whatif.verdict import (
    REPLIES,
    RULES,
    as_text,
    asked_objects,
    giving_macd_token,
    map_as_text,
    marks_of,
    masked_alone,
    verdict_of,
    views_of_map,
)
from macd_studio.core.whatif.workbench import Workbench
from tests.fakes import BoxDetector, clip
from tests.families import tiny
from tests.small_trace import small_trace
from tests.universal_models import universal

EXAMPLES = assets() / "examples"
QUESTION = "Is there a dog in the video?"
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def mapped(trace, lm):
    bench = Workbench(trace, lm)
    for _ in bench.choice_events():
        pass
    return bench


@pytest.fixture(scope="module")
def repaired(toyworld):
    return mapped(load(EXAMPLES / "repaired.macd"), toyworld)


def lead_of(base, other, contrast, at):
    """How far the best other score leads that of the token at a place."""
    scores = (1 + contrast.alpha) * base - contrast.alpha * other
    scores[base < base.max() + np.log(contrast.beta)] = -np.inf
    return float(np.delete(scores, at).max() - scores[at])


def margin_alone(bench, chosen, frames):
    """The baseline's tokens against the best other ones, from one view read by itself."""
    context, trace = bench.context, bench.trace
    level = np.array([float(t.id in chosen) for t in trace.tracks])
    frame_level = trace.counterfactual.frame_level * frames
    video = context.composite(context.masks(context.options.mask), level, frame_level)
    views = [context.lm.prefill(context.encoded, v) for v in (context.encoded.video, video)]
    tokens = [step.token for step in trace.answers["baseline"].tokens]
    lead = -np.inf
    for n in range(trace.choice_map.index + 1):
        rows = [np.asarray(context.lm.next_logits(v, tokens[:n])[0].values, float) for v in views]
        lead = max(lead, lead_of(*rows, trace.options.contrast, tokens[n]))
        if lead > 0:
            break
    return lead if np.isfinite(lead) else None


def edited(bench, chosen):
    """The answer after changes by hand that mask these objects and no others."""
    other = Workbench(bench.trace, bench.lm)
    for track in bench.trace.tracks:
        edit = {"kind": "level", "track": track.id, "level": float(track.id in chosen)}
        list(other.change(read_edit(edit, other.trace)))
    levels = other.trace.counterfactual.level, bench.trace.counterfactual.level
    assert (other.trace.choice_map is None) != np.array_equal(*levels)  # it stands on its levels
    return other.trace.answers["macd"]


def margin_of_answer(bench, answer):
    """The same margin from the stored logits of an answer."""
    plain, lead = bench.trace.answers["baseline"].tokens, -np.inf
    for step, own in zip(answer.tokens[: bench.trace.choice_map.index + 1], plain, strict=False):
        at = int(np.flatnonzero(step.candidates == own.token)[0])
        rows = step.base.astype(float), step.others[0].astype(float)
        lead = max(lead, lead_of(*rows, bench.trace.options.contrast, at))
        if lead > 0:
            break
    return lead if np.isfinite(lead) else None


def same_margin(one, other, contrast):
    """Equal to 5e-5 of a logit, on any processor: a score holds its logits up to 1 + α times."""
    return one is other is None or one == pytest.approx(other, abs=5e-5 * (1 + contrast.alpha))


def check(bench):
    found, ids = bench.trace.choice_map, [t.id for t in bench.trace.tracks]
    framed = bool(bench.trace.counterfactual.frame_level.any())
    assert len(found.subsets) == (1 + framed) << len(ids)
    assert views_of_map(bench.trace) == len(found.subsets) + len(ids) + 2
    for frames in (False, True)[: 1 + framed]:
        expected = [c for n in range(len(ids) + 1) for c in combinations(ids, n)]
        assert [s.objects for s in found.layer(frames)] == expected
    for one in found.subsets:
        alone = margin_alone(bench, one.objects, one.frames)
        assert same_margin(one.margin, alone, bench.trace.options.contrast)
        assert one.flips == (one.margin is not None and one.margin > 0)
        assert (one.answer is not None) == one.flips


def test_every_subset_is_that_of_a_view_by_itself(repaired):
    assert repaired.trace.choice_map.index == 0
    check(repaired)
    flips = sum(s.flips for s in repaired.trace.choice_map.layer(True))
    assert flips == 8


def check_edits(bench, subsets):
    for one in subsets:
        answer = edited(bench, one.objects)
        assert same_margin(
            one.margin, margin_of_answer(bench, answer), bench.trace.options.contrast
        )
        assert one.answer in (None, answer.text)


def test_a_subset_is_what_a_change_by_hand_gives(repaired):
    found = repaired.trace.choice_map
    check_edits(repaired, [found.of((), True), found.of((repaired.trace.tracks[1].id,), True)])


def test_a_view_is_read_once_though_its_answer_is_decoded(toyworld, monkeypatch):
    bench = Workbench(load(EXAMPLES / "repaired.macd"), toyworld)
    assert bench.context.base.length  # read before
    read, prefill = [], type(toyworld).prefill

    def counted(self, encoded, video, *args, **kwargs):
        read.append(len(video) if video.dim() == 5 else 1)
        return prefill(self, encoded, video, *args, **kwargs)

    monkeypatch.setattr(type(toyworld), "prefill", counted)
    for _ in bench.choice_events():
        pass
    assert any(s.answer for s in bench.trace.choice_map.subsets)
    assert sum(read) == views_of_map(bench.trace)


def test_macd_s_own_levels_are_its_answer(repaired):
    own, macd_answer = repaired.trace.choice_map.own, repaired.trace.answers["macd"]
    assert own.answer == macd_answer.text
    assert own.token == macd_answer.tokens[0].text
    levels = repaired.trace.counterfactual.level
    masked = [t.id for t, level in zip(repaired.trace.tracks, levels, strict=True) if level > 0]
    assert list(own.objects) == masked


def test_what_is_masked_in_part_is_among_macd_s_own_objects(toyworld):
    bench = Workbench(load(EXAMPLES / "repaired.macd"), toyworld)
    for track, level in zip(bench.trace.tracks, (0.75, 0.0, 1.0), strict=False):
        list(bench.change(read_edit({"kind": "level", "track": track.id, "level": level},
                                    bench.trace)))  # fmt: skip
    found = mapped(bench.trace, toyworld).trace.choice_map.own.objects
    first, second, third = (t.id for t in bench.trace.tracks[:3])
    assert {first, third} <= set(found)
    assert second not in found


@pytest.mark.parametrize("name", ["qwen2_5_vl", "llava_onevision"])
def test_other_models_have_the_same_map_as_views_by_themselves(name):
    lm = tiny(name) if name == "qwen2_5_vl" else universal(name)
    boxes = BoxDetector((("dog", 0.9, (0.1, 0.1, 0.4, 0.5)), ("cup", 0.8, (0.5, 0.5, 0.9, 0.9))))
    trace = macd.trace(
        clip(4, 96), QUESTION, backbone=lm, detector=boxes, decode={"max_tokens": 2},
        ascent={"steps": 1}, contrast={"alpha": 3.0, "beta": 0.01},
    )  # fmt: skip
    bench = mapped(trace, lm)
    check(bench)
    check_edits(bench, bench.trace.choice_map.layer(bench.trace.choice_map.own.frames))
    assert len(bench.trace.choice_map.objects) == 2


@pytest.mark.long
def test_of_many_objects_those_with_the_largest_effects_are_read(toyworld):
    trace = load(EXAMPLES / "repaired.macd")
    first = trace.tracks[0]
    many = tuple(replace(first, id=10 + n, boxes=first.boxes * (0.2 + 0.1 * n)) for n in range(8))
    levels = replace(trace.counterfactual, **{
        name: np.ones(8) for name in ("strength", "margin", "level")
    })  # fmt: skip
    bench = mapped(replace(trace, tracks=many, steps=(), counterfactual=levels), toyworld)
    found = bench.trace.choice_map
    assert (len(found.objects), len(found.left_out)) == (6, 2)
    assert len(found.layer(False)) == 64
    assert sorted((*found.objects, *found.left_out)) == list(range(10, 18))


def test_it_is_stopped_between_batches_and_needs_objects(toyworld):
    trace = load(EXAMPLES / "repaired.macd")
    bench = Workbench(trace, toyworld)
    stop = []
    measuring = measure_choices(bench.context, trace, lambda: bool(stop))
    assert next(measuring) == (8, 32)
    stop.append(1)
    with pytest.raises(Cancelled):
        next(measuring)
    bare = Workbench(replace(trace, tracks=()), toyworld)
    with pytest.raises(OptionError, match="no object"):
        next(bare.choice_events())


def subset(objects, margin, frames=False, says="b"):
    """A subset of this margin; where it changes the answer, `says` is its token and its answer."""
    flips = margin is not None and margin > 0
    return Subset(objects, frames, flips, margin, *((says, says) if flips else ("a", None)))


def test_places_are_by_margin_and_what_the_cut_forbids_is_last():
    layer = [subset((1,), 2.0), subset((2,), None), subset((3,), -1.0), subset((), 2.0)]
    assert [rank(one, layer) for one in layer] == [1, 4, 3, 1]
    found = ChoiceMap(0, (1, 2, 3), (), tuple(layer), layer[0], 1.0)
    assert found.of([1], False) is layer[0]
    assert found.of([1, 2], False) is None


SAID = {
    "repaired": "choice matters", "harmed": "any damage does it",
    "controls": "any damage does it", "unchanged": "no change", "background": "no change",
    "co-occurrence": "no change", "question-prior": "no change",
    "not-looked": "no change", "levels": "no change", "frames": "any damage does it",
    "small": "undecided", "occluded": "undecided",
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_shipped_examples_have_the_verdict_that_their_figures_give(name):
    trace = load(EXAMPLES / f"{name}.macd")
    found = verdict_of(trace)
    assert found.name == SAID[name]
    assert not found.missing
    text = as_text(trace)
    assert f"verdict: {found.name}. {RULES[found.name]}" in text
    if found.name != "no change":
        same, draws = trace.controls.random()
        layer = trace.choice_map.layer(bool(trace.counterfactual.frame_level.any()))
        own, flips = trace.answers["macd"].tokens[0].text, sum(s.flips for s in layer)
        alike = sum(s.flips and s.token == own for s in layer)
        told = f"{alike} of {len(layer)} subsets of the objects give MACD's token, {flips} change"
        assert told in text
        assert f"{same} of {draws} random masks" in text


def test_a_pasted_verdict_names_what_was_not_read_and_no_folder():
    trace = load(EXAMPLES / "repaired.macd")
    found = replace(trace.choice_map, left_out=(trace.tracks[0].id,))
    cut = {name: replace(one, finished=False) for name, one in trace.answers.items()}
    folder = replace(trace.backbone, name="/home/somebody/models/mine")
    text = as_text(replace(trace, choice_map=found, answers=cut, backbone=folder))
    assert f"- left out: {trace.tracks[0].id} {trace.tracks[0].label}" in text
    assert "(repaired.mp4, mine)" in text
    assert f"MACD: {trace.answers['macd'].text}…" in text
    assert "left out" not in as_text(trace)


@pytest.mark.long
@pytest.mark.parametrize("name", SAID)
def test_the_maps_of_shipped_examples_are_what_the_model_gives(name, toyworld):
    trace = load(EXAMPLES / f"{name}.macd")
    again = mapped(replace(trace, choice_map=None), toyworld).trace.choice_map
    assert again.measured == trace.choice_map.measured
    for one, other in zip(trace.choice_map.subsets, again.subsets, strict=True):
        assert (one.objects, one.frames, one.answer) == (other.objects, other.frames, other.answer)
        assert same_margin(one.margin, other.margin, trace.options.contrast)


def test_a_choice_that_matters_is_called_so(repaired):
    """Few subsets do it, MACD's among the best of them; few random masks; a large constant."""
    trace = repaired.trace
    full = tuple(
        t.id for t, z in zip(trace.tracks, trace.counterfactual.level, strict=True) if z >= 1
    )
    margins = dict.fromkeys((s.objects for s in trace.choice_map.layer(True)), -1.0) | {full: 2.0}
    says = trace.answers["macd"].tokens[0].text
    subsets = tuple(subset(chosen, margin, True, says) for chosen, margin in margins.items())
    own = replace(trace.choice_map.own, margin=2.0)
    few = replace(trace.choice_map, subsets=subsets, own=own)
    outcomes = tuple(replace(o, same=False) for o in trace.controls.outcomes)
    controls = replace(trace.controls, outcomes=outcomes)
    step = trace.answers["baseline"].tokens[0]
    token = trace.answers["macd"].tokens[0].token
    base = np.where(step.candidates == token, step.base - 2, step.base).astype(np.float32)
    plain = replace(trace.answers["baseline"], tokens=(
        replace(step, base=base), *trace.answers["baseline"].tokens[1:],
    ))  # fmt: skip
    made = replace(
        trace, choice_map=few, controls=controls, answers=trace.answers | {"baseline": plain}
    )
    assert verdict_of(made).name == "choice matters"
    for above, name in (
        (len(subsets) // 4, "choice matters"),
        (len(subsets) // 4 + 1, "undecided"),
    ):
        others = [s.objects for s in subsets if s.objects != full][:above]
        ranked = [replace(s, margin=3.0) if s.objects in others else s for s in subsets]
        told = verdict_of(replace(made, choice_map=replace(few, subsets=tuple(ranked))))
        assert told.name == name, (above, len(subsets))
        ranks = f"; MACD's objects rank {above + 1} of {len(subsets)}."
        assert told.reason.endswith(ranks) == (name == "undecided")
    higher = [s if s.objects == full else replace(s, margin=3.0) for s in subsets]
    for other in (
        [replace(s, flips=True, token=says, answer=says) for s in subsets],
        higher,
        [replace(s, flips=False, margin=-1.0) for s in subsets],
        [replace(s, token="z", answer="z") for s in subsets],
    ):
        worse = replace(few, subsets=tuple(other))
        assert verdict_of(replace(made, choice_map=worse)).name != "choice matters"
    lacking = dict(made.answers)  # neither answer's step holds the other's token
    for name, one in lacking.items():
        if name in ("baseline", "macd"):
            head, *rest = one.tokens
            own = head.candidates == head.token
            kept = {"candidates": head.candidates[own], "base": head.base[own]}
            others = tuple(other[own] for other in head.others)
            head = replace(head, texts=(head.text,), others=others, **kept)
            lacking[name] = replace(one, tokens=(head, *rest))
    unknown = verdict_of(replace(made, answers=lacking))
    assert (unknown.name, unknown.missing) == ("undecided", ("the constant",))
    assert unknown.reason.endswith("; which constant does the same is not known.")
    uncontrolled = verdict_of(replace(made, controls=None))
    assert uncontrolled.missing == ("the controls",)
    assert uncontrolled.reason.endswith("; random masks were not measured.")
    unread = verdict_of(replace(made, choice_map=None))
    assert unread.name == "undecided"
    assert unread.reason == (
        "0 of 20 random masks of the same area do the same;"
        " other choices of objects were not measured."
    )
    partly = replace(made.counterfactual, level=np.full(len(made.tracks), 0.5, np.float32))
    assert verdict_of(replace(made, counterfactual=partly)).reason.endswith("so it has no rank.")
    found = verdict_of(made)
    assert found.reply == "yes"
    other = [s if s.flips else replace(s, flips=True, token="z", answer="z") for s in subsets]
    third = verdict_of(replace(made, choice_map=replace(few, subsets=tuple(other))))
    assert (third.name, third.reason) == (found.name, found.reason)  # another answer is not MACD's
    flips, of = sum(s.flips for s in subsets), len(subsets)
    assert found.reason == (
        "0 of 20 random masks of the same area do the same;"
        f" {flips} of {of} choices of objects do{'es' * (flips == 1)} the same."
    )
    unmeasured = verdict_of(replace(made, choice_map=None, controls=None))
    assert (unmeasured.reply, unmeasured.reason) == ("cannot be said", "It was not measured.")


def test_a_subset_does_what_macd_does_where_it_leaves_at_the_same_token():
    """Of an answer of several words: the token, and the words before it."""
    trace = load(EXAMPLES / "repaired.macd")
    first = trace.answers["baseline"].tokens[0]

    def answer(text):
        tokens = tuple(replace(first, token=n, text=f" {w}") for n, w in enumerate(text.split()))
        ids = {"a": 1, "cat": 2, "and": 3, "dog": 4, "bird": 5}
        named = tuple(replace(t, token=ids[t.text.strip()]) for t in tokens)
        return replace(trace.answers["baseline"], text=text, tokens=named)

    both = {"baseline": answer("a cat and a dog"), "macd": answer("a cat and a bird")}
    told = {
        "a cat and a bird and a bird": True,  # what follows may be other words
        "a bird and a bird": False,  # leaves before
        "a cat and a cat": False,
    }
    layer = [
        Subset((n,), True, True, 1.0, " cat" if said.endswith("cat") else " bird", said)
        for n, said in enumerate(told)
    ]
    layer.append(Subset((9,), True, False, -1.0, " bird", None))
    found = giving_macd_token(replace(trace, answers=both), layer)
    assert [one in found for one in layer] == [*told.values(), False]
    assert not giving_macd_token(replace(trace, answers=both | {"macd": both["baseline"]}), layer)


def test_the_table_names_the_nearest_and_counts_the_other_half():
    trace = load(EXAMPLES / "harmed.macd")
    found = trace.choice_map
    without = found.layer(False)
    flips = sum(s.flips for s in without)
    assert f"without the frame mask: {flips} of {len(without)} subsets" in map_as_text(trace)
    assert "; the strongest change is {" in map_as_text(trace)
    kept = tuple(replace(s, flips=False, margin=s.margin - 9) for s in found.subsets)
    none = map_as_text(replace(trace, choice_map=replace(found, subsets=kept)))
    assert "0 of 8 subsets change the answer; {2 bus, 3 umbrella} is the nearest to one." in none


def test_the_second_view_alone_is_read_as_far_as_the_logits_tell():
    repaired = load(EXAMPLES / "repaired.macd")
    macd = repaired.answers["macd"]
    first, last = macd.tokens
    assert masked_alone(repaired, macd) == f"{repaired.answers['baseline'].text} …"

    def preferring(step, token):
        """The step, whose second view gives a token the largest logit."""
        at = int(np.flatnonzero(step.candidates == token)[0])
        (other,) = step.others
        return replace(step, others=np.array([np.where(np.arange(len(other)) == at, 99, other)]))

    same = replace(macd, tokens=[preferring(first, first.token), preferring(last, last.token)])
    assert masked_alone(repaired, same) == macd.text
    ended = replace(macd, tokens=[preferring(first, last.token), last])
    assert masked_alone(repaired, ended) == ""
    longer = replace(
        macd, tokens=[preferring(first, first.token), preferring(last, last.candidates[1])]
    )
    assert masked_alone(repaired, longer) == f"{first.text} {last.texts[1]} …"  # words, no spaces
    spaced = replace(last, texts=tuple(f" {text}" for text in last.texts))
    carried = replace(longer, tokens=[longer.tokens[0], preferring(spaced, last.candidates[1])])
    assert masked_alone(repaired, carried) == f"{first.text} {last.texts[1]} …"
    split = replace(longer, text=f"{first.text}s", tokens=longer.tokens)  # pieces of one word
    assert masked_alone(repaired, split) == f"{first.text}{last.texts[1]} …"
    two = replace(first, others=np.concatenate([first.others, first.others]))
    assert masked_alone(repaired, replace(macd, tokens=[two, last])) == ""


def test_the_command_line_prints_the_map_and_the_verdict(tmp_path, capsys):
    file, out = str(EXAMPLES / "small.macd"), str(tmp_path / "with.macd")
    assert main(["choices", file, "--out", out]) == 0
    told = capsys.readouterr().out
    assert told.startswith("MACD's choice is 1st of 4; 2 of 4 subsets change the answer; the st")
    assert map_as_text(load(out)) in told
    assert main(["verdict", out]) == 0  # nothing is left to measure
    assert "undecided" in capsys.readouterr().out


def test_the_page_states_the_rules_as_they_are():
    text = (assets().parent / "docs" / "verdict.md").read_text()
    for name, rule in RULES.items():
        assert f"| {name} | {REPLIES[name]} | {rule} |" in text


def test_a_change_of_the_contrast_leaves_the_map_behind(repaired, toyworld):
    bench = Workbench(repaired.trace, toyworld)
    assert bench.redecode(0.05, 0.9).choice_map is None


def test_a_map_that_does_not_fit_its_trace_is_refused(repaired):
    trace, found = repaired.trace, repaired.trace.choice_map
    for damaged in (
        replace(found, subsets=()),
        replace(found, objects=(1, 99)),
        replace(found, own=replace(found.own, objects=(99,))),
    ):
        with pytest.raises(TraceError):
            unpack(pack(replace(trace, choice_map=damaged)))


def test_a_verdict_on_a_clip_that_the_model_cannot_know_says_so(repaired):
    trace = repaired.trace
    assert "mean nothing" not in as_text(trace)
    elsewhere = replace(trace, clip=replace(trace.clip, title="a phone"))
    assert elsewhere.outside_domain
    assert "its answers mean nothing here" in as_text(elsewhere)


def with_map(trace, measured=(), objects=None):
    ids = tuple(t.id for t in trace.tracks)
    one = Subset(ids[:1], False, True, 1.0, "a", "b")
    found = ChoiceMap(0, objects or ids, (), (one,), one, 1.0, measured)
    return replace(trace, choice_map=found)


def removing(trace, *pieces):
    """What is enough of a trace, where removing these pieces changes the answer."""
    rest = Piece(None, None, (0, len(trace.groups) - 1))
    given = Given((0,), "no", True, 0.5, 1.0)
    removed = Smallest(tuple(range(len(pieces))), len(pieces), 1, given)
    target = Target("baseline", 0, 1, "no", None, None)
    return Enough(target, "token", 0.0, "mean", (*pieces, rest), given, given, None, removed)


def piece(trace, track, first=0):
    return Piece(track, None, (first, len(trace.groups) - 1))


def test_what_the_question_names_is_asked_else_what_is_right():
    trace = small_trace()
    first, second = (replace(t, label=n) for t, n in
                     zip(trace.tracks[:2], ("dog", "traffic light"), strict=True))  # fmt: skip

    def asked(question, truth=""):
        return asked_objects(replace(trace, tracks=(first, second), question=question, truth=truth))

    assert asked("Is there a dog in the video?", "traffic light") == (first.id,)
    assert asked("Where is the Traffic Light?") == (second.id,)
    assert asked("Which animal is it?", "dog") == (first.id,)
    assert asked("Is there a hotdog?") == asked("Is there a cat?", "no") == ()


def test_only_whole_objects_that_were_read_are_points():
    trace = small_trace()
    ids = tuple(t.id for t in trace.tracks[:2])
    assert marks_of(replace(trace, choice_map=None)) == {}
    trace = replace(with_map(trace, measured=ids[:1]), question="Why?", truth="")
    assert marks_of(trace) == {"measured": ids[:1]}
    for pieces, ids_removed in (
        ([piece(trace, ids[0]), piece(trace, ids[1])], ids),
        ([piece(trace, ids[0], first=1)], None),
        ([piece(trace, None)], None),
    ):
        found = marks_of(replace(trace, enough=(removing(trace, *pieces),)))
        assert found.get("enough") == ids_removed
    assert marks_of(with_map(trace, measured=ids[:1], objects=ids[1:])) == {}


@pytest.mark.parametrize("name", ["repaired", "small"])
def test_measured_objects_are_those_that_macd_measured_masks(name, toyworld):
    trace = load(assets() / "examples" / f"{name}.macd")
    change = measured_changes(Workbench(trace, toyworld).context)
    expected = tuple(
        t.id for t, z in zip(trace.tracks, change, strict=True) if z >= change.max() / 2
    )
    assert trace.choice_map.measured == expected
    assert np.count_nonzero(change) > 0
    lines = map_as_text(trace).splitlines()
    assert sum("(measured)" in line for line in lines) == 1
