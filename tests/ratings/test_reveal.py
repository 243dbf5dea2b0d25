"""A preregistration can be published first: it tells raters nothing, and nobody can change it."""

import hashlib
import json
import stat
import zipfile
from pathlib import Path

import pytest

from macd_studio.core.errors import OptionError
from macd_studio.core.options import MaskOptions
from macd_studio.ratings.check import reveal, revealed, verify
from macd_studio.ratings.cli import main
from macd_studio.ratings.create import StudyPlan, create_study, preregistration_path
from macd_studio.ratings.errors import Refused, StudyError
from macd_studio.ratings.preregistration import canonical, sha256
from macd_studio.ratings.roster import CLOSED, OPEN
from macd_studio.ratings.store import Study
from tests.ratings.packed import decode_clip
from tests.ratings.studies import copy_study, known, make_study, rate, rater_in, source

VERSION_1 = Path(__file__).parent / "data" / "version1.zip"
FEW = 5
"""Fewer pixels apart than this is how well hidden pixels can be counted in a picture."""


PLAN = {"clips": 4, "seed": 7, "gold": (known(1), known(2, training=True))}


def former_study(folder):
    """A study that version 1 wrote."""
    with zipfile.ZipFile(VERSION_1) as archive:
        archive.extractall(folder)
    return Study(folder / "frozen.db")


def received(study):
    """(media, arm) of every mask that one rater's browser gets; the tester alone knows the arm."""
    _, rater = rater_in(study)
    arms = {r["id"]: r["arm"] for r in study.rows("SELECT id, arm FROM sides")}
    for task in study.tasks(rater):
        row = study.row("SELECT left_side, right_side FROM tasks WHERE id = ?", task["id"])
        for which, side in enumerate(row):
            yield study.media(rater, task["id"], str(which)), arms[side]


def values(content):
    """Every key and value of a JSON document, as (path, value)."""
    if isinstance(content, dict | list):
        pairs = content.items() if isinstance(content, dict) else enumerate(content)
        for key, value in pairs:
            yield from (((key, *path), v) for path, v in values(value))
    else:
        yield (), content


def hashed(content, words):
    """Digests that anybody can compute of a picture, with public words for a salt."""
    inner = hashlib.sha256(content).hexdigest()
    for word in words:
        yield hashlib.sha256(word.encode() + content).hexdigest()
        yield hashlib.sha256(f"{word}\n{inner}".encode()).hexdigest()


def identified(study, text):
    """How many masks a rater names the arm of, by all pictures and the preregistration.

    By digests of a mask's transfer or of its frames, and by numbers near its count of hidden
    pixels, which stand below one arm and no other.
    """
    there = list(values(json.loads(text)))
    digests = {v: path for path, v in there if isinstance(v, str) and len(v) == 64}
    numbers = [(path, v) for path, v in there if isinstance(v, int | float) and v > 10]
    words = ["", sha256(text), *{str(v) for _, v in there if len(str(v)) < 200}]
    found = 0
    for media, arm in received(study):
        contents = (media, b"".join(decode_clip(media)), *decode_clip(media))
        paths = [digests.get(d, ()) for c in contents for d in hashed(c, words)]
        row = study.row("SELECT hidden FROM sides WHERE media = ?", media)
        near = [path for path, v in numbers if abs(v - row["hidden"]) < FEW]
        found += any(arm in p for p in paths) or (bool(near) and all(arm in p for p in near))
    return found


def test_a_rater_with_all_pictures_learns_nothing_from_it(study):
    text = preregistration_path(study.path).read_text()
    assert len(list(received(study))) == 12
    assert identified(study, text) == 0
    plan = json.loads(text)
    for item in plan["items"]:  # in no order of the study's, and without part, arm or level
        assert set(item) == {"clip", "clip_sha256", "question", "frames", "sealed_sha256"}
    assert [i["clip_sha256"] for i in plan["items"]] == sorted(
        i["clip_sha256"] for i in study.items)  # fmt: skip
    secrets = [study.salt, study.key, study._login_key]
    secrets += [side["media_sha256"] for item in study.items for side in item["arms"].values()]
    assert not any(secret in text for secret in secrets)
    assert "seed" not in plan


def test_the_attack_finds_every_arm_where_digests_have_no_salt(tmp_path):
    with former_study(tmp_path) as old:
        text = (tmp_path / "frozen.preregistration.json").read_text()
        assert identified(old, text) == len(list(received(old))) == 10


def test_the_seed_repeats_neither_padding_nor_salt(tmp_path):
    """With a seed of 32 bits a rater could try them all."""
    made = [Study(make_study(tmp_path, 2, name=f"{i}.db", seed=3)) for i in (1, 2)]
    query = "SELECT media FROM sides ORDER BY clip, arm"
    one, two = ([r["media"] for r in study.rows(query)] for study in made)
    assert [decode_clip(m) for m in one] == [decode_clip(m) for m in two]  # the seed's masks
    padded = [(a, b) for a, b in zip(one, two, strict=True) if a != b]
    assert len(padded) >= len(one) - 1  # all but the largest
    assert made[0].salt != made[1].salt
    for study in made:
        study.close()


def test_the_noise_of_a_mask_follows_from_no_seed(tmp_path):
    clips = [source(0, mask=MaskOptions(frame_mask="off", fill="noise"))]
    for name in ("a.db", "b.db"):
        create_study(tmp_path / name, clips, StudyPlan(seed=3))
    shown = []
    for name in ("a.db", "b.db"):
        with Study(tmp_path / name) as study:
            shown.append(decode_clip(study.row("SELECT media FROM sides WHERE arm = 'macd'")[0]))
    assert shown[0] != shown[1]


