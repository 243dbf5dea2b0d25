"""What is enough for a token: what the model says given some pieces of the video alone.

A piece is one object, one region or the background in a run of frame groups. Together the pieces
are the video: over every pixel their weights, the soft masks of the run, add up to 1. What is not
shown is blended with the run's fill by its weight, so that showing all pieces is the video, bit for
bit, and showing none is the fill.

The answer is the model's own to the video alone, chosen greedily. It stays where every token of it
is still the first choice after those before it, which one pass over the answer tells.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.host import to_host
from macd_studio.core.decoding.answers import decode
from macd_studio.core.decoding.steps import answer
from macd_studio.core.decoding.views import adjust_logits
from macd_studio.core.errors import Cancelled, OptionError
from macd_studio.core.evidence.case import inside_of
from macd_studio.core.evidence.kinds import batch_size
from macd_studio.core.evidence.options import Box, EnoughOptions
from macd_studio.core.evidence.search import EXHAUSTED, Best, Bounds, Scored, smallest_sets
from macd_studio.core.measurements import (
    BACKGROUND,
    MAX_ASKED,
    MAX_ENOUGH,
    MAX_PIECES,
    Enough,
    Given,
    Piece,
    Smallest,
    Target,
)
from macd_studio.core.repeats import Repeats, penalised, repeats_of
from macd_studio.core.rules import Plain
from macd_studio.core.run.state import Event
from macd_studio.core.token_logits import NextTokenLogits, log_partition
from macd_studio.core.types import Trace
from macd_studio.core.views.context import MethodContext
from macd_studio.core.whatif.workbench import Workbench

VISIBLE = 0.02
"""Weight that a piece must reach somewhere: soft masks have no edge."""


def enough_events(
    bench: Workbench, options: EnoughOptions, stopped: Callable[[], bool] = lambda: False
) -> Generator[Event, None, None]:
    """What is known after each batch of views, in the trace; the last event is the bench's new one.

    What was found of the same token before is replaced; sets that were asked for stay beside a
    later one of the same pieces. stopped: asked between batches. Raises OptionError for a token or
    a piece that is not there, where the answer was not chosen greedily, and where the trace holds
    too much; Cancelled.
    """
    trace = bench.trace
    options.check_of(trace)
    target, tokens = _target(trace, options)
    others = tuple(e for e in trace.enough if (e.target, e.same) != (target, options.same))
    if len(others) >= MAX_ENOUGH:
        raise OptionError(
            f"the trace holds what is enough for {MAX_ENOUGH} tokens already",
            "Save it, and start from the trace without them",
        )
    bench.check_weights()
    reader = PieceReader(bench.context, options, target, tokens, stopped)
    asked = tuple(reader.chosen(options.kept())) if options.keep else None
    everything = reader.given((1 << len(reader.pieces)) - 1)
    if not everything.same:
        raise OptionError(
            f"given the video, the model's first choice is not {target.text!r}",
            "Choose a token of an answer that was decoded greedily",
        )
    previous = next((e for e in trace.enough if (e.target, e.same) == (target, options.same)), None)
    if previous is not None and not _continues(previous, reader, options):
        previous = None
    found = Enough(
        target=target,
        same=options.same,
        margin=options.margin,
        fill=bench.options.mask.fill,
        pieces=reader.pieces,
        whole=everything,
        nothing=reader.given(0),
        keep=previous.keep if previous else None,
        remove=previous.remove if previous else None,
        asked=previous.asked if previous else (),
        views=previous.views if previous else 0,
        budget=previous.budget if previous else 0,
    )
    if asked is not None:
        given = reader.given(sum(1 << i for i in asked))
        before = (g for g in found.asked if g.shown != given.shown)
        found = replace(found, asked=(*before, given)[-MAX_ASKED:])
    if options.search:
        most = min(options.budget, 1 << len(reader.pieces))
        for bounds in reader.search():
            found = replace(
                found,
                keep=reader.smallest(bounds.keep),
                remove=reader.smallest(bounds.remove, removed=True),
                views=bounds.read,
                budget=options.budget,
            )
            shown = replace(trace, enough=(*others, found))
            yield Event("views", bounds.read / most, progress(bounds, len(found.pieces)), shown)
    bench.trace = replace(trace, enough=(*others, found))
    yield Event("done", 1.0, "complete", bench.trace)


def progress(bounds: Bounds, pieces: int) -> str:
    """How far a search is, in words."""

    def size(best: Best) -> str:
        if best.chosen is not None:
            return f"{best.size}" if best.certified(pieces) else f"{best.lower} to {best.size}"
        return "no set" if best.certified(pieces) else f"{best.lower} or more"

    return f"{bounds.read} views read: keep {size(bounds.keep)}, remove {size(bounds.remove)}"


def _continues(previous: Enough, reader: PieceReader, options: EnoughOptions) -> bool:
    """Whether what was found before still holds, pieces and fill being the same."""
    same = previous.pieces == reader.pieces
    same = same and previous.fill == reader.context.options.mask.fill
    return same and (previous.margin == options.margin or previous.keep is None)


def _target(trace: Trace, options: EnoughOptions) -> tuple[Target, list[int]]:
    """The token, and what is read: the whole answer, or what leads to the token."""
    steps = trace.answers["baseline"].tokens
    step = steps[options.token - 1]
    target = Target("baseline", step.index, step.token, step.text)
    last = len(steps) if options.same == "answer" else options.token
    return target, [s.token for s in steps[:last]]


class PieceReader:
    """The pieces of a clip, and what the model says given some of them.

    A set of pieces is a whole number whose bit i says whether piece i is shown. What was read is
    kept. tokens: of the answer, as far as they must stay. pieces: see `cut_in_pieces`.
    """

    def __init__(
        self,
        context: MethodContext,
        options: EnoughOptions,
        target: Target,
        tokens: Sequence[int],
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.context, self.options, self._stopped = context, options, stopped
        self.target, self.tokens = target, list(tokens)
        self.masks = context.masks(context.options.mask)
        self.pieces, weights = cut_in_pieces(context, options.spans, options.regions())
        regions = list(dict.fromkeys((p.track, p.box) for p in self.pieces))
        self._weights = [weights[regions.index((p.track, p.box))] for p in self.pieces]
        self._scored: dict[int, Scored] = {}
        self._given: dict[int, Given] = {}

    @torch.no_grad()
    def video(self, shown: int) -> Tensor:
        """The video (T, 3, H, W) with all pieces hidden but those of the set."""
        groups = self.context.encoded.groups
        hidden = torch.zeros_like(self._weights[0])
        for i, (piece, weight) in enumerate(zip(self.pieces, self._weights, strict=True)):
            if not shown >> i & 1:  # one after the other, so that equal frames are equal bits
                frames = frames_of(piece, groups)
                hidden[frames] += weight[frames]
        if not hidden.any():
            return self.context.encoded.video
        return self.masks.composite(hidden.clamp(0, 1))

    @torch.no_grad()
    def read(self, sets: Sequence[int]) -> list[Scored]:
        """Scores sets; those that are new are read in batches."""
        new = [s for s in dict.fromkeys(sets) if s not in self._scored]
        for at in range(0, len(new), self.together):
            if self._stopped():
                raise Cancelled("stopped while sets were read", "What was there before is kept")
            batch = new[at : at + self.together]
            self._scored.update(zip(batch, self._read(batch), strict=True))
        return [self._scored[s] for s in sets]

    @property
    def together(self) -> int:
        """Views in a batch."""
        return batch_size(self.context.encoded.vision_tokens)

    def _read(self, sets: Sequence[int]) -> list[Scored]:
        """One pass over the prompt and the answer: what predicts each of its tokens."""
        lm, base = self.context.lm, self.context.base
        videos = torch.stack([self.video(s) for s in sets])
        read = lm.forced(self.context.encoded, videos, self.tokens, base)
        same, leads = [True] * len(sets), [(0.0, 0.0)] * len(sets)
        for n, token in enumerate(self.tokens):
            before = (*lm.prompt_of(base), *self.tokens[:n])
            for i, row in enumerate(read.rows(n, ())):
                row = adjust_logits(row, n, self.tokens[:n], lm, self.context.options.decode)
                first, *lead = _lead(
                    row, token, repeats_of(lm.info.repetition_penalty, row, before)
                )
                if n == self.target.index:
                    leads[i] = (lead[0], lead[1])
                if self.options.same == "answer" or n == self.target.index:
                    same[i] = same[i] and bool(first)
        return [Scored(s, *lead) for s, lead in zip(same, leads, strict=True)]

    def search(self) -> Generator[Bounds, None, None]:
        """What is known of the smallest sets, after each batch."""
        options = self.options
        yield from smallest_sets(
            len(self.pieces), self.read, options.margin, options.budget, self.together
        )

    def given(self, shown: int) -> Given:
        """What the model says given the set, as the trace holds it."""
        if shown not in self._given:
            (scored,) = self.read([shown])
            lm, context = self.context.lm, self.context
            greedy = replace(context.options.decode, search="greedy")
            state = context.prefill(self.video(shown))
            steps = list(decode(lm, state, [], Plain(), greedy))
            self._given[shown] = Given(
                shown=_indices(shown, len(self.pieces)),
                answer=answer(lm, "baseline", steps, Plain()).text,
                same=scored.same,
                probability=scored.probability,
                margin=scored.margin,
            )
        return self._given[shown]

    def smallest(self, best: Best, removed: bool = False) -> Smallest:
        """What a search knows, as the trace holds it."""
        if best.chosen is None:
            return Smallest(None, best.lower, 0, None)
        n = len(self.pieces)
        shown = best.chosen ^ ((1 << n) - 1) if removed else best.chosen
        return Smallest(_indices(best.chosen, n), best.lower, best.alike, self.given(shown))

    def chosen(self, kept: Sequence[tuple[str, tuple[int, int] | None]]) -> list[int]:
        """Indices of the pieces that were named. Raises OptionError for one that is not there."""
        groups, chosen = self.context.encoded.groups, set[int]()
        for name, frames in kept:
            of_name = {
                i: set(frames_of(p, groups))
                for i, p in enumerate(self.pieces)
                if self._name(p) == name
            }
            every = set[int]().union(*of_name.values())
            wanted = every & set(range(frames[0], frames[1] + 1)) if frames else every
            matching = [i for i, those in of_name.items() if those <= wanted]
            if not matching or wanted != set[int]().union(*(of_name[i] for i in matching)):
                of = "" if frames is None else f" of frames {frames[0] + 1} to {frames[1] + 1}"
                runs = ", or cut the frames into other runs" if of_name else ""
                raise OptionError(
                    f"there is no piece {name}{of}",
                    f"Choose among {', '.join(map(self._full_name, self.pieces))}{runs}",
                )
            chosen |= set(matching)
        return sorted(chosen)

    def _name(self, piece: Piece) -> str:
        if piece.track is not None:
            return str(piece.track)
        if piece.box is None:
            return BACKGROUND
        return f"box{self.options.regions().index(piece.box) + 1}"

    def _full_name(self, piece: Piece) -> str:
        frames = frames_of(piece, self.context.encoded.groups)
        return f"{self._name(piece)}:{frames[0] + 1}-{frames[-1] + 1}"


def cut_in_pieces(
    context: MethodContext, spans: int, boxes: Sequence[Box]
) -> tuple[tuple[Piece, ...], Tensor]:
    """The pieces of a clip, and the weight of each region (R, T, H, W) in their order.

    Objects come first, then boxes, then the background, each in its runs of frame groups; what is
    never visible in a run is no piece. spans: how many runs of about equal length; 0 for as many as
    leave no more than `EXHAUSTED` pieces. Raises OptionError for more pieces than a trace holds.
    """
    groups = context.encoded.groups
    weights = region_weights(context, boxes)
    seen = np.stack([(to_host(weights[:, list(g)].amax((1, 2, 3))) >= VISIBLE) for g in groups], 1)
    tries = [spans] if spans else range(len(groups), 0, -1)
    for count in tries:
        runs = np.array_split(np.arange(len(groups)), min(count, len(groups)))
        pieces = [
            (region, (int(run[0]), int(run[-1])))
            for region in range(len(weights))
            for run in runs
            if seen[region, run].any()
        ]
        if len(pieces) <= EXHAUSTED:
            break
    if len(pieces) > MAX_PIECES:
        raise OptionError(
            f"{len(pieces)} pieces are more than {MAX_PIECES}",
            "Cut the frames into fewer runs, or drop objects",
        )
    names = [*((t.id, None) for t in context.tracks), *((None, b) for b in boxes), (None, None)]
    made = tuple(Piece(*names[region], run) for region, run in pieces)
    used = sorted({region for region, _ in pieces})
    return made, weights[used]


def region_weights(context: MethodContext, boxes: Sequence[Box]) -> Tensor:
    """(K + boxes + 1, T, H, W) of objects, boxes and background, [0, 1], which add up to 1.

    Objects that overlap share a pixel by their masks; a box has what no object in it has.
    """
    masks = context.masks(context.options.mask)
    frames = context.encoded.frames
    shape = (len(context.encoded.video), *frames.size)
    objects = masks.objects / masks.objects.sum(0).clamp_min(1)
    objects = torch.where(objects.amax((2, 3), keepdim=True) < VISIBLE, 0.0, objects)
    left = (1 - objects.sum(0)).clamp(0, 1) if len(objects) else objects.new_ones(shape)
    parts = [objects]
    for box in boxes:
        part = left * torch.as_tensor(inside_of(box, frames), device=left.device)
        parts.append(part[None])
        left = left - part
    return torch.cat([*parts, left[None]])


def frames_of(piece: Piece, groups: Sequence[Sequence[int]]) -> list[int]:
    """The sampled frames of a piece, from 0."""
    first, last = piece.groups
    return [t for group in groups[first : last + 1] for t in group]


def _indices(chosen: int, pieces: int) -> tuple[int, ...]:
    return tuple(i for i in range(pieces) if chosen >> i & 1)


def _lead(row: NextTokenLogits, token: int, repeats: Repeats | None) -> tuple[bool, float, float]:
    """Whether the token is the first choice, how far its score leads the best other one, its p."""
    scores = penalised(row.values, repeats)
    place = token if row.ids is None else row.ids.tolist().index(token)
    own, others = float(scores[place]), np.delete(scores, place)
    whole = log_partition(scores) if row.ids is None else row.log_partition
    return int(scores.argmax()) == place, own - float(others.max()), float(np.exp(own - whole))
