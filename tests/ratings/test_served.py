"""A study behind the server's gate: raters reach their page, and the traces are the organiser's."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from macd_studio.core.errors import MacdError
from macd_studio.macd_ui.quota import Quota
from macd_studio.macd_ui.serving.gate import Gate
from macd_studio.macd_ui.serving.study import open_site
from macd_studio.macd_ui.settings import ServerSettings, read_settings
from macd_studio.ratings.web import CODE_HEADER, ORGANISER_COOKIE
from tests.ratings.studies import copy_study, make_study


@pytest.fixture
def settings(tmp_path):
    return ServerSettings(study=str(copy_study(tmp_path, 2)), only_study=True)


@pytest.fixture
def site(settings):
    opened = open_site(settings)
    yield opened
    opened.close()


@pytest.fixture
def client(site, settings):
    return client_of(site, settings)


def client_of(site, settings):
    async def page(request):
        return PlainTextResponse("TRACES")

    others = [Route(p, page) for p in ("/", "/config", "/gradio_api/startup-events")]
    store = SimpleNamespace(settings=settings, site=site, quota=Quota(None))
    app = Gate(Starlette(routes=[*site.routes(), *others]), store)
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/", 303), ("/config", 404), ("/files/example/repaired.macd", 404), ("/rate", 200),
     ("/organise", 200), ("/rate/api/other", 404), ("/gradio_api/startup-events", 200)],
)  # fmt: skip
def test_what_a_rater_reaches(client, path, status):
    answer = client.get(path)
    assert answer.status_code == status
    assert path == "/gradio_api/startup-events" or "TRACES" not in answer.text


def test_the_other_pages_stay_open_unless_the_study_is_all_there_is(site, settings):
    client = client_of(site, replace(settings, only_study=False))
    assert client.get("/").text == client.get("/config").text == "TRACES"
    assert client.get("/rate").status_code == client.get("/organise").status_code == 200
    assert client.get("/organise/api/state").status_code == 401


def test_the_organiser_reaches_the_traces(client, site):
    headers = {CODE_HEADER: make_study.last.organiser}
    assert client.post("/organise/api/enter", headers=headers, json={}).status_code == 200
    assert ORGANISER_COOKIE in client.cookies
    assert client.get("/").text == "TRACES"
    site.study.renew_organiser()
    assert client.get("/").status_code == 303


def test_without_a_study_there_is_no_rating_page(settings):
    assert open_site(ServerSettings()) is None


def test_what_is_no_study_ends_the_start(tmp_path):
    with pytest.raises(MacdError, match="no study"):
        open_site(ServerSettings(study=str(tmp_path / "missing.db")))


def test_the_flags():
    words = ["--study", "s.db", "--study-dataset", "a/b"]
    assert read_settings(words, {}).study == "s.db"
    assert read_settings(words, {}).study_dataset == "a/b"
    assert read_settings([], {"MACD_STUDY": "t.db"}).study == "t.db"
    assert read_settings([], {}).study is None
    assert not read_settings(words, {}).only_study
    assert read_settings([*words, "--only-study"], {}).only_study
    assert read_settings(words, {"MACD_ONLY_STUDY": "1"}).only_study
    assert not read_settings(["--only-study"], {}).only_study  # without a study
