"""The lessons: a course in nine chapters over precomputed traces, served at `/learn`.

A chapter is one file, `chapters/LANGUAGE/NN-name.toml`; `chapters` says what it may contain. Its
figures are placeholders that `lessons` fills in, from the toy world's report (`figures`), the
example traces (`roles`) and what `toyworld.make_lessons` computed. `site` makes the files of the
page, which need no server; `python -m macd_ui.learn OUT` writes them.
"""
