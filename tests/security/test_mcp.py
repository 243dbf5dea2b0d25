"""The MCP server: absent unless asked for, and used by the official client over loopback.

The client's test needs the packages of requirements-mcp.txt, and is left out without them.
"""

import asyncio
import base64
import json

import httpx
import pytest

from core.traces.bundle import unpack
from macd_ui.settings import ServerSettings
from tests.security.conftest import serving

NAMES = {"trace", "compare", "rescore", "open", "evidence"}


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
    assert len(told["rescore"]) == len(told["trace"]["answers"]["macd"]["tokens"])
    assert unpack(told["file"]).question == "Is there a dog?"
    assert "There is no trace" in told["error"] or "there is no trace" in told["error"]


async def conversation(url, clip):
    """What a client hears from each tool, and of the resource."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    told = {}
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as client:
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
        told["rescore"] = await call("rescore", trace=address, alpha=2.0, beta=0.1)
        told["error"] = await call("open", trace="nothing.macd")
        resource = (await client.read_resource(address)).contents[0]
        told["file"] = base64.b64decode(resource.blob)
    return told
