"""Behind proxies: what works by which option, and what is said where nothing does."""

import random
import re
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from bench.visitor import Visitor, read_config
from macd_studio.core.errors import OptionError
from macd_studio.macd_ui.place import CHECK, Place, read_place
from macd_studio.macd_ui.settings import ServerSettings, read_settings
from tests.patience import PATIENCE_S
from tests.reverse_proxy import HUB, WAYS, Way, proxying
from tests.security.conftest import serving
from tests.security.gate_alone import Asked

ROOT = Path(__file__).parents[2]
PREFIX = WAYS[0].prefix
FULL = Place(PREFIX, f"http://{HUB}:7000")


# ---- the option


@pytest.mark.parametrize(("text", "place"), [
    ("", Place()), ("/", Place()), ("/lab", Place("/lab")), ("/lab/", Place("/lab")),
    (" /user/a@b.c/proxy/7860/ ", Place("/user/a@b.c/proxy/7860")),
    ("https://Hub.Example/Lab/", Place("/Lab", "https://hub.example")),
    ("http://hub.example:8000", Place("", "http://hub.example:8000")),
    ("https://[2001:db8::1]:8443/x", Place("/x", "https://[2001:db8::1]:8443")),
])  # fmt: skip
def test_addresses_of_a_page(text, place):
    assert read_place(text) == place


@pytest.mark.parametrize("text", [
    "lab", "hub.example/lab", "ftp://hub.example/", "https://", "https://a b/", "/a?b", "/a#b",
    "/../x", "/a/./b", "//hub.example/lab", "https://u:p@hub.example/", "https://hub.example:0/",
    "https://hub.example:99999/", "/a//b", "/a\nb", "/" + "a" * 600, "https://[::1/", "/<script>",
])  # fmt: skip
def test_what_is_no_address_of_a_page_is_refused(text, capsys):
    with pytest.raises(OptionError, match="as the browser shows it"):
        read_place(text)
    with pytest.raises(SystemExit):
        read_settings(["--root-path", text], {})
    assert "--root-path" in capsys.readouterr().err


def test_the_address_is_an_option_and_allows_its_host():
    named = read_settings(["--root-path", "https://hub.example/lab"], {})
    assert (named.place.address, named.allows_host("hub.example")) == (
        "https://hub.example/lab", True)  # fmt: skip
    assert read_settings([], {"GRADIO_ROOT_PATH": "/lab"}).place == Place("/lab")
    assert read_settings(["--root-path", "/lab"], {}).hosts == read_settings([], {}).hosts
    assert read_settings([], {}).place == Place()


# ---- the gate


def test_a_kept_prefix_is_taken_off_once(tmp_path):
    gate = Asked(tmp_path, place=Place("/a/b"))
    for path, seen in (("/a/b/", "/"), ("/", "/"), ("/a/b/config", "/config"),
                       ("/a/b/learn/x", "/learn/x")):  # fmt: skip
        assert gate.ask(path=path).status == 200, path
        assert (gate.last.path, gate.last.scope["root_path"]) == (seen, "")
        assert gate.last.scope["raw_path"] == seen.encode()
    before = len(gate.app.seen)
    for path in ("/a/b/a/b/config", "/a/bc/config", "/a/config", "/A/B/config", "/a/b//config",
                 "/a/b/../config", "/a/b/monitoring", "/x/a/b/"):  # fmt: skip
        assert gate.ask(path=path).status == 404, path
    assert len(gate.app.seen) == before
    once = gate.ask(path="/a/b")
    assert (once.status, once.headers["location"]) == (308, ["/a/b/"])
    (cookie,) = gate.ask(path="/a/b/").headers["set-cookie"]
    assert "; Path=/a/b;" in cookie
    closed = Asked(tmp_path / "uploads").ask(path="/a/b/")
    assert closed.status == 404
    assert "--root-path" in closed.text


