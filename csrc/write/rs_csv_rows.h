/* rs_csv_rows.h: finds where the rows of CSV text end. A quoted cell may have line breaks; a quote within a cell that
 * does not begin with one is a plain character. The text comes in pieces, cut anywhere. */
#pragma once

#include "write/rs_json_bounds.h"

enum { RS_CSV_BLOCK = RS_JSON_BLOCK /* bytes that are scanned at once */ };

typedef enum rs_csv_place {
    RS_CSV_BEGIN = 0, /* at the beginning of a cell */
    RS_CSV_PLAIN,     /* in a cell without quotes */
    RS_CSV_QUOTED,
    RS_CSV_CLOSED /* after a quote in a quoted cell: it closes the cell, or is the first of two */
} rs_csv_place;

typedef enum rs_csv_fault {
    RS_CSV_FINE = 0,
    RS_CSV_TEXT,  /* text follows the closing quote of a cell */
    RS_CSV_RETURN /* a CR outside quotes without an LF after it */
} rs_csv_fault;

/* The state between two pieces. Zero it and set the characters. Owns nothing; one thread at a time may use it. */
typedef struct rs_csv_rows {
    uint8_t delimiter, quote; /* ASCII characters; quote is 0 if there is none */
    bool after_return;        /* the last byte was a CR outside quotes */
    rs_csv_place place;       /* after the last byte */
    rs_csv_fault fault;
    unsigned fault_at; /* its byte in the last block */
} rs_csv_rows;

/* Scans the next n bytes, at most RS_CSV_BLOCK. Returns a mask of those that end a row: LFs outside quotes. At a fault
 * it stops and sets `fault`; the scan cannot go on then. */
uint64_t rs_csv_rows_scan(rs_csv_rows *self, const uint8_t *bytes, unsigned n);

/* Returns the number of bytes of the row at `bytes` before the LF that ends it, or n if no LF does. Text that is not a
 * row ends at its first LF. */
size_t rs_csv_rows_end(uint8_t delimiter, uint8_t quote, const uint8_t *bytes, size_t n);
