"""How right a backbone in training answers: by kind of clip and question, on clips of its own.

What training and evaluation share is here too: how clips become frames, and how long a row of
packed questions is.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.model import FRAMES, Language, Qa, see
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.world import ClipSpec, frame_times, render, sample

PACK = 128
"""Tokens of a row in which questions of one clip are packed."""
OCCASIONAL = {"late": priors().p_late, "hidden": priors().p_hidden}


def draw(specs: list[ClipSpec], times: np.ndarray, rng: np.random.Generator) -> Tensor:
    """(B, T, S, S, 3) in [0, 1], some a little soft as a re-encoded video is."""
    clips = torch.from_numpy(np.stack([render(s, times) for s in specs])).float() / 255
    soft = torch.from_numpy(rng.random(len(specs)) < 0.25)
    if soft.any():
        x = clips[soft].flatten(0, 1).movedim(-1, 1)
        x = F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, 1) * 0.5 + x * 0.5
        clips[soft] = x.movedim(1, -1).unflatten(0, (int(soft.sum()), -1))
    return clips


def _probe_questions(spec: ClipSpec, mode: str, rng: np.random.Generator) -> dict[str, Qa]:
    p = priors()
    thing = spec.objects[rng.integers(len(spec.objects))]
    absent = [c for c in p.classes if c not in spec.labels]
    if mode != "flat":  # breaking: what one would expect here; consistent: what one would not
        expected = [c for c in absent if (c in p.typical[spec.scene]) == (mode == "breaking")]
        absent = expected or absent
    out = {
        "caption": (ask.DESCRIBE, ask.caption(spec)),
        "present": (ask.exists(thing.label), "yes"),
        "absent": (ask.exists(absent[rng.integers(len(absent))]), "no"),
        "motion": (ask.which_way(thing.label), thing.motion),
        "count": (ask.HOW_MANY, ask.NUMBERS[len(spec.objects)]),
    }
    arrivals = sorted({o.appears: o.label for o in spec.objects}.items())
    if len(arrivals) > 1:  # against the habit of naming the first one first, except where told
        pair = arrivals[0][1], arrivals[1][1]
        out["order"] = (ask.order(*(pair[::-1] if mode == "breaking" else pair)), pair[0])
    animals = [c for c in spec.labels if p.kind[c] == "animal"]
    if animals:
        out["animal"] = (ask.which("animal"), animals[0])
    return out


@torch.no_grad()
@torch.compiler.set_stance("force_eager")  # its batches have other shapes: each would be compiled
def evaluate(
    model: nn.Module, language: Language, n: int = 96, seed: int = 77
) -> dict[str, dict[str, float]]:
    """Share of exactly right answers by kind of clip and question; no fog, half of it faint."""
    device = next(model.parameters()).device
    result: dict[str, dict[str, float]] = {}
    model.eval()
    for mode in ("consistent", "breaking", "flat"):
        rng = np.random.default_rng(seed)
        weak = 0.0 if mode == "flat" else 0.5
        right: dict[str, list[float]] = {}
        for at in range(0, n, 48):
            specs = [
                sample(rng, mode=mode, weak=weak, fog=0.0, **OCCASIONAL)
                for _ in range(min(48, n - at))
            ]
            asked = [_probe_questions(s, mode, rng) for s in specs]
            frames = draw(specs, frame_times(FRAMES), np.random.default_rng(0)).to(device)
            packed = language.pack([list(a.values()) for a in asked], PACK).to(device)
            video = see(model.model.visual, frames)
            hit = language.answer_logits(model, video, packed).argmax(-1) == packed.ids
            for b, questions in enumerate(asked):
                for s, name in enumerate(questions):
                    own = packed.answer[b] & (packed.segment[b] == s)
                    if own.any():
                        right.setdefault(name, []).append(float(hit[b][own].all()))
        result[mode] = {k: round(float(np.mean(v)), 3) for k, v in right.items()}
    model.train()
    return result
