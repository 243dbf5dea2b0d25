"""Behind a proxy visitors are told apart, and nobody but a trusted proxy says who asks for what."""

import pytest

from macd_studio.macd_ui.serving.identity import address
from macd_studio.macd_ui.settings import PRIVATE, read_settings


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
