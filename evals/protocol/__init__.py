"""What an evaluation was computed from, as a file, and what makes two figures differ.

record.py      a run → protocol.json
bounds.py      protocol.json of anybody → checked values
figure.py      a figure: answers to questions, how they are judged, and their source
same.py        whether two figures answer the same questions
inputs.py      folders of ours, samples of lmms-eval, predictions, rows of a paper → figures
lmms.py        samples of lmms-eval, as files
causes.py      where two protocols differ, question by question, as named causes
split.py       the difference of two figures → shares of causes
jobs.py        some questions answered in one setting, here or by another Python
switch.py      the setting of a figure with one cause of the other's
rerun.py       what only a new run can tell apart, on some of the questions
show.py        the shares as Markdown and as a page, and what figures say of themselves
"""
