"""What a server can do, found by asking it about a drawn clip before any question is put to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from macd_studio.core.backbones.remote.client import Client
from macd_studio.core.backbones.remote.files import FilesLM
from macd_studio.core.backbones.remote.ways import (
    WHOLE,
    CommonWay,
    ExactWay,
    Question,
    RemoteEncoded,
    View,
    Wanted,
    Way,
)
from macd_studio.core.backbones.remote.wire import Said
from macd_studio.core.backbones.universal import UniversalVLM
from macd_studio.core.errors import RemoteError
from macd_studio.core.types import Clip
from macd_studio.core.validation import shown

MIN_ERROR, MIN_ROUNDED, TIMES_NOISE = 1e-3, 0.05, 3.0
"""The least error that a log-probability is taken to have in the exact and in the common way, nats,
and how often the noise counts. Views behind masks of level 0.75, rounded to 8 bits, moved those
within 3 nats of the best by up to 0.031. The plain video is not rounded; its error is taken to be
as large, as the server's arithmetic in normalising cannot be tried in 8 bits (docs/remote.md)."""
TIMES_FLAT = 6.0
"""How often the change counts where pixels of 0 are moved by a step of 8 bits: 8 bits do not hold 0
itself, and views that hold zeros were off by up to 3.9 times that change (docs/remote.md)."""
TOPS = (WHOLE, 128, 20, 5)
"""Numbers of log-probabilities a token that are tried, the best first."""
MAX_CHOSEN = 128
"""Tokens that vLLM gives at most by their ids."""
MAX_ERROR = 1e3
"""The largest ε that a trace holds; far below it nothing is certified any more."""
LARGE = 0.1
"""ε from which on what makes it so large is told: at α = 1 a lead of 0.6 nats is not certified."""
BESIDE = 8
"""How many others a view is read beside."""
OTHERS = {
    "llamacpp": "llama.cpp", "library": "Ollama", "organization_owner": "LM Studio",
    "sglang": "SGLang", "lmdeploy": "LMDeploy", "tgi": "TGI", "huggingface": "TGI",
    "tabbyapi": "TabbyAPI", "mlx": "MLX",
}  # fmt: skip
"""Who owns a model, as a server lists it, and which server it is."""
EXACT = "the exact way: token ids and unrounded pixels"
"""What a server lacks that is asked by chat."""
QUESTION = "What is in the video?"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class MissingFeature:
    """Something that this server does not give, and what starting it otherwise would change."""

    what: str
    option: str


@dataclass(frozen=True, eq=False)
class Sample:
    """What a server said of a drawn view, to be compared with what it says later."""

    view: View
    wanted: Wanted
    said: Said

    def moved(self, way: Way) -> float:
        """How far the server's log-probabilities near the likeliest are from these now, nats."""
        return change(self.said, one_of(way, self.view, self.wanted))


