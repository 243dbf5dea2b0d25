"""The results behind the gate of a real server."""

import json

import httpx
import pytest

from macd_studio.macd_ui.settings import ServerSettings
from tests.macd_ui.test_results import a_report
from tests.patience import PATIENCE_S
from tests.security.conftest import serving


@pytest.mark.long
def test_users_alone_see_them_and_nobody_writes(tmp_path, users):
    (tmp_path / "users").write_text("of another file")
    (tmp_path / "report.json").write_text(json.dumps(a_report()))
    settings = ServerSettings(auth=users, results=str(tmp_path), public=True)
    with (
        serving(settings) as store,
        httpx.Client(base_url=store.url, trust_env=False, timeout=PATIENCE_S) as client,
    ):
        for path in ("/results/", "/results/report.json", "/results/viewer.js"):
            assert client.get(path).status_code == 401
        client.post("/login", data={"username": "ada", "password": "correct horse"})
        answer = client.get("/results", follow_redirects=True)
        assert answer.status_code == 200
        assert "script-src" not in answer.headers["content-security-policy"]
        for method in ("POST", "PUT", "DELETE"):
            assert client.request(method, "/results/report.json").status_code == 404
        for path in ("/results/../users", "/results/%2e%2e/users", "/results/users"):
            assert client.get(path).status_code == 404
