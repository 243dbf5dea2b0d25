"""`python -m macd_ui.deploy --space OWNER/NAME`: puts this checkout on a Hugging Face Space.

One commit holds what the app needs; files of an earlier deployment that it no longer needs are
deleted. `--static` puts the gallery and the course there instead, as a Space that computes nothing
itself: visitors' browsers do. `--dry-run` shows everything and asks no network. The access token is
the one that `hf auth login` stored, or HF_TOKEN. Exit codes: 0 done, 2 bad input or refused by the
hub.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from macd_studio.commands import need_checkout, pipe_closed
from macd_studio.commands import parser as command_line
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.text.words import count, visible
from macd_studio.parts import BESIDE, CODE, DATA, FILES, LIST, PACKAGE, ROOT, list_of, listed

NEEDED = (*FILES, *(f"{folder}/" for folder in (PACKAGE, *CODE, *DATA, *BESIDE)))
"""What a Space holds: every file of the project, which /source.zip there hands out."""
STATIC = ("README.md", "index.html", "gallery.", "viewer.", "t/", "learn/", "engine/")
"""What the names of a static Space's files begin with."""
COURSE = "learn"
"""The folder of the course in it."""
ISOLATED = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-resource-policy": "cross-origin",
}
"""Headers of its pages, with which a browser lets the model use two threads."""
LARGEST_MB = 50
"""A file above this is not part of the project."""
NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)
MODEL = re.compile(rf"{NAME.pattern}(@[\w.-]{{1,64}})?", re.ASCII)
HARDWARE = ("cpu-basic", "cpu-upgrade", "zero-a10g", "t4-small", "t4-medium", "l4x1", "a10g-small",
            "a10g-large", "l40sx1", "a100-large", "rtx-pro-6000")  # fmt: skip
"""As the hub names it; `zero-a10g` is ZeroGPU, whatever GPU it is made of."""
CPU_TORCH = "https://download.pytorch.org/whl/cpu"
"""Where pip finds torch without the CUDA libraries, which it prefers there: 2.11.0+cpu."""
COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
REQUIRED = ("title", "emoji", "colorFrom", "colorTo", "sdk", "sdk_version", "python_version",
            "app_file", "short_description", "license")  # fmt: skip


class DeployError(MacdError):
    """The hub did not take the deployment."""


@dataclass(frozen=True)
class Deployment:
    """What would be pushed, and how the Space is set up.

    files: path in the Space → its content, or the local file. variables: of the Space's
    environment, public. static: whether it is a site without a server.
    """

    space: str
    files: dict[str, bytes | Path]
    hardware: str
    private: bool
    variables: dict[str, str]
    notes: tuple[str, ...] = ()
    static: bool = False

    @property
    def ours(self) -> tuple[str, ...]:
        """What files of an earlier deployment begin with."""
        return STATIC if self.static else NEEDED

    def size(self, name: str) -> int:
        """Bytes of a file."""
        content = self.files[name]
        return len(content) if isinstance(content, bytes) else content.stat().st_size

    def as_text(self) -> str:
        """The deployment for people."""
        total = sum(map(self.size, self.files)) / 1e6
        by_folder: dict[str, list[str]] = {}
        for name in self.files:
            by_folder.setdefault(name.partition("/")[0], []).append(name)
        lines = [
            f"Space      {self.space} ({'private' if self.private else 'public'})",
            f"Hardware   {'none: a static site' if self.static else self.hardware}",
            *(f"Variable   {name}={value}" for name, value in self.variables.items()),
            f"Files      {len(self.files)}, {total:.1f} MB",
        ]
        for folder, names in sorted(by_folder.items()):
            size = sum(map(self.size, names)) / 1e6
            lines.append(f"  {folder:24}{count(len(names), 'file'):>12}{size:>8.2f} MB")
        return "\n".join([*lines, "", front_matter(self.files["README.md"])])


