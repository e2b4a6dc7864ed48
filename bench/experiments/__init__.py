"""The suite `experiments`: the published experiments about memory in the workers of a data loader, run here.

They are those of Yuxin Wu's "Demystify RAM Usage in Multi-Process Data Loaders" (2022,
https://ppwwyyxx.com/blog/2022/Demystify-RAM-Usage-in-Multiprocess-DataLoader/), with recstore as one more container;
a loader that is faster than its consumer; and a job as large as one in a public report. docs/experiments.md has the
results.

`program.py` is the program that is measured, `containers.py` the ways in which it holds its records. `suite.py` starts
one program after another and makes the rows, `sampling.py` samples a program's processes from outside. `backlog.py` is
the loader and its consumer, `paths.py` the job of the report. `figures.py` draws, `page.py` makes the tables.
"""
