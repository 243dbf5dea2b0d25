"""Holds a real vLLM server on the CPU against the same weights in this process.

`make vllm-check`: the embedded model, then tiny models of random weights of further families, a
server each. Lines that begin with `ok` or `FAILED` are the checks; figures go into
bench/results/vllm.json, which `python -m bench.report` shows. `--record` writes the answers that
`tests/core/test_remote_wire.py` plays again. Exit codes: 0 every check passed, 1 one did not,
2 there is no vLLM here.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from bench.__main__ import VLLM as RESULTS
from bench.__main__ import machine, write
from bench.recorded import record
from bench.server import ROOT
from bench.vllm import ALL, VLLM, served
from bench.vllm_compare import (
    Case,
    Checks,
    Figures,
    Local,
    check_reads,
    check_signs,
    check_tokens,
    compare_reads,
    compare_signs,
    compare_tokens,
    drawn_questions,
    examples,
)
from bench.vllm_models import FAMILIES, UNBIASED, write_model
from macd_studio.core.backbones import load_backbone
from macd_studio.core.backbones.remote.reader import RemoteReader, open_server
from macd_studio.core.decoding.certificate import errors_of
from macd_studio.core.errors import NotApplicable
from macd_studio.core.methods import METHODS
from macd_studio.core.options import AscentOptions, RunOptions
from macd_studio.core.run.order import run_method
from macd_studio.core.system.shipped import shipped

EMBEDDED = "embedded"
QUESTIONS, OF_A_FAMILY = 200, 12
"""Questions about drawn clips: of the embedded model, and of each other family at most."""
READ, SLOPED = 6, 3
"""Clips of these whose views are read, and whose slopes are taken, under a family's model."""
CHAT_ONLY = ("qwen3_vl",)
"""Families that vLLM 0.32 can be asked about by chat alone."""
AS_IS = "--no-mm-device-do-normalize"
"""By which a server takes normalised pixels as they are."""


def check_way(checks: Checks, name: str, far: RemoteReader, local: Local, cases: Sequence[Case],
              asked: Sequence[Case], sloped: Sequence[Case]) -> Figures:  # fmt: skip
    """Everything that is compared, in one way. cases: read; asked: answered by every method."""
    way = "exact" if far.server.exact else "common"
    print("\n".join(f"    {line}" for line in far.server.lines()), flush=True)
    reads = compare_reads(local.lm, far, cases)
    errors = errors_of(far.server.error, far.server.video_error)
    assert errors is not None
    check_reads(checks, name, reads, errors)
    signs = compare_signs(local.lm, far, sloped)
    check_signs(checks, name, way, signs)
    tokens = compare_tokens(local, far, asked)
    check_tokens(checks, name, tokens)
    server = replace(far.server, url="", lacking=(), model=Path(far.server.model).name)
    return {"server": server.__dict__, "reads": reads, "signs": signs, "tokens": tokens}


def check_methods(checks: Checks, far: RemoteReader) -> Figures:
    """Every method: it answers, or says why it does not."""
    options = RunOptions(ascent=AscentOptions(gradient="difference"))
    context = examples()[0].under(far, options)
    skipped, answered = {}, []
    for method in METHODS.values():
        try:
            context.need(*method.needs)
            run_method(context, method)
            answered.append(method.name)
        except NotApplicable as error:
            skipped[method.name] = str(error).replace(far.info.name, "a server")
    wanted = {"baseline", "macd", "macd-measured", "random-place", "mask-all", "blank", "vcd"}
    checks.tell(wanted <= set(answered), f"{len(answered)} methods answer")
    checks.tell({"sid", "tcd"} <= set(skipped), f"{len(skipped)} say why they cannot")
    return {"answered": answered, "skipped": skipped}


