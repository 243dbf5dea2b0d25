"""Takes the pictures in docs/ from the real page: `python -m scripts.screenshots`."""

from __future__ import annotations

from playwright.sync_api import Page, sync_playwright

from bench.server import ROOT, chromium, serving


def first_paint(page: Page) -> None:
    """An example as one meets it."""


def levels(page: Page) -> None:
    """What the counterfactual hides."""
    page.get_by_role("button", name="Levels").click()
    page.get_by_role("button", name="Counterfactual").click()
    page.locator(".mv-object").first.click()


def compare(page: Page) -> None:
    """Methods side by side, computed on the spot."""
    page.click("#compare button >> nth=0")
    for name in ("VCD", "SID", "TCD", "Every object hidden", "Reversed signs", "Blank video"):
        page.get_by_label(name, exact=True).check()
    page.click("#run")
    page.wait_for_selector(".mv-methods tr[data-method=blank]")
    page.wait_for_selector("#run:enabled")
    page.locator(".mv-screens select").nth(1).select_option("vcd")
    page.click("#compare button >> nth=0")


def token(page: Page) -> None:
    """One token under both views, α moved until the path diverges, and where it flips."""
    page.locator(".mv-strip[data-method=macd] .mv-token").first.click()
    page.locator(".mv-flips > summary").click()
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")


def what_if(page: Page) -> None:
    """An object hidden by hand beside the former run, and what each object truly does."""
    page.locator(".mv-object").first.click()
    page.locator(".mv-whatif > summary").click()
    page.get_by_role("button", name="Counterfactual").click()
    chosen = page.locator(".mv-whatif .mv-segments").first.locator("[aria-pressed=false]")
    chosen.last.click()
    page.wait_for_selector(".mv-edits li")
    page.wait_for_selector(".mv-occlusion button:enabled")
    page.get_by_role("button", name="Measure each object").click()
    page.wait_for_selector(".mv-occlusion table")


SHOTS = {
    "page": (first_paint, 1440, "light"),
    "page-token": (token, 1440, "light"),
    "page-what-if": (what_if, 1440, "light"),
    "page-levels-dark": (levels, 1440, "dark"),
    "page-compare": (compare, 1440, "light"),
    "page-phone": (first_paint, 390, "light"),
}


def main() -> None:
    """Starts the page, takes every picture, stops it."""
    with serving() as url, sync_playwright() as playwright:
        browser = chromium(playwright)
        for name, (prepare, width, scheme) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.goto(f"{url}?__theme={scheme}")
            page.wait_for_selector(".mv-token")
            page.wait_for_timeout(1500)
            prepare(page)
            page.wait_for_timeout(800)
            page.screenshot(path=ROOT / "docs" / f"{name}.png", full_page=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
