"""Takes the pictures of the page: `python -m scripts.screenshots`.

States of the real page, written to docs/ in few colours and at most LARGEST bytes.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from bench.server import ROOT, chromium, serving

LARGEST = 200_000
WIDTH = 1440
WAIT_MS = 180_000


def upload(page: Page, clip: Path) -> None:
    """Brings a clip through the form, which opens for it."""
    page.click("#open-form")
    page.set_input_files("#video input[type=file]", clip)
    page.wait_for_selector(".strip-frame", state="attached")


def answered(page: Page, clip: Path) -> None:
    """A shipped clip of a camera with both answers, and every choice of its objects tried."""
    upload(page, ROOT / "assets" / "everyday-clips" / "parking-c.mp4")
    page.fill("#question textarea", "Is there a car in the video?")
    page.click("#run")
    page.wait_for_selector("#columns:not(.drawer)")
    page.locator(".mv-choices button:enabled", has_text="Try all").click()
    page.wait_for_selector(".mv-choices-each:not([hidden])", state="attached")
    scrub = "(e) => { e.value = 2; e.dispatchEvent(new Event('input', { bubbles: true })); }"
    page.locator(".mv-scrub").first.evaluate(scrub)


def uploading(page: Page, clip: Path) -> None:
    """An uploaded clip on its filmstrip, with frames picked by hand."""
    upload(page, clip)
    for i in (3, 9, 15):
        page.locator(".strip-frame").nth(i).click()


def what_if(page: Page, clip: Path) -> None:
    """An object masked by hand, next to the former run, and each object's measured effect."""
    page.locator(".mv-object").first.click()
    page.locator(".mv-whatif > summary").click()
    chosen = page.locator(".mv-whatif .mv-segments").first.locator("[aria-pressed=false]")
    chosen.last.click()
    page.wait_for_selector(".mv-edits li")
    page.wait_for_selector(".mv-occlusion button:enabled")
    page.get_by_role("button", name="Measure each object").click()
    page.wait_for_selector(".mv-occlusion table")


def compare(page: Page, clip: Path) -> None:
    """Methods side by side, computed on the spot."""
    page.click("#open-form")
    page.click("#settings button >> nth=0")
    page.click("#compare button >> nth=0")
    for name in ("VCD", "SID", "TCD", "Every object masked", "Reversed signs", "Blank video"):
        page.get_by_label(name, exact=True).check()
    page.click("#run")
    page.wait_for_selector(".mv-methods tr[data-method=blank]")
    page.wait_for_selector("#columns:not(.drawer)")
    page.locator(".mv-screens select").nth(1).select_option("vcd")


SHOTS: dict[str, Callable[[Page, Path], None]] = {
    "page": answered,
    "page-form": uploading,
    "page-what-if": what_if,
    "page-compare": compare,
}
"""Picture in docs/ → what brings the page into its state."""
UNFOLDED = {"page": "", "page-form": "strip", "page-what-if": "why", "page-compare": "measure"}
"""Picture → the parts that are open in it."""


def in_few_colours(picture: bytes) -> bytes:
    """The picture as a PNG of at most LARGEST bytes: fewer colours first, then fewer pixels."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    for share in (1.0, 0.85, 0.7, 0.6, 0.5, 0.4, 0.3):
        size = round(image.width * share), round(image.height * share)
        smaller = image.resize(size, Image.Resampling.LANCZOS)
        for colours in (128, 64):
            out = io.BytesIO()
            few = smaller.quantize(colours, dither=Image.Dither.NONE)
            few.save(out, "PNG", optimize=True)
            if out.tell() <= LARGEST:
                return out.getvalue()
    raise ValueError(f"a picture of {image.width} px cannot be made small enough")


def drawn_clip(folder: Path) -> Path:
    """A moving square that is not a clip of the toy world, for pictures that anybody may take."""
    import numpy as np

    from macd_studio.toyworld.clips import write_frames

    frames = np.full((48, 270, 480, 3), (206, 214, 190), np.uint8)
    frames[:, 180:] = (120, 140, 96)
    for t, frame in enumerate(frames):
        frame[130:210, 20 + 8 * t : 110 + 8 * t] = (176, 58, 46)
        frame[60:100, 400 - 5 * t : 440 - 5 * t] = (240, 240, 250)
    path = folder / "my-clip.mp4"
    write_frames(frames, path, 12, preset="veryfast")
    return path


def main() -> None:
    """Starts the page, takes every picture, stops it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SHOTS, default=list(SHOTS))
    parser.add_argument("--clip", type=Path, help="a clip of your own instead of a drawn one")
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving() as url,
        sync_playwright() as playwright,
    ):
        own = drawn_clip(Path(folder))
        if args.clip:
            own = Path(shutil.copy(args.clip, folder))
        browser = chromium(playwright)
        for name in args.only:
            page = browser.new_page(
                viewport={"width": WIDTH, "height": 900}, reduced_motion="reduce"
            )
            page.set_default_timeout(WAIT_MS)
            page.add_init_script(f"localStorage.setItem('macd-open', '{UNFOLDED[name]}')")
            page.goto(f"{url}?__theme=light")
            page.wait_for_selector(".mv-token", state="attached")
            page.wait_for_timeout(1500)
            SHOTS[name](page, own)
            page.wait_for_timeout(800)
            page.evaluate("window.scrollTo(0, 0)")
            picture = page.screenshot(full_page=name != "page")
            page.close()
            (ROOT / "docs" / f"{name}.png").write_bytes(in_few_colours(picture))
        browser.close()


if __name__ == "__main__":
    main()