def test_an_address_opens_its_own_pages_and_no_others(tmp_path):
    gate = Asked(tmp_path, place=FULL, hosts=(FULL.host,))
    for origin, status in ((FULL.origin, 200), (FULL.origin.upper(), 200),
                           (f"http://{HUB}", 403), (f"http://{HUB}:7001", 403),
                           (f"{FULL.origin}.evil", 403), ("http://evil.example", 403),
                           ("null", 403), ("", 403)):  # fmt: skip
        assert gate.ask(host="localhost:7860", origin=origin).status == status, origin
    assert gate.ask(host="evil.example").status == 421
    without = Asked(tmp_path / "uploads", place=Place("/lab"))
    assert without.ask(host="localhost:7860", origin="").status == 403


# ---- the table

OPTIONS = {
    "neither": {},
    "a path": {"hosts": (HUB,), "proxies": (ip_network("127.0.0.1"),), "place": Place(PREFIX)},
    "an address": {"place": FULL, "hosts": (HUB,)},
}
"""Settings by what is given; a path alone needs --allow-host and --trusted-proxy too."""
WORKS, SAYS = "works", "says what to set"


def outcome(port, way, run=False):
    """What a browser has of the page by this proxy, followed by hand: its script, course, gallery
    and documents and, if asked for, a whole run by the page's own requests; else words that name an
    option.
    """
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=PATIENCE_S,
        headers={"Host": f"{HUB}:7000"},
    ) as client:  # fmt: skip
        first = client.get(f"{way.prefix}/")
        if first.status_code != 200:
            assert re.search(r"--(allow-host|root-path)", first.text), first.text
            return SAYS
        root = urlsplit(read_config(first.text)["root"])
        if (root.hostname, root.path) != (HUB, way.prefix):
            assert CHECK.read_text(encoding="utf-8") in first.text
            return SAYS
        (script,) = re.findall(r'<script type="module" crossorigin src="\./([^"]+)"', first.text)
        origin = {"Origin": f"http://{HUB}:7000"}
        assert client.get(f"{way.prefix}/{script}", headers=origin).status_code == 200
        for path in ("learn/", "gallery/", "docs/"):
            assert client.get(f"{way.prefix}/{path}").status_code == 200, path
    if not run:
        return WORKS
    where = f"http://127.0.0.1:{port}{way.prefix}"
    with Visitor(where, random.Random(0), host=f"{HUB}:7000") as reader:
        shown = reader.event("run")
        assert shown["status"]["stage"] == "done", shown["status"]
    return WORKS


def outcomes(name, run):
    with serving(ServerSettings(**OPTIONS[name])) as server:
        found = []
        for way in WAYS:
            with proxying(server.url, way) as port:
                found.append(outcome(port, way, run))
    return found


def documented():
    text = (ROOT / "docs" / "hosting.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (taken off|kept) \| (rewritten|kept) \| (sent|none) \| (.+) \|$", text, re.M
    )
    assert len(rows) == len(WAYS)
    found = {}
    for prefix, host, forwarded, cells in rows:
        flags = prefix == "taken off", host == "rewritten", forwarded == "sent"
        found[WAYS[[(w.strips, w.rewrites, w.forwards) for w in WAYS].index(flags)]] = cells.split(
            " | "
        )
    return found


RUNS = pytest.param(True, marks=pytest.mark.long)


@pytest.mark.parametrize("run", [False, RUNS])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_table_holds(name, run):
    """docs/hosting.md says what each proxy and option gives; runs take stand-ins for models."""
    column = list(OPTIONS).index(name)
    assert outcomes(name, run) == [cells[column] for cells in documented().values()]


@pytest.mark.parametrize(
    ("way", "settings"),
    [
        pytest.param(
            replace(WAYS[0], prefix=""),
            {"hosts": (HUB,), "proxies": (ip_network("127.0.0.1"),)},
            marks=pytest.mark.long,
        ),
        (Way(PREFIX, rewrites=True), OPTIONS["an address"]),
    ],
    ids=["no prefix", "kept prefix, another Host"],
)
def test_a_whole_run_behind_a_proxy(way, settings):
    """Without a prefix --allow-host and --trusted-proxy are enough, as for nginx and Caddy."""
    with serving(ServerSettings(**settings)) as server, proxying(server.url, way) as port:
        assert outcome(port, way, run=True) == WORKS
