"""The page. Only this package knows Gradio; it reads traces and never computes the method."""