@dataclass(frozen=True)
class Server:
    """What was found out about a server."""

    url: str
    version: str
    model: str
    length: int
    """Tokens that a prompt and its answer may have, 0 where unknown."""
    exact: bool
    """Whether it is asked by ids and float pixels."""
    most: int
    """Log-probabilities that it gives of each token: WHOLE for all of the `vocabulary`."""
    vocabulary: int
    """Number of tokens where it gives all their log-probabilities, else 0."""
    chosen: bool
    """Whether the tokens whose log-probabilities are wanted may be named."""
    question: Question
    """How the log-probabilities of the prompt are asked for."""
    alone: float
    among: float
    """`alone` and `among`: the largest change of a log-probability near the likeliest when a view
    is read again, alone and beside others."""
    rounding: float = 0.0
    """The largest change where pixels are dithered by a step of 8 bits; 0 where `exact`."""
    flat: float = 0.0
    """The largest change where pixels of exactly 0, as behind full masks, are moved by the least
    that they may be off on the server: 0 where it takes normalised pixels as they are."""
    padding: float = 0.0
    """The same of pixels of the colour that padding has: the one nearest to 0 in a plain video. 0
    in the common way too, where less than a step of 8 bits cannot be sent."""
    resizes: bool = False
    """Whether the server rounds a plain video, by a processor that resizes frames in 8 bits."""
    lacking: tuple[MissingFeature, ...] = ()

    @property
    def error(self) -> float:
        """ε, the error that each log-probability is taken to have in any view, nats."""
        times = TIMES_NOISE if self.exact else TIMES_FLAT
        own = self.video_error, TIMES_NOISE * self.rounding, times * self.flat
        return min(MAX_ERROR, max(own))

    @property
    def video_error(self) -> float:
        """ε_V, the same of the plain video: no mask covers it, and 8 bits hold it as it is."""
        rounding = self.rounding if self.resizes else 0.0
        return min(MAX_ERROR, max(self.noise, TIMES_NOISE * max(self.padding, rounding)))

    @property
    def noise(self) -> float:
        """The error of a view that is read again as it was sent, nats."""
        least = MIN_ERROR if self.exact else MIN_ROUNDED
        return max(least, TIMES_NOISE * max(self.alone, self.among))

    @property
    def amplified(self) -> str:
        """What is said where full masks make ε so large that few contrasted tokens are certified,
        else ""."""
        if self.error <= LARGE or self.flat < max(self.alone, self.among, self.rounding):
            return ""
        option = " (start it with --no-mm-device-do-normalize, by which it stays 0)"
        return (
            "the model amplifies what the server makes of a pixel of exactly 0, as behind full"
            f" masks: log-probabilities change by {self.flat:.1e}, so few tokens are certified"
            " where a second view counts"
            f"{option if self.exact else ''}"
        )

    @property
    def title(self) -> str:
        """In a few words, as a trace records it."""
        return f"vLLM {self.version}, {'exact' if self.exact else 'common'} way"

    def lines(self) -> list[str]:
        """What it can prove, and what it lacks, a sentence each."""
        way = "by token ids and unrounded pixels" if self.exact else "by chat, frames in 8 bits"
        most = "of every token" if self.most == WHOLE else f"of the {self.most} likeliest tokens"
        chosen = " and of named ones" if self.chosen else ""
        loss = "the question's loss can be read" if self.question else "no loss of the question"
        rounded = "" if self.exact else f", by {self.rounding:.1e} when pixels are rounded"
        flat = f", by {self.flat:.1e} when pixels of 0 are off" if self.flat else ""
        flat += f", by {self.padding:.1e} when those of padding are" if self.padding else ""
        told = [
            f"{self.url}: vLLM {self.version}, model {self.model}",
            f"views are read {way}; prompts and frames are those made here",
            f"log-probabilities {most}{chosen}; {loss}",
            f"read again, log-probabilities change by {self.alone:.1e} alone and {self.among:.1e}"
            f" beside others{rounded}{flat}, so {self.video_error:.1e} is taken as their error in"
            f" the video, and {self.error:.1e} in other views",
        ]
        told += [self.amplified] if self.amplified else []
        return [*told, *(f"not here: {one.what} ({one.option})" for one in self.lacking)]


# how far log-probabilities move when pixels do: what a server's errors are measured by

REPEATS = 3
"""How often a view is read again alone, and how often pixels are dithered."""
HEAD = 12.0
"""Nats below the likeliest token within which changes count: no cut reaches further down."""


def one_of(way: Way, view: View, wanted: Wanted) -> Said:
    """What follows one view."""
    return way.read_row(view, (), way.client.all([way.row(view, (), wanted)])[0])


def rounding(way: Way, view: View, wanted: Wanted) -> float:
    """The largest change where every value is dithered by a step of 8 bits, up or down or not."""
    assert view.encoded is not None
    assert view.video is not None
    generator, step = torch.Generator().manual_seed(0), way.step(view.encoded)
    shape = view.video.shape
    moves = [step * torch.randint(-1, 2, shape, generator=generator) for _ in range(REPEATS)]
    return _moved(way, view, wanted, moves)


def flat(way: Way, view: View, wanted: Wanted) -> float:
    """The largest change where pixels of 0 are moved by the way's step, see `_moved_frames`."""
    assert view.encoded is not None
    return _moved_frames(way, view, wanted, torch.zeros(3, 1, 1))


