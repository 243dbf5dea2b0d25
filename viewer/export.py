"""A trace as one HTML file: the same viewer, opens from disk, asks nothing of any network.

`standalone` holds everything; `linked` shares the script and the style of its folder with others.
"""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from macd_studio.core.pages.frame import page, template
from macd_studio.core.types import Trace
from macd_studio.viewer.bundle import JS, bundle, style
from macd_studio.viewer.payload import payload, status
from macd_studio.viewer.shrink import as_text

SCRIPT_NAME, STYLE_NAME = "viewer.js", "viewer.css"
_BODY = template("""\
{{ before }}<main id="viewer"></main>
<script type="application/json" id="trace">{{ data }}</script>
{{ script }}""")
_INLINE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
LINKED = (
    # opened from disk, a browser may not count a file beside it as 'self'
    "default-src 'none'; img-src 'self' data: file:; style-src 'self' 'unsafe-inline' file:;"
    " script-src 'self' file:"
)
"""Content security policy of pages that share files in their folder."""
COMPUTING = LINKED + " 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'"
"""The same where a worker runs the embedded model: WebAssembly, and files of the site's own."""
_STYLE = """body { margin: 0 auto; padding: var(--gap-3) var(--gap-5); max-width: 2400px; }
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
    return page(
        "MACD trace",
        _BODY(
            before=Markup("<header><h1>MACD trace</h1></header>\n"),
            data=Markup(as_text(payload(trace, status()))),
            script=Markup(f"<script>\n{shared_script()}\n</script>"),
        ),
        policy=_INLINE,
        style=page_style() + "\n",
    )


def linked(
    data: dict[str, Any],
    title: str,
    up: str = "",
    before: Markup | None = None,
    policy: str = LINKED,
) -> str:
    """A page of a payload, whose script and style are SCRIPT_NAME and STYLE_NAME in `up`.

    up: path of that folder, relative and with its final slash. before: markup above the viewer.
    policy: of its content.
    """
    script = Markup('<script src="{}"></script>').format(up + SCRIPT_NAME)
    body = _BODY(before=before or Markup(""), data=Markup(as_text(data)), script=script)
    return page(title, body, policy=policy, stylesheet=up + STYLE_NAME)


def shared_script() -> str:
    """The script of an exported page."""
    return f"{bundle(JS / 'standalone.js')};"


def page_style() -> str:
    """The style of an exported page."""
    return style() + _STYLE
