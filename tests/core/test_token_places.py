"""Where vision tokens stand is found from what they are made of, whatever the tower adds."""

from dataclasses import dataclass, field

import pytest
import torch
from torch import nn

from macd_studio.core.backbones.contract import drawn
from macd_studio.core.backbones.hooks import EagerRows, eager_attention
from macd_studio.core.backbones.local import Watch
from macd_studio.core.backbones.token_places import tokens_lead
from macd_studio.core.decoding.batch import ViewBatch
from macd_studio.core.errors import NotApplicable
from tests.universal_models import universal

FRAMES, ROWS, COLUMNS, CELL = 3, 4, 6, 8


@dataclass
class Clip:
    """The fields of an Encoded that are read."""

    vision_tokens: int
    video: torch.Tensor = field(
        default_factory=lambda: torch.randn(
            FRAMES, 3, ROWS * CELL, COLUMNS * CELL, generator=torch.Generator().manual_seed(0)
        )
    )
    groups: tuple = tuple((t,) for t in range(FRAMES))
    token_grid: tuple = (FRAMES, ROWS, COLUMNS)

    @property
    def frames(self):
        return type("Frames", (), {"size": tuple(self.video.shape[-2:])})


def tower(video, first=(), last=(), order=None):
    """The mean colour of each cell and a little of the frame's; `first` and `last` of a frame."""
    cells = video.unfold(2, CELL, CELL).unfold(3, CELL, CELL)
    own = cells.flatten(4).permute(0, 2, 3, 1, 4).reshape(len(video), ROWS * COLUMNS, -1)
    own = own + 0.05 * own.mean(1, keepdim=True)
    if order is not None:
        own = own[:, order]
    summary = own.mean(1, keepdim=True)
    parts = [summary] * len(first) + [own] + [summary] * len(last)
    return torch.cat(parts, 1).flatten(0, 1)


@pytest.mark.parametrize(
    ("before", "after", "leads"), [((), (), False), ((1,), (), True), ((), (1,), False)]
)
def test_a_summary_of_each_frame_is_found_where_it_stands(before, after, leads):
    clip = Clip(FRAMES * (ROWS * COLUMNS + len(before) + len(after)))
    assert tokens_lead(clip, lambda v: tower(v, before, after)) is leads


def test_a_token_after_all_frames_is_no_place():
    clip = Clip(FRAMES * ROWS * COLUMNS + 1)
    line = torch.ones(1, 3 * CELL**2)
    assert tokens_lead(clip, lambda v: torch.cat([tower(v), line])) is False


def test_another_order_of_tokens_is_not_taken_for_the_grid():
    """As of tiles: each frame's cells by columns, or shuffled."""
    by_column = torch.arange(ROWS * COLUMNS).view(ROWS, COLUMNS).T.flatten()
    shuffled = torch.randperm(ROWS * COLUMNS, generator=torch.Generator().manual_seed(1))
    for order in (by_column, shuffled):
        clip = Clip(FRAMES * ROWS * COLUMNS)
        assert tokens_lead(clip, lambda v, order=order: tower(v, order=order)) is None


class Config:
    _attn_implementation = "sdpa"


class Attention(nn.Module):
    """Gives weights only while it is eager, as those of transformers do."""

    def __init__(self, layer_idx, weights):
        super().__init__()
        self.layer_idx, self.weights, self.config = layer_idx, weights, Config()

    def forward(self, x):
        return x, self.weights if self.config._attn_implementation == "eager" else None


class Mixer(nn.Module):
    """A layer without attention: it has an index and gives a tensor."""

    layer_idx = 2

    def forward(self, x):
        return x


def test_rows_are_those_of_the_last_query_and_a_window_leaves_zeros():
    whole = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])[None, :, None].repeat(
        1, 1, 2, 1
    )
    whole[:, :, 0] = 9  # an earlier query
    window = torch.tensor([0.75, 0.25]).expand(1, 2, 1, 2)
    decoder = nn.ModuleList([Attention(0, whole), Attention(1, window), Mixer()])
    rows = EagerRows(decoder, (0, 1, 2))
    with rows.reading():
        for layer in decoder:
            layer(torch.zeros(1))
    rows.after(4, torch.tensor([1, 2]))
    assert rows.seen.attention.keys() == {0, 1}
    torch.testing.assert_close(rows.seen.attention[0], torch.tensor([[0.25, 0.25]]))
    torch.testing.assert_close(rows.seen.attention[1], torch.tensor([[0.0, 0.75]]))
    assert all(layer.config._attn_implementation == "sdpa" for layer in decoder[:2])
    assert not any(layer._forward_hooks for layer in decoder)


def test_eager_attention_ends_with_an_error_too():
    decoder = nn.ModuleList([Attention(0, None)])
    with pytest.raises(RuntimeError), eager_attention(decoder):
        raise RuntimeError
    assert decoder[0].config._attn_implementation == "sdpa"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_model_s_summary_of_each_frame_is_left_out_and_frames_in_tiles_have_no_map():
    lm = universal("video_llava")
    encoded = lm.encode_frames(lm.resized(drawn()), "Is there a dog?")
    each, cells = encoded.vision_tokens // 2, 16
    assert each == cells + 1
    expected = [frame * each + 1 + cell for frame in range(2) for cell in range(cells)]
    assert lm.placed(encoded).tolist() == expected
    tiled = universal("ovis2")
    encoded = tiled.encode_frames(tiled.resized(drawn()), "Is there a dog?")
    with pytest.raises(NotApplicable, match="cannot be found where the tokens of tiny ovis2 stand"):
        tiled.placed(encoded)


def test_views_that_step_one_after_another_leave_a_row_each():
    """As the rule of SEASON reads them; each row is that of the view alone."""
    lm = universal("qwen2_vl")
    lm.lose("batch", "for this test")
    encoded = lm.encode_frames(lm.resized(drawn()), "Is there a dog?")
    views = [encoded.video, encoded.video.flip(-1)]
    both, layers = lm.prefill(encoded, torch.stack(views)), Watch(attention=(0, 2))
    tokens = both.logits.argmax(-1).tolist()
    with lm.watching(both, layers) as seen:
        lm.step(lm.step(both, tokens), tokens)
    for row, view in enumerate(views):
        one = lm.prefill(encoded, view)
        with lm.watching(one, layers) as alone:
            lm.step(lm.step(one, [tokens[row]]), [tokens[row]])
        for layer in layers.attention:
            assert seen.attention[layer].shape == (2, encoded.vision_tokens)
            torch.testing.assert_close(seen.attention[layer][row], alone.attention[layer][0])


def test_a_rule_reads_no_layer_that_has_no_attention():
    lm = universal("qwen3_5")
    lm.own_layers = (3,)
    encoded = lm.encode_frames(lm.resized(drawn()), "Is there a dog?")
    decoded = ViewBatch(lm, lm.prefill(encoded, encoded.video), [])
    with pytest.raises(NotApplicable, match="not every layer of 2, 3"):
        decoded.attention((2, 3))
