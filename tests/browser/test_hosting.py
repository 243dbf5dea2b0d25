"""The page, a run, the course and a rating in a browser behind a proxy."""

import itertools

import pytest

from bench.space_pages import run
from macd_studio.macd_ui.place import CHECK
from macd_studio.ratings.store import Study
from tests.browser.conftest import free_port, serve
from tests.browser.test_rating import begin, rate_item, saved
from tests.patience import PATIENCE_S
from tests.ratings.studies import known, make_study
from tests.reverse_proxy import HUB, WAYS, Way, proxying
from tests.security.test_hosting import OPTIONS, SAYS, documented

PREFIX = WAYS[0].prefix
HARDEST = Way(PREFIX, rewrites=True)
"""Prefix kept, another Host, and nothing said of it."""
QUESTION = "Is there a dog in the video?"
GIVEN = {
    "neither": (),
    "a path": ("--root-path", PREFIX, "--allow-host", HUB, "--trusted-proxy", "127.0.0.1"),
    "an address": ("--root-path", "{address}"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Starts a server with what is given of an option; the proxy's port and the server's address.

    study: served to raters.
    """
    started = {}

    def start(name, study=None):
        if (name, study) not in started:
            port = free_port()
            address = f"http://{HUB}:{port}{PREFIX}"
            flags = [flag.format(address=address) for flag in GIVEN[name]]
            env = {} if study is None else {"MACD_STUDY": str(study)}
            started[name, study] = *serve(free_port(), ("app.py", *flags), **env), port
        _, url, port = started[name, study]
        return url.rstrip("/"), port

    yield start
    for process, *_ in started.values():
        process.terminate()
        process.wait(PATIENCE_S)


@pytest.fixture
def new_page(new_tab):
    return new_tab()


def cases(sample):
    """Every way with every option; those that are no sample are long."""
    for name, way in itertools.product(OPTIONS, WAYS):
        marks = () if (name, way) in sample else (pytest.mark.long,)
        flags = ("strips", "rewrites", "forwards")
        yield pytest.param(
            name, way, marks=marks, id="-".join([name, *(f for f in flags if getattr(way, f))])
        )


SAMPLE = (("an address", HARDEST),)
SHOWN = f"http://{HUB}:1/lab/"
"""The address in a browser, where nothing is asked of the network."""


@pytest.mark.parametrize(("root", "shown", "right"), [
    (f"http://{HUB}:1/lab", SHOWN, True),
    (f"http://{HUB}:7860/lab", f"{SHOWN}?__theme=dark", True),  # the page takes its own port
    (f"http://{HUB}:1", SHOWN, False),
    ("http://127.0.0.1:7860/lab", SHOWN, False),
    (f"http://{HUB}:1/lab/deeper", SHOWN, False),
    ("", SHOWN, False),
    (f"http://{HUB}:1/lab", SHOWN[:-1], True),
])  # fmt: skip
def test_the_page_says_what_to_set(new_page, root, shown, right):
    config = f"<script>window.gradio_config = {{ root: '{root}' }};</script>"
    script = f"<script>{CHECK.read_text(encoding='utf-8')}</script>"
    html = f"<!doctype html><head>{config}{script}</head><body><b id=own>page</b></body>"
    new_page.route("**/*", lambda r: r.fulfill(body=html, content_type="text/html"))
    new_page.goto(shown)
    new_page.wait_for_url(lambda url: url.partition("?")[0].endswith("/"))
    assert new_page.locator("#own").count() == right
    told = new_page.locator("#wrong-place pre").all_inner_texts()
    assert told == ([] if right else [f"--root-path {SHOWN[:-1]}"])


@pytest.mark.long
@pytest.mark.parametrize(("name", "way"), cases(SAMPLE))
def test_the_page_behind_a_proxy(name, way, place, new_page):
    url, port = place(name)
    address, page = f"http://{HUB}:{port}{PREFIX}", new_page
    expected = documented()[way][list(OPTIONS).index(name)]
    with proxying(url, way, port):
        page.goto(address)  # without the "/" that most people leave out
        if expected == SAYS:
            page.wait_for_function("() => /--(root-path|allow-host)/.test(document.body.innerText)")
            if page.locator("#wrong-place").count():
                assert f"--root-path {address}\n" in page.inner_text("#wrong-place")
            return
        page.wait_for_selector(".mv-token")
        run(page, QUESTION)
        page.goto(f"{address}/learn/")
        page.wait_for_selector("#chapters a, #chapters button")
        page.locator("#home").click()
        page.wait_for_selector(".mv-token")
        assert page.url.startswith(f"{address}/")


@pytest.mark.long
@pytest.mark.parametrize(("name", "way"), cases(()))
def test_a_rating_behind_a_proxy(name, way, place, new_page, tmp_path_factory):
    if documented()[way][list(OPTIONS).index(name)] == SAYS:
        return
    folder = tmp_path_factory.getbasetemp() / f"study-{name}"
    if not folder.exists():
        folder.mkdir()
        make_study(folder, clips=20, gold=(known(1),))
    (path,) = folder.glob("*.db")
    url, port = place(name, path)
    with Study(path) as study:
        (code,) = study.invite(1)
        before = study.row("SELECT count(*) AS n FROM events WHERE kind = 'rate'")["n"]
    with proxying(url, way, port):
        new_page.goto(f"http://{HUB}:{port}{PREFIX}/rate#{code}")
        rate_item(new_page, begin(new_page), (4, 2))
        saved(new_page)
    with Study(path, write=False) as study:
        assert study.row("SELECT count(*) AS n FROM events WHERE kind = 'rate'")["n"] > before
