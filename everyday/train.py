"""Trains the everyday model on simulated evidence: `python -m everyday.train`.

It resumes by itself where it was stopped; every batch follows from the seed and its number alone.
The log is one JSON object a line. `everyday.export` makes the shipped folder of a checkpoint.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing as mp
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from macd_studio.commands import parser as command_line
from macd_studio.everyday.looks import look
from macd_studio.everyday.model import (
    CELLS,
    FRAMES,
    Batch,
    Packer,
    answer_logits,
    build,
    renew_timed_heads,
)
from macd_studio.everyday.questions import SHARES, ask
from macd_studio.everyday.scenes import draw_scene
from macd_studio.toyworld.model import use_fused_norms

SAVE_EVERY = 120.0  # seconds
KINDS = tuple(SHARES)
LENGTHS = {8: 0.68, 4: 0.12, 1: 0.08, 12: 0.06, 16: 0.06}
"""Frames of a clip, and how often."""
EMPTY = (0.6, 0.25, 0.15)
"""How often few, four times as many and all tokens of empty cells are read."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast; the defaults are for two CPU cores."""

    steps: int = 1500
    clips: int = 32
    questions: int = 12
    rate: float = 2e-3
    warm: int = 60
    empty: int = 24
    """Tokens of empty cells that are read of most clips; of some more or all are, in the last tenth
    of the steps of every clip."""
    question: float = 0.3
    """Weight of the question's own loss, which the ascent climbs."""
    seed: int = 7


def draw(schedule: Schedule, step: int, packer: Packer) -> Batch:
    """The batch of a step."""
    rng = np.random.default_rng((schedule.seed, step))
    frames = int(rng.choice(list(LENGTHS), p=list(LENGTHS.values())))
    late = step >= 0.9 * schedule.steps
    empty = [schedule.empty, 4 * schedule.empty, None][2 if late else rng.choice(3, p=EMPTY)]
    count = max(4, round(schedule.clips * (FRAMES / max(frames, 5)) * (1 if empty else 0.6)))
    count = min(count, schedule.clips)
    return draw_batch(rng, packer, count, frames, schedule.questions, empty)


def draw_batch(
    rng: np.random.Generator, packer: Packer, clips: int, frames: int, questions: int,
    empty: int | None,
) -> Batch:  # fmt: skip
    """Simulated clips with their questions."""
    scenes = [draw_scene(rng, frames) for _ in range(clips)]
    asked = [ask(scene, rng, questions) for scene in scenes]
    seen = [look(rng, scene, CELLS) for scene in scenes]
    return packer.pack(seen, asked, KINDS, rng, empty)


def _work(schedule: Schedule, steps: Iterator[int], out: mp.Queue) -> None:  # type: ignore[type-arg]
    torch.set_num_threads(1)
    os.nice(5)
    packer = Packer()
    for step in steps:
        batch = draw(schedule, step, packer)
        out.put({k: v.numpy() for k, v in vars(batch).items()})


def batches(schedule: Schedule, start: int) -> Iterator[Batch]:
    """Batches from a step on, drawn ahead by another process."""
    context = mp.get_context("fork")
    queue: mp.Queue = context.Queue(6)  # type: ignore[type-arg]
    steps = iter(range(start, schedule.steps))
    worker = context.Process(target=_work, args=(schedule, steps, queue), daemon=True)
    worker.start()
    for _ in range(start, schedule.steps):
        yield Batch(**{k: torch.from_numpy(v) for k, v in queue.get().items()})


