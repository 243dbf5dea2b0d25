"""A trace as one HTML file: the same viewer, opens from disk, asks nothing of any network.

`standalone` holds everything; `linked` shares the script and the style of its folder with others.
"""

from __future__ import annotations

from html import escape
from typing import Any

from macd_studio.core.types import Trace
from macd_studio.viewer.bundle import JS, bundle, style
from macd_studio.viewer.payload import payload, status
from macd_studio.viewer.shrink import as_text

SCRIPT_NAME, STYLE_NAME = "viewer.js", "viewer.css"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="POLICY">
<title>TITLE</title>
STYLE
</head>
<body>
BEFORE<main id="viewer"></main>
<script type="application/json" id="trace">DATA</script>
SCRIPT
</body>
</html>
"""
_INLINE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
LINKED = (
    # opened from disk, a browser may not count a file beside it as 'self'
    "default-src 'none'; img-src 'self' data: file:; style-src 'self' 'unsafe-inline' file:;"
    " script-src 'self' file:"
)
"""Content security policy of pages that share files in their folder."""
COMPUTING = LINKED + " 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'"
"""The same where a worker runs the embedded model: WebAssembly, and files of the site's own."""
_BODY = """body { margin: 0 auto; padding: var(--gap-3) var(--gap-5); max-width: 2400px; }
body { background: var(--paper); color: var(--ink); }
body > header { font: var(--type-s)/1.5 var(--face); overflow-wrap: anywhere; }
body > header h1 { font-size: var(--type-s); font-weight: 600; margin: 0 0 var(--gap-1); }
.mv-above { border-bottom: 1px solid var(--line); margin-bottom: var(--gap-2); }
.mv-above h1 { font-size: var(--type-m); line-height: 1.35; margin: 0; }
.mv-above p { color: var(--quiet); margin: 0; }
.mv-above a { color: var(--accent); }
@media (max-width: 600px) { body { padding: var(--gap-3); } }
"""


def standalone(trace: Trace) -> str:
    """The file's text. Its JSON data holds no `<`, so that nothing in it is markup."""
    return _filled(
        POLICY=_INLINE,
        TITLE="MACD trace",
        STYLE=f"<style>\n{page_style()}\n</style>",
        BEFORE="<header><h1>MACD trace</h1></header>\n",
        DATA=as_text(payload(trace, status())),
        SCRIPT=f"<script>\n{shared_script()}\n</script>",
    )


def linked(
    data: dict[str, Any], title: str, up: str = "", before: str = "", policy: str = LINKED
) -> str:
    """A page of a payload, whose script and style are SCRIPT_NAME and STYLE_NAME in `up`.

    up: path of that folder, relative and with its final slash. before: markup above the viewer.
    policy: of its content.
    """
    return _filled(
        POLICY=policy,
        TITLE=escape(title),
        STYLE=f'<link rel="stylesheet" href="{up}{STYLE_NAME}">',
        BEFORE=before,
        DATA=as_text(data),
        SCRIPT=f'<script src="{up}{SCRIPT_NAME}"></script>',
    )


def shared_script() -> str:
    """The script of an exported page."""
    return f"{bundle(JS / 'standalone.js')};"


def page_style() -> str:
    """The style of an exported page."""
    return style() + _BODY


def _filled(**parts: str) -> str:
    """The page; a part that holds the name of another place stays as it is."""
    text, rest = "", _PAGE
    for name in ("POLICY", "TITLE", "STYLE", "BEFORE", "DATA", "SCRIPT"):
        before, rest = rest.split(name, 1)
        text += before + parts.get(name, "")
    return text + rest
