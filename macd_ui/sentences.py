"""The catalogue of what the page says: one whole sentence for each case.

Errors bring words of their own, where they are raised. The texts of the page's scripts are in
js/strings.js.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from macd_studio.core.errors import Cancelled, MacdError
from macd_studio.core.objects.formats import FORMATS
from macd_studio.core.objects.registry import listed
from macd_studio.core.text.words import count

if TYPE_CHECKING:
    from macd_studio.macd_ui.chosen import Search

TITLE = "MACD Studio"
LEAD = "Is the answer seen in the video, or only guessed?"
UPLOAD, EXAMPLES, FORM = "Upload", "Examples", "Clip and question"
FURTHER, SCHEME = "Further pages", "Light or dark"
FULL_DISK = "The server's disk is full. Try again later, or inform its operator."
NO_MEMORY = "The server has no memory left for this. Try again later, or ask for less at once."
BUSY = "A run is already going on. Wait until it ends, or stop it."
STARTING = "Starting"
RANDOM_CLIP = "Drawing a clip"
READING = "Reading the video"
OUT_OF_REACH = (
    "The server cannot be reached. "
    "Check that it is running and that you are online, then try again."
)

RUN = "Run"
FILES = "Files"
MENU = "Menu"
TYPICAL_CLIP = "A typical clip"
CHOSEN = "This drawn clip was chosen by a search, to show the mechanism."
CHOSEN_AT_RANDOM = "This drawn clip was drawn at random from those whose answer MACD repairs."
STOP, RANDOM_DRAW, ASK_ALL = "Stop", "Draw a random clip", "Ask all"
SAVE_TRACE, SAVE_PAGE, OPEN_TRACE = "Save trace", "Save HTML", "Open trace"
HIDE_FORM = "Hide the form"
EXAMPLE, OWN_CLIP, QUESTION = "Example", "Or your own clip or picture", "Question"
QUESTION_HINT = "Is there a dog in the video?"
COMPARE, METHODS, SETTINGS = "Compare methods", "Additional methods", "Options"
RESET = "Reset all options"
GROUPS = {
    "models": "Which models",
    "answer": "How it answers",
    "clip": "Which frames it reads",
    "objects": "Which objects are found",
    "masks": "What masks look like",
    "ascent": "How masks are chosen",
}
"""Groups of the options by what they change."""
BACKBONE, DETECTOR = "Backbone", "Detector"
EMBEDDED_MODELS = {
    "auto": "auto: follows the clip",
    "everyday": "everyday · embedded",
    "toyworld": "toyworld · embedded",
}
KNOWS = {
    "everyday": "The embedded model knows 80 everyday things. About 58 clips that it had not seen"
    " it was right in 89 % of 336 questions whether one is there, 88 % of 75 which, 79 % of 57 how"
    " many, 18 of 18 where, 2 of 11 which colour and 5 of 15 how it moves: do not rely on the last"
    " two. 6 million weights. It sees through the network that finds the objects: what that"
    " misses, neither knows.",
}
"""Embedded backbone → what it knows, beside a clip of the visitor's own."""
KNOWS_DRAWINGS_ONLY = (
    "The model toyworld has only ever seen drawn clips: what it answers about yours means nothing."
    " Choose everyday."
)
TRAJECTORIES = "Open interactive figure of the strengths"
SEVERAL, ONE_A_LINE = "Several questions", "One question on each line"
SEGMENTER = "Segmenter"
SEGMENTER_HELP = "finds and follows an object that you click on, under Change masks by hand"
BACKBONE_HELP = "parameters and memory in bfloat16; a folder or another hub id can be typed"
DETECTOR_HELP = f"auto: yolo11n, or toyworld for drawn clips; {listed()}, or a file"
WORDS = "Look for"
WORDS_HELP = "what the question names; take words out, or type others and press Enter"
PARTNER = "Partner clip: the same scene, with another thing true"
PARTNER_NAME = "partner clip"
PARTNER_GONE = "the server no longer has the partner clip", "Upload it again"
TRACKS = f"Objects from a file ({', '.join(one.title for one in FORMATS.values())})"
TRACKS_WRONG = (
    "Boxes in the wrong place? Change its frames per second, the time of its frame 0 or the number"
    " of its first frame."
)
TRACKS_SOURCE_HELP = "only for a file of several videos: the one that is the clip"
READING_TRACKS = "Reading the file of objects"
TRACKS_FPS_HELP = "0: as the file says, else the clip's own frames"
SHAPE_HELP = "outlines come from a detector that segments, such as yolo11n-seg"
GRADIENT_HELP = "≈ costs less and often gives other signs; MACD is defined by the exact one"

NO_RUN_OF_LINK = (
    "the run of this link is not here, so another one is shown: runs stay in the browser that made"
    " them",
    "Ask whoever sent the link for the saved trace, and open that",
)
NOTHING_TO_CHANGE = ("there is nothing to change yet", "Run a clip first")
FORM_FORGOTTEN = (
    "the server was restarted, and of the form only the question is left",
    "Choose the clip and the options again",
)
CHANGE_STOPPED = ("the change was stopped", "What was there before is shown")
GONE_ON = (
    "another run was opened meanwhile",
    "What was asked of the run before it was dropped",
)
STOPPED_WAITING = ("stopped while waiting", "Nothing was computed")

