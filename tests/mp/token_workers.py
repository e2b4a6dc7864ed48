"""Importable functions for the workers of test_token_files.py."""

import numpy as np

import recstore


def send_tokens(connection, t, w):
    connection.send((t.gather(np.arange(len(t))).tolist(), t.lengths[:].tolist(), w[[0, len(w) - 1]].tolist()))


def open_and_count(path, barrier, queue):
    barrier.wait(60)
    with recstore.open_tokens(path, dtype="uint16", end=0, keep=False) as t:
        queue.put((len(t), t._groups[0].ends.store().segment.identity))
        barrier.wait(60)
