"""What one visitor's page has asked for, asked for again by another visitor of a public server."""

import pytest

from tests.browser.conftest import free_port, open_files, serve
from tests.browser.test_page import run, upload
from tests.patience import PATIENCE_MS, PATIENCE_S


@pytest.mark.long
def test_another_visitor_gets_public_files_alone(browser, toy_mp4):
    process, url = serve(free_port(), ("app.py", "--public"))
    try:
        first = browser.new_context(reduced_motion="reduce", accept_downloads=True)
        page = first.new_page()
        page.set_default_timeout(PATIENCE_MS)
        answers = set()

        def note(response):
            stream = "event-stream" in response.headers.get("content-type", "")
            if response.ok and "/upload?" in response.url:
                answers.update(f"{url}gradio_api/file={path}" for path in response.json())
            if response.request.method == "GET" and response.status == 200 and not stream:
                answers.add(response.url)

        page.on("response", note)
        page.goto(url)
        page.wait_for_selector(".mv-token")
        upload(page, toy_mp4)
        run(page, "Is there a person in the video?")
        page.wait_for_selector(".mv-strip[data-method=macd] .mv-token")
        with page.expect_download() as saved:
            open_files(page).get_by_role("button", name="Save trace").click()
        answers.add(saved.value.url)
        asked = sorted(u for u in answers if u.startswith(url))
        assert any("/files/" in u for u in asked)
        assert any("/file=" in u for u in asked)

        public = serve(free_port(), ("app.py", "--public"))
        try:
            fresh = browser.new_context().request
            other = browser.new_context()
            other.new_page().goto(url)
            for address in asked:
                here = other.request.get(address, timeout=PATIENCE_MS, fail_on_status_code=False)
                if not here.ok:
                    continue
                there = fresh.get(address.replace(url, public[1]), timeout=PATIENCE_MS)
                assert there.ok, f"{address} is served to others, and is no public file"
        finally:
            public[0].terminate()
            public[0].wait(PATIENCE_S)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
