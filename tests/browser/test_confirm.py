"""A file of objects is seen on its clip, before anything runs."""

import json

import av
import numpy as np
import pytest

from tests.browser.test_page import upload

pytestmark = pytest.mark.long
SIZE, COUNT = (216, 384), 40


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """A portrait clip with a red square that moves right, 25 frames a second."""
    path = tmp_path_factory.mktemp("confirm") / "phone.mp4"
    with av.open(str(path), "w") as target:
        stream = target.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        for n in range(COUNT):
            picture = np.full((SIZE[1], SIZE[0], 3), 200, np.uint8)
            picture[100:160, 4 * n : 4 * n + 60] = (220, 30, 30)
            target.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        target.mux(stream.encode())
    return path


@pytest.fixture(scope="module")
def tracks(clip):
    """Each fifth frame, as somebody labels who extracts five pictures a second."""
    numbers = range(0, COUNT, 5)
    images = [{"id": i, "file_name": f"frame_{i + 1:04d}.jpg", "width": SIZE[0], "height": SIZE[1]}
              for i in range(len(numbers))]  # fmt: skip
    notes = [{"id": i, "image_id": i, "category_id": 1, "bbox": [4 * n, 100, 60, 60],
              "track_id": 1} for i, n in enumerate(numbers)]  # fmt: skip
    path = clip.with_name("labels.json")
    path.write_text(json.dumps({"images": images, "annotations": notes,
                                "categories": [{"id": 1, "name": "red square"}]}))  # fmt: skip
    return path


@pytest.mark.parametrize("width", [1280, 390])
def test_objects_are_seen_on_the_clip_before_a_run(page, clip, tracks, width):
    page.set_viewport_size({"width": width, "height": 844})
    upload(page, clip)
    page.locator("#settings > button").click()
    page.locator("#tracks input[type=file]").set_input_files(tracks)
    sheet = page.locator("#tracks-sheet")
    sheet.get_by_text("State their rate").wait_for()  # it is asked, and nothing is guessed
    page.get_by_label("its frames per second").fill("5")
    page.get_by_label("number of its first frame").click()
    page.locator("li[role=option][aria-label='1']").click()
    sheet.get_by_text("seen on 8 of the 8 sampled frames").wait_for()
    text = sheet.inner_text()
    assert "red square" in text
    assert "its frame n is taken for that at n / 5 s" in text
    box = sheet.locator("img").bounding_box()
    assert box["width"] > 150
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    red = sheet.locator("img").evaluate(
        """async (img) => {
          await img.decode();
          const canvas = document.createElement('canvas');
          [canvas.width, canvas.height] = [img.naturalWidth, img.naturalHeight];
          const context = canvas.getContext('2d');
          context.drawImage(img, 0, 0);
          const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
          let n = 0;
          for (let i = 0; i < data.length; i += 4) n += data[i] > 180 && data[i + 1] < 90;
          return n;
        }"""
    )
    assert red > 500  # the clip's own pixels are on it
