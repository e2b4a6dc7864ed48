"""Builds mappings: streams keys and values into one segment, then writes the key index
(csrc/write/rs_mapping_builder.h)."""


@cython.final
cdef class MappingBuilder(SegmentBuilder):
    """Streams pairs into a new segment."""

    cdef rs_mapping_builder builder
    cdef encode_keys key_keys, value_keys
    cdef readonly KeyHashes hashes
    cdef bytearray outside  # the size of each value's large arrays, 8 bytes each, up to the last value that has any

    def __cinit__(self, *args, **options):
        cdef rs_error err
        self.hashes = KeyHashes()
        self.outside = bytearray()
        check(rs_mapping_builder_open(&self.builder, &self.writer, &self.choices, &err), &err)
        set_label(&self.builder.keys, self.label)
        self.builder.keys.pipeline = self.builder.values.pipeline = self.pipeline

    def __dealloc__(self):
        self.abort()
        encode_keys_clear(&self.key_keys)
        encode_keys_clear(&self.value_keys)

    cdef void close_stores(self) noexcept nogil:
        rs_mapping_builder_close(&self.builder)

    def append(self, key, value):
        """Adds one pair. Raises EncodeError for a pair that cannot be stored, TypeError from hash(key); the builder is
        then unchanged."""
        cdef size_t keys_mark, values_mark
        cdef rs_error err
        cdef rs_scan_counts of_key, of_value
        cdef rs_scan_counts *key_counts = NULL
        cdef rs_scan_counts *value_counts = NULL
        self.require_active()
        keys_mark = self.builder.keys.arrays.size_bytes
        values_mark = self.builder.values.arrays.size_bytes
        cdef uint64_t number = self.hashes.n
        self.hashes.append(key)
        what = "key"
        try:
            if encode_counted(&self.builder.keys, &self.key_keys, key, self.settings, True, &of_key):
                key_counts = &of_key
            what = "value"
            if encode_counted(&self.builder.values, &self.value_keys, value, self.settings, False, &of_value):
                value_counts = &of_value
        except errors.EncodeError as e:
            self.drop(keys_mark, values_mark)
            raise errors.EncodeError(f"{what} {e}", number, hooks.module("unsupported").shown(key)) from None
        except BaseException:
            self.drop(keys_mark, values_mark)
            raise
        cdef rs_status status = rs_mapping_builder_end_counted_pair(&self.builder, key_counts, value_counts, &err)
        if status != RS_OK:
            self.drop(keys_mark, values_mark)
            if status == RS_E_MEM:
                raise_status(&err)
            unsupported = hooks.module("unsupported")
            reason = unsupported.refused(value, err.message.decode()).reason
            raise errors.EncodeError(reason, number, unsupported.shown(key))
        self.pair_ended(number, values_mark)

    cdef int pair_ended(self, uint64_t number, size_t values_mark) except -1:
        cdef object size
        if self.builder.values.arrays.size_bytes != values_mark:
            self.outside.extend(bytes(8 * number - len(self.outside)))
            size = self.builder.values.arrays.size_bytes - values_mark
            self.outside.extend(size.to_bytes(8, sys.byteorder))
        self.flush_if_full(&self.builder.keys)
        return self.flush_if_full(&self.builder.values)

    def append_parcel(self, bytes packed_keys, bytes packed_values, bytes hashes, list opaque):
        """Adds the pairs of a parcel of a PairEncoder (parcels.pyx) with this builder's seed. `opaque` is as in
        KeyHashes.extend."""
        cdef uint64_t first = self.hashes.n
        self.require_active()
        self.hashes.extend(hashes, opaque)
        self.append_pairs(packed_keys, packed_values, first)

    cdef int append_pairs(self, bytes packed_keys, bytes packed_values, uint64_t first) except -1:
        """Adds the pairs of a parcel, numbered from `first`. `self.hashes` already has their hashes."""
        cdef rs_parcel_reader keys, values
        cdef rs_error err
        cdef rs_builder *k = &self.builder.keys
        cdef rs_builder *v = &self.builder.values
        cdef uint64_t i
        cdef size_t mark
        check(rs_parcel_open(rs_slice_of(<const char *>packed_keys, len(packed_keys)), &keys, &err), &err)
        check(rs_parcel_open(rs_slice_of(<const char *>packed_values, len(packed_values)), &values, &err), &err)
        if keys.n_records != values.n_records or keys.n_records != self.hashes.n - first:
            raise errors.CorruptError("the parts of a parcel of pairs do not have the same number of records")
        for i in range(keys.n_records):
            mark = v.arrays.size_bytes
            check(rs_parcel_next(&keys, &k.raw, &k.arrays, &err), &err)
            check(rs_parcel_next(&values, &v.raw, &v.arrays, &err), &err)
            check(rs_mapping_builder_end_pair(&self.builder, &err), &err)
            self.pair_ended(first + i, mark)
        return 0

    cdef int adopt(self, bytes packed_keys, bytes packed_values, KeyHashes hashes) except -1:
        """Adds the first pairs of this builder, from a parcel. `hashes` has their hashes and becomes the builder's."""
        self.hashes = hashes
        return self.append_pairs(packed_keys, packed_values, 0)

    cdef int place_hashes(self, bytes outside, bytes hashes, list opaque) except -1:
        """Adds the hashes of the pairs that rs_block_parcel_place adds, and the sizes of their arrays to
        `self.outside`."""
        if len(outside):
            if len(outside) % 8 or len(outside) > len(hashes):
                raise errors.CorruptError("the parts of a parcel of pairs do not have the same number of records")
            self.outside.extend(bytes(8 * self.hashes.n - len(self.outside)))
            self.outside.extend(outside)
        self.hashes.extend(hashes, opaque)
        return 0

    @property
    def raw(self):
        """As of a Builder."""
        return raw_bytes(&self.builder.keys) + raw_bytes(&self.builder.values)

    def sizes(self):
        """As of a Builder."""
        cdef rs_build_sizes keys, values
        with nogil:
            keys = rs_builder_measure(&self.builder.keys)
            values = rs_builder_measure(&self.builder.values)
        return keys.raw_written + values.raw_written, values.written + keys.sections + values.sections

    def end_block(self, bint wait=False):
        """As of a Builder."""
        self.require_active()
        flush_block(&self.builder.values, False, self.saved)
        flush_block(&self.builder.keys, wait, self.saved)

    def extend(self, pairs):
        for key, value in pairs:
            self.append(key, value)
            key = value = None  # frees the pair before the stream makes the next one

    def array_bytes(self, record):
        """The size in bytes of a value's large arrays, which are stored outside its record."""
        return int.from_bytes(self.outside[8 * record : 8 * record + 8], sys.byteorder)

    cdef int drop(self, size_t keys_mark, size_t values_mark) except -1:
        rs_mapping_builder_drop_pair(&self.builder, keys_mark, values_mark)
        self.hashes.drop_last()
        return 0

    cdef int flush_if_full(self, rs_builder *builder) except -1:
        return flush_block(builder, False, self.saved) if rs_builder_is_full(builder) else 0

    def finish(self, uint32_t factory=0):
        """Writes the tables and returns `(segment, dead keys, dead values)`. Dead records belong to no entry, because
        a key was repeated. The builder is then unusable, even if this raises."""
        cdef rs_error err
        cdef rs_status status
        self.require_active()
        try:
            flush_block(&self.builder.values, False, self.saved)
            flush_block(&self.builder.keys, True, self.saved)
            with nogil:
                status = rs_mapping_builder_write_tables(&self.builder, &err)
            check_path(status, &err, self.saved)
            dead_keys, dead_values, firsts, lasts = self.find_order()
            self.write_table(factory, dead_keys, firsts, lasts)
            return self.seal(), dead_keys, dead_values
        except BaseException:
            self.abort()
            raise

    cdef tuple find_order(self):
        """The result of merge_twins for all pairs. If no key is repeated, nothing is dead and both arrays are None."""
        cdef rs_store store
        cdef rs_written_keys written
        cdef rs_error err
        suspects = self.hashes.suspects()
        if not suspects and not self.hashes.opaque:
            return (), (), None, None
        check_path(rs_mapping_builder_map_keys(&self.builder, &written, &err), &err, self.saved)
        try:
            check(rs_store_open_prepared(&store, written.bytes, &written.header, &written.directory, &err), &err)
            try:
                twins = self.hashes.twins(suspects, StoreReader.over(&store, self.settings.reader()).read)
            finally:
                rs_store_close(&store)
        finally:
            rs_written_keys_unmap(&written)
        return merge_twins(twins, self.hashes.n) if twins else ((), (), None, None)

    cdef int write_table(self, uint32_t factory, dead, firsts, lasts) except -1:
        cdef rs_buffer table
        cdef rs_error err
        cdef rs_status status
        cdef uint64_t n, i
        cdef uint64_t *numbers = NULL
        cdef KeyHashes hashes = self.hashes if firsts is None else self.hashes.without(dead)
        content = hashes.key_index(factory)
        n = hashes.n
        memset(&table, 0, sizeof(rs_buffer))
        table.data = <uint8_t *><char *>content
        table.size_bytes = len(content)
        if firsts is not None:
            numbers = <uint64_t *>malloc(16 * n + 1)
            if numbers == NULL:
                raise MemoryError
            for i in range(n):
                numbers[2 * i] = firsts[i]
                numbers[2 * i + 1] = lasts[i]
        with nogil:
            status = rs_mapping_builder_finish(&self.builder, &table, numbers, n, &err)
        free(numbers)
        return check_path(status, &err, self.saved)
