"""Starts the app as a Hugging Face Space on a CPU does, and checks in a browser what visitors need.

`make space-check`. The checkout is read-only, only HOME and the temporary folder can be written,
there is no network, and the user has no privileges, as far as this machine allows; the first lines
of the table say how far. Exit codes: 0 every check passed, 1 one did not, 2 the page did not start.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from bench import space_pages
from bench.server import ROOT, StartError, chromium, free_port, unfolded
from bench.space import HOST, WAIT_S, Space, leave_network
from bench.space_pages import open_form, run, visit
from macd_studio.macd_ui.settings import EMBEDDED_BACKBONES

PORT = 7860
PAINTED = "the shipped trace is painted"
FIRST_PAINT_GOAL_S = 8.0
FIRST_PAINT_LIMIT_S = 10 * FIRST_PAINT_GOAL_S
STOP_LIMIT_S = 30.0
FOREIGN_BACKBONE = "Qwen/Qwen2-VL-2B-Instruct"
QUESTION = "Is there a dog in the video?"
WITHOUT_SPACES = "`spaces` package is required to run hot-reloading"
"""Gradio logs that once where the package is missing, which every real Space has installed."""
EMBEDDING = [
    # another site's page may hold the loopback address in a frame without asking the user
    "--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests",
]


@dataclass
class Check:
    """One line of the table. seconds: how long the step took, where that is of interest."""

    name: str
    passed: bool
    detail: str = ""
    seconds: float | None = None


@dataclass
class Report:
    """What was checked, and what this machine could not imitate."""

    conditions: dict[str, str] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    def add(self, name: str, passed: bool, detail: str = "", seconds: float | None = None) -> None:
        """Notes one check."""
        self.checks.append(Check(name, bool(passed), detail, seconds))
        print(f"{'ok' if passed else 'FAILED':7} {name}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Callable[[str], None]]:
        """A check that fails if its block raises; the block may add a detail."""
        began = time.monotonic()
        details: list[str] = []
        try:
            yield details.append
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            self.add(name, False, lines[0][:200], time.monotonic() - began)
        else:
            self.add(name, True, " ".join(details), time.monotonic() - began)

    @property
    def passed(self) -> bool:
        """Whether every check did."""
        return all(check.passed for check in self.checks)

    def table(self) -> str:
        """The report for people."""
        lines = [f"{name:24} {value}" for name, value in self.conditions.items()]
        for c in self.checks:
            took = "" if c.seconds is None else f"{c.seconds:7.1f} s"
            lines.append(f"{'ok' if c.passed else 'FAILED':7}{took:10} {c.name:44} {c.detail}")
        return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the checks and prints them; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.space_check", description=__doc__)
    parser.add_argument("--port", type=int, default=PORT, help="default: %(default)s; 0: any free")
    parser.add_argument("--short", action="store_true", help="without uploads and downloads")
    parser.add_argument("--brief", action="store_true", help="without a browser: does it start?")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    report = Report()
    network = leave_network(report.conditions)
    port = options.port or free_port()
    try:
        with Space(port, network, report.conditions) as space:
            if options.brief:
                check_start(space, report)
            else:
                check(space, report, options.short)
        if not options.short and not options.brief:
            with Space(port, network, report.conditions, space_pages.make_study) as space:
                check_study(space, report)
    except StartError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(asdict(report) | {"passed": report.passed}, indent=1))
    else:
        print(report.table())
    return 0 if report.passed else 1


def check(space: Space, report: Report, short: bool) -> None:
    """Every check, in the order in which a visitor would meet a failure."""
    with sync_playwright() as playwright:
        browser = chromium(playwright, *EMBEDDING)
        answered = space.wait_until_open()
        context = unfolded(browser.new_context(accept_downloads=True))
        page = context.new_page()
        page.set_default_timeout(1000 * WAIT_S)
        requested: set[str] = set()
        blocked: set[str] = set()
        page.on("request", lambda r: requested.add(r.url))
        page.on("requestfailed", lambda r: blocked.add(r.url) if r.failure == "csp" else None)
        page.goto(space.url)
        page.wait_for_selector(".mv-token")
        painted = time.monotonic() - space.began
        report.add("the server answers", True, "", answered)
        report.add(
            PAINTED,
            painted <= FIRST_PAINT_LIMIT_S,
            f"from process start; goal {FIRST_PAINT_GOAL_S:g} s"
            + ("" if painted <= FIRST_PAINT_GOAL_S else ", missed"),
            painted,
        )
        check_headers(space, report)
        check_public(page, report)
        new, hub = context.new_page, "https://huggingface.co/spaces/owner/name"
        steps: dict[str, Callable[[], str | None]] = {
            "an example runs": lambda: run(page, QUESTION),
            "α is moved, and the answer follows": lambda: space_pages.rescore(page),
            "a mask's level is changed by hand": lambda: space_pages.change_level(page),
            "another method is compared": lambda: space_pages.compare(page, QUESTION),
            "the page runs inside a page of huggingface.co":
                lambda: check_frame(new(), space, hub, True),
            "another site cannot hold it in a frame":
                lambda: check_frame(new(), space, "https://example.org/", False),
            "the gallery shows a run": lambda: check_gallery(new(), space),
            "the course takes a prediction": lambda: space_pages.learn(new(), space),
        }  # fmt: skip
        for name, take in steps.items():
            with report.step(name) as tell:
                tell(take() or "")
        if not short:
            check_files(page, space, report)
            with report.step("a program opens and rescores a trace") as tell:
                tell(check_program(space))
        own = (space.url, "data:", "blob:")
        foreign = sorted(u for u in requested - blocked if not u.startswith(own))
        # Gradio adds fonts of another host to the page of a Space; the CSP stops them
        detail = ", ".join(foreign)[:200] or f"{len(blocked)} requests were blocked by the CSP"
        report.add("the page asks no other host", not foreign, detail)
        check_writes(space, report)
        browser.close()
    check_end(space, report)


def check_start(space: Space, report: Report) -> None:
    """What needs no browser: it starts, answers as it should behind the proxy, and ends."""
    report.add("the server answers", True, "", space.wait_until_open())
    check_headers(space, report)
    with report.step("it hands out its whole source") as tell:
        status, _, body = space.get("/source.zip")
        assert status == 200, f"status {status}"
        names = set(zipfile.ZipFile(io.BytesIO(body)).namelist())
        there = {str(p.relative_to(space.checkout)) for p in space.checkout.rglob("*")}
        lacks = sorted({n for n in there if (space.checkout / n).is_file()} ^ names)
        assert not lacks, f"{lacks[:3]} differ"
        tell(f"{len(names)} files")
    check_writes(space, report)
    check_end(space, report)


def check_writes(space: Space, report: Report) -> None:
    """A Space may write to its home and its temporary folder alone."""
    outside = space.written_outside()
    report.add("nothing is written outside HOME and temp", not outside, ", ".join(outside[:5]))


def check_end(space: Space, report: Report) -> None:
    """It ends when it is told to, and leaves nothing."""
    began = time.monotonic()
    with report.step("SIGTERM ends it") as tell:
        code = space.stop()
        tell(f"exit code {code}")
        assert code == 0, f"exit code {code}: {space.logged()[-200:]}"
        took = time.monotonic() - began
        assert took < STOP_LIMIT_S, f"it took {took:.1f} s"
    left = [p.name for p in space.writable[1].iterdir() if p.name.startswith("macd-studio")]
    report.add("no temporary folder is left", not left, ", ".join(left))
    lines = [z for z in space.logged().splitlines() if re.match(r"[\w.]*Error\b|.* ERROR ", z)]
    problems = [z for z in lines if WITHOUT_SPACES not in z]
    report.add("the log holds no error", not problems, "; ".join(problems)[:200])


def check_study(space: Space, report: Report) -> None:
    """A Space that serves a rating study: a rater's answers are kept, also when it is stopped."""
    space.wait_until_open()
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        with report.step("a rater rates") as tell:
            tell(space_pages.rate(browser.new_page(), space))
        browser.close()
    with report.step("the study is whole after SIGTERM") as tell:
        assert space.stop() == 0, space.logged()[-200:]
        tell(space_pages.command(space, "check").strip())


