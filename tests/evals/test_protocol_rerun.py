"""What is run again to tell causes apart, and what cannot be, from invented answers."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from macd_studio.core.checkpoint.files import weights_hash
from macd_studio.core.options import RunOptions
from macd_studio.evals.__main__ import main
from macd_studio.evals.benchmarks.base import Item
from macd_studio.evals.protocol import jobs, rerun, switch
from macd_studio.evals.protocol.bounds import NAME_OF_FILE
from macd_studio.evals.protocol.inputs import Asked, read_pair
from macd_studio.evals.running import run
from macd_studio.evals.running.given import folder_hashes
from macd_studio.evals.running.rows import Row
from tests.evals import protocols

CPU, GPU = "cpu", "cuda"
UNUSUAL = {
    "annotation": {"flipped": True}, "words": {"reworded": True}, "clip file": {"clip": "other"},
    "frames": {"frames": 4}, "size": {"side": 280}, "dtype": {"model": {"dtype": "bfloat16"}},
    "device": {"model": {"device": GPU, "device_name": "H100"}}, "search": {"search": "sample"},
    "α and β": {"alpha": 2.0}, "seed": {"seed": 1}, "template": {"published": False},
}  # fmt: skip


def invented(job, ids, out):
    """Answers as `protocols` invents them for what a job asks for."""
    setting = job.setting
    rows = [json.loads(z) for z in Path(setting.data, "questions.jsonl").read_text().splitlines()]
    shown = Path(setting.clips or setting.data, "0.mp4").read_text()
    dtype = "float32" if setting.dtype == "auto" else setting.dtype
    of_all = (setting.options.video.frames, setting.side, setting.published, dtype, "p1", "5.23.0")
    alpha, _ = job.contrast or jobs.USUAL_CONTRAST
    of_macd = alpha, setting.options.seed, setting.options.decode.search
    of_files = shown, job.device or CPU, "that" in rows[0]["question"]
    return {i: protocols.said(int(i), job.method, of_all, of_macd, of_files) for i in ids}


@pytest.fixture
def compared(tmp_path, monkeypatch, capsys):
    """Causes, and words of the command → what was run again, and what was printed."""
    monkeypatch.setattr(rerun, "answer", invented)

    def compare(*causes, words=(), gone=False, **more):
        first, second = tmp_path / "first", tmp_path / "second"
        how = dict(more)
        for name in causes:
            own = UNUSUAL[name]
            how |= own | ({"model": how.get("model", {}) | own["model"]} if "model" in own else {})
        for folder, own in ((first, {}), (second, how)):
            folder.mkdir()
            protocols.run(folder, **own)
        if gone:
            (second / "data").rename(tmp_path / "elsewhere")
        out = tmp_path / "out"
        full = ["diff", str(first), str(second), "--rerun", "500", "--out", str(out), *words]
        assert main(full) == 0
        accuracy = [json.loads((z / "report.json").read_text())["scores"]["macd"]["accuracy"]
                    for z in (first, second)]  # fmt: skip
        text = capsys.readouterr().out
        return json.loads((out / "diff.json").read_text())["rerun"], accuracy, text

    return compare


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU, as far as this module asks."""
    monkeypatch.setattr(jobs, "here", lambda: GPU)
    monkeypatch.setattr(switch, "has_device", lambda name: name in (CPU, GPU))


@pytest.mark.parametrize("causes", [
    ("annotation",), ("clip file",), ("device",), ("annotation", "clip file"),
    ("clip file", "frames"), ("device", "dtype", "seed"), ("search", "α and β", "seed"),
    ("template", "size", "clip file"),
], ids="+".join)  # fmt: skip
def test_each_is_run_alone_and_in_order_and_nothing_is_left(compared, gpu, causes):
    found, (before, after), text = compared(*causes)
    assert f"As before: {protocols.N} of {protocols.N} answers come out as they were" in text
    assert ("*Interaction*" in text.partition("## Run again")[2]) == (len(causes) > 1)
    assert set(found["order"]) == set(causes)
    assert found["left"] == []
    assert found["rest"][0] == pytest.approx(0)
    assert sum(c["in_order"][0] for c in found["causes"]) == pytest.approx(after - before, abs=1e-3)
    alone = sum(c["alone"][0] for c in found["causes"])
    assert found["interaction"] == pytest.approx(after - before - alone, abs=1e-3)
    assert all(c["alone"][0] != 0 and c["detail"] for c in found["causes"])
    assert found["repeated"] == found["n"] == protocols.N


