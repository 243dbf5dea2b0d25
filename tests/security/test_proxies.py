"""Behind a proxy visitors are told apart, and nobody but a trusted proxy says who asks for what."""

import ipaddress
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from macd_studio.macd_ui.api import VISITOR
from macd_studio.macd_ui.quota import Quota
from macd_studio.macd_ui.serving.gate import Gate
from macd_studio.macd_ui.serving.identity import address
from macd_studio.macd_ui.settings import PRIVATE, ServerSettings, read_settings
from tests.raw import Visitor


def test_addresses_behind_a_proxy_are_those_that_the_proxy_saw():
    one, two = (address(f"2a01:4f8::{i}", [], ()) for i in (1, 2))
    assert one == two  # one subscriber has a /64
    assert address("a socket", ["8.8.8.8"], PRIVATE) == "a socket"
    assert address("::ffff:9.9.9.9", [], ()) == "9.9.9.9"


PROXIED = {
    "an entry of the proxy": ("10.1.1.1", ["1.1.1.1, 8.8.4.4"], "8.8.4.4"),
    "two proxies": ("10.1.1.1", ["1.1.1.1, 8.8.4.4, 10.0.0.3"], "8.8.4.4"),
    "a header in two lines": ("10.1.1.1", ["1.1.1.1", "8.8.4.4"], "8.8.4.4"),
    "with a port": ("10.1.1.1", ["8.8.4.4:1234"], "8.8.4.4"),
    "IPv6 with a port": ("10.1.1.1", ["[2a01:4f8::1]:80"], "2a01:4f8::/64"),
    "from nobody's proxy": ("9.9.9.9", ["8.8.4.4"], "9.9.9.9"),
    "no address": ("10.1.1.1", ["8.8.4.4, <script>"], "10.1.1.1"),
    "a forged end": ("10.1.1.1", ["10.0.0.9, 8.8.4.4"], "8.8.4.4"),
    "nothing": ("10.1.1.1", [], "10.1.1.1"),
    "proxies alone": ("10.1.1.1", ["10.0.0.2"], "10.0.0.2"),
    "mapped": ("::ffff:10.1.1.1", ["8.8.4.4"], "8.8.4.4"),
}


@pytest.mark.parametrize("what", PROXIED)
def test_a_visitor_is_who_the_last_trusted_proxy_saw(what):
    peer, forwarded, expected = PROXIED[what]
    assert address(peer, forwarded, PRIVATE) == expected
    assert address(peer, forwarded, ()) == address(peer, [], ())


async def _echo(request):
    names = ("host", VISITOR, "x-forwarded-host", "forwarded")
    return JSONResponse({"scheme": request.url.scheme} | {n: request.headers.get(n) for n in names})


def asked(peer, headers, **settings):
    """What the app behind the gate is told of a request from this peer."""
    named = ServerSettings(hosts=("studio.example",), **settings)
    store = SimpleNamespace(settings=named, site=None, quota=Quota(None))
    app = Gate(Starlette(routes=[Route("/", _echo)]), store)
    client = TestClient(app, base_url="http://localhost", client=(peer, 1))
    return client.get("/", headers=headers)


CLAIMS = {"X-Forwarded-For": "8.8.4.4", "X-Forwarded-Host": "studio.example",
          "X-Forwarded-Proto": "https", "Forwarded": "host=evil.example"}  # fmt: skip


def test_only_a_trusted_proxy_says_for_whom_it_asks():
    proxies = (ipaddress.ip_network("10.0.0.0/8"),)
    told = asked("10.2.3.4", CLAIMS, proxies=proxies).json()
    assert told == {"scheme": "https", "host": "studio.example", VISITOR: "8.8.4.4",
                    "x-forwarded-host": None, "forwarded": None}  # fmt: skip
    for peer, trusted in (("11.2.3.4", proxies), ("10.2.3.4", ()), ("127.0.0.1", ())):
        told = asked(peer, CLAIMS, proxies=trusted).json()
        assert told == {"scheme": "http", "host": "localhost", VISITOR: peer,
                        "x-forwarded-host": None, "forwarded": None}  # fmt: skip


def test_the_host_that_a_proxy_names_is_checked():
    proxies = (ipaddress.ip_network("10.0.0.0/8"),)
    foreign = {"X-Forwarded-Host": "studio.example, evil.example"}
    assert asked("10.2.3.4", foreign, proxies=proxies).status_code == 421
    assert asked("11.2.3.4", foreign, proxies=proxies).status_code == 200  # it is not read
    assert asked("10.2.3.4", foreign, proxies=PRIVATE, space=True).json()["host"] == "localhost"


def test_a_program_of_this_machine_is_no_proxy(public):
    """Which uvicorn would believe otherwise."""
    visitor = Visitor(public.url, **{"X-Forwarded-For": "8.8.8.8"})
    visitor.send("change", question="why?")
    assert "127.0.0.1" in {session.visitor for session in public.sessions._by_key.values()}
    assert "8.8.8.8" not in {session.visitor for session in public.sessions._by_key.values()}


def test_proxies_are_configured():
    words = ["--trusted-proxy", "10.1.2.3/8", "--trusted-proxy", "::1"]
    assert list(map(str, read_settings(words, {}).proxies)) == ["10.0.0.0/8", "::1/128"]
    named = {"MACD_TRUSTED_PROXIES": "192.0.2.1, 192.0.2.2"}
    assert len(read_settings([], named).proxies) == 2
    assert read_settings([], {}).proxies == ()
    assert read_settings([], {"SPACE_ID": "a/b"}).proxies == PRIVATE
    for words, env in ((["--trusted-proxy", "nginx"], {}), ([], {"MACD_TRUSTED_PROXIES": "x"})):
        with pytest.raises(SystemExit):
            read_settings(words, env)
