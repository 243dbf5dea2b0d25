"""A public server: models from a list, bounded options and time, limits for each visitor.

Behind a proxy visitors are told apart. A server that holds a backbone is asked where it was named
at the start, and nowhere else.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest

from macd_studio.core.embedded import EMBEDDED
from macd_studio.core.errors import BackboneNotFound, OptionError
from macd_studio.core.options import RunOptions, options_from
from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load, pack, save
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.jobs import Jobs
from macd_studio.macd_ui.models import Models
from macd_studio.macd_ui.quota import Quota, QuotaError
from macd_studio.macd_ui.serving.identity import address
from macd_studio.macd_ui.serving.server import warnings_of
from macd_studio.macd_ui.settings import (
    LIMITS,
    PRIVATE,
    ServerSettings,
    VisitorLimits,
    check_limits,
    is_loopback,
    read_settings,
)
from macd_studio.macd_ui.traces import MAX_OPENING
from tests.patience import PATIENCE_S
from tests.raw import Visitor, words
from tests.security.conftest import serving
from tests.security.test_sessions import clip
from tests.small_trace import small_trace


def settings(*arguments, **environment):
    return read_settings(arguments, environment)


def test_where_it_is_public():
    assert not settings().public
    assert settings("--public").public
    space = settings(SPACE_ID="a/b", SPACE_HOST="a-b.hf.space")
    assert (space.public, space.space, space.host) == (True, True, "0.0.0.0")
    assert space.allows_host("a-b.hf.space")
    assert not space.allows_host("a-c.hf.space")
    assert space.backbones == ("auto", "toyworld", "everyday")
    assert settings("--public", MACD_BACKBONES="x/y, z").backbones[3:] == ("x/y", "z")
    assert settings("--backbone", "x/y").backbones[3:] == ("x/y",)


def test_serving_others_without_it_is_warned_of():
    assert not warnings_of(settings())
    (told,) = warnings_of(settings("--host", "192.168.1.5"))
    assert "--public" in told
    assert settings("--host", "192.168.1.5").allows_host("192.168.1.5")
    assert len(warnings_of(settings("--host", "0.0.0.0"))) == 2
    (told,) = warnings_of(settings("--host", "0.0.0.0", "--public"))
    assert "--allow-host" in told
    (told,) = warnings_of(settings("--host", "0.0.0.0", "--public", "--allow-host", "lab"))
    assert told == "From other machines: http://lab:7860"
    told = warnings_of(settings("--class", "60", "--allow-host", "lab"))
    assert told[-1] == "Each address has the limits of 60 visitors (docs/security.md)."


@pytest.mark.parametrize("port", ["99999", "0", "-1", "x", "1e3"])
def test_a_port_that_is_none(port, capsys):
    with pytest.raises(SystemExit) as ended:
        settings("--port", port)
    assert ended.value.code == 2
    assert "--port" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        settings(GRADIO_SERVER_PORT=port)


def test_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "", "1.2.3.4", "localhost.evil.example")))


NAMES = ["/etc/passwd", "missing.pt", "https://example.com/x.pt", "someone/model", "yolo11s",
         "../app.py", "", "toyworld\n", "x" * 5000]  # fmt: skip


@pytest.mark.parametrize("field", ["backbone", "detector"])
def test_nothing_of_a_visitor_is_opened_as_a_model(public, tmp_path, field):
    there = tmp_path / "there.pt"
    there.write_bytes(b"evil")
    visitor = Visitor(public.url)
    told = set()
    for name in [*NAMES, str(there), str(tmp_path / "not_there.pt")]:
        loads = []
        public.models.backbone = lambda n, *_, loads=loads: loads.append(n) or public.lm
        out = words(visitor.send("run", video=clip(visitor), question="is it?", **{field: name}))
        if name.strip() in ("", "toyworld"):
            continue
        assert not [n for n in loads if n not in ("toyworld", "everyday")], name
        told.add("not offer" in out or "Value" in out or "a type or a value" in out)
    assert told == {True}
    public.models.backbone = lambda *_: public.lm


def test_a_trace_cannot_name_a_model_to_be_loaded(public, tmp_path):
    """An edit of an opened trace would load what the file says."""
    trace = load(examples()[0].trace)
    changed = replace(trace.backbone, name="/etc/passwd")
    content = save(replace(trace, backbone=changed), tmp_path / "x.macd").read_bytes()
    visitor = Visitor(public.url)
    shown = visitor.send("reopen", open=visitor.file("x.macd", content))
    run = next(
        d["trace"]["run"]
        for m in shown if m["msg"] == "process_completed"
        for d in m["output"]["data"] if isinstance(d, dict) and "trace" in d
    )  # fmt: skip
    action = {"do": "occlusion", "run": run}
    told = words(visitor.send("act", event_data=action, backbone="toyworld"))
    assert "does not offer the backbone '/etc/passwd'" in told
    with pytest.raises(OptionError):
        ServerSettings(public=True).check_models("/etc/passwd", "toyworld")
    ServerSettings().check_models("/etc/passwd", "yolo11n")  # one's own server loads anything


@pytest.mark.parametrize("path", LIMITS)
def test_every_costly_option_is_bounded(path):
    check_limits(RunOptions())
    part, name = path.split(".")
    most = LIMITS[path]
    check_limits(options_from({part: {name: most}}))
    try:
        beyond = options_from({part: {name: most + 1}})
    except OptionError:
        return  # the option's own range ends there
    with pytest.raises(OptionError, match=path):
        check_limits(beyond)


def asked_for_much(server):
    visitor = Visitor(server.url)
    return words(visitor.send("run", video=clip(visitor), question="is it?", frames=33))


@pytest.mark.long
def test_the_page_is_bounded_where_others_use_it(public):
    assert "video.frames is 33" in asked_for_much(public)
    with serving() as private:
        assert "video.frames is 33" not in asked_for_much(private)
        told = Visitor(private.url).call("trace", None, "is it?", {"ascent": {"steps": 21}})
        assert "ascent.steps is 21" in told[1]["error"]


@pytest.mark.long
def test_a_run_over_its_time_is_stopped_and_shown():
    with serving(ServerSettings(public=True, run_seconds=0.0)) as server:
        visitor = Visitor(server.url)
        told = words(visitor.send("run", video=clip(visitor), question="is it?"))
        assert "this server gives each run 0 s" in told
        assert '"running": false' in told
        assert server.as_dict()["runs"]["stopped"] == 1
        other = Visitor(server.url)
        kind, answer = other.call("trace", clip(other), "is it?", {})
        assert kind == "error"
        assert "This server gives each run 0 s" in answer["error"]
        assert len(server.device_queue) == 0


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_quotas_of_a_visitor():
    clock = Clock()
    quota = Quota(VisitorLimits(jobs=2, megabytes=10, device_minutes=1), clock)
    with quota.job("a"), quota.job("a"), pytest.raises(QuotaError, match="2 runs"):
        quota.job("a").__enter__()
    with quota.job("a"), quota.job("b"):
        pass
    for _ in range(10):
        quota.add_upload("a", 10**6)
    with pytest.raises(QuotaError, match="10 MB from your address were uploaded in the last hour"):
        quota.add_upload("a", 1)
    quota.add_upload("b", 10**6)
    quota.add_device_s("a", 60.0)
    with pytest.raises(QuotaError, match="1 minutes"):
        quota.job("a").__enter__()
    clock.now += 3601
    quota.add_upload("a", 10**6)
    with quota.job("a"):
        pass


def read_for(seconds):
    def use(quota, who, _):
        quota.check_reading(who)
        quota.add_read_s(who, seconds)

    return use


def computed_for(seconds):
    def use(quota, who, _):
        with quota.job(who):
            quota.add_device_s(who, seconds)

    return use


USES = {
    # limits, one use, and whether three uses are free again after the window
    "runs": ({"jobs": 3}, lambda q, who, held: held.enter_context(q.job(who)), False),
    "streams": ({"streams": 6}, lambda q, who, held: held.enter_context(q.stream(who, 2)), False),
    "traces": ({"opening": 3}, lambda q, who, held: held.enter_context(q.open_file(who)), False),
    "files": ({"files": 3}, lambda q, who, _: q.add_file(who), True),
    "bytes": ({"megabytes": 1.5}, lambda q, who, _: q.add_upload(who, 500_000), True),
    "reading": ({"read_minutes": 1.5}, read_for(30), True),
    "computing": ({"device_minutes": 1.5}, computed_for(30), True),
}


@pytest.mark.parametrize("name", USES)
def test_a_limit_is_met_exactly_by_each_visitor_alone(name):
    limits, use, free_again = USES[name]
    clock = Clock()
    quota = Quota(VisitorLimits(**limits), clock)
    with ExitStack() as held:
        for visitor in ("a", "b"):
            for _ in range(3):
                use(quota, visitor, held)
            with pytest.raises(QuotaError):
                use(quota, visitor, held)
        clock.now += quota.limits.window_s  # what was at its beginning still counts
        with pytest.raises(QuotaError):
            use(quota, "a", held)
        clock.now += 0.1
        if free_again:
            use(quota, "a", held)
    with ExitStack() as held:  # what was open is closed
        use(quota, "b", held)


def test_answers_are_a_bucket_of_each_visitor():
    clock = Clock()
    quota = Quota(VisitorLimits(answer_s_per_s=0.5, answer_burst_s=2), clock)
    for visitor in ("a", "b"):
        assert [quota.allows_answer(visitor, 900) for _ in range(3)] == [True, True, False]
    clock.now += 2  # 1 s of them comes again
    assert [quota.allows_answer("a", 900) for _ in range(2)] == [True, False]


def test_requests_are_a_bucket_that_fills_again():
    clock = Clock()
    quota = Quota(VisitorLimits(requests_per_s=2, burst=5), clock)
    assert [quota.allows_request("a") for _ in range(7)] == 5 * [True] + 2 * [False]
    assert quota.allows_request("b")
    clock.now += 0.25
    assert not any(quota.allows_request("a") for _ in range(20))  # nor does asking fill it
    clock.now += 0.75
    assert [quota.allows_request("a") for _ in range(3)] == [True, True, False]
    clock.now += 3600  # who was away for long has a full bucket, and no more
    assert [quota.allows_request("a") for _ in range(7)] == 5 * [True] + 2 * [False]


def test_bytes_that_trickle_in_do_not_keep_old_ones_counted():
    clock = Clock()
    quota = Quota(VisitorLimits(megabytes=10), clock)
    quota.add_upload("a", 9_900_000)
    for _ in range(2 * int(quota.limits.window_s) + 10):
        clock.now += 0.6
        quota.add_upload("a", 10)
    quota.add_upload("a", 9_000_000)


def test_forgetting_visitors_bounds_memory(monkeypatch):
    import macd_studio.macd_ui.quota as module

    monkeypatch.setattr(module, "REMEMBERED", 100)
    quota = Quota(VisitorLimits())
    for i in range(1000):
        quota.allows_request(str(i))
    assert len(quota._uses) == 100


def test_a_private_server_counts_nothing():
    quota = Quota(None)
    jobs = [quota.job("a") for _ in range(50)]
    for job in jobs:
        job.__enter__()
    quota.add_upload("a", 10**12)
    assert all(quota.allows_request("a") for _ in range(10**4))
    assert not quota._uses


def test_traces_are_opened_a_few_at_a_time(public, tmp_path, monkeypatch):
    """By programs too, which may call /open without waiting in the queue of the page's events."""
    now, most, lock, full = 0, 0, threading.Lock(), threading.Event()
    trace = small_trace()

    def slow(_):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
            if now == MAX_OPENING:
                full.set()
        assert full.wait(PATIENCE_S)
        with lock:
            now -= 1
        return trace

    monkeypatch.setattr("macd_studio.macd_ui.api.load", slow)
    visitor = Visitor(public.url, cookies=False)
    file = visitor.file("x.macd", pack(trace))

    def call(name, *more):
        body = {"data": [file, *more]}
        return visitor.http.post(f"/gradio_api/run/{name}", json=body).status_code

    with ThreadPoolExecutor(8) as pool:
        codes = [pool.submit(call, *asked) for asked in [("open",), ("rescore", 1.0, 0.1)] * 4]
        assert {code.result() for code in codes} == {200}
    assert (most, now, len(public.opening_queue)) == (MAX_OPENING, 0, 0)
    monkeypatch.setattr(public.quota, "limits", VisitorLimits(opening=1))
    places = [public.opening_queue.enter() for _ in range(MAX_OPENING)]
    first = ThreadPoolExecutor(1).submit(call, "open")
    while len(public.opening_queue) == MAX_OPENING:
        time.sleep(0.01)
    answer = visitor.http.post("/gradio_api/run/open", json={"data": [file]})
    assert "1 file from your address is waiting to be opened" in answer.text
    for place in places:
        place.leave()
    assert first.result(PATIENCE_S) == 200


