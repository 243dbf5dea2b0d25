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
    sent: list[tuple[str, int, int]] | None = None,
    asked: list[str] | None = None,
) -> Iterator[str]:
    """Address of a hub that has one model, `somebody/model`, with the files of a folder.

    breaks_at: byte of a file at which every connection is closed that reaches it; failing: it only
    answers 500. sent: it goes on within a file where a request asks for that, and notes the name,
    the first byte and how many bytes of a file it has sent. asked: it notes every request's path.
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
            name, first = self.path.split("?")[0].rsplit("/", 1)[-1], self._first()
            for at in range(0, len(body), 500_000):
                if breaks_at is not None and first + at >= breaks_at:
                    self.close_connection = True
                    self.connection.close()
                    return
                part = body[at : at + 500_000]
                self.wfile.write(part)
                if sent is not None and "/resolve/" in self.path:
                    sent.append((name, first + at, len(part)))
                time.sleep(len(part) / bytes_per_s)

        def _first(self) -> int:
            """The first byte that is asked for."""
            asked = self.headers.get("Range", "") if sent is not None else ""
            return int(asked.removeprefix("bytes=").partition("-")[0] or 0)

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if asked is not None:
                asked.append(path)
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
                if first := self._first():
                    whole = len(files[name])
                    about["Content-Range"] = f"bytes {first}-{whole - 1}/{whole}"
                self._send(206 if first else 200, files[name][first:], about)
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
