/* rs_pipeline.c: distributes the steps of blocks to threads. All fields are read and changed inside the monitor; the
 * steps run outside, on blocks that are marked as taken. */
#include "write/rs_pipeline.h"

#include <stdlib.h>

enum {
    MOST_BYTES = 30 * 1024 * 1024, /* with more in tables and closed blocks, the caller waits */
    OPEN_BYTES = 32 * 1024 * 1024, /* with more in tables and all blocks, only the oldest block is surveyed */
    MOST_SPARE = 2,                /* blocks whose memory is kept for reuse */
    FORGET_BYTES = 1024 * 1024,    /* written blocks give back the pages of larger buffers */
    TRIM_BYTES = 4 * 1024 * 1024,  /* after settling a larger block, malloc gives back free pages */
    IDLE_MS = 20                   /* a thread without work ends after this time */
};

/* A block in the pipeline. */
typedef struct queued {
    struct queued *next;
    rs_block_writer *writer;
    rs_raw_block *block;
    uint64_t bytes;       /* the last known memory of the block */
    bool surveying;       /* a thread is surveying it */
    bool settling;        /* a thread is settling or writing it */
    bool settled;         /* its chunks may be encoded */
    unsigned n_preparing; /* threads that are preparing alternatives */
    unsigned n_encoding;  /* threads that are encoding chunks */
    rs_chunk *to_encode;
} queued;

typedef struct worker {
    struct rs_pipeline *pipeline;
    rs_os_thread thread;
    bool running;  /* false once it has left the monitor for the last time */
    bool joinable; /* for the caller only: it was started and not joined */
} worker;

struct rs_pipeline {
    int64_t process_id; /* the process that opened the pipeline */
    rs_os_monitor *monitor;
    worker *workers;
    unsigned n_workers, n_running, n_idle;
    bool started; /* a thread was started before */
    bool stopping;
    bool held;            /* no block may be settled or written */
    queued *first, *last; /* closed blocks, in the order of writing */
    queued *open;         /* blocks that are being filled */
    rs_raw_block *spare;
    unsigned n_spare;
    uint32_t n_closed;
    uint64_t table_bytes; /* the memory of the writers' tables */
    rs_status failed;
    rs_error failure;
};

typedef enum step { NOTHING, SURVEY, LIST, PREPARE, WEIGH, SETTLE, ENCODE, WRITE } step;

/* A step of a block, with its arguments. */
typedef struct job {
    step step;
    queued *f;
    rs_chunk *chunk;   /* ENCODE */
    uint32_t first, n; /* PREPARE: the alternatives */
    rs_stats part;
} job;

/* ---- The next step ---- */

/* Returns the next step of a block's survey. */
static step survey_step(const queued *f) {
    const rs_raw_block *block = f->block;
    if (f->surveying || f->settling || f->settled) return NOTHING;
    if (block->surveyed || f->writer->encoding.choices.level == RS_LEVEL_NONE) return NOTHING;
    if (block->closed && rs_raw_block_is_short(block)) return NOTHING; /* settling surveys it if necessary */
    if (block->to_prepare != NULL) {
        if (block->next_to_prepare < block->n_to_prepare) return PREPARE;
        return f->n_preparing == 0 ? WEIGH : NOTHING;
    }
    if (block->to_survey == NULL && !block->closed) return NOTHING;
    if (!rs_block_writer_may_survey(f->writer, block->number)) return NOTHING;
    return block->to_survey != NULL ? SURVEY : LIST;
}

static bool may_settle(const queued *f) {
    const rs_raw_block *block = f->block;
    if (f->settling || f->settled || f->surveying || f->n_preparing > 0) return false;
    return block->surveyed || rs_raw_block_is_short(block) || f->writer->encoding.choices.level == RS_LEVEL_NONE;
}

static uint64_t bytes_of(const queued *f) {
    uint64_t bytes = 0;
    for (; f != NULL; f = f->next) bytes += f->bytes;
    return bytes;
}

/* Returns the bytes of tables and closed blocks. */
static uint64_t memory_of(const rs_pipeline *self) { return self->table_bytes + bytes_of(self->first); }

/* Finds the next step. The oldest block comes first, because the others wait for it. */
static step find_step(const rs_pipeline *self, queued **out) {
    queued *f = self->first;
    step next = NOTHING;
    *out = f;
    if (self->failed != RS_OK || self->stopping) return NOTHING;
    if (f != NULL && f->settled && f->to_encode != NULL) return ENCODE;
    if (f != NULL && f->settled && f->n_encoding == 0 && !f->settling && !self->held) return WRITE;
    if (f != NULL && may_settle(f) && !self->held) return SETTLE;
    if (f != NULL && (next = survey_step(f)) != NOTHING) return next;
    if (memory_of(self) + bytes_of(self->open) > OPEN_BYTES) return NOTHING;
    for (; f != NULL && (next = survey_step(f)) == NOTHING; f = f->next) continue;
    if (f == NULL) {
        for (f = self->open; f != NULL && (next = survey_step(f)) == NOTHING; f = f->next) continue;
    }
    *out = f;
    return next;
}

