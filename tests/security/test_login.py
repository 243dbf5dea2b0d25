"""Logging in: hashed passwords in a file, and attempts that are bounded."""

import stat
import subprocess
import sys

import pytest

from core.errors import OptionError
from macd_ui.serving.passwords import checker, hash_password, matches, read_users
from macd_ui.settings import ServerSettings
from tests.raw import API, Visitor
from tests.security.conftest import serving


def add(file, user, password):
    return subprocess.run(
        [sys.executable, "-m", "macd_ui.serving.passwords", str(file), user],
        input=f"{password}\n", capture_output=True, text=True,
    )  # fmt: skip


def test_a_user_is_added_and_no_password_is_stored(tmp_path):
    file = tmp_path / "users"
    assert "1 users" in add(file, "ada", "correct horse").stdout
    assert "2 users" in add(file, "bob", "battery staple").stdout
    assert add(file, "ada", "another one").returncode == 0
    text = file.read_text()
    assert "horse" not in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    check = checker(file)
    assert check("ada", "another one")
    assert check("bob", "battery staple")
    for user, password in (("ada", "correct horse"), ("ada", ""), ("eve", "another one"),
                           ("ada", "x" * 2000), ("ada", "\ud800")):  # fmt: skip
        assert not check(user, password)


def test_what_cannot_be_a_user_is_refused_and_changes_nothing(tmp_path):
    file = tmp_path / "users"
    add(file, "ada", "correct horse")
    before = file.read_bytes()
    for user, password in (("a:b", "long enough"), ("", "long enough"), ("bob", "short")):
        told = add(file, user, password)
        assert told.returncode
        assert "Traceback" not in told.stderr
    assert file.read_bytes() == before
    assert add(tmp_path / "no" / "folder", "ada", "long enough").returncode == 1


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


def test_only_users_get_in_and_guessing_is_slow(tmp_path):
    file = tmp_path / "users"
    file.write_text(f"ada:{hash_password('correct horse')}\n")
    with serving(ServerSettings(auth=str(file))) as server:
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
        assert visitor.send("type_", question="why?")[-1]["success"]
        (session,) = server._sessions.values()
        assert session.visitor == "ada"  # limits count for the user, not for the class's address
        answers = {log_in("wrong").status_code for _ in range(12)}
        assert answers == {400, 429}
