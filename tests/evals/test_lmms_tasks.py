"""The lmms-eval plug-in: its tasks, and its model behind stand-ins for lmms-eval's own classes."""

import importlib.util
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from macd_studio.core.errors import OptionError
from macd_studio.evals.benchmarks import open_files
from macd_studio.evals.scoring.rules import FAILED, rules_for
from macd_studio.toyworld.clips import TITLE, write_frames
from tests.evals.layouts import MAKERS
from tests.fakes import ByteLM

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


@dataclass
class Counts:
    output_tokens: int = 0


@dataclass
class Result:
    text: str
    token_counts: Counts


@pytest.fixture
def plugin(monkeypatch):
    """The model's module; lmms-eval, which needs an environment of its own, is stood in for."""
    instance = SimpleNamespace(GenerationResult=Result, TokenCounts=Counts)
    for name, module in (("lmms_eval", SimpleNamespace()), ("lmms_eval.api", SimpleNamespace()),
                         ("lmms_eval.api.instance", instance),
                         ("lmms_eval.api.model", SimpleNamespace(lmms=object))):  # fmt: skip
        monkeypatch.setitem(sys.modules, name, module)
    module = load(PLUGIN / "model.py")
    monkeypatch.setattr(module, "load_backbone", lambda name, device: ByteLM())
    monkeypatch.setattr(module, "load_detector", lambda name, device: None)
    return module


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"methd": "macd", "alfa": 3}, "macd_studio takes no 'methd'. Write method."),
        ({"alfa": 3}, "Write alpha."),
        ({"max_pixels": 3}, "Give some of backbone, method"),
        ({"method": "mcd"}, "there is no method 'mcd'"),
        ({"method": "vcd", "alpha": "much"}, "alpha is 'much'"),
        ({"method": "vcd", "alpha": 99}, "alpha is 99"),
        ({"method": "baseline", "alpha": 3}, "baseline takes no alpha"),
        ({"frames": 0}, "frames is 0"),
        ({"fit": "crop"}, "fit is 'crop'"),
    ],
)
def test_arguments_that_are_not_understood_are_refused(plugin, given, message):
    with pytest.raises(OptionError) as error:
        plugin.MacdStudio(**given, batch_size=1, max_batch_size=None, device="cpu")
    assert message in str(error.value)


def test_what_lmms_eval_itself_hands_over_is_taken(plugin):
    made = plugin.MacdStudio(method="vcd", beta=0.3, batch_size="1", device="cpu")
    assert (made.method, made.contrast.alpha, made.contrast.beta) == ("vcd", 1.0, 0.3)
    assert made.options.video.fit == "native"
    assert made.options.video.max_seconds >= 3600


def test_an_unreadable_video_is_marked_and_the_run_goes_on(plugin, tmp_path, capsys):
    write_frames(
        np.full((12, 64, 64, 3), 90, np.uint8), tmp_path / "good.mp4", 12, {"title": TITLE}
    )
    write_frames(
        np.full((48, 64, 64, 3), 90, np.uint8), tmp_path / "long.mp4", 12, {"title": TITLE}
    )
    (tmp_path / "bad.mp4").write_bytes(b"nothing" * 100)
    made = plugin.MacdStudio(method="vcd", frames=4, max_seconds=2)
    names = ["missing", "good", "bad", "long"]
    docs = [{"question_id": str(i), "question": "is it?"} for i in range(len(names))]
    made.task_dict = {"t": {"test": docs}}
    requests = []
    for i, name in enumerate(names):
        parts = [{"type": "video", "url": str(tmp_path / f"{name}.mp4")},
                 {"type": "text", "text": "is it?"}]  # fmt: skip

        def messages(doc, parts=parts):
            return [{"role": "user", "content": parts}]

        args = ("is it?", messages, {"max_new_tokens": 4}, i, "t", "test")
        requests.append(SimpleNamespace(args=args))
    texts = [r.text for r in made.generate_until(requests)]
    assert [t == FAILED for t in texts] == [True, False, True, True]
    told = capsys.readouterr().err
    assert "macd_studio: 3 of 4 answers failed and count as wrong" in told
    assert "Marked as [failed]." in told
    assert "max_seconds in --model_args" in told
    assert "--start" not in told
    item = open_files("eventhallusion", MAKERS["eventhallusion"](tmp_path / "d")).everything[0]
    assert not any(rule.right(FAILED, item) for rule in rules_for("eventhallusion", item))
    made.generate_until(requests[:1])
    assert "1 of 1 answer failed" in capsys.readouterr().err
    made.generate_until([])
    assert "failed" not in capsys.readouterr().err


def requirements(path):
    lines = (z.split("#")[0].strip() for z in path.read_text().splitlines())
    return {re.split(r"[=<>~]", z)[0].lower(): z for z in lines if z}


def test_what_is_installed_for_it_is_what_the_project_asks_for():
    """One list, which the README installs: a resolver cannot take both PyAV ranges."""
    own = requirements(PLUGIN.parent / "requirements.txt")
    whole = requirements(PLUGIN.parents[2] / "requirements.txt")
    page = {"gradio", "spaces", "uvicorn", "fastapi"}
    assert {n: z for n, z in own.items() if n in whole and n != "av"} == {
        n: z for n, z in whole.items() if n in own and n != "av"
    }
    assert set(whole) - set(own) <= page
    assert set(own) - set(whole) == {"lmms-eval"}
    readme = (PLUGIN.parent / "README.md").read_text()
    assert "pip install -r integrations/lmms_eval/requirements.txt" in readme
    assert "pip install --no-deps . ./integrations/lmms_eval" in readme
    assert own["lmms-eval"] in readme
