"""The three public endpoints, as `gradio_client` calls them; everything else is private."""

import re
import shutil

import numpy as np
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError

from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui.examples import examples
from tests.browser.conftest import ROOT


@pytest.fixture(scope="module")
def client(server, tmp_path_factory):
    return Client(server, verbose=False, download_files=str(tmp_path_factory.mktemp("api")))


def test_only_three_endpoints_are_public(client):
    told = client.view_api(return_format="dict", print_info=False)
    assert set(told["named_endpoints"]) == {"/trace", "/rescore", "/open"}
    assert not told["unnamed_endpoints"]


@pytest.mark.long
def test_a_trace_can_be_computed_rescored_and_opened(client, toy_mp4):
    question = "Is there a dog in the video?"
    options = {"contrast": {"alpha": 2.0, "beta": 0.05}}
    summary, file = client.predict(handle_file(str(toy_mp4)), question, options, api_name="/trace")
    assert summary["question"] == question
    assert summary["options"]["contrast"] == options["contrast"] | {"head": "probability"}
    trace = load(file)
    assert trace.answers["macd"].alpha == 2.0
    again = client.predict(handle_file(file), api_name="/open")
    assert again["answers"] == summary["answers"]
    rows = client.predict(handle_file(file), 0.0, 0.1, api_name="/rescore")
    base = [int(np.argmax(t.base)) for t in trace.answers["macd"].tokens]
    picked = [t.candidates[i] for t, i in zip(trace.answers["macd"].tokens, base, strict=True)]
    assert [r["token"] for r in rows] == picked


@pytest.mark.long
def test_the_printed_example_runs_as_it_stands(server, toy_mp4, tmp_path, monkeypatch):
    """But for the server's port."""
    page = (ROOT / "docs" / "page.md").read_text()
    (snippet,) = (s for s in re.findall(r"```python\n(.*?)```", page, re.S) if "Client(" in s)
    assert "http://127.0.0.1:7860" in snippet
    shutil.copy(toy_mp4, tmp_path / "clip.mp4")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(snippet.replace("http://127.0.0.1:7860", server), "docs/page.md", "exec"), names)
    made = load(names["file"])
    assert made.question == names["summary"]["question"] == "Is there a dog in the video?"
    assert [t["was"] for t in names["tokens"]] == [t.text for t in made.answers["macd"].tokens]


@pytest.mark.long
def test_what_is_wrong_is_told(client, tmp_path, toy_mp4):
    broken = tmp_path / "broken.macd"
    broken.write_bytes(b"no trace")
    for call in (
        lambda: client.predict(handle_file(str(broken)), api_name="/open"),
        lambda: client.predict(handle_file(str(examples()[0].trace)), -1, 0.1, api_name="/rescore"),
        lambda: client.predict(handle_file(str(toy_mp4)), "", {}, api_name="/trace"),
        lambda: client.predict(
            handle_file(str(toy_mp4)), "why?", {"ascent": {"steps": 200}}, api_name="/trace"
        ),
        lambda: client.predict(
            handle_file(str(toy_mp4)), "why?", {"magic": {}, "ascent": 3}, api_name="/trace"
        ),
    ):
        with pytest.raises(AppError) as told:
            call()
        assert str(told.value).strip()


@pytest.mark.parametrize("path", ["/etc/passwd", str(ROOT / "README.md")])
def test_files_that_were_not_uploaded_are_refused(client, path):
    with pytest.raises(AppError):
        client.predict({"path": path, "meta": {"_type": "gradio.FileData"}}, api_name="/open")
