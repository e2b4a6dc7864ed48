"""The formats of set_rivals.py: how each writes records, and reads them in its own shuffled order."""

import bisect
import itertools
import os
import random

PARTS, BATCH = 16, 1000
WAYS = {}


def way(name):
    return lambda class_: WAYS.setdefault(name, class_)


class Way:
    """A format. Each class has `write(records, folder, parts)`, which makes files; `open(folder=None)`, which opens
    the files in the bucket, or those in a folder if the way has no cache; `epoch(number, place)`, an iterator of the
    records, which are dicts; and `record(i)` if `random` is true. `place` is `(rank, world_size)`."""

    random = True  # whether a record can be read by its index
    caches = True  # whether a record is read again from a local disk

    def __init__(self, at="", server=None, cache=None):
        self.at, self.server, self.cache, self.loader = at, server, cache, None

    def first(self):
        """Opens the files, and reads the first record."""
        self.open()
        return self.record(0)

    def resume(self, place, state=None):
        """Prepares an epoch that `state` can interrupt, from an earlier state if one is given."""
        if (loader := self.new_loader()) is not None:
            self.loader = loader
            if state is not None:
                loader.load_state_dict(state)

    def new_loader(self):
        """The loader of the library that keeps a state, or None."""

    def state(self, batches):
        """The state after `batches` batches of BATCH in each rank, or None."""
        return self.loader and self.loader.state_dict()


