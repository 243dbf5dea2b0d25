"""The frame of every page, and the parts of a report as Markdown and HTML."""
