"""The gallery behind the gate of a real server, with and without users."""

import httpx
import pytest

from macd_studio.core.traces.bundle import save
from macd_studio.macd_ui.examples import examples
from macd_studio.macd_ui.serving.passwords import hash_password
from macd_studio.macd_ui.settings import ServerSettings
from tests.security.conftest import serving
from tests.small_trace import small_trace


def test_it_is_open_to_whoever_sees_the_page(store):
    answer = httpx.get(f"{store.url}/gallery", follow_redirects=True, trust_env=False)
    assert answer.status_code == 200
    shipped = len(examples()) + 1  # and the real picture
    assert answer.text.count("<li ") == shipped > 9
    policy = answer.headers["content-security-policy"]
    assert "unsafe-eval" not in policy
    assert "frame-ancestors 'self'" in policy
    for method, path in (("POST", "/gallery/"), ("GET", "/t/zz"), ("GET", "/t/" + "a" * 65)):
        assert httpx.request(method, store.url + path, trust_env=False).status_code == 404


@pytest.mark.long
def test_users_alone_see_it_where_they_log_in(tmp_path):
    users = tmp_path / "users"
    users.write_text(f"ada:{hash_password('correct horse')}\n")
    (tmp_path / "traces").mkdir()
    save(small_trace(), tmp_path / "traces" / "a.macd")
    settings = ServerSettings(auth=str(users), gallery=str(tmp_path / "traces"))
    with serving(settings) as store, httpx.Client(base_url=store.url, trust_env=False) as client:
        for path in ("/gallery/", "/gallery/viewer.js"):
            assert client.get(path).status_code == 401
        wrong = {"username": "ada", "password": "a wrong one"}
        client.post("/login", data=wrong)
        assert client.get("/gallery/").status_code == 401
        client.post("/login", data=wrong | {"password": "correct horse"})
        answer = client.get("/gallery/")
        assert answer.status_code == 200
        assert answer.text.count("<li ") == 1
