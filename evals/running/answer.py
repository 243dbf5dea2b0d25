"""Answers one clip's questions by every method, sharing what can be shared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from macd_studio.core.backbones.base import Handle, Reader
from macd_studio.core.decoding.answers import find_answer
from macd_studio.core.decoding.certificate import certify, errors_of
from macd_studio.core.decoding.contrast import score
from macd_studio.core.errors import MacdError, NotApplicable, RemoteError
from macd_studio.core.macd import Head, plausibility_threshold, plausible, weighted
from macd_studio.core.methods import (
    METHODS,
    Method,
    contrast_of,
    find_method,
    find_methods,
    largest_clamped,
)
from macd_studio.core.methods import with_contrast as set_contrast
from macd_studio.core.options import Objective, RunOptions
from macd_studio.core.repeats import penalised
from macd_studio.core.rules import CONSTANT_ALPHA, ScoreRule
from macd_studio.core.run.order import DecodingViews, decoding_views, finish
from macd_studio.core.text.question import word_tokens
from macd_studio.core.types import Answer, Clip, StepWeights, TokenStep, Track
from macd_studio.core.views.context import MethodContext, Partner
from macd_studio.core.views.measured import measured_changes
from macd_studio.evals.benchmarks.base import LETTERS, Item
from macd_studio.evals.running.given import given
from macd_studio.evals.running.prompting import GatheringLM, PromptedLM
from macd_studio.evals.running.rows import NOT_LOOKED, Row


def only_options(lm: Reader, step: TokenStep, options: Sequence[str]) -> TokenStep | None:
    """The first token's step with the options' tokens as its only candidates.

    An option that is not among the stored candidates is less likely than all of them, and cannot
    win. None where no option is among them.
    """
    option_tokens = {token for option in options for token in word_tokens(lm.tokens, option)}
    at = [i for i, token in enumerate(step.candidates.tolist()) if token in option_tokens]
    if not at:
        return None
    return replace(
        step,
        candidates=step.candidates[at],
        texts=tuple(step.texts[i] for i in at),
        base=step.base[at],
        others=tuple(row[at] for row in step.others),
        repeats=step.repeats and step.repeats.among(np.array(at)),
    )


def pick_option(step: TokenStep, answer: Answer) -> str:
    """The option that the answer's own rule scores highest; step: from `only_options`.

    The plausibility cut compares options with the best option, not with the whole vocabulary.
    """
    own = step.weights or StepWeights(1 + answer.alpha, (-answer.alpha,))
    floor = own.floor
    if answer.rule in CONSTANT_ALPHA:
        floor = plausibility_threshold(
            step.base, answer.beta, "raw" if answer.head == "raw" else "probability"
        )
    scores = weighted(step.base, step.others, replace(own, floor=floor), step.candidates)
    scores = penalised(scores, step.repeats)
    return step.texts[int(scores.argmax())].strip().lower()


ALPHAS = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0)
BETAS = (0.01, 0.1, 0.3, 0.5)
GRID = tuple((a, b) for a in ALPHAS for b in BETAS)

Tracks = tuple[Track, ...] | Callable[[], tuple[Track, ...]] | None

PartnerOf = Callable[[Item], Clip | None]

ONE_VIEW = tuple(m.name for m in METHODS.values() if not m.second_views)


@dataclass(frozen=True)
class PendingAnswer:
    """A row that is missing: the method, its α and β (None: try the grid), and the row's key."""

    item: Item
    method: str
    contrast: tuple[float, float] | None
    key: str


def answer_clip(
    pending: list[PendingAnswer],
    lm: Reader,
    clip: Clip,
    tracks: Tracks,
    options: RunOptions,
    partner_of: PartnerOf = lambda item: None,
) -> Iterator[Row]:
    """The missing rows of one clip.

    tracks: its objects; None where nobody looked for any, because no method depends on them; of a
    lazy run a call that looks for them. partner_of: gives the partner of a question's clip, asked
    where a method contrasts with it.
    An answer that fails with a MacdError becomes a row that says so, and so does a method that does
    not apply to the question.
    """
    by_item: dict[str, list[PendingAnswer]] = {}
    for want in pending:
        by_item.setdefault(want.item.id, []).append(want)
    for group in by_item.values():
        yield from _answer_item(group, lm, clip, tracks, options, partner_of)


def failed(pending: list[PendingAnswer], error: MacdError) -> Iterator[Row]:
    """Rows that say why there is no answer."""
    yield from (Row(w.key, w.item.id, w.method, error=str(error)) for w in pending)