def test_other_words_are_asked_of_the_first_ones_clips(compared, tmp_path):
    found, (before, _), _ = compared("words", "clip file")
    own = {}
    for name, how in (("annotation", UNUSUAL["words"]), ("clip file", UNUSUAL["clip file"])):
        (tmp_path / name).mkdir()
        own[name] = protocols.run(tmp_path / name, **how) - before
    assert found["order"] == ["annotation", "clip file"]
    by_name = {c["cause"]: c for c in found["causes"]}
    assert by_name["annotation"]["detail"] == "questions or options are worded otherwise"
    assert {n: c["alone"][0] for n, c in by_name.items()} == pytest.approx(own, abs=1e-3)
    assert found["rest"][0] == pytest.approx(0)


@pytest.mark.parametrize(("cause", "remedy"), [
    ("words", "the second's questions are not here; name their folder by --second-data"),
    ("clip file", "the second's videos are not here; name their folder by --second-data"),
    ("device", "the second ran on H100, which this machine lacks"),
])  # fmt: skip
def test_what_is_not_here_is_the_rest_and_named(compared, cause, remedy):
    found, (before, after), text = compared(cause, gone=True)
    assert found["order"] == []
    assert found["rest"][0] == pytest.approx(after - before, abs=1e-3)
    name = "annotation" if cause == "words" else cause
    assert found["left"] == [{"cause": name, "reason": remedy}]
    assert f"| **{name}** | {remedy} |" in text


def test_a_folder_that_was_moved_is_found_by_name(compared, tmp_path):
    words = ["--second-data", str(tmp_path / "elsewhere")]
    found, _, _ = compared("clip file", gone=True, words=words)
    assert (found["order"], found["left"]) == (["clip file"], [])
    assert found["rest"][0] == pytest.approx(0)


def test_other_truths_need_no_folder(compared):
    found, (before, after), _ = compared("annotation", gone=True)
    assert found["order"] == ["annotation"]
    assert found["causes"][0]["in_order"][0] == pytest.approx(after - before, abs=1e-3)


def test_the_version_of_the_code_cannot_be_chosen(compared):
    found, *_ = compared("frames", code="0" * 32)
    assert found["order"] == ["frames"]
    (left,) = found["left"]
    assert left["cause"] == "code"
    assert left["reason"].startswith("this version is the first's; answer")


def test_packages_need_the_other_environment(compared):
    other = {"versions": protocols.MODEL["versions"] | {"transformers": "5.17.0"}}
    found, *_ = compared(model=other)
    (left,) = found["left"]
    remedy = "name the Python of the second's environment by --python"
    assert left == {"cause": "versions", "reason": remedy}


def with_model(run, backbone, hashes=None):
    """A run as if this model had answered; hashes: what it recorded of the model's files."""
    report = json.loads((run / "report.json").read_text())
    report["setting"]["backbone"] = str(backbone)
    (run / "report.json").write_text(json.dumps(report))
    if hashes:
        path = run / NAME_OF_FILE
        protocol = json.loads(path.read_text())
        protocol["models"][0] |= hashes
        path.write_text(json.dumps(protocol))


@pytest.fixture
def two_models(tmp_path, monkeypatch):
    """Runs by models of two folders, of which processor, tokenizer and weights differ."""
    monkeypatch.setattr(rerun, "answer", invented)
    for name in ("first", "second"):
        run, model = tmp_path / name, tmp_path / f"model-{name}"
        run.mkdir()
        model.mkdir()
        protocols.run(run)
        for file in ("processor_config.json", "tokenizer.json", "model.safetensors"):
            (model / file).write_text(f"{file} of the {name}")
        (model / "config.json").write_text("{}")
        weights = weights_hash([model / "model.safetensors"])
        with_model(run, model, folder_hashes(str(model)) | {"weights": weights})

    def compare():
        pair = read_pair(*(Asked(str(tmp_path / name)) for name in ("first", "second")))
        found = rerun.rerun(*pair, 9, tmp_path / "out", rerun.Places(), lambda line: None)
        return found["order"], {z["cause"]: z["reason"] for z in found["left"]}

    return compare


PARTS = ["processor", "tokenizer", "weights"]


def test_parts_of_two_folders_are_exchanged_one_by_one(two_models):
    assert two_models() == (PARTS, {})


