"""Starts the page, serves it until a signal comes, and ends without losing what was computed."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from macd_studio.core.embedded import AUTO, SHIPPED
from macd_studio.core.errors import MacdError, OptionError
from macd_studio.core.system.process import configure_process, keep_heaps_small
from macd_studio.macd_ui.settings import ANY_ADDRESS, ServerSettings, read_settings
from macd_studio.macd_ui.storage import data_folder, set_up, temporary_folder

DRAIN_S = 10.0
"""How long running jobs may take to stop, and their visitors to be informed, seconds."""
END_S = 27.0
"""The longest from a signal to the end; a Space and most service managers kill after 30 s."""


class Stopped(BaseException):
    """A signal came while the server was starting. No `except Exception` of a library takes it."""


class Stop:
    """Whether the server was told to end, by a signal.

    A handler runs between any two steps of the main thread, so it may take no lock: the main thread
    could hold it, as it does at times while it waits for a `threading.Event`.
    """

    def __init__(self) -> None:
        self.requested = False
        self.starting = True

    def request(self, *_: object) -> None:
        """The handler: ends a start at once, which otherwise goes on through every import and
        download. Whatever hangs afterwards is written to stderr and ends with the process.
        """
        if not self.requested:
            self.requested = True
            faulthandler.dump_traceback_later(END_S, exit=True)
        if self.starting:
            self.starting = False  # what comes now is cleaning up
            raise Stopped


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves the page as the command line says; returns after SIGTERM or SIGINT."""
    stop = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop.request)
    configure_process()
    try:
        settings = read_settings(arguments)
        temporary_folder()  # before Gradio is imported, which looks for one and fails
        set_up(data_folder())
        settings = with_gallery(settings)
        for line in warnings_of(settings):
            print(line, file=sys.stderr)
        serve(settings, stop)
    except MacdError as error:
        raise SystemExit(f"error: {error}") from None
    except Stopped:  # before there was anything to close
        os._exit(0)


def with_gallery(settings: ServerSettings) -> ServerSettings:
    """The settings with the traces of the gallery's dataset, if one is named.

    A hub that fails holds up no start: what was there without it is shown. Raises OptionError for
    what is not the name of a dataset.
    """
    if settings.gallery_dataset is None:
        return settings
    from macd_studio.macd_ui.gallery.dataset import DatasetError, pull

    try:
        return replace(settings, gallery=str(pull(settings.gallery_dataset)))
    except DatasetError as error:
        print(f"warning: {error}", file=sys.stderr)
        return settings


def with_models(settings: ServerSettings) -> ServerSettings:
    """The settings with those listed models of a public server that are on its disk.

    What is not is downloaded first, before there are visitors; from then on nothing is. A model
    that cannot be had is left out with a warning, and holds up no start.
    """
    if not settings.public:
        return settings
    from macd_studio.core.backbones.load import fetch_backbone
    from macd_studio.core.objects.detect import load_detector
    from macd_studio.core.objects.segment import load_segmenter
    from macd_studio.core.system import hub

    def had(kind: str, names: Sequence[str], fetch: Callable[[str], Any]) -> Iterator[str]:
        for name in names:
            if name == AUTO:
                yield name
                continue
            try:
                fetch(name)
            except MacdError as error:
                print(f"warning: the {kind} {name} is not offered: {error}", file=sys.stderr)
            else:
                yield name

    def fetch_held(name: str) -> str:
        if name in SHIPPED:
            return fetch_backbone(name)
        return fetch_backbone(name, weights=settings.weights, offload=settings.offload)

    backbones = tuple(had("backbone", settings.backbones, fetch_held))
    detectors = tuple(had("detector", settings.detectors, load_detector))
    segmenters = tuple(had("segmenter", settings.segmenters, load_segmenter))
    hub.close()
    return replace(settings, backbones=backbones, detectors=detectors, segmenters=segmenters)


def warnings_of(settings: ServerSettings) -> list[str]:
    """What the server's operator should know, in lines."""
    lines = []
    if not settings.loopback and not settings.public:
        lines.append(
            f"warning: {settings.host} can be reached from other machines. Whoever reaches it can"
            " load any model and open files of this machine as models. Use --public for strangers,"
            " --auth FILE for a known group."
        )
    if settings.host in ANY_ADDRESS and not settings.hosts:
        lines.append(
            "warning: only requests for localhost are answered. Name what visitors will type:"
            " --allow-host NAME."
        )
    elif settings.host in ANY_ADDRESS and not settings.space:
        named = (f"[{host}]" if ":" in host else host for host in settings.hosts)
        pages = (f"http://{host}:{settings.port}" for host in named)
        lines.append(f"From other machines: {', '.join(pages)}")
    if settings.people > 1:
        lines.append(
            f"Each address has the limits of {settings.people} visitors (docs/security.md)."
        )
    return lines


def serve(settings: ServerSettings, stop: Stop) -> None:
    """Serves until it is told to stop; the runs of visitors are then stopped and shown as far as
    they are. Raises Stopped where it had not started yet.

    Raises OptionError where the port or the file of users cannot be used, a MacdError for a study
    that cannot be opened.
    """
    from macd_studio.macd_ui import (
        zerogpu,  # first: it imports `spaces`, which must come before torch
    )
    from macd_studio.macd_ui.layout import QUEUE, build_page, launch_options
    from macd_studio.macd_ui.serving.logs import set_up_logging
    from macd_studio.macd_ui.serving.states import TabStates
    from macd_studio.macd_ui.serving.study import open_site
    from macd_studio.macd_ui.store import Store

    keep_heaps_small()
    set_up_logging(settings.log_content)
    settings = with_models(settings)
    site = open_site(settings)
    store = Store(settings=settings)
    # the settings that ultralytics writes go with the server, also where it is killed
    os.environ.setdefault("YOLO_CONFIG_DIR", str(store.folder.path / "ultralytics"))
    store.site = site
    page: Any = None
    try:
        page = build_page(store).queue(max_size=QUEUE, default_concurrency_limit=8)
        store.tab_states = TabStates(page)
        options = launch_options(store)
        if zerogpu.active():  # before the first fork; trying them out would need a GPU
            zerogpu.load_models(store)
        try:
            page.launch(
                server_name=settings.host,
                server_port=settings.port,
                prevent_thread_lock=True,
                **options,
            )
        except OSError as error:
            raise OptionError(
                f"port {settings.port} cannot be used ({error})", "Choose another: --port N"
            ) from error
        if not zerogpu.active():
            store.warm_up()  # after the port is open: it would take processor time from the launch
        stop.starting = False
        while not stop.requested:
            time.sleep(0.2)
        store.drain(DRAIN_S)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one must not keep files
            signal.signal(number, signal.SIG_IGN)
        if page is not None and getattr(page, "is_running", False):
            page.close(verbose=False)
        store.close()
        if site is not None:
            site.close()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0) if stop.requested else None  # threads of libraries must not hold it up
