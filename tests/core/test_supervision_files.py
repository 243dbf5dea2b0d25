"""Files that supervision itself writes: data sets in its three formats, and its sinks."""

import cv2
import numpy as np
import pytest
import supervision as sv

from macd_studio.core.objects.formats import read_track_file
from macd_studio.core.objects.formats.source import FRAME_COLUMNS
from tests.fuzz import drawn_tracks as drawn


def detections(truth, n):
    return sv.Detections(
        xyxy=truth.boxes[:, n].astype(float),
        class_id=np.array([drawn.LABELS.index(label) for label in truth.labels]),
        confidence=np.full(len(truth.labels), 0.9),
        tracker_id=np.arange(1, len(truth.labels) + 1),
    )


@pytest.fixture(scope="module")
def truth():
    return drawn.draw(11, 8, distinct=True)


@pytest.mark.parametrize("kind", ["coco", "yolo", "voc"])
def test_its_data_sets_are_read(truth, tmp_path, kind):
    pictures = {}
    for n in range(truth.count):
        path = tmp_path / f"clip_{n:05d}.png"
        cv2.imwrite(str(path), np.zeros((truth.size[1], truth.size[0], 3), np.uint8))
        pictures[str(path)] = detections(truth, n)
    data = sv.DetectionDataset(list(drawn.LABELS), list(pictures), pictures)
    out = tmp_path / kind
    if kind == "coco":
        data.as_coco(annotations_path=str(out.with_suffix(".json")))
        out = out.with_suffix(".json")
    elif kind == "yolo":
        data.as_yolo(annotations_directory_path=str(out), data_yaml_path=str(out / "data.yaml"))
    else:
        data.as_pascal_voc(annotations_directory_path=str(out))
    assert drawn.outcome(out, truth) == "right"


@pytest.mark.parametrize("frame", FRAME_COLUMNS)
@pytest.mark.parametrize("sink", [sv.CSVSink, sv.JSONSink])
def test_its_sinks_are_read(truth, tmp_path, sink, frame):
    """The same objects of both, under whatever name a program adds the frame."""
    path = tmp_path / ("a.csv" if sink is sv.CSVSink else "a.json")
    with sink(str(path)) as out:
        for n in range(truth.count):
            out.append(detections(truth, n), custom_data={frame: n})
    assert drawn.outcome(path, truth, may_relabel=True) == "right"
    found = read_track_file(path, drawn.facts(truth)).objects
    assert [one.confidence for one in found] == pytest.approx([0.9] * len(truth.labels))
    classes = sorted(f"class {drawn.LABELS.index(label)}" for label in truth.labels)
    assert sorted(one.label for one in found) == classes


@pytest.mark.parametrize("column", ["class_name", "label", "name", "category", "class"])
def test_a_table_names_its_classes_as_programs_do(truth, tmp_path, column):
    path = tmp_path / "a.csv"
    with sv.CSVSink(str(path)) as out:
        for n in range(truth.count):
            named = detections(truth, n)
            named.data[column] = np.array(truth.labels)
            out.append(named, custom_data={"frame": n})
    assert drawn.outcome(path, truth) == "right"
