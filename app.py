"""Starts the page: `python app.py [--host H] [--port P]`; also a Hugging Face Space's entry."""

from __future__ import annotations

import argparse
import os
import signal
from typing import Any

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")


def main() -> None:
    """Serves on 127.0.0.1:7860 unless told otherwise; a Space must listen on every address."""
    space = bool(os.environ.get("SPACE_ID"))
    host = os.environ.get("GRADIO_SERVER_NAME") or ("0.0.0.0" if space else "127.0.0.1")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default=host, help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=None, help="default: GRADIO_SERVER_PORT or 7860"
    )
    args = parser.parse_args()

    from macd_ui.layout import QUEUE, build_page, launch_options
    from macd_ui.session import Store

    signal.signal(signal.SIGTERM, _end)
    port = args.port or int(os.environ.get("GRADIO_SERVER_PORT") or 7860)
    store = Store()
    try:
        page = build_page(store).queue(max_size=QUEUE, default_concurrency_limit=8)
        store.warm_up()
        page.launch(server_name=args.host, server_port=port, **launch_options(store))
    except KeyboardInterrupt:
        pass
    except OSError as error:
        raise SystemExit(
            f"port {port} cannot be used ({error}); choose another: --port N"
        ) from None
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one must not keep files
            signal.signal(number, signal.SIG_IGN)
        store.close()


def _end(*_: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