def padding(way: Way, view: View, wanted: Wanted) -> float:
    """How much log p moves with pixels of the colour around a clip of another shape, nats."""
    encoded = view.encoded
    assert encoded is not None
    if isinstance(way, CommonWay):
        return 0.0
    mean, std = (z[:, None, None] for z in (encoded.mean, encoded.std))
    return _moved_frames(way, view, wanted, ((255 * mean).round() / 255 - mean) / std)


def _moved_frames(way: Way, view: View, wanted: Wanted, colour: Tensor) -> float:
    """The largest change where frames of one colour are moved by the way's step: all, and half.

    colour: (3, 1, 1), normalised. Arithmetic and rounding move all of a channel alike, which
    filters of a trained model may add up: one copy is moved down, another by colour. In the third
    each value has a drawn sign.
    """
    assert view.encoded is not None
    assert view.video is not None
    step = way.step(view.encoded)
    if not step.any():
        return 0.0
    shape, generator = view.video.shape, torch.Generator().manual_seed(0)
    drawn = 2.0 * torch.randint(0, 2, shape, generator=generator) - 1
    signs = (-torch.ones(3, 1, 1), torch.tensor([1.0, -1.0, 1.0])[:, None, None], drawn)
    found = []
    for groups in (view.encoded.groups, view.encoded.groups[::2]):
        at = [frame for group in groups for frame in group]
        moves = [torch.zeros(shape) for _ in signs]
        for move, sign in zip(moves, signs, strict=True):
            move[at] = (step * sign).expand(shape)[at]
        video = view.video.clone()
        video[at] = colour.expand(shape)[at]
        found.append(_moved(way, replace(view, video=video), wanted, moves))
    return max(found)


def _moved(way: Way, view: View, wanted: Wanted, moves: Sequence[Tensor]) -> float:
    """The largest change of log-probabilities near the best when pixels are moved so."""
    assert view.video is not None
    views = [view, *(replace(view, video=view.video + move) for move in moves)]
    answers = way.client.all([way.row(one, (), wanted) for one in views])
    first, *rest = (way.read_row(v, (), a) for v, a in zip(views, answers, strict=True))
    return max(change(first, other) for other in rest)


def change(first: Said, again: Said) -> float:
    """The largest change of a log-probability within HEAD of the best, nats."""
    best = max(first.log_p.values())
    near = [i for i, value in first.log_p.items() if value > best - HEAD and i in again.log_p]
    # told of other tokens alone: finite, as a trace holds ε, and more than any cut reaches
    return max(abs(first.log_p[i] - again.log_p[i]) for i in near) if near else HEAD


def choose_model(answer: Any, wanted: str) -> tuple[str, str, int]:
    """Name, origin and length of the model to ask, from /v1/models. Raises RemoteError."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(r, dict) and "id" in r for r in rows):
        raise RemoteError(
            "the server does not list its models",
            "Give the address of a vLLM server, without a path of its API",
        )
    for row in rows:
        if (other := OTHERS.get(str(row.get("owned_by", "")).lower())) is not None:
            raise RemoteError(
                f"the server is {other}, which gives no log-probabilities of chosen tokens and"
                " prompts and takes no frames as they are: no contrast can be computed with it",
                "Serve the model with vLLM; or let it answer there, and score its answers with"
                " python -m evals score",
            )
    names = [str(row["id"]) for row in rows]
    if wanted not in names if wanted else len(names) != 1:
        listed = ", ".join(shown(name, 80) for name in names[:5]) or "none"
        raise RemoteError(
            f"the server holds {len(names)} models ({listed})"
            + (f", and not {shown(wanted, 80)}" if wanted else ", and none was named"),
            "Write the name of one after the port: vllm:http://HOST:PORT/MODEL",
        )
    row = rows[names.index(wanted) if wanted else 0]
    length = row.get("max_model_len")
    own = length if isinstance(length, int) and not isinstance(length, bool) else 0
    return str(row["id"]), str(row.get("root") or row["id"]), own


def version_of(client: Client) -> str:
    """The server's version; unknown where it does not tell."""
    try:
        answer = client.get("/version")
    except RemoteError:
        return UNKNOWN
    found = answer.get("version") if isinstance(answer, dict) else None
    return found if isinstance(found, str) and found.isprintable() and len(found) < 60 else UNKNOWN


