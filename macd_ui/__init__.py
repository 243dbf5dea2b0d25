"""The page. Only this package knows Gradio; it reads traces and never computes the method."""

import os
import sys

from macd_studio.macd_ui.gradio_stubs import skip_stubs

# before Gradio is first imported, whichever way the server was started
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
skip_stubs()


def main() -> None:
    """The command `macd-studio`: the page, where its extra is installed."""
    from macd_studio.macd_ui.serving.server import main as serve

    try:
        serve()
    except ModuleNotFoundError as error:
        if error.name != "gradio":
            raise
        sys.exit("The page needs Gradio. Install it: pip install 'macd-studio[page]'")
