"""The folder that `generate(custom_generate=…)` loads: the tokens of ours, and its card."""

import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMultimodalLM, AutoProcessor, dynamic_module_utils

import macd_studio as macd
from macd_studio.core.backbones import everyday  # noqa: F401  (registers the embedded tower)
from macd_studio.core.errors import OptionError
from macd_studio.core.media.video import read_clip
from macd_studio.core.options import VideoOptions
from macd_studio.core.system.shipped import assets
from macd_studio.evals.benchmarks import find_benchmark
from tests.families import tiny
from tests.universal_models import parts

FOLDER = Path(__file__).parents[2] / "integrations" / "macd_generate"
CARD = (FOLDER / "README.md").read_text()
METHODS = (
    "macd",
    "vcd+linear",
    "random-place",
    "random-average-2",
    "mask-all",
    "blank",
    "reversed",
)
SHORT = {"ascent": {"steps": 1}}
FAMILIES = ("qwen2_5_vl", "internvl", "smolvlm", "llava_onevision")
"""The last has no code of its own, and is given to the folder with its processor, not wrapped."""


@pytest.fixture(autouse=True)
def modules(tmp_path, monkeypatch):
    """Transformers copies the folder's code into a cache that is this test's own."""
    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(scope="module")
def asked():
    bench = find_benchmark("toyworld")
    item = bench.items("test", 1)[0]
    return bench.clip(item.clip), item.question


def generated(model, inputs, folder=None, **how):
    """New tokens of a call of `generate`, by the folder where one is given."""
    if folder is not None:
        how |= {"custom_generate": str(folder), "trust_remote_code": True}
    ids = model.generate(**inputs, max_new_tokens=6, do_sample=False, **how)
    return ids[0, inputs["input_ids"].shape[1] :].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tokens_are_ours_and_plain_ones_those_of_generate(family, asked, toy_detector):
    clip, question = asked
    if family == "llava_onevision":
        model, given = parts(family)
        lm, inputs = macd.wrap(model, given), inputs_of(given, clip, question)
    else:
        lm = given = tiny(family)
        encoded = lm.encode(clip, question)
        pixels = encoded.layout(encoded.video)
        pixels = pixels[None] if family == "smolvlm" else pixels
        inputs = {"input_ids": encoded.input_ids, lm.pixels: pixels, **encoded.inputs}
    plain = generated(lm.model, inputs)
    inputs.pop("position_ids", None)
    ours = {"processor": given, "video": clip, "question": question, "detector": toy_detector,
            "options": SHORT}  # fmt: skip
    assert generated(lm.model, inputs, FOLDER, method="baseline", **ours) == plain
    trace = macd.compare(
        clip, question, [m for m in METHODS if m != "macd"], backbone=lm, detector=toy_detector,
        decode={"max_tokens": 6}, **SHORT,
    )  # fmt: skip
    expected = {m: [s.token for s in trace.answers[m].tokens] for m in METHODS}
    assert {m: generated(lm.model, inputs, FOLDER, method=m, **ours) for m in METHODS} == expected
    assert len({tuple(tokens) for tokens in (plain, *expected.values())}) >= 3


def inputs_of(processor, clip, question):
    """What the model's own processor makes of a clip and a question."""
    message = [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": question}]}]
    prompt = processor.apply_chat_template(message, add_generation_prompt=True)
    return processor(text=[prompt], videos=[clip.frames.copy()], return_tensors="pt")


def embedded(name):
    """The embedded model as transformers loads it, and its processor."""
    source = assets() / name / "backbone"
    model = AutoModelForMultimodalLM.from_pretrained(source, dtype=torch.float32)
    return model, AutoProcessor.from_pretrained(source)


def test_everyday_answers_about_a_real_clip_as_it_does_here():
    options = VideoOptions(frames=4, dense_fps=2.0)
    clip = read_clip(assets() / "everyday" / "examples" / "classroom.mp4", options)
    question = "How many chairs are in the video?"
    model, processor = embedded("everyday")
    inputs = inputs_of(processor, clip, question)
    contrast = {"alpha": 3.0, "beta": 0.01}
    options = SHORT | {"contrast": contrast, "video": {"fit": "native"}}  # as its processor does
    there = macd.compare(clip, question, ["blank"], backbone="everyday", **options)
    expected = {m: [s.token for s in a.tokens] for m, a in there.answers.items()}
    ours = {"processor": processor, "video": clip, "question": question, "options": options}
    assert {m: generated(model, inputs, FOLDER, method=m, **ours) for m in expected} == expected
    assert expected["baseline"] == generated(model, inputs) != expected["macd"]


def test_the_card_runs_as_it_stands_there(monkeypatch, capsys):
    monkeypatch.chdir(FOLDER.parents[1])
    code = re.search(r"```python\n(.*?)```", CARD, re.S)[1]
    exec(compile(code, "README.md", "exec"), {})
    said = dict(z.rsplit(maxsplit=1) for z in capsys.readouterr().out.splitlines())
    assert said.pop("plain generate") == said["baseline"] == "none"
    assert said.pop("macd") == "bike"
    assert set(said) == {"baseline", "random-place", "random-average-4", "mask-all", "blank",
                         "reversed"}  # fmt: skip
    assert re.search(r"^tags:\n(- \S+\n)*- custom_generate\n", CARD, re.M)


def test_a_repository_that_holds_the_folder_answers_by_it(asked, toy_detector, tmp_path):
    """Its model's own `generate` is then that function, which must not call itself."""
    clip, question = asked
    repository = tmp_path / "model"
    model, processor = embedded("toyworld")
    inputs = inputs_of(processor, clip, question)
    model.save_pretrained(repository)
    (repository / "custom_generate").symlink_to(FOLDER / "custom_generate")
    own = AutoModelForMultimodalLM.from_pretrained(repository, trust_remote_code=True)
    ours = {"processor": processor, "video": clip, "question": question, "detector": toy_detector}
    assert generated(own, inputs, method="blank", options=SHORT, **ours) == generated(
        model, inputs, FOLDER, method="blank", options=SHORT, **ours
    )


def test_what_is_missing_or_wrong_is_said_before_anything_is_read(asked):
    lm, other = tiny("internvl"), tiny("smolvlm")
    inputs = {"input_ids": torch.tensor([lm.tokens(asked[1])])}
    whole = {"processor": lm, "video": "none.mp4", "question": asked[1]}
    for name in whole:
        with pytest.raises(OptionError, match=f"not given {name}. Pass processor="):
            generated(lm.model, inputs, FOLDER, **{k: v for k, v in whole.items() if k != name})
    for given, message in (
        ({"processor": other}, "processor wraps another model"),
        ({"options": {"ascent": {"stepps": 1}}}, "stepps"),
        ({"top_k": 5, "temperature": 0.5, "num_return_sequences": 2, "num_beams": 2}, "num_return"),
        ({"no_repeat_ngram_size": 2}, "no_repeat_ngram_size"),
    ):
        with pytest.raises(OptionError, match=message):
            generated(lm.model, inputs, FOLDER, **(whole | given))


def test_without_the_package_it_names_what_to_install(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ImportError, match=r"(?s)macd_generate.*macd-studio \(installed: None\)"):
        generated(tiny("internvl").model, {"input_ids": torch.tensor([[1]])}, FOLDER)
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "macd_studio.core.generate", None)
    code = (FOLDER / "custom_generate" / "generate.py").read_text()
    with pytest.raises(ImportError, match=r"needs MACD Studio.*`pip install .` in its checkout"):
        exec(compile(code, "generate.py", "exec"), {})
