"""Picture files as clips of one frame: what is read, converted, turned and refused."""

import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import macd_studio as macd
from macd_studio.core import errors
from macd_studio.core.backbones.universal import UniversalVLM
from macd_studio.core.media import picture as pictures
from macd_studio.core.media.picture import open_picture, scaled
from macd_studio.core.media.source import Reject
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import VideoOptions
from macd_studio.core.records import Edit
from macd_studio.core.report.summary import as_text
from macd_studio.core.whatif.workbench import Workbench
from macd_studio.toyworld.clips import drawn_clip
from tests.families import tiny


def drawn(width=64, height=48):
    """Red at the top left, blue at the bottom right."""
    pixels = np.full((height, width, 3), 90, np.uint8)
    pixels[: height // 2, : width // 2] = (220, 20, 20)
    pixels[height // 2 :, width // 2 :] = (20, 20, 220)
    return Image.fromarray(pixels)


def png(width, height, data=b"", depth=8, colour=2):
    """A PNG of a size that its header only claims."""

    def chunk(name, content):
        whole = name + content
        return struct.pack(">I", len(content)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + body


def saved(tmp_path, image, name, **how):
    image.save(tmp_path / name, **how)
    return tmp_path / name


@pytest.mark.parametrize(("name", "how"), [
    ("a.png", {}), ("a.jpg", {"quality": 95}), ("a.webp", {"lossless": True}), ("a.bmp", {}),
    ("a.mp4", {"format": "PNG"}), ("a.txt", {"format": "JPEG", "quality": 95}), ("a.gif", {}),
])  # fmt: skip
def test_a_picture_is_a_clip_of_one_frame_whatever_its_name(name, how, tmp_path):
    opened = []
    clip = read_clip(saved(tmp_path, drawn(), name, **how), opened=lambda: opened.append(1))
    assert clip.is_picture
    assert opened
    assert (len(clip.frames), clip.times.tolist(), clip.duration) == (1, [0.0], 0.0)
    assert clip.frames.shape[1:] == clip.dense_frames.shape[1:] == (48, 64, 3)
    assert np.abs(clip.frames[0, 5, 5].astype(int) - (220, 20, 20)).max() < 8
    assert clip.notes == ()
    assert len(clip.sha256) == 64


def test_a_large_picture_is_scaled_and_keeps_its_shape(tmp_path):
    clip = read_clip(saved(tmp_path, drawn(3000, 2000), "a.jpg"))
    assert clip.frames.shape == (1, 853, 1280, 3)
    assert clip.dense_frames.shape == (1, 427, 640, 3)


def test_a_video_of_one_frame_is_none(make_video):
    assert not read_clip(make_video(frames=1)).is_picture


@pytest.mark.parametrize("range_", [{"start": 0.5}, {"end": 2.0}, {"at": (0.0, 1.0)}])
def test_a_range_of_a_picture_is_refused(range_, tmp_path):
    with pytest.raises(errors.NotAVideo, match="no range of time"):
        read_clip(saved(tmp_path, drawn(), "a.png"), VideoOptions(**range_))


# what is converted


@pytest.mark.parametrize(("turn", "size", "red"), [
    (1, (64, 48), (0, 0)), (3, (64, 48), (1, 1)), (6, (48, 64), (0, 1)), (8, (48, 64), (1, 0)),
])  # fmt: skip
def test_it_is_turned_as_the_camera_was_held(turn, size, red, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = turn
    image, notes = open_picture(str(saved(tmp_path, drawn(), "a.jpg", exif=exif, quality=95)))
    assert image.size == size
    x, y = (5 if not red[1] else size[0] - 6), (5 if not red[0] else size[1] - 6)
    assert image.getpixel((x, y))[0] > 180
    assert notes == []


def test_damaged_exif_is_left_out(tmp_path):
    file = saved(tmp_path, drawn(), "a.jpg", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff", quality=95)
    image, _ = open_picture(str(file))
    assert image.size == (64, 48)


@pytest.mark.parametrize("brightest", [65535, 6553])
def test_sixteen_bits_become_eight(brightest, tmp_path):
    values = np.linspace(0, brightest, 64 * 48).reshape(48, 64).astype(np.uint16)
    image, notes = open_picture(str(saved(tmp_path, Image.fromarray(values), "a.png")))
    pixels = np.asarray(image)
    assert notes == ["colours of more than 8 bits were converted to 8 bits"]
    assert np.abs(pixels[..., 0].astype(float) - values / 257).max() <= 0.51


@pytest.mark.parametrize("mode", ["P", "L", "LA", "1", "RGBA", "CMYK"])
def test_other_modes_become_rgb(mode, tmp_path):
    name = "a.jpg" if mode == "CMYK" else "a.png"
    image, notes = open_picture(str(saved(tmp_path, drawn().convert(mode), name)))
    assert image.mode == "RGB"
    told = {"CMYK": "printing colours", "RGBA": "shown on white", "LA": "shown on white"}
    assert told.get(mode, "") in "".join(notes)
    assert bool(notes) == (mode in told)
    if mode in ("P", "RGBA", "CMYK"):
        assert np.abs(np.array(image.getpixel((5, 5))) - (220, 20, 20)).max() < 35


def test_transparent_parts_are_white(tmp_path):
    clear = Image.new("RGBA", (32, 32), (0, 0, 0, 0))
    palette = Image.new("P", (32, 32))
    for image, how in ((clear, {}), (palette, {"transparency": 0})):
        found, notes = open_picture(str(saved(tmp_path, image, "a.png", **how)))
        assert found.getpixel((3, 3)) == (255, 255, 255)
        assert notes == ["transparent parts are shown on white"]


@pytest.mark.parametrize("name", ["a.webp", "a.png"])
def test_an_animation_is_its_first_picture_and_says_so(name, tmp_path):
    more = [drawn().rotate(90, expand=False), drawn().rotate(180)]
    file = saved(tmp_path, drawn(), name, save_all=True, append_images=more, duration=100)
    image, notes = open_picture(str(file))
    assert image.getpixel((5, 5))[0] > 180
    assert "an animation of 3 pictures" in notes[0]


# what is refused


HOSTILE = {
    "65k": (png(65535, 65535), "VideoTooLarge", "65535×65535"),
    "wide": (png(100_000, 600), "VideoTooLarge", "megapixels"),
    "small": (png(4, 400, b"\0" * 5000), "VideoTooSmall", "4×400"),
    "empty body": (png(64, 64), "CorruptVideo", "damaged"),
    "no body": (b"\x89PNG\r\n\x1a\n", "CorruptVideo", "damaged"),
    "not a jpeg": (b"\xff\xd8\xff" + bytes(range(256)), "CorruptVideo", "damaged"),
    "text as bmp": (b"BMW is a car", "CorruptVideo", "damaged"),
    "webp head": (b"RIFF\x10\0\0\0WEBPVP8 \0\0\0\0", "CorruptVideo", "damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pictures_are_refused_by_their_header(name, tmp_path):
    content, error, words = HOSTILE[name]
    (tmp_path / "a.png").write_bytes(content)
    with pytest.raises(Reject) as found:
        open_picture(str(tmp_path / "a.png"))
    assert found.value.error == error
    assert words in found.value.cause
    assert found.value.remedy


def test_one_that_is_cut_off_is_refused(tmp_path):
    for name in ("a.png", "a.jpg"):
        file = saved(tmp_path, drawn(640, 480).effect_spread(40), name)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        with pytest.raises(Reject, match="damaged"):
            open_picture(str(file))


def test_a_bomb_ends_with_a_sentence(tmp_path, reader_process):
    """48 megapixels in 6 kB: within the bound on what is announced, beyond 200 MB."""
    rows = b"".join([b"\0" + bytes(1000)] * 6000)
    (tmp_path / "a.png").write_bytes(png(8000, 6000, rows, depth=1, colour=0))
    small = macd.core.media.video.ReadLimits(200 * 2**20, 20, 16)
    with pytest.raises(errors.DecodeLimit, match="too much memory"):
        read_clip(tmp_path / "a.png", limits=small)


@pytest.mark.parametrize(("start", "kind"), [
    (b"II*\0", "a TIFF picture"), (b"\0\0\0\x18ftypheic", "HEIC"), (b"\0\0\0\x18ftypavif", "AVIF"),
    (b"8BPS\0\1", "a Photoshop picture"), (b"%PDF-1.7", "a PDF document"),
])  # fmt: skip
def test_other_kinds_are_named(start, kind, tmp_path):
    (tmp_path / "a.png").write_bytes(start + bytes(500))
    with pytest.raises(errors.NotAVideo, match=f"{kind}.*PNG or JPEG"):
        read_clip(tmp_path / "a.png")


def test_only_listed_formats_are_opened(tmp_path):
    for name in ("a.tiff", "a.ppm", "a.eps", "a.ico"):
        with pytest.raises(Reject, match="unknown kind"):
            open_picture(str(saved(tmp_path, drawn(), name)))
    assert set(pictures.FORMATS) == {"PNG", "JPEG", "WEBP", "BMP"}
    assert scaled(drawn(3000, 20), 1280).shape == (9, 1280, 3)


# what is done with it


@pytest.fixture(scope="module")
def toy_picture(toy_spec, tmp_path_factory):
    """The middle frame of a drawn clip, as a file."""
    path = tmp_path_factory.mktemp("pictures") / "toy.png"
    frames = drawn_clip(toy_spec, "toy", "0" * 64).frames
    Image.fromarray(frames[len(frames) // 2]).save(path)
    return path


def test_a_whole_run_on_a_picture(toy_picture, toyworld, toy_detector, tmp_path):
    """Trace, compare, evidence, a change, saved and opened again."""
    question = "Is there a cup in the video?"
    trace = macd.compare(
        toy_picture, question, ["vcd", "tcd", "mask-all"], backbone=toyworld,
        detector=toy_detector, decode={"max_tokens": 3},
    )  # fmt: skip
    assert trace.is_picture
    assert [t.label for t in trace.tracks] == ["cup"] or len(trace.tracks) == 2
    assert set(trace.answers) == {"baseline", "macd", "vcd", "mask-all"}
    assert "a picture has no frames to leave out" in trace.skipped["tcd"]
    assert trace.groups == ((0,),)
    seen = macd.evidence(trace, backbone=toyworld)
    assert {m.kind for m in seen.evidence[0].maps} == {"gradient", "attention", "occlusion"}
    bench = Workbench(seen, toyworld)
    *_, last = bench.change(Edit("level", track=1, level=0.5))
    again = macd.load(macd.save(last.trace, tmp_path / "run.macd"))
    assert again.is_picture
    assert again.edits
    assert " · a picture · " in as_text(again)


IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.mark.parametrize(("name", "image"), [("qwen2_5_vl", IMAGE), ("internvl", "<IMG_CONTEXT>")])
def test_a_family_s_own_way_for_pictures_is_used(name, image, toy_picture, monkeypatch):
    clip = read_clip(toy_picture)
    lm = tiny(name)
    assert lm.reading(True) is lm  # the template of the test writes no pictures
    del lm._for_pictures
    template = lm.processor.chat_template
    other = template.replace(
        "{% else %}{{", "{% elif c.type == 'image' %}" + image + "{% else %}{{"
    )
    monkeypatch.setattr(lm.processor, "chat_template", other)
    try:
        reader = lm.reading(clip.is_picture)
        assert isinstance(reader, UniversalVLM)
        assert lm.reading(False) is lm
        encoded = reader.encode(clip, "Is there a dog?")
        assert image in encoded.prompt
        given = reader.pixel_inputs(encoded, encoded.video)["pixel_values"]
        exact = encoded.inputs["pixel_values"]
        assert (given - exact).abs().mean() < 0.01  # pixels of 8 bits are rounded when resized
    finally:
        del lm._for_pictures
