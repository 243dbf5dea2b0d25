"""Evidence for a token: against finite differences, one-by-one runs and an eager run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.local import Watch
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.evidence.curves import measure_curves, order_of
from macd_studio.core.evidence.kinds import CURVE_STEPS, RANDOM_ORDERS, find_kind
from macd_studio.core.evidence.layers import Blocked, knock_out, read_layers_out
from macd_studio.core.evidence.options import EvidenceOptions
from macd_studio.core.evidence.run import _joined_curves
from macd_studio.core.measurements import RANDOM_ORDER, Curve, Curves, Target
from macd_studio.core.options import MaskOptions, RunOptions
from macd_studio.core.types import SEEN, Track
from macd_studio.core.views.context import MethodContext
from tests.families import NAMES, make_clip, tiny

pytestmark = pytest.mark.matrix
QUESTION = "Is there a dog?"
TOKEN, OTHER = 70, 90
BOXES = np.array([[0.05, 0.1, 0.4, 0.5], [0.55, 0.5, 0.95, 0.9], [0.5, 0.0, 0.9, 0.4]], np.float32)


def make_case(lm, prefix=(), against=None, dtype=None, **options):
    encoded = lm.encode(make_clip(), QUESTION)
    if dtype is not None:
        encoded = replace(encoded, video=encoded.video.to(dtype))
    state = np.full(4, SEEN, np.int8)
    tracks = tuple(Track(k, "x", 0.9, np.tile(b, (4, 1)), state, 4) for k, b in enumerate(BOXES, 1))
    context = MethodContext(lm, encoded, tracks, RunOptions(mask=MaskOptions(feather=0.01)))
    counter = context.composite(context.masks(context.options.mask), [1.0, 0.5, 0.0], [0.0] * 9)
    target = Target("macd", len(prefix), TOKEN, "t", against)
    views = {"video": encoded.video, "counterfactual": counter}
    return EvidenceCase(
        context, target, prefix, views, EvidenceOptions(**options), tuple(range(lm.depth))
    )


SAMPLE = "qwen2_5_vl"
"""The family of the embedded backbone; the others take their turn in the long suite."""


@pytest.fixture(
    params=[n if n == SAMPLE else pytest.param(n, marks=pytest.mark.long) for n in NAMES]
)
def lm(request):
    return tiny(request.param)


@pytest.fixture
def eager(lm):
    """While inside, the same weights by transformers' own eager attention."""
    before = lm.model.config._attn_implementation
    lm.model.set_attn_implementation("eager")
    yield lm
    lm.model.set_attn_implementation(before)


def own_forward(lm, case, view="video", tokens=(), mask=None):
    """The model's decoder on prompt and tokens, with every attention and hidden state."""
    encoded = case.encoded
    video = case.views[view][None]
    at = torch.tensor([[0, g] for g in range(len(encoded.groups))])
    features = lm.encode_patches(encoded, video, at)
    slots = lm._slots(encoded).flatten()
    ids = torch.cat([encoded.input_ids[0], torch.tensor(list(tokens), dtype=torch.long)])[None]
    words = lm.decoder.get_input_embeddings()(ids)
    words = words.index_copy(1, slots, features[0].flatten(0, 1)[None].to(words.dtype))
    positions = lm.positions(encoded, 0, 1)
    for i in range(len(tokens)):
        positions = torch.cat([positions, lm.step_positions(lm.next_position(encoded) + i, 1)], -1)
    more = lm.deepstack_inputs([f.flatten(0, 1)[None] for f in features[1:]], slots, ids.shape[1])
    with torch.no_grad():
        out = lm.decoder(
            inputs_embeds=words, position_ids=positions, attention_mask=mask, use_cache=False,
            output_attentions=True, output_hidden_states=True, **more,
        )  # fmt: skip
    return out, slots


