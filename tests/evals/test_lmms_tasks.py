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

import macd_studio as macd
from macd_studio.core.errors import BenchmarkError, OptionError
from macd_studio.core.methods import METHODS
from macd_studio.core.system.shipped import assets
from macd_studio.evals.benchmarks import open_files
from macd_studio.evals.scoring.rules import FAILED, rules_for
from macd_studio.toyworld.clips import TITLE, write_frames
from tests.evals.layouts import MAKERS
from tests.fakes import BoxDetector, ByteLM
from tests.families import tiny

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


def controls(folder):
    """Method → the text of its task of `video_controls`."""
    texts = [p.read_text() for p in sorted(folder.glob("*.yaml"))]
    named = [(re.findall(r"^  method: (\S+)$", t, re.M), t) for t in texts]
    return {method: text for (method,), text in (n for n in named if n[0])}


def test_the_controls_ask_the_same_by_each_method(tmp_path):
    root = MAKERS["eventhallusion"](tmp_path / "data")
    writer = load(PLUGIN / "__main__.py")
    name = writer.write_task("eventhallusion", root, tmp_path / "tasks", "vcd")
    written = controls(tmp_path / "tasks" / name)
    assert set(written) == {"vcd", *writer.CONTROLS} <= set(METHODS)
    plain = (tmp_path / "tasks" / name / f"{name}.yaml").read_text()
    assert "video_controls" not in plain
    for method, text in written.items():
        task = f"{name}_{method.replace('-', '_')}"
        assert (tmp_path / "tasks" / name / f"{task}.yaml").read_text() == text
        assert "\ntag: video_controls\n" in text
        same = text.partition("tag:")[0].replace(f"  method: {method}\n", "")
        assert same.replace(f"task: {task}\n", f"task: {name}\n") == plain
    with pytest.raises(OptionError, match="there is no method 'mcd'"):
        writer.write_task("eventhallusion", root, tmp_path / "others", "mcd")
    assert not (tmp_path / "others").exists()


@pytest.mark.parametrize("row", ["a,Which?,a dog,,", "a,Is it?,yes,1,3"])
def test_questions_that_a_document_does_not_hold_are_refused(row, tmp_path):
    write_frames(np.zeros((12, 64, 64, 3), np.uint8), tmp_path / "a.mp4", 12, {"title": TITLE})
    table = tmp_path / "questions.csv"
    table.write_text(f"video,question,answer,start,end\na.mp4,Is it?,no,,\n{row}\n".replace(
        "\na,", "\na.mp4,"))  # fmt: skip
    writer = load(PLUGIN / "__main__.py")
    with pytest.raises(BenchmarkError, match="1 questions, such as 2, are not answered by yes"):
        writer.write_task("questions", tmp_path, tmp_path / "tasks")
    table.write_text("video,question,answer\na.mp4,Is it?,no\n")
    assert writer.write_task("questions", tmp_path, tmp_path / "tasks") == "macd_questions"
    assert len(controls(tmp_path / "tasks" / "macd_questions")) == 7


def test_a_model_that_reads_no_method_is_not_asked_by_one():
    """Its plain answers would be reported under the names of methods."""
    functions = load(PLUGIN / "task_functions.py")
    doc = {"before": "", "question": "Is it?", "after": " yes or no", "video": "a.mp4"}
    every = {"macd_studio": {"by_method": True}}  # as lmms-eval hands it to another model
    for ask in (functions.doc_to_text, functions.doc_to_messages):
        with pytest.raises(OptionError, match=r"only macd_studio reads which.*inner=NAME"):
            ask(doc, every)
        assert ask(doc, {"by_method": True}) == ask(doc)


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
        ({"max_pixels": 3}, "Give some of backbone, inner, method"),
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


def request(made, video, question="is it?", task="t", name="q", **how):
    """A request as lmms-eval makes it, of a task of one document."""
    doc = {"question_id": name, "question": question}
    made.task_dict[task] = {"test": [doc]}
    parts = [{"type": "video", "url": str(video)}, {"type": "text", "text": question}]
    messages = [{"role": "user", "content": parts}]
    args = (question, lambda doc: messages, {"max_new_tokens": 6} | how, 0, task, "test")
    return SimpleNamespace(args=args)


