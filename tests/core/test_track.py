import numpy as np

from macd_studio.core.objects.track import track
from macd_studio.core.types import SEEN
from tests.core.test_track_parts import seen

DENSE = np.linspace(0, 4, 41)
TIMES = np.linspace(0.25, 3.75, 8)


def moving(label, score, x, y, size=0.2, speed=0.1, at=DENSE):
    return [(label, score, x + speed * t, y, x + speed * t + size, y + size) for t in at]


def test_two_objects_that_pass_each_other_keep_their_identity():
    a = moving("dog", 0.9, 0.0, 0.1, speed=0.18)
    b = moving("cat", 0.8, 0.75, 0.6, speed=-0.18)
    tracks, notes = track([seen(p, q) for p, q in zip(a, b, strict=True)], DENSE, TIMES)
    assert [t.label for t in tracks] == ["dog", "cat"]
    assert [t.id for t in tracks] == [1, 2]
    assert not notes
    for t, rows in zip(tracks, (a, b), strict=True):
        assert (t.state == SEEN).all()
        truth = np.array([np.interp(TIMES, DENSE, [r[2 + c] for r in rows]) for c in range(4)]).T
        np.testing.assert_allclose(t.boxes, truth, atol=0.01)


def test_small_and_faint_objects_are_kept_but_a_flicker_is_not():
    big = moving("car", 0.9, 0.1, 0.1, size=0.4, speed=0)
    small = moving("ball", 0.55, 0.9, 0.9, size=0.02, speed=0)
    frames = [seen(p, q) for p, q in zip(big, small, strict=True)]
    frames[20] = seen(big[20], small[20], ("hat", 0.95, 0.6, 0.1, 0.7, 0.2))
    tracks, _ = track(frames, DENSE, TIMES)
    assert {t.label for t in tracks} == {"car", "ball"}


def test_a_track_lives_on_low_confidence_but_is_not_born_of_it():
    rows = [
        (r[0], 0.9 if i < 10 else 0.3, *r[2:]) for i, r in enumerate(moving("dog", 0, 0.1, 0.1))
    ]
    (t,), _ = track([seen(r) for r in rows], DENSE, TIMES)
    assert (t.state == SEEN).all()
    tracks, _ = track([seen((r[0], 0.3, *r[2:])) for r in rows], DENSE, TIMES)
    assert not tracks