def _answer_item(
    pending: list[PendingAnswer],
    lm: Reader,
    clip: Clip,
    tracks: Tracks,
    options: RunOptions,
    partner_of: PartnerOf,
) -> Iterator[Row]:
    item = pending[0].item
    asking: Any = PromptedLM(lm.reading(clip.is_picture), item.before, item.after)
    local = not lm.info.server  # views of a server are read when they are asked about
    gathering: Any = GatheringLM(asking) if local else asking
    ready: list[tuple[PendingAnswer, DecodingViews, float]] = []
    try:
        own = replace(options, seed=item_seed(item.id), choices=choices_of(item, options))
        if item.kind == "forced":  # an option that the cut leaves out may still be the best of them
            own = replace(own, lazy=False)
        encoded = asking.encode(clip, item.question, fit=own.video.fit)
        context = MethodContext(asking, encoded, tracks or (), own)
        for _ in context.think():
            pass
        if any("pair" in find_method(want.method).views for want in pending):
            other = partner_of(item)
            if other is not None:
                frames = lm.preprocess(other, own.video.fit)
                context.partner = Partner(other.name, other.sha256, frames)
        context.lm = asking if own.lazy else gathering
    except RemoteError:
        raise  # of the server, not of the question
    except MacdError as error:
        yield from failed(pending, error)
        return

    def with_given(row: Row) -> Row:
        plain = row.method == "baseline"
        return replace(row, given=given(asking, clip, encoded)) if plain else row

    for want in pending:
        try:
            (method,) = find_methods([want.method])
            context.options = with_contrast(own, want.method, want.contrast or (1.0, 0.1))
            context.cache.start_method()
            if method.fixed is not None:
                yield Row(want.key, item.id, want.method, method.fixed, reads=0.0)
            else:
                views = decoding_views(context, method)
                if not own.lazy:
                    ready.append((want, views, count_reads(context, method)))
                    continue
                row = _row(lm, context, want, views)
                left_out = views.built is None and not row.open
                reads = 1.0 if left_out else count_reads(context, method)
                yield with_given(replace(row, reads=reads, objects=_found(context)))
        except RemoteError:
            raise
        except NotApplicable as error:
            yield Row(want.key, item.id, want.method, left_out=error.cause)
        except MacdError as error:
            yield Row(want.key, item.id, want.method, error=str(error))
    waiting = [views for _, views, _ in ready]
    resolved = gathering.resolve(waiting) if local else waiting
    for (want, _, reads), views in zip(ready, resolved, strict=True):
        try:
            row = _row(lm, context, want, views)
            found = NOT_LOOKED if tracks is None else _found(context)
            yield with_given(replace(row, reads=reads, objects=found))
        except RemoteError:
            raise
        except NotApplicable as error:  # such as a cut that a server's short rows do not reach
            yield Row(want.key, item.id, want.method, left_out=error.cause)
        except MacdError as error:
            yield Row(want.key, item.id, want.method, error=str(error))


def _found(context: MethodContext) -> int:
    """How many objects were found, if anybody looked."""
    return len(context.tracks) if context.tracks_ready else NOT_LOOKED


def open_tokens(answer: Answer, rule: ScoreRule) -> int | None:
    """How many tokens a contrast could have changed; None where none is made."""
    if not rule.second_views:
        return None
    return sum(not rule.decides(step.base) for step in answer.tokens)


def _row(lm: Reader, context: MethodContext, want: PendingAnswer, views: DecodingViews) -> Row:
    """In a lazy run without what needs the second views' logits, where there are any."""
    built = list(views.seconds)

    def build() -> Sequence[Handle]:
        made = finish(views.build())
        built.extend(made.seconds)
        return made.states

    search = views.others if views.built is not None else build
    answer = find_answer(lm, want.method, views.base, search, views.rule, context.options.decode)
    first = answer.tokens[0] if answer.tokens else None
    whole = not (context.options.lazy and views.rule.second_views)
    text = answer.text
    if want.item.kind == "forced" and first is not None:
        first = only_options(lm, first, want.item.options)
        text = pick_option(first, answer) if first is not None else ""
    plain = want.method == "baseline"
    return Row(
        key=want.key,
        item=want.item.id,
        method=want.method,
        text=text,
        margin=_margin(lm, first, answer) if whole else None,
        letters=_letters(lm, want.item, first, answer) if whole else [],
        grid=[] if want.contrast else _grid(first, answer),
        gradient=[] if context.options.lazy else _slopes(context, want.method),
        first=first.text if first else "",
        scores=_first_scores(first) if plain and first else {},
        probability=_probability(answer),
        tracks=[t.label for t in context.tracks] if plain and context.tracks_ready else [],
        tokens=len(answer.tokens),
        open=None if want.item.kind == "forced" else open_tokens(answer, views.rule),
        penalty=None if lm.info.repetition_penalty == 1.0 else lm.info.repetition_penalty,
        certified=_certified(lm, answer, context.options.decode.search),
        clamped=largest_clamped(second.record for second in built),
    )


def _certified(lm: Reader, answer: Answer, search: str) -> int | None:
    """How many tokens are the same for every error of a server's log-probabilities."""
    errors = errors_of(lm.info.log_p_error, lm.info.video_log_p_error)
    if errors is None:
        return None
    return sum(certify(step, answer, errors, search) == "certified" for step in answer.tokens)


ASCENT_READS, SECOND_VIEW_READS = 2.0, 1.0
"""A forward and a backward pass to the strengths alone cost two forward passes (docs/bench.md)."""


