"""A visitor who speaks to the server by raw HTTP, as the page's script does or as an attacker."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from bench.visitor import lines_of
from tests.patience import PATIENCE_S

API = "/gradio_api"


class Visitor:
    """A browser tab without a browser. cookies=False: a program, which loads no page."""

    def __init__(self, url: str, cookies: bool = True, **headers: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=PATIENCE_S, headers=headers, trust_env=False)
        if cookies:
            self.page = self.http.get("/")
        self.hash = secrets.token_hex(6)
        self._config: dict[str, Any] | None = None
        self._beat: Any = None

    @property
    def config(self) -> dict[str, Any]:
        """The page's description of itself."""
        if self._config is None:
            self._config = self.http.get("/config").json()
        return self._config

    def event(self, name: str) -> dict[str, Any]:
        """The first event handler of that name."""
        return next(d for d in self.config["dependencies"] if d["api_name"] == name)

    def data(self, name: str, **values: Any) -> list[Any]:
        """Inputs of an event: the page's first values, but for those given by label or id."""
        parts = {c["id"]: c["props"] for c in self.config["components"]}
        found = []
        for number in self.event(name)["inputs"]:
            props = parts[number]
            keys = (str(props.get("elem_id")), str(props.get("label")).split(" ")[0])
            value = props.get("value")
            found.append(next((values[k] for k in keys if k in values), value))
        return found

    def join(self, name: str, event_data: Any = None, **values: Any) -> httpx.Response:
        """Puts an event into the queue."""
        body = {
            "data": self.data(name, **values),
            "fn_index": self.event(name)["id"],
            "session_hash": self.hash,
            "event_data": event_data,
            "trigger_id": None,
        }
        content = json.dumps(body)  # with what httpx's own would refuse: lone surrogates, infinity
        kind = {"content-type": "application/json"}
        return self.http.post(f"{API}/queue/join", content=content, headers=kind)

    def send(self, name: str, event_data: Any = None, **values: Any) -> list[dict[str, Any]]:
        """An event and all that comes back until it is done."""
        answer = self.join(name, event_data, **values)
        assert answer.status_code == 200, answer.text
        return list(self.messages(answer.json()["event_id"]))

    def messages(self, event_id: str | None = None) -> Iterator[dict[str, Any]]:
        """What the queue sends, until the event is complete, or the stream ends."""
        with self.stream() as lines:
            for line in lines:
                if line.startswith("data: "):
                    message = json.loads(line[6:])
                    yield message
                    mine = event_id in (None, message.get("event_id"))
                    if message["msg"] in ("process_completed", "unexpected_error") and mine:
                        return

    @contextmanager
    def stream(self) -> Iterator[Iterator[str]]:
        """The lines of this tab's stream."""
        where = f"{API}/queue/data?session_hash={self.hash}"
        with self.http.stream("GET", where) as answer:
            yield lines_of(answer)

    def call(self, name: str, *data: Any) -> tuple[str, Any]:
        """A named endpoint as documented for curl; the last event and its data."""
        answer = self.http.post(f"{API}/call/{name}", json={"data": list(data)})
        if answer.status_code != 200:
            return f"http {answer.status_code}", answer.text
        where = f"{API}/call/{name}/{answer.json()['event_id']}"
        last = ("", None)
        with self.http.stream("GET", where) as stream:
            for line in lines_of(stream):
                if line.startswith("event: "):
                    last = (line[7:], None)
                elif line.startswith("data: "):
                    last = (last[0], json.loads(line[6:]))
                    if last[0] in ("complete", "error"):
                        return last
        return last

    def upload(self, name: str, content: bytes) -> httpx.Response:
        """Uploads a file."""
        return self.http.post(f"{API}/upload", files={"files": (name, content)})

    def file(self, name: str, content: bytes) -> dict[str, Any]:
        """An uploaded file as the value of a file input."""
        answer = self.upload(name, content)
        assert answer.status_code == 200, answer.text
        return {"path": answer.json()[0], "orig_name": name, "meta": {"_type": "gradio.FileData"}}

    def open_tab(self) -> None:
        """Keeps the connection open that tells the server that the tab is there."""
        ready = threading.Event()
        self._beat = httpx.Client(
            base_url=self.http.base_url, cookies=self.http.cookies, timeout=PATIENCE_S,
            trust_env=False,
        )  # fmt: skip
        self._stream = self._beat.stream("GET", f"{API}/heartbeat/{self.hash}")
        answer = self._stream.__enter__()
        assert answer.status_code == 200
        ready.set()

    def close_tab(self) -> None:
        """Closes that connection, as a browser does with its tab."""
        self._stream.__exit__(None, None, None)
        self._beat.close()


def words(messages: list[dict[str, Any]]) -> str:
    """Everything that an event told its visitor, as one text."""
    return json.dumps(messages, ensure_ascii=False)