def test_tasks_that_name_a_method_are_answered_by_it_and_together(plugin, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for name in "ab":
        corners = rng.integers(0, 255, (1, 2, 2, 3), np.uint8)
        frames = corners.repeat(12, 0).repeat(32, 1).repeat(32, 2)
        write_frames(frames, tmp_path / f"{name}.mp4", 12, {"title": TITLE})
    detectors, read = [], []
    monkeypatch.setattr(
        plugin, "load_detector", lambda *_: detectors.append(BoxDetector()) or detectors[-1]
    )
    reading = plugin.read_clip
    monkeypatch.setattr(plugin, "read_clip", lambda *how: read.append(how) or reading(*how))
    methods = [None, "vcd", "mask-all", "blank", "random-place"]

    def answers(given, **how):
        made = plugin.MacdStudio(frames=4, alpha=2, **how)
        made.task_dict = {}
        return made.generate_until([
            request(made, tmp_path / f"{video}.mp4", task=f"{video}-{m}", name=video,
                    **({"method": m} if m else {}))
            for m in given for video in "ab"
        ])  # fmt: skip

    together = answers(methods)
    assert len(read) == 2  # a clip each, whatever is asked of it
    assert len(detectors) == 1
    alone = [answers([m], method="blank" if m == "vcd" else None) for m in methods[1:]]
    assert together[2:] == [one for pair in alone for one in pair]
    assert answers(["blank"]) == together[6:8]
    assert len({r.text for r in together}) >= 4
    assert all(r.token_counts.output_tokens for r in together)
    with pytest.raises(OptionError, match="baseline takes no alpha"):
        answers([None])
    before = len(read)
    with pytest.raises(OptionError, match="there is no method 'blnk'"):
        answers(["vcd", "blnk"])
    assert len(read) == before


def test_a_model_of_lmms_eval_is_wrapped_with_its_own_arguments(plugin, monkeypatch):
    own = tiny("internvl")
    made = []

    def held(**given):
        made.append(given)
        return SimpleNamespace(model=own.model, processor=own.processor)

    without = {"server": {"model": "gpt", "processor": 1}, "bare": {"model": own.model}}
    named = {"held": held} | {n: lambda v=v, **_: SimpleNamespace(**v) for n, v in without.items()}
    monkeypatch.setitem(
        sys.modules, "lmms_eval.models", SimpleNamespace(get_model=named.__getitem__)
    )
    model = plugin.MacdStudio(inner="held", pretrained="x", frames=4, device="cpu")
    assert made == [{"batch_size": 1, "pretrained": "x", "device": "cpu"}]
    assert model.lm.model is own.model
    assert model.detector == "yolo11n"
    for name in without:
        with pytest.raises(OptionError, match=f"{name} of lmms-eval has no transformers model"):
            plugin.MacdStudio(inner=name)


@pytest.mark.long
@pytest.mark.filterwarnings("default")  # its own are not ours
def test_lmms_eval_itself_runs_the_controls(tmp_path, monkeypatch):
    """Skipped where it is not installed: it wants an environment of its own."""
    pytest.importorskip("macd_lmms_eval", reason="the plug-in for lmms-eval is not installed")
    evaluator = pytest.importorskip("lmms_eval.evaluator", reason="lmms-eval is not installed")
    from lmms_eval.tasks import TaskManager
    from macd_lmms_eval.__main__ import CONTROLS, write_task

    clip, question = assets() / "examples" / "repaired.mp4", "Is there a bike in the video?"
    (tmp_path / "questions.csv").write_text(f"video,question,answer\n{clip},{question},yes\n")
    write_task("questions", tmp_path, tmp_path / "tasks")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    found = TaskManager(include_path=str(tmp_path / "tasks"), model_name="macd_studio")
    run = evaluator.simple_evaluate(
        model="macd_studio", model_args="frames=8,alpha=1,beta=0.1", tasks=["video_controls"],
        task_manager=found, batch_size=1, device="cpu", log_samples=True,
    )  # fmt: skip
    said = {n.removeprefix("macd_questions_").replace("_", "-"): s[0]["filtered_resps"][0]
            for n, s in run["samples"].items()}  # fmt: skip
    assert set(said) == {"macd", *CONTROLS}
    video = {"frames": 8, "fit": "native", "max_seconds": 3600, "max_megabytes": 4096}
    contrast = {"alpha": 1.0, "beta": 0.1}
    same = ["mask-all", "blank", "reversed"]  # the others draw places by the question's id
    here = macd.compare(clip, question, same, backbone="toyworld", video=video, contrast=contrast)
    assert {m: said[m] for m in here.answers} == {m: a.text for m, a in here.answers.items()}
    assert here.answers["baseline"].text != here.answers["macd"].text


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
    assert set(own) - set(whole) == {"lmms-eval", "filelock"}
    readme = (PLUGIN.parent / "README.md").read_text()
    assert "pip install -r integrations/lmms_eval/requirements.txt" in readme
    assert "pip install --no-deps . ./integrations/lmms_eval" in readme
    assert own["lmms-eval"] in readme
