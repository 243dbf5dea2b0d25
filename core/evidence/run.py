"""A trace and its model → the trace with a token's evidence in it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from macd_studio.core.backbones.base import Encoded
from macd_studio.core.backbones.local import LocalLM
from macd_studio.core.errors import (
    HALF_OR_DAMAGED,
    NotApplicable,
    NumericalError,
    OptionError,
)
from macd_studio.core.evidence.case import EvidenceCase
from macd_studio.core.evidence.curves import measure_curves
from macd_studio.core.evidence.kinds import (
    Measured,
    find_kind,
    group_shares,
    rank_correlation,
    shares,
)
from macd_studio.core.evidence.layers import Blocked, answered, knock_out, read_layers_out
from macd_studio.core.evidence.options import (
    DEFAULT_KINDS,
    NO_MAP,
    EvidenceOptions,
    read_layers,
)
from macd_studio.core.measurements import (
    MAX_CURVES,
    MAX_EVIDENCE,
    MAX_KNOCK_OUTS,
    VIEWS,
    Agreement,
    Curves,
    Evidence,
    EvidenceMap,
    KnockOut,
    Target,
)
from macd_studio.core.records import CAPABILITIES
from macd_studio.core.run.state import Event
from macd_studio.core.types import Trace
from macd_studio.core.validation import shown
from macd_studio.core.whatif.workbench import Workbench


def evidence_events(
    bench: Workbench,
    options: EvidenceOptions,
    join: bool = False,
    stopped: Callable[[], bool] = lambda: False,
) -> Generator[Event, None, None]:
    """What is being measured, event by event; the last one holds the bench's new trace.

    join: what was measured of the token before stays beside it, as always where no map is measured.
    stopped: asked between small pieces of work. Raises Cancelled; OptionError for a token,
    candidate, object or layer that is not there, and where the trace holds too much already.
    """
    trace = bench.trace
    options.check_of(trace)
    case = open_case(bench, options, stopped)
    joined = join or not options.maps
    previous = next((e for e in trace.evidence if e.target == case.target and joined), None)
    others = tuple(e for e in trace.evidence if e.target != case.target)
    if not options.chosen_kinds and previous is None:
        raise OptionError(*NO_MAP)
    if len(others) >= MAX_EVIDENCE:
        raise OptionError(
            f"the trace holds the evidence of {MAX_EVIDENCE} tokens already",
            "Save it, and start from the trace without them",
        )
    steps, done = measure_steps(case), 0
    blocked = len(options.track_ids()) + len(options.regions())
    whole = len(options.chosen_kinds) * len(case.views) + blocked + options.lens + options.curves
    while True:
        try:
            message = next(steps)
        except StopIteration as end:
            measured: Evidence = end.value
            break
        yield Event("views", done / max(1, whole), message, trace)
        done += 1
    evidence = join_evidence(previous, measured) if previous is not None else measured
    bench.trace = replace(trace, evidence=(*others, evidence))
    yield Event("done", 1.0, "complete", bench.trace)


def join_evidence(previous: Evidence, newer: Evidence) -> Evidence:
    """What was measured of one token at two times; the newer where both hold the same."""
    again = {(m.kind, m.view) for m in newer.maps}
    maps = (*(m for m in previous.maps if (m.kind, m.view) not in again), *newer.maps)
    blocked = {(k.track, k.box, k.layers) for k in newer.knock_outs}
    previous_knock_outs = (
        k for k in previous.knock_outs if (k.track, k.box, k.layers) not in blocked
    )
    attended = any(m.kind == "attention" for m in newer.maps)
    return replace(
        newer,
        layers=newer.layers if attended else previous.layers,
        maps=maps,
        agreement=agreements(maps),
        knock_outs=(*previous_knock_outs, *newer.knock_outs)[-MAX_KNOCK_OUTS:],
        lens=newer.lens or previous.lens,
        curves=_joined_curves(previous.curves, newer.curves),
    )


def _joined_curves(previous: Curves | None, newer: Curves | None) -> Curves | None:
    """Curves of kinds that were not measured again stay beside the newer ones."""
    if previous is None or newer is None or previous.shares != newer.shares:
        return newer or previous
    again = {one.kind for one in newer.curves}
    others = tuple(one for one in previous.curves if one.kind not in again)
    return replace(newer, curves=(*others, *newer.curves)[-MAX_CURVES:])


def agreements(maps: Sequence[EvidenceMap]) -> tuple[Agreement, ...]:
    """Of each pair of kinds under one view."""
    return tuple(
        Agreement(a.view, a.kind, b.kind, rank_correlation(a.values, b.values))
        for a, b in combinations(maps, 2)
        if a.view == b.view
    )


def open_case(
    bench: Workbench, options: EvidenceOptions, stopped: Callable[[], bool] = lambda: False
) -> EvidenceCase:
    """What is to be measured, checked against the trace and its model."""
    bench.lm.need("maps")
    trace, lm, context = bench.trace, bench.context.local, bench.context
    options = _possible(options, lm, context.encoded)
    options = replace(options, answer=options.answer_of(trace))
    target, prefix = _target(trace, lm, options)
    levels = trace.counterfactual
    assert levels is not None
    masks = context.masks(context.options.mask)
    counter = context.composite(masks, levels.level, levels.frame_level)
    views = dict(zip(VIEWS, (context.encoded.video, counter), strict=True))
    layers = read_layers(options.layers, lm.depth)
    if "attention" in options.chosen_kinds:
        layers = _readable(layers, lm, bool(options.layers))
    read_layers(options.knock_out_layers, lm.depth)
    bench.check_weights()
    return EvidenceCase(context, target, prefix, views, options, layers, stopped)


def _possible(options: EvidenceOptions, lm: LocalLM, encoded: Encoded) -> EvidenceOptions:
    """The options without what is measured by default and the model cannot give of this clip.

    Raises NotApplicable for a kind or a knock-out that was asked for and cannot be had.
    """
    by_default = options.kinds in ((), DEFAULT_KINDS)
    needed = {kind: find_kind(kind).needs for kind in options.chosen_kinds}
    if not by_default:
        for kind in set(options.kinds) & set(needed):
            if needed[kind]:
                lm.need(needed[kind])
    if (options.knock_out or options.boxes) and "knock-out" not in lm.capabilities:
        raise NotApplicable(
            f"nothing can be knocked out in {lm.info.name}: {CAPABILITIES['knock-out']}",
            "Leave the knock-out away, or choose another backbone",
        )
    kinds = [k for k in options.chosen_kinds if needed[k] in {"", *lm.capabilities}]
    if by_default and "attention" in kinds and not _has_places(lm, encoded):
        kinds.remove("attention")
    return replace(
        options,
        kinds=tuple(kinds) if options.maps else options.kinds,
        maps=options.maps and bool(kinds),
        lens=options.lens and "lens" in lm.capabilities,
    )


def _has_places(lm: LocalLM, encoded: Encoded) -> bool:
    """Whether it is known where the vision tokens stand in the frames."""
    try:
        lm.placed(encoded)
    except NotApplicable:
        return False
    return True


def _readable(layers: tuple[int, ...], lm: LocalLM, named: bool) -> tuple[int, ...]:
    """Those whose attention can be read. Raises NotApplicable for another that was named."""
    able = lm.attention_layers
    if named and (lacking := sorted(set(layers) - set(able))):
        raise NotApplicable(
            f"layer {lacking[0] + 1} of {lm.info.name} has no attention that can be read",
            f"Choose of {', '.join(str(n + 1) for n in able)}",
        )
    return tuple(n for n in layers if n in able)


def _target(trace: Trace, lm: LocalLM, options: EvidenceOptions) -> tuple[Target, list[int]]:
    """The token, and the answer's tokens before it."""
    steps = trace.answers[options.answer].tokens
    step = steps[options.token - 1]
    against = _candidate(step.texts, step.candidates.tolist(), lm, options.against)
    if against == step.token:
        raise OptionError(
            f"{shown(options.against)} is the token itself", "Choose another candidate"
        )
    target = Target(
        answer=options.answer,
        index=step.index,
        token=step.token,
        text=step.text,
        against=against,
        against_text=None if against is None else lm.token_text(against),
    )
    return target, [s.token for s in steps[: options.token - 1]]


