"""Positions on three axes: transformers 5.2.0's numbers, and answers on clips of 4 to 120 s.

positions_transformers_5_2_0.json holds what `get_rope_index` of that release gives, whose positions
are those that the weights were trained with: `runs` are the lengths of text, video, text, …
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.positions import positions_of
from macd_studio.core.backbones.prompt import metadata_of
from macd_studio.core.decoding.answers import decode
from macd_studio.core.options import DecodeOptions
from macd_studio.core.rules import Plain
from macd_studio.core.types import ModelFrames
from tests.core.test_families import QUESTION
from tests.families import make_clip, outer, tiny

REFERENCE = json.loads(Path(__file__).with_name("positions_transformers_5_2_0.json").read_text())
LENGTHS = {4: 8, 12: 8, 40: 16, 120: 32}
"""Seconds of a clip → its sampled frames."""


def blocks(*runs):
    """(L,) bool from the lengths of text, video, text, …"""
    return np.repeat(np.arange(len(runs)) % 2 == 1, runs)


@pytest.mark.parametrize("case", REFERENCE, ids=lambda c: f"{c['family']}-{c['grid']}")
def test_positions_equal_those_of_transformers_5_2(case):
    step = 2.0 * case["seconds"] if case["seconds"] else 1.0
    ours = positions_of(blocks(*case["runs"]), tuple(case["grid"]), step)
    assert ours.tolist() == case["positions"]
    if "rope_delta" in case:  # the next position; for Qwen2-VL that release bounded it by 0
        assert int(ours[0, -1]) + 1 - sum(case["runs"]) == case["rope_delta"]


def test_the_numbers_of_the_published_report():
    """huggingface/transformers issue 45381: 84 patches of 12 × 16 tokens, text at 348."""
    ours = positions_of(blocks(15, 84 * 12 * 16, 10), (84, 12, 16), step=4.0)
    assert ours[0, 15:-10].unique().tolist() == list(range(15, 348, 4))
    assert (int(ours[1].max()), int(ours[1, -11]), int(ours[2, -11])) == (357, 26, 30)
    assert ours[:, -10:].tolist() == [list(range(348, 358))] * 3


@pytest.mark.parametrize(
    ("grid", "step", "last_time", "text"),
    [
        ((4, 10, 10), 6.0, 33, 34),  # 12 s, 8 frames
        ((8, 10, 10), 7.5, 67, 68),  # 30 s, 16 frames
        ((16, 10, 10), 7.5, 127, 128),  # 60 s, 32 frames
        ((16, 10, 10), 1.0, 30, 31),  # Qwen2-VL, 32 frames
    ],
)
def test_text_goes_on_after_the_times_of_a_video(grid, step, last_time, text):
    tokens = grid[0] * 100
    ours = positions_of(blocks(15, tokens, 20), grid, step)
    assert int(ours[0, 14 + tokens]) == last_time
    assert ours[:, 15 + tokens].tolist() == [text] * 3


def test_a_fraction_of_a_step_is_kept_until_the_product_is_rounded():
    """As in the authors' code; transformers before 5.23 rounded the seconds first."""
    ours = positions_of(blocks(2, 5, 1), (5, 1, 1), step=0.5)
    assert ours[0].tolist() == [0, 1, 2, 2, 3, 3, 4, 5]


def of_length(seconds):
    frames = LENGTHS[seconds]
    return make_clip(frames=frames, seed=seconds, step=seconds / frames)


def own_answer(lm, encoded, step, count):
    """Greedy tokens and their logits by whole forwards, with positions counted here by hand."""
    ids = encoded.input_ids[0].tolist()
    first = ids.index(lm.vision_token)
    frames, rows, columns = (int(n) for n in encoded.inputs["video_grid_thw"][0])
    rows, columns = rows // 2, columns // 2
    places, answer, rows_of = [(i, i, i) for i in range(first)], [], []
    for t in range(frames):
        for y in range(rows):
            for x in range(columns):
                places.append((first + int(t * step), first + y, first + x))
    start = max(max(p) for p in places) + 1
    places += [(start + i,) * 3 for i in range(len(ids) - len(places) + count)]
    for _ in range(count):
        length = len(ids) + len(answer)
        at = torch.tensor(places[:length]).T[:, None]
        logits = outer(lm, encoded, encoded.video, answer, positions=at)[-1]
        answer.append(int(logits.argmax()))
        rows_of.append(logits)
    return answer, torch.stack(rows_of)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl"])
