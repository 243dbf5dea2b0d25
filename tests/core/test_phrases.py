"""The noun phrases of a question, and the words that a detector is asked for."""

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.objects.find import prompted
from macd_studio.core.options import DetectOptions, RunOptions, VideoOptions
from macd_studio.core.run.pipeline import run
from macd_studio.core.text.phrases import noun_phrases, prompt_of, unfound, words_of
from macd_studio.viewer.payload import undetected
from tests.fakes import BoxDetector, ByteLM

QUESTIONS = {
    "Is there a dog or an umbrella in the video?": "dog, umbrella",
    "Is the man in the red jacket running beside a plume of smoke?":
        "man, red jacket, plume, smoke",
    "Is there smoke coming out of the car's engine?": "smoke, car, engine",
    "Is the smoke plume beside the tall building moving?": "smoke plume, tall building",
    "Which animal is in the video?": "animal",
    "How many people are there?": "people",
    "What color is the umbrella?": "umbrella",
    "What does the person do after opening the door?": "person, door",
    "Did the cat jump onto the table before the dog barked?": "cat, table, dog",
    "Is the car red?": "car",
    "Is the traffic light green or red?": "traffic light",
    "Does the red car stop at the traffic light?": "red car, traffic light",
    "Did the person park the car in the parking space?": "person, car, parking space",
    "Is a person wearing a black hat holding two cups?": "person, black hat, cups",
    "What is the woman’s dog chasing?": "woman, dog",
    "Is the building on fire?": "building, fire",
    "Does the man pick up the ball with his left hand?": "man, ball, hand",
    "Which is on the table: (A) apple (B) orange juice?": "table, apple, orange juice",
    "Who is sitting next to the dining table?": "dining table",
    "Is a swimming pool visible?": "swimming pool",
    "Where did the boy in the striped shirt put the remote control?":
        "boy, striped shirt, remote control",
    "Are the two dogs playing with each other in this video?": "dogs",
    "Is the person using the lemon to make the lemonade?": "person, lemon, lemonade",
    "Is the old man chopping wood?": "old man, wood",
    "Is the man simply doing pull-ups?": "man, pull-ups",
    "Does the bicycle pass the parked cars?": "bicycle, parked cars",
    "What happens when the ball hits the wall?": "ball, wall",
    "Is the walk short?": "walk short",
    "Did any accident or anything unexpected happen in the video?": "",
    "Does she carry it?": "",
    "What happens at the end?": "",
    "Yes?": "",
    "¿Hay un perro?": "hay un perro",
    "視頻裡有狗嗎？": "視頻裡有狗嗎",
}  # fmt: skip


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_things_that_a_question_names(question):
    assert ", ".join(noun_phrases(question)) == QUESTIONS[question]


def test_phrases_are_bounded():
    many = " or ".join(f"{a}x{b}x" for a in "bcdfg" for b in "bcdfg")
    assert len(noun_phrases(many)) == 12
    assert noun_phrases("big " * 300 + "dog") == ("big big big dog",)
    assert noun_phrases("dog dog, dog and a dog") == ("dog dog", "dog")


def test_words_as_a_detector_is_asked_for_them():
    assert prompt_of(["red jacket", "e.g. a dog.", " "]) == "red jacket. e g  a dog"
    assert words_of("red jacket. dog. . dog") == ("red jacket", "dog")
    assert unfound("Dog. owl", ["dog", "cat"]) == ("owl",)


class Words(BoxDetector):
    """Finds what it has of the words that it is asked for."""

    open_vocabulary = True
    asked = ""

    def detect(self, frames, options):
        self.asked = options.prompt
        return super().detect(frames, options)


def test_a_run_asks_for_the_things_of_the_question_and_tells_what_nobody_found(make_video):
    lm, detector = ByteLM(), Words([("red jacket", 0.9, (0.1, 0.1, 0.4, 0.4))])
    question = "Is the owl on the red jacket beside an elk?"
    options = RunOptions(video=VideoOptions(frames=4))
    *_, last = run(make_video(), question, lambda: lm, lambda: detector, options)
    assert detector.asked == "owl. red jacket. elk"
    assert [t.label for t in last.trace.tracks] == ["red jacket"]
    assert "looked for, and not found: owl, elk" in last.trace.warnings
    assert undetected(last.trace) == ("owl", "elk")


def test_regions_leave_nothing_undetected(make_video):
    """Else the page would say that no mask can be chosen, and offer regions again."""
    options = RunOptions(video=VideoOptions(frames=4))
    for name, missed in (("grid", ()), ("boxes", ("owl",))):
        detector = BoxDetector()
        detector.name = name
        *_, last = run(
            make_video(), "Is there an owl?", ByteLM, lambda made=detector: made, options
        )
        assert undetected(last.trace) == missed


@pytest.mark.parametrize(("question", "missed"), [
    ("Are there people in the video?", ()), ("Is there a man?", ()),
    ("Is there a phone?", ()), ("Are there any cars?", ("cars",)),
])  # fmt: skip
def test_another_word_for_what_was_found_is_not_undetected(question, missed, make_video):
    detector = BoxDetector(
        [("person", 0.9, (0.1, 0.1, 0.4, 0.4)), ("cell phone", 0.9, (0.5, 0.5, 0.9, 0.9))]
    )
    options = RunOptions(video=VideoOptions(frames=4))
    *_, last = run(make_video(), question, ByteLM, lambda: detector, options)
    assert {t.label for t in last.trace.tracks} == {"person", "cell phone"}
    assert undetected(last.trace) == missed


def test_words_that_are_given_take_the_place_of_the_questions():
    asked = prompted(Words(), DetectOptions(prompt="kite"), "Is there a dog?")
    assert asked.prompt == "kite"
    assert prompted(BoxDetector(), DetectOptions(), "Is there a dog?").prompt == ""
    with pytest.raises(OptionError, match="looks for its own classes, not for words"):
        prompted(BoxDetector(), DetectOptions(prompt="kite"), "Is there a dog?")


def test_classes_that_a_detector_does_not_know_are_refused(toy_detector):
    def asked(*classes, detector=toy_detector, names=()):
        return prompted(detector, DetectOptions(classes=classes, names=names), "?").classes

    assert asked("dog", "pizza") == ("dog", "pizza")
    with pytest.raises(OptionError, match=r"no class 'Dog'. Did you mean dog\? Choose one of"):
        asked("pizza", "Dog")
    many = BoxDetector()
    many.labels = tuple(f"kind {n}" for n in range(1203))
    with pytest.raises(OptionError, match="kind 99 and 1103 others"):
        asked("dog", detector=many)
    many.unnamed = True  # its file names no classes: they are given, or nobody knows them
    assert asked("dog", detector=many) == ("dog",)
    with pytest.raises(OptionError, match="Choose one of cat"):
        asked("dog", detector=many, names=("cat",))
    assert asked("dog", detector=Words()) == ("dog",)
