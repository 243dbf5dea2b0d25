"""Faults of Gradio that are worked around: each shown as it is upstream, and gone from the page.

A test that finds a fault gone upstream fails, so that its work-around can go too.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

import gradio as gr
import gradio.queueing
import gradio.route_utils
import gradio.routes
import httpx
import pytest
from gradio.server_messages import ProcessGeneratingMessage
from gradio.state_holder import SessionState

from macd_studio.macd_ui.serving import upstream
from macd_studio.macd_ui.serving.upstream import (
    SOURCE,
    BoundedProgress,
    ChangedBlocks,
    OneFileParser,
)
from tests.raw import API, Visitor
from tests.security.conftest import connected

PART = b'--x\r\nContent-Disposition: form-data; name="files"; filename="%s"\r\n\r\n%s\r\n'
FIELD = b'--x\r\nContent-Disposition: form-data; name="files"\r\n\r\n%s\r\n'
END = b"--x--\r\n"
KIND = {"content-type": "multipart/form-data; boundary=x"}


def upstreams(parser):
    """Gradio's own parser, whatever stands in its place."""
    return parser.__mro__[1]


def parsed(parser, folder, *pieces, error=None):
    """The temporary files that are left after an upload was read, as far as it came."""

    async def stream():
        for piece in pieces:
            yield piece
        if error is not None:
            raise error

    async def read():
        made = parser({"Content-Type": KIND["content-type"]}, stream(), upload_dir=folder,
                      max_file_size=10**9)  # fmt: skip
        try:
            return await made.parse()
        except Exception:
            return None

    with ThreadPoolExecutor(1) as thread:  # this one may have a browser's event loop
        form = thread.submit(asyncio.run, read()).result()
    return form, list(folder.iterdir())


def test_the_links_name_the_version_that_is_installed():
    assert gradio.__version__ in SOURCE


def test_an_upload_that_breaks_off_leaves_no_file(tmp_path):
    gone = ConnectionError("gone")
    for count, parser in ((1, upstreams(OneFileParser)), (0, OneFileParser)):
        folder = tmp_path / str(count)
        folder.mkdir()
        _, left = parsed(parser, folder, PART % (b"a", b"x" * 1000), error=gone)
        assert len(left) == count


def test_an_upload_holds_one_file(tmp_path):
    many = [PART % (b"%d" % n, b"x") for n in range(900)]
    form, left = parsed(upstreams(OneFileParser), tmp_path, *many, END)
    assert len(form.getlist("files")) == len(left) == 900
    folder = tmp_path / "bounded"
    folder.mkdir()
    assert parsed(OneFileParser, folder, *many, END) == (None, [])


def test_a_part_that_is_no_file_is_short(tmp_path):
    long = FIELD % (b"x" * 100_000)
    form, _ = parsed(upstreams(OneFileParser), tmp_path, long, END)
    assert len(form["files"]) == 100_000
    assert parsed(OneFileParser, tmp_path, long, END) == (None, [])
    form, _ = parsed(OneFileParser, tmp_path, FIELD % b"short", END)
    assert form["files"] == "short"


@pytest.mark.parametrize("name", [b"..", b"a/..", b".", b"", b"\\..", b" "])
def test_a_name_that_is_none_leaves_no_file(store, name):
    before = set(store.uploads.folder.rglob("*"))
    body = PART % (name, b"x" * 1000) + END
    answer = Visitor(store.url).http.post(f"{API}/upload", content=body, headers=KIND)
    assert answer.status_code == 400
    assert set(store.uploads.folder.rglob("*")) <= before


def test_a_boundary_that_is_none_is_refused(store):
    for boundary in ("x" * 5000, "", "é"):
        kind = {"content-type": f"multipart/form-data; boundary={boundary}".encode("latin-1")}
        answer = Visitor(store.url).http.post(f"{API}/upload", content=END, headers=kind)
        assert answer.status_code == 400


