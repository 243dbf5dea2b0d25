"""What is enough: pieces against the video, what a model says to them, trace, command."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import macd_studio as macd
from macd_studio.core.cli.main import main
from macd_studio.core.errors import Cancelled, OptionError, TraceError
from macd_studio.core.evidence.enough import PieceReader, cut_in_pieces, enough_events
from macd_studio.core.evidence.options import EnoughOptions, read_enough_options
from macd_studio.core.evidence.search import EXHAUSTED
from macd_studio.core.masking.composite import fill_for
from macd_studio.core.measurements import Piece, Smallest, Target
from macd_studio.core.options import MaskOptions, RunOptions
from macd_studio.core.report.evidence import enough_as_json, enough_as_text, pieces_in_words
from macd_studio.core.traces.bundle import pack, unpack
from macd_studio.core.types import LOST, SEEN, Track
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.workbench import Workbench
from tests.core.test_evidence import BOXES, QUESTION, SAMPLE
from tests.families import NAMES, make_clip, tiny
from tests.small_trace import put_together, small_enough, small_trace, taken_apart
from tests.summary_keys import documented

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "assets" / "examples" / "background.macd"


@pytest.fixture(
    params=[n if n == SAMPLE else pytest.param(n, marks=pytest.mark.long) for n in NAMES]
)
def lm(request):
    return tiny(request.param)


def make_context(lm, **mask):
    encoded = lm.encode(make_clip(), QUESTION)
    boxes = np.tile(BOXES[:2, None], (1, 4, 1))
    boxes[1, 2:] = np.nan
    states = np.full((2, 4), SEEN, np.int8)
    states[1, 2:] = LOST
    tracks = tuple(Track(k, "x", 0.9 - 0.1 * k, boxes[k - 1], states[k - 1], 4) for k in (1, 2))
    options = RunOptions(mask=MaskOptions(feather=0.01, **mask))
    return MethodContext(lm, encoded, tracks, options)


def make_reader(lm, tokens=(70, 71), index=0, mask=None, **options):
    target = Target("baseline", index, tokens[index], "t")
    context = make_context(lm, **(mask or {}))
    return PieceReader(context, EnoughOptions(**options), target, tokens)


BOX = "0.5,0,0.9,0.4"


@pytest.mark.matrix
@pytest.mark.parametrize("overlap", ["normalise", "raw"])
def test_pieces_are_the_video_between_them(lm, overlap):
    reader = make_reader(lm, spans=2, boxes=(BOX,), mask={"overlap": overlap})
    context = reader.context
    groups = len(context.encoded.groups)
    weights = cut_in_pieces(context, 2, reader.options.regions())[1]
    torch.testing.assert_close(weights.sum(0), torch.ones_like(weights[0]))
    runs = 1 if groups == 1 else 2
    of_track = [p for p in reader.pieces if p.track == 2]
    assert len([p for p in reader.pieces if p.track == 1]) == runs
    assert [p.groups[0] for p in of_track] == [0]  # it is lost in the second half
    full = (1 << len(reader.pieces)) - 1
    assert torch.equal(reader.video(full), context.encoded.video)
    fill = fill_for(context.encoded, context.options.mask)
    torch.testing.assert_close(reader.video(0), fill, rtol=0, atol=1e-5)
    video = context.encoded.video
    for shown in (1, full ^ 1):  # what is shown and what is not are the video less the fill
        both = reader.video(shown) + reader.video(full ^ shown)
        torch.testing.assert_close(both, video + fill, rtol=0, atol=1e-4)


@pytest.mark.matrix
@pytest.mark.parametrize("same", ["answer", "token"])
def test_sets_are_scored_as_by_single_steps(lm, same):
    """In one batch and one pass as one by one, step by step, without anything taken over."""
    encoded = lm.encode(make_clip(), QUESTION)
    state, tokens = lm.prefill(encoded, encoded.video), []
    for _ in range(3):
        tokens.append(int(state.logits[0].argmax()))
        state = lm.step(state, [tokens[-1]])
    reader = make_reader(lm, tokens, 1, spans=2, same=same)
    full = (1 << len(reader.pieces)) - 1
    sets = [full, 0, 1, 2, full ^ 1, full ^ 2]
    scores = reader.read(sets)
    assert scores[0].same
    for shown, scored in zip(sets, scores, strict=True):
        state, firsts = lm.prefill(encoded, reader.video(shown)), []
        for n, token in enumerate(tokens):
            logits = state.logits[0].double()
            firsts.append(int(logits.argmax()) == token)
            if n == 1:
                best_other = max(float(x) for i, x in enumerate(logits) if i != token)
                margin = float(logits[token]) - best_other
                probability = float(torch.softmax(logits, -1)[token])
            state = lm.step(state, [token])
        assert scored.same == (all(firsts) if same == "answer" else firsts[1])
        assert scored.margin == pytest.approx(margin, abs=2e-3)
        assert scored.probability == pytest.approx(probability, abs=2e-3)


def test_equal_patches_of_several_views_are_read_once(monkeypatch):
    """Of four views two and two agree in the first of two patches: two patches are read."""
    lm = tiny(SAMPLE)
    encoded = lm.encode(make_clip(), QUESTION)
    base = lm.prefill(encoded, encoded.video)
    views = encoded.video[None].repeat(4, 1, 1, 1, 1)
    views[:2, 0] += 1.0
    views[2:, 0] += 2.0
    counts = []
    read = type(lm).encode_patches

    def counted(self, encoded, views, at):
        counts.append(len(at))
        return read(self, encoded, views, at)

    monkeypatch.setattr(type(lm), "encode_patches", counted)
    together = lm.prefill(encoded, views, reuse=base)
    assert counts == [2]
    alone = torch.cat([lm.prefill(encoded, v, reuse=base).logits for v in views])
    torch.testing.assert_close(together.logits, alone, rtol=1e-4, atol=1e-4)


def test_spans_are_chosen_so_that_all_sets_can_be_read():
    lm = tiny(SAMPLE)
    context = make_context(lm)
    assert len(context.encoded.groups) == 2
    pieces, _ = cut_in_pieces(context, 0, ())
    assert pieces == (
        Piece(1, None, (0, 0)), Piece(1, None, (1, 1)), Piece(2, None, (0, 0)),
        Piece(None, None, (0, 0)), Piece(None, None, (1, 1)),
    )  # fmt: skip
    boxes = [(x / 10, 0.9, x / 10 + 0.05, 1.0) for x in range(5)]
    pieces, _ = cut_in_pieces(context, 0, boxes)
    assert {p.groups for p in pieces} == {(0, 1)}  # one run: with two there would be 15
    assert len(pieces) == EXHAUSTED
    with pytest.raises(OptionError, match="more than 64"):
        cut_in_pieces(context, 2, [(x / 50, 0.9, x / 50 + 0.02, 1.0) for x in range(40)])


def test_what_is_never_visible_belongs_to_the_background(monkeypatch):
    monkeypatch.setattr("macd_studio.core.evidence.enough.VISIBLE", 0.9)
    context = make_context(tiny(SAMPLE))
    speck = np.tile(np.float32([0.5, 0.5, 0.5001, 0.5001]), (4, 1))
    context.tracks = (Track(9, "x", 0.9, speck, np.full(4, SEEN, np.int8), 4),)
    assert context.masks(context.options.mask).objects.any()
    pieces, weights = cut_in_pieces(context, 1, ())
    assert pieces == (Piece(None, None, (0, 1)),)
    assert torch.equal(weights[0], torch.ones_like(weights[0]))


def test_named_pieces_are_found_and_others_refused():
    reader = make_reader(tiny(SAMPLE), spans=2, boxes=(BOX,))

    def chosen(*names):
        return [reader.pieces[i] for i in reader.chosen(EnoughOptions(keep=names).kept())]

    assert chosen("2") == [Piece(2, None, (0, 0))]
    assert chosen("1:1-2") == [Piece(1, None, (0, 0))]
    assert chosen("2:1-4") == [Piece(2, None, (0, 0))]
    assert [p.box for p in chosen("box1")] == [(0.5, 0.0, 0.9, 0.4)] * 2
    assert chosen("background:3-4", "1:3-4") == [Piece(1, None, (1, 1)), Piece(None, None, (1, 1))]
    for name in ("7", "box2", "1:1-3", "2:3-4"):
        with pytest.raises(OptionError, match="there is no piece"):
            chosen(name)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"keep": ["2:5-3"]}, "has no frames"),
        ({"keep": ["2:0"]}, "has no frames"),
        ({"keep": ["dog"]}, "is not a piece"),
        ({"search": False}, "nothing is asked for"),
        ({"boxes": ["1,1,0,0"]}, "not a box"),
        ({"margin": -1}, "margin is -1"),
        ({"budget": 0}, "budget is 0"),
        ({"same": "text"}, "same is 'text'"),
        ({"nonsense": 1}, "there is no option"),
    ],
)
def test_options_that_cannot_be_read(values, said):
    with pytest.raises(OptionError, match=said):
        read_enough_options(values)


@pytest.fixture(scope="module")
def found():
    """An example and what is enough for its answer, by call."""
    return macd.enough(macd.load(EXAMPLE), device="cpu", keep=("background",))


def test_what_is_found_holds_for_the_model(found):
    """The sets stand on the same readings as the words: the answers were decoded, not scored."""
    (enough,) = found.enough
    baseline = found.answers["baseline"].text
    assert enough.whole.answer == baseline
    assert enough.keep.certified(len(enough.pieces))
    assert enough.keep.given.answer == baseline
    assert enough.keep.given.same
    assert enough.remove.given.answer != baseline
    assert not enough.remove.given.same
    assert enough.views <= 2 ** len(enough.pieces) <= 256
    (asked,) = enough.asked
    assert {enough.pieces[i].track for i in asked.shown} == {None}


def test_a_later_search_replaces_it_and_keeps_what_was_asked(found):
    again = macd.enough(found, device="cpu", search=False, keep=("background:1-4", "background"))
    (before,), (after,) = found.enough, again.enough
    assert (after.keep, after.remove, after.views) == (before.keep, before.remove, before.views)
    assert after.asked == before.asked  # the same set once
    more = macd.enough(found, device="cpu", search=False, keep=(str(found.tracks[0].id),))
    assert len(more.enough[0].asked) == 2
    for changed in ({"spans": 1}, {"margin": 1.0}):  # of other pieces; of another margin
        other = macd.enough(found, device="cpu", search=False, keep=("background",), **changed)
        assert other.enough[0].keep is None
        assert other.enough[0].remove is None


def test_it_stops_between_batches_and_leaves_the_trace():
    trace = macd.load(EXAMPLE)
    bench = Workbench(trace, macd_lm())
    asked = []

    def stopped():
        asked.append(1)
        return len(asked) > 3

    with pytest.raises(Cancelled):
        list(enough_events(bench, EnoughOptions(), stopped))
    assert bench.trace is trace


def test_bounds_come_as_they_are_found():
    bench = Workbench(macd.load(EXAMPLE), macd_lm())
    *partial, last = enough_events(bench, EnoughOptions())
    assert len(partial) > 1
    lowers = [e.trace.enough[-1].keep.lower for e in partial]
    assert lowers == sorted(lowers)
    assert partial[-1].trace.enough == last.trace.enough
    assert [e.fraction for e in partial] == sorted(e.fraction for e in partial)


def macd_lm():
    from macd_studio.core.backbones import load_backbone

    return load_backbone("toyworld", "cpu")


def test_a_token_that_the_model_does_not_choose_first_is_refused():
    trace = macd.load(EXAMPLE)
    steps = trace.answers["baseline"].tokens
    other = next(int(c) for c in steps[0].candidates if c != steps[0].token)
    drawn = replace(trace.answers["baseline"], tokens=(replace(steps[0], token=other), *steps[1:]))
    changed = replace(trace, answers=trace.answers | {"baseline": drawn})
    with pytest.raises(OptionError, match="first choice is not"):
        macd.enough(changed, device="cpu")
    with pytest.raises(OptionError, match="no token 9"):
        macd.enough(trace, 9, device="cpu")


def changed(*path, value):
    def change(row):
        *way, last = path
        for key in way:
            row = row[key]
        row[last] = value

    return change


HOSTILE = {
    "a piece that is not there": changed("keep", "pieces", value=[7]),
    "pieces out of order": changed("remove", "pieces", value=[1, 0]),
    "a piece twice": changed("keep", "pieces", value=[0, 0]),
    "another set than was shown": changed("keep", "pieces", value=[1]),
    "a removal that is not what was hidden": changed("remove", "given", "shown", value=[1, 2]),
    "a set without an answer": changed("keep", "given", value=None),
    "an answer without a set": changed("keep", "pieces", value=None),
    "a bound above the set": changed("keep", "lower", value=2),
    "a bound above all": changed("remove", "lower", value=9),
    "an object that is not there": changed("pieces", 0, "track", value=9),
    "an object with a box": changed("pieces", 0, "box", value=[0, 0, 1, 1]),
    "frames that are not there": changed("pieces", 0, "groups", value=[0, 1]),
    "frames backwards": changed("pieces", 0, "groups", value=[1, 0]),
    "a video without a piece": changed("whole", "shown", value=[0, 1]),
    "nothing with a piece": changed("nothing", "shown", value=[0]),
    "a probability above 1": changed("whole", "probability", value=1.5),
    "a margin that is none": changed("whole", "margin", value=None),
    "no pieces": changed("pieces", value=[]),
    "a kind that is none": changed("same", value="both"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name):
    manifest, members = taken_apart(pack(small_trace()))
    HOSTILE[name](manifest["enough"][0])
    with pytest.raises((TraceError, OptionError)):
        unpack(put_together(manifest, members))


@pytest.mark.parametrize(
    ("found", "certified"),
    [({}, False),  # not every set is as small as its bound
     ({"remove": None}, True), ({"keep": None}, False), ({"keep": None, "remove": None}, False),
     ({"remove": Smallest(None, 4, 0, None)}, True)],
)  # fmt: skip
def test_certified_is_what_was_searched_for_and_all_of_it(found, certified):
    said = enough_as_json(replace(small_enough(), **found), small_trace())
    assert said["certified"] is certified


def test_by_command_line(tmp_path, capsys):
    out = tmp_path / "found.macd"
    command = ["enough", str(EXAMPLE), "--device", "cpu", "--json", "--keep", "background"]
    assert main([*command, "--out", str(out)]) == 0
    done = capsys.readouterr()
    printed = json.loads(done.out)
    assert printed["certified"] is True
    assert printed["keep"]["certified"]
    assert printed["remove"]["certified"]
    assert "views read: keep" in done.err
    assert printed == macd.load(out).to_dict()["enough"][0]
    actual = {
        *printed,
        *(f"pieces[].{k}" for k in printed["pieces"][0]),
        *(f"whole.{k}" for k in printed["whole"]),
        *(f"keep.{k}" for k in printed["keep"]),
    }
    assert documented("enough[].") == actual
    assert printed["token"].keys() == {"answer", "index", "id", "text", "against"}
    assert main(["enough", str(EXAMPLE), "--no-search"]) == 2
    assert "nothing is asked for" in capsys.readouterr().err


def test_the_view_of_the_objects_alone():
    """`keep-only` hides what `mask-all` shows; together they are the video and the fill."""
    from macd_studio.core.views.table import find_view

    context = make_context(tiny(SAMPLE))
    alone, hidden = (find_view(name)(context).video for name in ("keep-only", "mask-all"))
    fill = fill_for(context.encoded, context.options.mask)
    torch.testing.assert_close(alone + hidden, context.encoded.video + fill, atol=0.02, rtol=0)
    assert not torch.equal(alone, context.encoded.video)


def test_in_words():
    trace = small_trace()
    (enough,) = trace.enough
    text = enough_as_text(enough, trace)
    assert "Keep       cup 2, frames 1-2 (certified" in text
    assert "Remove     cup 2, frames 1-2; box 0,0,0.5,0.5, frames 1-2 (an upper bound" in text
    assert pieces_in_words((), enough, trace) == "nothing"
    lines = text.splitlines()
    assert "Video      'yes': probability 0.750, margin +1.50" in lines
    assert "Nothing    'no', not the same: probability 0.250, margin -1.50" in lines
    alone = enough_as_text(replace(enough, keep=None), trace).splitlines()
    assert alone == [z for z in lines if not z.startswith("Keep") and "→ 'yes'" not in z]
    none = replace(enough, remove=Smallest(None, 4, 0, None), keep=Smallest(None, 2, 0, None))
    assert "no removal changes the answer\n" in enough_as_text(none, trace)
    assert "as far as sets of 1 show" in enough_as_text(none, trace)
    runs = replace(
        enough, pieces=tuple(Piece(1, None, (g, g)) for g in range(4)), keep=None, remove=None
    )
    groups = replace(trace, groups=((0, 1), (2, 3), (4, 5), (6,)))
    assert pieces_in_words((0, 1, 3), runs, groups) == "dog 1, frames 1-4, 7"
