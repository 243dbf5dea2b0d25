"""Where browsers find the page, where a proxy before the server shows it at another address.

place = read_place("https://hub.example/user/ada/proxy/7860")
place.path      "/user/ada/proxy/7860", which requests may bring or not: proxies differ
place.origin    "https://hub.example", whose scripts are the page's own

The server learns the address from its operator alone. Where it differs from the one in the
browser, `CHECK` in the page says what to set, as the page's scripts cannot be had then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from macd_studio.core.errors import OptionError

CHECK = Path(__file__).parent / "js" / "place.js"
"""A script in the HTML of the page."""
REMEDY = "Give it as the browser shows it: https://hub.example/user/ada/proxy/7860, or its path"
_PATH = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")
_HOST = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
MOST = 500
"""Letters of an address."""


@dataclass(frozen=True)
class Place:
    """The address of the page. path: "" or one that begins with "/" and does not end in it.

    origin: scheme, host and port, in lower case; "" where the request's own host counts.
    """

    path: str = ""
    origin: str = ""

    @property
    def host(self) -> str:
        """The host's name without a port, in lower case; "" without an origin."""
        return urlsplit(self.origin).hostname or ""

    @property
    def address(self) -> str:
        """Origin and path; "" where the page is at / of whatever host it is asked for."""
        return self.origin + self.path

    def below(self, path: str) -> str | None:
        """The path of a request without that of the place; None for the place itself without "/".

        A proxy that takes it off and one that keeps it are answered alike.
        """
        if not self.path or not f"{path}/".startswith(f"{self.path}/"):
            return path
        return path[len(self.path) :] or None


ANYWHERE = Place()
"""At / of whatever host the page is asked for by."""


def read_place(text: str) -> Place:
    """A place from an address such as "https://hub.example/lab", or its path alone, "/lab".

    Raises OptionError for what is neither.
    """
    whole = text.strip().rstrip("/")
    try:
        parts = urlsplit(whole)
        port = parts.port
    except ValueError:
        raise _not_a_place(text) from None
    origin = f"{parts.scheme}://{parts.netloc}".lower() if parts.scheme or parts.netloc else ""
    known = not origin or (parts.scheme in ("http", "https") and _HOST.fullmatch(parts.netloc))
    dots = {".", ".."} & set(parts.path.split("/"))
    if (
        not known
        or port == 0
        or dots
        or not _PATH.fullmatch(parts.path)
        or re.search(r"[\s?#]", whole)
        or len(whole) > MOST
    ):
        raise _not_a_place(text)
    return Place(parts.path, origin)


def _not_a_place(text: str) -> OptionError:
    return OptionError(f"{text[:80]!r} is not the address of a page", REMEDY)
