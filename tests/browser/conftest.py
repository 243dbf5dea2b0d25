"""A real server with the embedded models, and a real Chromium."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE_MS, PATIENCE_S

ROOT = Path(__file__).parents[2]
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
QUIET = ("Method not implemented.",)  # printed by the page's own framework
BROKEN_OFF = ("AbortError", "Connection errored out", "Failed to fetch")  # by leaving a document


def chromium_path():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return None


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        except Error as error:
            if os.environ.get("MACD_REQUIRE_BROWSER"):
                pytest.fail(f"browser tests are required but no Chromium starts: {error}")
            pytest.skip("no Chromium")
        chromium.new_context = unfolding(chromium.new_context)
        yield chromium
        chromium.close()


FOLDS = "why measure layers tried strip"
"""Parts of the page that are one click away, as somebody left them who has opened them all."""


def unfolding(new_context):
    """`new_context`, in whose pages the folded parts are open; folds: the names of those."""

    def opened(folds=FOLDS, **how):
        context = new_context(**how)
        if folds:
            context.add_init_script(
                f"try {{ localStorage.setItem('macd-open', '{folds}'); }} catch {{}}"
            )
        return context

    return opened


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def serve(port, command=("app.py",), **env):
    """The page as `python app.py` serves it; the process and its address, once it answers."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | {"GRADIO_SERVER_PORT": str(port)} | env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/"
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=2).close()
            break
        except OSError:
            assert process.poll() is None, "the server ended"
            time.sleep(0.2)
    return process, url


@pytest.fixture(scope="session")
def server():
    """The page as `python app.py` serves it, on a free port."""
    process, url = serve(free_port())
    yield url
    process.terminate()
    process.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="session")
def quiet():
    """Parts of the messages on the console that are no errors of the page."""
    return QUIET


@pytest.fixture
def page(browser, server, quiet):
    """A fresh page with its form open; errors on its console and foreign requests fail the test.

    Nothing moves by itself: the reader has asked for less motion.
    """
    context = browser.new_context(
        viewport={"width": 1440, "height": 1000}, accept_downloads=True, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    problems = []

    def met(text):
        if not any(part in text for part in quiet):
            problems.append(text)

    def heard(message):
        if message.type == "error":
            met(f"{message.text} {message.location['url']}")

    def asked(request):
        if not request.url.startswith((server, "data:", "blob:")):
            problems.append(f"asked {request.url}")

    def failed(request):  # what the page's own policy stopped has reached nobody
        if request.failure == "csp" and f"asked {request.url}" in problems:
            problems.remove(f"asked {request.url}")

    def leaves_document(navigate):
        """`navigate`, which breaks off what the document that it leaves still waits for."""

        def left(*args, **kwargs):
            before = len(problems)
            response = navigate(*args, **kwargs)
            if urlsplit(page.url).path == "/":
                open_form(page)
            problems[before:] = [
                text for text in problems[before:] if not any(part in text for part in BROKEN_OFF)
            ]
            return response

        return left

    page.on("console", heard)
    page.on("pageerror", lambda e: met(str(e)))
    page.on("request", asked)
    page.on("requestfailed", failed)
    page.goto(server)
    open_form(page)
    page.reload, page.goto = leaves_document(page.reload), leaves_document(page.goto)
    yield page
    seen = list(problems)  # closing a page breaks off what it still waits for
    context.close()
    assert not seen


@pytest.fixture
def new_tab(browser):
    """Opens pages, each with a browser's context of its own; errors of their scripts fail the test.

    Strict ones fail it too by an error on the console and by asking for anything but files and what
    lies below the address `strict`.
    """
    contexts, problems = [], []

    def heard(message):
        if message.type == "error":
            problems.append(message.text)

    def open_tab(url=None, strict="", **how):
        def asked(request):
            if not request.url.startswith((strict, "file:", "data:", "blob:")):
                problems.append(f"asked {request.url}")

        contexts.append(browser.new_context(**{"reduced_motion": "reduce"} | how))
        page = contexts[-1].new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda e: problems.append(str(e)))
        if strict:
            page.on("console", heard)
            page.on("request", asked)
        if url is not None:
            page.goto(url)
        return page

    yield open_tab
    seen = list(problems)  # closing a page breaks off what it still waits for
    for context in contexts:
        context.close()
    assert not seen


def written_course(folder):
    """Writes the course; the address of its page."""
    from macd_studio.macd_ui.examples import SHIPPED
    from macd_studio.macd_ui.learn.site import Site, write_site

    write_site(Site(folders=[SHIPPED]), folder)
    return (folder / "index.html").as_uri()


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """Address of the course as the command writes it, opened from disk, where no model runs."""
    return written_course(tmp_path_factory.mktemp("learn") / "out")


@pytest.fixture(scope="session")
def bare(browser):
    """An empty page, for scripts of the viewer that need neither a server nor a document."""
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def open_files(page):
    """Opens the menu of files; gives the page."""
    menu = page.locator("#open-files")
    if menu.get_attribute("aria-expanded") == "false":
        menu.click()
    return page


def open_form(page):
    """Opens the drawer with the form, as everybody does who brings a clip."""
    page.locator("#open-form[aria-expanded=false]").click()
