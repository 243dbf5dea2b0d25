"""Simulated clips, questions about them, the language, and the training pass."""

import json

import numpy as np
import pytest
import torch

from macd_studio.core.backbones.everyday import CLASSES, COLOURS, FLOOR, PEAKS
from macd_studio.everyday import habits, language
from macd_studio.everyday.fit import fit
from macd_studio.everyday.language import KINDS, build_tokenizer, listed, nouns
from macd_studio.everyday.looks import look
from macd_studio.everyday.model import EACH, Packer, answer_logits, build
from macd_studio.everyday.model import build as small_model
from macd_studio.everyday.questions import ask, relation_of
from macd_studio.everyday.scenes import NAMES, Scene, Thing, draw_scene
from macd_studio.everyday.train import KINDS as ASKED
from macd_studio.everyday.train import Schedule, draw_batch, losses, train

WHOLE = (0.0, 0.0, 1.0, 1.0)


def drawn(seed, frames=8):
    return draw_scene(np.random.default_rng(seed), frames)


def thing(label, box, frames=4, **more):
    boxes = np.repeat(np.array([box], float), frames, 0)
    return Thing(
        CLASSES.index(label), boxes, np.ones(frames, bool), np.full(frames, 1.5), "red", **more
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_seen_lies_in_the_picture_and_in_range(seed):
    scene = drawn(seed, (1, 4, 8)[seed % 3])
    seen = look(np.random.default_rng(seed), scene, 14)
    there = seen.logits.max(-1) > FLOOR
    assert seen.logits.shape == (scene.frames, PEAKS, len(CLASSES))
    assert (seen.boxes[there][:, 2:] > seen.boxes[there][:, :2]).all()
    assert np.abs(seen.colours[there].sum(-1) - 1).max(initial=0) < 1e-4
    assert seen.means.min() >= 0
    assert seen.means.max() <= 1
    for one in scene.things:
        assert (one.boxes >= -1e-9).all()
        assert (one.boxes <= 1 + 1e-9).all()


def test_a_hidden_thing_counts_as_absent():
    scene = Scene(4, WHOLE, [thing("dog", (0.1, 0.1, 0.4, 0.4), hidden=True)], True)
    assert scene.present() == {}
    assert scene.absent_hidden() == [CLASSES.index("dog")]
    rng = np.random.default_rng(0)
    assert {a.answer for a in ask(scene, rng, 200) if a.kind == "exists"} <= {"yes", "no"}
    told = [a for a in ask(scene, rng, 300) if a.kind == "exists" and " dog" in a.question]
    assert told
    assert np.mean([a.answer == "no" for a in told]) > 0.9


def test_answers_follow_from_the_scene():
    """Of a scene without any doubt, asked many times."""
    left, right = (0.05, 0.4, 0.25, 0.7), (0.7, 0.4, 0.95, 0.7)
    scene = Scene(4, WHOLE, [thing("dog", left), thing("car", right)], True)
    rng = np.random.default_rng(1)
    for asked in ask(scene, rng, 600):
        text = f" {asked.question.strip('?.')} "
        dog = any(f" {w} " in text for n in nouns("dog") for w in (n.singular, n.plural))
        if asked.kind == "where":
            assert asked.answer == ("left" if dog else "right"), asked
        if asked.kind == "colour":
            assert asked.answer == "red"
        if asked.kind == "count" and dog:
            assert asked.answer == "one"
        if asked.kind == "way":
            assert asked.answer == "it does not move"
        if asked.kind == "describe":
            assert asked.answer in ("a dog and a car", "a car and a dog")


@pytest.mark.parametrize("there", ["001111", "111100", "001100"])
def test_what_comes_and_what_goes_is_answered_by_the_first_and_the_last_frame(there):
    dog = thing("dog", (0.1, 0.1, 0.4, 0.4), frames=6)
    dog.there = np.array([int(z) for z in there], bool)
    scene, answers = Scene(6, WHOLE, [dog], True), {True: set(), False: set()}
    for asked in ask(scene, np.random.default_rng(0), 900):
        if asked.kind == "enters":
            goes = any(word in asked.question for word in ("leave", "exit", "out of", "disappear"))
            answers[goes].add(asked.answer)
    comes, goes = ("yes" if there[k] == "0" else "no" for k in (0, -1))
    assert answers == {False: {comes}, True: {goes}}


@pytest.mark.parametrize(
    ("relation", "one", "other", "answer"),
    [
        ("left", (0, 0.4, 0.2, 0.6), (0.7, 0.4, 0.9, 0.6), True),
        ("right", (0, 0.4, 0.2, 0.6), (0.7, 0.4, 0.9, 0.6), False),
        ("left", (0.4, 0, 0.6, 0.2), (0.41, 0.7, 0.6, 0.9), None),
        ("above", (0.4, 0, 0.6, 0.2), (0.4, 0.7, 0.6, 0.9), True),
        ("below", (0.4, 0, 0.6, 0.2), (0.4, 0.7, 0.6, 0.9), False),
        ("beside", (0.1, 0.4, 0.3, 0.7), (0.32, 0.4, 0.5, 0.7), True),
        ("beside", (0.1, 0.4, 0.3, 0.7), (0.7, 0.4, 0.9, 0.7), False),
        ("front", (0.2, 0.4, 0.5, 0.9), (0.1, 0.3, 0.7, 0.7), True),
        ("front", (0.1, 0.3, 0.7, 0.7), (0.2, 0.4, 0.5, 0.9), False),
        ("front", (0.0, 0.3, 0.2, 0.7), (0.6, 0.4, 0.9, 0.9), False),
    ],
)
def test_relations_are_those_of_boxes(relation, one, other, answer):
    scene = Scene(1, WHOLE, [], True)
    assert relation_of(scene, np.array([one]), np.array([other]), relation) is answer


def test_the_tokenizer_knows_every_word_that_is_asked():
    words, rng = build_tokenizer(), np.random.default_rng(0)
    unknown = words.convert_tokens_to_ids(language.UNKNOWN)
    for seed in range(40):
        for asked in ask(drawn(seed), rng, 12):
            for text in (asked.question, asked.answer):
                ids = words(text, add_special_tokens=False)["input_ids"]
                assert unknown not in ids, text
    for kind in KINDS:
        assert unknown not in words(language.ask_exists_kind(rng, kind))["input_ids"]


def test_names_of_several_words_are_one_token():
    words = build_tokenizer()
    for text in ("traffic light", "Traffic Lights", "hot dog", "cell phones"):
        assert len(words(text, add_special_tokens=False)["input_ids"]) == 1, text
    assert words.decode(words("a teddy bear")["input_ids"]) == "a teddy bear"


def test_lists_are_sentences():
    assert listed([]) == "nothing that i know"
    assert listed([("dog", 1)]) == "a dog"
    assert listed([("dog", 2), ("umbrella", 1), ("person", 9)]) == (
        "two dogs, an umbrella and several people"
    )


def test_habits_are_shares():
    alone, likely = habits.habits()
    assert alone.sum() == pytest.approx(1)
    assert likely.sum(1) == pytest.approx(1)
    assert not np.diag(likely).any()


def test_pope_s_rows_are_counted():
    def row(image, thing, label="yes"):
        text = f"Is there a {thing} in the image?"
        return json.dumps({"image": image, "text": text, "label": label})

    lines = [row("1", "dog"), row("1", "car"), row("2", "dog"), row("2", "cup", "no")]
    found = habits.count(lines)
    assert found["pictures"] == 2
    assert found["alone"] == {"car": 1, "dog": 2}
    assert found["with"] == {"car": {"dog": 1}, "dog": {"car": 1}}


def test_noise_is_the_mean_of_what_was_found():
    rng = np.random.default_rng(0)
    rows = rng.normal(-12, 1, (300, len(CLASSES)))
    labels = rng.integers(0, 4, 300)
    rows[np.arange(300), labels] = 2
    rows[labels == 2, 7] = -3.0  # a truck where a car is found
    areas = np.where(labels == 2, 0.1, 0.01)
    noise = fit(rows, areas)
    assert noise["confused"][2][7] == pytest.approx(-4.5, abs=0.5)
    assert noise["confused"][0][7] == pytest.approx(-12, abs=0.5)
    assert noise["size"][2] > noise["size"][0] + 0.7
    assert noise["finds"]["car"] == int((labels == 2).sum())


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    return build(width=64, layers=2, heads=2).eval()


def test_questions_behind_one_clip_are_read_as_if_each_were_alone(small):
    """The packed training pass against the decoder over one question, position by position."""
    packer, rng = Packer(), np.random.default_rng(2)
    scene = drawn(3, 4)
    seen, asked = look(rng, scene, 14), ask(scene, rng, 3)
    with torch.no_grad():
        batch = packer.pack([seen], [asked], ASKED, rng)
        packed = answer_logits(small, packer, batch)[0]
        for number, one in enumerate(asked):
            alone = packer.pack([seen], [[one]], ASKED, rng)
            expected = answer_logits(small, packer, alone)[0]
            own = packed[batch.segment[0] == number]
            assert float((own - expected).abs().max()) < 1e-4


def test_tokens_of_empty_cells_can_be_left_out():
    packer, rng = Packer(), np.random.default_rng(4)
    scenes = [drawn(s, 4) for s in range(3)]
    seen = [look(rng, s, 14) for s in scenes]
    asked = [ask(s, rng, 2) for s in scenes]
    few = packer.pack(seen, asked, ASKED, rng, 5)
    assert few.kept.shape[1] < 4 * EACH
    assert bool((few.kept[:, 1:] > few.kept[:, :-1]).all())
    for b, one in enumerate(seen):
        there = one.logits.max(-1) > -20
        middle = (one.boxes[..., :2] + one.boxes[..., 2:]) / 2
        cells = (middle * 7).astype(int).clip(0, 6)
        frames = np.arange(4)[:, None] * EACH
        full = set((frames + cells[..., 1] * 7 + cells[..., 0])[there].tolist())
        assert full <= set(few.kept[b].tolist())


@pytest.mark.long
def test_a_training_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "macd_studio.everyday.train.build", lambda: small_model(width=64, layers=2, heads=2)
    )
    monkeypatch.setattr("macd_studio.everyday.train.SAVE_EVERY", 0.0)
    schedule = Schedule(steps=3, clips=4, questions=2)
    train(schedule, tmp_path / "whole")
    real, seen = torch.save, []

    def stopped(saved, file):
        real(saved, file)
        seen.append(saved["step"])
        if saved["step"] == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", stopped)
    with pytest.raises(KeyboardInterrupt):
        train(schedule, tmp_path / "two")
    monkeypatch.setattr(torch, "save", real)
    (tmp_path / "two" / "checkpoint.part").replace(tmp_path / "two" / "checkpoint.pt")
    train(schedule, tmp_path / "two")
    ends = [torch.load(tmp_path / n / "checkpoint.pt", weights_only=True)["model"]
            for n in ("whole", "two")]  # fmt: skip
    assert seen == [1, 2]
    assert all(torch.equal(ends[0][k], ends[1][k]) for k in ends[0])


