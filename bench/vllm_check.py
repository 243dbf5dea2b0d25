"""Holds a real vLLM server on the CPU against the same weights in this process.

`make vllm-check`. Lines that begin with `ok` or `FAILED` are the checks; figures go into
bench/results/vllm.json. `--record` writes the answers that `tests/core/test_remote_recorded.py`
plays again. Exit codes: 0 every check passed, 1 one did not, 2 there is no vLLM here.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.recorded import record
from bench.server import ROOT
from bench.vllm import VLLM, served
from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.base import Reader
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.backbones.remote.open import open_server
from macd_studio.core.backbones.remote.reader import RemoteReader
from macd_studio.core.decoding.certificate import certify
from macd_studio.core.errors import NotApplicable
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, DecodeOptions, RunOptions
from macd_studio.core.run.context import MethodContext
from macd_studio.core.run.order import run_method
from macd_studio.core.system.shipped import assets, shipped
from macd_studio.core.traces.bundle import load
from macd_studio.core.types import Trace
from macd_studio.evals.benchmarks.toyworld import ToyWorld
from macd_studio.evals.statistics.stats import clustered_share

RESULTS = ROOT / "bench" / "results" / "vllm.json"
EXACT, COMMON = {"log_p": 1e-5, "loss": 1e-5}, {"log_p": 0.05, "loss": 3e-3}
"""How far losses, and log-probabilities within HEAD of the best, may be off in either way, nats."""
HEAD, TAIL = 3.0, 12.0
"""Nats below the best: what a β of 0.05 lets through, and what is reported beside."""
SIGNS = {"exact": 0.99, "common": 0.95}
"""The least share of decided signs that equal the exact gradient's."""
METHODS_TRIED = ("baseline", "macd", "mask-all", "vcd")
QUESTIONS = 200
Figures = dict[str, Any]


@dataclass
class Checks:
    """Prints each check as it is made."""

    failed: int = 0

    def tell(self, passed: bool, what: str) -> None:
        """One line."""
        self.failed += not passed
        print(f"{'ok' if passed else 'FAILED'}  {what}", flush=True)


def examples() -> list[Trace]:
    """The shipped examples that the embedded model answered."""
    found = [load(path) for path in sorted((assets() / "examples").glob("*.macd"))]
    return [t for t in found if t.backbone.name == "toyworld" and t.model_frames is not None]


def context_of(lm: Reader, trace: Trace, gradient: str = "difference") -> MethodContext:
    """The example's frames, question and objects under another reader."""
    assert trace.model_frames is not None
    encoded = lm.encode_frames(trace.model_frames, trace.question)
    ascent = AscentOptions(gradient=gradient)  # type: ignore[arg-type]
    return MethodContext(lm, encoded, trace.tracks, RunOptions(ascent=ascent))


def compare_reads(lm: LocalLM, far: RemoteReader, traces: Sequence[Trace]) -> Figures:
    """Prompts, log-probabilities and losses of each example and of its video behind masks."""
    row_off, tail_off, loss_off, same, reads = 0.0, 0.0, 0.0, True, 0
    for trace in traces:
        one, other = context_of(lm, trace), context_of(far, trace)
        same &= one.encoded.input_ids.tolist() == other.encoded.input_ids.tolist()
        masks = one.masks(one.options.mask)
        levels = torch.full((len(masks.objects),), 0.75, dtype=torch.float64)
        groups = len(one.encoded.groups) if masks.outside is not None else 0
        behind = masks.video(levels, torch.full((groups,), 0.75, dtype=torch.float64))
        views = torch.stack([one.encoded.video, behind])
        near, held = lm.prefill(one.encoded, views), far.prefill(other.encoded, views)
        losses = (lm.question_log_p(one.encoded, near), far.question_log_p(other.encoded, held))
        loss_off = max(loss_off, float(np.abs(losses[0].mean(1) - losses[1].mean(1)).max()))
        for whole, row in zip(lm.next_rows(near), far.next_rows(held), strict=True):
            log_p = whole.values - whole.log_partition
            told = row.values - row.log_partition
            ids = np.arange(len(told)) if row.ids is None else row.ids
            off, below = np.abs(log_p[ids] - told), log_p.max() - log_p[ids]
            row_off = max(row_off, float(off[below < HEAD].max()))
            tail_off = max(tail_off, float(off[below < TAIL].max()))
            reads += 1
    return {"prompts": same, "log_p": row_off, "tail": tail_off, "loss": loss_off, "reads": reads}


def compare_signs(lm: LocalLM, far: RemoteReader, traces: Sequence[Trace]) -> Figures:
    """Slopes by reading the server, against the exact gradient here."""
    rows = []
    for trace in traces:
        exact = context_of(lm, trace, "exact")
        mask, h = exact.options.mask, exact.options.ascent.difference_step
        (own,), (read,) = (
            context_of(reader, trace, kind).ascent(mask)
            for reader, kind in ((lm, "exact"), (far, "difference"))
        )
        slopes = zip(
            [*own.gradient, *own.frame_gradient], [*read.gradient, *read.frame_gradient],
            strict=True,
        )  # fmt: skip
        rows += [(trace.clip.name, float(a), float(b), h) for a, b in slopes]
    decided = [row for row in rows if row[2] != 0]
    wrong = [row for row in decided if row[1] * row[2] <= 0]
    return {
        "strengths": len(rows),
        "decided": len(decided),
        "same_sign": len(decided) - len(wrong),
        "exceptions": [{"clip": c, "gradient": a, "difference": b} for c, a, b, _ in wrong],
    }