@pytest.mark.parametrize(("whose", "file", "part"), [
    ("second", "processor_config.json", "processor"), ("second", "tokenizer.json", "tokenizer"),
    ("second", "model.safetensors", "weights"), ("second", "config.json", "weights"),
    ("first", "processor_config.json", "processor"), ("second", "adapter_config.json", "weights"),
])  # fmt: skip
def test_a_part_that_is_no_longer_what_was_recorded_stays(two_models, tmp_path, whose, file, part):
    (tmp_path / f"model-{whose}" / file).write_text("changed since")
    reason = f"the {whose}'s folder does not hold what the run recorded"
    assert two_models() == ([p for p in PARTS if p != part], {part: reason})


def test_a_folder_that_was_changed_does_not_stand_for_a_model_of_the_hub(two_models, tmp_path):
    """Its weights alone are exchanged with all that belongs to them, where they are the same."""
    with_model(tmp_path / "first", "org/name")
    order, left = two_models()
    assert order == ["weights"]
    assert left == dict.fromkeys(
        PARTS[:2], "parts of models are exchanged where both are folders here"
    )
    (tmp_path / "model-second" / "tokenizer.json").write_text("changed since")
    order, left = two_models()
    assert (order, list(left)) == ([], PARTS)
    assert left["tokenizer"].startswith("the second's folder does not hold")


def test_a_gpu_is_hidden_from_a_job_for_the_cpu(tmp_path, monkeypatch):
    """The other way round, and where it is the same, nothing is started."""
    seen = {}

    def start(words, env, **_):
        seen.update(env=env, words=words)
        Path(words[-1]).with_suffix(".out.json").write_text("{}")
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(jobs.subprocess, "run", start)
    monkeypatch.setattr(jobs, "here", lambda: GPU)
    job = jobs.Job(jobs.Setting("questions", RunOptions()), "macd", None, device=CPU)
    assert jobs.answer(job, [], tmp_path) == {}
    assert seen["env"]["CUDA_VISIBLE_DEVICES"] == ""
    assert (jobs.has_device(CPU), jobs.has_device(GPU), jobs.has_device("")) == (True, True, False)
    monkeypatch.setattr(jobs, "here", lambda: CPU)
    assert not jobs.has_device(GPU)


@pytest.fixture
def against(tmp_path, monkeypatch):
    """What has no protocol → what of it was run again on a machine without a GPU, and what not."""
    monkeypatch.setattr(rerun, "answer", invented)
    monkeypatch.setattr(switch, "has_device", lambda name: name == CPU)
    first, out = tmp_path / "first", tmp_path / "out"
    first.mkdir()
    protocols.run(first)

    def compare(second, *words):
        assert (
            main(["diff", str(first), str(second), "--rerun", "9", "--out", str(out), *words]) == 0
        )
        found = json.loads((out / "diff.json").read_text())["rerun"]
        return found["order"], {z["cause"]: z["reason"] for z in found["left"]}

    return compare


REST = "whatever the second figure does not state"


def test_what_a_printed_row_states_is_exchanged_or_named(against):
    order, left = against(
        "paper:70,n=120,model=other,frames=4,alpha=2,transformers=5.17.0,torch=2.12.0,device=cuda,"
        "prompts=mine,rule=own,over=answered"
    )
    assert order == ["frames", "α and β"]
    python = "name a Python that holds it by --python"
    assert left == {
        "model other": "it is known by its name alone; give both figures as folders of runs",
        "transformers 5.17.0": python,
        "torch 2.12.0": python,
        "device cuda": "the second ran on cuda, which this machine lacks",
        "prompts mine": "this program has published and bare ones alone",
        "rule own": "what is run again is judged by the first figure's rule",
        "over answered": "of what is run again every question is counted",
        REST: "a printed row says nothing of it",
    }


def test_what_a_row_states_as_the_first_is_not_named(against):
    order, left = against(
        "paper:70,n=120,model=a model,frames=8,transformers=5.23.0,device=cpu:0,temperature=0,"
        "prompts=published,rule=official,over=all,alpha=1"
    )
    assert (order, list(left)) == ([], [REST])


def test_packages_of_a_row_are_told_by_the_python_that_is_given(against):
    order, left = against("paper:70,n=120,transformers=5.17.0", "--python", "other")
    assert (order, list(left)) == (["versions"], [REST])


