"""A server that fails in the middle of a run: one sentence, and nothing is lost that was answered.

Faults of a server that is opened are in test_remote.py. Each run here is good until its last
requests, but for what is said otherwise.
"""

import copy
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
import torch

import macd_studio as macd
from macd_studio.core.backbones.remote import client as client_module
from macd_studio.core.backbones.remote.client import Client
from macd_studio.core.backbones.remote.reader import open_server
from macd_studio.core.backbones.remote_address import read_address
from macd_studio.core.errors import RemoteError
from tests.fakes import BoxDetector, clip
from tests.vllm_server import NAME, WRONG, FakeVLLM, opened

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


@pytest.mark.long
def test_after_all_these_faults_the_same_reader_goes_on(held):
    _, lm, plain, _ = held
    again = run(lm)
    assert again.status == "complete"
    assert {n: a.text for n, a in again.answers.items()} == {
        n: a.text for n, a in plain.answers.items()
    }


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


def endless(request):
    """An answer of which pieces come for ever."""

    def pieces():
        while True:
            yield b" " * 1000

    return httpx.Response(200, content=pieces())


def test_an_answer_without_an_end_is_given_up_by_its_size_and_by_its_time(monkeypatch):
    address = read_address(NAME)
    transport = httpx.MockTransport(endless)
    monkeypatch.setattr(client_module, "MOST_BYTES", 10_000)
    with pytest.raises(RemoteError, match="larger than"):
        Client(address, transport=transport).get("/version")
    monkeypatch.setattr(client_module, "MOST_BYTES", 10**18)
    slow = Client(address, transport=transport, pauses_s=(0.0,), answer_s=0.0)
    with pytest.raises(RemoteError, match="did not answer within 0 s, 4 times"):
        slow.get("/version")


# over a socket


class Handler(BaseHTTPRequestHandler):
    """Hands requests to `fake`; `fault` of a number: "cut" off inside the body, or "reset"."""

    protocol_version = "HTTP/1.1"
    fake, fault = None, staticmethod(lambda number: "")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = f"http://{self.headers['Host']}{self.path}"
        answer = self.fake(httpx.Request(self.command, url, content=body))
        kind = self.fault(len(self.fake.requests))
        if kind == "reset":
            self.close_connection = True
            return
        content = answer.content
        self.send_response(answer.status_code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if kind == "cut" else content)
        self.close_connection = self.close_connection or kind == "cut"

    do_GET = do_POST

    def log_message(self, *told):
        """Nothing."""


@contextmanager
def listening(fake, port=0, fault=lambda number: ""):
    """While inside, the stand-in answers at a port; gives it."""
    handler = type("Own", (Handler,), {"fake": fake, "fault": staticmethod(fault)})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def over_sockets(port):
    """A reader of what listens at a port, whose connections are closed in the end."""
    made = []

    def connect(address):
        made.append(Client(address, concurrency=2, pauses_s=(0.0,)))
        return made[0]

    yield open_server(f"vllm:http://127.0.0.1:{port}", connect=connect)
    made[0]._http.close()


@pytest.mark.long
def test_answers_that_are_cut_off_and_connections_that_are_dropped_are_asked_for_again(
    toyworld, held
):
    _, _, plain, _ = held
    faults = {0: "cut", 3: "reset"}
    fake = FakeVLLM(toyworld)
    fault = lambda number: faults.get(number % 7, "")  # noqa: E731
    with listening(fake, fault=fault) as port, over_sockets(port) as lm:
        trace = run(lm)
    assert trace.status == "complete"
    assert {n: a.text for n, a in trace.answers.items()} == {
        n: a.text for n, a in plain.answers.items()
    }


@pytest.mark.long
def test_a_server_that_always_cuts_off_is_told_and_one_that_comes_back_goes_on(toyworld, held):
    _, _, plain, _ = held
    fake, cutting = FakeVLLM(toyworld), threading.Event()
    with ExitStack() as stack:
        with listening(fake, fault=lambda number: "cut" * cutting.is_set()) as port:
            lm = stack.enter_context(over_sockets(port))
            cutting.set()
            with pytest.raises(RemoteError, match=r"broke off its answer 4 times"):
                run(lm)
        with pytest.raises(RemoteError, match="no server answers at"):
            run(lm)
        with listening(fake, port):
            assert {n: a.text for n, a in run(lm).answers.items()} == {
                n: a.text for n, a in plain.answers.items()
            }
