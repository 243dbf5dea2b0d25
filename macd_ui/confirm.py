"""The objects of a file on frames of the form's clip, before anything runs. Events, no layout."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import gradio as gr

from macd_studio.core.errors import MacdError, SeveralVideos
from macd_studio.core.objects.reading import read_tracks
from macd_studio.macd_ui import sentences
from macd_studio.macd_ui.clips import read_beside
from macd_studio.macd_ui.forms import run_options
from macd_studio.macd_ui.session_view import Updates

if TYPE_CHECKING:
    from macd_studio.macd_ui.runs import Runs


def show_tracks(runs: Runs, values: Mapping[str, Any], key: str) -> Updates:
    """What the form's file of objects says of the form's clip, as `sheet`; "" without a file."""
    if not values.get("tracks"):
        return {"sheet": ""}
    from macd_studio.core.figures.tracks import lines_of, sheet

    session, store = runs.store.sessions.open(key), runs.store
    try:
        options = run_options(values)
        video, tracks = runs.video_of(values), runs.tracks_of(values)
        assert tracks is not None
        store.uploads.hold(tracks, key)

        def stopped() -> bool:
            return False  # it is short and bounded, and Stop is for runs

        slot = store.readers.slot(session.visitor, stopped)
        clip = read_beside(video, options.video, stopped, slot, store.read_limits)
        with store.readers.slot(session.visitor, stopped):
            found = read_tracks(tracks, clip, options.track, stopped, runs.track_limits)
            drawn = sheet(found, clip, narrow=True)
    except SeveralVideos as error:
        chosen = gr.update(choices=list(error.names))
        return {"sheet": _said(sentences.of_error(error)), "tracks_source": chosen}
    except MacdError as error:
        return {"sheet": _said(sentences.of_error(error))}
    picture = base64.b64encode(drawn).decode()
    lines = lines_of(found, clip)
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return {
        "sheet": f'<figure><img src="data:image/png;base64,{picture}" alt="{escape(lines[1])}">'
        f"<figcaption><ul>{items}</ul>{escape(sentences.TRACKS_WRONG)}</figcaption></figure>"
    }


def _said(text: str | None) -> str:
    return f'<p role="alert">{escape(text or "")}</p>'