def test_a_program_of_this_machine_is_no_proxy(public):
    """Which uvicorn would believe otherwise."""
    visitor = Visitor(public.url, **{"X-Forwarded-For": "8.8.8.8"})
    visitor.send("change", question="why?")
    assert "127.0.0.1" in {session.visitor for session in public.sessions._by_key.values()}
    assert "8.8.8.8" not in {session.visitor for session in public.sessions._by_key.values()}


def test_addresses_behind_a_proxy_are_those_that_the_proxy_saw():
    one, two = (address(f"2a01:4f8::{i}", [], ()) for i in (1, 2))
    assert one == two  # one subscriber has a /64
    assert address("a socket", ["8.8.8.8"], PRIVATE) == "a socket"
    assert address("::ffff:9.9.9.9", [], ()) == "9.9.9.9"


PROXIED = {
    "an entry of the proxy": ("10.1.1.1", ["1.1.1.1, 8.8.4.4"], "8.8.4.4"),
    "two proxies": ("10.1.1.1", ["1.1.1.1, 8.8.4.4, 10.0.0.3"], "8.8.4.4"),
    "a header in two lines": ("10.1.1.1", ["1.1.1.1", "8.8.4.4"], "8.8.4.4"),
    "with a port": ("10.1.1.1", ["8.8.4.4:1234"], "8.8.4.4"),
    "IPv6 with a port": ("10.1.1.1", ["[2a01:4f8::1]:80"], "2a01:4f8::/64"),
    "from nobody's proxy": ("9.9.9.9", ["8.8.4.4"], "9.9.9.9"),
    "no address": ("10.1.1.1", ["8.8.4.4, <script>"], "10.1.1.1"),
    "a forged end": ("10.1.1.1", ["10.0.0.9, 8.8.4.4"], "8.8.4.4"),
    "nothing": ("10.1.1.1", [], "10.1.1.1"),
    "proxies alone": ("10.1.1.1", ["10.0.0.2"], "10.0.0.2"),
    "mapped": ("::ffff:10.1.1.1", ["8.8.4.4"], "8.8.4.4"),
}


