"""The training pass against transformers, and a training that really resumes."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.positions import positions_of
from macd_studio.core.errors import OptionError
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld import train_backbone
from macd_studio.toyworld.model import TOKENS_PER_SECOND, Language, build, patchify, see
from macd_studio.toyworld.train_backbone import Schedule, Trainer
from macd_studio.toyworld.world import frame_times, render, sample


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return build().eval()


@torch.no_grad()
def test_the_training_pass_equals_transformers(model):
    """With the positions of `core`: transformers' own let text begin before a long video ends."""
    language, rng = Language(), np.random.default_rng(0)
    spec = sample(rng)
    frames = torch.from_numpy(render(spec, frame_times(8)))[None].float() / 255
    pixels, grid = patchify(frames), torch.tensor([[4, 6, 6]])
    own = model.model.visual(pixels, grid_thw=grid).pooler_output
    video = see(model.model.visual, frames)
    torch.testing.assert_close(video[0], own, rtol=0, atol=1e-5)
    packed = language.pack([ask.training_questions(spec, rng, 3)], 96)
    logits = language.answer_logits(model, video, packed, seconds=1.5)[0]
    for s in range(3):
        mine = packed.segment[0] == s
        text = packed.ids[0][mine].tolist()
        ids = torch.tensor([[*language.before, *[language.video] * 36, *language.after, *text]])
        out = model(
            input_ids=ids,
            pixel_values_videos=pixels,
            video_grid_thw=grid,
            position_ids=positions_of(
                (ids[0] == language.video).numpy(), (4, 3, 3), 1.5 * TOKENS_PER_SECOND
            )[:, None],
        ).logits[0, language.prefix_length - 1 : -1]
        torch.testing.assert_close(logits[mine], out, rtol=0, atol=1e-4)


def test_packing_marks_questions_and_answers():
    language = Language()
    packed = language.pack([[("Is there a dog in the video?", "yes"), ("Where is it?", "no")]], 40)
    words = language.tokenizer.convert_ids_to_tokens(packed.ids[0][packed.question[0]].tolist())
    assert words == "is there a dog in the video ? where is it ?".split()
    said = language.tokenizer.convert_ids_to_tokens(packed.ids[0][packed.answer[0]].tolist())
    assert said == ["yes", "<|im_end|>", "no", "<|im_end|>"]
    assert language.pack([[("Where is it?", "no")]], 3).segment.max() == -1


def steps(trainer, n):
    for done, losses in enumerate(trainer._steps(), 1):
        trainer.log(**losses)
        if done == n:
            trainer.save()
            return


@pytest.mark.long
def test_training_resumes_where_it_stopped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(train_backbone, "COVERED_FLAT", 1.0)
    schedule = Schedule(vision_steps=1, vision_batch=2, steps=3, batch=2)
    whole = Trainer(tmp_path / "a", schedule)
    steps(whole, 4)
    first = Trainer(tmp_path / "b", schedule)
    steps(first, 2)
    first.log(lost="in the kill")
    (tmp_path / "b" / "checkpoint.part").write_bytes(b"torn")
    resumed = Trainer(tmp_path / "b", schedule)
    assert (resumed.stage, resumed.step) == ("all", 1)
    steps(resumed, 2)
    for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)
    for a, b in zip(whole.optimisers, resumed.optimisers, strict=True):
        for x, y in zip(a.state.values(), b.state.values(), strict=True):
            torch.testing.assert_close(x, y)
    assert resumed.means == pytest.approx(whole.means)
    for name in ("rng", "patch_rng"):
        a, b = (getattr(t, name).bit_generator.state for t in (whole, resumed))
        assert a == b
    logs = [(tmp_path / f / "log.jsonl").read_text().splitlines() for f in "ab"]
    assert [len(z) for z in logs] == [4, 4]  # the step after the checkpoint is logged once


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # of torch.compile itself
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_training_has_the_same_losses(tmp_path, capsys):
    schedule = Schedule(vision_steps=1, vision_batch=2, steps=2, batch=2)
    plain = Trainer(tmp_path / "a", schedule)
    compiled = Trainer(tmp_path / "b", schedule, compiled=True)
    assert compiled.see is not plain.see
    for trainer in (plain, compiled):
        steps(trainer, 3)
    assert compiled.means == pytest.approx(plain.means, rel=1e-2)


def test_a_training_goes_on_from_another_ones_weights(tmp_path):
    schedule = Schedule(vision_steps=1, vision_batch=2, steps=1, batch=2)
    first = Trainer(tmp_path / "a", schedule)
    steps(first, 2)
    more = replace(schedule, steps=2, easy=0.0)
    second = Trainer(tmp_path / "b", more, tmp_path / "a")
    assert (second.stage, second.step, second.means) == ("all", 0, {})
    for module in ("model", "probe"):
        a, b = (getattr(t, module).state_dict() for t in (first, second))
        assert all(torch.equal(a[k], b[k]) for k in a)
    assert second.rng.bit_generator.state == first.rng.bit_generator.state
    steps(second, 2)
    resumed = Trainer(tmp_path / "b", more, tmp_path / "a")  # its own checkpoint comes first
    assert (resumed.stage, resumed.step) == ("all", 2)
    with pytest.raises(OptionError, match="no checkpoint is in"):
        Trainer(tmp_path / "c", more, tmp_path / "nowhere")


def test_a_checkpoint_of_another_schedule_is_refused(tmp_path):
    schedule = Schedule(vision_steps=1, vision_batch=1, steps=1, batch=1)
    Trainer(tmp_path, schedule).save()
    with pytest.raises(OptionError, match="another schedule"):
        Trainer(tmp_path, replace(schedule, seed=124))
