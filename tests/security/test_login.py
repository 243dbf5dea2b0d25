"""Logging in: hashed passwords in a file, and guessing that takes ever longer."""

import asyncio
import io
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from itertools import pairwise

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.macd_ui.serving.passwords import (
    FORGOTTEN_S,
    FREE,
    LONGEST_S,
    SENDER,
    Delays,
    checker,
    hash_password,
    main,
    matches,
    read_users,
)
from macd_studio.macd_ui.settings import ServerSettings, VisitorLimits
from tests.raw import API, Visitor
from tests.security.conftest import serving


async def no_wait(seconds):
    """Instead of waiting."""


def finished(coroutine):
    """What a coroutine gives, from a thread: this one may have a browser's event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


@pytest.fixture
def add(monkeypatch):
    """Gives a user a password by the command; what it ends with, None where all went well."""

    def add(file, user, password):
        monkeypatch.setattr("sys.argv", ["passwords", str(file), user])
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        try:
            main()
        except SystemExit as end:
            return end.code

    return add


def test_a_user_is_added_and_no_password_is_stored(tmp_path, add, capsys):
    file = tmp_path / "users"
    command = [sys.executable, "-m", "macd_ui.serving.passwords", str(file), "ada"]
    done = subprocess.run(command, input="correct horse\n", capture_output=True, text=True)
    assert "1 users" in done.stdout
    assert add(file, "bob", "battery staple") is None
    assert "2 users" in capsys.readouterr().out
    assert add(file, "ada", "another one") is None
    text = file.read_text()
    assert "horse" not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ask = checker(file, Delays(sleep=no_wait))

    def check(user, password):
        return finished(ask(user, password))

    assert check("ada", "another one")
    assert check("bob", "battery staple")
    for user, password in (("ada", "correct horse"), ("ada", ""), ("eve", "another one"),
                           ("ada", "x" * 2000), ("ada", "\ud800")):  # fmt: skip
        assert not check(user, password)


def test_what_cannot_be_a_user_is_refused_and_changes_nothing(tmp_path, add):
    file = tmp_path / "users"
    add(file, "ada", "correct horse")
    before = file.read_bytes()
    for user, password in (("a:b", "long enough"), ("", "long enough"), ("bob", "short")):
        assert add(file, user, password)
    assert file.read_bytes() == before
    assert "cannot be written" in add(tmp_path / "no" / "folder", "ada", "long enough")


@pytest.mark.parametrize("text", ["", "ada:plain", "ada:scrypt$x$y", ":scrypt$AA==$AA==", "\0",
                                  "ada:md5$AA==$AA=="])  # fmt: skip
def test_a_file_with_anything_else_is_refused(tmp_path, text):
    file = tmp_path / "users"
    file.write_text(text)
    with pytest.raises(OptionError, match=r"passwords .* USER"):
        read_users(file)
    with pytest.raises(OptionError):
        read_users(tmp_path / "missing")


def test_hashes_are_salted():
    one, two = hash_password("a password"), hash_password("a password")
    assert one != two
    assert matches("a password", one)
    assert not matches("another", one)


def test_only_users_get_in(users):
    with serving(ServerSettings(auth=users)) as server:
        visitor = Visitor(server.url)
        closed = [("GET", "/config"), ("POST", f"{API}/queue/join"), ("POST", f"{API}/upload"),
                  ("GET", f"{API}/info"), ("GET", f"{API}/file=x"), ("POST", f"{API}/run/run"),
                  ("GET", f"{API}/queue/data?session_hash=x")]  # fmt: skip
        for method, path in closed:
            body = {"data": [], "session_hash": "x"} if method == "POST" else None
            assert visitor.http.request(method, path, json=body).status_code == 401, path
        assert visitor.http.get("/healthz").status_code == 200

        def log_in(password):
            return visitor.http.post("/login", data={"username": "ada", "password": password})

        assert log_in("wrong").status_code == 400
        assert log_in("correct horse").status_code == 200
        assert visitor.http.get("/config").status_code == 200
        assert visitor.send("change", question="why?")[-1]["success"]
        (session,) = server.sessions._by_key.values()
        assert session.visitor == "ada"  # limits count for the user, not for the class's address


def test_wrong_passwords_lock_nobody_out(users):
    settings = ServerSettings(
        auth=users, public=True, visitor=VisitorLimits(requests_per_s=1e-9, burst=5),
        proxies=(ip_network("127.0.0.1/32"),),
    )  # fmt: skip
    with serving(settings) as server:
        slept = []

        async def sleep(seconds):
            slept.append(seconds)

        server.logins.sleep, server.logins.clock = sleep, lambda: sum(slept)
        visitor = Visitor(server.url)

        def log_in(user, password, sender="192.0.2.1"):
            form, headers = {"username": user, "password": password}, {"X-Forwarded-For": sender}
            return visitor.http.post("/login", data=form, headers=headers).status_code

        # more than this server takes of other requests
        assert {log_in("ada", "wrong") for _ in range(12)} == {400}
        assert max(slept) == LONGEST_S
        before = len(slept)
        assert log_in("ada", "correct horse", "192.0.2.2") == 200
        assert log_in("bob", "correct horse") == 200
        assert len(slept) == before  # neither waited
        assert log_in("ada", "correct horse") == 200
        assert log_in("ada", "wrong") == 400
        assert len(slept) == before + 1  # a right password starts anew


class Time:
    """A clock that tests move. waits: how long each attempt waited."""

    def __init__(self):
        self.now, self.waits = 1e6, []
        self.delays = Delays(lambda: self.now, self.sleep)

    async def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def try_(self, account="ada", sender="a", right=False):
        SENDER.set(sender)
        return await self.delays.check(account, lambda: right)

    def wait(self, **how):
        """How long one attempt waits."""
        before = self.now
        finished(self.try_(**how))
        return self.now - before


def test_the_delay_grows_for_one_account_at_one_address():
    time = Time()
    waits = [time.wait() for _ in range(FREE + 7)]
    assert waits == [0.0] * FREE + [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert time.wait(sender="b", right=True) == 0.0  # the owner elsewhere
    assert time.wait(account="bob", right=True) == 0.0  # a neighbour
    assert time.wait(right=True) == LONGEST_S  # later, but let in
    assert time.wait() == 0.0
    for _ in range(5):
        time.wait()
    time.now += FORGOTTEN_S + 1
    assert time.wait() == 0.0


def test_many_attempts_at_once_are_no_more_guesses():
    """Beyond the first few, one a second at most, whatever is sent side by side."""
    time = Time()
    begun, starts = time.now, []

    async def sleep(seconds):
        starts.append(time.now - begun + seconds)

    async def flood():
        time.delays.sleep = sleep
        return await asyncio.gather(*(time.try_() for _ in range(50)))

    finished(flood())
    assert len(starts) == 50 - FREE
    assert min(b - a for a, b in pairwise(sorted(starts))) >= 1.0
    assert max(starts) <= LONGEST_S + 50


def test_one_sender_s_flood_holds_up_no_other():
    time, done, busy = Time(), [], []

    def slow(name):
        def matches():
            busy.append(threading.current_thread())
            done.append(name)
            return False

        return matches

    async def one(sender, account):
        SENDER.set(sender)
        await time.delays.check(account, slow(sender))

    async def both():
        flood = [asyncio.create_task(one("a", f"user{i}")) for i in range(40)]
        await asyncio.sleep(0)
        await asyncio.gather(*flood, asyncio.create_task(one("b", "bob")))

    finished(both())
    assert done.index("b") < 5
    assert threading.main_thread() not in busy  # which answers requests meanwhile
    assert not time.delays._turns


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("macd_studio.macd_ui.serving.passwords.REMEMBERED", 10)
    time = Time()
    for i in range(30):
        time.wait(account=str(i))
    assert len(time.delays._pairs) == 10