LONGEST_QUESTION = 80
"""Characters of a question that a sentence names."""
MAX_NAMED = 4
"""Differing settings that a sentence names."""


FLAGS = {
    "--frames": "frames",
    "--frame-rate": "frames per second of a zip of pictures",
    "--tracks-fps": "its frames per second",
    "--tracks-start": "time of its frame 0",
    "--first-frame": "number of its first frame",
    "--columns": "columns of its texts",
    "--track-source": "which of its videos",
    "--gradient": "gradient",
}
"""Flags of the command line that errors name, and what the page calls them."""
_FLAG = re.compile(rf"(?:with |by )?({'|'.join(FLAGS)})(?![a-z-])")
_RANGE = " with --start and --end, in seconds"


def of_error(error: BaseException) -> str | None:
    """Cause and remedy of an error for a visitor; None for an unexpected one.

    >>> of_error(MacdError("it is long", "State its rate with --tracks-fps"))
    'It is long. State its rate under “its frames per second” in the settings.'
    """
    if isinstance(error, MacdError):
        text = _FLAG.sub(lambda m: f"under “{FLAGS[m[1]]}” in the settings", str(error))
        text = text.replace(_RANGE, " by the handles of the strip")
        named = not text.partition(" ")[0].isalpha()  # it begins with the name of a file
        return text if named else text[:1].upper() + text[1:]
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return FULL_DISK
    if isinstance(error, MemoryError):
        return NO_MEMORY
    return None


def unforeseen(shared: bool) -> str:
    """What is said of an error that nobody expected. shared: visitors cannot read the log."""
    if shared:
        return (
            "Something unforeseen went wrong. Reload the page and try again; if it happens again,"
            " tell whoever runs this server at what time."
        )
    return "Something unforeseen went wrong. Try again; the server's log has the details."


def of_stop(error: Cancelled) -> str:
    """Where a job was stopped, as a sentence."""
    return str(error)[:1].upper() + str(error)[1:]


WHILE = {
    "video": "while the video was read",
    "detect": "while objects were looked for",
    "track": "while objects were followed",
    "load": "while the backbone was loaded",
    "ascent": "during gradient ascent",
    "views": "while the views were read",
    "decode": "while answers were decoded",
}
"""Stage of a run → where it was stopped."""


def run_ended(
    status: str, out_of_time_after: float | None = None, server_ends: bool = False
) -> str:
    """What is said of a run that gave a trace. status: the trace's; out_of_time_after: seconds.

    server_ends: the server is being ended, not the run alone.
    """
    if status == "complete":
        return ""
    stage = status.removeprefix("stopped: ")
    when = WHILE.get(stage, "")
    if server_ends:
        return (
            f"The server was ended, and this run with it{when and f', {when}'}. What was computed"
            f" is shown. Press {RUN} to start it again once the server is back."
        )
    if out_of_time_after is not None:
        return f"Stopped: {out_of_time(out_of_time_after)}. What was computed is shown."
    how = f"stopped {when}" if when else status
    return f"This run was {how}. What was computed is shown."


def out_of_time(limit_s: float) -> str:
    """Why a run was stopped that its visitor did not stop."""
    return f"this server gives each run {limit_s:g} s, and this one took longer"


def place_in_queue(runs_ahead: int, wait_s: float | None) -> str:
    """How many runs come first, and how long that may take."""
    if not runs_ahead:
        return "Waiting until the models are ready"
    if wait_s is None:
        return f"Waiting: {count(runs_ahead, 'run')} before yours"
    return f"Waiting: {count(runs_ahead, 'run')} before yours, about {max(1, round(wait_s))} s"


def place_to_open(files_ahead: int, wait_s: float) -> str:
    """How many files are opened first, and how long that may take."""
    return f"Waiting: {count(files_ahead, 'file')} before yours, about {max(1, round(wait_s))} s"


def waiting_for_gpu(seconds: int) -> str:
    """While a Space lends a GPU, with what the run takes of its visitor's quota."""
    return f"Waiting for a GPU · about {seconds} s of your GPU quota"


def cost_of_run(seconds: int) -> str:
    """What a run takes of its visitor's quota."""
    return f"A run takes about {seconds} s of your GPU quota."


def with_time(message: str, left_s: float | None, spent_s: float = 0.0) -> str:
    """A message of a stage with the seconds left, or those spent where none can be expected."""
    if left_s is not None:
        return f"{message} · about {max(1, round(left_s))} s left"
    return f"{message} · {round(spent_s)} s so far" if spent_s >= 1 else message


def form_refused(error: MacdError) -> str:
    """Why the form cannot be run."""
    return f"The form cannot be run: {error}"


def stopped_by_reload(question: str) -> tuple[str, str]:
    """A run that the page's reload ended: cause and remedy."""
    text = shortened(question)
    what = f"the run that asked “{text}”" if text else "the run"
    return f"reloading the page stopped {what}", "Press Run to start it again"


