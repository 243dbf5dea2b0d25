"""The page. Only this package knows Gradio; it reads traces and never computes the method."""

import os

# before Gradio is first imported, whichever way the server was started
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
