"""What `make vllm-check` measured, as the section of docs/bench.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from macd_studio.core.backbones.remote.probe import Server

Figures = dict[str, Any]
INTRODUCTION = (
    "`make vllm-check`: vLLM on a CPU beside the same weights in this process. Drawn questions,"
    " seed 2, answered by baseline, MACD with slopes by differences, VCD and with every object"
    " masked, greedy, at most 8 tokens. The models other than the embedded one are tiny, of random"
    " weights. Figures are in [bench/results/vllm.json](../bench/results/vllm.json);"
    " [remote.md](remote.md) says what they mean."
)
SECONDS = (
    "In turn: each question is answered here, then by the server; ratios of these times carry"
    " further than seconds."
)
OFF = (
    "Largest differences, nats: of log-probabilities within 3 nats of the best, and of the"
    " question's loss. The same pixels: in the common way the frames are rounded to 8 bits here,"
    " too; beside it against unrounded frames. Views: each video, and behind masks of level 0.75."
    " Plain: as many views without masks, the video and the same with frames of padding, as they"
    " are; ε_V is what certificates take the plain video's error to be, and ε that of other views."
    " Signs: of slopes that are decided, those with the sign of the exact gradient. Others: tokens"
    " that are certified and are others in a run here, under the same masks."
)
UNKNOWN = "not measured"


def server_lines(figures: Figures | None) -> list[str]:
    """The section; figures: what `bench.vllm_check` wrote, None where it did not."""
    lines = ["", "## A model that a server holds", ""]
    if figures is None:
        return [*lines, UNKNOWN]
    rows = [
        (name, way, ways[way])
        for name, ways in figures["models"].items()
        for way in ("exact", "common")
        if way in ways
    ]
    heads = (
        "| model | way | views | log p, same pixels | loss, same pixels | log p, unrounded |"
        " log p, plain | ε_V | ε | signs | undecided | certified tokens | others |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        "| model | way | requests a question | questions in turn | here, s each | server, s each |"
        " server over here | further questions at once, s each |",
        "|---|---|---|---|---|---|---|---|",
    )
    lines += [INTRODUCTION, "", OFF, "", *heads[:2], *(_off(*row) for row in rows), ""]
    lines += [SECONDS, "", *heads[2:], *(_seconds(*row) for row in rows), ""]
    return [*lines, f"Measured: {'; '.join(_places(figures))}."]


def _places(figures: Figures) -> Iterator[str]:
    """Where and when, of the models together that were measured there."""
    places: dict[str, list[str]] = {}
    for name, model in figures["models"].items():
        at = model["machine"]
        where = f"{at['cores']} cores of an {at['processor']}, {at['date']}"
        places.setdefault(where, []).append(name)
    return (f"{', '.join(names)} on {where}" for where, names in places.items())


def _off(name: str, way: str, found: Figures) -> str:
    reads, signs, tokens = found["reads"], found["signs"], found["tokens"]
    equal = reads if way == "exact" else reads.get("rounded", {})
    same = [f"{equal[k]:.1e}" if k in equal else UNKNOWN for k in ("log_p", "loss")]
    unrounded = "–" if way == "exact" else f"{reads['log_p']:.1e}"
    certified = tokens["certificates"].get("certified", 0)
    plain = f"{reads['plain']['log_p']:.1e}" if "plain" in reads else UNKNOWN
    server = Server(**found["server"])
    return (
        f"| {name} | {way} | {reads['reads']} | {' | '.join(same)} | {unrounded} |"
        f" {plain} | {server.video_error:.1e} | {server.error:.1e} |"
        f" {signs['same_sign']} of {signs['decided']} |"
        f" {signs['strengths'] - signs['decided']} of {signs['strengths']} |"
        f" {certified} of {tokens['tokens']} | {len(tokens['certified_and_other'])} |"
    )


def _seconds(name: str, way: str, found: Figures) -> str:
    tokens = found["tokens"]
    timed, together = tokens["timed"], tokens["together"]
    here, server = (timed[k] / timed["questions"] for k in ("local", "server"))
    each = f"{tokens['requests'] / tokens['questions']:.0f}"
    at_once = UNKNOWN
    if together["questions"]:
        seconds = together["seconds"] / together["questions"]
        at_once = f"{together['questions']}, {together['at_once']} at once: {seconds:.2f}"
    return (
        f"| {name} | {way} | {each} | {timed['questions']} | {here:.2f} | {server:.2f} |"
        f" {server / here:.1f}× | {at_once} |"
    )
