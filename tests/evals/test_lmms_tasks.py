"""The tasks that the lmms-eval plug-in writes; what needs lmms-eval itself is left to its venv."""

import importlib.util
import json
from pathlib import Path

import numpy as np

from tests.evals.layouts import MAKERS

PLUGIN = Path(__file__).parents[2] / "integrations" / "lmms_eval" / "macd_lmms_eval"


def load(path):
    spec = importlib.util.spec_from_file_location(f"plugin_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_task_asks_and_scores_as_the_benchmark_does(tmp_path):
    root = MAKERS["eventhallusion"](tmp_path / "data")
    writer = load(PLUGIN / "__main__.py")
    name = writer.write_task("eventhallusion", root, tmp_path / "tasks")
    folder = tmp_path / "tasks" / name
    text = (folder / f"{name}.yaml").read_text()
    assert "cluster_key: cluster" in text
    assert json.dumps(str(folder / "docs.jsonl")) in text
    docs = [json.loads(z) for z in (folder / "docs.jsonl").read_text().splitlines()]
    assert len(docs) == 8
    functions = load(folder / "utils.py")
    (message,) = functions.doc_to_messages(docs[0])
    video, asked = message["content"]
    assert video == {"type": "video", "url": str(root / "entire" / "entire_001.mp4")}
    assert asked["text"] == "Is it entire 1 0?\nPlease answer yes or no:"
    results = [functions.process_results(docs[0], [z])["macd_accuracy"] for z in ("No.", "Yes", "")]
    assert [r["score"] for r in results] == [1.0, 0.0, 0.0]
    assert results[0]["cluster"] == str(root / "entire" / "entire_001.mp4")
    # lmms-eval takes its standard errors from the scores, so the mean has to be in their unit
    assert functions.accuracy(results) == np.mean([r["score"] for r in results])
    assert functions.accuracy([]) == 0


def test_a_folder_that_is_none_is_one_line(tmp_path, capsys):
    writer = load(PLUGIN / "__main__.py")
    assert writer.main(["eventhallusion", str(tmp_path / "x"), str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("error: there is no folder")