def count_reads(context: MethodContext, method: Method) -> float:
    """What a method takes in prompts read: its views, ascent steps and measured views.

    The video itself is 1, a second view 1, an ascent step 2 (forward and back), a measured view 1;
    what other methods share with it counts in full, as if it ran alone.
    """
    reads = 1.0 + SECOND_VIEW_READS * sum(view != "video" for view in method.views)
    pieces: Any = context.cache.needs()
    for name, key in pieces:
        if name == "ascent":
            reads += ASCENT_READS * key[1].steps
        elif name == "measured":
            reads += len(context.tracks)
    return reads


def _slopes(context: MethodContext, method: str) -> list[tuple[str, float]]:
    """What a method ranks the tracks by: the ascent's gradient, or the measured change."""
    if not context.tracks:
        return []
    values: Sequence[float] = ()
    if method in RANKING_OBJECTIVES:
        ascent = replace(context.options.ascent, objective=RANKING_OBJECTIVES[method])
        if steps := context.ascent(context.options.mask, ascent):
            values = [float(g) for g in steps[-1].gradient]
    elif method == "macd-measured":
        values = [float(z) for z in measured_changes(context)]
    labels = [t.label for t in context.tracks]
    return list(zip(labels, values, strict=True)) if len(values) else []


RANKING_OBJECTIVES: dict[str, Objective] = {
    "macd": "query",
    "macd-answer": "answer",
    "macd-margin": "margin",
}
"""Method → what its ascent climbs."""

KEPT_SCORES = 12


def _first_scores(first: TokenStep) -> dict[str, float]:
    """Score of the best first tokens as lower-case words; always those of yes and no."""
    scores: dict[str, float] = {}
    plain = penalised(first.base, first.repeats)
    for text, z in zip(first.texts, plain, strict=True):
        word = text.strip().lower()
        if word and (len(scores) < KEPT_SCORES or word in ("yes", "no")):
            scores[word] = max(float(z), scores.get(word, -np.inf))
    return scores


def _probability(answer: Answer) -> float | None:
    """Of the answer as a whole under the scores it was chosen by; candidates left out count 0."""
    if not answer.tokens:
        return None
    total = 0.0
    for step in answer.tokens:
        linear = plausibility_threshold(
            step.base, answer.beta, "raw" if answer.head == "raw" else "probability"
        )
        weights = step.weights or StepWeights(1 + answer.alpha, (-answer.alpha,), linear)
        others = step.others
        at = int(np.flatnonzero(step.candidates == step.token)[0])
        unbiased = not weights.bias and step.repeats is None
        if not others and unbiased and weights.floor == -np.inf:
            total += float(step.base[at]) - step.base_log_z
            continue
        scores = penalised(weighted(step.base, others, weights, step.candidates), step.repeats)
        passed = plausible(step.base, weights.floor)
        total += float(scores[at] - np.logaddexp.reduce(scores[passed]))
    return float(np.exp(total))


def with_contrast(options: RunOptions, method: str, contrast: tuple[float, float]) -> RunOptions:
    """The options with one method's α and β; its head rule stays as published."""
    alpha, beta = contrast
    view = find_method(method).view
    published = contrast_of(view, options)
    return set_contrast(view, options, replace(published, alpha=alpha, beta=beta))


def _grid(first: TokenStep | None, answer: Answer) -> list[str]:
    if first is None or not first.others or answer.rule not in CONSTANT_ALPHA:
        return []
    rule: Head = "raw" if answer.head == "raw" else "probability"
    views = first.base, np.mean(first.others, 0)
    picks = [int(penalised(score(*views, a, b, rule), first.repeats).argmax()) for a, b in GRID]
    return [first.texts[i].strip() for i in picks]


def _margin(lm: Reader, first: TokenStep | None, answer: Answer) -> float | None:
    yes, no = (_score(lm, words, first, answer) for words in WORDS)
    return None if yes is None or no is None else yes - no


def _letters(lm: Reader, item: Item, first: TokenStep | None, answer: Answer) -> list[float | None]:
    return [_score(lm, (LETTERS[i],), first, answer) for i in range(len(item.options))]


def _score(
    lm: Reader, words: tuple[str, ...], first: TokenStep | None, answer: Answer
) -> float | None:
    """The largest score of the words' first tokens, without the cut; None where none was kept."""
    if first is None:
        return None
    ids = first.candidates.tolist()
    places = [ids.index(t) for w in words if (t := lm.tokens(w)[0]) in ids]
    if not places:
        return None
    weights = first.weights or StepWeights(1 + answer.alpha, (-answer.alpha,))
    others = first.others
    uncut = replace(weights, floor=-np.inf)
    scores = penalised(weighted(first.base, others, uncut, first.candidates), first.repeats)
    return max(float(scores[i]) for i in places)


WORDS = (("yes", "Yes"), ("no", "No"))


def choices_of(item: Item, options: RunOptions) -> tuple[str, ...]:
    """The answers that a question offers: letters of a choice, else its options; the run's own."""
    return options.choices or item.answers


def item_seed(item: str) -> int:
    """A seed for what is drawn at random for an item, such as noise."""
    return int.from_bytes(hashlib.sha256(item.encode()).digest()[:4], "big") >> 1
