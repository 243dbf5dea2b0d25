"""Starts the page: `python app.py [--host H] [--port P]`; also a Hugging Face Space's entry."""

from __future__ import annotations

import argparse
import os

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

    from macd_ui.layout import build_page, launch_options
    from macd_ui.session import Store

    store = Store()
    page = build_page(store).queue(max_size=16, default_concurrency_limit=4)
    store.warm_up()
    port = args.port or int(os.environ.get("GRADIO_SERVER_PORT") or 7860)
    try:
        page.launch(server_name=args.host, server_port=port, **launch_options())
    except OSError as error:
        raise SystemExit(
            f"port {port} cannot be used ({error}); choose another: --port N"
        ) from None
    finally:
        store.close()


if __name__ == "__main__":
    main()