def test_nobody_fetches_the_events_of_a_tab_or_of_another(public):
    """Whoever knows an event's id gets nothing by it."""
    owner, thief = Visitor(public.url), Visitor(public.url, cookies=False)
    event = owner.join("take_away").json()["event_id"]
    for kind in ("call", "call/v2"):
        for visitor in (thief, owner):
            where = f"{API}/{kind}/take_away/{event}"
            assert visitor.http.get(where).status_code == 404
    assert owner.messages(event)
    called = thief.http.post(f"{API}/call/rescore", json={"data": [None, 1, 0.1]})
    event = called.json()["event_id"]
    elsewhere = httpx.HTTPTransport(local_address="127.0.0.9")
    with httpx.Client(base_url=public.url, transport=elsewhere) as other:
        assert other.get(f"{API}/call/rescore/{event}").status_code == 404
    with thief.http.stream("GET", f"{API}/call/rescore/{event}") as mine:
        assert mine.status_code == 200
        assert "event: " in mine.read().decode()


def test_uploads_are_forgotten():
    """Of each id that somebody asks for Gradio keeps an event for ever."""

    async def asked_for(progress):
        for n in range(3 * upstream.UPLOADS_WATCHED):
            asking = asyncio.ensure_future(progress.is_tracked(f"id{n}"))
            await asyncio.sleep(0)
            asking.cancel()
            progress.track(f"other{n}")
        return len(progress._signals), len(progress._statuses)

    with ThreadPoolExecutor(1) as thread:
        theirs, ours = (
            thread.submit(asyncio.run, asked_for(made())).result()
            for made in (gradio.route_utils.FileUploadProgress, BoundedProgress)
        )
    assert theirs == (6 * upstream.UPLOADS_WATCHED, 3 * upstream.UPLOADS_WATCHED)
    assert max(ours) <= upstream.UPLOADS_WATCHED


def test_an_upload_that_ended_is_forgotten():
    progress = BoundedProgress()
    progress.track("one")
    progress.stop_tracking("one")
    assert not progress._signals
    assert not progress._statuses


def test_the_page_has_the_bounded_parts(store):
    assert gradio.route_utils.GradioMultiPartParser is OneFileParser
    assert isinstance(gradio.routes.file_upload_statuses, BoundedProgress)
    visitor = Visitor(store.url)
    two = [("files", ("a.mp4", b"x")), ("files", ("b.mp4", b"y"))]
    before = sum(1 for _ in store.uploads.folder.rglob("*"))
    assert visitor.http.post(f"{API}/upload", files=two).status_code == 400
    body = FIELD % (b"x" * 5000) + END
    for where in (f"{API}/upload", f"{API}/upload?upload_id=abc"):
        assert visitor.http.post(where, content=body, headers=KIND).status_code == 400
    for bad in ("x" * 65, "a b", "../a", "", "é"):
        where = f"{API}/upload_progress"
        assert visitor.http.get(where, params={"upload_id": bad}).status_code == 400
    assert visitor.http.get(f"{API}/upload_progress").status_code == 400
    assert sum(1 for _ in store.uploads.folder.rglob("*")) == before


def test_a_connection_that_breaks_off_leaves_no_file(store):
    visitor = Visitor(store.url)
    with connected(store) as plain:
        plain.sendall(
            f"POST {API}/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000000\r\n"
            f"Content-Type: {KIND['content-type']}\r\n\r\n".encode()
            + PART % (b"a.mp4", b"x" * 200_000)
        )
        while not list(store.uploads.folder.iterdir()):
            assert visitor.http.get("/healthz").status_code == 200
    for _ in range(1000):
        if not list(store.uploads.folder.iterdir()):
            return
        assert visitor.http.get("/healthz").status_code == 200
    raise AssertionError("the file is still there")


def test_streams_that_nobody_serves_leave_no_traceback(store, caplog):
    visitor = Visitor(store.url)
    with caplog.at_level(logging.INFO):
        answer = visitor.http.get(f"{API}/queue/data", params={"session_hash": "unheard-of"})
        for kind in ("call", "call/v2"):
            where = f"{API}/{kind}/run/0123456789abcdef"
            assert visitor.http.get(where).status_code == 404
    assert "session_not_found" in answer.text
    assert "Traceback" not in caplog.text


