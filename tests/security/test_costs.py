"""The table of what a request may cost: a row for every open route, and rows that are true."""

import json
import logging
import re
from pathlib import Path

from macd_studio.macd_ui.serving import costs
from macd_studio.macd_ui.serving.routes import API, NOTHING, UPLOAD, Door, Doors
from macd_studio.macd_ui.settings import VisitorLimits
from tests.raw import Visitor

DOCS = Path(__file__).parents[2] / "docs" / "security.md"
CLOSED = {
    "/openapi.json", "/pwa_icon", "/pwa_icon/{size}", "/monitoring", "/monitoring/summary",
    "/monitoring/{key}", "/login/", "/config/",
    *(f"{API}/{name}" for name in (
        "deep_link", "token", "dev/reload", "runs", "file/{path:path}", "proxy={url_path:path}",
        "custom_component/{id}/{environment}/{type}/{file_name}", "component_server",
        "process_recording", "vibe-edit", "undo-vibe-edit", "vibe-code", "vibe-starter-queries",
        "stream/{event_id}", "stream/{event_id}/close",
        "stream/{session_hash}/{run}/{component_id}/playlist.m3u8",
        "stream/{session_hash}/{run}/{component_id}/playlist-file",
        "stream/{session_hash}/{run}/{component_id}/{segment_id}.{ext}")),
}  # fmt: skip
"""Routes of Gradio that the page does not use. A new one is looked at before it stands here."""


def routes_of(app):
    """Method and path of each route of an app, those of its routers too."""
    for route in app.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from routes_of(inner)
        for method in getattr(route, "methods", None) or ():
            if method != "HEAD":
                yield method, route.path


def example(path):
    """An address of a route."""
    return re.sub(r"\{\w+(:path)?\}", "x", path)


def test_every_route_of_the_app_is_in_the_table_or_closed(public):
    doors, missing = Doors(), []
    found = set(routes_of(public.page.app))
    assert len(found) > 60
    for method, path in sorted(found):
        door = doors.find(method, example(path))
        if door is None and path.removesuffix("/") not in CLOSED:
            missing.append(f"{method} {path}")
        assert door is None or door.path == path.removesuffix("/") or path in ("/", *CLOSED), path
    assert not missing, "give them a row in macd_ui/serving/routes.py, or a place among CLOSED"


def test_every_row_is_a_route_of_the_app(public):
    found = set(routes_of(public.page.app))
    elsewhere = {"/results", "/results/{path:path}"}  # where a report is served
    for door in Doors().all:
        assert (door.method, door.path) in found or door.path in elsewhere, door


def test_the_document_holds_the_table():
    told = costs.table(VisitorLimits())
    assert told in DOCS.read_text(encoding="utf-8"), "python -m macd_ui.serving.costs prints it"


def test_every_route_is_printed(capsys):
    costs.main()
    printed = capsys.readouterr().out
    assert all(f"`{door.path}`" in printed for door in Doors(mcp=True, study=True).all)


def test_every_test_that_the_document_names_is_there():
    root = DOCS.parents[1]
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", DOCS.read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, name in named:
        text = (root / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", text, re.M), f"{file}::{name}"


def test_every_bound_of_a_row_is_explained():
    explained = costs.bounds(VisitorLimits())
    named = {name for door in Doors(True, True).all for name in costs.bounds_of(door)}
    assert named | {"connections", "log"} == set(explained)
    assert costs.bounds_of(Door("POST", "/login", body="a form"))[-1] == "logins"


def test_requests_write_no_more_than_their_rows_say(public, caplog):
    """To the log and to the disk, whatever the request holds."""
    visitor = Visitor(public.url)
    folder = public.uploads.folder.parent
    odd = {"data": [{"a": [1]}], "fn_index": 10**9, "session_hash": visitor.hash, "event_id": 7}
    for door in Doors().all:
        public.quota._uses.clear()
        files = set(folder.rglob("*"))
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            for path in (example(door.path), example(door.path).replace("x", "%00%ff..%2f")):
                if door.body == NOTHING:
                    with visitor.http.stream(door.method, path, params={"session_hash": "u" * 9}):
                        pass
                elif door.body == UPLOAD:
                    visitor.upload("a.mp4", b"x")
                else:
                    kind = {"content-type": "application/json"}
                    if door.path == "/login":
                        kind = {"content-type": "application/x-www-form-urlencoded"}
                    visitor.http.post(path, content=json.dumps(odd), headers=kind)
        told = [r for r in caplog.records if r.levelno >= logging.WARNING]
        told = [r for r in told if r.name != "asyncio"]  # of a client that another test has closed
        assert len(told) <= 2 * door.log, (door, [r.getMessage() for r in told])
        new = set(folder.rglob("*")) - files
        assert len(new) <= (2 if door.body == UPLOAD else 0), (door, new)
