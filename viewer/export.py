"""A trace as one HTML file: the same viewer, opens from disk, asks nothing of any network."""

from __future__ import annotations

import json

from core.types import Trace
from viewer.bundle import JS, bundle, style
from viewer.payload import payload, status

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>MACD trace</title>
<style>
body { margin: 0 auto; padding: 24px; max-width: 1400px; background: #fff; }
@media (prefers-color-scheme: dark) { body { background: #1b1f24; } }
STYLE
</style>
</head>
<body>
<main id="viewer"></main>
<script type="application/json" id="trace">DATA</script>
<script>
SCRIPT;
</script>
</body>
</html>
"""


def standalone(trace: Trace) -> str:
    """The file's text. Data is JSON in which no `<` stands, so that nothing in it is markup."""
    data = json.dumps(payload(trace, status()), allow_nan=False)
    data = data.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    before, after = _PAGE.split("DATA")
    before = before.replace("STYLE", style())
    return before + data + after.replace("SCRIPT", bundle(JS / "standalone.js"))