def check_headers(space: Space, report: Report) -> None:
    """The page's answer to a browser that comes through the proxy of huggingface.co."""
    behind = {"Host": HOST, "X_Forwarded_Proto": "https", "X_Forwarded_Host": HOST}
    with report.step("the proxied page sets a cookie that frames keep") as tell:
        status, headers, _ = space.get("/", **behind)
        assert status == 200, f"status {status}"
        cookie = next(v for k, v in headers if k == "set-cookie" and v.startswith("macd_visitor="))
        tell(cookie.partition("; ")[2])
        missing = {"SameSite=None", "Secure", "Partitioned", "HttpOnly"} - set(cookie.split("; "))
        assert not missing, f"without {missing}"
    with report.step("only huggingface.co may hold it in a frame") as tell:
        policy = next(v for k, v in headers if k == "content-security-policy")
        ancestors = next(p for p in policy.split("; ") if p.startswith("frame-ancestors"))
        tell(ancestors)
        assert ancestors == "frame-ancestors 'self' https://huggingface.co", ancestors
        assert "x-frame-options" not in dict(headers), "X-Frame-Options forbids every frame"
    with report.step("addresses of the page are https behind the proxy") as tell:
        root = json.loads(space.get("/config", **behind)[2])["root"]
        tell(root)
        assert root == f"https://{HOST}", root
    with report.step("/healthz answers, without figures for strangers"):
        status, _, body = space.get("/healthz", **behind, X_Forwarded_For="203.0.113.7")
        assert (status, json.loads(body)) == (200, {"status": "ok"}), body
    with report.step("another host name is refused"):
        status = space.get("/", Host="example.org")[0]
        assert status == 421, f"status {status}"


