"""A server that answers as vLLM 0.32 does, with a model in this process behind it.

Not a stand-in for numbers: prompts, pixels and log-probabilities are those of the model, taken from
the requests alone. What it does wrong is chosen by its arguments.
"""

import base64
import io
import json
import threading

import httpx
import msgpack
import numpy as np
import torch
from PIL import Image

from macd_studio.core.backbones.remote.client import Client
from macd_studio.core.backbones.remote.reader import open_server
from macd_studio.core.system.shipped import TOYWORLD
from macd_studio.core.types import ModelFrames

NAME = "vllm:http://vllm.test:8000"
WRONG = {"error": {"message": "boom", "type": "InternalServerError", "code": 500}}


class FakeVLLM:
    """Answers requests from `lm`, a Qwen2-VL model.

    exact: whether it was started with --enable-scale-out. limit: of log-probabilities a token, None
    for none. keeps: which of the frames it is sent it reads. trusts: --trust-request-mm-kwargs.
    before: called with each request's number and path, may give an answer or raise instead.
    after: changes the JSON of an answer, by its path. noise: of log-probabilities, by request.
    normalises: False for one that was started with --no-mm-device-do-normalize.
    """

    def __init__(
        self, lm, exact=True, limit=None, chosen=True, prompt=True, trusts=True,
        keeps=lambda frames: frames, before=None, after=None, noise=0.0, root=None, normalises=True,
    ):  # fmt: skip
        self.lm, self.exact, self.limit, self.chosen, self.prompt = lm, exact, limit, chosen, prompt
        self.trusts, self.keeps, self.before, self.after = trusts, keeps, before, after
        self.noise, self.root = noise, str(root or TOYWORLD / "backbone")
        self.normalises = normalises
        self.requests, self.encoded, self.lock = [], {}, threading.RLock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        body = json.loads(request.content) if request.content else {}
        with self.lock:
            self.requests.append((path, body))
            number = len(self.requests)
            if self.before and (early := self.before(number, path)) is not None:
                return early
            answer = self.answer(path, body)
            if isinstance(answer, httpx.Response):
                return answer
            if self.after:
                answer = self.after(path, answer)
        return httpx.Response(200, json=answer)

    def answer(self, path, body):
        if path == "/v1/models":
            return {"data": [{"id": "toy", "root": self.root, "max_model_len": 2048}]}
        if path == "/version":
            return {"version": "0.32.0"}
        if path == "/v1/chat/completions":
            return self.chat(body)
        if self.exact and path == "/v1/chat/completions/render":
            return self.render(body)
        if self.exact and path == "/inference/v1/generate":
            return self.generate(body)
        return httpx.Response(404, json={"detail": "Not Found"})

    def encode(self, body):
        """The message of a chat as the model reads it; None for one without frames."""
        content = body["messages"][0]["content"]
        text = content[-1]["text"]
        if len(content) == 1:
            return None, text
        _, _, data = content[0]["video_url"]["url"].partition("base64,")
        pictures = [Image.open(io.BytesIO(base64.b64decode(z))) for z in data.split(",")]
        pixels = np.stack([np.asarray(p.convert("RGB")) for p in pictures])
        how = body["media_io_kwargs"]["video"]
        times = np.array(how["frames_indices"]) / how["fps"]
        kept = self.keeps(np.arange(len(pixels)))
        height, width = pixels.shape[1:3]
        frames = ModelFrames(
            pixels[kept], times[kept], float(how["duration"]), (0, 0, width, height), 1.0
        )
        return self.lm.encode_frames(frames, text), text

    def refusal(self, body):
        if not self.trusts and ("media_io_kwargs" in body or "mm_processor_kwargs" in body):
            told = "mm_processor_kwargs is not allowed, start with --trust-request-mm-kwargs"
            return httpx.Response(400, json={"error": {"message": told}})
        return None

    def render(self, body):
        if (refused := self.refusal(body)) is not None:
            return refused
        encoded, _ = self.encode(body)
        ids = encoded.input_ids[0].tolist()
        self.encoded[tuple(ids)] = encoded
        laid = encoded.layout(encoded.video)
        if self.normalises:
            laid = encoded.layout(self.rgb(encoded)).round().byte()
        pixels = np.asarray(laid)
        grid = np.asarray(encoded.inputs["video_grid_thw"][0])
        item = {
            "pixel_values_videos": entry(pixels, "flat"),
            "video_grid_thw": entry(grid, "batched"),
        }
        packed = base64.b64encode(msgpack.packb(item)).decode()
        place = {"offset": 3, "length": encoded.vision_tokens}
        return {
            "token_ids": ids,
            "features": {
                "mm_hashes": {"video": ["0" * 64]},
                "mm_placeholders": {"video": [place]},
                "kwargs_data": {"video": [packed]},
            },
        }

    @staticmethod
    def rgb(encoded):
        return 255 * (encoded.video * encoded.std[:, None, None] + encoded.mean[:, None, None])

    def generate(self, body):
        ids, how = body["token_ids"], body["sampling_params"]
        whole = next(p for p in self.encoded if p[: len(ids)] == tuple(ids[: len(p)]))
        encoded = self.encoded[whole]
        item = msgpack.unpackb(base64.b64decode(body["features"]["kwargs_data"]["video"][0]))
        view = self.video(encoded, item["pixel_values_videos"]["data"])
        return self.generated((encoded, view), ids[len(whole) :], how, ids)

    def video(self, encoded, data):
        """A view (T, 3, h, w) of pixels that were sent, normalised as vLLM 0.32 does it."""
        dtype, shape, held = data
        laid = torch.from_numpy(np.frombuffer(held.data, dtype).reshape(shape).astype(np.float32))
        video = torch.empty(encoded.video.numel())
        video[encoded.gather.reshape(-1)] = laid.reshape(-1)
        video = video.reshape(encoded.video.shape)
        mean, std = (z[:, None, None] for z in (encoded.mean, encoded.std))
        return video * ((1 / 255) / std) + (-mean / std) if self.normalises else video

    def read(self, view, tokens):
        """log p of what follows, (V,)."""
        encoded, video = view
        (row,) = self.lm.next_logits(self.lm.prefill(encoded, video), tokens)
        shift = self.noise * np.sin(len(self.requests) + np.arange(len(row.values)))
        return np.minimum(row.values - row.log_partition + shift, 0.0)

    def candidates(self, log_p, top, ids):
        """(token, log p) of the likeliest, and of the wanted; None where that is not given."""
        if ids is not None:
            if not self.chosen:
                return None
            return [(i, float(log_p[i])) for i in ids]
        most = len(log_p) if self.limit is None else self.limit
        top = len(log_p) if top == -1 else top
        if top > most:
            return None
        return [(int(i), float(log_p[i])) for i in np.argsort(-log_p, kind="stable")[:top]]

    def too_many(self, top):
        told = (
            f"Requested sample logprobs of {top}, which is greater than max allowed: {self.limit}"
        )
        return httpx.Response(400, json={"error": {"message": told}})

    def prompt_log_p(self, view, ids):
        """As `prompt_logprobs` has it: null, then an object for each further token."""
        encoded, video = view
        asked = torch.arange(1, len(ids))
        whole = encoded.__class__(**{**encoded.__dict__, "query": asked})
        read = self.lm.question_log_p(whole, self.lm.prefill(whole, video))[0]
        return [
            None,
            *({str(i): {"logprob": float(p)}} for i, p in zip(ids[1:], read, strict=True)),
        ]

    def generated(self, view, rest, how, ids):
        if "prompt_logprob_token_ids" in how:
            told = "prompt_logprob_token_ids requires the V2 model runner"
            return httpx.Response(400, json={"error": {"message": told}})
        if "prompt_logprobs" in how:
            if not self.prompt:
                return httpx.Response(400, json={"error": {"message": "no prompt_logprobs"}})
            return {"prompt_logprobs": self.prompt_log_p(view, ids), "choices": []}
        log_p = self.read(view, rest)
        found = self.candidates(log_p, how["logprobs"], how.get("logprob_token_ids"))
        if found is None:
            return self.too_many(how["logprobs"])
        best = int(log_p.argmax())
        rows = [{"token_id": i, "logprob": p} for i, p in found]
        first = {"token_id": best, "logprob": float(log_p[best]), "top_logprobs": rows}
        return {"choices": [{"token_ids": [best], "logprobs": {"content": [first]}}]}

    def chat(self, body):
        if (refused := self.refusal(body)) is not None:
            return refused
        encoded, _ = self.encode(body)
        written = body["messages"][1]["content"] if len(body["messages"]) > 1 else ""
        rest = self.lm.tokens(written)
        ids = [*encoded.input_ids[0].tolist(), *rest]
        log_p = self.read((encoded, encoded.video), rest)
        found = self.candidates(log_p, body["top_logprobs"], body.get("logprob_token_ids"))
        if found is None:
            return self.too_many(body["top_logprobs"])
        best = int(log_p.argmax())
        rows = [{"token": f"token_id:{i}", "logprob": p} for i, p in found]
        first = {"token": f"token_id:{best}", "logprob": float(log_p[best]), "top_logprobs": rows}
        answer = {
            "prompt_token_ids": ids,
            "choices": [{"token_ids": [best], "logprobs": {"content": [first]}}],
        }
        if "prompt_logprobs" in body:
            if not self.prompt:
                return httpx.Response(400, json={"error": {"message": "no prompt_logprobs"}})
            answer["prompt_logprobs"] = self.prompt_log_p((encoded, encoded.video), ids)
        return answer


def entry(values, kind):
    """A tensor as vLLM packs it."""
    raw = msgpack.ExtType(3, np.ascontiguousarray(values).tobytes())
    return {"data": [str(values.dtype), list(values.shape), raw], "field": [kind, {}]}


def client_of(server, concurrency=4, **how):
    """How `open_server` connects to such a server, without pauses between attempts."""
    how = {"pauses_s": (0.0,), **how}
    return lambda address: Client(
        address, concurrency=concurrency, transport=httpx.MockTransport(server), **how
    )


def opened(server, name=NAME, **how):
    """A reader of it."""
    return open_server(name, connect=client_of(server, **how))
