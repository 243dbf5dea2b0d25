"""What a server allows: one frozen object, made from the command line and the environment.

What it keeps when it is restarted lies in a bucket that is mounted at /data, where there is one: a
Space forgets its disk with every restart.
"""

from __future__ import annotations

import argparse
import importlib.util
import ipaddress
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, get_args

from macd_studio.commands import parser as command_line
from macd_studio.core.backbones.remote_address import is_remote, read_address
from macd_studio.core.backbones.weights_options import Weights, WeightsOptions
from macd_studio.core.cli.flags import add_version
from macd_studio.core.embedded import AUTO, EMBEDDED, REAL_DETECTOR, SHIPPED
from macd_studio.core.errors import OptionError
from macd_studio.core.objects.registry import COLOURS, check_segmenter, named
from macd_studio.core.options import RunOptions, VideoOptions
from macd_studio.macd_ui.limits import MAX_VISITORS, ORDINARY, KeptLimits, VisitorLimits, Whose
from macd_studio.macd_ui.place import ANYWHERE, Place, read_place
from macd_studio.macd_ui.storage import data_folder, gallery_in

PORT = 7860
LOOPBACK = ("localhost", "127.0.0.1", "::1")
ANY_ADDRESS = ("0.0.0.0", "::", "")
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
PRIVATE = tuple(
    ipaddress.ip_network(text)
    for text in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16",
        "127.0.0.0/8", "::1/128", "fc00::/7", "fe80::/10",
    )
)  # fmt: skip
"""Addresses of no visitor from outside: where a Space's proxies are."""

LIMITS: dict[str, float] = {
    "video.frames": 32,
    "video.dense_fps": 15,
    "video.dense_limit": 400,
    "video.max_seconds": 600,
    "detect.image_size": 1280,
    "detect.max_per_frame": 100,
    "track.max_tracks": 40,
    "ascent.steps": 20,
    "decode.max_tokens": 256,
    "decode.max_thought": 1024,
    "decode.beams": 8,
    "decode.samples": 16,
    "decode.keep": 512,
}
"""The most that one run may ask for on a server that others use too, by the option's path."""


KEPT_SHARED = KeptLimits(512 * 10**6, 2 * 10**9)
SHARED_FILE_MB = 100.0
"""Megabytes of the largest file that others may upload; on one's own machine the option counts."""
KEPT_ALONE = KeptLimits(8 * 10**9, 8 * 10**9)
"""Where only the person who started the server uses it."""


EMBEDDED_BACKBONES = (AUTO, *SHIPPED)
EMBEDDED_DETECTORS = (AUTO, REAL_DETECTOR, EMBEDDED, *named("nothing"))
"""What every server offers: none of these needs a download."""