def check_public(page: Page, report: Report) -> None:
    """Only what the Space lists can be chosen, in the form and by an event made by hand."""
    config = page.evaluate("window.gradio_config")
    parts = {c["id"]: c["props"] for c in config["components"]}
    number = next(n for n, p in parts.items() if p.get("elem_id") == "backbone")
    with report.step("only the listed backbones are offered") as tell:
        choices = [value for _, value in parts[number]["choices"]]
        tell(", ".join(choices))
        assert choices == list(EMBEDDED_BACKBONES), choices
        assert not parts[number].get("allow_custom_value"), "any other name can be typed"
    events = {d["id"]: d for d in config["dependencies"]}

    def choose_foreign(route: Any) -> None:
        body = route.request.post_data_json
        inputs = events[body["fn_index"]]["inputs"]
        if number in inputs:
            body["data"][inputs.index(number)] = FOREIGN_BACKBONE
        route.continue_(post_data=json.dumps(body))

    with report.step("another backbone is refused") as tell:
        page.route("**/queue/join*", choose_foreign)
        try:
            open_form(page)
            page.click("#run")
            refusal = page.locator(".toast-body, .mv-error:visible").first
            refusal.wait_for()
            words = " ".join(refusal.inner_text().split())
            tell(words[:100])
            refused = ("has a type or a value", "does not offer the backbone")
            assert any(part in words for part in refused), words
        finally:
            page.unroute("**/queue/join*")
            page.reload()
            page.wait_for_selector(".mv-token")


def check_frame(page: Page, space: Space, site: str, allowed: bool) -> None:
    """Raises AssertionError if a page of this site can hold the app in a frame, or cannot."""
    framing = (
        f'<!doctype html><iframe id="app" src="{space.url}" width="1200" height="900"></iframe>'
    )
    with visit(page):
        page.route(f"{site}*", lambda r: r.fulfill(body=framing, content_type="text/html"))
        if allowed:
            page.goto(site)
            frame = page.frame_locator("#app")
            frame.locator(".mv-token").first.wait_for()
            # an event of the page needs the cookie, which here is one of a third party
            run(page.frames[1], QUESTION)
        else:
            page.goto(site, wait_until="load")
            page.wait_for_timeout(1000)
            n_tokens = page.frames[1].evaluate("document.querySelectorAll('.mv-token').length")
            assert not n_tokens, "the page is shown there"
            assert space.url not in page.frames[1].url, page.frames[1].url


