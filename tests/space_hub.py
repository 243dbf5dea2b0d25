"""The part of a model hub that a deployment speaks to: it keeps one Space or dataset in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

TOKEN = "hf_" + "a" * 34
REVISION = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class SpaceHub:
    """files: path → content. asked: method and path of each request. refuses: path → status."""

    files: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    created: list[dict] = field(default_factory=list)
    commits: list[list[dict]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    refuses: dict[str, int] = field(default_factory=dict)
    hardware: str = "cpu-basic"
    address: str = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        """Status and JSON of one request."""
        self.asked.append(f"{method} {path}")
        for part, status in self.refuses.items():
            if part in path:
                return status, {"error": f"refused with {status}"}
        if path == "/api/repos/create":
            return self._create(json.loads(body))
        if path.startswith("/objects/"):
            self.stored[path.removeprefix("/objects/")] = body
            return 200, {}
        if path.endswith(".git/info/lfs/objects/batch"):
            return 200, {"transfer": "basic", "objects": [
                o if o["oid"] in self.stored  # what is there is not asked for again
                else o | {"actions": {"upload": {"href": f"{self.address}/objects/{o['oid']}"}}}
                for o in json.loads(body)["objects"]
            ]}  # fmt: skip
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        place = re.fullmatch(r"/api/(?:spaces|datasets)/([^/]+/[^/]+)(/.*)?", path)
        if place is None or not self.created:
            return 404, {"error": "nothing here"}
        return self._of_space(method, place[2] or "", body)

    def _create(self, told: dict) -> tuple[int, object]:
        there = bool(self.created)
        self.created.append(told)
        kind = f"{told['type']}s"
        url = f"{self.address}/{kind}/{told['organization']}/{told['name']}"
        if not there:
            self.hardware = told.get("hardware", "")
            self.variables |= {v["key"]: v["value"] for v in told.get("variables", ())}
            self.files[".gitattributes"] = b"*.safetensors filter=lfs\n"
        return (409 if there else 200), {"url": url, "error": "it exists"}

    def _of_space(self, method: str, place: str, body: bytes) -> tuple[int, object]:
        if place.startswith("/preupload/"):
            asked = json.loads(body)["files"]
            return 200, {"files": [
                {"path": f["path"], "shouldIgnore": False, "uploadMode":
                 "lfs" if b"\0" in base64.b64decode(f["sample"]) else "regular"}
                for f in asked
            ]}  # fmt: skip
        if place.startswith("/commit/"):
            lines = [json.loads(line) for line in body.splitlines()]
            self.commits.append(lines)
            for line in lines:
                self._change(line["key"], line["value"])
            url = f"{self.address}/spaces/owner/name/commit/{REVISION}"
            return 200, {"commitUrl": url, "commitOid": REVISION}
        if place == "/variables":
            if method == "POST":
                told = json.loads(body)
                self.variables[told["key"]] = told["value"]
            return 200, {k: {"key": k, "value": v} for k, v in self.variables.items()}
        if place in ("/runtime", "/hardware"):
            if method == "POST":
                self.hardware = json.loads(body)["flavor"]
            return 200, {"stage": "RUNNING", "hardware": {"requested": self.hardware}}
        if place.startswith("/tree"):
            return 200, [{"type": "file", "path": p, "size": len(b), "oid": _sha1(b)}
                         for p, b in self.files.items()]  # fmt: skip
        siblings = [{"rfilename": p} for p in self.files]
        return 200, {"id": "owner/name", "sha": REVISION, "siblings": siblings}

    def _change(self, kind: str, value: dict) -> None:
        if kind == "file":
            self.files[value["path"]] = base64.b64decode(value["content"])
        elif kind == "lfsFile":
            self.files[value["path"]] = self.stored[value["oid"]]
        elif kind == "deletedFile":
            del self.files[value["path"]]


@contextmanager
def serving() -> Iterator[SpaceHub]:
    """A hub on a free port; its `address` goes into HF_ENDPOINT."""
    hub = SpaceHub()

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            return None

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = self._chunks()
            path = urlsplit(self.path).path
            known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            if "/resolve/" in path:
                self._file(path.partition(f"/resolve/{REVISION}/")[2])
                return
            if not known and not path.startswith("/objects/"):
                status, told = 401, {"error": "who are you?"}
            else:
                status, told = hub.answer(self.command, path, body)
            content = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _file(self, name: str) -> None:
            hub.asked.append(f"{self.command} {name}")
            content = hub.files.get(name, b"")
            self.send_response(200 if name in hub.files else 404)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Repo-Commit", REVISION)
            self.send_header("ETag", f'"{_sha1(content)}"')
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def _chunks(self) -> bytes:
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        do_POST = do_PUT = do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    hub.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
