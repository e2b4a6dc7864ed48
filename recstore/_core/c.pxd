# The functions and types of the C core that the binding uses, from its public header.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "recstore.h" nogil:
    ctypedef int rs_status
    ctypedef bint rs_bool "bool"

    ctypedef struct rs_error:
        rs_status code
        int sys_errno
        uint64_t offset
        uint64_t record
        uint64_t needed
        char message[256]

    uint64_t RS_NOWHERE
    const char *rs_status_text(rs_status code)
    const char *rs_status_name(rs_status code)
    rs_status rs_error_set(rs_error *err, rs_status code, uint64_t offset, const char *format, ...)

    enum:
        RS_OK, RS_E_ARG_RANGE, RS_E_ARG_TEXT, RS_E_ARG_LIMIT, RS_E_FMT_VALUE, RS_E_FMT_VERSION, RS_E_FMT_CHECKSUM
        RS_E_STATE_BUSY, RS_E_STATE_STOPPED, RS_E_STATE_ABSENT, RS_E_SPACE, RS_E_MEM, RS_E_IN_VALUE, RS_E_IN_FAILED

    enum:
        RS_FMT_TAG_NONE, RS_FMT_TAG_BIGINT, RS_FMT_TAG_STR1, RS_FMT_TAG_STR4, RS_FMT_TAG_LIST, RS_FMT_TAG_TUPLE
        RS_FMT_TAG_DICT, RS_FMT_TAG_NDARRAY, RS_FMT_TAG_EXT, RS_FMT_NODE_ANY, RS_FMT_NODE_CONST
        RS_FMT_NODE_INT, RS_FMT_NODE_FLOAT, RS_FMT_NODE_BOOL, RS_FMT_NODE_STR, RS_FMT_NODE_BYTES
        RS_FMT_NODE_LIST, RS_FMT_NODE_TUPLE, RS_FMT_NODE_STRUCT, RS_FMT_NODE_UNION, RS_FMT_NODE_NDARRAY
        RS_FMT_NODE_EXT, RS_FMT_NODE_DECIMAL, RS_FMT_NODE_NUMBERS, RS_FMT_NODE_DICT_CODED, RS_FMT_NODE_SYMBOLS
        RS_FMT_NODE_CONCAT, RS_FMT_NODE_DIGITS, RS_FMT_NODE_HEX, RS_FMT_NODE_ALPHABET, RS_FMT_NODE_OPTIONAL
        RS_FMT_NODE_RISING, RS_FMT_NODE_RUNS, RS_FMT_NODE_EXCEPTIONS, RS_FMT_NODE_MAP, RS_FMT_NODE_LAST
        RS_FMT_FLAG_FIXED, RS_FMT_ARRAY_SCALAR, RS_FMT_ARRAY_INLINE, RS_FMT_ARRAY_NDIM, RS_FMT_ALIGNMENT, RS_FMT_DEPTH
        RS_FMT_ARRAY_FORTRAN, RS_FMT_BLOCK_RAW, RS_FMT_BLOCK_RECORDS, RS_FMT_SECTION_BLOCKS, RS_FMT_SECTION_OFFSETS
        RS_FMT_SECTION_TREES, RS_FMT_SECTION_TREE_TABLE, RS_FMT_INDEX_LINES, RS_FMT_SECTION_KEY_INDEX
        RS_FMT_SECTION_TABLES, RS_FMT_TABLE_VALUES, RS_FMT_TABLE_SYMBOLS, RS_FMT_EXT_COMPLEX, RS_FMT_EXT_SET
        RS_FMT_EXT_FROZENSET, RS_FMT_EXT_ORDEREDDICT, RS_FMT_EXT_COUNTER, RS_FMT_EXT_DEFAULTDICT
        RS_FMT_EXT_DEQUE, RS_FMT_EXT_ENUM, RS_FMT_EXT_NAMEDTUPLE, RS_FMT_EXT_OBJECT, RS_FMT_EXT_TENSOR
        RS_FMT_EXT_LAST, RS_FMT_EXT_LINE, RS_FMT_ARRAY_WIDTH_SHIFT
    uint64_t RS_FMT_FEATURE_LINE

    ctypedef struct rs_integers:
        const uint8_t *first
        int64_t stride_bytes
        uint64_t n
        unsigned item_bytes
        rs_bool is_signed
        rs_bool is_swapped

    void rs_positions_copy(const rs_integers *source, int64_t *out)
    uint64_t rs_positions_settle(int64_t *io, uint64_t n, int64_t length, rs_bool is_unsigned)
    void rs_positions_settle_or_drop(int64_t *io, uint64_t n, int64_t length, rs_bool is_unsigned)
    int64_t rs_positions_undo(int64_t settled, int64_t length, rs_bool is_unsigned)
    void rs_positions_steps(int64_t *out, uint64_t n, int64_t start, int64_t step)
    uint64_t rs_positions_count(const uint8_t *mask, uint64_t n)
    uint64_t rs_positions_of_mask(const uint8_t *mask, uint64_t n, int64_t *out)
    void rs_positions_narrow(const int64_t *source, uint64_t n, uint8_t *out)

    ctypedef struct rs_slice:
        const uint8_t *ptr
        const uint8_t *end
    rs_slice rs_slice_of(const void *data, size_t size)
    size_t rs_slice_left(const rs_slice *s)
    uint32_t rs_load_u32(const uint8_t *p)
    uint64_t rs_load_u64(const uint8_t *p)
    void rs_store_u32(uint8_t *p, uint32_t v)
    void rs_store_u64(uint8_t *p, uint64_t v)
    unsigned rs_put_varint(uint8_t *p, uint64_t value)

    ctypedef struct rs_buffer:
        uint8_t *data
        size_t size_bytes
    void rs_buffer_clear(rs_buffer *self)
    rs_status rs_buffer_reserve(rs_buffer *self, size_t extra, rs_error *err)
    rs_status rs_buffer_append(rs_buffer *self, const void *bytes, size_t n, rs_error *err)
    rs_status rs_buffer_append_zeros(rs_buffer *self, size_t n, rs_error *err)

    uint32_t rs_crc32c(uint32_t crc, const void *bytes, size_t size)

    bint rs_tag_is_small(uint8_t tag)

    ctypedef struct rs_array_type:
        uint8_t flags, width, code
        uint64_t item_bytes
        rs_slice descriptor
    rs_status rs_any_ext_head(rs_slice *s, rs_slice *head, rs_error *err)
    rs_status rs_array_data_skip(rs_slice *s, uint64_t data_bytes, uint64_t arrays_size, uint64_t *outside,
                                 rs_error *err)
    rs_status rs_array_type_take(rs_slice *s, rs_array_type *out, rs_error *err)
    rs_status rs_array_shape_take(rs_slice *s, uint64_t item_bytes, uint32_t *ndim, uint64_t *dims,
                                  uint64_t *data_bytes, rs_error *err)
    uint64_t rs_array_data_bytes(uint8_t flags, uint64_t item_bytes, uint64_t all_bytes)
    void rs_narrow_read(const uint8_t *data, unsigned w, unsigned size, uint64_t n, uint64_t i, uint64_t m, uint8_t *to)
    unsigned rs_narrow_choose(uint8_t code, const uint8_t *items, uint64_t n, uint64_t *base)
    void rs_narrow_write(const uint8_t *items, unsigned size, uint64_t n, unsigned width, uint64_t base, uint8_t *out)

    ctypedef struct rs_budget:
        uint64_t values
        uint64_t bytes
        uint32_t depth

    ctypedef struct rs_tree
    ctypedef struct rs_table

    ctypedef struct rs_coded_table:
        const rs_table *table

    ctypedef struct rs_dict_coded:
        uint32_t n_tables
        uint32_t count
        rs_coded_table *at

    ctypedef struct rs_node:
        uint64_t base
        uint8_t kind
        uint8_t param
        uint16_t flags
        uint8_t bits
        bint fixed
        uint32_t index
        uint32_t n_children
        uint32_t count
        uint32_t aux_size_bytes
        uint32_t bit_off
        uint32_t body_off
        uint64_t size_bytes
        uint64_t item_bytes
        const rs_node *children
        const uint8_t *aux
        bint partial
        const rs_dict_coded *coded
        void *slot

    ctypedef struct rs_tree:
        rs_node *nodes
        uint32_t n_nodes
        uint32_t size_bytes
        uint32_t n_links
        void *program

    ctypedef struct rs_block:
        uint64_t first_record
        uint32_t n_records
        uint32_t tree
        uint64_t heap_off
        uint64_t heap_size_bytes
        uint64_t index_off
        uint32_t row_size_bytes
        uint16_t index_width
        uint16_t index_bits
        uint64_t arrays_off
        uint64_t arrays_size_bytes
        uint32_t heap_crc
    rs_status rs_offsets_locate(const uint8_t *segment, const rs_block *block, uint32_t local, rs_slice *out,
                                rs_error *err)

    ctypedef struct rs_symbols:
        uint32_t n_symbols

    ctypedef struct rs_table:
        const uint8_t *segment
        rs_block block
        const rs_tree *tree
        rs_symbols symbols
        unsigned kind
        void *slot

    ctypedef struct rs_cursor:
        rs_slice in_ "in"
        const uint8_t *arrays
        uint64_t arrays_size
        rs_budget budget
        rs_bool shared
    rs_status rs_decode_take(rs_cursor *self, uint64_t n, const uint8_t **out, rs_error *err)

    ctypedef struct rs_rare_group:
        pass
    rs_status rs_decode_row(rs_cursor *self, const rs_node *node, uint64_t bits, const uint8_t **head,
                            rs_slice *group, rs_rare_group *room, rs_error *err)
    rs_status rs_decode_varint(rs_cursor *self, uint64_t *out, rs_error *err)
    rs_status rs_decode_units(rs_cursor *self, uint64_t n, unsigned unit_bytes, const uint8_t **out, rs_error *err)
    uint64_t rs_decode_bits_unchecked(const rs_slice *group, uint64_t bit_off, unsigned n_bits)
    rs_status rs_decode_spend_shared(rs_cursor *self, uint64_t n, rs_error *err)
    rs_status rs_decode_array_data(rs_cursor *self, uint64_t data_bytes, const uint8_t **out, rs_error *err)

    ctypedef struct rs_place:
        const rs_node *node
        const uint8_t *body
        uint64_t bits
    rs_status rs_path_begin(rs_cursor *cursor, const rs_node *root, rs_place *out, rs_error *err)
    rs_status rs_path_open(rs_cursor *cursor, rs_place *place, rs_error *err)
    rs_status rs_path_child(rs_cursor *cursor, rs_place *place, uint32_t i, rs_error *err)
    rs_status rs_path_pass_children_from(rs_cursor *cursor, const rs_node *node, const rs_slice *group, uint32_t begin,
                                         uint32_t end, rs_error *err)
    rs_status rs_path_element(rs_cursor *cursor, rs_place *place, int64_t i, rs_bool *found, rs_error *err)
    rs_status rs_path_any_enter(rs_cursor *cursor, uint64_t per_element, uint64_t *n, rs_error *err)
    rs_status rs_path_any_pass(rs_cursor *cursor, rs_error *err)

    ctypedef struct rs_column:
        rs_buffer values
        unsigned seen
        rs_bool inexact

    enum:
        RS_STEP_NONE, RS_STEP_ASK, RS_STEP_OPEN
    ctypedef struct rs_path_key:
        const uint8_t *units
        uint64_t n
        unsigned unit_bytes
        rs_bool is_index
        int64_t index
    ctypedef struct rs_path_name:
        uint32_t whole
        uint32_t parts
        uint32_t n_parts
    ctypedef struct rs_key_path:
        const rs_path_key *keys
        const rs_path_name *names
        uint32_t n_keys
        uint32_t n_names
    ctypedef struct rs_compiled_tree:
        const rs_tree *tree
    ctypedef struct rs_compiled_path:
        rs_compiled_tree *trees
        size_t n_trees
        const rs_node *node
        uint64_t bit_off, body_off, least
    rs_status rs_compiled_path_open(rs_compiled_path *self, const rs_key_path *path, const rs_tree *tree, rs_error *err)
    void rs_compiled_path_clear(rs_compiled_path *self)
    void rs_compiled_path_set(rs_compiled_path *self, size_t tree, uint32_t key, uint32_t node, int32_t to)
    void rs_compiled_path_prepare(rs_compiled_path *self)
    rs_bool rs_compiled_path_is_fixed(const rs_compiled_path *self)

    void rs_utf8_pad_unchecked(const uint8_t *data, const int64_t *offsets, uint64_t n, uint64_t width, uint8_t *out)
    void rs_utf8_widen_unchecked(const uint8_t *data, const int64_t *offsets, uint64_t n, uint64_t width, uint32_t *out)
    uint64_t rs_utf8_longest(const uint8_t *data, const int64_t *offsets, uint64_t n)

    ctypedef struct rs_limits:
        uint64_t max_values
        uint64_t max_bytes

    enum:
        RS_FMT_CONTENT_MAPPING

    ctypedef struct rs_header:
        uint64_t segment_size
        uint8_t segment_id[16]
        uint32_t content
        uint64_t created_ns
        uint64_t features_required
        uint64_t n_records
        uint64_t max_values
        uint64_t max_bytes
        uint64_t most_values

    ctypedef struct rs_section:
        uint64_t off
        uint64_t size_bytes
        uint64_t count
        uint32_t crc

    ctypedef struct rs_directory:
        rs_section sections[10]
        rs_section label
        rs_section saved_indexes[16]
        uint32_t n_saved_indexes

    ctypedef struct rs_os_identity:
        uint64_t device
        uint64_t inode
        uint64_t size_bytes

    ctypedef enum rs_backing:
        RS_BACKING_ANONYMOUS
        RS_BACKING_DIRECTORY
        RS_BACKING_FILE
        RS_BACKING_NAMED
        RS_BACKING_TEMPORARY

    ctypedef struct rs_segment:
        int fd
        const uint8_t *data
        uint64_t size_bytes
        uint64_t start_bytes
        rs_os_identity identity
    rs_status rs_segment_adopt(rs_segment *self, int fd, rs_error *err)
    rs_status rs_segment_open_path(rs_segment *self, const char *path, bint follow_links, rs_error *err)
    rs_status rs_segment_open_leased(rs_segment *self, const char *path, rs_error *err)
    rs_status rs_segment_copy(rs_segment *out, const rs_segment *src, uint64_t size_bytes, rs_error *err)
    void rs_segment_close(rs_segment *self)

    ctypedef struct rs_segment_writer:
        int fd
        int backing
        uint64_t position
        rs_os_identity identity
        char *path
    rs_status rs_segment_writer_open(rs_segment_writer *self, rs_backing backing, const char *dir, const char *name,
                                     rs_error *err)
    rs_status rs_segment_writer_append(rs_segment_writer *self, const void *bytes, size_t n, rs_error *err)
    rs_status rs_segment_writer_finish(rs_segment_writer *self, rs_segment *out, rs_error *err)
    void rs_segment_writer_abort(rs_segment_writer *self)

    ctypedef struct rs_os_stamp:
        uint64_t size_bytes
        uint64_t modified_ns
        uint64_t inode
    rs_status rs_os_stamp_of(const char *path, rs_os_stamp *out, rs_error *err)
    rs_status rs_os_open_readonly(const char *path, rs_bool follow_links, int *out_fd, rs_error *err)
    rs_status rs_os_identify(int fd, rs_os_identity *out, rs_error *err)
    rs_status rs_os_map(int fd, uint64_t size_bytes, const uint8_t **out, rs_error *err)
    void rs_os_unmap(const uint8_t *data, uint64_t size_bytes)
    rs_status rs_os_reopen_readonly(int fd, int *out_fd, rs_error *err)
    rs_status rs_os_rename(const char *source, const char *target, rs_error *err)
    rs_status rs_os_sync_directory(const char *path, rs_error *err)
    rs_status rs_os_unlink(const char *path, const rs_os_identity *expected, rs_error *err)
    bint rs_os_is_sealed(int fd)
    void rs_os_close(int *fd)
    void rs_os_touch(int fd)
    uint64_t rs_os_now_ns()
    rs_status rs_os_publish(int fd, const char *temporary, const char *path, const char *between, rs_error *err)
    rs_status rs_os_unlink_unused(const char *path, rs_bool group, const rs_os_identity *expected,
                                  rs_bool *out_removed, rs_error *err)
    ctypedef struct rs_os_removable:
        uint64_t device
        uint64_t inode
        uint64_t modified_ns

    rs_status rs_os_unlink_removable(const char *path, const rs_os_removable *judged, rs_bool *out_removed,
                                     rs_error *err)
    rs_status rs_os_is_leased(const char *path, rs_bool *out, rs_error *err)
    ctypedef struct rs_os_lock:
        int fd
    rs_status rs_os_open_lock(const char *path, rs_bool group, rs_os_lock *out, rs_error *err)
    void rs_os_close_lock(rs_os_lock *lock)
    rs_status rs_os_try_lock(int fd, const char *path, rs_bool *out_named, rs_error *err)
    bint rs_os_leads_to(const char *path, int fd)
    void rs_os_trim()

    enum:
        RS_SCALAR_TEXT
    ctypedef struct rs_store:
        rs_slice segment
        rs_header header
        rs_directory directory
        rs_block *blocks
        rs_tree *trees
        rs_table *tables
        uint64_t n_blocks
        uint64_t n_trees
        uint64_t n_tables

    ctypedef struct rs_record:
        rs_slice bytes
        const rs_block *block
        const rs_tree *tree
    rs_status rs_store_open(rs_store *self, rs_slice bytes, const rs_limits *limits, rs_error *err)
    rs_status rs_store_open_prepared(rs_store *self, rs_slice bytes_, const rs_header *header,
                                     const rs_directory *directory, rs_error *err)
    enum:
        RS_STORE_CHUNK
    rs_status rs_store_set_present(rs_store *self, const uint8_t *present, rs_error *err)
    void rs_store_close(rs_store *self)
    rs_status rs_store_freeze(rs_store *self, rs_error *err)
    rs_status rs_store_load_block(rs_store *self, uint64_t number, rs_error *err)
    rs_status rs_store_know_block(rs_store *self, uint64_t number, const rs_block **out, rs_error *err)
    rs_status rs_store_load_table(rs_store *self, uint32_t number, rs_error *err)
    rs_status rs_store_find(rs_store *self, uint64_t index, rs_record *out, rs_error *err)
    rs_cursor rs_store_cursor(const rs_store *self, const rs_record *record)

    ctypedef struct rs_tree_paths:
        const rs_compiled_path *const *of_field
        uint32_t n
    void rs_tree_paths_set(rs_tree_paths *self, const rs_compiled_path *const *of_field, uint32_t *order, uint32_t n)
    ctypedef struct rs_source:
        const rs_store *store
        const rs_tree_paths **of_block

    enum:
        RS_DTYPES, RS_DTYPE_INT64
    const char *rs_dtype_name(unsigned dtype)
    uint64_t rs_dtype_put_ints(unsigned dtype, const int64_t *source, uint64_t n, uint8_t *to, size_t step)
    rs_bool rs_dtype_put_bigint(unsigned dtype, const uint8_t *p, uint64_t n, uint8_t *to)
    uint64_t rs_dtype_put_floats(unsigned dtype, const double *source, uint64_t n, uint8_t *to, size_t step)
    uint64_t rs_dtype_put_complex(unsigned dtype, const double *source, uint64_t n, uint8_t *to, size_t step)

    ctypedef struct rs_names:
        uint64_t n
    void rs_names_clear(rs_names *self)
    rs_status rs_names_add_text(rs_names *self, const uint8_t *text, uint64_t n, rs_bool *is_new, rs_error *err)
    rs_status rs_names_add_int(rs_names *self, int64_t value, rs_bool *is_new, rs_error *err)

    enum:
        RS_GATHER_ROW_DIMS
        RS_GATHER_VALUES, RS_GATHER_RAGGED, RS_GATHER_NESTED, RS_GATHER_PADDED, RS_GATHER_PADDED_NESTED
        RS_GATHER_PACKED, RS_GATHER_TEXT, RS_GATHER_STRINGS, RS_GATHER_CODES
        RS_GATHER_NUMBERS, RS_GATHER_LISTS
        RS_GATHER_RAISE, RS_GATHER_FILL, RS_GATHER_MASK
        RS_GATHER_DONE, RS_GATHER_BLOCK, RS_GATHER_UNSURE, RS_GATHER_LACKING, RS_GATHER_NONE, RS_GATHER_KIND
        RS_GATHER_LENGTH, RS_GATHER_RANGE, RS_GATHER_LONG, RS_GATHER_UNNAMED, RS_GATHER_SHORT
        RS_RUN_ITEMS
    ctypedef struct rs_run:
        const uint8_t *data
        uint64_t n, at
        uint8_t kind, code
    ctypedef struct rs_gather_spec:
        unsigned form, dtype, missing
        uint32_t n_row
        uint64_t row[8]
        uint64_t row_numbers
        uint8_t fill[16]
        uint64_t length, inner_length, multiple
        rs_bool truncate, split
        const rs_names *names
        rs_slice absent
    ctypedef struct rs_gather_part:
        uint64_t off
        unsigned dtype
        uint32_t ndim
        uint64_t shape[11]
    ctypedef struct rs_gather_given:
        const int64_t *starts
        const int64_t *counts
        const int64_t *ends
        uint64_t n_rows
        rs_bool cut
    ctypedef struct rs_gather_field:
        const rs_gather_spec *spec
        uint8_t *valid
        uint64_t done
        rs_buffer values
        rs_buffer ends
        rs_column column
        rs_gather_part parts[5]
        uint32_t n_parts
    ctypedef struct rs_gather_stop:
        int why
        uint32_t field
        uint64_t record, index, block, number
    ctypedef struct rs_gather:
        rs_gather_field *fields
        uint32_t n_fields
        rs_bool direct
        uint64_t n, done
        rs_gather_stop stop
    rs_status rs_gather_open(rs_gather *self, const rs_gather_spec *specs, uint32_t n_fields, rs_error *err)
    void rs_gather_close(rs_gather *self)
    uint64_t rs_gather_kept_bytes(const rs_gather *self)
    rs_status rs_gather_begin(rs_gather *self, uint64_t n, rs_error *err)
    rs_status rs_gather_field_begin(rs_gather_field *self, uint64_t n, rs_bool direct, rs_error *err)
    rs_status rs_gather_add_run(rs_gather_field *self, const rs_run *run, rs_error *err)
    void rs_gather_give(rs_gather *self, const rs_gather_given *given)
    rs_status rs_gather_measure(rs_gather *self, const rs_source *source, const int64_t *positions, int64_t start,
                                int64_t step, uint64_t end, rs_error *err)
    rs_status rs_gather_take(rs_gather *self, const rs_cursor *cursor, const rs_place *place, rs_error *err)
    rs_status rs_gather_take_string(rs_gather *self, rs_error *err)
    rs_status rs_gather_layout(rs_gather *self, uint64_t *size_bytes, rs_error *err)
    void rs_gather_place(rs_gather *self, uint8_t *buffer)
    rs_status rs_gather_fill(rs_gather *self, uint8_t *buffer, rs_error *err)

    struct ArrowSchema:
        void (*release)(ArrowSchema *) noexcept
    struct ArrowArray:
        int64_t length
        void (*release)(ArrowArray *) noexcept
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *) noexcept
        int (*get_next)(ArrowArrayStream *, ArrowArray *) noexcept
        const char *(*get_last_error)(ArrowArrayStream *) noexcept
        void (*release)(ArrowArrayStream *) noexcept
        void *private_data

    enum:
        RS_ARROW_KIND_LIST, RS_ARROW_KIND_STRUCT
        RS_ARROW_SEEN_NULL, RS_ARROW_SEEN_STRUCT
        RS_ARROW_PROBLEM_NONE
        RS_ARROW_DONE, RS_ARROW_BLOCK, RS_ARROW_UNSURE, RS_ARROW_LACKING, RS_ARROW_FULL
    ctypedef struct rs_arrow_field:
        char *name
        size_t name_size
        rs_arrow_field **children
        rs_arrow_field *element
        uint32_t n_children
        uint32_t seen
        uint64_t others
        uint8_t kind, problem
        rs_bool closed, utc, rows, present
        uint64_t n_null
    ctypedef struct rs_arrow_stop:
        int why
        uint64_t done
        uint64_t block
        uint64_t index
    ctypedef struct rs_arrow_out:
        rs_arrow_field *root
        rs_slice missing
        rs_bool has_rest, wide
    rs_status rs_arrow_field_child(rs_arrow_field *self, const char *name, size_t size,
                                   rs_arrow_field **out, rs_error *err)
    void rs_arrow_set_kind(rs_arrow_field *self, unsigned kind)
    void rs_arrow_request_views(rs_arrow_field *self)
    void rs_arrow_request(rs_arrow_field *self, const ArrowSchema *wanted)
    rs_status rs_arrow_out_open(rs_arrow_out *self, rs_error *err)
    void rs_arrow_out_clear(rs_arrow_out *self)
    rs_status rs_arrow_out_add_block(rs_arrow_out *self, rs_source *source, uint64_t block,
                                     const rs_compiled_path *compiled, rs_error *err)
    void rs_arrow_out_infer_all(rs_arrow_out *self)
    rs_status rs_arrow_out_resolve(rs_arrow_out *self, rs_bool *whole, rs_error *err)
    rs_status rs_arrow_out_settle(rs_arrow_out *self, uint64_t rows, rs_error *err)
    rs_status rs_arrow_out_run(rs_arrow_out *self, const rs_source *source, const int64_t *positions,
                               int64_t start, int64_t step, uint64_t n, rs_arrow_stop *stop, rs_error *err)
    rs_status rs_arrow_out_take(rs_arrow_out *self, const rs_cursor *cursor, const rs_place *place, rs_error *err)
    rs_status rs_arrow_out_take_missing(rs_arrow_out *self, rs_error *err)
    rs_status rs_arrow_out_batch(rs_arrow_out *self, uint64_t rows, ArrowArray *out, rs_error *err)
    rs_status rs_arrow_export_schema(const rs_arrow_field *self, ArrowSchema *out, rs_error *err)

    void rs_store_prefetch_offsets(const rs_store *self, uint64_t index)
    void rs_store_prefetch(const rs_store *self, uint64_t index)

    ctypedef enum rs_key_match:
        RS_KEY_DIFFERS
        RS_KEY_EQUAL
        RS_KEY_UNKNOWN
    rs_key_match rs_store_key_equals_str(rs_store *self, uint64_t index, unsigned unit_bytes,
                                         const uint8_t *units, uint64_t n)
    rs_key_match rs_store_key_equals_int(rs_store *self, uint64_t index, int64_t value)

    ctypedef struct rs_node_size:
        uint64_t values
        uint64_t bits
    rs_status rs_node_sizes_add_block(const rs_store *store, const rs_block *block, rs_node_size *sizes, rs_error *err)
    rs_status rs_node_sizes_add_table(const rs_store *store, const rs_table *table, rs_node_size *sizes, rs_error *err)

    ctypedef enum rs_level:
        RS_LEVEL_NONE, RS_LEVEL_FAST, RS_LEVEL_AUTO, RS_LEVEL_SMALL
    ctypedef struct rs_choices:
        uint64_t without
    rs_choices rs_choices_of(rs_level level)

    ctypedef struct rs_pipeline:
        pass
    enum:
        RS_PIPELINE_THREADS
    rs_status rs_pipeline_open(rs_pipeline **out, unsigned threads, rs_error *err)
    void rs_pipeline_close(rs_pipeline *self)

    ctypedef struct rs_scan:
        size_t n_key_sets
    ctypedef struct rs_scan_counts:
        uint64_t values

    ctypedef struct rs_builder:
        rs_pipeline *pipeline
        rs_buffer raw
        rs_buffer arrays
        rs_scan scan
        uint64_t n_records
        uint64_t n_closed
        uint64_t raw_closed
        rs_slice label
        uint64_t label_pairs
    rs_status rs_builder_open(rs_builder *self, rs_segment_writer *writer, const rs_choices *choices, rs_error *err)
    rs_status rs_builder_end_record(rs_builder *self, rs_error *err)
    rs_status rs_builder_end_record_unchecked(rs_builder *self, const rs_scan_counts *counts, rs_error *err)
    void rs_builder_drop_record(rs_builder *self, size_t arrays_mark)
    bint rs_builder_is_full(const rs_builder *self)
    rs_status rs_builder_hand_over(rs_builder *self, rs_error *err)
    bint rs_builder_wait(rs_builder *self, bint all, uint32_t milliseconds)
    ctypedef struct rs_build_sizes:
        uint64_t raw_written, sections, written
    rs_build_sizes rs_builder_measure(const rs_builder *self)
    rs_status rs_builder_finish(rs_builder *self, rs_error *err)
    void rs_builder_close(rs_builder *self)

    ctypedef struct rs_parcel:
        rs_buffer raw
        rs_buffer arrays
        rs_buffer array_slots

    enum:
        RS_PARCEL_ARRAY_SLOT_SIZE

    void rs_parcel_clear(rs_parcel *self)
    rs_status rs_parcel_end_record(rs_parcel *self, rs_error *err)
    void rs_parcel_drop_record(rs_parcel *self, size_t arrays_mark, size_t slots_mark)
    void rs_parcel_pop_record(rs_parcel *self, size_t arrays_mark, size_t slots_mark)
    size_t rs_parcel_size(const rs_parcel *self)
    size_t rs_parcel_packed_size(const rs_parcel *self)
    void rs_parcel_pack(rs_parcel *self, uint8_t *out)

    ctypedef struct rs_parcel_reader:
        uint64_t n_records
    rs_status rs_parcel_open(rs_slice packed, rs_parcel_reader *self, rs_error *err)
    rs_status rs_parcel_next(rs_parcel_reader *self, rs_buffer *raw, rs_buffer *arrays, rs_error *err)
    rs_status rs_parcel_append_all(rs_parcel_reader *self, rs_builder *builder, rs_error *err)
    uint64_t rs_parcel_n_records(const rs_parcel *self)

    ctypedef struct rs_placing:
        pass
    void rs_placing_clear(rs_placing *self)
    rs_status rs_block_parcel_take(rs_builder **stores, unsigned n, rs_buffer *out, rs_error *err)
    rs_status rs_block_parcel_place(rs_slice packed, rs_builder **stores, rs_placing *placings, unsigned n,
                                    rs_error *err)

    void rs_arrow_schema_release(ArrowSchema *self)
    void rs_arrow_array_release(ArrowArray *self)
    void rs_arrow_stream_release(ArrowArrayStream *self)
    void rs_arrow_schema_move(ArrowSchema *origin, ArrowSchema *to)
    void rs_arrow_array_move(ArrowArray *origin, ArrowArray *to)
    void rs_arrow_stream_move(ArrowArrayStream *origin, ArrowArrayStream *to)

    ctypedef struct rs_zone_span:
        int64_t begin_s, end_s
        int32_t offset_s
        uint32_t fold
    ctypedef enum rs_arrow_nanoseconds:
        RS_ARROW_NANOSECONDS_EXACT, RS_ARROW_NANOSECONDS_FLOOR, RS_ARROW_NANOSECONDS_NUMPY
    ctypedef struct rs_arrow_options:
        bint drop_missing
        rs_arrow_nanoseconds nanoseconds
        const rs_slice *columns
        size_t n_columns
        rs_status (*find_zone)(void *, rs_slice, int64_t, rs_buffer *, rs_error *) noexcept
        void *context
    ctypedef struct rs_arrow_in:
        uint64_t n_rows
        uint64_t next
        rs_bool ended
    rs_status rs_arrow_in_open(rs_arrow_in *self, const ArrowSchema *schema, const rs_arrow_options *options,
                               rs_error *err)
    rs_status rs_arrow_in_open_stream(rs_arrow_in *self, ArrowArrayStream *stream, const rs_arrow_options *options,
                                      rs_error *err)
    void rs_arrow_in_close(rs_arrow_in *self)
    rs_status rs_arrow_in_bind(rs_arrow_in *self, const ArrowArray *array, rs_error *err)
    rs_status rs_arrow_in_next(rs_arrow_in *self, ArrowArrayStream *stream, ArrowArray *array, rs_error *err)
    rs_status rs_arrow_in_append(rs_arrow_in *self, rs_builder *builder, uint64_t max_rows, rs_error *err)
    rs_status rs_arrow_in_append_parcel(rs_arrow_in *self, rs_parcel *parcel, uint64_t max_rows, size_t max_bytes,
                                        rs_error *err)

    uint64_t rs_hash64(const void *bytes, uint64_t n, uint64_t seed)

    ctypedef struct rs_keys:
        uint64_t seed
        uint64_t n_entries
        uint64_t n_opaque
        uint32_t factory
    rs_status rs_keys_open(rs_slice bytes, uint64_t offset, rs_keys *out, rs_error *err)
    rs_status rs_keys_build(const uint64_t *hashes, const uint8_t *opaque, uint64_t n, uint64_t seed, uint32_t factory,
                            rs_buffer *out, rs_error *err)
    rs_status rs_keys_find_twins(const uint64_t *hashes, const uint8_t *opaque, uint64_t n, rs_buffer *pairs,
                                 rs_error *err)
    rs_status rs_keys_opaque_entry(const rs_keys *keys, uint64_t i, uint64_t *entry, rs_error *err)
    void rs_keys_prefetch(const rs_keys *keys, uint64_t hash)
    uint64_t rs_keys_hash_str(uint64_t seed, unsigned unit_bytes, const void *units, uint64_t n)
    uint64_t rs_keys_hash_int(uint64_t seed, int64_t value)

    ctypedef struct rs_key_probe:
        pass
    rs_key_probe rs_key_probe_begin(const rs_keys *keys, uint64_t hash)
    rs_status rs_key_probe_next(const rs_keys *keys, rs_key_probe *self, uint64_t *entry, rs_error *err)
    uint64_t rs_keys_steps(const rs_keys *keys)
    rs_status rs_key_probe_next_counted(const rs_keys *keys, rs_key_probe *self, uint64_t *entry, uint64_t *steps,
                                        rs_error *err)

    enum:
        RS_FMT_SAVED_RECORDS, RS_FMT_SAVED_GROUPS, RS_FMT_INDEX_PATH
    ctypedef struct rs_saved_index:
        uint32_t kind
        rs_bool in_order
        uint32_t width
        uint64_t n_records
        rs_slice path
        rs_slice keys
        rs_keys index
        const uint8_t *order
        const uint8_t *starts
        const uint8_t *rows
    rs_status rs_saved_index_open(rs_slice segment, const rs_section *section, uint64_t n_records, rs_saved_index *out,
                                  rs_error *err)
    rs_status rs_saved_index_group(const rs_saved_index *self, uint64_t entry, uint64_t *begin, uint64_t *end,
                                   rs_error *err)
    rs_status rs_saved_index_row(const rs_saved_index *self, uint64_t row, uint64_t *record, rs_error *err)
    rs_status rs_saved_index_records(const rs_saved_index *self, uint64_t entry, uint64_t *first, uint64_t *last,
                                     rs_error *err)
    ctypedef struct rs_saved_index_parts:
        uint32_t kind
        rs_bool in_order
        uint64_t n_records
        rs_slice path
        rs_slice keys
        rs_slice numbers
    ctypedef struct rs_extension:
        pass
    rs_status rs_extension_begin(rs_extension *self, rs_segment_writer *writer, rs_slice segment, rs_error *err)
    rs_status rs_extension_add(rs_extension *self, const rs_saved_index_parts *parts, rs_error *err)
    rs_status rs_extension_finish(rs_extension *self, rs_error *err)
    void rs_extension_clear(rs_extension *self)
    rs_status rs_group_rows(const uint64_t *group_of, uint64_t n, uint64_t n_groups, uint32_t width,
                            rs_bool may_be_in_order, rs_buffer *starts, rs_buffer *rows, rs_bool *in_order,
                            rs_error *err)

    ctypedef struct rs_mapping:
        rs_store keys
        rs_keys index
        const uint8_t *order
        uint32_t order_width
        uint64_t n_entries
    rs_status rs_mapping_open(rs_mapping *self, const rs_store *values, rs_error *err)
    void rs_mapping_close(rs_mapping *self)
    rs_status rs_mapping_records(const rs_mapping *self, uint64_t entry, uint64_t *key, uint64_t *value, rs_error *err)

    ctypedef struct rs_mapping_builder:
        rs_builder values
        rs_builder keys
    rs_status rs_mapping_builder_open(rs_mapping_builder *self, rs_segment_writer *writer, const rs_choices *choices,
                                      rs_error *err)
    void rs_mapping_builder_close(rs_mapping_builder *self)
    rs_status rs_mapping_builder_end_pair(rs_mapping_builder *self, rs_error *err)
    rs_status rs_mapping_builder_end_counted_pair(rs_mapping_builder *self, const rs_scan_counts *key,
                                                  const rs_scan_counts *value, rs_error *err)
    void rs_mapping_builder_drop_pair(rs_mapping_builder *self, size_t keys_arrays_mark, size_t values_arrays_mark)
    rs_status rs_mapping_builder_write_tables(rs_mapping_builder *self, rs_error *err)
    ctypedef struct rs_written_keys:
        rs_slice bytes "bytes"
        rs_header header
        rs_directory directory
    rs_status rs_mapping_builder_map_keys(rs_mapping_builder *self, rs_written_keys *out, rs_error *err)
    void rs_written_keys_unmap(rs_written_keys *self)
    rs_status rs_mapping_builder_finish(rs_mapping_builder *self, const rs_buffer *table, const uint64_t *order,
                                        uint64_t n, rs_error *err)

    ctypedef struct rs_json_bounds:
        uint64_t n_commas
        uint32_t depth
        rs_bool filled
    void rs_json_bounds_begin(rs_json_bounds *self, bint object)
    rs_status rs_json_bounds_run(rs_json_bounds *self, const uint8_t *bytes, size_t n, rs_buffer *ends,
                                 size_t *consumed, rs_error *err)
    bint rs_json_has_long_int(const uint8_t *bytes, size_t n)