@pytest.mark.parametrize("seconds", LENGTHS)
def test_long_answers_equal_an_independent_loop_and_generate(family, seconds):
    lm, count = tiny(family), 16
    encoded = lm.encode(of_length(seconds), QUESTION)
    base = lm.prefill(encoded, encoded.video)
    steps = decode(lm, base, (), Plain(), DecodeOptions(max_tokens=count))
    ours = [s.token for s in steps]
    assert len(ours) == count
    rate = getattr(lm.model.config.vision_config, "tokens_per_second", None)
    step = rate * 2 * seconds / LENGTHS[seconds] if family == "qwen2_5_vl" else 1.0
    tokens, logits = own_answer(lm, encoded, step, count)
    assert ours == tokens
    state, stepped = base, [base.logits[0]]
    for token in ours[:-1]:
        state = lm.step(state, [token])
        stepped.append(state.logits[0])
    torch.testing.assert_close(torch.stack(stepped), logits, rtol=0, atol=1e-3)
    given = {k: v for k, v in encoded.inputs.items() if k != "position_ids"}
    lm.model.model.rope_deltas = torch.tensor([[10_000]])  # what another video left behind
    with torch.no_grad():
        own = lm.model.generate(
            input_ids=encoded.input_ids,
            position_ids=encoded.inputs["position_ids"],
            pixel_values_videos=encoded.layout(encoded.video),
            mm_token_type_ids=torch.where(encoded.input_ids == lm.vision_token, 2, 0).int(),
            max_new_tokens=count,
            do_sample=False,
            **given,
        )
    assert own[0, encoded.input_ids.shape[1] :].tolist() == ours


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl"])
@pytest.mark.parametrize("frames", [4, 32])
def test_a_trace_says_where_transformers_counts_otherwise(family, frames):
    lm = tiny(family)
    encoded = lm.encode(make_clip(frames=frames), QUESTION)
    given = {"video_grid_thw": encoded.inputs["video_grid_thw"]}
    if family == "qwen2_5_vl":
        given["second_per_grid_ts"] = torch.tensor([2.0])
    kinds = torch.where(encoded.input_ids == lm.vision_token, 2, 0).int()
    own, _ = lm.model.model.get_rope_index(encoded.input_ids, mm_token_type_ids=kinds, **given)
    ours, theirs = (int(p[0, 0, -1]) for p in (encoded.inputs["position_ids"], own))
    assert (ours != theirs) == (family == "qwen2_5_vl" or (family, frames) == ("qwen2_vl", 32))
    told = [n for n in encoded.notes if "transformers 5.3" in n]
    assert len(told) == (ours != theirs)
    assert all(f"position {ours}," in n and f"at {theirs}," in n for n in told)


@pytest.mark.parametrize(
    ("times", "duration", "seconds"),
    [
        ([0.0, 1.0, 2.0, 3.0], 4.0, 1.0),
        ([0, 1, 2, 3, 4, 4.03, 4.06, 4.1], 5.26, 4.1 / 7),  # slides, then a burst
        ([0.5, 20.0, 39.0], 39.9, 38.5 / 2),  # picked by hand
        ([10.0, 11.0, 12.0], 39.9, 1.0),  # a part of a long file
    ],
)
def test_times_that_are_not_even_are_told_as_they_are(times, duration, seconds):
    pixels = np.zeros((len(times), 28, 28, 3), np.uint8)
    frames = ModelFrames(pixels, np.array(times, float), duration, (0, 0, 28, 28), 1.0)
    about = metadata_of(frames, len(times))
    assert about.duration == duration
    assert 1 / about.sampled_fps == pytest.approx(seconds)
    assert about.timestamps == pytest.approx(times)


def test_one_picture_has_some_duration():
    frames = ModelFrames(np.zeros((1, 28, 28, 3), np.uint8), np.zeros(1), 0.0, (0, 0, 28, 28), 1.0)
    about = metadata_of(frames, 2)
    assert about.duration > 0
    assert about.sampled_fps > 0
