"""Models without code of their own: what they must do, what they are refused for, a whole run."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers
from huggingface_hub import constants

import macd_studio as macd
from macd_studio.core.backbones import load, load_backbone
from macd_studio.core.backbones import processor as processor_module
from macd_studio.core.backbones.contract import MEANING, adapt_model, check_model
from macd_studio.core.backbones.local import Watch
from macd_studio.core.backbones.universal import UniversalVLM
from macd_studio.core.cli.main import main
from macd_studio.core.errors import BackboneCorrupt, MacdError, NotApplicable, UnsupportedBackbone
from tests import hub
from tests.fakes import clip
from tests.families import NAMES as NATIVE
from tests.families import tiny
from tests.universal_models import FAMILIES, PICTURES, cells, parts, universal

DOCS = Path(__file__).parents[2] / "docs" / "backbones.md"
QUESTION = "Is there a dog in the video?"
# one of each structure; the others are run by `make test-all`
SAMPLED = {"llava_onevision", "qwen3_5", "molmo2", "llava"}
LAYERS = Watch(attention=(0, 1))
SHORT = {"ascent": {"steps": 1}, "decode": {"max_tokens": 3}}
pytestmark = [pytest.mark.matrix, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_frames_that_do_not_fill_the_last_temporal_patch_stand_in_it_all_the_same():
    def groups(frames, patches):
        grid = {"video_grid_thw": torch.tensor([[patches, 4, 4]])}
        return UniversalVLM._groups(None, grid, frames)

    assert groups(3, 2) == ((0, 1), (2,))
    assert groups(7, 4) == ((0, 1), (2, 3), (4, 5), (6,))
    assert groups(4, 2) == ((0, 1), (2, 3))


LATER = {"cosmos3_edge", "minimax_m3_vl"}
needs_later = pytest.mark.skipif(
    transformers.__version__ < "5.23",
    reason=f"transformers {transformers.__version__} computes them wrongly, and they are refused",
)
"""What releases before 5.23 hold, and what no video passes through there as it should."""


def each(names, sampled=SAMPLED):
    return [pytest.param(n, marks=marks_of(n, n in sampled)) for n in names]


def marks_of(name, is_sample):
    long = [] if is_sample else [pytest.mark.long]
    return [*long, needs_later] if name in LATER else long


@pytest.mark.parametrize("name", each([*FAMILIES, *PICTURES]))
def test_a_family_keeps_the_contract_as_the_docs_say(name):
    (told,) = [
        line for line in DOCS.read_text().splitlines() if f"`{name}`" in line and "|" in line
    ]
    assert told.startswith(f"| {' | '.join(cells(name))} |")


@pytest.mark.parametrize("name", each([*FAMILIES, *PICTURES], {"qwen3_5", "internvl"}))
def test_a_state_can_be_cropped_joined_and_selected(name):
    """A recurrent state and a sliding window too, which cannot be cropped, only read again."""
    lm = universal(name)
    encoded = lm.encode(clip(4, 64), QUESTION)
    start = lm.prefill(encoded, encoded.video)
    state, tokens = lm.select(start, [0]), []
    for _ in range(4):
        tokens.append(int(state.logits[0].argmax()))
        state = lm.step(state, tokens[-1:])
    again = lm.crop(state, start.prompt + 2)
    for token in tokens[2:]:
        again = lm.step(again, [token])
    assert torch.allclose(again.logits, state.logits, atol=1e-4)
    other = lm.step(lm.crop(start, start.prompt), [(tokens[0] + 1) % 300])
    one = lm.step(lm.crop(start, start.prompt), tokens[:1])
    both = lm.select(lm.join([other, one]), [1, 0, 1])
    assert torch.allclose(both.logits[0], one.logits[0], atol=1e-5)
    assert torch.equal(both.logits[0], both.logits[2])
    both = lm.step(both, tokens[1:2] * 3)
    alone = lm.step(one, tokens[1:2])
    assert torch.allclose(both.logits[[0, 2]], alone.logits.expand(2, -1), atol=1e-4)
    assert "batch" in lm.capabilities
    assert len(both.cache) == 1
    some = lm.step(lm.select(both, [2, 1]), tokens[2:3] * 2)  # rows of a block, and cropped ones
    back = lm.step(lm.crop(some, start.prompt + 2), tokens[2:3] * 2)
    alone = lm.step(alone, tokens[2:3])
    assert torch.allclose(some.logits[:1], alone.logits, atol=1e-4)
    assert torch.allclose(some.logits, back.logits, atol=1e-4)
    with pytest.raises(ValueError, match="one length"):
        lm.join([both, start])


def native_frames(name, lm):
    """Frames that the processor reads as they are, without another resizing."""
    if name == "smolvlm":
        lm.processor.video_processor.size = lm.processor.video_processor.max_image_size
    return tiny(name).preprocess(clip(4, 96))


@pytest.mark.parametrize("name", each(NATIVE, {"qwen2_5_vl", "internvl"}))
def test_it_equals_the_family_s_own_code(name):
    own, lm = tiny(name), universal(name)
    frames = native_frames(name, lm)
    a, b = (z.encode_frames(frames, QUESTION, suffix=" yes") for z in (own, lm))
    assert torch.equal(a.input_ids, b.input_ids)
    assert torch.equal(a.query, b.query)
    assert a.groups == b.groups
    assert torch.equal(a.video, b.video)
    one, two = own.prefill(a, a.video), lm.prefill(b, b.video)
    assert torch.allclose(one.query_logits, two.query_logits, atol=1e-4)
    for _ in range(4):
        assert torch.allclose(one.logits, two.logits, atol=1e-4)
        token = int(one.logits[0].argmax())
        assert token == int(two.logits[0].argmax())
        with own.watching(one, LAYERS) as rows, lm.watching(two, LAYERS) as eager:
            one, two = own.step(one, [token]), lm.step(two, [token])
        for layer in LAYERS.attention:  # computed anew there, given by transformers here
            assert torch.allclose(rows.attention[layer], eager.attention[layer], atol=1e-5)

    def gradient(model, encoded):
        video = encoded.video.clone().requires_grad_()
        logits = model.query_logits(encoded, video).log_softmax(-1)
        ids = encoded.input_ids[0][encoded.query]
        (slope,) = torch.autograd.grad(-logits[range(len(ids)), ids].mean(), video)
        return slope

    exact, found = gradient(own, a), gradient(lm, b)
    assert (exact - found).abs().max() <= 1e-3 * exact.abs().max()


TILED_BY_SIZE = {"lfm2_vl"}
"""Their attention has places in the clip of the check, and none in another of other tiles."""


@pytest.mark.parametrize("name", each([*FAMILIES, *PICTURES], {"llava_onevision"}))
def test_a_whole_run_from_a_folder(name, tmp_path, toy_mp4, toy_detector):
    """Trace, compare, change, evidence, save and reopen, with the weights of a folder."""
    model, processor = parts(name)
    model.save_pretrained(tmp_path / "model")
    processor.save_pretrained(tmp_path / "model")
    lm = load_backbone(str(tmp_path / "model"), "cpu")
    assert isinstance(lm, UniversalVLM)
    assert {c.name for c in lm.contract.failed()} <= {"frames", "picture", "attention"}
    trace = macd.compare(
        toy_mp4, QUESTION, ["vcd", "sid", "random-place"], backbone=lm, detector=toy_detector,
        video={"frames": 4}, **SHORT,
    )  # fmt: skip
    assert set(trace.answers) == {"baseline", "macd", "vcd", "random-place"}
    assert "vision tokens cannot be left out" in trace.skipped["sid"]
    seen = macd.evidence(trace, token=1, backbone=lm)
    kinds = {m.kind for m in seen.evidence[0].maps}
    able = {"attention"} & lm.capabilities
    if name in TILED_BY_SIZE:
        with pytest.raises(NotApplicable, match="stand in frames of 384×384"):
            macd.evidence(trace, token=1, backbone=lm, kinds="attention")
        able = set()
    assert kinds == {"gradient"} | able | ({"occlusion"} if trace.tracks else set())
    if "attention" in kinds:
        assert 0 < seen.evidence[0].map("attention").values.sum() < 1
        assert seen.evidence[0].layers == lm.attention_layers
    with pytest.raises(NotApplicable, match="knocked out"):
        macd.evidence(trace, token=1, backbone=lm, kinds="gradient", boxes="0,0,1,1")
    again = macd.load(macd.save(seen, tmp_path / "run.macd"))
    assert again.answers["macd"].text == trace.answers["macd"].text
    assert "srcdoc" in again._repr_html_()


# what is refused, and what is used with less


@pytest.fixture
def lm():
    """One universal adapter, whose methods a test may replace."""
    return universal("llava_onevision")


def pixels(change):
    return lambda found: found | {"pixel_values_videos": change(found["pixel_values_videos"])}


def mixed(found):
    return replace(found, logits=found.logits.mean(0, keepdim=True).expand_as(found.logits))


BROKEN = {
    "pixels are clamped": ("affine", "pixel_inputs", pixels(lambda z: z.clamp(-0.5, 0.5))),
    "pixels are ignored": ("affine", "pixel_inputs", pixels(torch.ones_like)),
    "pixels are scaled": ("pixels", "pixel_inputs", pixels(lambda z: 0.9 * z)),
    "pixels are moved": ("pixels", "pixel_inputs", pixels(lambda z: z + 0.1)),
    "pixels are turned": ("pixels", "pixel_inputs", pixels(lambda z: z.flip(-1))),
    "other answers than generate's": (
        "generate", "step", lambda found: replace(found, logits=found.logits.roll(1, -1))),
    "views disturb each other": ("rows", "prefill", mixed),
    "the question is cut": (
        "question", "encode_frames", lambda found: replace(found, query=found.query[1:])),
}  # fmt: skip
"""What is wrong → the check that must fail, a method, and what becomes of its result."""


@pytest.mark.parametrize("case", BROKEN)
def test_a_model_that_breaks_the_contract_is_refused(lm, monkeypatch, case):
    check, method, change = BROKEN[case]
    inner = getattr(lm, method)
    monkeypatch.setattr(lm, method, lambda *given, **how: change(inner(*given, **how)))
    with pytest.raises(UnsupportedBackbone) as error:
        check_model(lm)
    assert f"fails the check {check!r}" in error.value.cause
    assert MEANING[check] in error.value.cause


def test_without_a_sound_gradient_it_is_used_without_ascent(lm, monkeypatch, toy_mp4, toy_detector):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z.clone()

        @staticmethod
        def backward(ctx, slope):
            return -slope

    inner = UniversalVLM.pixel_inputs

    def pixel_inputs(self, encoded, video):
        return inner(self, encoded, Wrong.apply(video) if video.requires_grad else video)

    monkeypatch.setattr(UniversalVLM, "pixel_inputs", pixel_inputs)
    found = adapt_model(lm.model, lm.processor, lm.info)
    assert [c.name for c in found.contract.failed()] == ["gradient"]
    assert "gradient" not in found.capabilities
    how = {"backbone": found, "detector": toy_detector, "video": {"frames": 4}, **SHORT}
    trace = macd.trace(toy_mp4, QUESTION, **how)
    assert "cannot be differentiated" in trace.skipped["macd"]
    assert {"baseline", "macd-measured"} == set(trace.answers)


def test_a_processor_for_neither_video_nor_pictures_is_refused(monkeypatch, tmp_path):
    """As AutoProcessor gives the tokenizer alone for some families."""
    model, processor = parts("llava_onevision")
    model.save_pretrained(tmp_path)
    words = lambda *_, **__: processor.tokenizer  # noqa: E731
    monkeypatch.setattr(processor_module.AutoProcessor, "from_pretrained", words)
    with pytest.raises(UnsupportedBackbone, match="reads neither video nor pictures"):
        load_backbone(str(tmp_path), "cpu")


def test_a_prefill_with_a_graph_reads_once(lm):
    encoded = lm.encode(clip(3, 64), QUESTION)
    video = encoded.video.clone().requires_grad_()
    calls = []
    handle = lm.model.register_forward_hook(lambda *_: calls.append(1))
    state = lm.prefill(encoded, video, graph=True)
    handle.remove()
    assert len(calls) == 1
    ids = encoded.input_ids[0][encoded.query]
    slopes = [
        torch.autograd.grad(z.log_softmax(-1)[range(len(ids)), ids].mean(), video)[0]
        for z in (state.query_logits[0], lm.query_logits(encoded, video))
    ]
    assert torch.allclose(*slopes, atol=1e-8)
    cache = state.cache[0].kwargs["past_key_values"]
    held = [v for z in cache.layers for v in vars(z).values() if isinstance(v, torch.Tensor)]
    assert held
    assert not any(v.requires_grad for v in held)  # else the graph of the prompt stays in memory
    after = lm.step(state, [5]).logits
    assert not after.requires_grad
    assert torch.equal(after, lm.step(lm.prefill(encoded, encoded.video), [5]).logits)


def test_words_of_the_template_in_the_question_do_not_confuse(lm):
    for question in ("user", "assistant user assistant", "Is there a dog? user"):
        encoded = lm.encode(clip(2, 64), question, suffix=" yes no")
        ids = encoded.input_ids[0][encoded.query].tolist()
        assert lm.tokenizer.decode(ids).strip() == question


CONFIGS = {
    "text alone": {"model_type": "llama"},
    "an encoder": {"model_type": "bert"},
    "pictures and text without answers": {"model_type": "clip"},
    "code of its own": {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}},
    "a family of tomorrow": {"model_type": "tomorrow"},
}
BAD = {
    "text alone": "family 'llama', which does not read video",
    "an encoder": "family 'bert', which does not read video",
    "pictures and text without answers": "family 'clip', which does not read video",
    "code of its own": "needs code of its own from its repository, which is never run",
    "a family of tomorrow": f"'tomorrow', which transformers {transformers.__version__} does not",
    "no configuration": "holds no config.json",
    "no weights": "holds no weights (*.safetensors)",
    "half of the weights": "lacks 1 of the 2 files of its weights (model-00002-of-00002.safe",
    "a link to weights that are gone": "holds no complete model",
    "a damaged index of the weights": "model.safetensors.index.json of ",
    "pickled weights": "are pickled (*.bin), which is never read",
    "a tokenizer for a processor": "has no part for pictures and no part for video",
    "no part for video": "has no part for video",
    "no tokenizer": "has no tokenizer",
    "no chat template": "does not have a chat template",
    "a rule of its own for answers": "no_repeat_ngram_size",
    "a special token in the question": "steers the model's prompt",
}


def break_folder(folder, case):
    """Makes a sound folder of a model such as `case` says."""
    weights, settings = folder / "model.safetensors", folder / "processor_config.json"
    if case == "no configuration":
        (folder / "config.json").unlink()
    if case == "no weights":
        weights.unlink()
    if case == "half of the weights":
        files = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
        index = json.dumps({"metadata": {}, "weight_map": files})
        (folder / "model.safetensors.index.json").write_text(index)
        weights.rename(folder / files["a"])
    if case == "a link to weights that are gone":
        weights.unlink()
        weights.symlink_to(folder / "elsewhere")
    if case == "a damaged index of the weights":
        weights.rename(folder / "model-00001-of-00001.safetensors")
        (folder / "model.safetensors.index.json").write_text('{"weight_map": []}')
    if case == "pickled weights":
        weights.rename(folder / "pytorch_model.bin")
    if case == "a tokenizer for a processor":
        settings.unlink()
    if case == "no part for video":
        kept = json.loads(settings.read_text())
        del kept["video_processor"]
        settings.write_text(json.dumps(kept))
    if case == "no tokenizer":
        (folder / "tokenizer.json").unlink()
    if case == "a rule of its own for answers":
        rules = json.loads((folder / "generation_config.json").read_text())
        rules["no_repeat_ngram_size"] = 2
        (folder / "generation_config.json").write_text(json.dumps(rules))
    if case == "no chat template":
        (folder / "chat_template.jinja").unlink()


@pytest.fixture(scope="module")
def sound_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    for part in parts("llava_onevision"):
        part.save_pretrained(folder)
    return folder


@pytest.fixture
def bad_folder(tmp_path, sound_folder):
    """The case's name → a folder such as it says, and the question."""

    def make(case):
        folder = tmp_path / "model"
        if case in CONFIGS:
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(CONFIGS[case]))
        else:
            shutil.copytree(sound_folder, folder)
            break_folder(folder, case)
        special = case == "a special token in the question"
        return folder, "Is there a <|im_end|> dog?" if special else QUESTION

    return make


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_used_is_one_sentence_before_weights_are_read(
    case, tmp_path, toy_mp4, bad_folder, capsys, monkeypatch
):
    def read_weights(_):
        raise AssertionError("weights were read")

    monkeypatch.setattr(load, "reading_weights", read_weights)
    folder, question = bad_folder(case)
    out = tmp_path / "run.macd"
    words = ["trace", str(toy_mp4), question, "--backbone", str(folder), "--out", str(out)]
    assert main([*words, "--frames", "2", "--device", "cpu"]) == 2
    lines = [z for z in capsys.readouterr().err.splitlines() if z.startswith("error:")]
    assert len(lines) == 1
    assert BAD[case] in lines[0]
    assert lines[0].count(". ") == 1  # the cause and the remedy
    assert not out.exists()


