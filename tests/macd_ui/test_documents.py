"""The documentation and the source, as a server shows them."""

import io
import re
import zipfile
from html.parser import HTMLParser
from posixpath import dirname, join, normpath
from urllib.parse import urldefrag

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from macd_studio.macd_ui import documents
from macd_studio.macd_ui.serving.routes import Doors
from macd_studio.macd_ui.source import source_route
from macd_studio.parts import CODE, LIST, ROOT, listed

TEXTS = [path for path, file in documents.documents().items() if file.suffix == ".md"]


class Read(HTMLParser):
    """What of a page a reader sees, and where it leads."""

    def __init__(self, page):
        super().__init__()
        self.text, self.ids, self.links, self.code = "", set(), [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.code += tag == "code"
        named = dict(attrs)
        self.ids.add(named.get("id"))
        self.links += [named[n] for n in ("href", "src") if n in named]

    def handle_endtag(self, tag):
        self.code -= tag == "code"

    def handle_data(self, data):
        self.text += "" if self.code else data


@pytest.fixture(scope="module")
def client():
    return TestClient(Starlette(routes=[*documents.routes(), source_route()]))


@pytest.fixture(scope="module")
def pages(client):
    return {path: Read(client.get(f"/docs/{path}").text) for path in TEXTS}


def test_no_document_shows_markup(pages):
    assert {"results.md", "why.md", "backbones.md", "toyworld-results/report.md"} <= set(pages)
    for path, page in pages.items():
        for mark in ("<!--", "-->", "/figures", "<br>", "]("):
            assert mark not in page.text, (path, mark)
        assert "license: agpl" not in page.text, path


def test_every_link_of_every_document_leads_somewhere(client, pages):
    targets = {}
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("http://", "https://", "data:")):
                continue
            address, fragment = urldefrag(link)
            target = normpath(join("/docs", dirname(path), address)) if address else f"/docs/{path}"
            if target == "/":
                continue
            targets.setdefault(target, (path, link))
            if fragment:
                assert fragment in pages[target.removeprefix("/docs/")].ids, (path, link)
    assert len(targets) > 40
    for target, where in targets.items():
        assert client.get(target).status_code == 200, where
        assert Doors().find("GET", target), where


def test_every_command_of_every_document_is_there():
    ours = "|".join((*CODE, "bench", "scripts", "tests"))
    for name in (n for n in listed() if n.endswith(".md") or n == "Makefile"):
        said = re.findall(rf"python -m ((?:{ours})[\w.]*)", (ROOT / name).read_text("utf-8"))
        for place in (ROOT / module.rstrip(".").replace(".", "/") for module in said):
            assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), name


def test_documents_are_listed_by_their_titles(client):
    page = client.get("/docs/trace-format.md").text
    assert (
        '<a href="why.md">What a patch tells a model, and why that decides what contrast gains</a>'
        in page
    )
    assert '<a href="trace-format.md" aria-current="page">The .macd file</a>' in page
    assert "<title>The .macd file · MACD Studio</title>" in page
    deeper = client.get("/docs/toyworld-results/report.md").text
    assert '<a href="../why.md">' in deeper
    assert '<a href="../../">To the page</a>' in deeper


def test_the_readme_of_the_folder_links_to_each_document_once():
    text = (documents.DOCS / "README.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((.+?)\)", text)
    assert sorted(linked) == sorted(f.name for f in documents.DOCS.glob("*.md"))[1:]
    assert len(text.splitlines()) <= 40


def test_what_is_not_a_document_is_not_given_away(client):
    page = client.get("/docs/page.md")
    assert '<table tabindex="0">' in page.text
    assert "script-src" not in page.headers["content-security-policy"]
    assert client.get("/docs/page.png").headers["content-type"] == "image/png"
    assert client.get("/docs/source/THIRD_PARTY_NOTICES.md").status_code == 200
    for path in ("..%2FLICENSE", "nothing.md", "%2e%2e", "source/app.py", "training"):
        assert client.get(f"/docs/{path}").status_code == 404


def test_the_folder_itself_lists_the_documents(client, monkeypatch):
    for path in ("/docs", "/docs/"):
        page = client.get(path)
        assert page.status_code == 200
        assert '<li><a href="trace-format.md">The .macd file</a>' in page.text
    missing = client.get("/docs/training/nothing.md")
    assert (missing.status_code, 'href="../../learn/"' in missing.text) == (404, True)
    monkeypatch.setattr(documents, "has_docs", lambda: False)
    assert 'href="../learn/"' in client.get("/docs/").text


def test_a_link_to_what_is_not_installed_is_text(monkeypatch):
    notices = "source/THIRD_PARTY_NOTICES.md"
    known = {p: f for p, f in documents.documents().items() if p != notices}
    monkeypatch.setattr(documents, "documents", lambda: known)
    page = Read(documents._page.__wrapped__("dataset-card.md", 0))
    assert not [link for link in page.links if "NOTICES" in link or not link]
    assert "(THIRD_PARTY_NOTICES.md)" in page.text


def test_the_source_comes_as_an_archive(client):
    """That it is whole, installs and runs: tests/test_packaging.py."""
    answer = client.get("/source.zip")
    assert answer.headers["content-type"] == "application/zip"
    assert set(zipfile.ZipFile(io.BytesIO(answer.content)).namelist()) == {*listed(), LIST}
