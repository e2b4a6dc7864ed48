/* rs_arrow_concat.c: joins the parts of strings. */
#include "arrow/rs_arrow_concat.h"

#include "read/rs_text.h"

enum { PART_COPY = 16 /* bytes copied for a short part */ };

/* A part of a concat. */
struct rs_arrow_part {
    const rs_node *node;
    const uint8_t *text; /* const: its UTF-8, with PART_COPY readable bytes after it */
    uint32_t size;       /* const: its bytes */
    rs_entry **entries;  /* dict-coded: the entries of each table */
};

/* ---- Preparing ---- */

/* Makes the text of a const part. Sets *fits to false if UTF-8 cannot express it. */
static rs_status prepare_const(rs_arrow_program *program, rs_arrow_part *part, bool *fits, rs_error *err) {
    rs_cursor cursor = {.budget = {.values = UINT64_MAX, .bytes = UINT64_MAX, .depth = RS_FMT_DEPTH}};
    rs_buffer text = {0};
    rs_place place = {NULL, NULL, 0};
    uint8_t *copy = NULL;
    cursor.in = rs_slice_of(part->node->aux, part->node->aux_size_bytes);
    rs_status status = rs_utf8_take(&text, &cursor, &place, fits, err);
    if (status == RS_OK && *fits) status = rs_arrow_alloc(program, text.size_bytes + PART_COPY, 1, &copy, err);
    if (status == RS_OK && *fits && text.size_bytes != 0) memcpy(copy, text.data, text.size_bytes);
    part->text = copy;
    part->size = (uint32_t)text.size_bytes;
    rs_buffer_clear(&text);
    return status;
}

/* Prepares the parts of a concat, once for an op. op->parts stays NULL if the concat is not fixed, or UTF-8 cannot
 * express a const part. */
static rs_status prepare(rs_arrow_program *program, rs_arrow_op *op, rs_error *err) {
    const rs_node *node = op->node;
    rs_arrow_part *parts = NULL;
    bool fits = node->fixed;
    op->prepared = true;
    RS_TRY(rs_arrow_alloc(program, node->n_children, sizeof *parts, &parts, err));
    for (uint32_t i = 0; fits && i < node->n_children; i++) {
        rs_arrow_part *part = &parts[i];
        part->node = &node->children[i];
        switch (part->node->kind) {
        case RS_FMT_NODE_CONST: RS_TRY(prepare_const(program, part, &fits, err)); break;
        case RS_FMT_NODE_DICT_CODED:
            RS_TRY(rs_arrow_alloc(program, part->node->coded->n_tables, sizeof *part->entries, &part->entries, err));
            RS_TRY(rs_entries_bind(&op->field->entries, part->node, part->entries, err));
            break;
        case RS_FMT_NODE_DIGITS:
        case RS_FMT_NODE_HEX:
        case RS_FMT_NODE_ALPHABET:
        case RS_FMT_NODE_SAME: break;
        default: fits = false;
        }
    }
    if (fits) op->parts = parts;
    return RS_OK;
}

/* ---- Joining ---- */

/* The destination of the next part. `to` and `end` bound the free space of the buffer. They replace the buffer's own
 * fields, which the compiler would reload after each write of a byte. */
typedef struct target {
    rs_buffer *out;
    uint8_t *to;
    const uint8_t *end;
    uint64_t wide; /* has a byte with the bit 0x80 if some text so far is not ASCII */
} target;

static RS_COLD rs_status grow(target *self, size_t room, rs_error *err) {
    self->out->size_bytes = (size_t)(self->to - self->out->data);
    RS_TRY(rs_buffer_reserve(self->out, room, err));
    self->to = self->out->data + self->out->size_bytes;
    self->end = self->out->data + self->out->capacity_bytes;
    return RS_OK;
}

static inline rs_status reserve(target *self, size_t room, rs_error *err) {
    return RS_LIKELY(room <= (size_t)(self->end - self->to)) ? RS_OK : grow(self, room, err);
}

static inline rs_status put_utf8(target *self, const uint8_t *from, uint32_t size, rs_error *err) {
    RS_TRY(reserve(self, (size_t)size + PART_COPY, err));
    memcpy(self->to, from, PART_COPY);
    self->wide |= rs_load_u64(from) | rs_load_u64(from + 8); /* may include bytes after a short part */
    if (size > PART_COPY) {
        memcpy(self->to, from, size);
        self->wide |= rs_decode_widest_unchecked(from, size, 1);
    }
    self->to += size;
    return RS_OK;
}

/* Appends entry i of a dict-coded part. Sets *taken to false for an entry without UTF-8 text. */
static inline rs_status put_entry(target *self, rs_entries *entries, const rs_arrow_part *part, const rs_cursor *cursor,
                                  uint64_t i, bool *taken, rs_error *err) {
    const rs_dict_coded *coded = part->node->coded;
    if (i >= coded->count) return rs_decode_bad_value(err, "a dict-coded number has no entry");
    uint32_t t = rs_dict_coded_table(coded, i);
    const rs_entry *entry = part->entries[t] + (i - coded->at[t].first);
    if (RS_UNLIKELY(entry->kind == RS_ENTRY_NEW)) RS_TRY(rs_entries_read(entries, cursor, part->node, i, &entry, err));
    *taken = entry->kind == RS_ENTRY_TEXT;
    return *taken ? put_utf8(self, entries->text.data + entry->bits, entry->size_bytes, err) : RS_OK;
}

