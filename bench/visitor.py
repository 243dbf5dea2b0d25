"""A visitor of the page without a browser: its own requests and events, by plain HTTP."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from gradio_client.utils import apply_diff

API = "gradio_api"
HASH_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WAIT_S = 900.0
"""How long one answer is waited for; only what hangs is ended by it."""


class EventFailed(Exception):
    """The server refused an event or could not finish it."""


def read_config(html: str) -> dict[str, Any]:
    """Components and events of the page, from the script in its HTML. Raises ValueError."""
    assignment = re.search(r"window\.gradio_config\s*=\s*", html)
    if assignment is None:
        raise ValueError("the page holds no configuration: the server answered something else")
    config, _ = json.JSONDecoder().raw_decode(html, assignment.end())
    return dict(config)


def read_messages(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The messages of a stream of server-sent events, line by line."""
    for line in lines:
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))


def lines_of(answer: httpx.Response) -> Iterator[str]:
    """Split at line feeds only: an answer may hold Unicode's other line separators."""
    rest = b""
    for chunk in answer.iter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line.decode("utf-8") for line in whole)


class Outputs:
    """The latest outputs of one event: the first answer comes whole, later ones as changes."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def take(self, message: dict[str, Any]) -> None:
        """Takes a message of the kind process_generating or process_completed."""
        data = message.get("output", {}).get("data") or []
        if message["msg"] == "process_generating" and self.values:
            self.values = [apply_diff(v, d) for v, d in zip(self.values, data, strict=True)]
        elif message["msg"] == "process_generating" or not self.values:
            self.values = data

    def shown(self) -> dict[str, Any]:
        """What the viewer was sent, {} where nothing was."""
        for value in self.values:
            content = value.get("value", value) if isinstance(value, dict) else None
            if isinstance(content, dict) and "status" in content:
                return content
        return {}


class Visitor:
    """One tab: opens the page when entered, keeps its heartbeat, and is gone when left.

    The form's values are kept by component, as the page keeps them; cookies as a browser does.
    address: the one of this machine that the requests come from, such as 127.0.0.9. behind: the
    address that a proxy names, whose request this is. host: what a browser would call the server,
    which is asked at `url` all the same.
    """

    def __init__(
        self,
        url: str,
        rng: random.Random,
        address: str | None = None,
        behind: str | None = None,
        host: str | None = None,
    ) -> None:
        self.url, self.address, self.behind = url.rstrip("/"), address, behind
        self.host = host
        self.hash = "".join(rng.choices(HASH_LETTERS, k=11))
        self.run_id, self.brings_refused = "", False
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        place = urlsplit(self.url)
        host = self.host or place.netloc
        headers = {"Origin": f"{place.scheme}://{host}", "Referer": f"{self.url}/", "Host": host}
        if self.behind is not None:
            headers["X-Forwarded-For"] = self.behind
        way = httpx.HTTPTransport(local_address=self.address)
        client = httpx.Client(
            base_url=self.url, headers=headers, timeout=WAIT_S, trust_env=False, transport=way
        )
        self.http = self._stack.enter_context(client)
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        at: TracebackType | None,
    ) -> None:  # fmt: skip
        self._stack.close()

    def _open(self) -> None:
        page = self.http.get("/").raise_for_status()
        config = read_config(page.text)
        self.events = {d["api_name"]: d for d in config["dependencies"]}
        self.components = {c["id"]: c["props"] for c in config["components"]}
        self.form = {i: props.get("value") for i, props in self.components.items()}
        address = f"/{API}/heartbeat/{self.hash}"
        self._stack.enter_context(self.http.stream("GET", address)).raise_for_status()
        self.event("visit")

    def find(self, **props: str) -> int:
        """The number of the component with these properties."""
        for number, own in self.components.items():
            if all(own.get(name) == value for name, value in props.items()):
                return int(number)
        raise KeyError(f"the page has no component with {props}")

    def fill(self, value: Any, **props: str) -> None:
        """Sets a field of the form."""
        self.form[self.find(**props)] = value

    def upload(self, path: Path) -> dict[str, Any]:
        """Sends a file as the page does; what a field then holds."""
        with path.open("rb") as content:
            answer = self.http.post(
                f"/{API}/upload", params={"upload_id": self.hash}, files={"files": content}
            )
        (stored,) = answer.raise_for_status().json()
        about = {"orig_name": path.name, "size": path.stat().st_size}
        return about | {"path": stored, "meta": {"_type": "gradio.FileData"}}

    def event(
        self,
        name: str,
        event_data: Any = None,
        on_progress: Callable[[], None] = lambda: None,
    ) -> dict[str, Any]:
        """Fires an event with the form as it is; what the viewer shows in the end.

        on_progress: called at every partial answer. Raises EventFailed, httpx.HTTPError.
        """
        event = self.events[name]
        body = {
            "data": [self.form.get(i) for i in event["inputs"]],
            "event_data": event_data,
            "fn_index": event["id"],
            "session_hash": self.hash,
            "trigger_id": event["targets"][0][0],
        }
        outputs = Outputs()
        if event.get("queue") is False:
            answer = self.http.post(f"/{API}/run/predict", json=body).raise_for_status()
            outputs.values = answer.json()["data"]
            return outputs.shown()
        joined = self.http.post(f"/{API}/queue/join", json=body).raise_for_status()
        number = joined.json()["event_id"]
        stream = self.http.stream("GET", f"/{API}/queue/data", params={"session_hash": self.hash})
        with stream as answers:
            answers.raise_for_status()
            for message in read_messages(lines_of(answers)):
                if message["msg"] == "close_stream":
                    break
                if message.get("event_id") != number:
                    continue
                if message["msg"] not in ("process_generating", "process_completed"):
                    continue
                if not message["success"]:
                    raise EventFailed(f"{name}: {message.get('output')}")
                outputs.take(message)
                self.run_id = outputs.shown().get("trace", {}).get("run", self.run_id)
                if message["msg"] == "process_completed":
                    return outputs.shown()
                on_progress()
        raise EventFailed(f"{name}: the stream ended without an answer")
