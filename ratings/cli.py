"""Commands of a rating study: `python -m ratings COMMAND --help`.

Exit codes: 0 done, 1 a study that `check` finds damaged, 2 bad input, 130 interrupted. Errors go to
stderr.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from macd_studio.commands import parser as command_line
from macd_studio.commands import pipe_closed
from macd_studio.core.cli.flags import add_version
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.system.process import own_process
from macd_studio.core.text.words import count, visible
from macd_studio.ratings.adjudication import (
    apart_text,
    appoint,
    open_disputes,
    threshold_text,
)
from macd_studio.ratings.branches import merge, read_rows
from macd_studio.ratings.check import as_line, check_study
from macd_studio.ratings.create import preregistration_path
from macd_studio.ratings.create_command import URL, add_create, create, link_of
from macd_studio.ratings.errors import StudyError
from macd_studio.ratings.export import FORMATS, export
from macd_studio.ratings.planning import add_plan, plan
from macd_studio.ratings.render import html_page, markdown, rated_line, unit_of
from macd_studio.ratings.report import figures, progress
from macd_studio.ratings.reveal import check_media, read_reveal, read_text, reveal, verify
from macd_studio.ratings.shards import read_shards
from macd_studio.ratings.simulate import simulate
from macd_studio.ratings.store import Study


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code."""
    own_process()
    args = _parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except MacdError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return 2
    except sqlite3.DatabaseError as error:
        print(f"error: the study cannot be read ({error}). Check it: ratings check.",
              file=sys.stderr)  # fmt: skip
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return pipe_closed()
    return code


def _parser() -> argparse.ArgumentParser:
    parser = command_line("ratings", __doc__)
    add_version(parser)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: Any, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("study", metavar="STUDY.db", type=Path)
        added.set_defaults(run=run)
        return added

    add_create(command("create", create, "make a study from traces"))
    invite = command("invite", _invite, "print a link for each new rater")
    invite.add_argument("--n", type=int, default=1, help="how many (default: 1)")
    invite.add_argument("--url", default=URL, help="where the page is (default: %(default)s)")
    invite.add_argument(
        "--organiser", action="store_true",
        help="print a new link for the organiser instead; the one before no longer opens",
    )  # fmt: skip
    recruits = command("recruit", _recruit, "print one link for all participants of a panel")
    recruits.add_argument("--url", default=URL, help="where the page is (default: %(default)s)")
    recruits.add_argument(
        "--completion", metavar="CODE", default="", help="shown to who has finished"
    )
    recruits.add_argument(
        "--return", dest="back", metavar="ADDRESS", default="",
        help="https address of a link for who has finished",
    )  # fmt: skip
    recruits.add_argument(
        "--participant", metavar="TEXT", default="{{%%PROLIFIC_PID%%}}",
        help="what the panel writes in place of an id (default: %(default)s, Prolific's)",
    )  # fmt: skip
    judge = command(
        "adjudicate", _adjudicate,
        "list items on which raters disagree, and print a link for somebody who rates them again",
    )  # fmt: skip
    judge.add_argument("--url", default=URL, help="where the page is (default: %(default)s)")
    judge.add_argument("--list", action="store_true", help="only list them")
    status = command("status", _status, "progress, without which arm is ahead")
    status.add_argument("--json", action="store_true", help="print one JSON object")
    report = command("report", _report, "the figures with their uncertainty")
    report.add_argument("--format", choices=("md", "html", "json"), default="md")
    report.add_argument("--out", type=Path, metavar="FILE")
    out = command("export", _export, "every event, with what it was about")
    out.add_argument("--format", choices=FORMATS, default="csv")
    out.add_argument("--out", type=Path, metavar="FILE", required=True)
    out.add_argument(
        "--participants", action="store_true",
        help="with the participants' ids in a last column: not for publishing",
    )  # fmt: skip
    command("check", _check, "whether the study is whole: exit 1 with the reason where it is not")
    copy = command("copy", _copy, "a whole copy, also while a server has the study open")
    copy.add_argument("to", metavar="COPY.db", type=Path)
    join = command("merge", _merge, "add what other servers of the same study took")
    join.add_argument(
        "branches", metavar="BRANCH", type=Path, nargs="+",
        help="another file of the study, or .jsonl files of its mirror",
    )  # fmt: skip
    opening = command("reveal", _reveal, "once it is closed: what opens the preregistration")
    opening.add_argument("--out", type=Path, metavar="REVEAL.json", required=True)
    text = "whether a preregistration and its reveal fit: exit 1 with the reason where they do not"
    proof = commands.add_parser("verify", help=text, description=text)
    proof.add_argument("preregistration", metavar="PREREGISTRATION.json", type=Path)
    proof.add_argument("reveal", metavar="REVEAL.json", type=Path)
    proof.add_argument("--study", type=Path, metavar="STUDY.db", help="compare its pictures too")
    proof.set_defaults(run=_verify)
    text = "clips and raters that an effect needs, before there is a study"
    planned = commands.add_parser("plan", help=text, description=text)
    add_plan(planned)
    planned.set_defaults(run=plan)
    trial = command("simulate", _simulate, "let programs rate: the report will say so")
    trial.add_argument("--seed", type=int, default=0)
    trial.add_argument("--effect", type=float, default=0.7, help="planted in careful raters")
    return parser


