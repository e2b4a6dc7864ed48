"""Arrow producers that break the rules of the interface, made with ctypes: each raises InputError, and everything is
released exactly once. tests/c/test_arrow_in.c tests the rules themselves."""

import ctypes
import gc

import pytest

import recstore
from recstore import RecordList
from recstore._core import native
from recstore.errors import InputError
from recstore.sources import arrow_out

I64, PTR = ctypes.c_int64, ctypes.c_void_p
RELEASE = ctypes.CFUNCTYPE(None, PTR)


def struct(name, **groups):
    """Returns a ctypes.Structure. Each keyword is a type, and its value names the fields of this type, in order."""
    types = {"text": ctypes.c_char_p, "int64": I64, "pointer": PTR}
    fields = [(field, types[kind]) for kind, fields in groups.items() for field in fields.split()]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


Schema = struct(
    "Schema",
    text="format name metadata",
    int64="flags n_children",
    pointer="children dictionary release private_data",
)
Array = struct(
    "Array",
    int64="length null_count offset n_buffers n_children",
    pointer="buffers children dictionary release private_data",
)
Stream = struct("Stream", pointer="get_schema get_next get_last_error release private_data")

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [PTR, ctypes.c_char_p, PTR]
NAMES = {Schema: b"arrow_schema", Array: b"arrow_array", Stream: b"arrow_array_stream"}


def capsule(struct, name=None):
    return new_capsule(ctypes.addressof(struct), NAMES[type(struct)] if name is None else name, None)


class Producer:
    """A column of three 32-bit ints. `schema` and `array` set fields of the structs with these names."""

    def __init__(self, schema=(), array=()):
        self.numbers = (ctypes.c_int32 * 3)(7, -1, 300)
        self.buffers = (PTR * 2)(None, ctypes.addressof(self.numbers))
        self.released = {"schema": 0, "array": 0}
        self.keep = [RELEASE(self._releasing("schema", Schema)), RELEASE(self._releasing("array", Array))]
        self.schema = Schema(format=b"i", release=ctypes.cast(self.keep[0], PTR))
        self.array = Array(
            length=3, n_buffers=2, buffers=ctypes.addressof(self.buffers), release=ctypes.cast(self.keep[1], PTR)
        )
        for struct, changes in ((self.schema, schema), (self.array, array)):
            for name, value in dict(changes).items():
                setattr(struct, name, value)

    def _releasing(self, name, kind):
        def release(pointer):
            self.released[name] += 1
            kind.from_address(pointer).release = None

        return release

    def __arrow_c_array__(self, requested_schema=None):
        return capsule(self.schema), capsule(self.array)


def test_a_correct_producer():
    producer = Producer()
    with RecordList(producer) as x:
        assert x.to_list() == [7, -1, 300]
    gc.collect()
    assert producer.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize(
    "schema, array, message",
    [
        ({"format": None}, {}, "a type without a format string"),
        ({"format": b"?"}, {}, r"does not know the Arrow format \?"),
        ({}, {"length": -1}, "a length or offset that is out of range"),
        ({}, {"n_buffers": 3}, "number of buffers of an array does not match"),
        ({}, {"buffers": None}, "the buffers of an array are missing"),
        ({"format": b"tdD"}, {"n_children": -5}, "number of children of an array does not match"),
    ],
)
def test_a_broken_producer(schema, array, message):
    producer = Producer(schema, array)
    with pytest.raises(InputError, match=f"the Arrow data of Producer: .*{message}"):
        RecordList(producer)
    gc.collect()
    assert producer.released == {"schema": 1, "array": 1}


@pytest.mark.parametrize("which", ["schema", "array"])
def test_a_producer_that_was_read_before(which):
    producer = Producer()
    getattr(producer, which).release = None
    with pytest.raises(InputError, match="the Arrow array of Producer was read before; give a fresh one"):
        RecordList(producer)
    assert sum(producer.released.values()) == 0


def test_a_value_that_cannot_be_stored_releases_what_was_read():
    producer = Producer({"format": b"tdD"})
    producer.numbers[2] = 2**31 - 1
    with pytest.raises(TypeError, match=r"record 2: \$: a date outside"):
        RecordList(producer)
    gc.collect()
    assert producer.released == {"schema": 1, "array": 1}


class Gives:
    """An object whose method returns the given value."""

    def __init__(self, value):
        self.value = value

    def __arrow_c_array__(self, requested_schema=None):
        return self.value


class Streams(Gives):
    def __arrow_c_stream__(self, requested_schema=None):
        return self.value


def test_objects_in_place_of_capsules():
    producer = Producer()
    wrong = [
        Streams(None),
        Streams(3),
        Streams(capsule(producer.schema)),
        Streams(capsule(producer.schema, b"dltensor")),
        Gives((None, None)),
        Gives((capsule(producer.array), capsule(producer.schema))),
        Gives((capsule(producer.schema), "array")),
    ]
    for source in wrong:
        with pytest.raises(InputError, match=f"{type(source).__name__} gave an? .* in place of a capsule 'arrow_"):
            RecordList(source)
    for source in (Gives(None), Gives((1, 2, 3)), Gives(capsule(producer.schema))):
        with pytest.raises(InputError, match="Gives gave an? .* in place of two capsules"):
            RecordList(source)
    assert sum(producer.released.values()) == 0


