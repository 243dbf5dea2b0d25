"""Whatever is told as a change by hand gives an Edit that can be made, or an OptionError."""

import json
from dataclasses import replace

from hypothesis import strategies as st

from macd_studio.core.errors import OptionError
from macd_studio.core.objects.edits import FORMS, edit_words, read_edit_flag
from macd_studio.core.records import EDIT_FIELDS
from macd_studio.core.whatif.edits import edited_tracks, read_edit, read_edits
from tests.fuzz.cases import HOSTILE, cases, change_at, is_clear_error, paths_in, plain
from tests.small_trace import EDITS, small_trace

TRACE = replace(small_trace(), edits=())
SOUND = [*EDITS, {"kind": "drop", "track": 2}, {"kind": "merge", "track": 1, "other": 2}]
ATOMS = st.sampled_from([*HOSTILE, 1, 2, 1, 2, "dog", [[0.1, 0.1]], [0, 0, 1, 1]])


def check(raw):
    try:
        edit = read_edit(raw, TRACE)
        tracks = edited_tracks(TRACE, edit)
    except OptionError as error:
        if not is_clear_error(error):
            raise
        return
    assert len({t.id for t in tracks}) == len(tracks)
    told = edit.as_dict()
    assert read_edit(json.loads(json.dumps(told, allow_nan=False)), TRACE).as_dict() == told
    flag, text = edit_words(edit)
    assert read_edit(read_edit_flag(flag, text), TRACE).as_dict() == told


NAMES = st.sampled_from(sorted({name for names in EDIT_FIELDS.values() for name in names}))
KIND = st.fixed_dictionaries({"kind": st.sampled_from(sorted(EDIT_FIELDS))})


@cases(plain | st.builds(dict.__or__, st.dictionaries(NAMES, ATOMS | plain), KIND))
def test_any_json(raw):
    check(raw)


@cases(st.sampled_from(SOUND), st.integers(0, 30), st.sampled_from(["set", "set", "drop", "twice"]),
       ATOMS | st.floats() | st.integers())  # fmt: skip
def test_a_change_of_other_values(sound, at, how, new):
    raw = json.loads(json.dumps(sound))
    places = list(paths_in(raw))
    change_at(raw, places[at % len(places)], how, new)
    check(raw)


@cases(st.lists(st.sampled_from(SOUND), max_size=4))
def test_changes_after_one_another(raws):
    try:
        edits = read_edits(raws, TRACE)
    except OptionError:
        return
    assert len(edits) == len(raws)


PIECES = st.sampled_from(
    ["1", "2", "=", "-", "0.5", "1e400", "nan", "inf", "{", "}", '"kind"', ":", '"drop"', ",",
     '"track"', "[", "9" * 30, " ", "\ud800", "\0", "_"]
)  # fmt: skip


@cases(st.sampled_from(sorted(FORMS)), st.lists(PIECES, max_size=8).map("".join) | st.text())
def test_the_text_of_a_flag(flag, text):
    try:
        raw = read_edit_flag(flag, text)
    except OptionError as error:
        if not is_clear_error(error):
            raise
        return
    check(raw)
