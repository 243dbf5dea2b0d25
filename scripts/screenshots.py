"""Takes the pictures of the page: `python -m scripts.screenshots`.

Named states of the real page. Those with a `doc` go to docs/, in few colours and at most LARGEST
bytes; `--all FOLDER` writes every one of them, as it is, to a folder of your own.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from bench.server import ROOT, chromium, serving

LARGEST = 200_000
WAIT_MS = 180_000


@dataclass(frozen=True)
class Shot:
    """prepare: brings the page into the state. doc: its name in docs/. whole: the whole page."""

    prepare: Callable[[Page, Path], None]
    width: int = 1440
    scheme: str = "light"
    doc: str = ""
    whole: bool = True


def opening(page: Page, clip: Path) -> None:
    """An example as one meets it."""


def ten_steps(page: Page, clip: Path) -> None:
    """An example whose strengths moved for ten steps, in the middle of them."""
    choose_example(page, "levels")
    page.get_by_label("Ascent step", exact=True).fill("5")


def choose_example(page: Page, name: str) -> None:
    """Opens an example by its address."""
    page.goto(f"{page.url.partition('#')[0]}&example={name}")
    page.wait_for_function(
        "() => document.querySelector('.mv-step-name')?.textContent.includes('10 steps')"
    )


def upload(page: Page, clip: Path) -> None:
    """Brings a clip through the form, which opens for it."""
    page.click("#open-form")
    page.set_input_files("#video input[type=file]", clip)
    page.wait_for_selector(".strip-frame")


def uploading(page: Page, clip: Path) -> None:
    """An uploaded clip on its filmstrip, with frames picked by hand."""
    upload(page, clip)
    for i in (3, 9, 15):
        page.locator(".strip-frame").nth(i).click()


def running(page: Page, clip: Path) -> None:
    """A run under way, with its stage."""
    upload(page, clip)
    page.fill("#question textarea", "Is there a car in the video?")
    page.click("#run")
    page.wait_for_selector(".mv-stage-now")


def finished(page: Page, clip: Path) -> None:
    """A real clip after its run, with the form folded away."""
    uploading(page, clip)
    page.fill("#question textarea", "Is there a car in the video?")
    page.click("#run")
    page.wait_for_selector("#columns:not(.drawer)")


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
    page.click("#compare button >> nth=0")
    for name in ("VCD", "SID", "TCD", "Every object masked", "Reversed signs", "Blank video"):
        page.get_by_label(name, exact=True).check()
    page.click("#run")
    page.wait_for_selector(".mv-methods tr[data-method=blank]")
    page.wait_for_selector("#columns:not(.drawer)")
    page.locator(".mv-screens select").nth(1).select_option("vcd")


def error(page: Page, clip: Path) -> None:
    """A file that is not a video, rejected next to its name."""
    broken = clip.with_name("broken.mp4")
    broken.write_bytes(b"no video at all")
    page.click("#open-form")
    page.set_input_files("#video input[type=file]", broken)
    page.wait_for_selector("#clip-error:visible")


def levels(page: Page, clip: Path) -> None:
    """What the counterfactual hides."""
    choose_example(page, "levels")
    page.locator(".mv-object").first.click()


def token(page: Page, clip: Path) -> None:
    """One token under both views, α moved until the path diverges, and where it flips."""
    page.locator(".mv-strip[data-method=macd] .mv-token").first.click()
    page.locator(".mv-flips > summary").click()
    page.locator(".mv-live input").first.focus()
    page.keyboard.press("Home")


SHOTS = {
    "opening": Shot(opening, doc="page", whole=False),
    "ten-steps": Shot(ten_steps, whole=False),
    "uploading": Shot(uploading, doc="page-form"),
    "running": Shot(running),
    "finished": Shot(finished),
    "what-if": Shot(what_if, doc="page-what-if"),
    "compare": Shot(compare, doc="page-compare"),
    "error": Shot(error, whole=False),
    "phone": Shot(opening, 390, whole=False),
    "dark": Shot(levels, scheme="dark", whole=False),
    "wide": Shot(opening, 2560, whole=False),
    "token": Shot(token),
}


def in_few_colours(picture: bytes, width: int) -> bytes:
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
    raise ValueError(f"a picture of {width} px cannot be made small enough")


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
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="every state, as it is")
    parser.add_argument("--only", default="", help="states by name, with commas between")
    parser.add_argument("--clip", type=Path, help="a clip of your own instead of a drawn one")
    args = parser.parse_args()
    chosen = args.only.split(",") if args.only else list(SHOTS)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving() as url,
        sync_playwright() as playwright,
    ):
        clip = args.clip or drawn_clip(Path(folder))
        own = Path(folder) / clip.name
        if own != clip:
            own.write_bytes(clip.read_bytes())
        browser = chromium(playwright)
        for name in chosen:
            shot = SHOTS[name]
            page = browser.new_page(
                viewport={"width": shot.width, "height": 900}, reduced_motion="reduce"
            )
            page.set_default_timeout(WAIT_MS)
            page.goto(f"{url}?__theme={shot.scheme}")
            page.wait_for_selector(".mv-token")
            page.wait_for_timeout(1500)
            shot.prepare(page, own)
            page.wait_for_timeout(200 if name == "running" else 800)
            page.evaluate("window.scrollTo(0, 0)")
            picture = page.screenshot(full_page=shot.whole)
            page.close()
            if args.all:
                args.all.mkdir(parents=True, exist_ok=True)
                (args.all / f"{name}.png").write_bytes(picture)
            elif shot.doc:
                path = ROOT / "docs" / f"{shot.doc}.png"
                path.write_bytes(in_few_colours(picture, shot.width))
        browser.close()


if __name__ == "__main__":
    main()