@dataclass(frozen=True)
class ServerSettings:
    """What this server allows, and to whom."""

    host: str = "127.0.0.1"
    port: int = PORT
    public: bool = False
    """Whether anybody may use it: models are chosen from a list, options and time are bounded."""
    space: bool = False
    """Whether it runs as a Hugging Face Space, whose pages are shown inside those of
    huggingface.co."""
    hosts: tuple[str, ...] = ()
    """Names and addresses beside loopback that the page may be asked for by."""
    auth: str | None = None
    backbones: tuple[str, ...] = EMBEDDED_BACKBONES
    detectors: tuple[str, ...] = EMBEDDED_DETECTORS
    segmenters: tuple[str, ...] = (COLOURS,)
    """`backbones`, `detectors` and `segmenters`: what visitors of a public server may choose."""
    run_seconds: float = 120.0
    """The longest that one public run may compute."""
    visitor: VisitorLimits = ORDINARY
    log_content: bool = False
    """Whether questions, file names and error texts are logged."""
    study: str | None = None
    """A study file whose raters are served."""
    only_study: bool = False
    """Whether all but the pages of the study is the organiser's."""
    gallery: str | None = None
    """A folder of traces that everybody who sees the page may see; None: the examples."""
    gallery_dataset: str | None = None
    """A dataset on the hub whose traces are that folder."""
    mcp: bool = False
    """Whether programs of this machine may use it as an MCP server."""
    gpu_quota: bool = False
    """Whether runs are charged to a quota of the visitor, as on a Space whose GPUs are shared."""
    study_dataset: str | None = None
    """A dataset on the hub that keeps the ratings of the study where the disk does not last."""
    study_login: bool = False
    """Whether anybody who signs in with an account of the hub may rate without an invitation."""
    results: str | None = None
    """A report folder that everybody who sees the page may see; None: no results."""
    proxies: tuple[Network, ...] = ()
    """Networks of the proxies before this server, which are believed when they say for whom, for
    which host and by which protocol they ask."""
    kept_mb: float | None = None
    """Megabytes of memory that tabs may keep between clicks, all together; None: see `kept`."""
    weights: Weights = "as-is"
    """How real backbones are quantised when they are loaded."""
    offload: bool = False
    """Whether what does not fit the device is kept off it."""
    max_megabytes: float | None = None
    """Size of the largest file that is taken; None: see `largest_mb`."""
    visitors_per_address: int = 1
    """How many people one address stands for, as that of a school does."""
    place: Place = ANYWHERE
    """The address of the page, where a proxy shows it below a path or by another host."""

    @property
    def largest_mb(self) -> float:
        """Megabytes of the largest file that is taken."""
        if self.max_megabytes is not None:
            return self.max_megabytes
        return SHARED_FILE_MB if self.shared else VideoOptions().max_megabytes

    @property
    def limits(self) -> VisitorLimits | None:
        """What an address may use, or a user who logs in; None: as much as there is."""
        if not self.public:
            return None
        return self.visitor.times(self.people)

    @property
    def people(self) -> int:
        """How many people that is for."""
        return 1 if self.auth else self.visitors_per_address

    @property
    def whose(self) -> Whose:
        """For whom that is counted."""
        return Whose(self.auth is not None)

    @property
    def kept(self) -> KeptLimits:
        """What all sessions together may keep between clicks."""
        limits = KEPT_SHARED if self.shared else KEPT_ALONE
        if self.kept_mb is None:
            return limits
        return replace(limits, memory=int(self.kept_mb * 1e6))

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def shared(self) -> bool:
        """Whether others than the person who started it may use it."""
        return self.public or not self.loopback

    @property
    def time_limit_s(self) -> float | None:
        """The longest that a run may compute; None: as long as it takes."""
        return self.run_seconds if self.public else None

    def allows_host(self, name: str) -> bool:
        """Whether a request for this host is answered. name: without a port, in lower case."""
        return is_loopback(name) or name in self.hosts

    def check_models(self, backbone: str, detector: str) -> None:
        """Raises OptionError for a model that visitors may not choose; nothing is opened for it.

        A server that holds a backbone is asked only where it was named at the start.
        """
        if is_remote(backbone) and backbone not in self.backbones:
            raise OptionError(
                f"this page does not ask the server {backbone[:80]!r}",
                "Name it when the page is started: --backbone vllm:http://HOST:PORT",
            )
        if not self.public:
            return
        for kind, name, offered in (
            ("backbone", backbone, self.backbones),
            ("detector", detector, self.detectors),
        ):
            if name not in offered:
                raise self._not_offered(kind, name, offered)

    def check_segmenter(self, name: str) -> None:
        """Raises OptionError for a segmenter not offered here, DetectorError for no segmenter."""
        check_segmenter(name)
        if self.public and name not in self.segmenters:
            raise self._not_offered("segmenter", name, self.segmenters)

    @staticmethod
    def _not_offered(kind: str, name: str, offered: Sequence[str]) -> OptionError:
        return OptionError(
            f"this public page does not offer the {kind} {name[:80]!r}",
            f"Choose {' or '.join(offered)}, or run the project on a machine of your own",
        )


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    if host in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_limits(options: RunOptions) -> None:
    """Raises OptionError where a run asks for more than LIMITS."""
    requested: dict[str, Any] = {path: reduce(getattr, path.split("."), options) for path in LIMITS}
    if options.video.at:
        requested["video.frames"] = len(options.video.at)
    for path, most in LIMITS.items():
        value = requested[path]
        if isinstance(value, int | float) and value > most:
            raise OptionError(
                f"{path} is {value:g}",
                f"Choose at most {most:g} here, or run the project on a machine of your own",
            )


def _network_of(text: str) -> Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither an address nor a network; give one such as 10.0.0.0/8"
        ) from None


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is not a port; choose one from 1 to 65535")
    return number


