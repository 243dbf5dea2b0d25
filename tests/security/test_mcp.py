"""The MCP server: absent unless asked for, and used by the official client over loopback.

The client's tests need the packages of requirements-mcp.txt, and are left out without them;
`make mcp-check` runs them in an environment that has them.
"""

import asyncio
import base64
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from macd_studio.core.traces.bundle import load, unpack
from macd_studio.macd_ui.settings import ServerSettings
from tests.patience import PATIENCE_S
from tests.security.conftest import serving

ROOT = Path(__file__).parents[2]
PRINTED = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "mcp.md").read_text(), re.S)

NAMES = {"trace", "compare", "rescore", "open", "evidence", "enough"}


def test_no_tool_is_there_without_the_option(store):
    info = store.page.get_api_info()
    assert set(info["named_endpoints"]) == {"/trace", "/rescore", "/open"}
    for method in ("GET", "POST"):
        answer = httpx.request(method, f"{store.url}/gradio_api/mcp/", json={}, trust_env=False)
        assert answer.status_code == 404


def test_the_official_client_uses_every_tool(make_video):
    pytest.importorskip("mcp")
    with serving(ServerSettings(mcp=True)) as store:
        foreign = {"Origin": "http://evil.example"}
        place = f"{store.url}/gradio_api/mcp/"
        assert httpx.post(place, json={}, headers=foreign, trust_env=False).status_code == 403
        told = asyncio.run(conversation(f"{store.url}/gradio_api/mcp/", str(make_video())))
    assert set(told["tools"]) == NAMES
    assert told["schema"]["required"] == ["video", "question"]
    assert told["templates"] == ["trace://{name}"]
    assert set(told["trace"]["answers"]) == {"baseline", "macd"}
    assert set(told["compare"]["answers"]) == {"baseline", "macd", "vcd"}
    assert told["open"]["answers"] == told["trace"]["answers"]
    assert told["evidence"]["objects"]
    assert "made by 'bytes'" in told["enough"]  # only the embedded model is loaded again
    assert len(told["rescore"]) == len(told["trace"]["answers"]["macd"]["tokens"])
    assert unpack(told["file"]).question == "Is there a dog?"
    assert told["error"] == "there is no trace 'nothing.macd'. Check the file name."


@pytest.mark.long
def test_the_printed_client_runs_against_the_printed_server(tmp_path):
    pytest.importorskip("mcp")
    (snippet,) = PRINTED
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    log = tmp_path / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "app.py", "--mcp", "--port", str(port)],
            cwd=ROOT, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        until = time.monotonic() + PATIENCE_S
        while not answers(url):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        assert "http://127.0.0.1:7860/" in snippet
        done = subprocess.run(
            [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c",
             snippet.replace("http://127.0.0.1:7860/", url)],
            cwd=tmp_path, env=os.environ | {"PYTHONIOENCODING": "utf-8"},
            capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
    assert done.returncode == 0, done.stderr
    trace = load(tmp_path / "run.macd")
    assert trace.question == "Is there a cat?"
    expected = [f"{name} → {answer.text}" for name, answer in trace.answers.items()]
    lines = done.stdout.splitlines()
    assert lines[: len(expected)] == expected
    labels = [t.label for t in trace.tracks]
    objects = lines[len(expected) : len(expected) + len(labels)]
    assert sorted(line.rpartition(" ")[0] for line in objects) == sorted(labels)
    assert "the loss moves the way" in lines[-1]


def answers(url):
    """Whether a server answers there."""
    try:
        return httpx.get(url, timeout=PATIENCE_S, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


async def conversation(url, clip):
    """What a client hears from each tool, and of the resource."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    told = {}
    async with (
        streamable_http_client(url) as (read, write, *_),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        listed = (await client.list_tools()).tools
        told["tools"] = [t.name for t in listed]
        told["schema"] = next(t.inputSchema for t in listed if t.name == "trace")
        templates = (await client.list_resource_templates()).resourceTemplates
        told["templates"] = [t.uriTemplate for t in templates]

        async def call(name, **given):
            answer = await client.call_tool(name, given)
            text = answer.content[0].text
            return text if answer.isError else json.loads(text)

        told["trace"] = await call("trace", video=clip, question="Is there a dog?")
        address = told["trace"]["trace"]
        told["compare"] = await call("compare", video=clip, question="Is it?", methods=["vcd"])
        told["open"] = await call("open", trace=address)
        told["evidence"] = await call("evidence", trace=address)
        told["enough"] = await call("enough", trace=address)
        told["rescore"] = await call("rescore", trace=address, alpha=2.0, beta=0.1)
        told["error"] = await call("open", trace="nothing.macd")
        resource = (await client.read_resource(address)).contents[0]
        told["file"] = base64.b64decode(resource.blob)
    return told
