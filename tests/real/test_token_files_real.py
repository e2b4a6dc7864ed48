"""open_tokens against the writer and the reader of Megatron-Core."""

import warnings

import numpy as np
import pytest
from token_data import documents_of

import recstore

WHY = "needs the packages of `nox -s real`"
torch = pytest.importorskip("torch", reason=WHY)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    indexed_dataset = pytest.importorskip("megatron.core.datasets.indexed_dataset", exc_type=ImportError, reason=WHY)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.int64])
@pytest.mark.parametrize("multimodal", [False, True])
def test_pairs_that_megatron_writes(dtype, multimodal, tmp_path):
    documents, prefixes = documents_of(60, high=200), []
    for name, part in (("a", documents[:40]), ("b", documents[40:])):
        prefix = str(tmp_path / name)
        builder = indexed_dataset.IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype, multimodal=multimodal)
        for i, document in enumerate(part):
            builder.add_item(torch.from_numpy(document.astype(np.int64)), mode=i % 3)
            if i % 3 != 1 or i == len(part) - 1:  # a document of one or two sequences
                builder.end_document()
        builder.finalize(f"{prefix}.idx")
        prefixes.append(prefix)
    with recstore.open_tokens(prefixes) as t:
        theirs = [indexed_dataset.IndexedDataset(prefix, multimodal) for prefix in prefixes]
        expected = [dataset[i] for dataset in theirs for i in range(len(dataset))]
        expected = [sequence[0] if multimodal else sequence for sequence in expected]
        assert t.dtype == dtype and len(t) == len(expected) == 60
        assert t.lengths[:].tolist() == np.concatenate([dataset.sequence_lengths for dataset in theirs]).tolist()
        assert [a.tolist() for a in t] == [a.tolist() for a in expected] == [a.tolist() for a in documents]
        # Their part of a sequence and ours.
        get = theirs[1].get(7, offset=0, length=int(t.lengths[47]))
        assert t.gather([47]).tolist() == (get[0] if multimodal else get).tolist()


def test_a_merged_pair(tmp_path):
    documents = documents_of(30)
    for name, part in (("a", documents[:10]), ("b", documents[10:])):
        builder = indexed_dataset.IndexedDatasetBuilder(str(tmp_path / f"{name}.bin"), dtype=np.uint16)
        for document in part:
            builder.add_document(document, [len(document)])
        builder.finalize(str(tmp_path / f"{name}.idx"))
    merged = indexed_dataset.IndexedDatasetBuilder(str(tmp_path / "c.bin"), dtype=np.uint16)
    for name in "ab":
        merged.add_index(str(tmp_path / name))
    merged.finalize(str(tmp_path / "c.idx"))
    with recstore.open_tokens(tmp_path / "c") as t, recstore.open_tokens([tmp_path / "a", tmp_path / "b"]) as both:
        assert [a.tolist() for a in t] == [a.tolist() for a in both] == [document.tolist() for document in documents]
        assert t.windows(16)[:].tolist() == both.windows(16)[:].tolist()
