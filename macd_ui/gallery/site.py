"""The files of a gallery, by their path in it; each is made when it is asked for.

index.html            filters, and one entry a run
t/HASH.html           a run in the full viewer; HASH: of the trace file
t/HASH.webp           a picture of it for the index
t/HASH.json           what the embedded model needs of it, in a gallery with `engine/`
engine/               that model, see `macd_ui.engine`
viewer.js, viewer.css what all runs share
gallery.js, gallery.css   what the index needs
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from macd_studio.core.errors import MacdError, OptionError, TraceError
from macd_studio.core.figures.style import COLOURS
from macd_studio.core.methods import in_8_bits
from macd_studio.core.pages.frame import page, template
from macd_studio.core.system.recent import Recent
from macd_studio.core.system.shipped import look
from macd_studio.core.text.words import count, visible
from macd_studio.core.traces.write import drop_candidates
from macd_studio.core.types import LOST, Trace
from macd_studio.macd_ui.clips import file_stamp
from macd_studio.macd_ui.engine import Engine, run_file
from macd_studio.macd_ui.gallery.runs import SPOILED, Run, read_run
from macd_studio.macd_ui.sites import (
    INDEX,
    File,
    check_folder,
    link_home,
    text_file,
    titled,
    write_files,
)
from macd_studio.viewer import payload, status
from macd_studio.viewer.bundle import bundle
from macd_studio.viewer.export import (
    COMPUTING,
    LINKED,
    SCRIPT_NAME,
    STYLE_NAME,
    linked,
    page_style,
    shared_script,
)
from macd_studio.viewer.payload import title_of
from macd_studio.viewer.shrink import as_text, shrink, webp, without_pictures

HERE = Path(__file__).parent
SCRIPT = HERE.parent / "js" / "gallery.js"
STYLE = HERE / "gallery.css"
MAX_KB = 150
"""Of a run's page, when its other parts allow: the pictures are compressed to fit."""
AROUND = 14_000
"""Bytes of a run's page around its data, and of its picture in the index."""
THUMBNAIL = 256
MAX_TEXT = 0.65
"""Share of a run's data that answers, tracks and the like may take; the rest is for pictures."""
FEWER = (128, 64, 32, 24, 16, 12, 8)
"""Candidates per view and token, tried in this order where answers are long."""
MAX_TRACES = 2000
MAX_MADE = 256
"""Files of runs that a server holds in memory: about 40 MB at most."""


def find_traces(places: Sequence[Path]) -> list[Path]:
    """The trace files among files and folders, in their order, each once.

    Raises OptionError for a place that is not there, and above MAX_TRACES.
    """
    found: dict[Path, None] = {}
    for place in places:
        if place.is_dir():
            found |= dict.fromkeys(sorted(p for p in place.glob("*.macd") if p.is_file()))
        elif place.is_file():
            found[place] = None
        else:
            raise OptionError(
                f"there is no {visible(str(place))[:200]}", "Name .macd files or folders of them"
            )
    if len(found) > MAX_TRACES:
        raise OptionError(
            f"{len(found)} traces are more than {MAX_TRACES}", "Make several galleries"
        )
    return list(found)


