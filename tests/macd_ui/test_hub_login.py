"""Signing in to a study: a whole login with a provider on loopback, and what is kept."""

import subprocess
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from macd_studio.core.errors import OptionError
from macd_studio.macd_ui.serving.study import login_routes
from macd_studio.macd_ui.settings import read_settings
from macd_studio.ratings.store import Study
from macd_studio.ratings.web import CODE_HEADER, StudySite
from tests.patience import PATIENCE_S
from tests.ratings.studies import make_study

SUBJECT = "65f0c1-hub-account-4711"
"""Too long to be found by chance among random codes."""


class Provider:
    """Signs everybody in as `subject`, as the hub does after its own page."""

    def __init__(self):
        self.subject, self.key, self.nonces = SUBJECT, RSAKey.generate_key(2048), {}
        self.app = Starlette(routes=[
            Route("/.well-known/openid-configuration", self.configuration),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
            Route("/keys", self.keys),
        ])  # fmt: skip

    async def configuration(self, request):
        return JSONResponse({
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "id_token_signing_alg_values_supported": ["RS256"],
        })  # fmt: skip

    async def authorize(self, request):
        asked = request.query_params
        self.nonces["once"] = asked["nonce"]
        return RedirectResponse(f"{asked['redirect_uri']}?code=once&state={asked['state']}")

    async def token(self, request):
        if parse_qs((await request.body()).decode())["code"] != ["once"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        claims = {"iss": self.url, "aud": "client", "sub": self.subject, "iat": int(time.time()),
                  "exp": int(time.time()) + 600, "nonce": self.nonces["once"],
                  "preferred_username": "somebody"}  # fmt: skip
        signed = jwt.encode({"alg": "RS256"}, claims, self.key)
        return JSONResponse({"access_token": "t", "token_type": "bearer", "id_token": signed,
                             "expires_at": claims["exp"]})  # fmt: skip

    async def keys(self, request):
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})


@pytest.fixture(scope="module")
def provider():
    made = Provider()
    server = uvicorn.Server(uvicorn.Config(made.app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    made.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield made
    server.should_exit = True
    thread.join()


@pytest.fixture
def study(tmp_path):
    with Study(make_study(tmp_path, 4)) as opened:
        yield opened


@pytest.fixture
def environment(provider):
    return {"OAUTH_CLIENT_ID": "client", "OAUTH_CLIENT_SECRET": "secret",
            "OAUTH_SCOPES": "openid profile", "OPENID_PROVIDER_URL": provider.url}  # fmt: skip


@pytest.fixture
def app(study, environment):
    return Starlette(routes=[*login_routes(study, environment), *StudySite(study).routes()])


def sign_in(client):
    asked = client.get("/rate/hub/login", follow_redirects=False)
    assert asked.status_code == 302, asked.text
    back = httpx.get(asked.headers["location"]).headers["location"]
    assert urlsplit(back).path == "/rate/hub/callback"
    return client.get(back, follow_redirects=False)


def code_of(client):
    return client.get("/rate/hub/code").json()["code"]


def test_who_signs_in_may_rate_and_is_the_same_rater_again(app, study, provider):
    client = TestClient(app)
    assert client.get("/rate/hub/code").status_code == 401
    answer = sign_in(client)
    assert (answer.status_code, answer.headers["location"]) == (303, "/rate")
    code = code_of(client)
    session = client.get("/rate/api/session", headers={CODE_HEADER: code}).json()
    assert session["rater"] == "R01"
    assert session["tasks"]

    elsewhere = TestClient(app)  # another device
    sign_in(elsewhere)
    assert code_of(elsewhere) == code
    assert len(study.raters()) == 1

    provider.subject = "4712"
    other = TestClient(app)
    sign_in(other)
    assert code_of(other) != code
    assert len(study.raters()) == 2


def test_nothing_of_the_account_is_kept(app, study, tmp_path):
    client = TestClient(app)
    sign_in(client)
    code_of(client)
    study.copy_to(tmp_path / "copy.db")
    kept = (tmp_path / "copy.db").read_bytes()
    assert SUBJECT.encode() not in kept
    assert b"somebody" not in kept


def test_a_revoked_rater_stays_revoked(app, study):
    client = TestClient(app)
    sign_in(client)
    code = code_of(client)
    study.revoke("R01")
    sign_in(client)
    assert code_of(client) == code
    assert client.get("/rate/api/session", headers={CODE_HEADER: code}).status_code == 403


@pytest.mark.parametrize("query", ["", "?code=once&state=forged", "?error=access_denied"])
def test_a_login_that_was_not_begun_here_signs_nobody_in(app, query):
    client = TestClient(app)
    assert client.get(f"/rate/hub/callback{query}", follow_redirects=False).status_code == 303
    assert client.get("/rate/hub/code").status_code == 401


def test_a_forged_session_is_nobodys(app):
    client = TestClient(app)
    client.cookies.set("macd_hub", "eyJzdWJqZWN0IjogIjQ3MTEifQ==.aaaaaa.bbbbbb")
    assert client.get("/rate/hub/code").status_code == 401


def test_a_hub_that_is_away_is_told(study, environment):
    routes = login_routes(study, environment | {"OPENID_PROVIDER_URL": "http://127.0.0.1:9"})
    answer = TestClient(Starlette(routes=routes)).get("/rate/hub/login")
    assert (answer.status_code, "cannot be reached" in answer.text) == (502, True)


def test_without_a_client_it_is_refused_before_serving(study, environment):
    with pytest.raises(OptionError, match="OAUTH_CLIENT_SECRET"):
        login_routes(study, environment | {"OAUTH_CLIENT_SECRET": ""})
    assert not read_settings(["--study-login"]).study_login  # there is no study to sign in to


@pytest.mark.long
def test_the_page_starts_without_the_packages_of_a_login():
    """They are no requirement of the page: `make run` does not install them."""
    code = (
        "import sys; sys.modules |= {'authlib': None, 'itsdangerous': None};"
        "import macd_ui.serving.study, macd_ui.layout"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
