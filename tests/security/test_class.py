"""A class: many people behind one address, or behind one proxy, all served in line."""

import random
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pytest

from bench.server import serving_process
from bench.visitor import Visitor as Reader
from macd_studio.macd_ui import settings as module
from macd_studio.macd_ui.clips import ReaderPool
from macd_studio.macd_ui.limits import VisitorLimits
from macd_studio.macd_ui.quota import Quota, QuotaError
from macd_studio.macd_ui.session import Sessions
from macd_studio.macd_ui.settings import ServerSettings, read_settings
from tests.patience import PATIENCE_S
from tests.raw import Visitor, words
from tests.security.conftest import serving


def test_an_address_has_as_many_shares_as_people():
    one, many = VisitorLimits(), VisitorLimits().times(60)
    fixed = {"window_s", "unread_of_tab"}
    for name in (f.name for f in fields(one)):
        times = 1 if name in fixed else 60
        assert getattr(many, name) == times * getattr(one, name), name
    assert ServerSettings(public=True, visitors_per_address=60).limits == many
    users = ServerSettings(public=True, visitors_per_address=60, auth="users")
    assert users.limits == one  # who logs in is counted alone
    assert ServerSettings(visitors_per_address=60).limits is None


def test_a_class_is_one_word(monkeypatch):
    monkeypatch.setattr(module, "own_addresses", lambda: ["192.168.1.7", "fd00::7"])
    group = read_settings(["--class", "60"], {})
    assert (group.public, group.host, group.people) == (True, "0.0.0.0", 60)
    assert group.allows_host("192.168.1.7")
    assert group.allows_host("fd00::7")
    assert not group.allows_host("192.168.1.8")
    named = read_settings(
        ["--class", "60", "--host", "10.0.0.9", "--allow-host", "lab", "--auth", "users"], {}
    )
    assert (named.host, named.hosts, named.people) == ("10.0.0.9", ("lab", "10.0.0.9"), 1)
    env = {"MACD_VISITORS_PER_ADDRESS": "25", "GRADIO_SERVER_NAME": "::1"}
    ordinary = read_settings([], env)
    assert (ordinary.public, ordinary.host, ordinary.people) == (False, "::1", 25)
    assert read_settings(["--visitors-per-address", "7"], env).people == 7
    assert read_settings([], {}).people == 1
    assert read_settings([], {"SPACE_ID": "a/b"}).host == "0.0.0.0"


@pytest.mark.parametrize("number", ["0", "-3", "1001", "many", "9" * 400])
def test_a_number_of_people_is_one(number, capsys):
    for option in ("--class", "--visitors-per-address"):
        with pytest.raises(SystemExit):
            read_settings([option, number], {})
        assert option in capsys.readouterr().err
    with pytest.raises(SystemExit):
        read_settings([], {"MACD_VISITORS_PER_ADDRESS": number})


def test_own_addresses_are_no_names_and_not_loopback(monkeypatch):
    info = [(socket.AF_INET, 0, 0, "", (one, 0)) for one in ("127.0.1.1", "10.0.0.7", "10.0.0.7")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: info)
    found = module.own_addresses()
    assert found.count("10.0.0.7") == 1
    assert "127.0.1.1" not in found


def test_a_group_has_all_readers_and_a_line_of_its_size():
    alone, group = (ReaderPool(Quota(VisitorLimits()), people=n) for n in (1, 60))
    assert (alone._own, group._own) == (1, 2)
    assert group._most == 60 * alone._most


def test_tabs_of_an_address_are_told_apart_from_those_of_all():
    settings = ServerSettings(
        public=True, visitor=VisitorLimits(sessions=1), visitors_per_address=3
    )
    sessions = Sessions(settings, 60.0, lambda _: None, lambda *_: None)
    for n in range(3):
        sessions.open(str(n), "school")
    with pytest.raises(QuotaError, match=r"3 tabs from your address.*--visitors-per-address N"):
        sessions.open("3", "school")


TIGHT = VisitorLimits(jobs=1, sessions=1, events=2, unread=4, opening=1, burst=20)
"""Less than a class needs, and enough for each of it."""


def members(url, number, behind=lambda n: None):
    """So many people who open page and course and run the example at once; how each run ended."""
    start = threading.Barrier(number)

    def member(n):
        with Reader(url, random.Random(n), behind=behind(n)) as reader:
            course = reader.http.get("/learn/").raise_for_status()
            start.wait(PATIENCE_S)
            shown = reader.event("run")
            return "MACD" in course.text, shown["status"].get("error"), shown["status"]["running"]

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(member, range(number)))


def turned_away(ends):
    """Those who did not see the course, whose run did not end, or who met a bound of their number.

    On a machine that is busy otherwise a run may be out of time; that is no matter of their number.
    """
    bounds = ("address", "tabs", "wait already", "waiting to be", "Too many")
    return [
        end
        for end in ends
        if not end[0] or end[2] or any(word in (end[1] or "") for word in bounds)
    ]


@pytest.mark.parametrize("people", [4, 1])
def test_a_small_class_by_one_address(people):
    """With an address's share for four all stand in line, with that for one they do not."""
    settings = ServerSettings(public=True, visitor=TIGHT, visitors_per_address=people)
    with serving(settings) as server:
        visitors = [Visitor(server.url) for _ in range(4)]
        server.lm.free.clear()
        told = []

        def run(visitor):
            answer = visitor.join("run")
            if answer.status_code == 200:
                told.append(words(list(visitor.messages(answer.json()["event_id"]))))
            else:
                told.append(answer.text)

        threads = [threading.Thread(target=run, args=(one,)) for one in visitors]
        for thread in threads:
            thread.start()
        assert server.lm.reached.wait(PATIENCE_S)
        until = time.monotonic() + PATIENCE_S
        while len(told) + len(server.admission_queue) < 4 and time.monotonic() < until:
            time.sleep(0.02)
        waiting, refused = len(server.admission_queue), list(told)
        for session in server.sessions.all():
            server.stop(session)
        server.lm.free.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert (waiting, len(refused)) == ((4, 0) if people == 4 else (1, 3))
    assert all("--visitors-per-address N" in one for one in refused)


@pytest.mark.long
def test_sixty_by_one_address(tmp_path):
    with serving_process("--class", "60", "--host", "127.0.0.1") as (_, url):
        assert turned_away(members(url, 60)) == []


@pytest.mark.long
def test_two_hundred_behind_a_proxy(tmp_path):
    flags = ("--public", "--trusted-proxy", "127.0.0.1")
    with serving_process(*flags) as (_, url):
        ends = members(url, 200, lambda n: f"203.0.{n // 100}.{n % 100 + 1}")
    assert turned_away(ends) == []
