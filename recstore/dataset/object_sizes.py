"""Sizes: of texts such as "1MiB", of objects with everything they hold, and of their pickles. The latter two measure a
sample of a long container."""

import sys
from itertools import islice

from recstore.dataset import object_graph

_UNITS = {"": 1, "b": 1} | {
    f"{letter}{tail}": base**power
    for power, letter in enumerate("kmgt", 1)
    for tail, base in (("b", 1000), ("ib", 1024))
}  # fmt: skip
# Half of the entries that are measured, by the depth of the container; a container of up to twice as many is measured
# whole.
_SAMPLES = (500, 100, 30, 10)
_DEEPEST = 60
_PLAIN = {str, bytes, int, float, complex}
_HANDLE = 300  # bytes of the largest handle, that of an array included; see handles.HANDLE_BYTES


def parse(size):
    """The number of bytes that an int or a text such as "1MiB", "500 kB" or "2GB" means.

    >>> parse("1MiB"), parse("500 kB"), parse("1.5 GB"), parse(4096)
    (1048576, 500000, 1500000000, 4096)
    """
    if isinstance(size, str):
        text = size.strip()
        number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
        scale = _UNITS.get(text[len(number) :].strip().lower())
        try:
            value = int(float(number) * scale) if scale is not None else -1
        except (ValueError, OverflowError):
            value = -1
    elif isinstance(size, int) and not isinstance(size, bool):
        value = size
    else:
        raise TypeError(f'a size is an int or a text such as "1MiB", not {type(size).__name__}')
    if value < 0:
        raise ValueError(f'a size is a number of bytes, or a text such as "1MiB", "500 kB" or "2 GB", not {size!r:.80}')
    return value


