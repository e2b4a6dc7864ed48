"""The program of an experiment. sampling.py starts it. It reads its arguments from standard input, writes messages to
standard output, and waits for a message before it ends. Arguments and messages are pickles.

A rank makes its records, then starts workers. As in the published programs, each worker reads every record in order and
pickles it, which touches all of its values. All processes stay alive until the last measurement of memory. With one
rank the program itself is the rank. With more it spawns them, as detectron2's launcher does.

Spawned workers import this file, so its top imports only modules that they load anyway.
"""

import multiprocessing
import os
import pickle
import sys


def work(records, imports, pipe, parent):
    """The program of a worker.

    Args:
        records: any sequence.
        imports: names of modules that the top of a user's program imports.
        pipe: receives the number of records; a message from it ends the worker.
        parent: the pid of the rank; the worker ends if its parent has another pid. None under forkserver.
    """
    for module in imports:
        __import__(module)
    for index in range(len(records)):
        pickle.dumps(records[index])
    pipe.send(len(records))
    # Forked workers keep each other's pipes open, so this pipe may stay open after the parent has ended.
    while not pipe.poll(0.5):
        if parent is not None and os.getppid() != parent:
            os._exit(1)


def be_rank(arguments, number, pipe, beside):
    """The program of a rank.

    Args:
        arguments: the arguments of the experiment; see `measure` in suite.py.
        number: the number of the rank.
        pipe: a connection to the launcher or, with one rank, to sampling.py.
        beside: this rank's end of a pipe from rank 0 to rank 1; None with one rank.
    """
    import containers

    records = containers.make(arguments, number, beside)
    pipe.send({"made": len(records), "store": getattr(records, "nbytes", 0), "rank": number, "pid": os.getpid()})
    context = multiprocessing.get_context(arguments["method"])
    if arguments["method"] == "forkserver":
        context.set_forkserver_preload(arguments["preload"])
    parent = None if arguments["method"] == "forkserver" else os.getpid()
    children = []
    try:
        for worker in range(arguments["workers"]):
            worker_pipe, child_pipe = context.Pipe()
            process = context.Process(
                target=work, args=(records, arguments["imports"], child_pipe, parent), daemon=True
            )
            process.start()
            child_pipe.close()
            children.append((process, worker_pipe))
            pipe.send({"worker": worker, "rank": number, "pid": process.pid})
        pipe.send({"read": sum(worker_pipe.recv() for _, worker_pipe in children), "rank": number})
        pipe.recv()
        for _, worker_pipe in children:
            worker_pipe.send("end")
        for process, _ in children:
            process.join()
    finally:
        for process, _ in children:
            if process.is_alive():
                process.terminate()


class Terminal:
    """Standard input and output as a connection."""

    def send(self, message):
        pickle.dump(message, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    def recv(self):
        return pickle.load(sys.stdin.buffer)


def be_launcher(arguments, runner):
    """Starts the ranks and forwards their messages."""
    from multiprocessing.connection import wait

    context = multiprocessing.get_context("spawn")
    first, second = context.Pipe()
    ends = [first, second] + [None] * arguments["ranks"]
    ranks = {}
    try:
        for number in range(arguments["ranks"]):
            rank_pipe, child_pipe = context.Pipe()
            process = context.Process(target=be_rank, args=(arguments, number, child_pipe, ends[number]))
            process.start()
            child_pipe.close()
            ranks[rank_pipe] = process
        reading = set(ranks)
        while reading:
            for pipe in wait(list(reading)):
                message = pipe.recv()
                runner.send(message)
                if "read" in message:
                    reading.discard(pipe)
        runner.recv()
        for pipe in ranks:
            pipe.send("end")
        for process in ranks.values():
            process.join()
    finally:
        for process in ranks.values():
            if process.is_alive():
                process.terminate()


def main():
    runner = Terminal()
    arguments = runner.recv()
    if arguments["ranks"] == 1:
        be_rank(arguments, 0, runner, None)
    else:
        be_launcher(arguments, runner)


if __name__ == "__main__":
    main()