def no_such_example(name: str) -> str:
    """A link named an example that is not there."""
    return f"There is no example {name[:60]!r}; another one is shown."


def no_clip_in_form(shown: str) -> str:
    """The form holds no clip. shown: the run on show, see `run_name`."""
    return f"Shown: {shown}. The form does not hold this clip: upload it, or choose an example."


def another_run(shown: str, requested: str) -> str:
    """The form asks for another clip or question. Both: as `run_name` gives them."""
    return f"Shown: {shown}. Run would analyse {requested}."


def other_settings(changes: Sequence[str], edited: bool) -> str:
    """The form asks for the clip and question on show in another way; "" where it does not.

    changes: settings, each in words. edited: whether the trace on show was changed by hand.
    """
    named = ", ".join(changes[:MAX_NAMED])
    if len(changes) > MAX_NAMED:
        named += f", and {len(changes) - MAX_NAMED} more"
    start = "The form differs from what is shown:"
    if changes and edited:
        return f"{start} Run would use {named} and leave out the changes made by hand."
    if changes:
        return f"{start} Run would use {named}."
    return f"{start} Run would leave out the changes made by hand." if edited else ""


def of_partner(cause: str) -> str:
    """What is wrong with the partner clip."""
    return f"the partner clip: {cause}"


def setting_changed(label: str, before: str, after: str) -> str:
    """A setting that a run would take in place of the one on show."""
    return f"{label} {after} instead of {before}"


def method_added(title: str) -> str:
    """A method that a run would have, and the trace on show has not."""
    return f"also {title}"


def method_left_out(title: str) -> str:
    """A method that the trace on show has, and a run would not have."""
    return f"not {title}"


def run_name(clip: str, question: str) -> str:
    """A clip and a question, which is shortened."""
    text = shortened(question)
    return f"{clip} · “{text}”" if text else f"{clip} · no question"


def shortened(question: str) -> str:
    """A question on one line, cut where it is long."""
    text = " ".join(question.split())
    return text if len(text) <= LONGEST_QUESTION else text[: LONGEST_QUESTION - 1] + "…"


def example_message(title: str, truth: str, tries: int) -> str:
    """What is said of an example when it is opened, with how it was chosen.

    tries: clips that were drawn until this one; 0 where nobody looked for it, or the counts of the
    search are told elsewhere.
    """
    text = f"{title}. {truth}"
    if not tries:
        return truth
    return f"{text} Chosen by its outcome, the first of {tries:,} drawn clips that shows it."


def chosen_from(search: Search) -> str:
    """How an example was chosen, and what the other clips came to."""
    tried = count(search.watched, "right answer")
    text = (
        f"Chosen to show the mechanism: 1 of {search.clips:,} drawn clips. The model errs in"
        f" {search.errs:,}; MACD repairs {search.repairs:,} of these and spoils {search.spoils:,}"
        f" of {tried} that were tried. In {search.any_mask:,} of the {search.repairs:,} more than"
        " half of the random masks do the same."
    )
    kinds = [f"{same} of {of} {name} masks" for name, same, of in search.masks]
    return f"{text} Here {' and '.join(kinds)} do." if kinds else text


def one_of_repairs(search: Search, number: int) -> str:
    """Of a clip that was drawn from all repairs of a search. number: of the clip."""
    return (
        f"Clip {number:,} of the search, drawn at random from the {len(search.numbers):,} in which"
        " MACD repairs the answer, chosen by nothing else. In"
        f" {search.any_mask:,} of {search.repairs:,} repairs more than half of the random masks do"
        " the same."
    )


def models_of_run(backbone: str, detector: str, follows: bool) -> str:
    """Which models a run takes. follows: whether they were chosen by the clip."""
    names = f"Model: {backbone}. Objects are found by {detector}."
    return f"{names} Both were chosen to fit the clip." if follows else names


def default_value(value: object, help_text: str | None) -> str:
    """What a setting is by default, below its label."""
    return f"default: {value}" + (f"; {help_text}" if help_text else "")


def use_models(title: str) -> str:
    """The button that chooses real models."""
    return f"Use {title}"


def both_models(backbone: str, detector: str) -> str:
    """A backbone and a detector."""
    return f"{backbone} and {detector}"


def model_facts(
    billions: float, needed_gb: float, memory_gb: float, licence: str, download_gb: float,
    detector: str,
) -> str:  # fmt: skip
    """What is known of the real models that fit this machine."""
    return (
        f"{billions:g} B parameters · needs {needed_gb:.1f} of {memory_gb:.0f} GB of memory ·"
        f" {licence} · first run downloads {download_gb:g} GB. Detector: {detector}."
    )


def several_help(most: int) -> str:
    """Below the list of several questions."""
    return f"up to {most}; objects are looked for, and the video is read, once for all"


def paper_values(values: Sequence[object]) -> str:
    """The values of a setting that the paper tried."""
    return f"paper: {', '.join(map(str, values))}"


def save_plot(kind: str) -> str:
    """The button that saves the strength plot."""
    return f"Save {kind.upper()}"
