"""The rating study: annotators judge masks blind, and no acknowledged rating is lost.

`python -m ratings` makes a study file from traces, invites raters and reports; the page serves it
(`ratings.web`, mounted by `macd_ui`). Knows neither torch nor Gradio. docs/rating.md.
"""