/* Finds the next step and marks its block as taken. */
static job take(rs_pipeline *self) {
    job j = {0};
    j.step = find_step(self, &j.f);
    queued *f = j.f;
    switch (j.step) {
    case SURVEY:
    case LIST:
    case WEIGH: f->surveying = true; break;
    case PREPARE:
        j.n = rs_block_writer_take(f->block, &j.first, &j.part);
        f->n_preparing++;
        break;
    case ENCODE:
        j.chunk = f->to_encode;
        f->to_encode = j.chunk->next;
        f->n_encoding++;
        break;
    case NOTHING: break;
    default: f->settling = true; break;
    }
    return j;
}

/* ---- Doing a step ---- */

static void fail(rs_pipeline *self, rs_status status, const rs_error *err) {
    if (self->failed != RS_OK) return;
    self->failed = status;
    self->failure = *err;
}

static bool is_failure(rs_status status) { return status == RS_E_MEM || status >= RS_E_SYS; }

static void end_survey(queued *f) {
    rs_raw_block *block = f->block;
    if (block->to_survey != NULL) block->to_survey = block->to_survey->next;
    f->surveying = false;
}

static void end_preparing(queued *f, rs_stats *part, rs_status status, const rs_error *err) {
    rs_raw_block *block = f->block;
    rs_stats_end_part(part, &block->survey);
    f->n_preparing--;
    if (status != RS_OK) {
        block->survey_status = status;
        block->error = *err;
    }
}

static void end_settling(rs_pipeline *self, queued *f, rs_status status) {
    f->settling = false;
    f->settled = true;
    f->writer->n_settled++;
    f->to_encode = f->block->tree == &f->block->settled ? f->block->chunks : NULL;
    if (status != RS_OK) fail(self, status, &f->block->error);
}

static void end_encoding(rs_pipeline *self, queued *f, rs_status status, const rs_error *err) {
    f->n_encoding--;
    if (status == RS_OK) return;
    f->block->status = status;
    f->to_encode = NULL;
    if (is_failure(status)) fail(self, status, err);
}

/* Keeps a written block for its memory, unless a giant record has made its buffers very large. */
static void keep_spare(rs_pipeline *self, rs_raw_block *block) {
    if (self->n_spare >= MOST_SPARE || block->raw.capacity_bytes > 2 * RS_FMT_BLOCK_RAW_HARD ||
        block->arrays.capacity_bytes > 2 * RS_FMT_BLOCK_RAW_HARD) {
        rs_raw_block_free(block);
        return;
    }
    block->next = self->spare;
    self->spare = block;
    self->n_spare++;
}

static void end_writing(rs_pipeline *self, queued *f, rs_status status, const rs_error *err) {
    if (status != RS_OK) {
        fail(self, status, err);
        f->settling = false; /* rs_pipeline_hold waits for it */
        return;              /* the block stays until the pipeline is closed */
    }
    self->first = f->next;
    if (self->first == NULL) self->last = NULL;
    self->n_closed--;
    keep_spare(self, f->block);
    free(f);
}

/* Empties a written block for reuse. Until the reuse, the system gets the pages of large buffers. */
static void empty_block(rs_raw_block *block) {
    if (block->raw.size_bytes >= FORGET_BYTES) rs_os_forget(block->raw.data, block->raw.size_bytes);
    if (block->arrays.size_bytes >= FORGET_BYTES) rs_os_forget(block->arrays.data, block->arrays.size_bytes);
    rs_raw_block_reset(block);
}

