"""What a page shows and sends while each of its controls is used once, as text; see `crawl.js`.

    python -m tests.browser.crawl      writes tests/browser/shown/ anew

The files are what the tests compare with. Read their difference before you commit it: it is what
readers will see otherwise.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from macd_studio.core.system.shipped import assets
from macd_studio.core.traces.bundle import load
from macd_studio.macd_ui.learn.chapters import HERE as COURSE
from macd_studio.viewer import payload
from tests.browser.states import page_of

HERE = Path(__file__).parent
SCRIPT = HERE / "crawl.js"
SHOWN = HERE / "shown"
DATA = HERE.parent / "core" / "data"
VIEWERS = {
    "measured": DATA / "release-0.2.0.macd",
    "levels": assets() / "examples" / "levels.macd",
}
"""Name → trace: with evidence and changes by hand, and of ten steps."""
CHAPTERS = tuple(sorted(f.stem for f in (COURSE / "chapters" / "en").glob("*.toml")))
KEYS = "ArrowRight j m c x b s v l [ ] p 1 2 k ArrowLeft u r Escape ?".split()
MOST = 400
WINDOW = {
    "viewport": {"width": 1200, "height": 900},
    "device_scale_factor": 0.25,
    "reduced_motion": "reduce",
}
"""The canvas is as small as it gets: how wide its column is depends on fonts."""


def differences(told: list[tuple[str, list[str]]]) -> list[str]:
    """What each action brought, and how many lines it took away, under its name."""
    found, before = [], Counter()
    for name, lines in told:
        now = Counter(lines)
        gone, new = before - now, now - before
        found.append(f"# {name}: −{gone.total()}")
        for line in lines:
            if new[line] > 0:
                new[line] -= 1
                found.append(line)
        before = now
    return found


def crawl(page, selector, keys=(), without="", sent="", most=MOST):
    """The lines of a page that is open, see `differences`."""
    told = page.evaluate(
        "([selector, how]) => window.crawl(selector, how)",
        [selector, {"most": most, "keys": list(keys), "without": without, "sent": sent}],
    )
    return differences(told)


def viewer(page, name):
    """The lines of the viewer with one of `VIEWERS`; page: of a context with `WINDOW`."""
    page.add_init_script(path=SCRIPT)
    page.goto("about:blank")
    page.set_content(page_of(payload(load(VIEWERS[name]))))
    page.evaluate(
        """() => Promise.all([...window.viewer.stage.images.values()].map((i) => i.decode()))"""
    )
    return crawl(page, "#viewer", KEYS, sent="sent")


def chapter(page, course, name):
    """The lines of a chapter of the course at this address; the viewer in it is left alone."""
    page.add_init_script(path=SCRIPT)
    page.goto(f"{course}#{name}")
    page.wait_for_selector("#chapters a", state="attached")
    return crawl(page, "#chapter", without=".mv-root", most=60)


def main() -> None:
    """Writes the files anew."""
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import FLAGS, chromium_path, written_course

    with sync_playwright() as playwright, TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        course = written_course(Path(folder))
        made = {name: partial(viewer, name=name) for name in VIEWERS}
        made |= {name: partial(chapter, course=course, name=name) for name in CHAPTERS}
        for name in sys.argv[1:] or made:
            page = browser.new_context(**WINDOW).new_page()
            page.on("pageerror", lambda e: print(e))
            lines = made[name](page)
            (SHOWN / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
            print(name, len(lines))


if __name__ == "__main__":
    main()