def test_the_reveal_opens_every_seal_and_no_more_is_rated(study, tmp_path, capsys):
    _, rater = rater_in(study)
    task = study.tasks(rater)[0]["id"]
    rate(study, rater, task, [2, 4])
    beside, out = preregistration_path(study.path), tmp_path / "reveal.json"
    words = ["reveal", str(study.path), "--out", str(out)]
    assert main(words) == 2  # open
    assert "Close it" in capsys.readouterr().err
    assert not out.exists()
    study.control(CLOSED)
    assert main(words) == 0
    with pytest.raises(Refused, match="revealed"):
        study.control(OPEN)
    assert study.state == CLOSED
    capsys.readouterr()
    assert main(["verify", str(beside), str(out), "--study", str(study.path)]) == 0
    assert "6 items as preregistered, and the study holds their pictures" in capsys.readouterr().out
    content = json.loads(out.read_text())
    assert content["sealed"]["seed"] == 7
    assert study._login_key not in out.read_text()  # codes of raters who signed in


CHANGES = {
    "an arm's pictures": lambda r: r["sealed"]["items"][0]["arms"]["macd"].update(
        media_sha256="0" * 64),
    "arms exchanged": lambda r: r["sealed"]["items"][0].update(
        arms=dict(zip(("macd", "random-elsewhere"),
                      reversed(r["sealed"]["items"][0]["arms"].values()), strict=True))),
    "a part": lambda r: r["sealed"]["items"][0].update(part="gold"),
    "a known rating": lambda r: r["sealed"]["items"][-1]["arms"]["known-1"].update(low=1),
    "the seed": lambda r: r["sealed"].update(seed=8),
    "what was left out": lambda r: r["sealed"]["left_out"].append({"clip": "x", "reason": "y"}),
    "an item more": lambda r: r["sealed"]["items"].append(r["sealed"]["items"][0]),
    "an item less": lambda r: r["sealed"]["items"].pop(),
    "the salt": lambda r: r.update(salt="0" * 64),
    "the key": lambda r: r.update(assignment_key="0" * 64),
    "another study": lambda r: r.update(preregistration_sha256="0" * 64),
    "no salt": lambda r: r.pop("salt"),
    "no list": lambda r: r["sealed"].update(items=3),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_reveal_does_not_fit(study, tmp_path, what, capsys):
    content = json.loads(canonical(revealed(study)))
    assert len(verify(study.preregistration_text, content)) == 6
    CHANGES[what](content)
    with pytest.raises(StudyError):
        verify(study.preregistration_text, content)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content))
    assert main(["verify", str(preregistration_path(study.path)), str(path)]) == 1
    assert capsys.readouterr().err.startswith("does not fit: ")


def test_pictures_of_another_study_do_not_fit(study, tmp_path, capsys):
    other = make_study(tmp_path, 4, name="other.db", gold=(known(1), known(2, training=True)))
    path = tmp_path / "reveal.json"
    path.write_text(canonical(revealed(study)))
    words = ["verify", str(preregistration_path(study.path)), str(path), "--study", str(other)]
    assert main(words) == 1
    assert "were changed" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_reveal_is_refused(study, tmp_path, content, capsys):
    path = tmp_path / "reveal.json"
    path.write_bytes(content)
    assert main(["verify", str(preregistration_path(study.path)), str(path)]) == 2
    assert main(["verify", str(tmp_path / "missing"), str(path)]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_reveal_that_is_not_there_is_named_so(tmp_path, capsys):
    (tmp_path / "p.json").write_text("{}")
    assert main(["verify", str(tmp_path / "p.json"), str(tmp_path / "none.json")]) == 2
    assert "no reveal" not in (said := capsys.readouterr().err)
    assert "none.json" in said


def test_a_study_without_a_salt_has_nothing_to_reveal(tmp_path):
    with former_study(tmp_path) as old:
        old.control(CLOSED)
        with pytest.raises(OptionError, match="without a salt"):
            reveal(old, tmp_path / "out.json")


def test_only_the_owner_reads_files_that_hold_secrets(tmp_path, capsys):
    path = copy_study(tmp_path, 2)
    mode = {"created": path}
    with Study(path, network=False) as study:
        rater_in(study)
        mode |= {"log": Path(f"{path}-wal"), "index": Path(f"{path}-shm")}
        assert {k: stat.S_IMODE(p.stat().st_mode) for k, p in mode.items()} == dict.fromkeys(
            mode, 0o600)  # fmt: skip
        study.control(CLOSED)
    out = {kind: tmp_path / f"events.{kind}" for kind in ("csv", "jsonl")}
    for kind, target in out.items():
        target.write_text("of a former export")  # readable by all
        assert main(["export", str(path), "--format", kind, "--out", str(target)]) == 0
    out["copy"], out["reveal"] = tmp_path / "copy.db", tmp_path / "reveal.json"
    assert main(["copy", str(path), str(out["copy"])]) == 0
    assert main(["reveal", str(path), "--out", str(out["reveal"])]) == 0
    assert {k: stat.S_IMODE(p.stat().st_mode) for k, p in out.items()} == dict.fromkeys(out, 0o600)
    for former, now in ((0o644, 0o600), (0o660, 0o660)):  # a group was let in on purpose
        path.chmod(former)
        with Study(path, network=False):
            parts = [Path(f"{path}{part}") for part in ("", "-wal", "-shm")]
            assert [stat.S_IMODE(p.stat().st_mode) for p in parts] == [now] * 3
    assert preregistration_path(path).stat().st_mode & 0o044 == 0o044  # that one is for everybody
