"""Trains the embedded backbone from nothing: `python -m toyworld.train_backbone`.

Stage one teaches the vision tower which class sits in which cell; stage two teaches everything
together: answers, questions (their loss is what the ascent climbs), cells and motions. A third of
the way through, the clips become faint and follow habit, which is where hallucination comes from.
Some clips are partly covered, over objects and over nothing (`toyworld.occlusions`). A checkpoint
is written every two minutes and resumes by itself; the log is one JSON object a line.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from macd_studio.commands import parser as command_line
from macd_studio.core.errors import OptionError
from macd_studio.toyworld import questions as ask
from macd_studio.toyworld.model import (
    CELLS,
    FRAMES,
    GROUPS,
    TEMPORAL,
    Language,
    Packed,
    build,
    see,
    use_fused_norms,
)
from macd_studio.toyworld.occlusions import (
    SHOWS,
    cover,
    sample_patches,
    shares_shown,
    what_shows,
)
from macd_studio.toyworld.priors import priors
from macd_studio.toyworld.training_probe import OCCASIONAL, PACK, draw, evaluate
from macd_studio.toyworld.world import ClipSpec, frame_times, render, sample

SAVE_EVERY = 120.0  # seconds
COVERED_FLAT, COVERED_HABIT = 0.1, 0.4  # share of the clips that are partly covered
EMPTY = 0.06  # share of the clips in which nothing is drawn
FAINT = (0.08, 0.7)  # opacity of faint objects in clips that follow habit


@dataclass(frozen=True)
class Schedule:
    """How long and how fast. The defaults are for two CPU cores, `gpu()` for one GPU."""

    vision_steps: int = 900
    vision_batch: int = 64
    steps: int = 2500
    batch: int = 24
    easy: float = 0.12  # share of stage two with clear, evenly drawn clips
    rate: float = 2e-3
    question: float = 1.0  # weight of the question's own loss, which the ascent climbs
    seed: int = 123

    @staticmethod
    def gpu() -> Schedule:
        """Three times as long, with larger batches."""
        return Schedule(vision_steps=3000, vision_batch=256, steps=8000, batch=96)


class Probe(nn.Module):
    """Thrown away after training: which class, scene and motion lies in each merged cell."""

    def __init__(self, width: int) -> None:
        super().__init__()
        p = priors()
        self.label = nn.Linear(width, len(p.classes))
        self.scene = nn.Linear(width, len(p.scenes))
        self.motion = nn.Linear(width, len(p.motions))


def cell_targets(
    specs: list[ClipSpec], times: np.ndarray, shown: Sequence[np.ndarray] = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """Per cell: classes (B, N, C) in {0, 1}; scene (B,); motion (B, N), -100 where nothing is.

    shown: for each clip (K, T) bool, where an object can be seen; without it, wherever it is.
    """
    p, groups = priors(), len(times) // TEMPORAL
    label = np.zeros((len(specs), groups, CELLS, CELLS, len(p.classes)), np.float32)
    motion = np.full((len(specs), groups, CELLS, CELLS), -100)
    for b, spec in enumerate(specs):
        for k, o in enumerate(spec.objects):
            cell = (o.centres(times) * CELLS).astype(int).clip(0, CELLS - 1)
            for t in np.flatnonzero(shown[b][k] if len(shown) else o.seen(times)):
                x, y = cell[t]
                label[b, t // TEMPORAL, y, x, p.classes.index(o.label)] = 1
                motion[b, t // TEMPORAL, y, x] = p.motions.index(o.motion)
    scene = torch.tensor([p.scenes.index(s.scene) for s in specs])
    n = groups * CELLS**2
    return (
        torch.from_numpy(label.reshape(len(specs), n, -1)),
        scene,
        torch.from_numpy(motion.reshape(len(specs), n)),
    )


Sampling = dict[str, Any]
"""Keyword arguments of `world.sample`."""


class Trainer:
    """Model, probe, optimisers and random states; everything a checkpoint must hold.

    Patches have a random stream of their own, so that the clips under them are those of a
    training without patches. Raises OptionError for a checkpoint of another schedule.

    With `start`, the folder of an earlier training, stage two begins with its weights and random
    states and with new optimisers: a longer schedule without paying for the first part again.
    `compiled` needs a C++ compiler; both towers then run a fifth faster on a CPU, with the same
    losses to rounding.
    """

    def __init__(
        self, out: Path, schedule: Schedule, start: Path | None = None, *, compiled: bool = False
    ) -> None:
        self.out, self.schedule = out, schedule
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(schedule.seed)
        self.rng = np.random.default_rng(schedule.seed)
        self.patch_rng = np.random.default_rng([schedule.seed, 1])
        self.language = Language()
        self.model = build().to(self.device)
        self.probe = Probe(self.model.config.text_config.hidden_size).to(self.device)
        use_fused_norms(self.model)
        self.see = torch.compile(see, dynamic=False) if compiled else see
        if compiled:
            self.model.model.language_model.compile(dynamic=False)
        self.stage, self.step, self.seconds = "vision", 0, 0.0
        self.means: dict[str, float] = {}  # losses, smoothed over about 20 steps
        self.optimisers = self._optimisers()
        out.mkdir(parents=True, exist_ok=True)
        if (out / "checkpoint.pt").exists():
            self._resume()
        elif start is not None:
            self._restore(self._read_checkpoint(start))
            self.stage = "all"
            self.optimisers = self._optimisers()

    def _optimisers(self) -> list[torch.optim.Optimizer]:
        module: nn.Module = self.model.model.visual if self.stage == "vision" else self.model
        matrices = [
            p
            for n, p in module.named_parameters()
            if p.ndim == 2 and "embed" not in n and "lm_head" not in n
        ]
        matrix_ids = {id(p) for p in matrices}
        rest = [p for p in module.parameters() if id(p) not in matrix_ids]
        rest += list(self.probe.parameters())
        return [
            torch.optim.Muon(
                matrices, lr=1.0, weight_decay=0.01, adjust_lr_fn="match_rms_adamw", ns_steps=4
            ),
            torch.optim.AdamW(rest, lr=1.0, weight_decay=0.01, betas=(0.9, 0.98)),
        ]

    def _resume(self) -> None:
        saved = self._read_checkpoint(self.out)
        if saved["schedule"] != asdict(self.schedule):
            raise OptionError(
                f"the checkpoint in {self.out} is of another schedule or seed",
                "Choose another folder, or train with the same options",
            )
        self.stage, self.step, self.seconds = saved["stage"], saved["step"], saved["seconds"]
        self._restore(saved)
        self.optimisers = self._optimisers()
        for optimiser, state in zip(self.optimisers, saved["optimisers"], strict=True):
            optimiser.load_state_dict(state)
        self.means = saved["means"]
        if self._log_path.exists():  # steps after the checkpoint are made, and logged, again
            os.truncate(self._log_path, min(saved["log_bytes"], self._log_path.stat().st_size))

    def _read_checkpoint(self, folder: Path) -> dict[str, Any]:
        path = folder / "checkpoint.pt"
        if not path.is_file():
            raise OptionError(f"no checkpoint is in {folder}", "Name the folder of a training")
        saved: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=False)
        return saved

    def _restore(self, saved: dict[str, Any]) -> None:
        """Weights and random states."""
        self.model.load_state_dict(saved["model"])
        self.probe.load_state_dict(saved["probe"])
        self.rng.bit_generator.state = saved["rng"]
        self.patch_rng.bit_generator.state = saved["patch_rng"]
        torch.set_rng_state(saved["torch_rng"].cpu())

    @property
    def _log_path(self) -> Path:
        return self.out / "log.jsonl"

    def save(self) -> None:
        """Writes the checkpoint whole or not at all."""
        part = self.out / "checkpoint.part"
        torch.save(
            {
                "schedule": asdict(self.schedule),
                "stage": self.stage,
                "step": self.step,
                "seconds": self.seconds,
                "means": self.means,
                "log_bytes": self._log_path.stat().st_size if self._log_path.exists() else 0,
                "model": self.model.state_dict(),
                "probe": self.probe.state_dict(),
                "optimisers": [o.state_dict() for o in self.optimisers],
                "rng": self.rng.bit_generator.state,
                "patch_rng": self.patch_rng.bit_generator.state,
                "torch_rng": torch.get_rng_state(),
            },
            part,
        )
        part.replace(self.out / "checkpoint.pt")

    def log(self, **row: Any) -> None:
        """Appends one line to log.jsonl and prints it."""
        line = json.dumps({"stage": self.stage, "step": self.step} | row)
        print(line, flush=True)
        with self._log_path.open("a") as file:
            file.write(line + "\n")

    def apply(self, loss: Tensor, rate: float) -> None:
        """One optimiser step at this learning rate."""
        loss.backward()
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate
        params = [p for o in self.optimisers for g in o.param_groups for p in g["params"]]
        nn.utils.clip_grad_norm_(params, 1.0)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()

    def run(self) -> None:
        """Both stages, resumed from the checkpoint where there is one."""
        with sdpa_kernel(SDPBackend.MATH):  # on these short sequences a fifth faster on a CPU
            self._run()

    def _run(self) -> None:
        saved = time.monotonic()
        for losses in self._steps():
            if self.step % 25 == 0:
                means = {k: round(v, 4) for k, v in losses.items()}
                self.log(seconds=round(self.seconds), **means)
            if self.step % 200 == 0 and self.stage == "all":
                self.log(accuracy=evaluate(self.model, self.language))
            if time.monotonic() - saved > SAVE_EVERY:
                self.save()
                saved = time.monotonic()
        self.stage = "done"
        self.log(seconds=round(self.seconds), accuracy=evaluate(self.model, self.language, 400))
        self.save()

    def _steps(self) -> Iterator[dict[str, float]]:
        s = self.schedule
        while self.stage != "done":
            total = s.vision_steps if self.stage == "vision" else s.steps
            if self.step >= total:
                if self.stage == "all":
                    return
                self.stage, self.step, self.means = "all", 0, {}
                self.optimisers = self._optimisers()
                continue
            began = time.monotonic()
            u = self.step / total
            rate = s.rate * min(1, (self.step + 1) / 60) * min(1.0, max(0.03, (1 - u) / 0.5))
            with torch.autocast(self.device.type, torch.bfloat16):
                losses = self._vision_losses(u) if self.stage == "vision" else self._losses(u)
            self.apply(losses["total"], rate)
            self.step += 1
            self.seconds += time.monotonic() - began
            for k, v in losses.items():
                self.means[k] = 0.95 * self.means.get(k, v.item()) + 0.05 * v.item()
            yield self.means

    def _vision_losses(self, u: float) -> dict[str, Tensor]:
        n = self.schedule.vision_batch
        weak = 0.0 if u < 0.3 else 0.35
        how: Sampling = {"mode": "flat", "weak": weak, "hidden": OCCASIONAL["hidden"]}
        specs = [sample(self.rng, fog=0.0, **how) for _ in range(n)]
        group = int(self.rng.integers(GROUPS))
        times = frame_times(FRAMES)[TEMPORAL * group :][:TEMPORAL]
        frames, shares, _ = self._cover(draw(specs, times, self.rng), specs, [how] * n, times)
        video = self.see(self.model.model.visual, frames)
        return self._probe_losses(video, specs, times, shares)

    def _probe_losses(
        self, video: Tensor, specs: list[ClipSpec], times: np.ndarray, shares: list[np.ndarray]
    ) -> dict[str, Tensor]:
        shown = [share > SHOWS for share in shares]
        label, scene, motion = (z.to(self.device) for z in cell_targets(specs, times, shown))
        classes = label.shape[-1]
        cells = F.binary_cross_entropy_with_logits(self.probe.label(video).float(), label)
        scenes = F.cross_entropy(self.probe.scene(video.mean(1)).float(), scene)
        guessed, told = self.probe.motion(video).float().flatten(0, 1), motion.flatten()
        # a mean over cells that show something, 0 where none does
        motions = F.cross_entropy(guessed, told, reduction="sum") / (told >= 0).sum().clamp_min(1)
        total = classes * cells + 0.1 * scenes + 0.1 * motions
        return {"total": total, "cells": cells * classes, "motions": motions}

    def _losses(self, u: float) -> dict[str, Tensor]:
        s, rng = self.schedule, self.rng
        flat: Sampling = {"mode": "flat", "weak": 0.1 if u < s.easy else 0.3, "p_motion": 0.2}
        habit: Sampling = {"mode": "habit", "weak": 0.5, "contrast": FAINT}
        # some clips without habits keep the eyes open
        even = 1.0 if u < s.easy else 0.25 if u < 0.6 else 0.0
        hows = [(flat if rng.random() < even else habit) | OCCASIONAL for _ in range(s.batch)]
        specs = [
            sample(rng, fog=0.0, labels=[] if rng.random() < EMPTY else None, **how) for how in hows
        ]
        times = frame_times(FRAMES)
        frames, shares, behind = self._cover(draw(specs, times, rng), specs, hows, times)
        truths = [what_shows(x, y, times) for x, y in zip(specs, shares, strict=True)]
        asked = [
            ask.training_questions(truth, rng, covered=ask.not_seen(labels, truth))
            for labels, truth in zip(behind, truths, strict=True)
        ]
        packed = self.language.pack(asked, PACK)
        packed = _forget_words(packed, self.language.unknown, rng).to(self.device)
        seconds = float(rng.choice([0.5, 1.0, 1.0, 1.0, 1.5, 2.0, 4.0]))
        video = self.see(self.model.model.visual, frames)
        logits = self.language.answer_logits(self.model, video, packed, seconds).float()
        nll = F.cross_entropy(logits.flatten(0, 1), packed.ids.flatten(), reduction="none")
        nll = nll.unflatten(0, packed.ids.shape)
        answer, question = nll[packed.answer].mean(), nll[packed.question].mean()
        probe = self._probe_losses(video, specs, times, shares)
        total = answer + s.question * question + 0.3 * probe["cells"] + 0.4 * probe["motions"]
        return {"total": total, "answer": answer, "question": question} | {
            k: probe[k] for k in ("cells", "motions")
        }

    def _cover(
        self, clips: Tensor, specs: list[ClipSpec], hows: list[Sampling], times: np.ndarray
    ) -> tuple[Tensor, list[np.ndarray], list[tuple[str, ...]]]:
        """The clips (B, T, S, S, 3) behind their patches, on the device; what shows of each object;
        and the classes whose boxes are covered, drawn or not.

        The shares are (K, T), as `occlusions.shares_shown` gives them.
        """
        rng, shares, behind = self.patch_rng, [], []
        for b, (spec, how) in enumerate(zip(specs, hows, strict=True)):
            share = COVERED_FLAT if how["mode"] == "flat" else COVERED_HABIT
            decoy = sample(rng, spec.scene, fog=0.0, **how)
            patches = sample_patches(spec, decoy, share, rng)
            behind.append(tuple({p.path.label: 0 for p in patches if p.path is not None}))
            if patches:
                plate = render(replace(spec, objects=()), times).astype(np.float32) / 255
                clips[b] = torch.from_numpy(cover(clips[b].numpy(), patches, times, plate))
            shares.append(shares_shown(spec, patches, times))
        return clips.to(self.device), shares, behind


def _forget_words(
    packed: Packed, unknown: int, rng: np.random.Generator, share: float = 0.01
) -> Packed:
    lost = torch.from_numpy(rng.random(packed.ids.shape) < share) & packed.question
    return replace(packed, ids=torch.where(lost, unknown, packed.ids))


def main() -> None:
    """Command line; uses the longer schedule where there is a GPU."""
    parser = command_line("toyworld.train_backbone", __doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/backbone"))
    parser.add_argument("--seed", type=int, help=f"{Schedule.seed} without it")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="shorten stage two, to try things")
    parser.add_argument("--vision-steps", type=int, help="shorten stage one, to try things")
    parser.add_argument("--rate", type=float, help=f"peak, {Schedule.rate} without it")
    parser.add_argument(
        "--continue-from", type=Path, metavar="FOLDER", help="go on from that training's weights"
    )
    parser.add_argument("--compile", action="store_true", help="a fifth faster; needs a compiler")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    base = Schedule.gpu() if torch.cuda.is_available() else Schedule()
    names = ("steps", "vision_steps", "seed", "rate")
    chosen = {name: getattr(args, name) for name in names} | (
        {"easy": 0.0} if args.continue_from else {}
    )
    schedule = Schedule(**asdict(base) | {k: v for k, v in chosen.items() if v is not None})
    trainer = Trainer(args.out, schedule, args.continue_from, compiled=args.compile)
    start = {"continues": args.continue_from.name} if args.continue_from else {}
    device = str(trainer.device)
    trainer.log(schedule=asdict(schedule), device=device, torch=torch.__version__, **start)
    trainer.run()


if __name__ == "__main__":
    main()
