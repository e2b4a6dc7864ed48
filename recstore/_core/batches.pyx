"""Encoding in the workers of a build: records become pieces (csrc/write/rs_batch.h), which the process that builds appends to
its builder. What decides which process does what is recstore.build.parallel_build."""


cdef enum:
    # Bytes of a piece: enough to make the sending cheap, little enough for many pieces to wait.
    BATCH_BYTES = 1 << 19


cdef object unsupported():
    return hooks.module("unsupported")


class Refused(Exception):
    """A record cannot be stored: `args` are what an EncodeError says after the number of the record."""


cdef bytes packed(rs_batch *piece):
    out = PyBytes_FromStringAndSize(NULL, rs_batch_packed_size(piece))
    rs_batch_pack(piece, <uint8_t *>PyBytes_AS_STRING(out))
    return out


cdef class ListEncoder:
    """Collects records. `writer` is the trust.Writer of this process."""

    cdef rs_batch piece
    cdef object writer
    cdef uint64_t n

    def __cinit__(self, writer):
        self.writer = writer

    def __dealloc__(self):
        rs_batch_clear(&self.piece)

    @property
    def size(self):
        """Bytes in hand; 1 at least for every record."""
        return rs_batch_size(&self.piece)

    def append(self, record):
        """Adds one record. Refused where it cannot be stored; the encoder is as before then."""
        cdef size_t arrays = self.piece.arrays.size_bytes, places = self.piece.array_slots.size_bytes
        cdef rs_error err
        cdef rs_status status
        try:
            encode_value(&self.piece.raw, &self.piece.arrays, record, self.writer, False, &self.piece.array_slots)
        except BaseException as e:
            rs_batch_drop_record(&self.piece, arrays, places)
            if isinstance(e, errors.EncodeError):
                raise Refused(f": {e}") from None
            raise
        status = rs_batch_end_record(&self.piece, &err)
        if status != RS_OK:
            rs_batch_drop_record(&self.piece, arrays, places)
            if status == RS_E_MEM:
                raise_status(&err)
            raise Refused(f": {unsupported().refused(record, err.message.decode())}")
        self.n += 1

    def extend(self, records, send):
        """Adds all records, and calls send() whenever there is enough for a piece."""
        for record in records:
            self.append(record)
            record = None
            if rs_batch_size(&self.piece) >= BATCH_BYTES:
                send()

    def take(self):
        """What Builder.append_piece takes, of the records since the last time; None for none."""
        if rs_batch_size(&self.piece) == 0:
            return None
        return (packed(&self.piece),)


cdef class PairEncoder:
    """Collects pairs; `seed` is that of the KeyHashes of the builder they are for."""

    cdef rs_batch keys
    cdef rs_batch values
    cdef object writer
    cdef KeyHashes hashes
    cdef uint64_t taken
    cdef list opaque

    def __cinit__(self, writer, seed):
        self.writer = writer
        self.hashes = KeyHashes(seed)
        self.opaque = []

    def __dealloc__(self):
        rs_batch_clear(&self.keys)
        rs_batch_clear(&self.values)

    def append(self, key, value):
        """Adds one pair. Refused where it cannot be stored, TypeError is hash()'s own; the encoder is as before
        then."""
        cdef size_t key_arrays = self.keys.arrays.size_bytes, key_places = self.keys.array_slots.size_bytes
        cdef size_t arrays = self.values.arrays.size_bytes, places = self.values.array_slots.size_bytes
        cdef uint64_t n = self.hashes.n
        cdef rs_error err
        cdef rs_status status
        self.hashes.append(key)
        what = "key"
        try:
            encode_value(&self.keys.raw, &self.keys.arrays, key, self.writer, True, &self.keys.array_slots)
            what = "value"
            encode_value(&self.values.raw, &self.values.arrays, value, self.writer, False, &self.values.array_slots)
        except BaseException as e:
            self.drop(key_arrays, key_places, arrays, places)
            if isinstance(e, errors.EncodeError):
                raise Refused(f" ({unsupported().shown(key)}): {what} {e}") from None
            raise
        status = rs_batch_end_record(&self.keys, &err)
        if status == RS_OK:
            status = rs_batch_end_record(&self.values, &err)
            if status != RS_OK:
                rs_batch_pop_record(&self.keys, key_arrays, key_places)
        if status != RS_OK:
            self.drop(key_arrays, key_places, arrays, places)
            if status == RS_E_MEM:
                raise_status(&err)
            raise Refused(f" ({unsupported().shown(key)}): {unsupported().refused(value, err.message.decode())}")
        first = self.hashes.first_opaque(key, n)
        if first is not None:
            self.opaque.append((n - self.taken, first, key if first == n else None))

    cdef int drop(self, size_t key_arrays, size_t key_places, size_t arrays, size_t places) except -1:
        rs_batch_drop_record(&self.keys, key_arrays, key_places)
        rs_batch_drop_record(&self.values, arrays, places)
        self.hashes.drop_last()
        return 0

    def extend(self, pairs, send):
        """Adds all pairs, and calls send() whenever there is enough for a piece."""
        for key, value in pairs:
            self.append(key, value)
            key = value = None
            if rs_batch_size(&self.keys) + rs_batch_size(&self.values) >= BATCH_BYTES:
                send()

    def take(self):
        """What MappingBuilder.append_piece takes, but for the opaque keys, of the pairs since the last time; None for
        none. The last is a list of `(number among these pairs, number of the first one with this key among all, key)`
        where the key has no canonical form, without the key where it came before."""
        if self.hashes.n == self.taken:
            return None
        out = packed(&self.keys), packed(&self.values), self.hashes.since(self.taken), self.opaque
        self.taken = self.hashes.n
        self.opaque = []
        return out
