"""The method: from a clip and a question to a `Trace`. Knows neither Gradio nor any benchmark."""
