"""The gate without a server: around an app that notes what reaches it, with stand-ins beside it."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.parse import parse_qs

from macd_studio.macd_ui.quota import QuotaError
from macd_studio.macd_ui.serving.gate import Gate
from macd_studio.macd_ui.serving.identity import COOKIE
from macd_studio.macd_ui.serving.passwords import SENDER
from macd_studio.macd_ui.settings import ServerSettings
from macd_studio.macd_ui.storage import Uploads

MINE = "c" * 43
PEER = "9.9.9.9"
LIMITS = SimpleNamespace(events=3, unread=5, unread_of_tab=4)


class Quota:
    """Notes what is counted for whom; refuses what stands in `refused`."""

    def __init__(self):
        self.noted, self.refused, self.limits = [], set(), None

    def _count(self, what, *given):
        self.noted.append((what, *given))
        return what not in self.refused

    def allows_request(self, visitor):
        return self._count("request", visitor)

    def allows_answer(self, visitor, ms):
        return self._count("answer", visitor, ms)

    def add_file(self, visitor):
        self._count("file", visitor)

    def add_upload(self, visitor, count):
        self._count("upload", visitor, count)

    @contextmanager
    def stream(self, visitor, places):
        if not self._count("stream", visitor, places):
            raise QuotaError("too many streams", "Close some")
        yield
        self._count("stream closed", visitor)


class Users:
    """What the gate asks Gradio; `known`: users by Cookie header, streams, calls, functions."""

    def __init__(self, *known, waiting=0, unread=0):
        self.known, self.waiting, self.unread = known, waiting, unread
        self.unread_here = 0

    def user(self, cookie):
        return "ada" if cookie and "ada" in cookie else None

    def knows_stream(self, key):
        return key in self.known

    def knows_call(self, event, visitor):
        return (event, visitor) in self.known

    def knows_function(self, name, index):
        return (name, index) in self.known

    def lists_function(self, name):
        return (name, None) in self.known

    def wrong_inputs(self, kind, name, index, content):
        return content.get("wrong", "")

    def waiting_of(self, visitor):
        return self.waiting if visitor == PEER else 0

    def unread_of_tab(self, key):
        return self.unread_here

    def unread_of(self, visitor):
        return self.unread if visitor == PEER else 0


class App:
    """Notes each request; answers with `status` and `answer`, or raises `error` before or after."""

    def __init__(self):
        self.seen, self.status, self.answer, self.headers = [], 200, b"fine", []
        self.error = self.late = None
        self.inside = lambda: None

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        self.inside()
        self.seen.append(SimpleNamespace(
            scope=scope, path=scope["path"], body=body, sender=SENDER.get(),
            headers={k.decode(): v.decode() for k, v in scope["headers"]},
            query=parse_qs(scope["query_string"].decode(), keep_blank_values=True),
        ))  # fmt: skip
        if self.error:
            raise self.error
        start = {"type": "http.response.start", "status": self.status}
        await send(start | {"headers": list(self.headers)})
        if self.late:
            raise self.late
        await send({"type": "http.response.body", "body": self.answer})


class Asked:
    """A gate and who asks it; `ask` gives status, headers and text of the answer."""

    def __init__(self, tmp_path, users=None, site=None, **settings):
        self.app, self.quota = App(), Quota()
        self.streams = []
        sessions = SimpleNamespace(
            connect=lambda key: self.streams.append(("opened", key)),
            disconnect=lambda key: self.streams.append(("closed", key)),
        )
        (tmp_path / "uploads").mkdir(parents=True)
        self.uploads = tmp_path / "uploads"
        store = SimpleNamespace(
            settings=ServerSettings(**settings), site=site, quota=self.quota, sessions=sessions,
            uploads=Uploads(self.uploads, 3600.0),
        )  # fmt: skip
        self.gate = Gate(self.app, store, users)

    def messages(self, scope, *received):
        """What the gate sends, in order."""
        waiting, sent = list(received), []

        async def receive():
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        with ThreadPoolExecutor(1) as thread:  # this one may have a browser's event loop
            thread.submit(asyncio.run, self.gate(scope, receive, send)).result()
        return sent

    def asked(self, method="GET", path="/", body=b"", peer=PEER, query="", cookie=None, **headers):
        """The messages of an answer."""
        if isinstance(body, dict | list):
            body = json.dumps(body).encode()
        named = {"host": "localhost"} | {k.replace("_", "-"): v for k, v in headers.items()}
        if body:
            named = {"content-type": "application/json", "content-length": str(len(body))} | named
        if cookie:
            named["cookie"] = f"{COOKIE}={cookie}"
        scope = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "scheme": "http", "root_path": "",
            "client": (peer, 1) if peer else None,
            "headers": [(k.encode(), v.encode()) for k, v in named.items()],
        }  # fmt: skip
        return self.messages(scope, {"type": "http.request", "body": body, "more_body": False})

    def ask(self, *given, **named):
        sent = self.asked(*given, **named)
        start, *rest = sent
        assert start["type"] == "http.response.start"
        text = b"".join(m["body"] for m in rest).decode()
        found = {}
        for name, value in start["headers"]:
            found.setdefault(name.decode(), []).append(value.decode())
        return SimpleNamespace(status=start["status"], text=text, headers=found, sent=sent)

    @property
    def last(self):
        return self.app.seen[-1]
