"""Encodes records in the worker processes of a build. A shard smaller than a block travels as parcels
(csrc/write/rs_parcel.h), which the building process appends to its builder. A builder in the worker compresses the
records of a larger shard, and the blocks travel (csrc/write/rs_block_parcel.h). recstore.building.parallel_build hands
out the shards."""


cdef enum:
    # The size of a parcel if the worker makes no blocks: large enough that sending it costs little.
    PARCEL_BYTES = 1 << 19


cdef object unsupported():
    return hooks.module("unsupported")


class Refused(errors.EncodeError):
    """A worker cannot store a record. Only the building process knows the number of the record."""


cdef bytes pack_parcel(rs_parcel *parcel):
    """Returns the records of a parcel as bytes, and empties the parcel."""
    out = PyBytes_FromStringAndSize(NULL, rs_parcel_packed_size(parcel))
    rs_parcel_pack(parcel, <uint8_t *>PyBytes_AS_STRING(out))
    return out


cdef bint fills_block(rs_parcel *parcel):
    return rs_parcel_size(parcel) >= RS_FMT_BLOCK_RAW or rs_parcel_n_records(parcel) >= RS_FMT_BLOCK_RECORDS


cdef object new_blocks(rs_builder **stores, unsigned n):
    """The block parcel of the blocks that the builders wrote since the last call; None if there are none."""
    cdef rs_buffer out
    cdef rs_error err
    cdef rs_status status
    memset(&out, 0, sizeof(rs_buffer))
    try:
        with nogil:
            status = rs_block_parcel_take(stores, n, &out, &err)
        check(status, &err)
        return PyBytes_FromStringAndSize(<char *>out.data, out.size_bytes) if out.size_bytes else None
    finally:
        rs_buffer_clear(&out)


cdef class ListEncoder:
    """Collects the records of one shard. `writer` is the trust.Writer of this process. `make` returns a Builder of this
    process once the records fill a block; without it they travel as parcels. `sender` is the default of `send` in
    `extend`, which a Source calls with the records alone."""

    cdef rs_parcel parcel
    cdef object writer
    cdef object make
    cdef Builder builder  # None until the records fill a block
    cdef uint64_t n_closed_sent  # blocks that were closed at the last send
    cdef uint64_t n
    cdef public object sender

    def __cinit__(self, writer, make=None):
        self.writer = writer
        self.make = make

    def __dealloc__(self):
        rs_parcel_clear(&self.parcel)

    @property
    def size(self):
        """The bytes of the records in the parcel, at least 1 for each record."""
        return rs_parcel_size(&self.parcel)

    def append(self, record):
        """Adds one record. Raises Refused if it cannot be stored; the encoder is then unchanged."""
        if self.builder is None:
            self.append_to_parcel(record)
        else:
            self.append_to_builder(record)
        self.n += 1

    cdef int append_to_builder(self, record) except -1:
        try:
            self.builder.append(record)
        except errors.EncodeError as e:
            raise Refused(e.reason) from None
        return 0

    cdef int append_to_parcel(self, record) except -1:
        cdef size_t arrays = self.parcel.arrays.size_bytes, slots = self.parcel.array_slots.size_bytes
        cdef rs_error err
        try:
            encode_value(&self.parcel.raw, &self.parcel.arrays, record, self.writer, False, &self.parcel.array_slots)
        except BaseException as e:
            rs_parcel_drop_record(&self.parcel, arrays, slots)
            if isinstance(e, errors.EncodeError):
                raise Refused(str(e)) from None
            raise
        cdef rs_status status = rs_parcel_end_record(&self.parcel, &err)
        if status != RS_OK:
            rs_parcel_drop_record(&self.parcel, arrays, slots)
            if status == RS_E_MEM:
                raise_status(&err)
            raise Refused(unsupported().refused(record, err.message.decode()).reason)
        return 0

    cdef bint is_due(self) except -1:
        """Whether there is something to send. Makes the builder when the records fill a block."""
        if self.builder is not None:
            return self.builder.builder.n_closed != self.n_closed_sent
        if self.make is None:
            return rs_parcel_size(&self.parcel) >= PARCEL_BYTES
        if not fills_block(&self.parcel):
            return False
        self.builder = self.make(Builder)
        self.builder.append_parcel(pack_parcel(&self.parcel))
        rs_parcel_clear(&self.parcel)
        return self.builder.builder.n_closed != self.n_closed_sent

    def extend(self, records, send=None):
        """Adds all records, and calls send(), which sends `take()` and `take_blocks()`, whenever data is due."""
        send = send or self.sender
        for record in records:
            self.append(record)
            record = None
            if self.is_due():
                send()

    def take(self):
        """The arguments of Builder.append_parcel for the records in the parcel, now empty; None without records."""
        if rs_parcel_size(&self.parcel) == 0:
            return None
        return (pack_parcel(&self.parcel),)

    def take_blocks(self):
        """The arguments of Placing.place for the blocks since the last call; None if there are none."""
        cdef rs_builder *stores[1]
        if self.builder is None:
            return None
        self.n_closed_sent = self.builder.builder.n_closed
        stores[0] = &self.builder.builder
        blocks = new_blocks(stores, 1)
        return None if blocks is None else (blocks,)

    def end(self):
        """Ends the last block, so that take_blocks returns it."""
        if self.builder is not None:
            flush_block(&self.builder.builder, True, None)