PREFIXES = [(), (80, 85)]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_forced_answer_is_read_as_by_steps(lm, prefix):
    case = make_case(lm, prefix)
    for view in case.views:
        state = lm.prefill(case.encoded, case.views[view])
        for token in prefix:
            state = lm.step(state, [token])
        hidden = lm.answer_hidden(case.encoded, case.views[view], prefix)
        torch.testing.assert_close(lm.read_out(hidden), state.logits, rtol=1e-3, atol=1e-3)
        shared = lm.answer_hidden(case.encoded, case.views[view], prefix, reuse=case.state("video"))
        torch.testing.assert_close(hidden, shared, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("against", [None, OTHER])
def test_the_gradient_map_against_finite_differences(lm, against, monkeypatch):
    """A step along the pixels of one cell: the map is what the number loses, to first order."""
    double = tiny(lm.info.family, torch.float64)
    case = make_case(double, (80,), against, torch.float64)
    stay_in_double(monkeypatch)
    values = find_kind("gradient").measure(case, "video").values
    video = case.views["video"]
    size = video.shape[-2:]
    rng = np.random.default_rng(1)
    for _ in range(3):
        t, y, x = rng.integers(0, [4, *case.grid])
        weight = pixel_weights(size, case.grid, y, x)
        change = torch.zeros_like(video)
        change[t] = video[t] * torch.from_numpy(weight)
        h = 1e-4
        with torch.no_grad():
            up, down = (
                case.read(double.answer_hidden(case.encoded, video + s * h * change, (80,)))[0]
                for s in (1, -1)
            )
        central = float(up - down) / (2 * h)
        assert values[t, y, x] == pytest.approx(central, rel=1e-3, abs=1e-9)
    assert np.abs(values).max() > 1e-6


def pixel_weights(size, grid, y, x):
    """(H, W) the share of each pixel that lies in a cell, by definition."""

    def along(pixels, cells, index):
        low, high = index / cells * pixels, (index + 1) / cells * pixels
        return np.array([max(0.0, min(i + 1, high) - max(i, low)) for i in range(pixels)])

    return np.outer(along(size[0], grid[0], y), along(size[1], grid[1], x))


def stay_in_double(monkeypatch):
    """transformers' casts to float32 are casts to float64."""
    real = torch.Tensor.to

    def stay(self, *args, **kwargs):
        args = [torch.float64 if a is torch.float32 else a for a in args]
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
        return real(self, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "float", lambda self, **_: self.double())
    monkeypatch.setattr(torch.Tensor, "to", stay)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("view", ["video", "counterfactual"])
def test_attention_is_that_of_an_eager_run(eager, prefix, view):
    case = make_case(eager, prefix)
    state, last = case.before_last(view)
    with eager.watching(state, Watch(attention=case.layers)) as seen:
        eager.step(state, [last])
    out, slots = own_forward(eager, case, view, prefix)
    for layer in case.layers:
        row = out.attentions[layer][0, :, -1].mean(0)[slots]
        torch.testing.assert_close(seen.attention[layer][0], row, rtol=1e-3, atol=1e-5)
    values = find_kind("attention").measure(case, view).values
    mean = torch.stack([a[0, :, -1].mean(0)[slots] for a in out.attentions]).mean(0)
    assert values.sum() == pytest.approx(float(mean.sum()), rel=1e-3)
    groups = mean.reshape(len(case.encoded.groups), -1).sum(1)
    by_group = [values[list(g)].sum() for g in case.encoded.groups]
    np.testing.assert_allclose(by_group, groups.numpy(), rtol=1e-3)


def test_attention_of_some_layers_is_their_mean(lm):
    case = make_case(lm)
    each = []
    for layer in range(lm.depth):
        case.layers = (layer,)
        each.append(find_kind("attention").measure(case, "video").values)
    case.layers = (0, 2)
    two = find_kind("attention").measure(case, "video").values
    np.testing.assert_allclose(two, (each[0] + each[2]) / 2, rtol=1e-4)
    assert not np.allclose(each[0], each[2])


@pytest.mark.parametrize("layers", [(0, 1, 2), (1, 2), (0,)])
def test_knock_out_is_an_eager_run_with_those_entries_masked(eager, layers):
    prefix = (80, 85)
    case = make_case(eager, prefix)
    tokens = case.tokens_in(case.coverage[1])
    made = knock_out(case, Blocked(2, None, tokens, layers))
    length = case.encoded.input_ids.shape[1]
    slots = eager._slots(case.encoded).flatten()
    hidden = slots[list(tokens)]

    def mask(blocked):
        total = length + len(prefix)
        ahead = torch.ones(total, total, dtype=torch.bool).triu(1)
        if blocked:
            ahead[length - 1 :, hidden] = True
        least = torch.finfo(torch.float32).min
        return torch.zeros(1, 1, total, total).masked_fill(ahead[None, None], least)

    handles = [
        eager.decoder.layers[i].register_forward_pre_hook(
            lambda _, args, given: (args, given | {"attention_mask": mask(True)}), with_kwargs=True
        )
        for i in layers
    ]
    try:
        out, _ = own_forward(eager, case, tokens=prefix, mask=None)
    finally:
        for handle in handles:
            handle.remove()
    logits = eager.head(out.last_hidden_state[0, -1]).double()
    assert made.score[1] == pytest.approx(float(logits[TOKEN]), rel=1e-3, abs=1e-3)
    chance = float(logits.softmax(-1)[TOKEN])
    assert made.probability[1] == pytest.approx(chance, rel=1e-2, abs=1e-6)
    plain, _ = own_forward(eager, case, tokens=prefix)
    before = eager.head(plain.last_hidden_state[0, -1])[TOKEN]
    assert made.score[0] == pytest.approx(float(before), rel=1e-3, abs=1e-3)
    assert abs(made.score[1] - made.score[0]) > 1e-3
    assert (made.tokens, made.layers) == (len(tokens), (layers[0], layers[-1]))


def test_watching_leaves_no_hook(lm):
    def hooks():
        every = [(m._forward_hooks, m._forward_pre_hooks) for m in lm.decoder.modules()]
        return [len(h) for pair in every for h in pair]

    case, before = make_case(lm), hooks()
    knock_out(case, Blocked(1, None, case.tokens_in(case.coverage[0]), (0, 1, 2)))
    find_kind("attention").measure(case, "video")
    read_layers_out(case)
    assert hooks() == before
    with pytest.raises(ValueError, match="without the mask"):
        Watch(attention=(0,), blocked=(1,))


def test_the_lens_reads_every_layer_as_an_eager_run_does(eager):
    prefix = (80,)
    case = make_case(eager, prefix)
    lens = read_layers_out(case)
    for view in case.views:
        out, _ = own_forward(eager, case, view, prefix)
        states = [h[0, -1] for h in out.hidden_states[1:-1]]
        logits = [eager.head(eager.decoder.norm(h)) for h in states]
        logits.append(eager.head(out.last_hidden_state[0, -1]))
        expected = [float(z.double().softmax(-1)[TOKEN]) for z in logits]
        np.testing.assert_allclose(getattr(lens, view), expected, rtol=1e-2, atol=1e-7)
    assert lens.video != lens.counterfactual


@pytest.mark.parametrize("kind", ["occlusion", "occlusion-grid"])
@pytest.mark.parametrize("view", ["video", "counterfactual"])
def test_occlusion_together_is_occlusion_one_by_one(lm, kind, view):
    case = make_case(lm, (80,), OTHER, patches="2x3")
    measured = find_kind(kind).measure(case, view)

    def number(video):
        state = lm.step(lm.prefill(case.encoded, video), [80])
        return float(state.logits[0, TOKEN] - state.logits[0, OTHER])

    masks, video = case.masks, case.views[view]
    if kind == "occlusion":
        hidden = list(masks.objects)
    else:
        height, width = case.encoded.frames.size
        hidden = []
        for frames in case.encoded.groups:
            for y in range(2):
                for x in range(3):
                    mask = torch.zeros(4, height, width)
                    rows = slice(y * height // 2, (y + 1) * height // 2)
                    mask[list(frames), rows, x * width // 3 : (x + 1) * width // 3] = 1
                    hidden.append(mask)
    alone = [number(video + m[:, None] * (masks.fill - video)) for m in hidden]
    expected = number(video) - np.array(alone)
    np.testing.assert_allclose(measured.parts, expected, rtol=1e-2, atol=2e-3)
    assert measured.values.sum() == pytest.approx(expected.sum(), rel=1e-2, abs=5e-3)


def test_vision_tokens_stand_where_their_pixels_are(lm, monkeypatch):
    """Without attention in the tower a token sees its own patch alone."""
    tower = next(
        m
        for n, m in lm.model.named_modules()
        if n.endswith(("visual", "vision_tower", "vision_model"))
    )
    for name, module in tower.named_modules():
        if name.endswith(("attn", "self_attn", "attention")):
            handle = module.register_forward_hook(lambda m, args, out: silent(out))
            monkeypatch.setattr(module, "_test_handle", handle, raising=False)
    try:
        encoded = lm.encode(make_clip(), QUESTION)
        patches, rows, columns = encoded.token_grid
        video = encoded.video.clone().requires_grad_()
        (features, *_) = lm.encode_patches(encoded, video[None], torch.tensor([[0, 1]]))
        _, _, height, width = video.shape
        for index in range(rows * columns):
            (slope,) = torch.autograd.grad(features[0, index].sum(), video, retain_graph=True)
            where = slope.abs().sum((0, 1)).nonzero()
            y, x = divmod(index, columns)
            assert (where[:, 0] * rows // height == y).all()
            assert (where[:, 1] * columns // width == x).all()
            frames = slope.abs().sum((1, 2, 3)).nonzero()[:, 0].tolist()
            assert frames == list(encoded.groups[1])
        assert patches == len(encoded.groups)
    finally:
        for module in tower.modules():
            if hasattr(module, "_test_handle"):
                module._test_handle.remove()


def silent(out):
    return (out[0] * 0, *out[1:]) if isinstance(out, tuple) else out * 0


def probability(case, hidden, against=None):
    """Of the token with cells (G, R, C) hidden, step by step and pixel by pixel."""
    video, (_, rows, columns) = case.encoded.video.clone(), case.encoded.token_grid
    height, width = video.shape[-2:]
    for g, frames in enumerate(case.encoded.groups):
        for y in range(height):
            for x in range(width):
                if hidden[g, y * rows // height, x * columns // width]:
                    video[list(frames), :, y, x] = 0.0  # the mean colour
    state = case.lm.prefill(case.encoded, video)
    for token in case.prefix:
        state = case.lm.step(state, [token])
    logits = state.logits[0].double()
    if against is not None:
        logits = logits[[TOKEN, against]]
        return float(torch.softmax(logits, 0)[0])
    return float(torch.softmax(logits, 0)[TOKEN])


@pytest.mark.parametrize(("prefix", "against"), [((), None), ((80,), OTHER)])
def test_cells_are_hidden_and_shown_in_the_order_of_the_map(lm, prefix, against):
    case = make_case(lm, prefix, against)
    shape = case.encoded.token_grid
    strength = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape)
    order = np.argsort(-strength.ravel())
    values = np.zeros((len(case.encoded.video), *shape[1:]), np.float32)
    for g, frames in enumerate(case.encoded.groups):
        values[list(frames)] = strength[g]
    curves = measure_curves(case, {"mine": values})
    assert curves.fits()
    mine = curves.curves[0]
    for step in (0, 2, CURVE_STEPS - 1, CURVE_STEPS):
        hidden = np.zeros(strength.size, bool)
        hidden[order[: round(strength.size * step / CURVE_STEPS)]] = True
        expected = probability(case, hidden.reshape(shape), against)
        assert mine.deletion[step] == pytest.approx(expected, abs=1e-4)
        expected = probability(case, ~hidden.reshape(shape), against)
        assert mine.insertion[step] == pytest.approx(expected, abs=1e-4)
    assert mine.deletion[0] == mine.insertion[-1]
    assert mine.deletion[-1] == mine.insertion[0]
    random = [one for one in curves.curves if one.kind == RANDOM_ORDER]
    assert len(random) == RANDOM_ORDERS == len({one.deletion for one in random})
    assert {one.deletion[0] for one in random} == {mine.deletion[0]}


def test_what_is_against_the_token_comes_last_and_equal_cells_at_random():
    case = make_case(tiny(SAMPLE))
    groups, rows, columns = case.encoded.token_grid
    values = np.zeros((len(case.encoded.video), rows, columns), np.float32)
    values[list(case.encoded.groups[0]), 0, 0] = -2.0
    values[list(case.encoded.groups[1]), 0, 1] = 1.0
    orders = [order_of(case, values, np.random.default_rng(i)) for i in range(5)]
    strongest, weakest = rows * columns + 1, 0
    assert {int(o[0]) for o in orders} == {strongest}
    assert {int(o[-1]) for o in orders} == {weakest}
    assert len({tuple(o) for o in orders}) == 5
    assert all(sorted(o) == list(range(groups * rows * columns)) for o in orders)


def curve(kind, deletion, insertion):
    return Curve(kind, tuple(deletion), tuple(insertion))


def test_areas_scores_and_the_band():
    curves = Curves(
        (0.0, 0.25, 1.0),
        (
            curve("weak", (1, 1, 0), (0, 1, 1)),
            curve("strong", (1, 0, 0), (0, 1, 1)),
            curve(RANDOM_ORDER, (1, 1, 0), (0, 0, 1)),
            curve(RANDOM_ORDER, (1, 0, 0), (0, 0.8, 1)),
        ),
    )
    assert curves.areas()["weak"] == [(0.625, 0.875)]
    assert curves.areas()["strong"] == [(0.125, 0.875)]
    (best, worse) = curves.scores()
    assert best == ("strong", pytest.approx(0.75), 1.0)
    assert worse == ("weak", pytest.approx(0.25), 0.5)
    assert curves.band() == (pytest.approx(-0.25), pytest.approx(0.65))


def test_curves_of_other_kinds_stay_beside_newer_ones():
    shares = (0.0, 1.0)
    before = Curves(shares, (curve("a", (1, 0), (0, 1)), curve(RANDOM_ORDER, (1, 0), (0, 1))))
    after = Curves(shares, (curve("b", (1, 0), (0, 1)), curve(RANDOM_ORDER, (1, 0), (0, 1))))
    joined = _joined_curves(before, after)
    assert [one.kind for one in joined.curves] == ["a", "b", RANDOM_ORDER]
    again = Curves(shares, (curve("a", (1, 0.5), (0, 1)),))
    assert _joined_curves(before, again).curves[-1] is again.curves[0]
    assert _joined_curves(before, None) is before
    assert EvidenceOptions().curves is False
