"""A loader that is faster than its consumer. Run as a program, this file runs one case, with messages as in program.py.

Workers make batches of images quickly, and the loop is slow. Finished batches wait in shared memory. PyTorch's
DataLoader requests at most `prefetch_factor` batches for each worker, which bounds their memory. A queue without a size
limit grows to all batches.
"""

import pickle
import sys
import time

SLOW = 0.15  # seconds per batch
# (loader, prefetch_factor or size of the queue, seconds of the consumer per batch)
CASES = (
    *(("DataLoader", depth, SLOW) for depth in (1, 2, 4, 8)),
    ("DataLoader", 2, 0.0),
    ("Queue(8)", 8, SLOW),
    ("Queue()", 0, SLOW),
)


def pictures(arguments):
    """A Dataset of images of one color each."""
    import torch

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return arguments["batches"] * arguments["batch_size"]

        def __getitem__(self, index):
            return torch.full((3, arguments["side"], arguments["side"]), float(index))

    return Pictures()


def by_data_loader(arguments):
    """The batches of a DataLoader."""
    import torch

    loader = torch.utils.data.DataLoader(
        pictures(arguments),
        batch_size=arguments["batch_size"],
        num_workers=arguments["workers"],
        prefetch_factor=arguments["depth"],
        multiprocessing_context="fork",
    )
    yield from loader


def fill(arguments, queue, count, over):
    """The program of a worker that fills a queue."""
    import torch

    torch.set_num_threads(1)
    shape = arguments["batch_size"], 3, arguments["side"], arguments["side"]
    for number in range(count):
        queue.put(torch.full(shape, float(number)))
    over.wait()  # until the consumer has received the tensors, they belong to this process


def by_queue(arguments):
    """The batches of a queue that workers fill; a depth of 0 means no limit."""
    import torch.multiprocessing

    context = torch.multiprocessing.get_context("fork")
    queue, over = context.Queue(arguments["depth"]), context.Event()
    batches_per_worker = arguments["batches"] // arguments["workers"]
    processes = [
        context.Process(target=fill, args=(arguments, queue, batches_per_worker, over), daemon=True)
        for _ in range(arguments["workers"])
    ]
    for process in processes:
        process.start()
    for _ in range(batches_per_worker * len(processes)):
        yield queue.get()
    over.set()
    for process in processes:
        process.join()


def main():
    """Consumes all batches, reports their number, and waits for the end message."""
    arguments = pickle.load(sys.stdin.buffer)
    batches = by_data_loader(arguments) if arguments["loader"] == "DataLoader" else by_queue(arguments)
    count = size = 0
    for batch in batches:
        count, size = count + 1, batch.nbytes
        time.sleep(arguments["consumer_s"])
    pickle.dump({"read": count, "batch": size}, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    pickle.load(sys.stdin.buffer)


if __name__ == "__main__":
    main()
