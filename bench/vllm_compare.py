"""What a vLLM server says, held against the same weights in this process: the comparisons."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.base import Encoded, Reader, normalise, to_pixels
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.backbones.remote.reader import RemoteReader
from macd_studio.core.decoding.certificate import Errors, certify, errors_of
from macd_studio.core.errors import NotApplicable
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, DecodeOptions, RunOptions
from macd_studio.core.run.order import run_method
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Answer, Clip, ModelFrames, Track
from macd_studio.core.view_records import MaskedView
from macd_studio.core.views.context import MethodContext
from macd_studio.evals.benchmarks.toyworld import ToyWorld
from macd_studio.evals.statistics.intervals import clustered_share

HEAD = 3.0
"""Nats below the best: what a β of 0.05 lets through."""
SAME = {"log_p": 1e-4, "loss": 1e-5}
"""How far log-probabilities and losses of the same pixels may be off, nats. The server's kernels
depend on the processor: log-probabilities of the embedded model were off by 6·10⁻⁶ on one and by
2.7·10⁻⁵ on one without AVX-512. Pixels that are rounded to 8 bits move them by 1·10⁻³."""
SIGNS = {"exact": 0.99, "common": 0.95}
"""The least share of decided signs that equal the exact gradient's."""
METHODS_TRIED = ("baseline", "macd", "mask-all", "vcd")
TIMED, AT_ONCE = 20, 4
"""Questions that are asked in turn, for their seconds, and how many of the others at once."""
LEVEL = 0.75
"""Of the masks that one of two views is read behind: its pixels lie between the steps of 8 bits."""
Figures = dict[str, Any]
Answers = Mapping[str, Answer | str]
"""Method → its answer, or why there is none."""


@dataclass
class Checks:
    """Prints each check as it is made."""

    failed: int = 0

    def tell(self, passed: bool, what: str) -> None:
        """One line."""
        self.failed += not passed
        print(f"{'ok' if passed else 'FAILED'}  {what}", flush=True)


@dataclass(frozen=True, eq=False)
class Case:
    """A question about a clip whose objects are known. about: a name for its row.

    clip: or its frames as the model reads them.
    """

    about: str
    clip: Clip | ModelFrames
    question: str
    tracks: tuple[Track, ...]

    def under(self, lm: Reader, options: RunOptions) -> MethodContext:
        """The question under a reader."""
        clip = self.clip
        frames = clip if isinstance(clip, ModelFrames) else lm.preprocess(clip)
        encoded = lm.encode_frames(frames, self.question)
        return MethodContext(lm, encoded, self.tracks, options)


def examples() -> list[Case]:
    """The shipped examples that the embedded model answered."""
    found = [load(path) for path in sorted((assets() / "examples").glob("*.macd"))]
    return [
        Case(t.clip.name, t.model_frames, t.question, t.tracks)
        for t in found
        if t.backbone.name == "toyworld" and t.model_frames is not None
    ]