def _invite(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        if args.organiser:
            print(link_of(args.url, "organise", study.renew_organiser()))
            return 0
        for code in study.invite(args.n):
            print(link_of(args.url, "rate", code))
        _warn_of_proposals(study)
    return 0


def _adjudicate(args: argparse.Namespace) -> int:
    with Study(args.study, write=not args.list) as study:
        found, left = open_disputes(study)
        clips = {i["number"]: i for i in study.items}
        for d in found:
            item, given = clips[d.item], "" if d in left else ", given to an adjudicator"
            print(f"item {d.item} {visible(item['clip'])}: {apart_text(d, study.scale)}{given}",
                  file=sys.stderr)  # fmt: skip
        print(f"{count(len(found), 'item')} disputed, {threshold_text(study.scale)}",
              file=sys.stderr)  # fmt: skip
        if not args.list:
            code, _ = appoint(study)
            print(link_of(args.url, "rate", code))
    return 0


def _warn_of_proposals(study: Study) -> None:
    undecided = list(study.confirmed().values()).count("")
    if undecided:
        print(f"{count(undecided, 'proposed known item')} not confirmed: raters who come now do not"
              " see them. Confirm them on the organiser's page first", file=sys.stderr)  # fmt: skip


def _recruit(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        if args.completion or args.back:
            study.complete_with(args.completion, args.back)
        code = study.recruit()
        _warn_of_proposals(study)
    page = f"rate?participant={args.participant.replace('%%', '%')}"
    print(link_of(args.url, page, code))
    return 0


def _status(args: argparse.Namespace) -> int:
    with Study(args.study, write=False) as study:
        now = progress(study)
    if args.json:
        print(json.dumps(now, ensure_ascii=False, indent=1))
        return 0
    s = now["study"]
    print(f"{s['state']}: {count(s['items'], 'item')}, {count(s['ratings'], unit_of(s))};"
          f" {rated_line(s)}")  # fmt: skip
    for r in now["raters"]:
        marks = ", ".join(r.get("reasons", [])) or ("revoked" if r["revoked"] else "")
        print(f"{r['rater']}  {r['done']}/{r['screens']}  {marks}".rstrip())
    for fork in now["forks"]:
        print(fork["text"])
    if now["half_width"] is not None:
        print(f"interval of the difference: ± {now['half_width']:.2f}")
    return 0


def _report(args: argparse.Namespace) -> int:
    with Study(args.study, write=False) as study:
        result = figures(study)
    if args.format == "json":
        text = json.dumps(result, ensure_ascii=False, indent=1) + "\n"
    else:
        text = markdown(result) if args.format == "md" else html_page(result)
    if args.out is None:
        print(text, end="")
        return 0
    try:
        args.out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OptionError(
            f"{str(args.out)[:200]!r} cannot be written ({error.strerror})", "Choose another place"
        ) from error
    return 0


def _export(args: argparse.Namespace) -> int:
    with Study(args.study, write=False) as study:
        events = export(study, args.format, args.out, args.participants)
    print(f"{count(events, 'event')} written to {args.out}")
    return 0


def _check(args: argparse.Namespace) -> int:
    try:
        print(as_line(check_study(args.study)))
    except (StudyError, sqlite3.DatabaseError) as error:
        print(f"damaged: {visible(str(error))}", file=sys.stderr)
        return 1
    return 0


def _copy(args: argparse.Namespace) -> int:
    if args.to.exists():
        raise OptionError(f"{args.to.name[:200]!r} exists", "Choose another name")
    with Study(args.study, write=False) as study:
        study.copy_to(args.to)
    return 0


def _merge(args: argparse.Namespace) -> int:
    shards = [path for path in args.branches if path.suffix == ".jsonl"]
    with Study(args.study) as study:
        rows = read_shards(_bytes(path) for path in shards)
        for path in args.branches:
            if path not in shards:
                with Study(path, write=False) as other:
                    if other.preregistration_sha256 != study.preregistration_sha256:
                        raise OptionError(
                            f"{path.name[:200]!r} is another study", "Give a copy of the same one"
                        )
                    rows += read_rows(other)
        for line in merge(study, rows).lines():
            print(line)
    return 0


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OptionError(
            f"{str(path)[:200]!r} cannot be read ({error.strerror})", "Give a file of the mirror"
        ) from error


def _reveal(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        reveal(study, args.out)
    print(f"{args.out} opens {preregistration_path(args.study).name}: publish both")
    return 0


def _verify(args: argparse.Namespace) -> int:
    text, revealed = read_text(args.preregistration), read_reveal(args.reveal)
    try:
        items = verify(text, revealed)
        if args.study is not None:
            with Study(args.study, write=False) as study:
                check_media(study, items)
    except StudyError as error:
        print(f"does not fit: {visible(str(error))}", file=sys.stderr)
        return 1
    pictures = "" if args.study is None else ", and the study holds their pictures"
    print(f"fits: {count(len(items), 'item')} as preregistered{pictures}")
    return 0


def _simulate(args: argparse.Namespace) -> int:
    with Study(args.study) as study:
        for number, habit in enumerate(simulate(study, args.seed, args.effect), 1):
            print(f"{number}: {habit}")
    return 0