def check_gallery(page: Page, space: Space) -> str:
    """Follows a permalink into the full viewer; raises AssertionError. Gives the run's question."""
    with visit(page):
        page.goto(f"{space.url}gallery")
        page.wait_for_selector("#filters:visible")
        assert page.locator("#runs > li").count() > 1, "it lists no runs"
        name = (page.locator("#runs a").first.get_attribute("href") or "")[2:18]
        page.goto(f"{space.url}t/{name}")
        page.wait_for_selector(".mv-token")
        return str(page.locator(".mv-question").inner_text())


def check_program(space: Space) -> str:
    """Opens and rescores an example by the public endpoints; raises AssertionError."""
    from gradio_client import Client, handle_file

    client = Client(space.url, verbose=False, httpx_kwargs={"timeout": WAIT_S})
    file = handle_file(str(ROOT / "assets" / "examples" / "repaired.macd"))
    summary = client.predict(file, api_name="/open")
    rows = client.predict(file, 0.0, 0.1, api_name="/rescore")
    answers = {name: answer["text"] for name, answer in summary["answers"].items()}
    assert len(rows) == len(summary["answers"]["macd"]["tokens"]), "not a row for each token"
    assert any(r["changed"] for r in rows) == (answers["baseline"] != answers["macd"]), rows
    return f"{answers['macd']} becomes {''.join(r['text'] for r in rows).strip()} without contrast"


def check_files(page: Page, space: Space, report: Report) -> None:
    """An uploaded clip runs; its trace and its page are saved; a trace is opened."""
    clip = space.folder / "own clip.mp4"
    shutil.copy(ROOT / "assets" / "examples" / "small.mp4", clip)
    with report.step("an uploaded clip runs"):
        open_form(page)
        page.set_input_files("#video input[type=file]", clip)
        page.get_by_text(clip.name[-4:]).first.wait_for()
        page.wait_for_function("document.querySelector('#differs').innerText.includes('own clip')")
        run(page, "Is there a cup in the video?")
        page.wait_for_function("!document.querySelector('#differs').innerText.trim()")
    saved = {}
    for button, name in (("#save", "trace"), ("#export", "page")):
        with report.step(f"the {name} is saved as a file") as tell:
            if (menu := page.locator("#open-files[aria-expanded=false]")).count():
                menu.click()
            with page.expect_download() as download:
                page.click(button)
            saved[name] = Path(download.value.path())
            tell(f"{saved[name].stat().st_size / 1000:.0f} kB")
            assert saved[name].stat().st_size > 10_000, "it is too small"
    with report.step("a saved trace is opened"):
        other = page.context.new_page()  # a tab that has nothing of its own to show
        other.set_default_timeout(1000 * WAIT_S)
        other.goto(space.url)
        other.wait_for_selector(".mv-token")
        trace = space.folder / "saved.macd"
        shutil.copy(saved["trace"], trace)
        other.set_input_files(":has(> #open) > input[type=file]", trace)
        other.wait_for_function(
            "(q) => document.querySelector('.mv-question').textContent === q",
            arg="Is there a cup in the video?",
        )
        other.close()
    camera = space.folder / "camera.mp4"
    shutil.copy(ROOT / "assets" / "everyday" / "examples" / "classroom.mp4", camera)
    with report.step("an uploaded clip of a camera is found and answered") as tell:
        open_form(page)
        page.locator("#video").get_by_label("Clear").click()
        page.set_input_files("#video input[type=file]", camera)
        page.locator("#knows").get_by_text("Model: everyday").wait_for()
        run(page, "Is there a person in the video?")
        names = page.locator(".mv-object").all_inner_texts()
        assert any("person" in name for name in names), names
        tell(page.locator(".mv-strip[data-method=macd]").inner_text())


if __name__ == "__main__":
    sys.exit(main())