def compare_tokens(lm: LocalLM, far: RemoteReader, n: int) -> Figures:
    """Tokens of `METHODS_TRIED` on drawn questions with true boxes, and which are certified."""
    world, rows = ToyWorld(), []
    items = world.items("test", -(-n // len(world.regimes)))[:n]
    options = RunOptions(
        ascent=AscentOptions(gradient="difference"), decode=DecodeOptions(max_tokens=8)
    )
    seconds = {"server": 0.0, "local": 0.0}
    sent = far._way.client.sent
    for item in items:
        clip, tracks = world.clip(item.clip), world.true_tracks(item.clip)
        answers = {}
        for name, reader in (("local", lm), ("server", far)):
            began = time.perf_counter()
            context = MethodContext(reader, reader.encode(clip, item.question), tracks, options)
            answers[name] = {m: run_method(context, METHODS[m]) for m in METHODS_TRIED}
            seconds[name] += time.perf_counter() - began
        for method in METHODS_TRIED:
            one, other = answers["local"][method], answers["server"][method]
            for place, step in enumerate(other.tokens):
                if place >= len(one.tokens):
                    break
                found = certify(step, other, far.server.error)
                same = one.tokens[place].token == step.token
                rows.append((item.id, method, place, found, same))
                if not same:
                    break
    certified = [row for row in rows if row[3] == "certified"]
    kinds = {kind: sum(row[3] == kind for row in rows) for kind in sorted({r[3] for r in rows})}
    hits, clusters = [r[3] == "certified" for r in rows], [r[0] for r in rows]
    share = clustered_share(np.array(hits), clusters)
    return {
        "questions": len(items),
        "tokens": len(rows),
        "certificates": kinds,
        "certified_share": list(share),
        "certified_and_other": [r[:3] for r in certified if not r[4]],
        "other": [r[:4] for r in rows if not r[4]],
        "requests": far._way.client.sent - sent,
        "seconds": {k: round(v, 1) for k, v in seconds.items()},
    }


def check_way(checks: Checks, lm: LocalLM, name: str, exact: bool, n: int) -> Figures:
    """Everything that is compared, in one way."""
    way = "exact" if exact else "common"
    far = open_server(name, exact=exact)
    print("\n".join(f"    {line}" for line in far.server.lines()), flush=True)
    traces = examples()
    reads = compare_reads(lm, far, traces)
    checks.tell(reads["prompts"], f"{way}: prompts equal in {len(traces)} examples")
    limit = EXACT if exact else COMMON
    for what in ("log_p", "loss"):
        told = f"{way}: {what} of {reads['reads']} views within {reads[what]:.1e} of local ones"
        checks.tell(reads[what] <= limit[what], told)
    signs = compare_signs(lm, far, traces)
    share = signs["same_sign"] / max(1, signs["decided"])
    checks.tell(
        share >= SIGNS[way],
        f"{way}: {signs['same_sign']} of {signs['decided']} decided signs are the exact"
        f" gradient's; {signs['strengths'] - signs['decided']} of {signs['strengths']} undecided",
    )
    tokens = compare_tokens(lm, far, n)
    checks.tell(
        not tokens["certified_and_other"],
        f"{way}: {tokens['certificates'].get('certified', 0)} of {tokens['tokens']} tokens of"
        f" {tokens['questions']} questions certified, and each is the local run's",
    )
    print(f"    {tokens['seconds']} s, {tokens['requests']} requests", flush=True)
    server = replace(far.server, lacking=(), model=far.server.model.removeprefix(f"{ROOT}/"))
    return {"server": server.__dict__, "reads": reads, "signs": signs,
            "tokens": tokens}  # fmt: skip


def check_methods(checks: Checks, far: RemoteReader) -> Figures:
    """Every method: it answers, or says why it does not."""
    context = context_of(far, examples()[0])
    skipped, answered = {}, []
    for method in METHODS.values():
        try:
            context.need(*method.needs)
            run_method(context, method)
            answered.append(method.name)
        except NotApplicable as error:
            skipped[method.name] = str(error)
    wanted = {"baseline", "macd", "macd-measured", "random-place", "mask-all", "blank", "vcd"}
    checks.tell(wanted <= set(answered), f"{len(answered)} methods answer")
    checks.tell({"sid", "tcd"} <= set(skipped), f"{len(skipped)} say why they cannot")
    return {"answered": answered, "skipped": skipped}


def main(words: Sequence[str] | None = None) -> int:
    """The checks that the arguments choose."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a server that runs already: vllm:http://HOST:PORT")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--way", choices=("exact", "common"), help="one of the two ways alone")
    parser.add_argument("--record", action="store_true", help="write the answers for the tests")
    args = parser.parse_args(words)
    if not args.url and not VLLM.is_file():
        print("there is no vLLM here; make vllm installs it", file=sys.stderr)
        return 2
    if args.url:
        return _check(args, args.url)
    log = Path(tempfile.gettempdir()) / "macd-vllm.log"
    with served(shipped("backbone"), log=log) as name:
        return _check(args, name)


def _check(args: argparse.Namespace, name: str) -> int:
    if args.record:
        print(f"recorded {record(name)} answers")
        return 0
    checks, lm = Checks(), load_backbone("toyworld", "cpu")
    figures: Figures = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    figures |= {"machine": platform.machine(), "cores": os.cpu_count()}
    figures["methods"] = check_methods(checks, open_server(name))
    for way in (args.way,) if args.way else ("exact", "common"):
        figures[way] = check_way(checks, lm, name, way == "exact", args.questions)
        told = json.dumps(figures, indent=1, default=float) + "\n"
        RESULTS.write_text(told, encoding="utf-8")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
