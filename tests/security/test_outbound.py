"""Connections to other machines: a public server opens none that a request could name."""

import os
import socket
import subprocess
import sys
import threading
from urllib.parse import quote

import httpx
import pytest

from macd_studio.core.errors import BackboneNotFound, MacdError
from macd_studio.core.objects.detect import load_detector
from macd_studio.core.system import hub
from macd_studio.core.system.shipped import shipped
from macd_studio.macd_ui.serving.routes import JSON, Doors
from macd_studio.macd_ui.serving.server import with_models
from macd_studio.macd_ui.settings import ServerSettings
from tests import hub as local_hub
from tests.raw import API, Visitor
from tests.security.outbound import guarded, trap

FOREIGN = "http://198.51.100.7/a.mp4"
"""An address that nobody has (RFC 5737)."""


def named(address):
    """Ways to name an address, as a value of a request."""
    file = {"path": address, "url": address, "orig_name": "a.mp4",
            "meta": {"_type": "gradio.FileData"}}  # fmt: skip
    return [address, file, {"video": file}, [file], {"path": None, "url": address},
            file | {"is_stream": True}]  # fmt: skip


def test_the_guard_sees_what_libraries_do():
    with guarded() as tried:
        with pytest.raises(httpx.ConnectError):
            httpx.get(FOREIGN, trust_env=False)
        with pytest.raises(PermissionError):
            socket.getaddrinfo("example.com", 80)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
            with pytest.raises(PermissionError):
                plain.sendto(b"x", ("198.51.100.7", 53))
    assert len(tried) >= 3


def test_no_route_reaches_another_machine(public):
    visitor = Visitor(public.url)
    with guarded() as tried, trap() as (address, asked):
        for door in Doors().all:
            for where in (FOREIGN, address):
                path = filled(door.path, where)
                if door.method == "GET":
                    names = ("url", "path", "file", "session_hash", "upload_id", "__theme")
                    get(visitor, path)
                    get(visitor, path + "?" + "&".join(f"{n}={quote(where)}" for n in names))
                    get(visitor, path, **{"X-Forwarded-Host": where, "X-Gradio-Server": where})
                elif door.body == JSON:
                    body = {"data": named(where), "path": where, "url": where, "fn_index": 0,
                            "session_hash": visitor.hash, "event_id": where}  # fmt: skip
                    visitor.http.post(path, json=body)
        public.quota._uses.clear()
    assert not tried
    assert not asked


def filled(path, address):
    """A route's path with an address in the place of each part that may be anything."""
    out = ""
    for piece in path.split("{"):
        _, brace, rest = piece.rpartition("}")
        whole = ":path" in piece
        out += (address if whole else quote(address, safe="")) + rest if brace else piece
    return out


def get(visitor, path, **headers):
    with visitor.http.stream("GET", path, headers=headers) as answer:
        if "event-stream" not in answer.headers.get("content-type", ""):
            answer.read()


def test_no_input_of_any_event_reaches_another_machine(public):
    visitor = Visitor(public.url)
    names = sorted({d["api_name"] for d in visitor.config["dependencies"] if d["api_name"]})
    sent = 0
    with guarded() as tried, trap() as (address, asked):
        for name in names:
            inputs = visitor.event(name)["inputs"]
            if visitor.event(name).get("backend_fn") is False:
                continue
            for value in named(address)[: 2 if len(inputs) > 4 else None]:
                body = {"data": [value] * len(inputs), "session_hash": visitor.hash}
                answer = visitor.http.post(f"{API}/run/{name}", json=body)
                assert "foreign" not in answer.text
                sent += 1
        visitor.call("trace", named(address)[1], address)
        visitor.call("open", named(FOREIGN)[1])
    assert sent > 2 * len(names) / 3
    assert not tried
    assert not asked


STARTED = r"""
import sys
from macd_studio.core.backbones.load import load_backbone
from macd_studio.core.errors import MacdError
from macd_studio.core.objects.detect import load_detector
from macd_studio.macd_ui.serving.server import with_models
from macd_studio.macd_ui.settings import ServerSettings
listed = ServerSettings(public=True, backbones=("toyworld", "somebody/model", "nobody/none"),
                        detectors=("toyworld", "missing.pt"))
kept = with_models(listed)
print("offered", *kept.backbones, *kept.detectors, flush=True)
sys.stdin.readline()
print("loaded", load_backbone("somebody/model", "cpu").info.name)
for load, name in ((load_backbone, "nobody/other"), (load_detector, "rt-detr"),
                   (load_detector, "yolo11s")):
    try:
        load(name)
    except MacdError as error:
        print(type(error).__name__, error)
"""


def test_only_listed_models_that_are_here_are_offered_and_then_the_hub_is_closed(
    monkeypatch, capsys
):
    def fetch(name, **_):
        assert not closed.is_set()
        if "/none" in name or "missing" in name:
            raise BackboneNotFound("nowhere", "Choose another")

    closed = threading.Event()
    monkeypatch.setattr("macd_studio.core.system.hub._closed", closed)
    monkeypatch.setattr("macd_studio.core.backbones.load.fetch_backbone", fetch)
    monkeypatch.setattr("macd_studio.core.objects.detect.load_detector", fetch)
    listed = ServerSettings(public=True, backbones=("toyworld", "somebody/model", "nobody/none"),
                            detectors=("toyworld", "missing.pt"))  # fmt: skip
    kept = with_models(listed)
    assert kept.backbones == ("toyworld", "somebody/model")
    assert kept.detectors == ("toyworld",)
    warned = capsys.readouterr().err
    assert "the backbone nobody/none is not offered" in warned
    assert "the detector missing.pt is not offered" in warned
    monkeypatch.undo()
    monkeypatch.setattr("macd_studio.core.system.hub._closed", closed)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with guarded() as tried:
        assert not hub.reachable()
        with pytest.raises(MacdError, match="this server downloads nothing any more"):
            load_detector("yolo11s")
    assert not tried


@pytest.mark.long
def test_listed_models_are_fetched_at_the_start_and_nothing_afterwards(tmp_path):
    requests = []
    with local_hub.serving(shipped("backbone"), asked=requests) as address:
        where = {"HF_HOME": str(tmp_path), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0",
                 "HF_ENDPOINT": address}  # fmt: skip
        with subprocess.Popen(
            [sys.executable, "-c", STARTED], env=os.environ | where, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as started:  # fmt: skip
            assert started.stdout.readline() == "offered toyworld somebody/model toyworld\n"
            assert requests
            requests.clear()
            said, warned = started.communicate("\n")
        assert not requests
    assert "loaded somebody/model" in said
    assert said.count("is not on this disk") == 3, said
    assert "the backbone nobody/none is not offered" in warned
    assert "the detector missing.pt is not offered" in warned