@pytest.mark.parametrize("what", PROXIED)
def test_a_visitor_is_who_the_last_trusted_proxy_saw(what):
    peer, forwarded, expected = PROXIED[what]
    assert address(peer, forwarded, PRIVATE) == expected
    assert address(peer, forwarded, ()) == address(peer, [], ())


def test_proxies_are_configured():
    words = ["--trusted-proxy", "10.1.2.3/8", "--trusted-proxy", "::1"]
    assert list(map(str, read_settings(words, {}).proxies)) == ["10.0.0.0/8", "::1/128"]
    named = {"MACD_TRUSTED_PROXIES": "192.0.2.1, 192.0.2.2"}
    assert len(read_settings([], named).proxies) == 2
    assert read_settings([], {}).proxies == ()
    assert read_settings([], {"SPACE_ID": "a/b"}).proxies == PRIVATE
    for words, env in ((["--trusted-proxy", "nginx"], {}), ([], {"MACD_TRUSTED_PROXIES": "x"})):
        with pytest.raises(SystemExit):
            read_settings(words, env)


NAME = "vllm:http://127.0.0.1:9"


@pytest.mark.parametrize("public", [False, True])
def test_no_visitor_makes_the_page_ask_a_server(public):
    for listed in ((EMBEDDED,), ("a",)):
        settings = ServerSettings(public=public, backbones=listed)
        with pytest.raises(OptionError, match=r"does not (ask|offer)"):
            settings.check_models(NAME, EMBEDDED)
    named = ServerSettings(public=public, backbones=(EMBEDDED, NAME))
    named.check_models(NAME, EMBEDDED)
    with pytest.raises(OptionError, match="does not ask"):
        named.check_models(NAME + "0", EMBEDDED)


def test_whoever_names_it_no_model_is_opened_that_was_not_named():
    with pytest.raises(OptionError, match="does not ask the server"):
        Models(named=("vllm:http://127.0.0.1:8",)).backbone(NAME)


def test_a_file_that_names_a_server_makes_nobody_ask_it():
    trace = load(assets() / "examples" / "background.macd")
    made = replace(trace, backbone=replace(trace.backbone, name=NAME))
    with pytest.raises(OptionError, match="does not ask the server"):
        Jobs(SimpleNamespace(settings=ServerSettings()), None).check_maker(made, NAME)


def test_a_wrong_address_ends_the_start(tmp_path):
    assert NAME in read_settings(["--backbone", NAME]).backbones
    with pytest.raises(BackboneNotFound, match="MACD_VLLM_KEY"):
        read_settings(["--backbone", "vllm:http://user:secret@127.0.0.1:9"])