def test_a_baseline_has_no_contrast_to_take_from_a_row(against):
    order, left = against("paper:70,n=120,alpha=2,fps=1", "--method", "baseline,")
    assert order == ["frames"]
    assert left["alpha 2"] == "the first figure's method has no second view"


def test_what_lmms_eval_states_is_exchanged_or_named(against, tmp_path):
    lines = [{"doc_id": i, "doc_hash": f"h{i}", "target": "yes", "filtered_resps": ["no"],
              "input": f"Is it {i}?", "score": 0.0} for i in range(protocols.N)]  # fmt: skip
    file = tmp_path / "1_samples_eventhallusion.jsonl"
    file.write_text("".join(json.dumps(z) + "\n" for z in lines))
    config = {"model_args": "pretrained=x/y,max_num_frames=4,dtype=bfloat16", "device": "cuda:0",
              "gen_kwargs": "temperature=0"}  # fmt: skip
    results = {"config": config, "transformers_version": "5.17.0"}
    file.with_name("1_results.json").write_text(json.dumps(results))
    order, left = against(file)
    assert order == ["frames", "dtype"]
    assert list(left) == ["model x/y", "device cuda:0", "transformers 5.17.0", REST]
    assert left[REST] == "a file of answers says nothing of it"


@pytest.fixture
def pythons(monkeypatch):
    """Interpreters of one version that hold one package each, and what each was asked.

    A child is played in this process. Its answers name the package that it holds.
    """
    asked = []
    now = {"holds": "decoder 1"}

    def held():
        name, version = now["holds"].split()
        return [SimpleNamespace(name=name, version=version, locate_file=lambda path: "site")]

    def start(words, **_):
        before, now["holds"] = now["holds"], Path(words[0]).read_text()
        code = jobs.main(words[3:])
        now["holds"] = before
        return SimpleNamespace(returncode=code, stderr="")

    def engine(groups, setting, tracks):
        for want in itertools.chain(*groups):
            asked.append(now["holds"])
            yield Row(want.key, want.item.id, want.method, now["holds"])

    monkeypatch.setattr(jobs, "distributions", held)
    monkeypatch.setattr(jobs.subprocess, "run", start)
    monkeypatch.setattr(run, "in_process", engine)
    monkeypatch.setattr(jobs, "items_of", lambda benchmark, ids: {i: an_item(i) for i in ids})
    monkeypatch.setattr(jobs.Setting, "open", lambda self: SimpleNamespace(name="questions"))
    monkeypatch.setattr(jobs.Setting, "content", lambda self, benchmark: "the same")
    return asked


def an_item(name):
    return Item(name, "clip", "", "", "word", "What?", "it")


def test_no_environment_takes_the_answers_of_another(pythons, tmp_path):
    """Two interpreters of one version that hold other packages, one whose package is replaced."""
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("decoder 1")
    other.write_text("decoder 2")
    job = jobs.Job(jobs.Setting("questions", RunOptions()), "macd", None)

    def said(python):
        own = replace(job, python=None if python is None else str(python))
        (text,) = jobs.answer(own, ["0"], tmp_path / "out").values()
        return text

    assert [said(p) for p in (one, other, one, other)] == [
        "decoder 1", "decoder 2", "decoder 1", "decoder 2",
    ]  # fmt: skip
    assert pythons == ["decoder 1", "decoder 2"], "each environment answers once"
    other.write_text("decoder 3")
    assert (said(None), said(other)) == ("decoder 1", "decoder 3")


def test_an_environment_is_known_by_each_of_its_parts(pythons, monkeypatch):
    names = [jobs.environment(), jobs.environment()]
    assert names[0] == names.pop()
    for owner, name, value in (
        (jobs.sys, "prefix", "/other"), (jobs.sys, "version", "3.11.99"),
        (jobs, "here", lambda: GPU), (jobs, "distributions", list),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            names.append(jobs.environment())
    assert len(set(names)) == len(names) == 5


@pytest.mark.parametrize(("words", "named"), [
    (["--second-data", "x"], "--second-data is for --rerun"),
    (["--rerun", "3", "--second-data", "nowhere"], "there is no folder 'nowhere'"),
])  # fmt: skip
def test_wrong_words_are_told(tmp_path, words, named, capsys):
    folder = tmp_path / "run"
    folder.mkdir()
    protocols.run(folder)
    assert main(["diff", str(folder), str(folder), *words]) == 2
    assert named in capsys.readouterr().err