cdef class PairEncoder:
    """Collects the pairs of one shard. `seed` is the seed of the builder's KeyHashes, `make` returns a MappingBuilder;
    the rest is as in ListEncoder."""

    cdef rs_parcel keys, values
    cdef object writer
    cdef object make
    cdef MappingBuilder builder
    cdef uint64_t n_closed_sent
    cdef KeyHashes hashes
    cdef uint64_t n_sent
    cdef list opaque
    cdef public object sender

    def __cinit__(self, writer, seed, make=None):
        self.writer = writer
        self.make = make
        self.hashes = KeyHashes(seed)
        self.opaque = []

    def __dealloc__(self):
        rs_parcel_clear(&self.keys)
        rs_parcel_clear(&self.values)

    def append(self, key, value):
        """Adds one pair. Raises Refused if it cannot be stored, TypeError from hash(key); the encoder is then
        unchanged."""
        cdef uint64_t n = self.hashes.n
        if self.builder is None:
            self.append_to_parcels(key, value)
        else:
            self.append_to_builder(key, value)
        first = self.hashes.first_opaque(key, n)
        if first is not None:
            self.opaque.append((n - self.n_sent, first, key if first == n else None))

    cdef int append_to_builder(self, key, value) except -1:
        try:
            self.builder.append(key, value)
        except errors.EncodeError as e:
            raise Refused(e.reason, key=e.key) from None
        return 0

    cdef int append_to_parcels(self, key, value) except -1:
        cdef size_t key_arrays = self.keys.arrays.size_bytes, key_slots = self.keys.array_slots.size_bytes
        cdef size_t arrays = self.values.arrays.size_bytes, slots = self.values.array_slots.size_bytes
        cdef rs_error err
        self.hashes.append(key)
        what = "key"
        try:
            encode_value(&self.keys.raw, &self.keys.arrays, key, self.writer, True, &self.keys.array_slots)
            what = "value"
            encode_value(&self.values.raw, &self.values.arrays, value, self.writer, False, &self.values.array_slots)
        except BaseException as e:
            self.drop(key_arrays, key_slots, arrays, slots)
            if isinstance(e, errors.EncodeError):
                raise Refused(f"{what} {e}", key=unsupported().shown(key)) from None
            raise
        cdef rs_status status = rs_parcel_end_record(&self.keys, &err)
        if status == RS_OK:
            status = rs_parcel_end_record(&self.values, &err)
            if status != RS_OK:
                rs_parcel_pop_record(&self.keys, key_arrays, key_slots)
        if status != RS_OK:
            self.drop(key_arrays, key_slots, arrays, slots)
            if status == RS_E_MEM:
                raise_status(&err)
            reason = unsupported().refused(value, err.message.decode()).reason
            raise Refused(reason, key=unsupported().shown(key))
        return 0

    cdef int drop(self, size_t key_arrays, size_t key_slots, size_t arrays, size_t slots) except -1:
        rs_parcel_drop_record(&self.keys, key_arrays, key_slots)
        rs_parcel_drop_record(&self.values, arrays, slots)
        self.hashes.drop_last()
        return 0

    cdef bint is_due(self) except -1:
        """As in ListEncoder."""
        if self.builder is not None:
            return self.builder.builder.keys.n_closed + self.builder.builder.values.n_closed != self.n_closed_sent
        if self.make is None:
            return rs_parcel_size(&self.keys) + rs_parcel_size(&self.values) >= PARCEL_BYTES
        if not fills_block(&self.keys) and not fills_block(&self.values):
            return False
        self.builder = self.make(MappingBuilder)
        self.builder.adopt(pack_parcel(&self.keys), pack_parcel(&self.values), self.hashes)
        rs_parcel_clear(&self.keys)
        rs_parcel_clear(&self.values)
        return self.is_due()

    def extend(self, pairs, send=None):
        """As in ListEncoder."""
        send = send or self.sender
        for key, value in pairs:
            self.append(key, value)
            key = value = None
            if self.is_due():
                send()

    cdef tuple new_hashes(self):
        """The hashes of the pairs since the last call, and a list of the opaque keys among them. Its items are
        `(number among these pairs, number of the key's first pair in the shard, key)`; the key is None after its first
        pair. The building process resolves the list."""
        out = self.hashes.since(self.n_sent), self.opaque
        self.n_sent = self.hashes.n
        self.opaque = []
        return out

    def take(self):
        """The arguments of MappingBuilder.append_parcel for the pairs in the parcels, now empty, the last argument as
        in new_hashes; None without pairs."""
        if self.builder is not None or self.hashes.n == self.n_sent:
            return None
        return pack_parcel(&self.keys), pack_parcel(&self.values), *self.new_hashes()

    def take_blocks(self):
        """The arguments of Placing.place for the blocks and hashes since the last call, the last argument as in
        new_hashes; None if there are none."""
        cdef rs_builder *stores[2]
        if self.builder is None:
            return None
        self.n_closed_sent = self.builder.builder.keys.n_closed + self.builder.builder.values.n_closed
        stores[0], stores[1] = &self.builder.builder.values, &self.builder.builder.keys
        blocks = new_blocks(stores, 2)
        if blocks is None and self.hashes.n == self.n_sent:
            return None
        outside = bytes(self.builder.outside[8 * self.n_sent:])
        return blocks, outside, *self.new_hashes()

    def end(self):
        """As in ListEncoder."""
        if self.builder is not None:
            flush_block(&self.builder.builder.values, False, None)
            flush_block(&self.builder.builder.keys, True, None)