def test_an_exception_of_the_method_is_raised():
    class Raises:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ZeroDivisionError("of the producer")

    with pytest.raises(ZeroDivisionError, match="of the producer"):
        RecordList(Raises())


# ---- Streams ----


class StreamProducer:
    """A stream that returns its column `arrays` times, then the error `code` if it is not 0."""

    def __init__(self, arrays=2, code=0, message=None, array=()):
        self.one = Producer(array=array)
        self.arrays, self.code, self.message = arrays, code, message
        self.asked = self.released = 0
        get = ctypes.CFUNCTYPE(ctypes.c_int, PTR, PTR)
        self.keep = [
            get(self.get_schema),
            get(self.get_next),
            ctypes.CFUNCTYPE(PTR, PTR)(self.last_error),
            RELEASE(self.release),
        ]
        self.stream = Stream(*(ctypes.cast(one, PTR) for one in self.keep))
        self.text = None if message is None else ctypes.create_string_buffer(message)

    def get_schema(self, stream, out):
        ctypes.memmove(out, ctypes.addressof(self.one.schema), ctypes.sizeof(Schema))
        return 0

    def get_next(self, stream, out):
        self.asked += 1
        ctypes.memmove(out, ctypes.addressof(self.one.array), ctypes.sizeof(Array))
        if self.asked > self.arrays:
            Array.from_address(out).release = None
            return self.code
        return 0

    def last_error(self, stream):
        return None if self.text is None else ctypes.addressof(self.text)

    def release(self, pointer):
        self.released += 1
        Stream.from_address(pointer).release = None

    def __arrow_c_stream__(self, requested_schema=None):
        return capsule(self.stream)


def test_a_correct_stream():
    producer = StreamProducer()
    with RecordList(producer) as x:
        assert x.to_list() == [7, -1, 300] * 2
    gc.collect()
    assert (producer.asked, producer.released, producer.one.released) == (3, 1, {"schema": 1, "array": 2})
    with pytest.raises(InputError, match="the Arrow stream of StreamProducer was read before; give a fresh one"):
        RecordList(producer)


@pytest.mark.parametrize(
    "message, shown",
    [(b"the disk is gone", "the disk is gone"), (None, "no message"), (b"\xff" * 1000, "\ufffd" * 100)],
    ids=["message", "no message", "bytes"],
)
def test_a_stream_that_fails(message, shown):
    producer = StreamProducer(code=5, message=message)
    with pytest.raises(InputError) as raised:
        RecordList(producer)
    assert f"the Arrow stream of StreamProducer failed: {shown}" in str(raised.value)
    assert str(raised.value).endswith("(error 5)")
    gc.collect()
    assert (producer.released, producer.one.released) == (1, {"schema": 1, "array": 2})


def test_a_stream_with_a_broken_array():
    producer = StreamProducer(array={"n_buffers": 1})
    with pytest.raises(InputError, match="number of buffers of an array does not match"):
        RecordList(producer)
    gc.collect()
    assert (producer.asked, producer.released, producer.one.released) == (1, 1, {"schema": 1, "array": 1})


def test_a_long_append_can_be_interrupted():
    """Ctrl-C comes while an array of 2^40 nulls is appended; such an array takes no memory."""
    import _thread
    import threading

    timer = threading.Timer(0.2, _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        RecordList(Producer({"format": b"n"}, {"length": 2**40, "n_buffers": 0}))
    timer.join()


# ---- Errors in the middle of a stream ----


@pytest.mark.parametrize("error", [KeyboardInterrupt, recstore.errors.ClosedError("the store is closed"), MemoryError])
@pytest.mark.parametrize("read", ["to_arrow", "field", "to_polars"])
def test_an_error_in_the_middle_of_a_stream_comes_out(error, read, monkeypatch):
    """The library raises an error of its own, such as a ValueError. The caller gets the original error instead."""
    pytest.importorskip("polars" if read == "to_polars" else "pyarrow")
    original = native.arrow_export

    class Failing:
        """An export whose stream fails like the C functions of a stream."""

        def __init__(self, export):
            self.export, self.failure = export, None

        def __getattr__(self, name):
            return getattr(self.export, name)

    def failing_read(export):
        export.failure = error
        raise ValueError("an error of the library")

    def export(*args, **options):
        result = original(*args, **options)
        return result and (Failing(result[0]), result[1])

    monkeypatch.setattr(arrow_out.native, "arrow_export", export)
    monkeypatch.setattr(arrow_out.native, "arrow_stream", failing_read)
    with RecordList([{"a": i} for i in range(10)]) as x:
        with pytest.raises(error if isinstance(error, type) else type(error)):
            x.field("a").to_arrow() if read == "field" else getattr(x, read)()


def test_an_export_keeps_the_error_that_ended_its_stream():
    pa = pytest.importorskip("pyarrow")
    with RecordList([{"a": i, "t": f"t{i}" * 3} for i in range(200_000)]) as x:
        export, problems = native.arrow_export(x, exact=True)
        assert not problems and export.failure is None
        export.settle(True)
        reader = pa.RecordBatchReader.from_stream(arrow_out._Stream(native.arrow_stream(export)))
        reader.read_next_batch()
        x.close()
        with pytest.raises(pa.ArrowInvalid):
            reader.read_next_batch()
        assert isinstance(export.failure, recstore.errors.ClosedError)