def losses(logits: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean negative log-likelihood of answers' tokens and of questions'."""
    nll = F.cross_entropy(logits.flatten(0, 1), batch.ids.flatten(), reduction="none")
    nll = nll.view_as(batch.ids)
    return nll[batch.answer].mean(), nll[batch.question].mean()


@torch.no_grad()
def right_by_kind(model: nn.Module, packer: Packer, batch: Batch) -> dict[str, tuple[int, int]]:
    """Kind → questions whose whole answer is right, and questions."""
    guess = answer_logits(model, packer, batch).argmax(-1)
    wrong = (guess != batch.ids) & batch.answer
    out: dict[str, list[int]] = {}
    for b in range(len(batch.ids)):
        for s in range(int(batch.segment[b].max()) + 1):
            own = batch.segment[b] == s
            kind = KINDS[int(batch.kind[b][own][0])]
            entry = out.setdefault(kind, [0, 0])
            entry[0] += not bool(wrong[b][own].any())
            entry[1] += 1
    return {k: (v[0], v[1]) for k, v in out.items()}


def rate_at(schedule: Schedule, step: int) -> float:
    """Learning rate of a step: a short rise, then half a cosine."""
    if step < schedule.warm:
        return schedule.rate * (step + 1) / schedule.warm
    done = (step - schedule.warm) / max(1, schedule.steps - schedule.warm)
    return schedule.rate * (0.03 + 0.97 * (0.5 + 0.5 * math.cos(math.pi * done)))


class Muon(torch.optim.Optimizer):
    """SGD with momentum whose updates are made orthogonal by a Newton–Schulz iteration (Jordan et
    al. 2024), as large as AdamW's; torch's own computes it in bfloat16, which is slow on CPUs."""

    def __init__(self, matrices: Sequence[nn.Parameter]) -> None:
        super().__init__(matrices, {"lr": 1e-3, "momentum": 0.95, "decay": 0.03})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of every matrix."""
        for group in self.param_groups:
            for p in group["params"]:
                assert p.grad is not None
                mean = self.state[p].setdefault("mean", torch.zeros_like(p))
                mean.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonal(p.grad.lerp(mean, group["momentum"]))
                p.mul_(1 - group["lr"] * group["decay"])
                p.add_(update, alpha=-group["lr"] * 0.2 * max(p.shape) ** 0.5)


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix with singular values near 1."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x.T if tall else x


def optimisers_of(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of the layers, AdamW for embeddings, norms and biases."""
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    tables = ("embed_tokens.weight", "tokens.label", "tokens.colour", "tokens.cell")
    matrices = [p for n, p in named if p.ndim == 2 and not n.endswith(tables)]
    others = [p for n, p in named if p.ndim == 2 and n.endswith(tables)]
    plain = [p for _, p in named if p.ndim < 2]
    return [
        Muon(matrices),
        torch.optim.AdamW(
            [{"params": others, "weight_decay": 0.03}, {"params": plain, "weight_decay": 0.0}],
            betas=(0.9, 0.98),
        ),
    ]


def train(
    schedule: Schedule, out: Path, continue_from: Path | None = None, renew: bool = False,
    until: int | None = None,
) -> None:  # fmt: skip
    """Trains, or goes on. continue_from: a checkpoint whose weights a new training begins with.

    renew: see `model.renew_timed_heads`; movement is not learned without. until: the step after
    which it ends before its schedule does.
    """
    out.mkdir(parents=True, exist_ok=True)
    file, packer = out / "checkpoint.pt", Packer()
    torch.manual_seed(schedule.seed)
    model = build()
    use_fused_norms(model.model.language_model)
    if continue_from is not None:
        model.load_state_dict(torch.load(continue_from, weights_only=True)["model"], strict=False)
        if renew:
            rng = np.random.default_rng((schedule.seed, 10**9, 9))
            renew_timed_heads(model, packer, draw_batch(rng, packer, 16, FRAMES, 12, 24))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimisers = optimisers_of(model)
    start = 0
    if file.exists():
        saved = torch.load(file, weights_only=True)
        if saved["schedule"] != asdict(schedule):
            raise SystemExit(f"{file} is of another schedule: {saved['schedule']}")
        model.load_state_dict(saved["model"], strict=False)
        for optimiser, state in zip(optimisers, saved["optimisers"], strict=True):
            optimiser.load_state_dict(state)
        start = saved["step"]
    held = [
        draw_batch(np.random.default_rng((schedule.seed, 10**9, i)), packer, 40, FRAMES, 12, None)
        for i in range(2)
    ]
    began = saved_at = time.monotonic()
    sums, count = np.zeros(2), 0

    def save(step: int) -> None:
        weights = {k: v for k, v in model.state_dict().items() if ".network." not in k}
        part = file.with_suffix(".part")
        torch.save(
            {"model": weights, "optimisers": [o.state_dict() for o in optimisers], "step": step,
             "schedule": asdict(schedule)}, part,
        )  # fmt: skip
        part.replace(file)

    for step, batch in enumerate(batches(schedule, start), start):
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate_at(schedule, step)
        answer, question = losses(answer_logits(model, packer, batch), batch)
        model.zero_grad(set_to_none=True)
        (answer + schedule.question * question).backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        for optimiser in optimisers:
            optimiser.step()
        sums += [answer.item(), question.item()]
        count += 1
        if (step + 1) % 50 == 0 or step + 1 == schedule.steps:
            row = {"step": step + 1, "answer": sums[0] / count, "question": sums[1] / count,
                   "seconds": round(time.monotonic() - began, 1)}  # fmt: skip
            sums, count = np.zeros(2), 0
            if (step + 1) % 200 == 0 or step + 1 == schedule.steps:
                model.eval()
                totals: dict[str, np.ndarray] = {}
                for h in held:
                    for kind, pair in right_by_kind(model, packer, h).items():
                        totals[kind] = totals.get(kind, np.zeros(2, int)) + pair
                row["right"] = {k: round(float(v[0] / v[1]), 3) for k, v in sorted(totals.items())}
                row["n"] = {k: int(v[1]) for k, v in sorted(totals.items())}
                model.train()
            with (out / "log.jsonl").open("a") as log:
                print(json.dumps(row), file=log)
        ends = step + 1 in (until, schedule.steps)
        if time.monotonic() - saved_at > SAVE_EVERY or ends:
            save(step + 1)
            saved_at = time.monotonic()
        if ends:
            return


def main() -> None:
    """Command line."""
    parser = command_line("everyday.train", __doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/everyday"))
    parser.add_argument("--continue-from", type=Path, metavar="CHECKPOINT")
    parser.add_argument("--renew", action="store_true", help="begin with new heads that tell time")
    parser.add_argument("--until", type=int, metavar="STEP", help="end there, before its schedule")
    for name, value in asdict(Schedule()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    args: argparse.Namespace = parser.parse_args()
    schedule = Schedule(**{name: getattr(args, name) for name in asdict(Schedule())})
    train(schedule, args.out, args.continue_from, args.renew, args.until)


if __name__ == "__main__":
    main()
