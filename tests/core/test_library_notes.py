"""What libraries report while they load, decode and compute stands in the trace, once."""

import logging
import threading
import warnings
from pathlib import Path

import pytest

from macd_studio.core.media import reports
from macd_studio.core.system import library_notes
from macd_studio.core.system.library_notes import LONGEST, MOST, collecting, collecting_from


def test_warnings_and_logs_are_kept_once_and_shortened(tmp_path):
    logger, notes = logging.getLogger("transformers.some.module"), []
    with collecting(notes):
        logger.warning("\x1b[31mUsing a slow\x1b[0m tokenizer of %s/model", tmp_path)
        logger.warning("Using a slow tokenizer of %s/model", tmp_path)
        logger.info("not of that level")
        logger.error("x" * 1000)
        for i in range(3):
            logger.warning("layer %d was skipped", i)
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("weights look strange", UserWarning, stacklevel=1)
            warnings.warn("old", DeprecationWarning, stacklevel=1)
    logger.warning("after that")
    warn = next(n for n in notes if "strange" in n)
    assert notes == [
        "transformers reports: Using a slow tokenizer of model",
        f"transformers reports: {'x' * (LONGEST - 1)}…",
        "transformers reports: layer 0 was skipped",
        warn,
    ]


def test_no_more_are_kept_than_a_trace_should_hold():
    notes = []
    with collecting(notes):
        for word in (f"{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(100)):
            logging.getLogger("torch").warning("about %s", word)
    assert len(notes) == MOST


def test_each_thread_keeps_its_own(recwarn):
    ours, theirs = [], []

    def other():
        with collecting(theirs):
            logging.getLogger("peft").warning("theirs")

    before = warnings.showwarning
    with collecting(ours):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        logging.getLogger("peft").warning("ours")
    assert (ours, theirs) == (["peft reports: ours"], ["peft reports: theirs"])
    assert warnings.showwarning is before


def test_what_an_iterator_reports_is_kept_while_it_makes_an_item():
    def items():
        for i in "ab":
            logging.getLogger("ultralytics").error("item %s", i)
            yield i

    notes = []
    for _ in collecting_from(items(), notes):
        logging.getLogger("ultralytics").error("not theirs")
    assert notes == ["ultralytics reports: item a", "ultralytics reports: item b"]
    assert library_notes._COLLECTED.get() is None


def test_lines_of_ffmpeg_become_notes():
    notes = []
    reports.take(
        "[mov,mp4,m4a @ 0x55d] moov atom is odd\n[mov,mp4,m4a @ 0x66d] moov atom is odd\n"
        "[swscaler @ 0x1] deprecated pixel format used, make sure you did set range correctly\n"
        "Last message repeated 3 times\n/x/PIL/Image.py:99: UserWarning: Corrupt EXIF data\n  x\n",
        notes,
    )
    assert notes == [
        "FFmpeg (mov) reports: moov atom is odd", "Pillow reports: Corrupt EXIF data"
    ]  # fmt: skip


@pytest.mark.long
def test_what_ffmpeg_reports_of_a_damaged_file_is_a_note_of_the_clip(tmp_path, reader_process):
    """By the process that decodes, from its standard error."""
    from macd_studio.core.media import video
    from macd_studio.core.options import VideoOptions
    from macd_studio.core.system.shipped import assets

    whole = assets() / "examples" / "repaired.mp4"
    content = bytearray(Path(whole).read_bytes())
    for i in range(len(content) // 3, 2 * len(content) // 3, 97):
        content[i] ^= 0x5A
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(content)
    assert any("FFmpeg" in n for n in video.read_clip(bad, VideoOptions(frames=4)).notes)
    assert not any("FFmpeg" in n for n in video.read_clip(whole, VideoOptions(frames=4)).notes)
