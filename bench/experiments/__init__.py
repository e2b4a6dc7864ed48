"""The suite `experiments`: published experiments about the memory of data loader workers.

It repeats the experiments of Yuxin Wu's "Demystify RAM Usage in Multi-Process Data Loaders" (2022,
https://ppwwyyxx.com/blog/2022/Demystify-RAM-Usage-in-Multiprocess-DataLoader/) and adds recstore as a container, a
loader that is faster than its consumer, and a job as large as one in a public report. docs/experiments.md has the
results.

`program.py` is the measured program, with the containers of `containers.py`. `suite.py` starts the programs in turn and
makes the rows; `sampling.py` samples the processes of a program. `backlog.py` is the loader and its consumer, and
`paths.py` the job of the report. `figures.py` draws the plots, and `page.py` makes the tables.
"""
