"""Servers that drip, flood or code their answers: every exchange ends, and takes bounded memory."""

import gzip
import json
import sys
import threading
import time
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.hostile_servers import MEMORY_MB, SLACK, markdown, measure
from bench.hostile_servers import answering as serving
from macd_studio.core.backbones.remote import client as client_module
from macd_studio.core.backbones.remote.client import Client
from macd_studio.core.backbones.remote_address import read_address
from macd_studio.core.errors import RemoteError
from macd_studio.core.options import read_options
from macd_studio.core.run import pipeline
from tests.fakes import BoxDetector, clip
from tests.hostile_servers import DRIPPING, FLOODING, TEXTS, coded
from tests.vllm_server import FakeVLLM, opened

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WHOLE_S = 0.8
SAMPLE = ("headers that drip", "early hints without end", "gzip of empty blocks", "nothing")


@contextmanager
def answering(pieces, pause=0.0):
    """The address of a server that answers every request with these pieces."""
    with serving(pieces, pause) as port:
        yield read_address(f"vllm:http://127.0.0.1:{port}")


@contextmanager
def asking(address, **how):
    """A client whose connections are closed in the end."""
    client = Client(address, **how)
    try:
        yield client
    finally:
        client._http.close()


@pytest.mark.parametrize(
    "what", [w if w in SAMPLE else pytest.param(w, marks=pytest.mark.long) for w in DRIPPING]
)
def test_an_exchange_ends_whatever_arrives(what, monkeypatch):
    monkeypatch.setattr(client_module, "TRIES", 2)
    began = time.monotonic()
    with answering(DRIPPING[what], pause=0.005) as address:
        with (
            asking(address, pauses_s=(0.0,), answer_s=WHOLE_S / 2) as client,
            pytest.raises(RemoteError, match=r"did not answer within|broke off"),
        ):
            client.get("/version")
    assert WHOLE_S <= time.monotonic() - began < 4 * 10 * WHOLE_S


def test_a_flood_ends_by_its_bytes(monkeypatch):
    monkeypatch.setattr(client_module, "MAX_BYTES", 200_000)
    monkeypatch.setattr(client_module, "MAX_HEADERS", 1000)

    def flood():
        while True:
            yield b"HTTP/1.1 103 Early Hints\r\nLink: </aaaaaaaaaaaaaaaa>\r\n\r\n" * 50

    with answering(flood) as address:
        with (
            asking(address, pauses_s=(0.0,), answer_s=60) as client,
            pytest.raises(RemoteError, match="broke off its answer"),
        ):
            client.get("/version")


def test_what_a_coding_unpacks_to_is_bounded_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(client_module, "MAX_BYTES", 2**20)
    bomb = gzip.compress(bytes(200 * 2**20), 1)
    with answering(coded(bomb, b"gzip")) as address:
        tracemalloc.start()
        with (
            asking(address, pauses_s=(0.0,)) as client,
            pytest.raises(RemoteError, match="larger than 1 MB"),
        ):
            client.get("/version")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 20 * 2**20


def test_one_coding_is_read_and_two_are_refused():
    body = json.dumps({"version": "0.11"}).encode()
    with answering(coded(gzip.compress(body), b"gzip")) as address, asking(address) as client:
        assert client.get("/version") == {"version": "0.11"}
    for content, coding, says in (
        (gzip.compress(gzip.compress(body)), b"gzip, gzip", "codes its answer as 'gzip, gzip'"),
        (b"not packed", b"gzip", "broke off its answer 4 times"),
    ):
        with (
            answering(coded(content, coding)) as address,
            asking(address, pauses_s=(0.0,)) as client,
            pytest.raises(RemoteError, match=says),
        ):
            client.get("/version")


def test_json_of_many_small_values_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(client_module, "MAX_PARSED", 4 * 2**20)
    content = b"[" + b"[]," * 100_000 + b"[]]"
    tracemalloc.start()
    with pytest.raises(RemoteError, match="more values than 4 MB have room for"):
        client_module.read_json(content, float)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20
    # Python to 3.13 counts the depth, later ones ask the stack for room
    told = "nested" if sys.version_info < (3, 14) else "Expecting value"
    with pytest.raises(ValueError, match=told):
        client_module.read_json(b"[" * 40_000, float)


ROWS = [
    b"[" + b"[]," * 50_000 + b"[]]",
    json.dumps([{str(i): [i, 0.5]} for i in range(20_000)]).encode(),
    json.dumps(
        {str(i): {"logprob": -i / 7, "rank": i, "decoded_token": f"t{i}"} for i in range(20_000)}
    ).encode(),
    json.dumps(list(range(100_000))).encode(),
]


@pytest.mark.parametrize("content", ROWS)
def test_the_estimate_of_json_holds(content):
    """What Python really takes is no more than was estimated."""
    each = {b"{": client_module.OBJECT, b"[": client_module.LIST, b",": client_module.VALUE}
    most = sum(size * content.count(mark) for mark, size in each.items())
    tracemalloc.start()
    kept = client_module.read_json(content, float)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept
    assert taken <= most + 2 * len(content)


def test_a_run_says_which_silent_server_it_waits_for_and_ends_on_stop(toyworld, monkeypatch):
    monkeypatch.setattr(client_module, "SILENT_S", 0.3)
    release, stop = threading.Event(), threading.Event()
    server = FakeVLLM(toyworld)
    lm = opened(server)
    server.before = lambda number, path: release.wait(60)
    options = read_options(
        None, {"ascent": {"gradient": "difference"}, "mask": {"frame_mask": "off"}}
    )
    detector = BoxDetector((("dog", 0.9, (0.1, 0.1, 0.4, 0.5)),))
    question = "Which animal is in the video?"
    told = []
    for event in pipeline.run(
        lambda: clip(2, 64), question, lambda: lm, lambda: detector, options, cancelled=stop.is_set
    ):
        told.append(event.message)
        if "vllm.test:8000 has sent nothing for" in event.message:
            stop.set()
    assert not release.is_set()
    assert any("has sent nothing" in message for message in told), told
    assert event.trace.status.startswith("stopped")
    release.set()


def test_the_table_of_hostile_servers_is_of_the_committed_run_and_keeps_the_bounds():
    root = Path(__file__).parents[2]
    report = json.loads((root / "bench/results/hostile-servers.json").read_text())
    rows = report["rows"]
    assert list(rows) == [*DRIPPING, *FLOODING, *TEXTS]
    assert len(rows) >= 40
    assert max(row["seconds"] for row in rows.values()) < SLACK * report["scaled_s"]
    assert max(row["mb"] for row in rows.values()) < MEMORY_MB
    assert markdown(rows) in (root / "docs" / "security.md").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize("what", [*FLOODING, *TEXTS])
def test_a_flood_takes_no_more_than_its_bounds(what):
    row = measure((FLOODING | TEXTS)[what])
    assert row["mb"] < MEMORY_MB
    assert row["answer"]