def _people(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MAX_VISITORS:
        raise argparse.ArgumentTypeError(f"{text} is no number of people from 1 to {MAX_VISITORS}")
    return number


def _place(text: str) -> Place:
    try:
        return read_place(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _megabytes(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1e7:
        raise argparse.ArgumentTypeError(f"{text} is no number of megabytes from 0 to 10,000,000")
    return number


def _folder(text: str) -> str:
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"there is no folder {text!r}; create it or name another")
    return text


def _add_options(parser: argparse.ArgumentParser, env: Mapping[str, str], space: bool) -> None:
    # fmt: off
    def add(name: str, metavar: str, default: Any, help: str, **more: Any) -> None:
        parser.add_argument(name, metavar=metavar, default=default, help=help, **more)

    def switch(name: str, default: bool, help: str) -> None:
        parser.add_argument(name, action="store_true", default=default, help=help)

    add("--host", "HOST", env.get("GRADIO_SERVER_NAME") or None, "address to listen on (default:"
        " GRADIO_SERVER_NAME, else 127.0.0.1; all addresses with --class, and on a Space)")
    add("--port", "PORT", env.get("GRADIO_SERVER_PORT") or str(PORT),
        "port to listen on (default: GRADIO_SERVER_PORT or %(default)s)", type=_port)
    switch("--public", space, "for strangers: models from a list, bounded options, limits for each"
           " visitor; always on in a Hugging Face Space")
    add("--allow-host", "NAME", [], "a name or address that the page may be asked for by, beside"
        " loopback; repeatable", action="append")
    add("--trusted-proxy", "NETWORK", [], "address or network of a proxy before this server, whose"
        " X-Forwarded-For, -Host and -Proto are believed; repeatable (default:"
        " MACD_TRUSTED_PROXIES, separated by commas; on a Space: private networks)",
        action="append", type=_network_of)
    add("--root-path", "ADDRESS", env.get("GRADIO_ROOT_PATH", ""), "the page's address as a browser"
        " shows it, or its path, where a proxy shows it below a path or by another host:"
        " https://hub.example/user/ada/proxy/7860; allows that host and its pages (default:"
        " GRADIO_ROOT_PATH)", type=_place)
    add("--visitors-per-address", "N", env.get("MACD_VISITORS_PER_ADDRESS") or None, "how many"
        " people one address stands for, as that of a school does: it has so many times the limits"
        " of a visitor (default: MACD_VISITORS_PER_ADDRESS, else 1)", type=_people)
    add("--class", "N", None, "for N people behind one address, as in a classroom: the same as"
        " --public --host 0.0.0.0 --visitors-per-address N, and the addresses of this machine may"
        " be typed", type=_people, dest="group")
    add("--auth", "FILE", env.get("MACD_AUTH"), "only users of this file may log in; `python -m"
        " macd_ui.serving.passwords FILE USER` adds one")
    for kind, beside in (
        ("backbone", "everyday and toyworld"), ("detector", f"{REAL_DETECTOR} and {EMBEDDED}"),
        ("segmenter", COLOURS),
    ):
        listed = f"MACD_{kind.upper()}S"
        add(f"--{kind}", "NAME", _listed(env.get(listed)), f"a {kind} that visitors of a public"
            f" page may choose beside {beside}; repeatable (default: {listed}, separated by"
            " commas)", action="append")
    add("--weights", "HOW", env.get("MACD_WEIGHTS") or "as-is", "quantise backbones with"
        " bitsandbytes while they are read: nf4, int8 or as-is (default: MACD_WEIGHTS, else as-is)",
        choices=get_args(Weights))
    switch("--offload", _is_true(env.get("MACD_OFFLOAD")), "keep on the host or on disk what does"
           " not fit the device, which is slow (default: MACD_OFFLOAD)")
    add("--keep-mb", "N", env.get("MACD_KEEP_MB"), "megabytes of memory that all tabs together may"
        " keep between clicks; more goes into files or is computed again (default: MACD_KEEP_MB,"
        " else 512 where others use the server, else 8000)", type=_megabytes)
    add("--max-megabytes", "N", env.get("MACD_MAX_MEGABYTES"), "megabytes of the largest file that"
        " may be uploaded (default: MACD_MAX_MEGABYTES, else 100 where others use the server, else"
        " 4000); at most 100 on a public page", type=_megabytes)
    switch("--log-content", False, "write questions, file names and the texts of errors to the log"
           " too")
    add("--study", "STUDY.db", env.get("MACD_STUDY"), "let raters rate at /rate: a file of `python"
        " -m ratings create`; the organiser's page is /organise")
    switch("--only-study", _is_true(env.get("MACD_ONLY_STUDY")), "with --study: every other page"
           " opens in a browser that has shown the organiser's link, and in no other")
    add("--gallery", "FOLDER", env.get("MACD_GALLERY") or gallery_in(data_folder(env)),
        "traces that /gallery shows to everybody who sees the page (default: MACD_GALLERY, else"
        " `gallery` in a Space's bucket, else the shipped examples)", type=_folder)
    add("--gallery-dataset", "OWNER/NAME", env.get("MACD_GALLERY_DATASET") or None, "a dataset on"
        " the hub whose traces /gallery shows instead, fetched at the start: for a Space without a"
        " bucket (default: MACD_GALLERY_DATASET; token: HF_TOKEN)")
    add("--results", "FOLDER", env.get("MACD_RESULTS") or None, "a report of `python -m evals run`"
        " that /results shows to everybody who sees the page (default: MACD_RESULTS)", type=_folder)
    add("--study-dataset", "OWNER/NAME", env.get("MACD_STUDY_DATASET"), "a dataset on the hub that"
        " keeps the study's ratings: for a Space, whose disk does not last (token: HF_TOKEN)")
    switch("--study-login", _is_true(env.get("MACD_STUDY_LOGIN")), "whoever signs in with an"
           " account of the hub may rate, beside those who are invited: for a Space with"
           " hf_oauth: true")
    switch("--mcp", False, "serve tools to MCP clients of this machine too, at /gradio_api/mcp/;"
           " needs the extra packages of requirements-mcp.txt")
    # fmt: on


def read_settings(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> ServerSettings:
    """The settings from the command line, with defaults from the environment.

    A Space (SPACE_ID is set) is public and listens on every address.
    """
    env = os.environ if environment is None else environment
    space = bool(env.get("SPACE_ID"))
    parser = command_line("macd_ui", "Serves the page on this machine, or to others.")
    add_version(parser)
    _add_options(parser, env, space)
    args = parser.parse_args(arguments)
    open_to_all = space or args.group is not None
    args.public = args.public or args.group is not None
    args.host = args.host or (ANY_ADDRESS[0] if open_to_all else "127.0.0.1")
    try:
        WeightsOptions(args.weights, args.offload)
    except OptionError as error:
        parser.error(str(error))
    try:
        proxies = args.trusted_proxy or [
            _network_of(text) for text in _listed(env.get("MACD_TRUSTED_PROXIES"))
        ]
    except argparse.ArgumentTypeError as error:
        parser.error(f"MACD_TRUSTED_PROXIES: {error}")
    if args.mcp:
        if args.public or args.auth or not is_loopback(args.host):
            parser.error("--mcp opens files of this machine: not with --public, --auth or --host")
        if importlib.util.find_spec("mcp") is None:
            parser.error(
                "--mcp needs the package mcp, in an environment of its own: `make mcp`, or"
                " pip install -r requirements-mcp.txt into a new one"
            )
    if args.public and (args.max_megabytes or 0) > SHARED_FILE_MB:
        parser.error(f"a public page takes files of at most {SHARED_FILE_MB:g} MB")
    hosts = [*args.allow_host, *_listed(env.get("SPACE_HOST"))]
    if args.root_path.host:
        hosts.append(args.root_path.host)
    if args.host not in ANY_ADDRESS:
        hosts.append(args.host)
    elif args.group is not None:
        hosts += own_addresses()
    same = ("host", "port", "public", "auth", "log_content", "study", "study_dataset", "gallery",
            "gallery_dataset", "results", "mcp", "weights", "max_megabytes",
            "offload")  # fmt: skip
    for name in filter(is_remote, args.backbone):
        read_address(name)
    return ServerSettings(
        **{name: getattr(args, name) for name in same},
        space=space,
        hosts=tuple(h.lower().strip("[]") for h in hosts),
        backbones=tuple(dict.fromkeys([*EMBEDDED_BACKBONES, *args.backbone])),
        detectors=tuple(dict.fromkeys([*EMBEDDED_DETECTORS, *args.detector])),
        segmenters=tuple(dict.fromkeys([COLOURS, *args.segmenter])),
        study_login=args.study is not None and args.study_login,
        only_study=args.study is not None and args.only_study,
        proxies=tuple(proxies or (PRIVATE if space else ())),
        kept_mb=args.keep_mb,
        place=args.root_path,
        visitors_per_address=args.visitors_per_address or args.group or 1,
        gpu_quota=space and _is_true(env.get("SPACES_ZERO_GPU")),
    )


def own_addresses() -> list[str]:
    """Addresses by which other machines of its networks reach this one. Sends nothing.

    An address, unlike a name, cannot be made to lead here from another site's page.
    """
    found: list[str] = []
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((elsewhere, 9))  # chooses a way there, and asks nobody
            found.append(way.getsockname()[0])
    with suppress(OSError):
        found += [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)]
    return [one for one in dict.fromkeys(found) if "%" not in one and not is_loopback(one)]


def _is_true(text: str | None) -> bool:
    return (text or "").lower() in ("1", "t", "true")


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
