"""A model that a server holds, as a `Reader`: it says what follows, and has no gradients.

`open_server` opens one by its address.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from macd_studio.core.backbones.base import BackboneInfo, Encoded, Prune, Reader
from macd_studio.core.backbones.remote.client import CONCURRENCY, MODELS, Client
from macd_studio.core.backbones.remote.files import FilesLM, load_files, normalised_apart
from macd_studio.core.backbones.remote.probe import (
    EXACT,
    MAX_CHOSEN,
    Sample,
    Server,
    choose_model,
    probe,
)
from macd_studio.core.backbones.remote.ways import WHOLE, RemoteEncoded, View, Wanted, Way
from macd_studio.core.backbones.remote.wire import Said, unusable
from macd_studio.core.backbones.remote_address import Address, files, key, read_address
from macd_studio.core.errors import NotApplicable, RemoteError
from macd_studio.core.options import Fit
from macd_studio.core.token_logits import NextTokenLogits
from macd_studio.core.types import Clip, ModelFrames, Progress

TOP = 128
"""Log-probabilities a token that are asked for, where the server gives as many."""
SMALL = 1024
"""A vocabulary of which whole rows are asked for always."""
NO_GRADIENT = "a server gives none; --gradient difference takes slopes by reading alone"
COMPARED = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava_onevision")
"""Families whose log-probabilities behind vLLM were those of the same weights in this process."""
NOT_GIVEN = "a server that generates text does not give it"


@dataclass(frozen=True, eq=False)
class Views:
    """The handle: views that were handed over, none of which is read before it is asked about."""

    views: tuple[View, ...]

    @property
    def plain(self) -> bool:
        """Whether each is its frames as they are, or a text alone."""
        return all(
            view.encoded is None
            or view.video is None
            or torch.equal(view.video, view.encoded.video)
            for view in self.views
        )


class RemoteReader(Reader):
    """Reads through a server. `lm` has the model's files without weights, for prompts and pixels.

    server: what it was found to do. sample: what it said then, to know it again.
    """

    def __init__(self, lm: FilesLM, way: Way, server: Server, sample: Sample) -> None:
        self._lm, self._way, self.server, self._sample = lm, way, server, sample
        self._met = [way.client.counted.broken]  # shared by all copies
        self.info: BackboneInfo = replace(
            lm.info,
            repetition_penalty=1.0,
            parameters=0,
            held_bytes=0,
            server=server.title,
            log_p_error=server.error,
            video_log_p_error=server.video_error,
        )
        self.thought_marks, self.thinks = lm.thought_marks, lm.thinks
        able = {"times"} & lm.capabilities | {"batch"}
        if server.most == WHOLE:
            able.add("rows")
        self.capabilities = frozenset(able)
        self.reasons = {
            "gradient": NO_GRADIENT,
            **dict.fromkeys(
                ("reuse", "prune", "attention", "knock-out", "lens", "maps"), NOT_GIVEN
            ),
            "rows": "start it with --max-logprobs -1",
        }
        self.rounds = not server.exact
        self.notes = self._notes(lm.info.repetition_penalty)

    def _notes(self, penalty: float) -> tuple[str, ...]:
        found = [f"the backbone is held by a server ({self.server.title})"]
        if not self.server.exact:
            why = next((f" ({z.option})" for z in self.server.lacking if z.what == EXACT), "")
            found.append(f"frames were rounded to 8 bits for every view{why}")
            if normalised_apart(self._lm):
                found.append(
                    "this model's processor normalises videos otherwise than pictures; vLLM 0.32"
                    " may normalise both as pictures unless it is started with"
                    " --no-mm-device-do-normalize, and which it does cannot be seen from here"
                )
        if self.server.amplified:
            found.append(self.server.amplified)
        if self.info.family not in COMPARED:
            found.append(
                f"the family {self.info.family!r} was not found to be read by vLLM as it is read by"
                " transformers (docs/remote.md); certificates are about the server's own numbers"
            )
        if penalty != 1.0:
            found.append(
                f"the model's repetition penalty of {penalty:g} was left out: it needs the sign of"
                " logits, and a server gives log-probabilities"
            )
        return tuple(found)

    def stopping_when(
        self, cancelled: Callable[[], bool], waiting: Progress | None = None
    ) -> RemoteReader:
        """See `Reader.stopping_when`: also while an answer of the server is waited for."""
        other = copy(self)
        other._way = self._way.over(self._way.client.stopping_when(cancelled, waiting))
        return other

    # what needs no weights

    def preprocess(self, clip: Clip, fit: Fit = "pad") -> ModelFrames:
        """See `Reader.preprocess`."""
        return self._lm.preprocess(clip, fit)

    def most_pixels(self, frames: int) -> int | None:
        """See `Reader.most_pixels`."""
        return self._lm.most_pixels(frames)

    def shrink(self, frames: ModelFrames, size: tuple[int, int]) -> ModelFrames:
        """See `Reader.shrink`."""
        return self._lm.shrink(frames, size)

    def encode_frames(
        self, frames: ModelFrames, question: str, suffix: str = "", before: str = ""
    ) -> RemoteEncoded:
        """See `Reader.encode_frames`."""
        encoded = self._lm.encode_frames(frames, question, suffix, before)
        return RemoteEncoded(**{**encoded.__dict__, "text": before + question + suffix})

    def continue_prompt(self, encoded: Encoded, tokens: Sequence[int]) -> Encoded:
        """See `Reader.continue_prompt`."""
        return self._lm.continue_prompt(encoded, tokens)

    def text(self, tokens: Sequence[int]) -> str:
        """See `Reader.text`."""
        return self._lm.text(tokens)

    def tokens(self, text: str) -> list[int]:
        """See `Reader.tokens`."""
        return self._lm.tokens(text)

    def token_text(self, token: int) -> str:
        """See `Reader.token_text`."""
        return self._lm.token_text(token)

    @property
    def end_tokens(self) -> frozenset[int]:
        """See `Reader.end_tokens`."""
        return self._lm.end_tokens

    # views

    def prefill(
        self,
        encoded: Encoded,
        video: Tensor,
        prune: Prune | None = None,
        reuse: Any | None = None,
    ) -> Views:
        """See `Reader.prefill`. Nothing is sent before it is asked about."""
        if prune is not None:
            self.need("prune")
        assert isinstance(encoded, RemoteEncoded)
        prompt = tuple(encoded.input_ids[0].tolist())
        videos = video if video.ndim == 5 else video[None]
        return Views(tuple(View(encoded, one, prompt, encoded.text) for one in videos))

    def prefill_text(self, question: str, thought: Sequence[int] = ()) -> Views:
        """See `Reader.prefill_text`."""
        ids = self._lm.text_inputs(question)["input_ids"][0]
        prompt = (*ids.tolist(), *thought)
        return Views((View(None, None, prompt, question),))

    def has_plain_prompt(self, views: Views) -> bool:
        """See `Reader.has_plain_prompt`."""
        return views.plain

    def prompt_of(self, views: Views) -> Sequence[int]:
        """See `Reader.prompt_of`."""
        return views.views[0].prompt

    def question_log_p(self, encoded: Encoded, views: Views) -> NDArray[np.float64]:
        """See `Reader.question_log_p`: one request a view, all under way together."""
        how = self.server.question
        if not how:
            raise NotApplicable(
                f"not with {self.info.name}: it does not give the loss of the question",
                "Leave --gradient difference out: measured masks and contrast need no loss",
            )
        at, way = encoded.query.tolist(), self._way
        way.prepare(views.views)
        answers = way.client.all([way.question(view, at, how) for view in views.views])
        self._check_same()
        found = [
            way.read_question(v, at, how, a) for v, a in zip(views.views, answers, strict=True)
        ]
        return np.stack(found)

    def next_logits(
        self,
        views: Views,
        tokens: Sequence[int] = (),
        ids: Sequence[int] = (),
        whole: bool = False,
    ) -> list[NextTokenLogits]:
        """See `Reader.next_logits`: log-probabilities, of which `log_z` is 0."""
        wanted = self._wanted(ids, whole)
        way, asked = self._way, []
        way.prepare(views.views)
        for view in views.views:
            asked += [way.row(view, tokens, one) for one in wanted]
        answers = iter(way.client.all(asked))
        self._check_same()
        rows = []
        for view in views.views:
            said = [way.read_row(view, tokens, next(answers)) for _ in wanted]
            rows.append(self._row(said, wanted[0]))
            if missing := set(ids).difference(_told(rows[-1])):
                raise NotApplicable(
                    f"the server tells of {len(_told(rows[-1]))} tokens in the second view, and not"
                    f" of {len(missing)} that pass the cut in the first",
                    "Start it with --max-logprobs -1, or choose a larger β",
                )
        return rows

    def _check_same(self) -> None:
        """Raises RemoteError where the server is another than the one that was tried.

        Looked at after a connection broke: it may have been started anew, with another model.
        """
        broken = self._way.client.counted.broken
        if broken == self._met[0]:
            return
        if self._sample.moved(self._way) > self.server.noise:
            raise RemoteError(
                f"the server at {self.server.url} says something else now of the clip that it was"
                " tried on: it was started anew, with another model or with other options",
                "Start this program anew, so that the server is tried again",
            )
        self._met[0] = broken

    def _wanted(self, ids: Sequence[int], whole: bool) -> list[Wanted]:
        most, chosen = self.server.most, self.server.chosen
        small = self.server.vocabulary <= SMALL
        if most == WHOLE and (whole or small or (ids and not chosen)):
            return [Wanted(WHOLE)]
        if not ids:
            return [Wanted(TOP if most == WHOLE else min(TOP, most))]
        if not chosen:
            return [Wanted(most)]
        each = MAX_CHOSEN if most == WHOLE else min(MAX_CHOSEN, most)
        return [Wanted(ids=tuple(ids[i : i + each])) for i in range(0, len(ids), each)]

    def _row(self, said: Sequence[Said], wanted: Wanted) -> NextTokenLogits:
        """The answers about one view as one row. wanted: the first of what was asked of it."""
        found: dict[int, float] = {}
        for one in said:
            found.update(one.log_p)
        ids = np.array(sorted(found), np.int64)
        if ids[-1] >= self._lm.model.config.get_text_config().vocab_size:
            raise unusable(f"it tells of a token {ids[-1]}, and the model has none")
        if wanted == Wanted(WHOLE) and len(ids) != self.server.vocabulary:
            raise unusable("it leaves tokens out of a whole row")
        values = np.array([found[i] for i in ids.tolist()])
        if len(ids) > 1 and abs(np.exp(values).sum() - 1) < 1e-3 and ids[-1] == len(ids) - 1:
            return NextTokenLogits(values, log_z=0.0)
        # a token that was not named may be as likely as the likeliest, one below the top is not
        floor = float(values.max() if wanted.ids else values.min())
        return NextTokenLogits(values, ids, floor, 0.0)


def _told(row: NextTokenLogits) -> set[int] | range:
    return range(len(row.values)) if row.ids is None else set(row.ids.tolist())


Connect = Callable[[Address], Client]


def open_server(
    name: str,
    progress: Progress | None = None,
    question: str = "",
    concurrency: int = CONCURRENCY,
    connect: Connect | None = None,
    exact: bool = True,
) -> RemoteReader:
    """A reader of the model at `vllm:http://HOST:PORT[/MODEL]`, once it was probed.

    The key is read from MACD_VLLM_KEY. Tokenizer and processor come from MACD_VLLM_FILES, a folder
    or hub id, or from where the server says that its model is. progress: told what is done.
    question: refused where the model will refuse it. concurrency: requests under way at once.
    connect: another way to make the client. exact: False asks by chat, whatever the server can.
    Raises RemoteError where the server cannot be used, with the reason, BackboneNotFound for a
    wrong address, and what `load_backbone` raises for files that are missing.
    """
    progress, address = progress or Progress(), read_address(name)
    progress.begin(f"Asking {address.url}")
    client = connect(address) if connect else Client(address, key(), concurrency)
    client = client.stopping_when(lambda: progress.stopped, progress)
    model, origin, length = choose_model(client.get(MODELS), address.model)
    lm = load_files(files() or origin, name)
    if question:
        lm.refuse_control_tokens(question)
    progress.begin(f"Trying what {address.url} can do")
    server, way, sample = probe(client, lm, model, length, exact)
    return RemoteReader(lm, way.over(client.stopping_when(lambda: False)), server, sample)