class Site:
    """The gallery of some trace files; see the module. Safe to share between threads.

    places: files and folders of them; folders are read again by `refresh`. most_kb: of a run's
    page. home: an address that the index links to, "" for none. engine: computes changes of runs in
    the browser. course: an address of the course, that the index links to.
    """

    def __init__(
        self,
        places: Sequence[Path],
        most_kb: int = MAX_KB,
        home: str = "",
        engine: Engine | None = None,
        course: str = "",
    ) -> None:
        self.course = course
        self.places, self.most_kb, self.home = tuple(places), most_kb, home
        self.engine = engine
        self.problems: dict[Path, str] = {}
        self._runs: OrderedDict[Path, tuple[tuple[int, int], Run]] = OrderedDict()
        self._failed: dict[Path, tuple[tuple[int, int], str]] = {}
        self._made: Recent[str, File] = Recent(MAX_MADE)
        self._lock, self._making = threading.Lock(), threading.Lock()

    @property
    def runs(self) -> list[Run]:
        """As far as they were read; a run that stands in two files is listed once."""
        with self._lock:
            return list({run.sha256: run for _, run in self._runs.values()}.values())

    def refresh(self) -> list[Run]:
        """Reads the traces that are new or were changed; those that cannot be read are `problems`.

        Raises OptionError, see `find_traces`.
        """
        files = find_traces(self.places)
        with self._lock:
            runs, failed = self._runs, self._failed
            self._runs, self._failed, self.problems = OrderedDict(), {}, {}
            for file in files:
                stamp = file_stamp(str(file))
                if stamp is None:
                    self.problems[file] = "it is gone"
                    continue
                if file in runs and runs[file][0] == stamp:
                    self._runs[file] = runs[file]
                elif file in failed and failed[file][0] == stamp:  # it would fail again
                    self._failed[file] = failed[file]
                else:
                    try:
                        self._runs[file] = stamp, read_run(file)[0]
                    except (MacdError, OSError) as error:
                        self._failed[file] = stamp, visible(str(error))
                if file in self._failed:
                    self.problems[file] = self._failed[file][1]
        return self.runs

    def find(self, name: str) -> Run | None:
        """The run whose hash begins with these characters, of which an address needs all."""
        return next((run for run in self.runs if run.name == name), None)

    def paths(self) -> list[str]:
        """Every file of the site."""
        shared = [SCRIPT_NAME, STYLE_NAME, SCRIPT.name, STYLE.name]
        engine = self.engine.paths() if self.engine else []
        runs = [f"t/{run.name}{end}" for run in self.runs for end in self._ends()]
        return [INDEX, *shared, *engine, *runs]

    def _ends(self) -> list[str]:
        """Of the files of a run."""
        return [".html", ".webp", *([".json"] if self.engine else [])]

    def file(self, path: str) -> File | None:
        """A file by its path in the site, None where there is none. Raises TraceError."""
        if path == INDEX:
            return text_file(index_page(self.runs, self.home, self.course), "html")
        own = {
            SCRIPT.name: lambda: text_file(f"{bundle(SCRIPT)}.start();", "javascript"),
            STYLE.name: lambda: text_file(look() + STYLE.read_text(encoding="utf-8"), "css"),
        }
        if path in own:
            return own[path]()
        if (shared := shared_file(path)) is not None:
            return shared
        if self.engine and (part := self.engine.file(path)) is not None:
            return part
        folder, _, name = path.partition("/")
        stem, dot, kind = name.rpartition(".")
        run = self.find(stem) if folder == "t" and dot and f".{kind}" in self._ends() else None
        if run is not None and not self._is_unchanged(run):  # else it would be read at each request
            self.refresh()
            run = self.find(stem)
        return None if run is None else self._of_run(run, path, kind)

    def _is_unchanged(self, run: Run) -> bool:
        """Whether the file of a run is as it was when it was read."""
        with self._lock:
            known = self._runs.get(run.file)
        return known is not None and known[0] == file_stamp(str(run.file))

    def _of_run(self, run: Run, path: str, kind: str) -> File:
        with self._making:  # one at a time, whoever asks: compressing pictures is slow
            made = self._made.get(path)
            if made is None:
                made = self._make(run, kind)
                self._made.put(path, made)
            return made

    def _make(self, run: Run, kind: str) -> File:
        again, trace = read_run(run.file)
        if again.sha256 != run.sha256:
            raise TraceError("the file of this run was changed", "Open the gallery again")
        if kind == "json":
            return run_file(trace)
        if kind == "webp":
            return thumbnail(trace)
        return run_page(run, trace, self.most_kb, engine=self.engine)


def shared_file(path: str) -> File | None:
    """A file that all pages of traces share, None for another path."""
    if path == SCRIPT_NAME:
        return text_file(shared_script(), "javascript")
    return text_file(page_style(), "css") if path == STYLE_NAME else None


_ABOVE = template("""\
<header class="mv-above"><nav><a href="{{ back[0] }}">{{ back[1] }}</a></nav>
<h1>{{ title }}</h1>
<p>{% for line in lines %}{{ line }}{% if not loop.last %}<br>{% endif %}{% endfor %}</p></header>
""")


def run_page(
    run: Run,
    trace: Trace,
    most_kb: int = MAX_KB,
    back: tuple[str, str] = ("../index.html", "All runs"),
    engine: Engine | None = None,
) -> File:
    """A run in the full viewer; the link of an example is left out, as there is no server.

    back: address and text of the link above it.
    """
    room = 1000 * most_kb - AROUND
    data, fewer = _with_room_for_pictures(trace, room)
    data, coarser = shrink(data, room)
    lines = [part for part in (run.outcome, run.truth) if part]
    if coarser:
        lines.append(
            f"Pictures are compressed for this page ({coarser}); the trace has them whole."
        )
    if fewer:
        lines.append(
            f"Of each token this page holds the {fewer} best candidates under each view and every"
            " one that wins at some α and β; the trace holds more."
        )
    lines.append(f"Trace {run.sha256}")
    before = _ABOVE(back=back, title=run.title or "MACD trace", lines=lines)
    title = f"{run.title or run.question} · MACD"
    if engine:
        data["engine"] = engine.about(trace, f"{run.name}.json", "../")
    policy = COMPUTING if engine else LINKED
    made = text_file(linked(data, title, "../", before, policy), "html")
    size = len(made.content) / 1000
    note = ""
    if size > most_kb:
        without = len(as_text(without_pictures(data))) / 1000
        note = (
            f"its page takes {size:.0f} kB, {without:.0f} kB of them answers, tracks and the like"
        )
    return File(made.content, made.media_type, note)


def _with_room_for_pictures(trace: Trace, room: int) -> tuple[dict[str, Any], int]:
    """The viewer's data, and how many candidates per view and token are left in it, 0 for all.

    room: characters of the data. Long answers keep fewer candidates, so that pictures get theirs.
    """
    data, left = payload(trace, status()), 0
    for keep in FEWER:
        if len(as_text(without_pictures(data))) <= MAX_TEXT * room:
            break
        data, left = payload(drop_candidates(trace, keep), status()), keep
    return data, left


