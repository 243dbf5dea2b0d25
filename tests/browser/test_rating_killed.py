"""A browser that is killed: what it said is kept is there afterwards, and is sent once."""

import json
import os
import signal
from pathlib import Path

import pytest

from macd_studio.ratings.store import Study
from tests.browser.conftest import FLAGS, chromium_path
from tests.browser.test_rating import begin, saved, wait_for_item
from tests.patience import PATIENCE_MS
from tests.ratings.killable import served

KEPT = "() => document.getElementById('banner').textContent.includes('kept in this browser')"
UNSAVED = "() => document.getElementById('banner').textContent.includes('Not saved yet')"


def processes_of(profile):
    """The browser of a profile and all that it started, by process id."""
    found, parents = set(), {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            )
        except OSError:
            continue  # it has ended
        if f"--user-data-dir={profile}".encode() in words:
            found.add(int(entry.name))
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found


class Killable:
    """A browser with a profile on the disk."""

    def __init__(self, browser, profile):
        self.kind, self.profile = browser.browser_type, profile

    def open(self, link, sent=None):
        """sent: takes the events that the page sends."""
        self.context = self.kind.launch_persistent_context(
            self.profile, executable_path=chromium_path(), args=FLAGS
        )
        page = self.context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        if sent is not None:
            page.on("request", lambda request: (
                request.url.endswith("/rate/api/events")
                and sent.extend(json.loads(request.post_data)["events"])))  # fmt: skip
        page.goto(link)
        return page

    def kill(self):
        doomed = processes_of(self.profile)
        assert doomed
        for process in doomed:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it ended with another
        try:
            self.context.close()
        except Exception:
            pass  # there is nothing to close


@pytest.mark.long
def test_a_killed_browser_takes_no_rating_with_it(tmp_path, browser):
    sent, killable = [], Killable(browser, tmp_path / "profile")
    with served(tmp_path) as (path, server, link):
        page = killable.open(link)
        task = begin(page)
        saved(page)
        server.kill()
        page.keyboard.press("2")
        page.wait_for_function(KEPT)
        page.keyboard.press("Tab")
        page.keyboard.press("5")
        page.wait_for_function(KEPT)
        killable.kill()
        server.start()
        page = killable.open(link, sent)
        saved(page)
        assert wait_for_item(page, "") == task
        assert page.locator("[aria-checked=true]").all_inner_texts() == ["2", "5"]
        rates = [e for e in sent if e["kind"] == "rate"]
        assert [(e["side"], e["new"]) for e in rates] == [(0, 2), (1, 5)]
        # what localStorage forgot may be there again after a crash: the server has had it
        scope = page.evaluate("() => fetch('rate/api/session', {headers: {'x-study-code': "
                              "location.hash.slice(1)}}).then((a) => a.json())"
                              ".then((s) => `macd-rate:${s.study}:${s.rater}`)")  # fmt: skip
        page.evaluate(
            "([scope, e]) => localStorage.setItem(`${scope}:${e.tab}:${e.count}`,"
            " JSON.stringify(e))",
            [scope, rates[0]],
        )
        sent.clear()
        page.keyboard.press("3")
        saved(page)
        page.reload()
        saved(page)
        assert rates[0]["uuid"] not in {e["uuid"] for e in sent}
        page.wait_for_function("localStorage.length === 0")
        killable.context.close()
    with Study(path, write=False) as study:
        stored = study.rows(
            "SELECT side, old, new FROM events WHERE kind = 'rate' AND task = ? ORDER BY id", task
        )
        assert [tuple(r) for r in stored] == [(0, None, 2), (1, None, 5), (0, 2, 3)]


@pytest.mark.long
def test_without_the_store_on_the_disk_localstorage_keeps(tmp_path, new_tab):
    with served(tmp_path) as (_, _, link):
        page = new_tab("about:blank")
        page.add_init_script("Object.defineProperty(window, 'indexedDB', {value: undefined})")
        page.goto(link)
        begin(page)
        page.route("**/rate/api/events", lambda route: route.abort())
        page.keyboard.press("2")
        page.wait_for_function(KEPT)
        page.unroute("**/rate/api/events")
        page.reload()
        saved(page)
        assert page.locator("[aria-checked=true]").all_inner_texts() == ["2"]


@pytest.mark.long
def test_kept_is_said_only_once_it_is_on_the_disk(tmp_path, new_tab):
    with served(tmp_path) as (_, _, link):
        page = new_tab("about:blank")
        page.add_init_script("""
            const begin = IDBDatabase.prototype.transaction;
            IDBDatabase.prototype.transaction = function (names, mode, how) {
              window.durability = how?.durability;
              if (mode === "readwrite" && window.full) throw new DOMException("full");
              return begin.call(this, names, mode, how);
            };""")
        page.goto(link)
        begin(page)
        saved(page)
        assert page.evaluate("window.durability") == "strict"
        page.evaluate("window.full = true")
        page.route("**/rate/api/events", lambda route: route.abort())
        page.keyboard.press("2")
        page.wait_for_function(UNSAVED)
        banner = page.inner_text("#banner")
        assert "kept in this browser" not in banner
        assert "Leave this page open" in banner
