"""Pictures are compressed as far as needed and no further; everything else stays as it is."""

import base64
import io
import json

import numpy as np
from PIL import Image

from macd_studio.core.media.webp import URI_PREFIX, picture_uri
from macd_studio.viewer.shrink import as_text, shrink, without_pictures


def noisy(seed, side=96):
    return np.random.default_rng(seed).integers(0, 255, (side, side, 3), np.uint8)


def opened(uri):
    return Image.open(io.BytesIO(base64.b64decode(uri.removeprefix(URI_PREFIX))))


def example():
    pictures = [picture_uri(noisy(i)) for i in range(4)]
    return {"trace": {"frames": pictures, "question": "a < b & c > d </script>", "boxes": [0.5]},
            "shown": {"macd": [None, pictures[0]]}}  # fmt: skip


def test_what_fits_is_unchanged():
    data = example()
    assert shrink(data, 10**9) == (data, "")


def test_pictures_become_as_coarse_as_needed():
    data = example()
    whole = len(as_text(data))
    sizes = []
    for share in (0.6, 0.2):
        smaller, note = shrink(data, int(share * whole))
        assert len(as_text(smaller)) <= share * whole
        assert note.startswith("WebP quality")
        assert without_pictures(smaller) == without_pictures(data)
        assert smaller["shown"]["macd"][0] is None
        assert smaller["trace"]["frames"][0] == smaller["shown"]["macd"][1]
        assert opened(smaller["trace"]["frames"][2]).format == "WEBP"
        sizes.append(len(as_text(smaller)))
    assert sizes[0] > sizes[1]
    assert data == example(), "the payload itself was changed"


def test_a_coarser_picture_still_shows_the_same():
    ramp = np.tile(np.linspace(0, 255, 96).astype(np.uint8)[None, :, None], (96, 1, 3))
    ramp[30:60, 30:60] = (250, 20, 20)
    data = {"frames": [picture_uri(ramp)] + [picture_uri(noisy(0))] * 3}
    smaller, _ = shrink(data, len(as_text(data)) // 4)
    seen = np.asarray(opened(smaller["frames"][0]).convert("RGB").resize((96, 96)), np.float64)
    assert np.abs(seen - ramp).mean() < 8


def test_too_large_without_pictures_gives_the_coarsest():
    data = example() | {"text": "x" * 10_000}
    smaller, note = shrink(data, 5000)
    assert "50% of the side" in note
    assert opened(smaller["trace"]["frames"][0]).size == (48, 48)  # of the picture as it was
    assert smaller["text"] == data["text"]


def test_the_text_can_stand_in_a_script():
    text = as_text(example())
    assert not set("<>&") & set(text)
    assert json.loads(text) == example()
