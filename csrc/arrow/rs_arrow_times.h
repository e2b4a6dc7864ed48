/* rs_arrow_times.h: dates, times, timestamps, durations and intervals of an Arrow array as any values. */
#pragma once

#include "arrow/rs_arrow_writer.h"

/* Writes element `at` of a column of DATE, TIME, TIMESTAMP, DURATION or INTERVAL. */
uint8_t *rs_arrow_put_time(rs_arrow_writer *self, uint32_t node, uint64_t at, uint8_t *p);