def _candidate(
    texts: Sequence[str], candidates: Sequence[int], lm: LocalLM, rival: str
) -> int | None:
    """The candidate of that text, else the one token the text is, if the model knows it."""
    if not rival:
        return None
    for clean in (str, str.strip):
        for text, token in zip(texts, candidates, strict=True):
            if clean(text) == clean(rival):
                return token
    tokens = lm.tokens(rival)
    such = f"Choose one, such as {', '.join(shown(t) for t in texts[:5])}"
    if len(tokens) != 1:
        raise OptionError(f"{shown(rival)} is {len(tokens)} tokens and no candidate", such)
    if _plain(lm.token_text(tokens[0])) != _plain(rival):
        raise OptionError(f"{shown(rival)} is no word of this model and no candidate", such)
    return tokens[0]


def _plain(text: str) -> str:
    """A word without what tokenizers may take away: blanks, case and the form of its signs."""
    return unicodedata.normalize("NFKC", text).strip().casefold()


def measure_steps(case: EvidenceCase) -> Generator[str, None, Evidence]:
    """What is measured next, in words, before each piece of it; returns the whole."""
    maps: list[EvidenceMap] = []
    for kind in case.options.chosen_kinds:
        for view in case.views:
            case.raise_if_stopped()
            yield f"Evidence by {kind}, given the {view}"
            maps.append(_map(case, kind, view, find_kind(kind).measure(case, view)))
    knock_outs: list[KnockOut] = []
    blocked, before = _blocked(case), None
    for one in blocked:
        case.raise_if_stopped()
        name = "a region" if one.track is None else f"object {one.track}"
        yield f"The answer without {name}"
        before = before or answered(case)
        knock_outs.append(knock_out(case, one, before))
    lens = None
    if case.options.lens:
        yield "The token after each layer"
        lens = read_layers_out(case)
    curves = None
    if case.options.curves and maps:
        yield "Insertion and deletion by each map"
        curves = measure_curves(case, {m.kind: m.values for m in maps if m.view == VIEWS[0]})
    return Evidence(
        target=case.target,
        score=(case.score("video"), case.score("counterfactual")),
        layers=case.layers,
        maps=tuple(maps),
        agreement=agreements(maps),
        knock_outs=tuple(knock_outs),
        lens=lens,
        curves=curves,
    )


def _map(case: EvidenceCase, kind: str, view: str, measured: Measured) -> EvidenceMap:
    if not np.isfinite(measured.values).all():
        raise NumericalError(f"the {kind} map is not finite", HALF_OR_DAMAGED)
    objects, outside = shares(measured.values, case.coverage)
    parts = measured.values if measured.parts is None else measured.parts
    return EvidenceMap(
        kind=kind,
        view=view,
        values=measured.values.astype(np.float32),
        objects=objects,
        outside=outside,
        groups=group_shares(measured.values, case.encoded.groups),
        sanity=None if measured.random is None else rank_correlation(parts, measured.random),
    )


def _blocked(case: EvidenceCase) -> list[Blocked]:
    options = case.options
    layers = read_layers(options.knock_out_layers, case.lm.depth)
    ids = [t.id for t in case.context.tracks]
    objects = [
        Blocked(track, None, case.tokens_in(case.coverage[ids.index(track)]), layers)
        for track in options.track_ids()
    ]
    regions = [
        Blocked(None, box, case.tokens_in(case.region(box)), layers) for box in options.regions()
    ]
    return objects + regions
