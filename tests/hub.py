"""A model hub on this machine: the few answers that the hub's client asks for."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REVISION = "0123456789abcdef0123456789abcdef01234567"


@contextmanager
def serving(
    folder: Path,
    gated: bool = False,
    bytes_per_s: float = 1e9,
    breaks_at: int | None = None,
    failing: bool = False,
) -> Iterator[str]:
    """Address of a hub that has one model, `somebody/model`, with the files of a folder.

    breaks_at: bytes of a file after which the connection is closed; failing: it only answers 500.
    """
    files = {f.name: f.read_bytes() for f in folder.iterdir() if f.is_file()}
    files["model.onnx"] = b"not wanted"

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return None

        def _json(self, found: object) -> None:
            self._send(200, json.dumps(found).encode(), {"Content-Type": "application/json"})

        def _send(self, code: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(code)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "HEAD":
                return
            for at in range(0, len(body), 500_000):
                if breaks_at is not None and at >= breaks_at:
                    self.close_connection = True
                    self.connection.close()
                    return
                part = body[at : at + 500_000]
                self.wfile.write(part)
                time.sleep(len(part) / bytes_per_s)

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            name = path.rsplit("/", 1)[-1]
            if failing:
                self._send(500, b"", {})
            elif gated:
                self._send(403, b"", {"X-Error-Code": "GatedRepo"})
            elif path.startswith("/api/models/somebody/model/tree"):
                self._json(
                    [
                        {"type": "file", "path": n, "size": len(b), "oid": _etag(b)}
                        for n, b in files.items()
                    ]
                )
            elif path.startswith("/api/models/somebody/model"):
                self._json({"id": "somebody/model", "sha": REVISION, "siblings": []})
            elif path.startswith("/somebody/model/resolve/") and name in files:
                about = {"X-Repo-Commit": REVISION, "ETag": f'"{_etag(files[name])}"'}
                self._send(200, files[name], about)
            else:
                missing = "RepoNotFound" if "/somebody/model" not in path else "EntryNotFound"
                self._send(404, b"", {"X-Error-Code": missing})

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _etag(body: bytes) -> str:
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()