/* Appends the text of a fixed alphabet or hex node. */
static rs_status put_letters(target *self, const rs_node *node, const uint8_t *body, rs_error *err) {
    const uint64_t length = rs_alphabet_length(node, node->count);
    RS_TRY(reserve(self, (size_t)length, err));
    rs_alphabet_put_unchecked(node, body, node->count, self->to);
    self->to += length;
    return RS_OK;
}

/* Appends again `size` bytes at offset `from` of the text that begins at `begin`. */
static rs_status put_again(target *self, size_t begin, size_t from, size_t size, rs_error *err) {
    RS_TRY(reserve(self, size, err));
    memcpy(self->to, self->out->data + begin + from, size);
    self->to += size;
    return RS_OK;
}

static rs_status put_all(target *self, const rs_arrow_op *op, const rs_cursor *cursor, const uint8_t *head, bool *taken,
                         rs_error *err) {
    const rs_node *concat = op->node;
    const rs_slice group = rs_slice_of(head, concat->group_bytes);
    const uint64_t group_bits =
        concat->group_bytes <= 8 ? rs_load_bits_unchecked(head, concat->group_bytes, 0, 8 * concat->group_bytes) : 0;
    const size_t begin = (size_t)(self->to - self->out->data);
    size_t ends[RS_FMT_CONCAT_CHILDREN + 1];
    ends[0] = 0;
    for (uint32_t i = 0; *taken && i < concat->n_children; i++) {
        const rs_arrow_part *part = &op->parts[i];
        const rs_node *node = part->node;
        uint64_t bits = 0;
        if (node->bits != 0 && concat->group_bytes <= 8) {
            bits = group_bits >> node->bit_off & UINT64_MAX >> (64 - node->bits);
        } else if (node->bits != 0) {
            bits = rs_decode_bits_unchecked(&group, node->bit_off, node->bits);
        }
        switch (node->kind) {
        case RS_FMT_NODE_CONST: RS_TRY(put_utf8(self, part->text, part->size, err)); break;
        case RS_FMT_NODE_DICT_CODED:
            RS_TRY(put_entry(self, &op->field->entries, part, cursor, bits, taken, err));
            break;
        case RS_FMT_NODE_DIGITS:
            RS_TRY(reserve(self, RS_FMT_DIGITS_MAX, err));
            self->to += rs_text_digits((uint64_t)rs_decode_int_unchecked(node, head + node->body_off, bits),
                                       node->count, self->to);
            break;
        case RS_FMT_NODE_HEX:
        case RS_FMT_NODE_ALPHABET: RS_TRY(put_letters(self, node, head + node->body_off, err)); break;
        default: RS_TRY(put_again(self, begin, ends[node->count], ends[node->count + 1] - ends[node->count], err));
        }
        ends[i + 1] = (size_t)(self->to - self->out->data) - begin;
    }
    return RS_OK;
}

/* Returns the number of code points of UTF-8 text. They count towards max_bytes as the units of a str do. */
static RS_COLD uint64_t count_points(const uint8_t *p, uint64_t n) {
    uint64_t points = n;
    for (uint64_t i = 0; i < n; i++) points -= (p[i] & 0xC0) == 0x80;
    return points;
}

rs_status rs_arrow_put_concat(rs_arrow_program *program, const rs_arrow_op *op, rs_cursor *cursor, const uint8_t *head,
                              bool *taken, rs_error *err) {
    rs_buffer *out = &op->field->bytes;
    const size_t before = out->size_bytes;
    uint64_t points;
    target self;
    *taken = false;
    if (RS_UNLIKELY(!op->prepared)) RS_TRY(prepare(program, (rs_arrow_op *)(uintptr_t)op, err));
    if (op->parts == NULL) return RS_OK;
    RS_TRY(rs_buffer_reserve(out, 1, err)); /* the data of an empty buffer is NULL */
    *taken = true;
    self.out = out;
    self.to = out->data + before;
    self.end = out->data + out->capacity_bytes;
    self.wide = 0;
    RS_TRY(put_all(&self, op, cursor, head, taken, err));
    if (!*taken) {
        out->size_bytes = before;
        return RS_OK;
    }
    /* Read only non-ASCII text again: loads of bytes that were just stored in pieces are slow. */
    size_t n = (size_t)(self.to - out->data) - before;
    if ((self.wide & UINT64_C(0x8080808080808080)) != 0) points = count_points(out->data + before, n);
    else points = n;
    out->size_bytes = before + n;
    RS_TRY(rs_decode_spend_bytes(cursor, points, err));
    return rs_arrow_end_value(op->field, out->size_bytes, err);
}