def test_it_begins_by_finding_what_a_word_means():
    """Before any training, a noun looks at the cells of its thing more than at others."""
    torch.manual_seed(1)
    model, packer, rng = build(), Packer(), np.random.default_rng(5)
    model.config._attn_implementation = "eager"
    decoder = model.model.language_model
    decoder.config._attn_implementation = "eager"
    scene = Scene(4, WHOLE, [thing("dog", (0.4, 0.4, 0.6, 0.6))], True)
    seen = look(rng, scene, 14)
    shares = []
    for noun in ("dog", "giraffe"):
        ids = packer.encode(f"is there a {noun}?")
        from macd_studio.everyday.model import video_tokens

        batch = packer.pack([seen], [[]], ASKED, rng)
        with torch.no_grad():
            video = video_tokens(model, batch)
            words = decoder.embed_tokens(torch.tensor([packer.before + ids]))
            x = torch.cat([words[:, :2], video, words[:, 2:]], 1)
            first = decoder(inputs_embeds=x, output_attentions=True).attentions[0][0]
        at = 2 + video.shape[1] + 3
        shares.append(float(first[:3, at, 2 : 2 + video.shape[1]].sum(-1).mean()))
    assert shares[0] > 2 * shares[1]


def test_losses_are_means_over_answers_and_questions():
    packer, rng = Packer(), np.random.default_rng(6)
    batch = draw_batch(rng, packer, 2, 4, 3, 5)
    logits = torch.zeros(*batch.ids.shape, 512)
    answer, question = losses(logits, batch)
    assert float(answer) == pytest.approx(np.log(512), rel=1e-5)
    assert float(question) == pytest.approx(np.log(512), rel=1e-5)
    assert not bool((batch.answer & batch.question).any())
    assert set(NAMES) == set(COLOURS)