cdef class Placing:
    """Adds the blocks of one shard to a Builder or MappingBuilder. Until `end`, append nothing else to the builder."""

    cdef Builder records
    cdef MappingBuilder pairs
    cdef rs_placing stores[2]

    def __cinit__(self, builder):
        if isinstance(builder, Builder):
            self.records = builder
        else:
            self.pairs = builder

    def __dealloc__(self):
        rs_placing_clear(&self.stores[0])
        rs_placing_clear(&self.stores[1])

    def place(self, bytes blocks, bytes outside=None, bytes hashes=None, list opaque=None):
        """Adds the result of take_blocks. Raises CorruptError or VersionError for malformed blocks. After any error the
        builder can only be aborted."""
        cdef rs_builder *stores[2]
        if self.pairs is None:
            stores[0] = &self.records.builder
            self.place_blocks(blocks, stores, 1, self.records)
            return
        stores[0], stores[1] = &self.pairs.builder.values, &self.pairs.builder.keys
        self.pairs.place_hashes(outside, hashes, opaque)
        if blocks is not None:
            self.place_blocks(blocks, stores, 2, self.pairs)

    cdef int place_blocks(self, bytes blocks, rs_builder **stores, unsigned n, SegmentBuilder builder) except -1:
        cdef rs_slice content = rs_slice_of(<const char *>blocks, len(blocks))
        cdef rs_error err
        cdef rs_status status
        cdef unsigned i
        builder.require_active()
        for i in range(n):
            flush_block(stores[i], True, builder.saved)
        with nogil:
            status = rs_block_parcel_place(content, stores, self.stores, n, &err)
        return check_path(status, &err, builder.saved)

    def end(self):
        """Ends the shard. Raises CorruptError unless each pair has a hash, a key and a value."""
        if self.pairs is None:
            return
        n = self.pairs.hashes.n
        if self.pairs.builder.keys.n_records != n or self.pairs.builder.values.n_records != n:
            raise errors.CorruptError("the parts of a shard of pairs do not have the same number of records")