def thumbnail(trace: Trace) -> File:
    """The frame near the middle on which most objects are, each in its box: faint ones too."""
    seen = [sum(t.state[i] != LOST for t in trace.tracks) for i in range(len(trace.frames))]
    middle = (len(trace.frames) - 1) / 2
    at = max(range(len(seen)), key=lambda i: (seen[i], -abs(i - middle)))
    picture = Image.fromarray(trace.frames[at])
    width, height = picture.size
    line = max(1, round(2 * max(picture.size) / THUMBNAIL))
    for k, track in enumerate(trace.tracks):
        x0, y0, x1, y1 = track.boxes[at] * (width - 1, height - 1, width - 1, height - 1)
        if track.state[at] != LOST and x1 >= x0 and y1 >= y0:
            colour = COLOURS[k % len(COLOURS)]
            ImageDraw.Draw(picture).rectangle((x0, y0, x1, y1), outline=colour, width=line)
    return File(webp(picture, 60, THUMBNAIL), "image/webp")


_INDEX = template("""\
<header><h1>Gallery</h1>
{%- if home or course %}<p>{{ home }}
{%- if course %}<a href="{{ course }}">A course on this</a>{% endif %}</p>{% endif -%}
<p>What a video language model answers from the video, and what it answers by
MACD. Each run opens with its frames, masks and tokens.</p></header>
<main>
<form id="filters" hidden>
{%- for name, options in filters.items() %}
<label>{{ name.capitalize() }} <select name="{{ name }}"><option value="">all</option>
{%- for value, words in options %}<option value="{{ value }}">{{ words }}</option>{% endfor %}
</select></label>
{%- endfor %}
<button type="reset">Show all</button></form>
<p id="count" role="status">{{ total }}</p>
<ul id="runs">
{% for run in runs %}
<li data-example="{{ run.title }}" data-outcome="{{ run.outcome }}"
 data-method="{{ run.answers | join('\n') }}"><a href="t/{{ run.name }}.html">
{#- #}<img src="t/{{ run.name }}.webp" alt="" loading="lazy" width="{{ width }}">
{#- #}<strong>{{ run.title }}</strong></a>
{#- #}{% if run.question != run.title %}<p>{{ run.question }}</p>{% endif %}
{#- #}<dl>{% for name, text in run.answers.items() -%}
<dt>{{ in_8_bits(title_of(name), run.clamped.get(name)) }}</dt><dd>{{ text }}</dd>
{%- endfor %}</dl><p class="outcome">{{ run.outcome }}</p>
{#- #}<p class="quiet">{{ model_name(run.backbone) }}</p></li>
{% endfor %}
</ul>
</main>
<script src="{{ script }}"></script>""")


def index_page(runs: Sequence[Run], home: str = "", course: str = "") -> str:
    """The list of runs, those that MACD spoils first; without scripts it has no filters."""
    runs = sorted(runs, key=lambda run: run.outcome != SPOILED)
    values = {
        "example": [run.title for run in runs],
        "outcome": [run.outcome for run in runs],
        "method": [name for run in runs for name in run.answers],
    }
    filters = {
        name: [(v, title_of(v) if name == "method" else v) for v in sorted(set(of))]
        for name, of in values.items()
    }  # the value of a method is its name, which addresses hold
    body = _INDEX(
        home=link_home(home),
        course=course,
        filters=filters,
        total=count(len(runs), "run"),
        runs=runs,
        width=THUMBNAIL,
        title_of=title_of,
        in_8_bits=in_8_bits,
        model_name=_model_name,
        script=SCRIPT.name,
    )
    return page(titled("Gallery"), body, policy=LINKED, stylesheet=STYLE.name)


def _model_name(backbone: str) -> str:
    """As it is; of a folder of weights its last part, as the rest is about its owner's machine."""
    return Path(backbone).name if Path(backbone).is_absolute() else backbone


def write_site(site: Site, folder: Path) -> list[str]:
    """Writes the gallery; gives what its maker should know, in lines.

    Files of runs that are no longer in it are deleted. Raises OptionError where nothing is to be
    written, or the folder holds something else.
    """
    runs = site.refresh()
    notes = [f"{visible(path.name)} is left out: {why}" for path, why in site.problems.items()]
    if not runs:
        raise OptionError("there is no trace to show", "; ".join(notes)[:500] or "Name .macd files")
    check_folder(folder, (STYLE.name, "t"), "a gallery")
    (folder / "t").mkdir(parents=True, exist_ok=True)
    paths = site.paths()
    for old in (folder / "t").iterdir():
        if f"t/{old.name}" not in paths:
            old.unlink()
    by_name = {run.name: run for run in runs}
    for path in paths:  # one at a time: all of a large gallery are more than memory should hold
        made = site.file(path)
        assert made is not None
        write_files({path: made}, folder)
        if made.note:
            notes.append(f"{by_name[Path(path).stem].file.name}: {made.note}")
    return notes
