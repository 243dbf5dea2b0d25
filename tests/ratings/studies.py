"""Small studies, made in milliseconds, for the tests of the rating study."""

import random
import sqlite3
import uuid
from contextlib import closing, contextmanager
from types import SimpleNamespace
from unittest import mock

import numpy as np

from macd_studio.core.options import AscentOptions, MaskOptions
from macd_studio.core.types import SEEN, AscentStep, Counterfactual, Track
from macd_studio.ratings import create
from macd_studio.ratings.answers import read_screens
from macd_studio.ratings.create import Created, StudyPlan, create_study, preregistration_path
from macd_studio.ratings.events import Event
from macd_studio.ratings.gold import KnownItem, KnownSide
from macd_studio.ratings.simulate import truth_of
from macd_studio.ratings.source import Source

FRAMES, HEIGHT, WIDTH = 4, 48, 64


def track(number, box, label="dog"):
    boxes = np.tile(np.array(box, np.float32), (FRAMES, 1))
    return Track(number, label, 0.9, boxes, np.full(FRAMES, SEEN, np.int8), FRAMES)


def source(number=0, level=(1.0, 0.0), question="Is there a dog?", problem="", **more):
    """A clip with a dog on the left, which MACD hides, and a cup on the right."""
    rng = np.random.default_rng(number)
    tracks = (track(1, (0.1, 0.2, 0.35, 0.6)), track(2, (0.6, 0.4, 0.8, 0.7), "cup"))
    gradient = np.array([0.5, -0.5])
    values = np.array(level, np.float64)
    none = np.zeros(0)
    parts = {
        "name": f"clip-{number}.mp4",
        "sha256": f"{number:064x}",
        "question": question,
        "frames": rng.integers(0, 255, (FRAMES, HEIGHT, WIDTH, 3), np.uint8),
        "times": np.arange(FRAMES) / 2.0,
        "kept": tuple(range(FRAMES)),
        "tracks": tracks,
        "groups": tuple((i,) for i in range(FRAMES)),
        "trace_frames": FRAMES,
        "mask": MaskOptions(frame_mask="off"),
        "ascent": AscentOptions(),
        "steps": (AscentStep(0, 1.0, np.full(2, 0.75), gradient, none, none),),
        "counterfactual": Counterfactual(values, values - 0.75, values, none, none, none),
        "fill": (0.5, 0.5, 0.5),
        "problem": problem,
    }
    return Source(**(parts | more))


def known(number, training=False):
    sides = (KnownSide((1,), 4, 5, "hides the dog"), KnownSide((2,), 1, 2, "hides the cup"))
    return KnownItem(source(1000 + number), training, sides)


def make_study(folder, clips=6, name="study.db", **plan):
    """The file of a new study. plan: of StudyPlan."""
    defaults = {"seed": 1, "instructions": "# Rate\n\nHow good?", "repeat": 0.0,
                "arms": ("macd", "random-elsewhere")}  # fmt: skip
    path = folder / name
    made = create_study(path, [source(i) for i in range(clips)], StudyPlan(**(defaults | plan)))
    make_study.last = made
    return path


@contextmanager
def without_chance(seed=0):
    """Studies made meanwhile have the same keys in every run, and so the same designs."""
    drawn = random.Random(seed)
    alike = SimpleNamespace(token_hex=lambda count: drawn.randbytes(count).hex())
    with mock.patch.object(create, "secrets", alike):
        yield


def copy_study(folder, clips=6, **plan):
    """The same as `make_study`, as a copy where one of this kind was made before."""
    path, beside = folder / "study.db", preregistration_path(folder / "study.db")
    key = clips, repr(plan)
    if key in MADE:
        study, text, make_study.last = MADE[key]
        path.write_bytes(study)
        beside.write_text(text)
    else:
        make_study(folder, clips, **plan)
        MADE[key] = path.read_bytes(), beside.read_text(), make_study.last
    return path


MADE: dict[tuple[int, str], tuple[bytes, str, Created]] = {}


@contextmanager
def thawed(path):
    """The database of a study without its triggers, which come back at the end."""
    with closing(sqlite3.connect(path)) as db:
        triggers = db.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            db.execute(f"DROP TRIGGER {name}")
        yield db
        for _, sql in triggers:
            db.execute(sql)
        db.commit()


def arms_of(study, task):
    """The arms of a screen, left to right."""
    return [truth.arm for truth in truth_of(study, task)]


def screens_of(study, rater):
    return [s for s in read_screens(study) if s.rater == rater.id]


def rater_in(study):
    (code,) = study.invite(1)
    return code, study.rater_of(code)


def event(kind, task=None, count=0, **more):
    return Event(str(uuid.uuid4()), kind, "tab", count, 0.0, task, **more)


def rate(study, rater, task, ratings, seconds=10.0, old=None):
    """Rates the sides of a screen and goes on."""
    events = [
        event("rate", task, side=side, old=old, new=rating) for side, rating in enumerate(ratings)
    ]
    events.append(event("next", task, elapsed_ms=1000 * seconds))
    return study.append(rater, events)


def give_more(study, likes, screens=None):
    """A new rater who gives MACD's mask so much more than the other, a screen each."""
    _, rater = rater_in(study)
    tasks = [t["id"] for t in study.tasks(rater)]
    for task, more in zip(tasks[:screens], likes, strict=False):
        at = arms_of(study, task).index("macd")
        if study.scale == "pairs":
            new = 0 if more == 0 else 1 + (at if more > 0 else 1 - at)
            study.append(rater, [event("prefer", task, new=new), event("next", task)])
        else:
            ratings = [3, 3]
            ratings[at], ratings[1 - at] = (3 + more, 3) if more > 0 else (3, 3 - more)
            rate(study, rater, task, ratings)


def raw(kind, task=None, count=0, **more):
    """An event as a browser sends it."""
    values = {"uuid": str(uuid.uuid4()), "kind": kind, "tab": "tab", "count": count, "time": 1.0}
    return values | ({"task": task} if task else {}) | more