def drawn_questions(n: int) -> list[Case]:
    """Questions of the drawn benchmark's test split with their true boxes, of all regimes."""
    world = ToyWorld()
    items = world.items("test", -(-n // len(world.regimes)))
    spread = items[:: len(items) // max(n, 1) or 1][:n]
    return [Case(i.id, world.clip(i.clip), i.question, world.true_tracks(i.clip)) for i in spread]


def ascending(kind: str) -> RunOptions:
    """Options with that gradient."""
    return RunOptions(ascent=AscentOptions(gradient=kind))  # type: ignore[arg-type]


def behind(context: MethodContext, level: float) -> Tensor:
    """The video behind masks of a level, (T, 3, h, w)."""
    masks = context.masks(context.options.mask)
    levels = torch.full((len(masks.objects),), level, dtype=torch.float64)
    groups = len(context.encoded.groups) if masks.outside is not None else 0
    return masks.video(levels, torch.full((groups,), level, dtype=torch.float64))


def two_views(context: MethodContext) -> Tensor:
    """The video and the same behind masks of LEVEL, (2, T, 3, h, w)."""
    return torch.stack([context.encoded.video, behind(context, LEVEL)])


def full_views(context: MethodContext) -> Tensor:
    """The video behind full masks, of which most is exactly 0, and behind nothing else but 0."""
    full = behind(context, 1.0)
    return torch.stack([full, torch.zeros_like(full)])


def plain_views(context: MethodContext) -> Tensor:
    """The video, and the same with half of its frames of the colour that padding has, (2, …)."""
    encoded = context.encoded
    colour = (255 * encoded.mean).round().to(torch.uint8)
    padded = np.array(encoded.frames.pixels)
    padded[[frame for group in encoded.groups[::2] for frame in group]] = colour.cpu().numpy()
    return torch.stack([encoded.video, normalise(padded, encoded.mean, encoded.std)])


def in_8_bits(encoded: Encoded, views: Tensor) -> Tensor:
    """The views as a server reads them that takes frames in 8 bits."""
    return torch.stack(
        [
            normalise(to_pixels(view, encoded.mean, encoded.std), encoded.mean, encoded.std)
            for view in views
        ]
    )


@dataclass
class Off:
    """The largest differences of log-probabilities within HEAD of the best, and of losses."""

    log_p: float = 0.0
    loss: float = 0.0

    def read(self, lm: LocalLM, far: RemoteReader, encoded: tuple[Any, Any], views: Tensor,
             sent: Tensor) -> None:  # fmt: skip
        """Reads `views` here, and `sent` by the server."""
        near, held = lm.prefill(encoded[0], views), far.prefill(encoded[1], sent)
        own, told = lm.question_log_p(encoded[0], near), far.question_log_p(encoded[1], held)
        self.loss = max(self.loss, float(np.abs(own.mean(1) - told.mean(1)).max()))
        for whole, row in zip(lm.next_logits(near), far.next_logits(held), strict=True):
            log_p, said = whole.values - whole.log_partition, row.values - row.log_partition
            ids = np.arange(len(said)) if row.ids is None else row.ids
            off, below = np.abs(log_p[ids] - said), log_p.max() - log_p[ids]
            self.log_p = max(self.log_p, float(off[below < HEAD].max()))


def compare_reads(lm: LocalLM, far: RemoteReader, cases: Sequence[Case]) -> Figures:
    """Prompts, log-probabilities and losses of each clip and of its video behind masks.

    In the common way once more against the same frames in 8 bits, read here: "rounded". Views that
    hold exact zeros stand apart: "full"; so does the video without masks, as it is and with frames
    of padding: "plain".
    """
    whole, rounded, full, plain, same = Off(), Off(), Off(), Off(), True
    for case in cases:
        one, other = (case.under(reader, RunOptions()) for reader in (lm, far))
        same &= one.encoded.input_ids.tolist() == other.encoded.input_ids.tolist()
        views, encoded = two_views(one), (one.encoded, other.encoded)
        whole.read(lm, far, encoded, views, views)
        zeros = full_views(one)
        full.read(lm, far, encoded, zeros, zeros)
        unmasked = plain_views(one)
        plain.read(lm, far, encoded, unmasked, unmasked)
        if not far.server.exact:
            rounded.read(lm, far, encoded, in_8_bits(one.encoded, views), views)
    found: Figures = {
        "prompts": same, "reads": 2 * len(cases), **whole.__dict__, "full": full.__dict__,
        "plain": plain.__dict__,
    }  # fmt: skip
    return found if far.server.exact else found | {"rounded": rounded.__dict__}


def check_reads(checks: Checks, name: str, reads: Figures, errors: Errors) -> None:
    """Equal where the same pixels are read, and nowhere further off than certificates allow for."""
    views = f"of {reads['reads']} views"
    checks.tell(reads["prompts"], f"{name}: prompts equal in {reads['reads'] // 2} clips")
    equal = reads.get("rounded", reads)
    pixels = "8-bit pixels" if "rounded" in reads else "float pixels"
    for what in ("log_p", "loss"):
        told = f"{name}: {what} {views}, the same {pixels} read here, within {equal[what]:.1e}"
        checks.tell(equal[what] <= SAME[what], told)
    if "rounded" in reads:
        told = f"{name}: log_p {views} within {reads['log_p']:.1e} of unrounded ones, under ε"
        checks.tell(reads["log_p"] <= errors.second, f"{told} {errors.second:.1e}")
    full = reads["full"]["log_p"]
    told = f"{name}: log_p {views} that hold zeros within {full:.1e}, under ε {errors.second:.1e}"
    checks.tell(full <= errors.second, told)
    plain = reads["plain"]["log_p"]
    told = f"{name}: log_p {views} without masks within {plain:.1e}, under ε {errors.video:.1e}"
    checks.tell(plain <= errors.video, told)


def compare_signs(lm: LocalLM, far: RemoteReader, cases: Sequence[Case]) -> Figures:
    """Slopes by reading the server, against the exact gradient here."""
    rows, h = [], AscentOptions().difference_step
    for case in cases:
        (own,), (read,) = (
            context.ascent(context.options.mask)
            for context in (
                case.under(lm, ascending("exact")),
                case.under(far, ascending("difference")),
            )
        )
        slopes = zip(
            [*own.gradient, *own.frame_gradient], [*read.gradient, *read.frame_gradient],
            strict=True,
        )  # fmt: skip
        rows += [(case.about, float(a), float(b)) for a, b in slopes]
    decided = [row for row in rows if row[2] != 0]
    wrong = [row for row in decided if row[1] * row[2] <= 0]
    return {
        "strengths": len(rows),
        "decided": len(decided),
        "same_sign": len(decided) - len(wrong),
        "step": h,
        "exceptions": [{"clip": c, "gradient": a, "difference": b} for c, a, b in wrong],
    }


def check_signs(checks: Checks, name: str, way: str, signs: Figures) -> None:
    """The share of decided signs that are right."""
    share = signs["same_sign"] / signs["decided"] if signs["decided"] else 1.0
    checks.tell(
        share >= SIGNS[way],
        f"{name}: {signs['same_sign']} of {signs['decided']} decided signs are the exact"
        f" gradient's; {signs['strengths'] - signs['decided']} of {signs['strengths']} undecided",
    )


def answer(case: Case, reader: Reader) -> Answers:
    """What METHODS_TRIED say, at most 8 tokens each."""
    options = RunOptions(
        ascent=AscentOptions(gradient="difference"), decode=DecodeOptions(max_tokens=8)
    )
    context, answers = case.under(reader, options), dict[str, Answer | str]()
    for method in METHODS_TRIED:
        try:
            answers[method] = run_method(context, METHODS[method])
        except NotApplicable as error:
            answers[method] = error.cause
    return answers


@dataclass
class Local:
    """Answers of the model in this process, computed once for both ways."""

    lm: LocalLM
    known: dict[str, Answers] = field(default_factory=dict)

    def of(self, case: Case, again: bool = False) -> Answers:
        """Its answers. again: computes them anew, to time it."""
        if again or case.about not in self.known:
            self.known[case.about] = answer(case, self.lm)
        return self.known[case.about]


def compare_tokens(local: Local, far: RemoteReader, cases: Sequence[Case]) -> Figures:
    """Tokens of METHODS_TRIED, and which are certified; the first TIMED questions in turn.

    Answers under other masks are told and not compared: a slope at the edge of its noise may be
    decided by one and not by the other, and a certificate is about the views as they are.
    """
    seconds, sent = {"server": 0.0, "local": 0.0}, far._way.client.counted.sent
    answers: dict[str, Answers] = {}
    for case in cases[:TIMED]:
        began = time.perf_counter()
        local.of(case, again=True)
        between = time.perf_counter()
        answers[case.about] = answer(case, far)
        seconds["local"] += between - began
        seconds["server"] += time.perf_counter() - between
    timed_requests, began = far._way.client.counted.sent - sent, time.perf_counter()
    rest = cases[TIMED:]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers |= zip((c.about for c in rest), pool.map(lambda c: answer(c, far), rest),
                       strict=True)  # fmt: skip
    together = time.perf_counter() - began
    requests = far._way.client.counted.sent - sent
    rows, left_out, other_masks = [], [], []
    errors = errors_of(far.server.error, far.server.video_error)
    assert errors is not None
    for case in cases:
        for method in METHODS_TRIED:
            one, other = local.of(case)[method], answers[case.about][method]
            if isinstance(other, str) or isinstance(one, str):
                left_out.append((case.about, method, str(other)))
                continue
            if _levels(one) != _levels(other):
                other_masks.append((case.about, method, _levels(one), _levels(other)))
                continue
            rows += _tokens(case.about, method, one, other, errors)
    certified = [row for row in rows if row[3] == "certified"]
    kinds = {kind: sum(row[3] == kind for row in rows) for kind in sorted({r[3] for r in rows})}
    hits, clusters = [r[3] == "certified" for r in rows], [r[0] for r in rows]
    return {
        "questions": len(cases),
        "tokens": len(rows),
        "certificates": kinds,
        "certified_share": list(clustered_share(np.array(hits), clusters)) if rows else None,
        "certified_and_other": [r[:3] for r in certified if not r[4]],
        "other": [r[:4] for r in rows if not r[4]],
        "left_out": left_out,
        "other_masks": other_masks,
        "requests": requests,
        "timed": {
            "questions": len(cases[:TIMED]), "requests": timed_requests,
            **{k: round(v, 1) for k, v in seconds.items()},
        },
        "together": {"questions": len(rest), "at_once": AT_ONCE, "seconds": round(together, 1)},
    }  # fmt: skip


def _levels(answer: Answer) -> list[list[float]]:
    """The levels of the masks of an answer's second views."""
    views = (second.view for second in answer.second_views)
    return [[*v.level, *v.frame_level] for v in views if isinstance(v, MaskedView)]


def _tokens(
    about: str, method: str, one: Answer, other: Answer, errors: Errors
) -> list[tuple[str, str, int, str, bool]]:
    """A row for each token of the server's answer until it is another than the local one."""
    rows = list[tuple[str, str, int, str, bool]]()
    for place, step in enumerate(other.tokens[: len(one.tokens)]):
        same = one.tokens[place].token == step.token
        rows.append((about, method, place, certify(step, other, errors), same))
        if not same:
            break
    return rows


def check_tokens(checks: Checks, name: str, tokens: Figures) -> None:
    """No certified token is another than the local run's."""
    checks.tell(
        not tokens["certified_and_other"],
        f"{name}: {tokens['certificates'].get('certified', 0)} of {tokens['tokens']} tokens of"
        f" {tokens['questions']} questions certified, and each is the local run's",
    )
    left_out, masks = len(tokens["left_out"]), len(tokens["other_masks"])
    print(
        f"    {tokens['requests']} requests; {tokens['timed']}; {tokens['together']};"
        f" {left_out} answers left out, {masks} under other masks",
        flush=True,
    )