def sampled(container, most):
    """At most `most` entries from all over a builtin container, and how many it has; entries of a dict are pairs."""
    n = object_graph.length(container)
    if n <= most:
        return list(object_graph.entries(container)), n
    if type(container) in (list, tuple):
        return [container[i * n // most] for i in range(most)], n
    return list(islice(object_graph.entries(container), 0, None, n // most))[:most], n


# ---- Deep sizes ----


def deep(value):
    """About how many bytes an object takes with everything that it leads to.

    Of a long container it measures an even sample. Objects that the first half of a sample leads to are taken to be
    shared by all entries, so the second half alone is multiplied. Stores, classes, modules and functions count nothing.
    """
    return _deep(value, set(), 0)


def _deep(value, seen, depth):
    kind = type(value)
    if value is None or kind is bool or kind is type or (kind is int and -6 < value < 257):
        return 0
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if kind in _PLAIN:
        return sys.getsizeof(value)
    if object_graph.is_array(value):
        return _array_bytes(value, seen, depth)
    if object_graph.is_tensor(value):
        return 0 if is_ours(value) else tensor_bytes(value)
    if object_graph.is_store(value) or depth > _DEEPEST:
        return 0
    base = object_graph.base_of(value)
    size = 0 if base is None else base.__sizeof__(value) + 16 + _entries_bytes(value, seen, depth)
    if object_graph.is_walked(value):
        size += 0 if size else object.__sizeof__(value) + 16
        entries = object_graph.instance_dict(value)
        if entries is not None:
            size += dict.__sizeof__(entries)
        return size + sum(_deep(held, seen, depth + 1) for _, held in object_graph.attributes(value))
    return size or _opaque_bytes(value)


def _opaque_bytes(value):
    """The size that an object says itself: of the standard library, or of a library with memory of its own."""
    if callable(value):
        return 0
    try:
        return sys.getsizeof(value, 64)
    except Exception:
        return 64  # its __sizeof__ failed; the size is only an estimate


def _entries_bytes(value, seen, depth):
    half = _SAMPLES[min(depth, len(_SAMPLES) - 1)]
    entries, n = sampled(value, 2 * half)
    if object_graph.is_a(value, dict):

        def measure(pairs):
            return sum(_deep(key, seen, depth + 1) + _deep(item, seen, depth + 1) for key, item in pairs)
    else:

        def measure(chosen):
            return sum(_deep(item, seen, depth + 1) for item in chosen)

    if n <= 2 * half:
        return measure(entries)
    first, second = entries[::2], entries[1::2]
    return measure(first) + measure(second) * (n - len(first)) // len(second)


def _array_bytes(array, seen, depth):
    if is_ours(array):
        return 0
    size = 112 + array.nbytes
    if array.dtype.hasobject and type(array).__module__ == "numpy" and array.dtype.kind == "O":
        flat = array.ravel("K") if array.flags.forc else array.flat
        most = 2 * _SAMPLES[min(depth, len(_SAMPLES) - 1)]
        items = [flat[i * array.size // most] for i in range(most)] if array.size > most else list(array.flat)
        if items:
            size += sum(_deep(item, seen, depth + 1) for item in items) * array.size // len(items)
    return size


def tensor_bytes(tensor):
    """The bytes of a tensor's elements in main memory. Of a class that redefines what its memory is, it counts the
    attributes, which hold the tensors that have the elements."""
    from recstore.values import tensors

    torch, bare = sys.modules["torch"], tensors.bare(tensor)
    if bare is None:
        return 64 + sum(_deep(held, set(), 1) for held in tensors.state_of(tensor).values())
    if bare.device.type != "cpu" or bare.is_nested:
        return 64
    if bare.layout is not torch.strided:
        return 64 + (bare._nnz() * bare.element_size() if bare.layout is torch.sparse_coo else 0)
    return 64 + bare.numel() * bare.element_size()


# ---- Pickles ----


def pickled(value):
    """`(bytes, exact, error)`: the bytes that a worker is sent for an object, whether they are exact, and the error for
    which it cannot be pickled, or None.

    Of a long list, dict or tuple it pickles a sample. A store, a tensor or an array of share_dataset counts as a handle
    and is not pickled. It runs the methods by which classes say how they are pickled, as pickling does.
    """
    counter = _new_counter()
    try:
        counter.dump(value)
    except RecursionError:
        return 0, False, "RecursionError: it is nested too deeply"
    except Exception as e:  # whatever the classes of the object raise
        return 0, False, f"{type(e).__name__}: {e}"
    return counter.total(), counter.exact, None


class _Sink:
    def __init__(self):
        self.n = 0

    def write(self, data):
        self.n += memoryview(data).nbytes


def _new_counter():
    # The pickler of the start methods knows the reducers that multiprocessing and torch registered.
    from multiprocessing.reduction import ForkingPickler

    from recstore.dataset import travel

    mapped = travel.Travel()

    class Counter(ForkingPickler):
        def __init__(self, level=0, whole=None):
            self.sink, self.level, self.more, self.exact, self.sampled = _Sink(), level, 0, True, set()
            self.whole = whole  # a sample, which is not sampled again
            super().__init__(self.sink, 5)

        def total(self):
            return self.sink.n + self.more

        def persistent_id(self, value):
            kind = type(value)
            if (
                value is self.whole
                or kind not in object_graph.CONTAINERS
                or len(value) <= 4 * _SAMPLES[min(self.level, len(_SAMPLES) - 1)]
            ):
                if kind is not type and (
                    object_graph.is_tensor(value)
                    or object_graph.is_store(value)
                    or is_ours(value)
                    or travel.is_mapped_there(value, mapped)
                ):
                    self.more += _HANDLE if id(value) not in self.sampled else 0
                    self.sampled.add(id(value))
                    return "handle"
                return None
            if id(value) not in self.sampled:
                self.sampled.add(id(value))
                self.estimate(value)
            return "sampled"

        def estimate(self, value):
            entries, n = sampled(value, 2 * _SAMPLES[min(self.level, len(_SAMPLES) - 1)])
            flat = [part for entry in entries for part in entry] if type(value) is dict else entries
            inner = Counter(self.level + 1, flat)
            inner.sampled = self.sampled
            inner.dump(flat)
            self.more += inner.total() * n // len(entries)
            self.exact = False

    return Counter()


def is_ours(value):
    """Whether a value is an array or tensor that share_dataset made."""
    shared_arrays = sys.modules.get("recstore.dataset.shared_arrays")
    return shared_arrays is not None and shared_arrays.mapping_of(value) is not None
