"""Encodes records in the worker processes of a build. A worker makes parcels (csrc/write/rs_parcel.h), which the
building process appends to its builder. recstore.build.parallel_build gives the workers their shards."""


cdef enum:
    # The size of a parcel: large enough that sending it costs little, small enough that many parcels may wait.
    PARCEL_BYTES = 1 << 19


cdef object unsupported():
    return hooks.module("unsupported")


class Refused(Exception):
    """A record cannot be stored. The argument is the text of the EncodeError after the record's number, which only the
    building process knows."""


cdef bytes packed(rs_parcel *parcel):
    out = PyBytes_FromStringAndSize(NULL, rs_parcel_packed_size(parcel))
    rs_parcel_pack(parcel, <uint8_t *>PyBytes_AS_STRING(out))
    return out


cdef class ListEncoder:
    """Collects the records of one parcel after another. `writer` is the trust.Writer of this process. A Feed that fills
    the encoder calls `extend` with the records alone; `sender` is then the function that sends a full parcel."""

    cdef rs_parcel parcel
    cdef object writer
    cdef uint64_t n
    cdef public object sender

    def __cinit__(self, writer):
        self.writer = writer

    def __dealloc__(self):
        rs_parcel_clear(&self.parcel)

    @property
    def size(self):
        """The bytes of the records in the parcel, at least 1 for each record."""
        return rs_parcel_size(&self.parcel)

    def append(self, record):
        """Adds one record. Refused if it cannot be stored; then the encoder is unchanged."""
        cdef size_t arrays = self.parcel.arrays.size_bytes, slots = self.parcel.array_slots.size_bytes
        cdef rs_error err
        cdef rs_status status
        try:
            encode_value(&self.parcel.raw, &self.parcel.arrays, record, self.writer, False, &self.parcel.array_slots)
        except BaseException as e:
            rs_parcel_drop_record(&self.parcel, arrays, slots)
            if isinstance(e, errors.EncodeError):
                raise Refused(f": {e}") from None
            raise
        status = rs_parcel_end_record(&self.parcel, &err)
        if status != RS_OK:
            rs_parcel_drop_record(&self.parcel, arrays, slots)
            if status == RS_E_MEM:
                raise_status(&err)
            raise Refused(f": {unsupported().refused(record, err.message.decode())}")
        self.n += 1

    def extend(self, records, send=None):
        """Adds all records, and calls send() whenever the parcel is full."""
        send = send or self.sender
        for record in records:
            self.append(record)
            record = None
            if rs_parcel_size(&self.parcel) >= PARCEL_BYTES:
                send()

    def take(self):
        """The arguments of Builder.append_parcel for the records since the last call; None if there are none."""
        if rs_parcel_size(&self.parcel) == 0:
            return None
        return (packed(&self.parcel),)


cdef class PairEncoder:
    """Collects the pairs of one parcel after another. `seed` is that of the builder's KeyHashes, `sender` as of
    ListEncoder."""

    cdef rs_parcel keys
    cdef rs_parcel values
    cdef object writer
    cdef KeyHashes hashes
    cdef uint64_t taken
    cdef list opaque
    cdef public object sender

    def __cinit__(self, writer, seed):
        self.writer = writer
        self.hashes = KeyHashes(seed)
        self.opaque = []

    def __dealloc__(self):
        rs_parcel_clear(&self.keys)
        rs_parcel_clear(&self.values)

    def append(self, key, value):
        """Adds one pair. Refused if it cannot be stored, TypeError from hash(key); then the encoder is unchanged."""
        cdef size_t key_arrays = self.keys.arrays.size_bytes, key_slots = self.keys.array_slots.size_bytes
        cdef size_t arrays = self.values.arrays.size_bytes, slots = self.values.array_slots.size_bytes
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
            self.drop(key_arrays, key_slots, arrays, slots)
            if isinstance(e, errors.EncodeError):
                raise Refused(f" ({unsupported().shown(key)}): {what} {e}") from None
            raise
        status = rs_parcel_end_record(&self.keys, &err)
        if status == RS_OK:
            status = rs_parcel_end_record(&self.values, &err)
            if status != RS_OK:
                rs_parcel_pop_record(&self.keys, key_arrays, key_slots)
        if status != RS_OK:
            self.drop(key_arrays, key_slots, arrays, slots)
            if status == RS_E_MEM:
                raise_status(&err)
            raise Refused(f" ({unsupported().shown(key)}): {unsupported().refused(value, err.message.decode())}")
        first = self.hashes.first_opaque(key, n)
        if first is not None:
            self.opaque.append((n - self.taken, first, key if first == n else None))

    cdef int drop(self, size_t key_arrays, size_t key_slots, size_t arrays, size_t slots) except -1:
        rs_parcel_drop_record(&self.keys, key_arrays, key_slots)
        rs_parcel_drop_record(&self.values, arrays, slots)
        self.hashes.drop_last()
        return 0

    def extend(self, pairs, send=None):
        """Adds all pairs, and calls send() whenever the parcel is full."""
        send = send or self.sender
        for key, value in pairs:
            self.append(key, value)
            key = value = None
            if rs_parcel_size(&self.keys) + rs_parcel_size(&self.values) >= PARCEL_BYTES:
                send()

    def take(self):
        """The arguments of MappingBuilder.append_parcel for the pairs since the last call; None if there are none.

        The last one, the list of opaque keys, still has to be resolved: its items are `(number among these pairs,
        number of the key's first pair among all, key)`. The key is None if it is not that first pair."""
        if self.hashes.n == self.taken:
            return None
        out = packed(&self.keys), packed(&self.values), self.hashes.since(self.taken), self.opaque
        self.taken = self.hashes.n
        self.opaque = []
        return out