def drawn_clip(frames: int = 4, seed: int = 0, side: int = 96) -> Clip:
    """A square clip of frames that all differ: patches of random colours, others in each."""
    rng = np.random.default_rng(seed)
    patches = rng.integers(0, 256, (frames, 6, 6, 3), dtype=np.uint8)
    pixels = patches.repeat(side // 6, 1).repeat(side // 6, 2)
    times = (np.arange(frames) + 0.5) / 2
    return Clip(pixels, times, pixels, times, "drawn", "0" * 64, frames / 2, (side, side))


def encode(lm: FilesLM, clip: Clip, question: str = QUESTION) -> RemoteEncoded:
    """The clip and a question, as they are put to the server."""
    encoded = lm.encode(clip, question)
    return RemoteEncoded(**{**encoded.__dict__, "text": question})


def whole_view(encoded: RemoteEncoded) -> View:
    """The video as it is."""
    return View(encoded, encoded.video, tuple(encoded.input_ids[0].tolist()), encoded.text)


def probe(
    client: Client, lm: FilesLM, model: str, length: int, exact: bool = True
) -> tuple[Server, Way, Sample]:
    """Asks a server what it can do. Raises RemoteError where it cannot be used, with the reason.

    exact: whether the exact way is tried.
    """
    encoded = encode(lm, drawn_clip())
    view, lacking = whole_view(encoded), list[MissingFeature]()
    way = _way(client, lm, model, view, lacking) if exact else CommonWay(client, model, lm)
    most, vocabulary = _most(way, view, lacking)
    chosen = _chosen(way, view, most)
    if not chosen:
        lacking.append(
            MissingFeature("log-probabilities of tokens by their ids", "vLLM 0.32 gives them")
        )
    question = _question(way, view, lacking)
    if isinstance(way, CommonWay):
        _check_frames(way, encoded)
    wanted = Wanted(most if most != WHOLE else 20)
    sample = Sample(view, wanted, one_of(way, view, wanted))
    alone, among = _noise(way, lm, sample)
    rounded = 0.0 if isinstance(way, ExactWay) else rounding(way, view, wanted)
    padded = padding(way, view, wanted)
    # frames of a family with an adapter of its own have the size that its processor leaves as it
    # is; in the exact way pixels are compared
    resizes = isinstance(way, CommonWay) and isinstance(lm, UniversalVLM)
    found = Server(
        client.address.url, version_of(client), model, length, isinstance(way, ExactWay), most,
        vocabulary, chosen, question, alone, among, rounded, flat(way, view, wanted), padded,
        resizes, tuple(lacking),
    )  # fmt: skip
    return found, way, sample


def _way(client: Client, lm: FilesLM, model: str, view: View, lacking: list[MissingFeature]) -> Way:
    exact = ExactWay(client, model, lm)
    try:
        exact.prepare([view])
        one_of(exact, view, Wanted(1))
        return exact
    except RemoteError as error:
        if error.status not in (400, 404, 405, 422, 500, 501):
            raise
        told = error
    common = CommonWay(client, model, lm)
    try:
        one_of(common, view, Wanted(1))
    except RemoteError as error:
        raise _refused(error) from error
    option = "start it with --enable-scale-out"
    if told.status == 501:
        option = told.cause
    elif told.status != 404:
        option += f"; it answered {told.cause}"
    lacking.append(MissingFeature(EXACT, option))
    return common


def _refused(error: RemoteError) -> RemoteError:
    """What a server says that takes no video, or no settings of it, with the option."""
    text = error.cause.lower()
    if "trust" in text or "mm_processor_kwargs" in text or "media_io_kwargs" in text:
        remedy = "Start it with --trust-request-mm-kwargs, so that it leaves frames as they are"
        return RemoteError(error.cause, remedy, error.status)
    if "logprobs" in text:
        remedy = "It gives no log-probabilities: start it with --max-logprobs -1"
        return RemoteError(error.cause, remedy, error.status)
    if "video" in text or "multimodal" in text or "multi-modal" in text:
        remedy = "Serve a model that reads video, with --limit-mm-per-prompt '{\"video\":1}'"
        return RemoteError(error.cause, remedy, error.status)
    return error


def _most(way: Way, view: View, lacking: list[MissingFeature]) -> tuple[int, int]:
    """How many log-probabilities a token are given, and the vocabulary where all are."""
    refused = ""
    for top in TOPS:
        try:
            said = one_of(way, view, Wanted(top))
        except RemoteError as error:
            if error.status not in (400, 422):
                raise
            refused = error.cause
            continue
        if top == WHOLE and sorted(said.log_p) != list(range(len(said.log_p))):
            refused = "it leaves tokens out of a whole row"
            continue
        if top != WHOLE:
            what = f"log-probabilities of more than {top} tokens, so wide heads are not certified"
            lacking.append(MissingFeature(what, "start it with --max-logprobs -1"))
            return min(top, max(1, len(said.log_p))), 0
        return top, len(said.log_p)
    raise RemoteError(
        f"the server gives no log-probabilities ({refused})", "Start it with --max-logprobs -1"
    )


def _chosen(way: Way, view: View, most: int) -> bool:
    """Whether tokens may be named, and get the log-probabilities that they have in the row."""
    top = one_of(way, view, Wanted(5 if most == WHOLE else min(most, 5)))
    ids = tuple(sorted(top.log_p))
    try:
        named = one_of(way, view, Wanted(ids=ids))
    except RemoteError as error:
        if error.status not in (400, 422):
            raise
        return False
    return all(abs(named.log_p.get(i, 1.0) - top.log_p[i]) < 0.1 for i in ids)


def _question(way: Way, view: View, lacking: list[MissingFeature]) -> Question:
    """How log p of the question's tokens is obtained, cheapest first, on this short prompt."""
    assert view.encoded is not None
    at = view.encoded.query.tolist()
    ways: tuple[Question, ...] = ("scored", "prompt") if isinstance(way, ExactWay) else ("prompt",)
    for how in ways:
        try:
            asked = way.question(view, at, how)
            way.read_question(view, at, how, way.client.all([asked])[0])
        except RemoteError as error:
            if error.status in (401, 403):
                raise
            continue
        if how == "prompt":
            what = "the loss of long prompts at little memory: logits of the whole prompt are made"
            lacking.append(MissingFeature(what, "VLLM_USE_V2_MODEL_RUNNER=1 where vLLM has it"))
        return how
    what = "the question's loss, so no ascent; masks that are measured and contrasts remain"
    lacking.append(MissingFeature(what, "a vLLM that gives prompt_logprobs"))
    return ""


def _check_frames(way: Way, encoded: RemoteEncoded) -> None:
    """Raises RemoteError where a frame can be changed and nothing follows: it was not read.

    In the common way the server shows no pixels. Its prompt's ids were compared already.
    """
    plain = whole_view(encoded)
    views = [plain]
    for group in encoded.groups:
        video = encoded.video.clone()
        video[list(group)] = -video[list(group)].flip(-1)
        views.append(View(encoded, video, plain.prompt, plain.text))
    asked = [way.row(view, (), Wanted(5)) for view in views]
    said = [way.read_row(v, (), a) for v, a in zip(views, way.client.all(asked), strict=True)]
    for number, other in enumerate(said[1:], 1):
        if other.log_p == said[0].log_p:
            raise RemoteError(
                f"the server does not read all frames: changing group {number} of"
                f" {len(said) - 1} changes nothing",
                "Start it with --trust-request-mm-kwargs and without --media-io-kwargs, so that it"
                " samples none",
            )


def _noise(way: Way, lm: FilesLM, sample: Sample) -> tuple[float, float]:
    """The largest change of log-probabilities within HEAD of the best: alone, and among others."""
    view, wanted = sample.view, sample.wanted
    alone = max(sample.moved(way) for _ in range(REPEATS))
    others = [whole_view(encode(lm, drawn_clip(seed=seed + 1))) for seed in range(BESIDE)]
    way.prepare(others)
    asked = [way.row(other, (), wanted) for other in [*others[:4], view, *others[4:]]]
    answers = way.client.all(asked)
    return alone, change(sample.said, way.read_row(view, (), answers[4]))
