"""What `make vllm-check` measured, as the section of docs/bench.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Figures = dict[str, Any]
INTRODUCTION = (
    "`make vllm-check`: vLLM on a CPU beside the same weights in this process. Drawn questions,"
    " seed 2, answered by baseline, MACD with slopes by differences, VCD and with every object"
    " masked, greedy, at most 8 tokens. The models other than the embedded one are tiny, of random"
    " weights. Certified tokens: [remote.md](remote.md#measured); all figures:"
    " [bench/results/vllm.json](../bench/results/vllm.json)."
)
OFF = (
    "log p: the largest difference of log-probabilities within 3 nats of the best, nats, for the"
    " same pixels (in the common way the frames are rounded to 8 bits here, too), and against"
    " unrounded frames. Same sign: of the slopes that are decided, those with the sign of the exact"
    " gradient. Time: each question was answered here, then by the server."
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
        "| model | way | log p | unrounded | slopes decided | same sign | requests a question |"
        " time, server over here |",
        "|---|---|---|---|---|---|---|---|",
    )
    lines += [INTRODUCTION, "", OFF, "", *heads, *(_row(*row) for row in rows), ""]
    return [*lines, *_at_once(rows), f"Measured: {'; '.join(_places(figures))}."]


def _places(figures: Figures) -> Iterator[str]:
    """Where and when, of the models together that were measured there."""
    places: dict[str, list[str]] = {}
    for name, model in figures["models"].items():
        at = model["machine"]
        where = f"{at['cores']} cores of an {at['processor']}, {at['date']}"
        places.setdefault(where, []).append(name)
    return (f"{', '.join(names)} on {where}" for where, names in places.items())


def _row(name: str, way: str, found: Figures) -> str:
    reads, signs, tokens = found["reads"], found["signs"], found["tokens"]
    equal = reads if way == "exact" else reads.get("rounded", {})
    same = f"{equal['log_p']:.1e}" if "log_p" in equal else UNKNOWN
    unrounded = "–" if way == "exact" else f"{reads['log_p']:.1e}"
    timed = tokens["timed"]
    return (
        f"| {name} | {way} | {same} | {unrounded} | {signs['decided']} of {signs['strengths']} |"
        f" {signs['same_sign']} | {tokens['requests'] / tokens['questions']:.0f} |"
        f" {timed['server'] / timed['local']:.1f}× |"
    )


def _at_once(rows: Sequence[tuple[str, str, Figures]]) -> Iterator[str]:
    """What a question took where several were asked together, of the models that were."""
    told = []
    for name, way, found in rows:
        timed, together = found["tokens"]["timed"], found["tokens"]["together"]
        if together["questions"]:
            alone = timed["server"] / timed["questions"]
            seconds = together["seconds"] / together["questions"]
            told.append(
                f"{name}, {way}: {seconds:.2f} s instead of {alone:.2f} s"
                f" ({together['questions']} questions, {together['at_once']} at once)"
            )
    if told:
        yield f"A question on the server, several at once: {'; '.join(told)}."
        yield ""