def front_matter(readme: bytes | Path) -> str:
    """The lines between the first two lines of dashes."""
    content = readme if isinstance(readme, bytes) else readme.read_bytes()
    return content.decode("utf-8").split("---\n")[1]


def plan(
    space: str,
    hardware: str = "cpu-basic",
    private: bool = False,
    backbones: Sequence[str] = (),
    root: Path = ROOT,
) -> Deployment:
    """What a deployment of the checkout in `root` would push. Raises OptionError."""
    check_name(space, "Space")
    if hardware not in HARDWARE:
        raise OptionError(f"there is no hardware {hardware!r}", f"Choose {', '.join(HARDWARE)}")
    for name in backbones:
        if not MODEL.fullmatch(name):
            raise OptionError(
                f"{visible(name)[:100]!r} is not a model of the hub", "Give OWNER/NAME of a model"
            )
    tracked, notes = _tracked(root)
    files: dict[str, bytes | Path] = {n: root / n for n in tracked if n.startswith(NEEDED)}
    missing = [n for n in NEEDED if not any(f == n or f.startswith(n) for f in files)]
    if missing:
        raise OptionError(
            f"the checkout has no {', '.join(missing)}", "Check the project out again"
        )
    large = [
        n for n, p in files.items() if isinstance(p, Path) and p.stat().st_size > LARGEST_MB * 1e6
    ]
    if large:
        raise OptionError(
            f"{large[0]} is larger than {LARGEST_MB} MB", "Remove it from the checkout"
        )
    files["README.md"] = card((root / "README.md").read_text(encoding="utf-8"), backbones)
    if hardware.startswith("cpu-"):
        wanted = (root / "requirements.txt").read_bytes()
        files["requirements.txt"] = f"--extra-index-url {CPU_TORCH}\n".encode() + wanted
    files[LIST] = list_of(sorted(files)).encode()
    variables = {"MACD_BACKBONES": ",".join(backbones)} if backbones else {}
    if backbones and hardware == "cpu-basic":
        notes = (*notes, "cpu-basic has 16 GB of memory and two slow cores for all of these models")
    return Deployment(space, files, hardware, private, variables, notes)


def static_plan(space: str, private: bool = False, traces: Sequence[Path] = ()) -> Deployment:
    """A gallery with the course and, where it is built, the embedded model for browsers.

    traces: .macd files or folders of them; the shipped examples by default. Everything is made
    before anything is pushed. Raises OptionError and TraceError.
    """
    from macd_studio.macd_ui.engine import built
    from macd_studio.macd_ui.examples import SHIPPED
    from macd_studio.macd_ui.gallery.site import Site
    from macd_studio.macd_ui.learn.site import Site as Course

    check_name(space, "Space")
    engine = built()
    gallery = Site(list(traces) or [SHIPPED], engine=engine, course=f"{COURSE}/index.html")
    if not gallery.refresh():
        raise OptionError("there is no trace to show", "Name .macd files or folders of them")
    course = Course(engine=replace(engine, elsewhere="../") if engine else None)
    made = {path: gallery.file(path) for path in gallery.paths()}
    made |= {f"{COURSE}/{path}": course.file(path) for path in course.paths()}
    files: dict[str, bytes | Path] = {path: z.content for path, z in made.items() if z is not None}
    files["README.md"] = static_card((ROOT / "README.md").read_text(encoding="utf-8"))
    notes = [f"{visible(path.name)} is left out: {why}" for path, why in gallery.problems.items()]
    if engine is None:
        notes.append("no masks can be changed there: run `make browser-model` first")
    return Deployment(space, files, HARDWARE[0], private, {}, tuple(notes), static=True)


def static_card(readme: str) -> bytes:
    """The front matter of a static Space, from that of the README. Raises OptionError."""
    front = front_matter(card(readme))
    kept = ("title", "emoji", "colorFrom", "colorTo", "short_description", "license")
    lines = [line for line in front.splitlines() if line.partition(":")[0] in kept]
    lines += ["sdk: static", "app_file: index.html", "custom_headers:"]
    lines += [f"  {name}: {value}" for name, value in ISOLATED.items()]
    about = "Runs of MACD Studio and its course. Changes of masks are computed in your browser."
    return "\n".join(["---", *lines, "---", "", about, ""]).encode()