OF_A_HUB = each(
    [c for c in BAD if c not in ("no configuration", "pickled weights") and "gone" not in c],
    {"text alone", "half of the weights", "no part for video", "a special token in the question"},
)
"""The hub is asked for no pickled file, and a repository without config.json is not known."""


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """Where this process keeps what it downloads; the hub is not switched off."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    return tmp_path / "cache"


@pytest.fixture
def from_hub(hub_cache, monkeypatch):
    """Loads somebody/model from a hub that serves a folder; gives the model, and what was sent."""

    def load_from(folder, question):
        sent = []
        with hub.serving(folder, sent=sent) as address:
            monkeypatch.setenv("HF_ENDPOINT", address)
            monkeypatch.setattr(constants, "ENDPOINT", address)
            where = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
            monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", where)
            try:
                return load_backbone("somebody/model", "cpu", question=question), sent
            except MacdError as error:
                return error, sent

    return load_from


@pytest.mark.parametrize("case", OF_A_HUB)
def test_nothing_of_the_weights_is_downloaded_of_what_cannot_be_used(case, bad_folder, from_hub):
    folder, question = bad_folder(case)
    error, sent = from_hub(folder, question)
    assert isinstance(error, MacdError)
    assert BAD[case] in str(error)
    assert error.remedy
    names = [name for name, _, _ in sent]
    assert "config.json" in names
    assert not [name for name in names if name.endswith(".safetensors")]


def test_the_weights_are_downloaded_last_and_kept(sound_folder, from_hub, monkeypatch):
    lm, sent = from_hub(sound_folder, QUESTION)
    assert lm.info.revision == hub.REVISION
    names = [name for name, first, _ in sent if first == 0]
    assert names.count("model.safetensors") == 1
    assert names[-1] == "model.safetensors"
    assert {"processor_config.json", "tokenizer.json", "chat_template.jinja"} < set(names)
    lm, sent = from_hub(sound_folder, QUESTION)
    assert lm.info.revision == hub.REVISION
    assert "model.safetensors" not in [name for name, _, _ in sent]
    monkeypatch.setattr(load, "reachable", lambda: False)
    error, sent = from_hub(sound_folder, "Is there a <|im_end|> dog?")
    assert BAD["a special token in the question"] in str(error)
    assert not sent


def test_half_of_a_copy_is_told_where_the_hub_cannot_be_reached(bad_folder, hub_cache, monkeypatch):
    """As clients of the hub leave it that keep no list of what belongs to it."""
    folder, _ = bad_folder("half of the weights")
    place = hub_cache / "models--somebody--model"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(hub.REVISION)
    shutil.copytree(folder, place / "snapshots" / hub.REVISION)
    monkeypatch.setattr(load, "reachable", lambda: False)
    with pytest.raises(BackboneCorrupt, match="the copy of 'somebody/model' on this disk") as error:
        load_backbone("somebody/model", "cpu")
    assert BAD["half of the weights"] in str(error.value)
    assert "while the hub can be reached" in error.value.remedy


@pytest.mark.parametrize("fault", ["mixed", "refused", "off"])
def test_views_are_decoded_one_by_one_where_a_batch_changes_them(fault, monkeypatch):
    """Each still gives what it gives alone, and the model says so."""
    lm = universal("llava")
    encoded = lm.encode(clip(1, 64), QUESTION)
    views = torch.stack([encoded.video, encoded.video.flip(-1), 0.5 * encoded.video])
    alone = [lm.step(lm.prefill(encoded, view), [5]).logits[0] for view in views]
    forward = lm.model.forward

    def faulty(**given):
        if len(given["input_ids"]) > 1 and fault == "refused":
            raise RuntimeError("a batch of one was expected")
        out = forward(**given)
        if len(given["input_ids"]) > 1:
            out.logits = out.logits.mean(0, True) if fault == "mixed" else out.logits * 1.01
        return out

    monkeypatch.setattr(lm.model, "forward", faulty)
    both = lm.step(lm.prefill(encoded, views), [5, 5, 5])
    assert torch.equal(both.logits, torch.stack(alone))
    again = lm.step(both, [7, 8, 9])
    assert len(again.cache) == 3
    assert "batch" not in lm.capabilities
    assert ("RuntimeError" if fault == "refused" else "change each other") in lm.reasons["batch"]