def test_a_server_at_rest_does_not_look_for_events_all_the_time(public):
    queue = public.page.app.get_blocks()._queue
    theirs = upstreams(upstream.BoundedQueue)(False, 1, 1.0, None, None)
    assert theirs.sleep_when_free < queue.sleep_when_free == upstream.POLL_S


def test_messages_that_nobody_reads_are_bounded(public):
    """The page's own event, from a tab that never opens its stream."""
    queue = public.page._queue
    unread, refused = Visitor(public.url), []
    cheap = unread.event("take_away")["id"]
    body = {"data": [], "fn_index": cheap, "session_hash": unread.hash}
    while not refused:
        public.quota._uses.clear()
        answer = unread.http.post(f"{API}/queue/join", json=body)
        if answer.status_code != 200:
            refused.append((answer.status_code, answer.json()["detail"]))
    assert set(refused) == {(429, "This page does not read its answers. Reload it.")}
    waiting = [m.qsize() for m in queue.pending_messages_per_session.values()]
    most = public.settings.visitor.unread_of_tab
    assert most <= sum(waiting) <= most + 100
    reader = Visitor(public.url)  # another tab of the same address is let in; then the other reads
    assert reader.http.post(f"{API}/queue/join", json=body).status_code == 200
    assert sum(m["msg"] == "process_completed" for m in unread.messages("all of them")) > 3
    assert reader.send("take_away")[-1]["success"]


def test_upstream_keeps_every_message():
    class Event:
        _id, session_hash, alive = "e", "s", True
        request = type("Request", (), {"scope": {"macd.visitor": "ada"}})

    kept = {}
    for kind in (upstreams(upstream.BoundedQueue), upstream.BoundedQueue):
        queue, event = kind(False, 1, 1.0, None, None), Event()
        messages = queue.pending_messages_per_session["s"] = gradio.queueing.AsyncQueue()
        for _ in range(3 * upstream.MAX_UNREAD):
            queue.send_message(event, ProcessGeneratingMessage(output={}, success=True))
        kept[kind] = messages.qsize()
    assert kept == {
        upstreams(upstream.BoundedQueue): 3 * upstream.MAX_UNREAD,
        upstream.BoundedQueue: 1,
    }


def test_what_an_answer_leaves_as_it_is_is_not_made_anew(monkeypatch):
    """Gradio makes every output of an event anew at each of its answers."""
    made, make = [], gr.Textbox.__init__

    def noted(self, *given, **named):
        made.append(1)
        make(self, *given, **named)

    def answers(kind):
        with kind() as page:
            first, *others = (gr.Textbox() for _ in range(5))
            gr.Button().click(lambda: None, None, [first, *others])
        (event,) = page.fns.values()
        made.clear()
        monkeypatch.setattr(gr.Textbox, "__init__", noted)
        with ThreadPoolExecutor(1) as thread:
            given = {first: "new", others[0]: gr.update(label="b"), others[1]: gr.skip()}
            answer = page.postprocess_data(event, given, SessionState(page))
            return thread.submit(asyncio.run, answer).result(), len(made)

    (theirs, their_count), (ours, our_count) = map(answers, (gr.Blocks, ChangedBlocks))
    skipped = {"__type__": "update"}
    assert theirs == ours == ["new", {"label": "b", "__type__": "update"}, *3 * [skipped]]
    assert (their_count, our_count) == (4, 1)


def test_answers_of_other_kinds_are_as_they_were():
    with ChangedBlocks() as page:
        boxes = [gr.Textbox() for _ in range(2)]
        gr.Button().click(lambda: None, None, boxes)
    (event,) = page.fns.values()

    def answered(given):
        with ThreadPoolExecutor(1) as thread:
            answer = page.postprocess_data(event, given, SessionState(page))
            return thread.submit(asyncio.run, answer).result()

    skipped = {"__type__": "update"}
    assert answered(["a", "b"]) == ["a", "b"]
    assert answered(gr.skip()) == [skipped, skipped]
    assert answered({boxes[0]: gr.skip()}) == [skipped, skipped]
    assert answered({boxes[1]: None}) == [skipped, None]
    with pytest.raises(ValueError, match="no output of its event"):
        answered({gr.Textbox(render=False): "a"})
