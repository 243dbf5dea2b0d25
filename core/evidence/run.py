"""A trace and its model → the trace with a token's evidence in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from core.backbones.base import VideoLM
from core.errors import NumericalError, OptionError
from core.evidence import find_kind
from core.evidence.case import EvidenceCase, Measured
from core.evidence.knock_out import Blocked, knock_out
from core.evidence.lens import read_layers_out
from core.evidence.maps import group_shares, rank_correlation, shares
from core.evidence.options import EvidenceOptions, read_layers
from core.evidence.records import VIEWS, Agreement, Evidence, EvidenceMap, Target
from core.traces.evidence import MAX_EVIDENCE
from core.types import Trace
from core.validation import shown
from core.whatif.workbench import Workbench


def add_evidence(trace: Trace, lm: VideoLM, options: EvidenceOptions | None = None) -> Trace:
    """The trace with one token's evidence more; that of the same token and kinds is replaced.

    lm: the model that made the trace. Raises OptionError for a token, candidate, object or layer
    that is not there, and where the trace holds too much already.
    """
    options = options or EvidenceOptions()
    bench = Workbench(trace, lm)
    evidence = measure_evidence(open_case(bench, options))
    kept = tuple(e for e in trace.evidence if e.target != evidence.target)
    if len(kept) >= MAX_EVIDENCE:
        raise OptionError(
            f"the trace holds the evidence of {MAX_EVIDENCE} tokens already",
            "Save it, and start from the trace without them",
        )
    return replace(trace, evidence=(*kept, evidence))


def open_case(bench: Workbench, options: EvidenceOptions) -> EvidenceCase:
    """What is to be measured, checked against the trace and its model."""
    trace, lm, context = bench.trace, bench.lm, bench.context
    known = [t.id for t in trace.tracks]
    for track in options.track_ids():
        if track not in known:
            listed = ", ".join(f"{t.id} ({t.label})" for t in trace.tracks)
            raise OptionError(f"there is no object {track}", f"Choose of {listed or 'none'}")
    target, prefix = _target(trace, lm, options)
    found = trace.counterfactual
    assert found is not None
    masks = context.masks(context.options.mask)
    counter = context.composite(masks, found.level, found.frame_level)
    views = dict(zip(VIEWS, (context.encoded.video, counter), strict=True))
    layers = read_layers(options.layers, lm.depth)
    read_layers(options.knock_out_layers, lm.depth)
    return EvidenceCase(context, target, prefix, views, options, layers)


def _target(trace: Trace, lm: VideoLM, options: EvidenceOptions) -> tuple[Target, list[int]]:
    """The token, and the answer's tokens before it."""
    steps = trace.answers[options.answer].tokens
    if options.token > len(steps):
        raise OptionError(
            f"the {options.answer} answer has no token {options.token}",
            f"Choose from 1 to {len(steps)}" if steps else "Choose another answer",
        )
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
    texts: Sequence[str], candidates: Sequence[int], lm: VideoLM, wanted: str
) -> int | None:
    """The candidate of that text, else the one token the text is."""
    if not wanted:
        return None
    for clean in (str, str.strip):
        for text, token in zip(texts, candidates, strict=True):
            if clean(text) == clean(wanted):
                return token
    tokens = lm.tokens(wanted)
    if len(tokens) != 1:
        raise OptionError(
            f"{shown(wanted)} is {len(tokens)} tokens and no candidate",
            f"Choose one, such as {', '.join(shown(t) for t in texts[:5])}",
        )
    return tokens[0]


def measure_evidence(case: EvidenceCase) -> Evidence:
    """Everything that the case's options ask for."""
    options = case.options
    maps = tuple(
        _map(case, kind, view, find_kind(kind)(case, view))
        for kind in options.chosen_kinds
        for view in case.views
    )
    return Evidence(
        target=case.target,
        score=(case.score("video"), case.score("counterfactual")),
        layers=case.layers,
        maps=maps,
        agreement=tuple(
            Agreement(a.view, a.kind, b.kind, rank_correlation(a.values, b.values))
            for a, b in combinations(maps, 2)
            if a.view == b.view
        ),
        knock_outs=tuple(knock_out(case, one) for one in _blocked(case)),
        lens=read_layers_out(case) if options.lens else None,
    )


def _map(case: EvidenceCase, kind: str, view: str, measured: Measured) -> EvidenceMap:
    if not np.isfinite(measured.values).all():
        raise NumericalError(
            f"the {kind} map is not finite", "Load the model in float32, or choose another kind"
        )
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
