"""Does a method beat what looks at nothing? Two sets of answers against trivial controls.

answers.py    two figures → the same questions, what was said to each, and scores where known
controls.py   what trivial rules get on the same questions
findings.py   leads over them with intervals and tests, the cause, power, and one sentence
printed.py    the same of printed rows whose counts are known
show.py       a page as Markdown, plain data, and rows to paste in a paper
"""
