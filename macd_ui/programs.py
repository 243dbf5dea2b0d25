"""Tools for other programs of this machine, typed by `gr.api`; `--mcp` makes them MCP tools.

They take paths of this machine, as the command line does, so they exist on a server with `--mcp`
only, which answers this machine alone. docs/mcp.md lists them; `python -m macd_ui.programs` writes
that list.
"""

from __future__ import annotations

import base64
import inspect
import json
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradio as gr

from macd_studio.core.embedded import SHIPPED
from macd_studio.core.errors import MacdError, OptionError, TraceError
from macd_studio.core.evidence.options import EnoughOptions, read_enough_options
from macd_studio.core.methods import find_methods
from macd_studio.core.options import options_from
from macd_studio.core.report.evidence import enough_as_json
from macd_studio.core.report.summary import as_json
from macd_studio.core.system.recent import Recent
from macd_studio.core.text.question import clean_question
from macd_studio.core.traces.bundle import load, pack, unpack
from macd_studio.core.types import Trace
from macd_studio.core.validation import shown
from macd_studio.macd_ui.api import rescored, run_call
from macd_studio.macd_ui.gallery.runs import HASH_CHARACTERS, content_hash
from macd_studio.macd_ui.store import Store

if TYPE_CHECKING:
    from macd_studio.core.whatif.workbench import Workbench

MAX_TRACES = 32
"""Traces of calls that can be asked for by `trace://HASH`."""
REFERENCE = re.compile(rf"(?:trace://)?([0-9a-f]{{{HASH_CHARACTERS},64}})")
COMPARED = ["vcd", "tcd"]
Tool = Callable[..., Any]


class Traces:
    """The traces of the last calls, by the hash of their files."""

    def __init__(self) -> None:
        self._files: Recent[str, bytes] = Recent(MAX_TRACES)

    def add(self, trace: Trace) -> str:
        """Holds a trace; gives its address, trace://HASH."""
        content = pack(trace)
        name = content_hash(content)[:HASH_CHARACTERS]
        self._files.put(name, content)
        return f"trace://{name}"

    def content(self, name: str) -> bytes:
        """The file of a trace. Raises TraceError for one that is no longer here."""
        content = self._files.get(name[:HASH_CHARACTERS])
        if content is None:
            raise TraceError(
                f"trace://{name[:HASH_CHARACTERS]} is no longer here",
                "Run the clip again, or name a .macd file",
            )
        return content

    def find(self, reference: str) -> Trace:
        """A trace by its address or its hash, or the path of a .macd file. Raises TraceError."""
        if not isinstance(reference, str):
            raise TraceError(
                f"{shown(reference)} names no trace",
                "Give trace://HASH of an earlier call, or the path of a .macd file",
            )
        known = REFERENCE.fullmatch(reference.strip())
        return unpack(self.content(known[1])) if known else load(place_of(reference))


def place_of(path: str) -> Path:
    """A path with the home folder in place of ~. Raises OptionError for what is none."""
    if not isinstance(path, str):
        raise OptionError(f"{shown(path)} is no path", "Name a file of this machine")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise OptionError(f"{shown(path)} begins with an unknown user", "Name the folder") from None


gradio: Any = gr


def resource(address: str, mime_type: str) -> Callable[[Tool], Tool]:
    """Marks a function as an MCP resource with this address."""
    marked: Callable[[Tool], Tool] = gradio.mcp.resource(address, mime_type=mime_type)
    return marked