@way("recstore")
class Recstore(Way):
    def write(self, records, folder, parts):
        import recstore.remote

        n = -(-len(records) // parts)
        writer = recstore.remote.ShardWriter(folder, shard_records=n)
        writer.commit(writer.write(records))

    def open(self, folder=None, lazy=True):
        import recstore

        cache = self.cache if lazy is True else None
        self.x = recstore.open(f"s3://{self.at}", cache=cache, options=self.server, lazy=lazy)

    def epoch(self, number, place):
        if self.loader is None:
            self.resume(place)
        self.loader.set_epoch(number)
        return itertools.chain.from_iterable(map(self.x.get_many, self.loader))

    def record(self, i):
        return self.x[i]

    def first(self):
        self.open(lazy="records")
        return self.x[0]

    def resume(self, place, state=None):
        from recstore.torch import BatchSampler, ShardSampler

        sampler = ShardSampler(self.x, seed=1, rank=place[0], world_size=place[1], nodes=1)
        self.loader = BatchSampler(sampler, BATCH)
        if state is not None:
            self.loader.load_state_dict(state)

    def state(self, batches):
        return self.loader.state_dict(batches=batches)


@way("Parquet")
class Parquet(Way):
    caches = False

    def write(self, records, folder, parts):
        import pyarrow
        from pyarrow import parquet

        for number, part in enumerate(split(records, parts)):
            parquet.write_table(pyarrow.Table.from_pylist(part), f"{folder}/{number:02}.parquet", compression="zstd")

    def open(self, folder=None):
        import pyarrow.dataset
        from pyarrow import fs

        options = self.server
        self.files = (
            fs.LocalFileSystem()
            if folder
            else fs.S3FileSystem(
                access_key=options["access_key_id"],
                secret_key=options["secret_access_key"],
                endpoint_override=options["endpoint"],
                region=options["region"],
            )
        )
        self.parts = list(pyarrow.dataset.dataset(folder or self.at, filesystem=self.files).get_fragments())
        self.ends = None

    def epoch(self, number, place):
        import numpy

        parts, rng = list(self.parts), numpy.random.default_rng(number)
        random.Random(number).shuffle(parts)
        for part in parts[place[0] :: place[1]]:
            table = part.to_table()
            yield from table.take(rng.permutation(len(table))).to_pylist()

    def record(self, i):
        if self.ends is None:
            self.ends = list(itertools.accumulate(part.metadata.num_rows for part in self.parts))
        at = bisect.bisect(self.ends, i)
        return self.parts[at].to_table().slice(i - (self.ends[at - 1] if at else 0), 1).to_pylist()[0]

    def first(self):
        from pyarrow import parquet

        self.open()
        with parquet.ParquetFile(f"{self.at}/00.parquet", filesystem=self.files, buffer_size=1 << 16) as file:
            return next(file.iter_batches(batch_size=1)).to_pylist()[0]


@way("Lance")
class Lance(Way):
    caches = False

    def write(self, records, folder, parts):
        import lance
        import pyarrow

        n = -(-len(records) // parts)
        lance.write_dataset(pyarrow.Table.from_pylist(records), f"{folder}/a.lance", max_rows_per_file=n)

    def open(self, folder=None):
        import lance

        options = {
            "aws_endpoint": self.server["endpoint"],
            "aws_region": self.server["region"],
            "aws_access_key_id": self.server["access_key_id"],
            "aws_secret_access_key": self.server["secret_access_key"],
            "allow_http": "true",
        }
        place = f"{folder}/a.lance" if folder else f"s3://{self.at}/a.lance"
        self.dataset = lance.dataset(place, storage_options=None if folder else options)

    def epoch(self, number, place):
        from lance.sampler import ShardedFragmentSampler

        sampler = ShardedFragmentSampler(*place, randomize=True, seed=number)
        for batch in sampler(self.dataset, batch_size=BATCH):
            yield from batch.to_pylist()

    def record(self, i):
        return self.dataset.take([i]).to_pylist()[0]


@way("litData")
class LitData(Way):
    random = False  # version 0.2.76 fails to read a dict by index from an object store

    def write(self, records, folder, parts):
        prepare_torchvision()
        from litdata.streaming.writer import BinaryWriter

        writer = BinaryWriter(folder, chunk_size=-(-len(records) // parts))
        for number, record in enumerate(records):
            writer[number] = record
        writer.done()
        writer.merge()

    def open(self, folder=None):
        prepare_torchvision()
        import litdata
        from litdata.streaming import downloader

        downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"  # the server here has no TLS
        options = {
            "endpoint_url": self.server["endpoint"],
            "region_name": self.server["region"],
            "aws_access_key_id": self.server["access_key_id"],
            "aws_secret_access_key": self.server["secret_access_key"],
        }
        self.dataset = litdata.StreamingDataset(
            f"s3://{self.at}", cache_dir=self.cache, shuffle=True, seed=1, storage_options=options
        )

    def epoch(self, number, place):
        if self.loader is not None:  # a run that resumes, or will
            return itertools.chain.from_iterable(self.loader)
        self.dataset.set_epoch(number)
        return iter(self.dataset)

    def first(self):
        self.open()
        return next(iter(self.dataset))

    def new_loader(self):
        import litdata

        return litdata.StreamingDataLoader(self.dataset, batch_size=BATCH, collate_fn=list)


@way("MDS")
class Mds(Way):
    def write(self, records, folder, parts):
        prepare_torchvision()
        import streaming

        size = sum(len(record["sentence"].encode()) for record in records)
        columns = {"id": "int", "language": "str", "sentence": "str"}
        limit = (size + 40 * len(records)) // parts
        with streaming.MDSWriter(out=folder, columns=columns, compression="zstd", size_limit=limit) as writer:
            for record in records:
                writer.write(record)

    def open(self, folder=None):
        prepare_torchvision()
        import streaming

        os.environ["S3_ENDPOINT_URL"] = self.server["endpoint"]
        self.dataset = streaming.StreamingDataset(
            remote=f"s3://{self.at}", local=self.cache, shuffle=True, shuffle_seed=1, batch_size=BATCH
        )

    def epoch(self, number, place):
        if self.loader is not None:
            return ({"id": i} for batch in self.loader for i in batch["id"].tolist())
        return iter(self.dataset)

    def record(self, i):
        return self.dataset[i]

    def new_loader(self):
        import streaming

        return streaming.StreamingDataLoader(self.dataset, batch_size=BATCH)  # counts the rows of columns


@way("WebDataset")
class WebDataset(Way):
    n_parts = PARTS
    random = False

    def write(self, records, folder, parts):
        import webdataset

        n = -(-len(records) // parts)
        with webdataset.ShardWriter(f"{folder}/%02d.tar", maxcount=n, verbose=0) as writer:
            for record in records:
                writer.write({"__key__": f"{record['id']:08}", "json": record})

    def open(self, folder=None):
        import webdataset

        urls = [f"{self.server['endpoint']}/{self.at}/{number:02}.tar" for number in range(self.n_parts)]
        self.dataset = webdataset.WebDataset(
            urls, shardshuffle=PARTS, nodesplitter=webdataset.split_by_node, cache_dir=self.cache
        )

    def epoch(self, number, place):
        return (sample["json"] for sample in self.dataset.shuffle(10_000).decode())

    def first(self):
        self.n_parts = 1
        self.open()
        return next(iter(self.dataset.decode()))["json"]


def split(records, parts):
    n = -(-len(records) // parts)
    return [records[i : i + n] for i in range(0, len(records), n)]


def prepare_torchvision():
    """Two libraries import torchvision, whose operators may be missing."""
    import vision

    vision.prepare()
