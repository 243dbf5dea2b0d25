"""Files as other annotation programs write them: what was drawn, or a refusal."""

import json
import random
import zipfile
from contextlib import suppress
from dataclasses import replace
from functools import partial

from hypothesis import strategies as st

from macd_studio.core.errors import TracksError
from macd_studio.core.objects.formats import read_track_file
from macd_studio.core.objects.placing import place_tracks
from tests.fuzz import cases as fuzz
from tests.fuzz import drawn_tracks as drawn
from tests.fuzz.other_programs import NAMELESS, WITHOUT_NUMBERS, WRITERS

cases = partial(fuzz.cases, share=0.2)


@cases(st.integers(0, 2**31), st.sampled_from(list(WRITERS)))
def test_what_another_program_wrote_is_read_or_refused(seed, kind):
    rng = random.Random(seed)
    truth = drawn.draw(seed, rng.randint(6, 14), distinct=kind in WITHOUT_NUMBERS)
    path, options = WRITERS[kind](truth, rng, drawn.fresh())
    every = rng.choice([1, 2, 3])
    clip = drawn.facts(truth, every=every)
    assert drawn.outcome(path, truth, clip, may_relabel=kind in NAMELESS, **options) == "right"
    # the same pictures, stored half as wide: a file that states its size is in stored pixels
    narrow = replace(clip, size=(2 * truth.size[0], truth.size[1]), stored_size=truth.size,
                     full_size=(2 * truth.size[0], truth.size[1]))  # fmt: skip
    found = drawn.outcome(path, truth, narrow, may_relabel=kind in NAMELESS, **options)
    if kind in ("VIA", "BDD100K", "OpenLABEL", "table", *NAMELESS):
        assert "pixels" in found
    else:
        assert found == "right"


ODD = (None, [], {}, "", "x", -1, 1e308, True, [[]], {"a": 1}, [None], 2**70, "\0", float("nan"))


def damaged(content, rng):
    """Some values of JSON replaced by odd ones or left out; of another file some bytes."""
    try:
        data = json.loads(content)
    except ValueError:
        changed = bytearray(content)
        for _ in range(3):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        return bytes(changed)
    places = []

    def walk(value):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(data)
    for inside, key in rng.sample(places, min(3, len(places))):
        if isinstance(inside, dict) and rng.random() < 0.2:
            inside.pop(key, None)
        else:
            inside[key] = rng.choice(ODD)
    return json.dumps(data).encode()


@cases(st.integers(0, 2**31), st.sampled_from(list(WRITERS)))
def test_what_is_damaged_is_told_and_breaks_nothing(seed, kind):
    rng, truth = random.Random(seed), drawn.draw(seed, 6)
    path, _ = WRITERS[kind](truth, rng, drawn.fresh())
    content = path.read_bytes()
    if content.startswith(b"PK"):
        with zipfile.ZipFile(path) as opened:
            members = {name: opened.read(name) for name in opened.namelist()}
        name = rng.choice(list(members))
        drawn.zipped(path.parent, members | {name: damaged(members[name], rng)})
    else:
        path.write_bytes(damaged(content, rng))
    clip = drawn.facts(truth)
    with suppress(TracksError):
        place_tracks(read_track_file(path, clip), clip)


@cases(st.integers(0, 2**31), st.sampled_from(["COCO", "labelme"]))
def test_pictures_at_a_lower_rate_are_asked_about_and_read_with_it(seed, kind):
    """Each third frame, numbered one after the other."""
    rng = random.Random(seed)
    whole = drawn.draw(seed, 30)
    truth = replace(whole, boxes=whole.boxes[:, ::3])
    names = [f"frame_{n:04d}.jpg" for n in range(1, truth.count + 1)]
    path = drawn.fresh()
    if kind == "COCO":
        path = drawn.write(path, "a.json", drawn.as_json(drawn.coco(truth, names)))
        assert "State their rate" in drawn.outcome(path, whole, drawn.facts(whole, every=3))
        options = {"file_first": "1"}
    else:
        path, options = WRITERS["labelme"](truth, rng, path)
    clip = drawn.facts(whole, every=3, fps=24.0)
    assert drawn.outcome(path, whole, clip, file_fps=8.0, **options) == "right"
