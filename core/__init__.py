"""The method: from a clip and a question to a `Trace`.

Knows neither Gradio nor plotting nor any benchmark. Importing this package imports nothing heavy;
`core.traces.bundle` opens a saved trace without torch.
"""
