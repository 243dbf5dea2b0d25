"""Starts the page: `python app.py --help`; also a Hugging Face Space's entry."""

from __future__ import annotations

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

if __name__ == "__main__":
    from macd_studio.macd_ui.serving.server import main

    main()
