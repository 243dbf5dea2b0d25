"""Who sends a request: the cookie of a browser, the tab in it, and the address it comes from.

The page's script makes up the session hash of a tab by itself, so anyone who learns one could read
and stop that tab's runs. Inside the server a tab therefore goes by a key made from its hash and
the browser's cookie: with another cookie the same hash means another, empty session.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Sequence
from http.cookies import CookieError, SimpleCookie

from macd_studio.macd_ui.settings import Network

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_WITH_PORT = re.compile(r"\[([0-9a-fA-F:.]+)\](?::\d+)?|([0-9.]+):\d+")
COOKIE = "macd_visitor"
_COOKIE = re.compile(r"[A-Za-z0-9_-]{43}")
TAB, PROGRAM = "tab-", "program-"
MAX_HASH = 100
_SECRET = secrets.token_bytes(32)


def new_cookie() -> str:
    """A value with 256 random bits."""
    return secrets.token_urlsafe(32)


def set_cookie(value: str, space: bool, path: str = "") -> str:
    """The Set-Cookie header. space: the page is a frame of another site's page. path: of the page,
    as other servers may share its host.
    """
    where = "SameSite=None; Secure; Partitioned" if space else "SameSite=Lax"
    return f"{COOKIE}={value}; Path={path or '/'}; HttpOnly; {where}"


def read_cookie(header: str | None) -> str | None:
    """The visitor's cookie from a Cookie header; None if there is none, or no such value."""
    try:
        cookie = SimpleCookie(header or "").get(COOKIE)
    except CookieError:
        return None
    return cookie.value if cookie is not None and _COOKIE.fullmatch(cookie.value) else None


def session_key(session_hash: str, cookie: str | None) -> str:
    """The tab, or the program, that a session hash means together with a cookie."""
    return (TAB if cookie else PROGRAM) + _keyed(f"{cookie or ''}|{session_hash}")


def browser_key(cookie: str) -> str:
    """What the server remembers of a cookie: enough to know it again, not the cookie."""
    return _keyed(cookie)


def _keyed(identifier: str) -> str:
    content = identifier.encode("utf-8", "surrogatepass")
    return hmac.new(_SECRET, content, hashlib.sha256).hexdigest()[:40]


def is_tab(key: str) -> bool:
    """Whether the key is of a browser's tab that holds our cookie."""
    return key.startswith(TAB)


def address(peer: str, forwarded: Sequence[str], proxies: Sequence[Network]) -> str:
    """Where a request comes from, as a key: an IPv4 address, or the /64 network of an IPv6 one.

    peer: the other end of the connection. forwarded: the values of X-Forwarded-For, to which each
    proxy appends the address of its own peer; read from the end, and only as far as the networks
    of trusted proxies reach: what stands further left can be made up.
    """
    place = _parsed(peer)
    if place is None:
        return peer
    for entry in reversed(",".join(forwarded).split(",")):
        before = _parsed(entry)
        if before is None or not _in_any(place, proxies):
            break
        place = before
    return _network(place)


def is_proxy(peer: str, proxies: Sequence[Network]) -> bool:
    """Whether the other end of a connection is a trusted proxy."""
    place = _parsed(peer)
    return place is not None and _in_any(place, proxies)


def _parsed(entry: str) -> IPAddress | None:
    """The address of an entry, also one with a port; None for anything else."""
    text = entry.strip()
    if with_port := _WITH_PORT.fullmatch(text):
        text = with_port[1] or with_port[2]
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return mapped or parsed


def _in_any(place: IPAddress, networks: Sequence[Network]) -> bool:
    return any(place in network for network in networks)


def _network(ip: IPAddress) -> str:
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(ip) >> 64 << 64, 64)))
    return str(ip)