def tools(store: Store) -> list[Tool]:
    """The functions, over one store of models; their names and texts are what clients see."""
    traces = Traces()

    def computed(
        video: str, question: str, methods: list[str] | None, options: dict[str, Any] | None
    ) -> dict[str, Any]:
        chosen = options_from(options or {})
        names = tuple(m.name for m in find_methods(methods or ()))
        with store.sessions.call(f"tool-{secrets.token_urlsafe(8)}") as session:
            place = str(place_of(video))
            found = run_call(store, session, place, clean_question(question), chosen, names)
        return {"trace": traces.add(found)} | as_json(found)

    def trace(video: str, question: str, options: dict[str, Any] | None = None) -> dict[str, Any]:
        """Runs MACD on a clip with the embedded models and gives both answers with their evidence.

        Args:
            video: path of a video file on this machine
            question: what is asked about the clip
            options: by stage, as in docs/options.md, for example {"ascent": {"steps": 2}}
        """
        return computed(video, question, None, options)

    def compare(
        video: str,
        question: str,
        methods: list[str] | None = None,
        options: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Runs several decoding methods on a clip, beside plain decoding and MACD.

        Args:
            video: path of a video file on this machine
            question: what is asked about the clip
            methods: names of docs/methods.md, or VIEW+RULE pairs; vcd and tcd if left out
            options: by stage, as in docs/options.md
        """
        return computed(video, question, COMPARED if methods is None else methods, options)

    def rescore(trace: str, alpha: float, beta: float) -> list[dict[str, Any]]:
        """The token that each step of the MACD answer would choose under another α and β.

        Args:
            trace: trace://HASH of an earlier call, or path of a .macd file
            alpha: contrast strength, from 0 to 20
            beta: plausibility cut, from 0 to 2
        """
        return rescored(traces.find(trace), alpha, beta)

    def open_(trace: str) -> dict[str, Any]:
        """The summary of a saved trace; needs no model.

        Args:
            trace: trace://HASH of an earlier call, or path of a .macd file
        """
        found = traces.find(trace)
        return {"trace": traces.add(found)} | as_json(found)

    def evidence(trace: str, measure: bool = False) -> dict[str, Any]:
        """What an answer depends on: each object with its gradient, margin and level.

        Args:
            trace: trace://HASH of an earlier call, or path of a .macd file
            measure: also mask each object alone and measure the effect, which takes a while
        """
        found = traces.find(trace)
        if measure and found.occlusion is None:
            found = measured(store, found, lambda bench: bench.measure_occlusion())
        summary = as_json(found)
        labels = {t.id: t.label for t in found.tracks}
        rows = [r | {"label": labels.get(r["track"], "")} for r in summary["strengths"]]
        return {
            "trace": traces.add(found),
            "question": found.question,
            "answers": {name: answer.text for name, answer in found.answers.items()},
            "objects": sorted(rows, key=lambda r: -abs(r["gradient"])),
            "frame_levels": summary["frame_levels"],
            "query_loss": summary["query_loss"],
            "measured": summary["occlusion"],
            "warnings": summary["warnings"],
        }

    def enough(trace: str, token: int = 1, options: dict[str, Any] | None = None) -> dict[str, Any]:
        """How little of the video is enough for a token of the baseline answer.

        Args:
            trace: trace://HASH of an earlier call, or path of a .macd file
            token: of the baseline answer, counted from 1
            options: fields of EnoughOptions, for example {"margin": 1.0, "keep": ["2:1-4"]}
        """
        if not isinstance(options or {}, dict):
            raise OptionError(f"options is {shown(options)}, not an object", "Give fields by name")
        chosen = read_enough_options((options or {}) | {"token": token})
        found = measured(store, traces.find(trace), lambda bench: _enough(bench, chosen))
        return {"trace": traces.add(found)} | enough_as_json(found.enough[-1], found)

    @resource("trace://{name}", mime_type="application/octet-stream")
    def saved_trace(name: str) -> str:
        """The .macd file of an earlier call, as bytes.

        Args:
            name: the hash in trace://HASH
        """
        return base64.b64encode(traces.content(name)).decode()

    open_.__name__ = "open"
    return [trace, compare, rescore, open_, evidence, enough, saved_trace]


def measured(store: Store, trace: Trace, measure: Callable[[Workbench], Trace]) -> Trace:
    """The trace with what is measured on its workbench, in its turn. Raises MacdError."""
    from macd_studio.core.whatif.workbench import Workbench

    made_by = trace.backbone.name
    if made_by not in SHIPPED:
        raise OptionError(
            f"this trace was made by {made_by[:80]!r}",
            "Measure it by `python -m core edit FILE --measure`",
        )
    with store.device_queue.enter() as ticket:
        while not ticket.wait(1.0):
            if store.closing:
                raise OptionError("the server is about to stop", "Start it again")
        return measure(Workbench(trace, store.models.backbone(made_by)))


def _enough(bench: Workbench, options: EnoughOptions) -> Trace:
    from macd_studio.core.evidence.enough import enough_events

    for _ in enough_events(bench, options):
        pass
    return bench.trace


def add_tools(store: Store) -> None:
    """Adds them to the page being built. A tool's endpoint is /tool_NAME."""
    for tool in tools(store):
        # without Gradio's queue the call stays in this process; jobs wait in the store's line
        gradio.api(_with_words(tool), api_name=f"tool_{tool.__name__}", queue=False)


class ToolError(gr.Error):
    """Its text is the message; that of a gr.Error, which MCP clients are sent, is in quotes."""

    def __str__(self) -> str:
        return str(self.message)


def _with_words(tool: Tool) -> Tool:
    """The tool, whose answers are JSON and whose errors are told with cause and remedy."""

    def call(*given: Any, **named: Any) -> str:
        try:
            answer = tool(*given, **named)
        except MacdError as error:
            raise ToolError(str(error), print_exception=False) from error
        # Gradio's MCP server would send a dict as Python writes it
        return answer if isinstance(answer, str) else json.dumps(answer, allow_nan=False)

    call.__dict__.update(tool.__dict__)
    call.__name__, call.__doc__ = tool.__name__, tool.__doc__
    signature = inspect.signature(tool, eval_str=True).replace(return_annotation=str)
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = inspect.get_annotations(tool, eval_str=True) | {"return": str}
    return call


def as_table() -> str:
    """The tools as a table in Markdown, for docs/mcp.md."""
    lines = ["| tool | takes | what it does |", "|---|---|---|"]
    for tool in tools(None):  # type: ignore[arg-type]
        about = inspect.getdoc(tool).partition("\n\n")[0]  # type: ignore[union-attr]
        takes = ", ".join(
            f"`{name}`" if p.default is p.empty else f"`{name}`?"
            for name, p in inspect.signature(tool).parameters.items()
        )
        name = getattr(tool, "_mcp_uri_template", tool.__name__)
        lines.append(f"| `{name}` | {takes} | {' '.join(about.split())} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_table(), end="")