/* Does a step outside the monitor. The caller is inside before and after. */
static void run(rs_pipeline *self, job *j) {
    queued *f = j->f;
    const uint64_t table_bytes = j->step == SETTLE ? f->writer->memory : 0;
    rs_status status = RS_OK;
    rs_error err = {0};
    rs_os_monitor_leave(self->monitor);
    switch (j->step) {
    case SURVEY: rs_block_writer_survey(f->writer, f->block); break;
    case LIST: rs_block_writer_list(f->block); break;
    case PREPARE: status = rs_block_writer_prepare(f->block, j->first, j->n, &j->part, &err); break;
    case WEIGH: rs_block_writer_weigh(f->block); break;
    case SETTLE:
        status = rs_block_writer_settle(f->writer, f->block);
        /* The memory of the survey is free now, but the malloc arenas of its threads still hold it. */
        if (f->block->raw.size_bytes > TRIM_BYTES) rs_os_trim();
        break;
    case ENCODE: status = rs_block_writer_encode(f->block, j->chunk, &err); break;
    default:
        status = rs_block_writer_write(f->writer, f->block, &err);
        if (status == RS_OK) empty_block(f->block);
        break;
    }
    rs_os_monitor_enter(self->monitor);
    switch (j->step) {
    case SURVEY:
    case LIST:
    case WEIGH: end_survey(f); break;
    case PREPARE: end_preparing(f, &j->part, status, &err); break;
    case SETTLE:
        self->table_bytes += f->writer->memory - table_bytes;
        end_settling(self, f, status);
        break;
    case ENCODE: end_encoding(self, f, status, &err); break;
    default: end_writing(self, f, status, &err); return;
    }
    if (!f->surveying && !f->settling && f->n_preparing == 0 && f->n_encoding == 0) {
        f->bytes = rs_raw_block_memory(f->block);
    }
}

/* Does one step. Returns false if there is nothing to do. */
static bool work_once(rs_pipeline *self) {
    job j = take(self);
    if (j.step == NOTHING) return false;
    run(self, &j);
    rs_os_monitor_wake(self->monitor);
    return true;
}

/* The main function of a thread. */
static void work(void *argument) {
    worker *me = (worker *)argument;
    rs_pipeline *self = me->pipeline;
    bool woken = true;
    rs_os_monitor_enter(self->monitor);
    for (;;) {
        if (work_once(self)) {
            woken = true;
            continue;
        }
        if (self->stopping || !woken) break;
        self->n_idle++;
        woken = rs_os_monitor_wait(self->monitor, IDLE_MS);
        self->n_idle--;
    }
    me->running = false;
    self->n_running--;
    rs_os_monitor_wake(self->monitor);
    rs_os_monitor_leave(self->monitor);
}

/* Returns whether all work is one small block, which takes less time than starting a thread. The caller does it. */
static bool is_little(const rs_pipeline *self) {
    const rs_raw_block *block = self->n_closed == 1 ? self->first->block : NULL;
    return block != NULL && self->open == NULL && self->n_running == 0 && block->raw.size_bytes < RS_PIPELINE_CHUNK;
}

/* Wakes the idle threads, or starts one if none is idle, when there is work. Only the caller starts threads, because
 * only it joins them. */
static void wake_worker(rs_pipeline *self) {
    queued *f = NULL;
    worker *w = self->workers;
    if (find_step(self, &f) == NOTHING || is_little(self)) return;
    rs_os_monitor_wake(self->monitor);
    if (self->n_idle > 0 || self->n_running == self->n_workers) return;
    while (w->running) w++;
    if (w->joinable) rs_os_thread_join(&w->thread); /* it has left the monitor, so it ends soon */
    w->pipeline = self;
    w->joinable = w->running = rs_os_thread_start(&w->thread, work, w, NULL) == RS_OK;
    if (!w->running) return;
    self->started = true;
    self->n_running++;
}

/* ---- For the caller ---- */

rs_status rs_pipeline_open(rs_pipeline **out, unsigned threads, rs_error *err) {
    rs_pipeline *self = (rs_pipeline *)calloc(1, sizeof *self);
    rs_status status = RS_E_MEM;
    RS_ASSERT(threads > 0 && threads <= RS_PIPELINE_THREADS);
    if (self != NULL) self->workers = (worker *)calloc(threads, sizeof *self->workers);
    if (self == NULL || self->workers == NULL) {
        (void)rs_no_memory(err);
    } else {
        status = rs_os_monitor_open(&self->monitor, err);
    }
    if (status != RS_OK) {
        if (self != NULL) free(self->workers);
        free(self);
        return status;
    }
    self->process_id = rs_os_process_id();
    self->n_workers = threads;
    *out = self;
    return RS_OK;
}

bool rs_pipeline_is_left(const rs_pipeline *self) { return self->started && self->process_id != rs_os_process_id(); }

static void free_queued(queued *f, bool blocks) {
    while (f != NULL) {
        queued *next = f->next;
        if (blocks) rs_raw_block_free(f->block);
        free(f);
        f = next;
    }
}

void rs_pipeline_stop(rs_pipeline *self) {
    if (rs_pipeline_is_left(self)) return;
    rs_os_monitor_enter(self->monitor);
    self->stopping = true;
    rs_os_monitor_wake(self->monitor);
    rs_os_monitor_leave(self->monitor);
    for (unsigned i = 0; i < self->n_workers; i++) {
        if (self->workers[i].joinable) rs_os_thread_join(&self->workers[i].thread);
        self->workers[i].joinable = false;
    }
    free_queued(self->first, true);
    free_queued(self->open, false);
    self->first = self->last = self->open = NULL;
    self->n_closed = 0;
}