def check_model(checks: Checks, local: Local, family: str, name: str, ways: Sequence[str],
                questions: int, as_is: bool = False) -> Figures:  # fmt: skip
    """A model in the ways that vLLM can be asked about it; of the embedded one its examples too.

    as_is: whether the server takes normalised pixels as they are, in the exact way.
    """
    if family == EMBEDDED:
        found: Figures = {"methods": check_methods(checks, open_server(name))}
        asked, shown = drawn_questions(questions), examples()
        sloped = shown
    else:
        found, asked = Figures(), drawn_questions(min(questions, OF_A_FAMILY))
        shown, sloped = asked[:READ], asked[:SLOPED]
    for way in ways:
        if way == "exact" and family in CHAT_ONLY:
            continue
        far = open_server(name, exact=way == "exact")
        checks.tell(far.server.exact == (way == "exact"), f"{family}: the {way} way is taken")
        title, amplified = f"{family}, {way}", bool(far.server.amplified)
        if family == UNBIASED:
            told = f"{title}: {'told' if amplified else 'not told'} that full masks are amplified"
            checks.tell(amplified != as_is, told)
        found[way] = check_way(checks, title, far, local, shown, asked, sloped)
    return found


def main(words: Sequence[str] | None = None) -> int:
    """The checks that the arguments choose."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a server of the embedded model that runs already")
    parser.add_argument("--questions", type=int, default=QUESTIONS)
    parser.add_argument("--way", choices=("exact", "common"), help="one of the two ways alone")
    parser.add_argument(
        "--family", action="append", choices=(EMBEDDED, *FAMILIES), help="these models alone"
    )
    parser.add_argument("--as-is", action="store_true", help=f"tiny models, exactly, by {AS_IS}")
    parser.add_argument("--record", action="store_true", help="write the answers for the tests")
    args = parser.parse_args(words)
    if not args.url and not VLLM.is_file():
        print("there is no vLLM here; make vllm installs it", file=sys.stderr)
        return 2
    families = [EMBEDDED] if args.url or args.record else args.family or [EMBEDDED, *FAMILIES]
    ways = (args.way,) if args.way else ("exact", "common")
    if args.as_is:
        families, ways = args.family or [UNBIASED], ("exact",)
    checks, figures = Checks(), Figures()
    with tempfile.TemporaryDirectory() as held:
        for family in families:
            found = _check(checks, args, family, Path(held), ways)
            if found is None:
                return 0
            figures[f"{family} {AS_IS}" if args.as_is else family] = found
    _write(figures, args)
    return 1 if checks.failed else 0


def _check(checks: Checks, args: argparse.Namespace, family: str, held: Path,
           ways: Sequence[str]) -> Figures | None:  # fmt: skip
    """A family's figures from a server of its own; None where answers were recorded only."""
    if args.url:
        local = Local(load_backbone("toyworld", "cpu"))
        return check_model(checks, local, EMBEDDED, args.url, ways, args.questions)
    log = Path(tempfile.gettempdir()) / "macd-vllm.log"
    folder = shipped("backbone") if family == EMBEDDED else write_model(family, held / family)
    local = Local(load_backbone("toyworld" if family == EMBEDDED else str(folder), "cpu"))
    began = time.monotonic()
    with served(folder, (*ALL, AS_IS) if args.as_is else ALL, log) as name:
        print(f"    {family}: vLLM started in {time.monotonic() - began:.0f} s", flush=True)
        if args.record:
            print(f"recorded {record(name)} answers")
            return None
        return check_model(checks, local, family, name, ways, args.questions, args.as_is)


def _write(figures: Figures, args: argparse.Namespace) -> None:
    """Replaces the figures that were measured now, only by a run with all questions."""
    if args.questions < QUESTIONS:
        print(f"{RESULTS.relative_to(ROOT)} is left as it was: too few questions were asked")
        return
    known: Figures = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    models = known.get("models", {})
    for family, found in figures.items():
        kernels = {"kernels": torch.backends.cpu.get_cpu_capability()}
        models[family] = models.get(family, {}) | found | {"machine": machine() | kernels}
    write(RESULTS, {"models": models})
    print(
        f"{RESULTS.relative_to(ROOT)} is written; python -m bench.report shows it in docs/bench.md"
    )


if __name__ == "__main__":
    sys.exit(main())
