"""Detectors of every structure through a whole run with random weights; the table of that."""

import numpy as np
import pytest

from macd_studio.core.errors import DetectorError
from macd_studio.core.objects import detect
from macd_studio.core.objects.detect import check_detector, is_on_disk, load_detector
from macd_studio.core.objects.registry import DETECTORS, ZERO_SHOT, hub_source, reads_words
from macd_studio.core.options import DetectOptions
from tests.detectors import CLASSES, STRUCTURES, WORDS, built, owlv2, row, traced, written

EACH = [t if one.quick else pytest.param(t, marks=pytest.mark.long)
        for t, one in STRUCTURES.items()]  # fmt: skip


@pytest.mark.parametrize("title", EACH)
def test_each_structure_runs_to_the_end_and_its_row_is_true(title):
    assert row(title) in written()


def test_the_table_holds_every_structure():
    assert [line[0] for line in written()] == list(STRUCTURES)
    assert all(line[2] == "yes" for line in written())


@pytest.mark.parametrize("title", ["RT-DETR", "RF-DETR", "OWLv2", "OmDet-Turbo", "YOLOE-26-seg"])
def test_objects_have_the_real_names(title):
    """Fixed classes are those of the configuration; words keep their own spelling."""
    wanted = set(WORDS) if built(title).open_vocabulary else set(CLASSES.values())
    labels = {t.label for t in traced(title).tracks}
    assert labels
    assert labels <= wanted


def test_other_words_make_other_classes():
    detector = built("YOLOE-26-seg")
    frames = np.random.default_rng(0).integers(0, 255, (2, 64, 64, 3), dtype=np.uint8)
    for words in (("owl",), ("smoke plume", "elk"), ("owl",)):
        prompt = ". ".join(words)
        options = DetectOptions(low=0.01, confidence=0.01, image_size=64, prompt=prompt)
        found = {label for d in detector.detect(frames, options) for label in d.labels}
        assert found
        assert found <= set(words)


def test_words_without_their_text_encoder_are_refused(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    detector = built("YOLOE-26-seg")
    frames = np.zeros((1, 64, 64, 3), np.uint8)

    def fail(words):
        raise OSError("no network")

    monkeypatch.setattr(detector, "_embed", detect._embed_words)
    monkeypatch.setattr(detector, "_words", ())
    monkeypatch.setattr(detector._model, "get_text_pe", fail)
    with pytest.raises(DetectorError, match=r"mobileclip2_b.ts, 254 MB, which is not on this disk"):
        list(detector.detect(frames, DetectOptions(prompt="kite")))
    monkeypatch.setattr(detector._model, "get_text_pe", lambda words: pytest.fail("downloads"))
    monkeypatch.setattr(detect, "is_closed", lambda: True)
    with pytest.raises(DetectorError, match="not on this disk"):
        list(detector.detect(frames, DetectOptions(prompt="kite")))


def test_a_folder_without_a_detector_says_what_it_holds(tmp_path):
    import transformers as tf

    tf.BertConfig(vocab_size=5).save_pretrained(tmp_path)
    with pytest.raises(DetectorError, match="of the kind 'bert', which finds no objects"):
        load_detector(str(tmp_path))


def test_hub_ids_are_known_as_such(monkeypatch):
    check_detector("org/model-1.5")
    check_detector("org/model@v1/x")
    for name in ("org/", "/model", "a/b/c", "../x", "org/mo del", "yolo99"):
        with pytest.raises(DetectorError, match="not a known detector"):
            check_detector(name)
    assert hub_source("org/model@v1") == ("org/model", "v1")
    assert hub_source("owlv2") == DETECTORS["owlv2"].hub
    assert DETECTORS["owlv2"].licence in DETECTORS["owlv2"].facts
    assert not is_on_disk("org/model")
    with pytest.raises(DetectorError, match="not on this disk, and the hub cannot be reached"):
        load_detector("org/model")


def test_what_reads_words_is_known_before_it_is_loaded(tmp_path):
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_ZERO_SHOT_OBJECT_DETECTION_MAPPING_NAMES as kinds,
    )

    assert set(ZERO_SHOT) == set(kinds)
    model, _ = owlv2()
    model.config.save_pretrained(tmp_path)
    assert reads_words(str(tmp_path))
    for name, words in (("yoloe-26n-seg", True), ("x/yoloe-11s-seg.pt", True), ("yolo26n", False),
                        ("yolo11n.pt", False), ("org/model", False), ("", False)):  # fmt: skip
        assert reads_words(name) is words, name
    (tmp_path / "config.json").write_text("[" * 10**5)
    assert not reads_words(str(tmp_path))