void rs_pipeline_close(rs_pipeline *self) {
    if (self == NULL || rs_pipeline_is_left(self)) return;
    rs_pipeline_stop(self);
    while (self->spare != NULL) {
        rs_raw_block *next = self->spare->next;
        rs_raw_block_free(self->spare);
        self->spare = next;
    }
    rs_os_monitor_close(self->monitor);
    free(self->workers);
    free(self);
}

void rs_pipeline_enter(rs_pipeline *self) { rs_os_monitor_enter(self->monitor); }

void rs_pipeline_leave(rs_pipeline *self) { rs_os_monitor_leave(self->monitor); }

void rs_pipeline_hold(rs_pipeline *self) {
    rs_os_monitor_enter(self->monitor);
    self->held = true;
    while (self->first != NULL && self->first->settling) (void)rs_os_monitor_wait(self->monitor, IDLE_MS);
}

void rs_pipeline_release(rs_pipeline *self) {
    self->held = false;
    wake_worker(self);
    rs_os_monitor_leave(self->monitor);
}

static queued *new_queued(rs_block_writer *writer, rs_raw_block *block, rs_error *err) {
    queued *f = (queued *)calloc(1, sizeof *f);
    if (f == NULL) {
        (void)rs_no_memory(err);
        return NULL;
    }
    f->writer = writer;
    f->block = block;
    f->bytes = rs_raw_block_memory(block);
    return f;
}

/* Returns the link to the entry of an open block, or to the end of the list. */
static queued **find_open(rs_pipeline *self, const rs_raw_block *block) {
    queued **link = &self->open;
    while (*link != NULL && (*link)->block != block) link = &(*link)->next;
    return link;
}

rs_status rs_pipeline_add_open(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block, rs_error *err) {
    queued **link = find_open(self, block);
    if (*link == NULL) {
        *link = new_queued(writer, block, err);
        if (*link == NULL) return RS_E_MEM;
    }
    wake_worker(self);
    return RS_OK;
}

void rs_pipeline_withdraw(rs_pipeline *self, const rs_raw_block *block) {
    queued **link = find_open(self, block), *f = *link;
    if (f == NULL) return;
    while (f->surveying) (void)rs_os_monitor_wait(self->monitor, IDLE_MS);
    link = find_open(self, block);
    *link = f->next;
    free(f);
}

rs_status rs_pipeline_add_closed(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block, rs_error *err) {
    queued **link = find_open(self, block), *f = *link;
    if (f != NULL) *link = f->next;
    else f = new_queued(writer, block, err);
    if (f == NULL) return RS_E_MEM;
    f->next = NULL;
    if (self->last == NULL) self->first = f;
    else self->last->next = f;
    self->last = f;
    self->n_closed++;
    if (!f->surveying) f->bytes = rs_raw_block_memory(block);
    wake_worker(self);
    return RS_OK;
}

static bool is_done(const rs_pipeline *self, bool all) {
    if (self->failed != RS_OK || self->n_closed == 0) return true;
    if (all) return false;
    return self->n_closed == 1 || (self->n_closed <= self->n_workers + 1 && memory_of(self) <= MOST_BYTES);
}

bool rs_pipeline_wait(rs_pipeline *self, bool all, uint32_t milliseconds) {
    unsigned turns = 64; /* each step of a thread ends a turn; most take less than a millisecond */
    bool done;
    rs_os_monitor_enter(self->monitor);
    while (!(done = is_done(self, all)) && turns-- > 0) {
        wake_worker(self);
        if (self->n_running > 0) {
            if (!rs_os_monitor_wait(self->monitor, milliseconds)) turns = 0;
        } else {
            (void)work_once(self);
        }
    }
    rs_os_monitor_leave(self->monitor);
    return done;
}

rs_status rs_pipeline_status(rs_pipeline *self, rs_error *err) {
    rs_os_monitor_enter(self->monitor);
    rs_status status = self->failed;
    if (status != RS_OK && err != NULL) *err = self->failure;
    rs_os_monitor_leave(self->monitor);
    return status;
}

rs_raw_block *rs_pipeline_take_spare(rs_pipeline *self) {
    rs_os_monitor_enter(self->monitor);
    rs_raw_block *block = self->spare;
    if (block != NULL) {
        self->spare = block->next;
        self->n_spare--;
        block->next = NULL;
    }
    rs_os_monitor_leave(self->monitor);
    return block;
}

unsigned rs_pipeline_n_running(rs_pipeline *self) {
    rs_os_monitor_enter(self->monitor);
    unsigned n = self->n_running;
    rs_os_monitor_leave(self->monitor);
    return n;
}
