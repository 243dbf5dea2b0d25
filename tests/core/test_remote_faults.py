"""A server that fails in the middle of a run: one sentence, and nothing is lost that was answered.

Faults of a server that is opened are in test_remote.py. Each run here is good until its last
requests, but for what is said otherwise.
"""

import copy

import httpx
import pytest
import torch

import macd_studio as macd
from macd_studio.core.errors import RemoteError
from tests.fakes import BoxDetector, clip
from tests.vllm_server import WRONG, FakeVLLM, opened

LAST = 3
"""Requests before the end of a run from which on a server fails."""


def run(lm, **more):
    """Two frames, one object, measured masks, at most two tokens."""
    return macd.compare(
        clip(2, 64), "Which animal is in the video?", ["mask-all", "vcd"], backbone=lm,
        detector=BoxDetector((("dog", 0.9, (0.1, 0.1, 0.4, 0.5)),)),
        mask={"frame_mask": "off"}, decode={"max_tokens": 2}, **more,
    )  # fmt: skip


@pytest.fixture(scope="module")
def held(toyworld):
    """A server, its reader, a run without a fault, and how many requests that takes."""
    server = FakeVLLM(toyworld)
    lm = opened(server)
    before = len(server.requests)
    return server, lm, run(lm), len(server.requests) - before


def raising(error):
    def before(number, path):
        raise error("broken")

    return before


def too_many(number, path):
    told = "Requested sample logprobs of -1, which is greater than max allowed: 20"
    return httpx.Response(400, json={"error": {"message": told}})


def other_ids(path, answer):
    for choice in answer.get("choices", []):
        for row in choice["logprobs"]["content"][0]["top_logprobs"]:
            row["token_id"] += 1
    return answer


def beyond(path, answer):
    """Ids that no tokenizer has."""
    for choice in answer.get("choices", []):
        choice["token_ids"] = [10**9]
        first = choice["logprobs"]["content"][0]
        first["token_id"] = 10**9
        first["top_logprobs"] = [{"token_id": 10**9 + i, "logprob": -5.0 - i} for i in range(3)]
    return answer


def too_likely(path, answer):
    for choice in answer.get("choices", []):
        first = choice["logprobs"]["content"][0]
        for row in (first, *first["top_logprobs"]):
            row["logprob"] = -0.01
    return answer


def fewer(path, answer):
    """Only the likeliest of a whole row."""
    for choice in answer.get("choices", []):
        first = choice["logprobs"]["content"][0]
        first["top_logprobs"] = first["top_logprobs"][:4]
    return answer


def text_ids(path, answer):
    for choice in answer.get("choices", []):
        choice["token_ids"] = ["1"]
    return answer


def gone(number, path):
    return httpx.Response(404, json={"detail": "Not Found"})


FAULTS = {
    "answers 500": ({"before": lambda *_: httpx.Response(500, json=WRONG)}, "answers 500: 'boom'"),
    "is silent": ({"before": raising(httpx.ReadTimeout)}, "did not answer within"),
    "is gone": ({"before": raising(httpx.ConnectError)}, "no server answers"),
    "breaks off": ({"before": raising(httpx.RemoteProtocolError)}, "broke off its answer"),
    "limits log-probabilities": ({"before": too_many}, "greater than max allowed"),
    "lacks the exact way": ({"before": gone}, "answers 404"),
    "writes no JSON": ({"before": lambda *_: httpx.Response(200, text="<p>")}, "is not JSON"),
    "names other ids": ({"after": other_ids}, "cannot be used"),
    "names ids of no token": ({"after": beyond}, "and the model has none"),
    "names ids as text": ({"after": text_ids}, "in the place of a token's id"),
    "says more than all": ({"after": too_likely}, "add up to more than 1"),
    "leaves tokens out": ({"after": fewer}, "leaves tokens out of a whole row"),
}
SOME = ("breaks off", "names ids of no token", "leaves tokens out")
"""Those that `make test` tries."""


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=() if f in SOME else pytest.mark.long) for f in FAULTS]
)
def test_what_was_answered_before_a_fault_is_kept(fault, held):
    server, lm, plain, requests = held
    wrong, told = FAULTS[fault]
    last = len(server.requests) + requests - LAST
    if "before" in wrong:
        server.before = lambda number, path: (
            wrong["before"](number, path) if number > last else None
        )
    else:
        server.after = lambda path, answer: (
            wrong["after"](path, answer) if len(server.requests) > last else answer
        )
    try:
        trace = run(lm)
    finally:
        server.before = server.after = None
    assert trace.status.startswith("stopped")
    assert sum(told in warning for warning in trace.warnings) == 1
    assert not any("\n" in warning or "Traceback" in warning for warning in trace.warnings)
    assert trace.answers
    for name, answer in trace.answers.items():
        kept = [step.token for step in answer.tokens]
        assert kept == [step.token for step in plain.answers[name].tokens][: len(kept)]


@pytest.mark.parametrize("exact", [True, pytest.param(False, marks=pytest.mark.long)])
def test_frames_that_are_left_out_later_are_noticed_too(exact, toyworld):
    """As of a server that was started anew with other options, under the same address."""
    server = FakeVLLM(toyworld, exact=exact)
    lm = opened(server)
    server.keeps = lambda at: at[:1]
    with pytest.raises(RemoteError, match="differs from the one made here") as told:
        macd.compare(
            clip(4, 64), "Which animal is in the video?", ["vcd"], backbone=lm,
            detector=BoxDetector(()), decode={"max_tokens": 2},
        )  # fmt: skip
    assert "--trust-request-mm-kwargs" in str(told.value)


def test_a_server_that_is_started_anew_with_another_model_is_noticed(held, toyworld):
    """Prompts, ids and pixels are the same then; only numbers are others."""
    server, lm, plain, requests = held
    other = copy.deepcopy(toyworld)
    with torch.no_grad():
        next(other.model.parameters()).mul_(1.01)
    restart = len(server.requests) + requests - LAST
    broken = set()

    def before(number, path):
        if number > restart and path not in broken:
            broken.add(path)
            server.lm = other
            raise httpx.ConnectError("refused")

    server.before = before
    try:
        trace = run(lm)
        assert trace.status.startswith("stopped")
        assert any("started anew, with another model" in w for w in trace.warnings)
        assert trace.answers
        for name, answer in trace.answers.items():
            assert plain.answers[name].text.startswith(answer.text)
        server.before = None
        with pytest.raises(RemoteError, match="another model"):
            run(lm)
    finally:
        server.before, server.lm = None, toyworld


# over a socket


def test_a_server_that_is_no_vllm_is_told(toyworld):
    with pytest.raises(RemoteError, match=r"no vLLM answers at .* Write it as vllm:http://"):
        opened(FakeVLLM(toyworld, before=gone))
