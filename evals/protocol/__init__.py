"""What an evaluation was computed from, as a file, and what makes two figures differ.

record.py      a run → protocol.json
border.py      protocol.json of anybody → checked values
figure.py      what two figures have in common: answers, judged question by question
inputs.py      folders of ours, samples of lmms-eval, predictions, rows of a paper → figures
drawn.py       folders of runs over drawn clips → figures
causes.py      where two protocols differ, question by question, as named causes
split.py       the difference of two figures → shares of causes
stated.py      what figures say of themselves, and a printed one beside ours
jobs.py        some questions answered in one setting, here or by another Python
folders.py     whether models' folders still hold what was recorded
switch.py      the setting of a figure with one cause of the other's
rerun.py       what only a new run can tell apart, on some of the questions
untold.py      what no run here can tell apart, with the reason
show.py        the shares as Markdown and as a page
"""
