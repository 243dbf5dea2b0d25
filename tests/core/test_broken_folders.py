"""Folders of models that break other people's code: one sentence, no traceback."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from macd_studio.core.backbones import load
from macd_studio.core.cli.main import main
from tests.universal_models import parts

QUESTION = "Is there a dog in the video?"
pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore")]


def changed(file, **values):
    """A change to keys of a JSON file, by path with dots; None takes a key away."""

    def change(folder):
        content = json.loads((folder / file).read_text())
        for path, value in values.items():
            *way, last = path.split("__")
            inner = content
            for key in way:
                inner = inner[key]
            if value is None:
                inner.pop(last, None)
            else:
                inner[last] = value
        (folder / file).write_text(json.dumps(content))

    return change


def written(file, content):
    """A file with other content."""

    def change(folder):
        if isinstance(content, bytes):
            (folder / file).write_bytes(content)
        else:
            (folder / file).write_text(content)

    return change


def template(text):
    """Another chat template."""
    return written("chat_template.jinja", text)


def weights(change):
    """Other weights, under their names."""

    def run(folder):
        file = folder / "model.safetensors"
        held = load_file(file)
        save_file(change(held), file, metadata={"format": "pt"})

    return run


def config(**values):
    """Other keys of config.json."""
    return changed("config.json", **values)


def processor(**values):
    """Other keys of processor_config.json."""
    return changed("processor_config.json", **values)


HEAD = "{% for m in messages %}<|im_start|>{{ m.role }}\n"
VIDEO = "{% for c in m.content %}{% if c.type == 'video' %}<video>\n{% endif %}{% endfor %}"
TEXT = "{% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}{% endif %}{% endfor %}"
TAIL = "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
ORDER = {
    "text first": (template(HEAD + TEXT + VIDEO + TAIL), "puts the question before the video"),
    "no video": (template(HEAD + TEXT + TAIL), "leaves the video out"),
    "no question": (template(HEAD + VIDEO + TAIL), "leaves the question out"),
    "question twice": (template(HEAD + VIDEO + TEXT + TEXT + TAIL), "repeats the question"),
    "capitals": (
        template(HEAD + VIDEO + TEXT.replace("c.text", "c.text | upper") + TAIL),
        "leaves the question out",
    ),
    "a syntax error": (template("{% for m in"), "TemplateSyntaxError"),
    "an unknown filter": (template(HEAD + TEXT.replace("c.text", "c.text | nope") + TAIL), "nope"),
    "an exception": (template("{{ raise_exception('not today') }}"), "not today"),
    "a key that is missing": (template("{{ messages[0]['nobody'].anybody }}"), "Undefined"),
    "endless": (
        template("{% for i in range(400) %}{% for j in range(400) %}x{% endfor %}{% endfor %}"),
        "more than 100,000",
    ),
}
"""Chat templates, which are looked over before any weight is read."""
BROKEN = {
    "config: no JSON": (written("config.json", "{"), "config"),
    "config: a list": (written("config.json", "[1]"), ""),
    "config: no family": (config(model_type=None), "unrecognized model"),
    "config: sizes are words": (config(text_config__hidden_size="many"), "hidden_size"),
    "config: no heads": (config(text_config__num_attention_heads=0), "ZeroDivisionError"),
    "config: heads do not divide": (config(text_config__num_key_value_heads=3), ""),
    "config: an unknown tower": (config(vision_config__model_type="nobody"), "nobody"),
    "config: an unknown activation": (config(text_config__hidden_act="nope"), "nope"),
    "config: an unknown strategy": (config(vision_feature_select_strategy="nope"), "nope"),
    "config: an unknown rope": (config(text_config__rope_parameters={"rope_type": "nope"}), "nope"),
    "config: a layer too many": (config(vision_feature_layer=77), "IndexError"),
    "config: no token for pixels": (config(video_token_index=3, image_token_index=3), "pixels"),
    "generation: no JSON": (written("generation_config.json", "{"), "generation_config.json"),
    "tokenizer: no JSON": (written("tokenizer.json", "{"), ""),
    "tokenizer: empty": (written("tokenizer.json", "{}"), ""),
    "tokenizer: a list": (written("tokenizer.json", "[]"), ""),
    "processor: a list": (written("processor_config.json", "[]"), ""),
    "processor: no JSON": (written("processor_config.json", "{"), ""),
    "processor: an unknown class": (processor(processor_class="Nobody"), ""),
    "processor: an unknown part": (processor(video_processor__video_processor_type="Nobody"), ""),
    "processor: no size": (processor(video_processor__size={"depth": 3}), ""),
    "processor: a word as factor": (processor(video_processor__rescale_factor="half"), ""),
    "processor: two colours": (processor(video_processor__image_mean=[0.5, 0.5]), ""),
    "processor: a filter of nobody": (processor(video_processor__resample=77), ""),
    "processor: another count of tokens": (processor(num_image_tokens=99), ""),
    "weights: noise": (written("model.safetensors", bytes(range(256)) * 8), "damaged"),
    "weights: empty": (written("model.safetensors", b""), ""),
    "weights: cut off": (
        lambda folder: (folder / "model.safetensors").write_bytes(
            (folder / "model.safetensors").read_bytes()[:-1000]
        ),
        "",
    ),
    "weights: NaN": (
        weights(lambda z: {k: torch.full_like(v, torch.nan) for k, v in z.items()}),
        "",
    ),
    "weights: of another width": (
        weights(lambda z: {k: v[..., :8].contiguous() for k, v in z.items()}),
        "",
    ),
}
FAST = {"config: no heads", "tokenizer: empty", "processor: a list", "processor: two colours"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    for part in parts("llava_onevision"):
        part.save_pretrained(folder)
    return folder


def told(folder, clip, capsys, *more):
    """The one line of an error that a run with this folder ends with; and all that it wrote."""
    words = ["trace", str(clip), QUESTION, "--backbone", str(folder), "--frames", "2", *more]
    assert main([*words, "--device", "cpu", "--max-tokens", "2", "--steps", "1"]) == 2
    written = capsys.readouterr().err
    lines = [z for z in written.splitlines() if z.startswith("error:")]
    assert len(lines) == 1
    return lines[0], written


@pytest.mark.parametrize(
    "case", [c if c in FAST else pytest.param(c, marks=pytest.mark.long) for c in BROKEN]
)
def test_a_broken_folder_is_one_sentence(case, sound, tmp_path, toy_mp4, capsys):
    change, named = BROKEN[case]
    shutil.copytree(sound, tmp_path / "model")
    change(tmp_path / "model")
    line, written = told(tmp_path / "model", toy_mp4, capsys)
    assert named.lower() in line.lower()
    assert "Traceback" not in written
    assert line.endswith(".")


@pytest.mark.parametrize("case", ORDER)
def test_a_chat_template_is_looked_over_before_weights(
    case, sound, tmp_path, toy_mp4, capsys, monkeypatch
):
    def read_weights(_):
        raise AssertionError("weights were read")

    monkeypatch.setattr(load, "reading_weights", read_weights)
    change, named = ORDER[case]
    shutil.copytree(sound, tmp_path / "model")
    change(tmp_path / "model")
    line, written = told(tmp_path / "model", toy_mp4, capsys)
    assert named in line
    assert "Traceback" not in written


def test_a_text_first_template_of_a_family_with_own_code_is_refused_before_weights(
    tmp_path, toy_mp4, capsys, monkeypatch
):
    from tests.families import tiny

    lm = tiny("internvl")
    lm.model.save_pretrained(tmp_path)
    lm.processor.save_pretrained(tmp_path)
    monkeypatch.setattr(load, "reading_weights", lambda _: 1 / 0)
    template(HEAD + TEXT + VIDEO + TAIL)(tmp_path)
    line, _ = told(tmp_path, toy_mp4, capsys)
    assert "puts the question before the video" in line


def test_the_class_and_the_place_are_named_and_the_traceback_is_behind_verbose(
    sound, tmp_path, toy_mp4, capsys
):
    shutil.copytree(sound, tmp_path / "model")
    BROKEN["config: a layer too many"][0](tmp_path / "model")
    line, written = told(tmp_path / "model", toy_mp4, capsys, "--verbose")
    assert "IndexError" in line
    assert "transformers/models/" in line
    assert ".py:" in line
    assert "Traceback" in written