def check_name(name: str, kind: str) -> None:
    """Raises OptionError unless it can be that of a Space or dataset of the hub."""
    if not NAME.fullmatch(name):
        raise OptionError(
            f"{visible(name)[:100]!r} is not the name of a {kind}",
            "Give OWNER/NAME, as in its address",
        )


def _tracked(root: Path) -> tuple[list[str], tuple[str, ...]]:
    """Paths of the files under version control, and a note where they hold uncommitted changes."""

    def git(*words: str) -> str:
        try:
            done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True)
        except OSError:
            done = None
        if done is None or done.returncode:
            raise OptionError(f"{root} is not a git checkout", "Deploy from a clone of the project")
        return done.stdout

    git("ls-files", "--error-unmatch", "app.py")
    names = listed(root)
    linked = [n for n in names if (root / n).is_symlink()]
    if linked:
        raise OptionError(f"{linked[0]} is a link", "Replace it by the file that it names")
    changed = git("status", "--porcelain", "--untracked-files=no").splitlines()
    note = f"{count(len(changed), 'file')} with changes that are not committed"
    return names, ((note,) if changed else ())


def card(readme: str, backbones: Sequence[str] = ()) -> bytes:
    """The README with the front matter of a Space that offers these models. Raises OptionError.

    `models` links them on the card; `preload_from_hub` fetches them when the Space is built.
    """
    from huggingface_hub import RepoCard

    try:
        parsed: Any = RepoCard(readme)
    except Exception as error:  # whatever the parser of YAML raises
        raise OptionError(
            f"the front matter of README.md cannot be read ({type(error).__name__})",
            "Write it as YAML between two lines of ---",
        ) from error
    data = parsed.data.to_dict()
    problem = _problem(data)
    if problem:
        raise OptionError(
            f"the front matter of README.md: {problem}", "Change it, see docs/space.md"
        )
    if not backbones:
        return readme.encode("utf-8")
    names = [name.partition("@")[0] for name in backbones]
    lines = ["models:", *(f"  - {n}" for n in names), "preload_from_hub:",
             *(f"  - {n}" for n in names)]  # fmt: skip
    first, front, rest = readme.split("---\n", 2)
    others = re.sub(r"^(models|preload_from_hub):.*\n([ -].*\n)*", "", front, flags=re.M)
    return "---\n".join([first, others + "\n".join(lines) + "\n", rest]).encode("utf-8")


def _problem(data: dict[str, Any]) -> str:
    """What the hub or this project would not accept in the front matter; "" for nothing."""
    missing = [name for name in REQUIRED if not data.get(name)]
    if missing:
        return f"{missing[0]} is missing"
    if data["sdk"] != "gradio":
        return "sdk is not gradio"
    if len(str(data["short_description"])) > 60:
        return "short_description is longer than 60 characters"
    if not {data["colorFrom"], data["colorTo"]} <= COLOURS:
        return f"a colour is not one of {', '.join(sorted(COLOURS))}"
    if not re.fullmatch(r"\d+\.\d+\.\d+", str(data["python_version"])):
        return "python_version is not like 3.12.12"
    timeout = data.get("startup_duration_timeout", "30m")
    if not re.fullmatch(r"\d+(m|h|min|minutes|hours?)", str(timeout)):
        return "startup_duration_timeout is not like 30m"
    return ""


def push(deployment: Deployment) -> str:
    """Creates the Space if there is none and pushes one commit; gives its address.

    Raises DeployError.
    """
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api: Any = HfApi()
    space, static = deployment.space, deployment.static
    variables = [{"key": k, "value": v} for k, v in deployment.variables.items()]
    runs_on = {"space_hardware": deployment.hardware, "space_variables": variables}
    try:
        made = api.create_repo(
            space,
            repo_type="space",
            space_sdk="static" if static else "gradio",
            private=deployment.private,
            exist_ok=True,
            **({} if static else runs_on),
        )
        there = api.list_repo_files(space, repo_type="space")
        old = [n for n in there if n not in deployment.files and n != ".gitattributes"]
        ours = [
            n for n in old if n.startswith(deployment.ours)
        ]  # what somebody else put there stays
        api.create_commit(
            space,
            [
                *(CommitOperationAdd(name, content) for name, content in deployment.files.items()),
                *(CommitOperationDelete(name) for name in ours),
            ],
            repo_type="space",
            commit_message="Deploy MACD Studio",
        )
        for key, value in deployment.variables.items():  # of a Space that was there before, too
            api.add_space_variable(space, key, value)
        if not static and api.get_space_runtime(space).requested_hardware != deployment.hardware:
            api.request_space_hardware(space, deployment.hardware)
    except LocalTokenNotFoundError as error:
        raise DeployError(
            "no access token of the hub is stored here", "Run `hf auth login`, or set HF_TOKEN"
        ) from error
    except HfHubHTTPError as error:
        raise DeployError(*_refused(error, deployment)) from error
    except Exception as error:  # whatever the network provokes
        raise DeployError(
            f"the hub could not be used ({type(error).__name__}: {visible(str(error))[:200]})",
            "Check the connection and try again; an interrupted push changes nothing",
        ) from error
    return str(made)


def _refused(error: Any, deployment: Deployment) -> tuple[str, str]:
    status = getattr(error.response, "status_code", None)
    message = visible(str(getattr(error, "server_message", "") or error).splitlines()[0])[:200]
    if status == 401:
        return "the hub does not accept the access token", "Run `hf auth login` with a valid one"
    if status == 402:
        return (
            f"the account may not use {deployment.hardware} ({message})",
            "Choose --hardware cpu-basic, or another plan",
        )
    if status == 403:
        return (
            f"the access token may not write to {deployment.space} ({message})",
            "Use a token with write access, and a name of your own",
        )
    return f"the hub refused the deployment ({status}: {message})", "Correct this and try again"


def main(arguments: Sequence[str] | None = None) -> int:
    """Shows or pushes the deployment; gives the exit code."""
    need_checkout("macd_ui.deploy")
    parser = command_line("macd_ui.deploy", __doc__)
    parser.add_argument("--space", required=True, metavar="OWNER/NAME")
    parser.add_argument("--dry-run", action="store_true", help="show what would be pushed")
    parser.add_argument("--hardware", default=HARDWARE[0], help=f"{', '.join(HARDWARE)}")
    parser.add_argument("--private", action="store_true", help="only you can see it")
    parser.add_argument(
        "--backbone",
        action="append",
        default=[],
        metavar="ID",
        help="a model of the hub that visitors may choose beside the embedded one; repeatable;"
        " docs/backbones.md lists some",
    )
    parser.add_argument(
        "--static", action="store_true", help="the gallery and the course, without a server"
    )
    parser.add_argument(
        "--traces",
        type=Path,
        nargs="+",
        default=[],
        help="of --static: .macd files or folders of them (default: the shipped examples)",
    )
    given = parser.parse_args(arguments)
    try:
        if given.static and (given.backbone or given.hardware != HARDWARE[0]):
            raise OptionError("a static Space runs no model", "Leave out --backbone and --hardware")
        if given.static:
            deployment = static_plan(given.space, given.private, given.traces)
        elif given.traces:
            raise OptionError("only a static Space takes traces", "Add --static")
        else:
            deployment = plan(given.space, given.hardware, given.private, given.backbone)
        print(deployment.as_text())
        for note in deployment.notes:
            print(f"note: {note}", file=sys.stderr)
        if given.dry_run:
            print("Nothing was pushed.")
        else:
            print(f"Pushed to {push(deployment)}")
    except MacdError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return pipe_closed()
    return 0


if __name__ == "__main__":
    sys.exit(main())
