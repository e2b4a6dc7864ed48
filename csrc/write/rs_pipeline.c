/* rs_pipeline.c: distributes the steps of blocks to threads. The fields that threads share are read and changed inside
 * the monitor; the steps run outside, on blocks that are marked as taken. */
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
typedef struct queued_block {
    struct queued_block *next;
    rs_block_writer *writer;
    rs_raw_block *block;
    uint64_t bytes;       /* the last known memory of the block */
    bool surveying;       /* a thread is surveying it */
    bool settling;        /* a thread is settling or writing it */
    bool settled;         /* its chunks may be encoded */
    bool accepted;        /* it is being written, and the next block may be tried */
    unsigned n_preparing; /* threads that are preparing alternatives */
    unsigned n_encoding;  /* threads that are encoding chunks */
    rs_chunk *to_encode;
} queued_block;

typedef struct worker {
    struct rs_pipeline *pipeline;
    rs_os_thread thread;
    bool running;  /* false once it leaves the monitor for the last time */
    bool joinable; /* for the caller only: it was started and not joined */
} worker;

/* The tasks of a step that threads share. */
typedef struct tasks {
    struct tasks *next;
    rs_task *task;
    void *work;
    uint32_t first, n;  /* the next one to take, and how many there are */
    unsigned n_running; /* threads, besides that of the step, that run one */
} tasks;

struct rs_pipeline {
    rs_crew crew;
    int64_t process_id; /* the process that opened the pipeline */
    rs_os_monitor *monitor;
    worker *workers;
    unsigned n_workers, n_running, n_idle;
    bool started; /* a thread was started before */
    bool stopping;
    bool held;                  /* no block may be settled or written */
    queued_block *first, *last; /* closed blocks, in the order of writing */
    queued_block *open;         /* blocks that are being filled */
    tasks *shared;              /* tasks that no thread has taken yet */
    rs_raw_block *spare;
    unsigned n_spare;
    uint32_t n_closed;
    uint64_t table_bytes; /* the memory of the writers' tables */
    rs_status failed;
    rs_error failure;
};

typedef enum step { NOTHING, SURVEY, LIST, PREPARE, WEIGH, TRY, SETTLE, ENCODE, WRITE, HELP } step;

/* A step of a block, with its arguments. */
typedef struct job {
    step step;
    queued_block *q;
    rs_chunk *chunk;   /* ENCODE */
    uint32_t first, n; /* PREPARE: the alternatives */
    bool forgets;      /* WRITE: gives back the pages of the block */
    tasks *shared;     /* HELP */
    uint32_t number;   /* HELP: the task */
    rs_stats part;
} job;

/* ---- The next step ---- */

/* Returns the next step of a block's survey. */
static step survey_step(const queued_block *q) {
    const rs_raw_block *block = q->block;
    if (q->surveying || q->settling || q->settled) return NOTHING;
    if (block->surveyed || q->writer->encoding.choices.level == RS_LEVEL_NONE) return NOTHING;
    if (rs_block_writer_may_try(q->writer, block) || block->trial == RS_TRIAL_RUNS) return NOTHING;
    if (block->trial == RS_TRIAL_PASSED) return NOTHING;
    if (block->to_prepare != NULL) {
        if (block->next_to_prepare < block->n_to_prepare) return PREPARE;
        return q->n_preparing == 0 ? WEIGH : NOTHING;
    }
    if (block->to_survey == NULL && !block->closed) return NOTHING;
    if (!rs_block_writer_may_survey(q->writer, block->number)) return NOTHING;
    return block->to_survey != NULL ? SURVEY : LIST;
}

static bool may_settle(const queued_block *q) {
    const rs_raw_block *block = q->block;
    if (q->settling || q->settled || q->surveying || q->n_preparing > 0) return false;
    if (block->trial == RS_TRIAL_RUNS) return false;
    return block->surveyed || block->trial == RS_TRIAL_PASSED || q->writer->encoding.choices.level == RS_LEVEL_NONE;
}

/* Returns whether the trial of a closed block, the oldest one that is not accepted, may begin or end. */
static bool may_try(const queued_block *q) {
    if (q->settling || q->surveying || q->n_preparing > 0) return false;
    if (q->block->trial == RS_TRIAL_RUNS) return q->to_encode == NULL && q->n_encoding == 0;
    return rs_block_writer_may_try(q->writer, q->block);
}

static uint64_t bytes_of(const queued_block *q) {
    uint64_t bytes = 0;
    for (; q != NULL; q = q->next) bytes += q->bytes;
    return bytes;
}

/* Returns the bytes of tables and closed blocks. */
static uint64_t memory_of(const rs_pipeline *self) { return self->table_bytes + bytes_of(self->first); }

/* Finds the next step. The oldest block comes first, because the others wait for it; while it is written, the next one
 * may be tried. Shared tasks come after its other steps: they are small, so that threads end together. */
static step find_step(const rs_pipeline *self, queued_block **out) {
    queued_block *first = self->first, *q = first != NULL && first->accepted ? first->next : first;
    step next = NOTHING;
    *out = q;
    if (self->failed != RS_OK || self->stopping) return NOTHING;
    if (q != NULL && q->to_encode != NULL) return ENCODE;
    if (q != NULL && q->settled && q->n_encoding == 0 && !q->settling && !self->held) return WRITE;
    if (q != NULL && may_try(q) && !self->held) return TRY;
    *out = q = first;
    if (q != NULL && may_settle(q) && !self->held) return SETTLE;
    if (q != NULL && (next = survey_step(q)) != NOTHING) return next;
    if (self->shared != NULL) return HELP;
    if (memory_of(self) + bytes_of(self->open) > OPEN_BYTES) return NOTHING;
    for (; q != NULL && (next = survey_step(q)) == NOTHING; q = q->next) continue;
    if (q == NULL) {
        for (q = self->open; q != NULL && (next = survey_step(q)) == NOTHING; q = q->next) continue;
    }
    *out = q;
    return next;
}

/* Takes the next task of a step. */
static uint32_t take_task(rs_pipeline *self, tasks *shared) {
    const uint32_t number = shared->first++;
    tasks **link = &self->shared;
    if (shared->first < shared->n) return number;
    while (*link != shared) link = &(*link)->next;
    *link = shared->next;
    return number;
}

/* Finds the next step and marks its block as taken. */
static job take(rs_pipeline *self) {
    job j = {0};
    j.step = find_step(self, &j.q);
    queued_block *q = j.q;
    switch (j.step) {
    case SURVEY:
    case LIST:
    case WEIGH: q->surveying = true; break;
    case PREPARE:
        j.n = rs_block_writer_take(q->block, &j.first, &j.part);
        q->n_preparing++;
        break;
    case ENCODE:
        j.chunk = q->to_encode;
        q->to_encode = j.chunk->next;
        q->n_encoding++;
        break;
    case HELP:
        j.shared = self->shared;
        j.number = take_task(self, j.shared);
        j.shared->n_running++;
        break;
    case NOTHING: break;
    default: q->settling = true; break;
    }
    j.forgets = self->n_spare > 0; /* else the next block is filled into the same pages */
    return j;
}

/* ---- Doing a step ---- */

static void fail(rs_pipeline *self, rs_status status, const rs_error *err) {
    if (self->failed != RS_OK) return;
    self->failed = status;
    self->failure = *err;
}

static bool is_failure(rs_status status) { return status == RS_E_MEM || status >= RS_E_SYS; }

static void end_survey(queued_block *q) {
    rs_raw_block *block = q->block;
    if (block->to_survey != NULL) block->to_survey = block->to_survey->next;
    q->surveying = false;
}

static void end_preparing(queued_block *q, rs_stats *part, rs_status status, const rs_error *err) {
    rs_raw_block *block = q->block;
    rs_stats_end_part(part, &block->survey);
    q->n_preparing--;
    if (status != RS_OK) {
        block->survey_status = status;
        block->error = *err;
    }
}

static void end_trying(rs_pipeline *self, queued_block *q, rs_status status, const rs_error *err) {
    q->settling = false;
    q->to_encode = q->block->trial == RS_TRIAL_RUNS ? q->block->chunks : NULL;
    if (status != RS_OK) fail(self, status, err);
    else rs_block_writer_count_trial(q->writer, q->block);
}

static void end_settling(rs_pipeline *self, queued_block *q, rs_status status) {
    q->settling = false;
    q->settled = true;
    q->writer->n_settled++;
    q->to_encode = q->block->tree == &q->block->settled ? q->block->chunks : NULL;
    if (status != RS_OK) fail(self, status, &q->block->error);
}

static void end_encoding(rs_pipeline *self, queued_block *q, rs_status status, const rs_error *err) {
    q->n_encoding--;
    if (status == RS_OK) return;
    q->block->status = status;
    q->to_encode = NULL;
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

static void end_writing(rs_pipeline *self, queued_block *q, rs_status status, const rs_error *err) {
    if (status != RS_OK) {
        fail(self, status, err);
        q->settling = false; /* rs_pipeline_hold waits for it */
        return;              /* the block stays until the pipeline is closed */
    }
    self->first = q->next;
    if (self->first == NULL) self->last = NULL;
    self->n_closed--;
    keep_spare(self, q->block);
    free(q);
}

/* Empties a written block for reuse, and may give the pages of its large buffers back to the system. */
static void empty_block(rs_raw_block *block, bool forgets) {
    if (forgets && block->raw.size_bytes >= FORGET_BYTES) rs_os_forget(block->raw.data, block->raw.size_bytes);
    if (forgets && block->arrays.size_bytes >= FORGET_BYTES) rs_os_forget(block->arrays.data, block->arrays.size_bytes);
    rs_raw_block_reset(block);
}

/* Writes a block. Meanwhile other threads may try the next one. */
static rs_status write_block(rs_pipeline *self, queued_block *q, rs_error *err) {
    RS_TRY(rs_block_writer_accept(q->writer, q->block, err));
    rs_os_monitor_enter(self->monitor);
    q->accepted = true;
    rs_os_monitor_wake(self->monitor);
    rs_os_monitor_leave(self->monitor);
    return rs_block_writer_write(q->writer, q->block, err);
}

/* Does a step outside the monitor. The caller is inside before and after. */
static void run(rs_pipeline *self, job *j) {
    queued_block *q = j->q;
    const uint64_t table_bytes = j->step == SETTLE ? q->writer->memory : 0;
    rs_status status = RS_OK;
    rs_error err = {0};
    rs_os_monitor_leave(self->monitor);
    switch (j->step) {
    case SURVEY: rs_block_writer_survey(q->writer, q->block); break;
    case LIST: rs_block_writer_list(q->block); break;
    case PREPARE: status = rs_block_writer_prepare(q->block, j->first, j->n, &j->part, &err); break;
    case WEIGH: rs_block_writer_weigh(q->block); break;
    case TRY:
        if (q->block->trial == RS_TRIAL_RUNS) status = rs_block_writer_end_trial(q->writer, q->block, &err);
        else status = rs_block_writer_begin_trial(q->writer, q->block, &err);
        break;
    case SETTLE:
        status = rs_block_writer_settle(q->writer, q->block);
        /* The memory of the survey is free now, but the malloc arenas of its threads still hold it. */
        if (q->block->surveyed && q->block->raw.size_bytes > TRIM_BYTES) rs_os_trim();
        break;
    case ENCODE: status = rs_block_writer_encode(q->block, j->chunk, &err); break;
    default:
        status = write_block(self, q, &err);
        if (status == RS_OK) empty_block(q->block, j->forgets);
        break;
    }
    rs_os_monitor_enter(self->monitor);
    switch (j->step) {
    case SURVEY:
    case LIST:
    case WEIGH: end_survey(q); break;
    case PREPARE: end_preparing(q, &j->part, status, &err); break;
    case TRY: end_trying(self, q, status, &err); break;
    case SETTLE:
        self->table_bytes += q->writer->memory - table_bytes;
        end_settling(self, q, status);
        break;
    case ENCODE: end_encoding(self, q, status, &err); break;
    default: end_writing(self, q, status, &err); return;
    }
    if (!q->surveying && !q->settling && q->n_preparing == 0 && q->n_encoding == 0) {
        q->bytes = rs_raw_block_memory(q->block);
    }
}

static void help(rs_pipeline *self, const job *j) {
    rs_os_monitor_leave(self->monitor);
    j->shared->task(j->shared->work, j->number);
    rs_os_monitor_enter(self->monitor);
    j->shared->n_running--;
}

/* Does one step. Returns false if there is nothing to do. */
static bool work_once(rs_pipeline *self) {
    job j = take(self);
    if (j.step == NOTHING) return false;
    if (j.step == HELP) help(self, &j);
    else run(self, &j);
    rs_os_monitor_wake(self->monitor);
    return true;
}

/* Shares the tasks of a step with idle threads. Comes from the thread of the step, which is outside. */
static void share(rs_crew *crew, rs_task *task, void *work, uint32_t n) {
    rs_pipeline *self = (rs_pipeline *)(void *)crew; /* its first field */
    tasks shared = {.task = task, .work = work, .n = n};
    rs_os_monitor_enter(self->monitor);
    shared.next = self->shared;
    self->shared = &shared;
    rs_os_monitor_wake(self->monitor);
    while (shared.first < shared.n) {
        const uint32_t number = take_task(self, &shared);
        rs_os_monitor_leave(self->monitor);
        task(work, number);
        rs_os_monitor_enter(self->monitor);
    }
    while (shared.n_running > 0) (void)rs_os_monitor_wait(self->monitor, IDLE_MS);
    rs_os_monitor_leave(self->monitor);
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

/* Returns whether no thread runs and all work is one small block, which the caller finishes before a thread starts. */
static bool is_little(const rs_pipeline *self) {
    const rs_raw_block *block = self->n_closed == 1 ? self->first->block : NULL;
    return block != NULL && self->open == NULL && self->n_running == 0 && block->raw.size_bytes < RS_PIPELINE_CHUNK;
}

/* If there is work, wakes the idle threads, or starts a thread if none is idle. Only the caller starts threads, because
 * only the caller joins them. */
static void wake_worker(rs_pipeline *self) {
    queued_block *q = NULL;
    worker *w = self->workers;
    if (find_step(self, &q) == NOTHING || is_little(self)) return;
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
    self->crew.run = share;
    *out = self;
    return RS_OK;
}

bool rs_pipeline_is_left(const rs_pipeline *self) { return self->started && self->process_id != rs_os_process_id(); }

static void free_queued(queued_block *q, bool blocks) {
    while (q != NULL) {
        queued_block *next = q->next;
        if (blocks) rs_raw_block_free(q->block);
        free(q);
        q = next;
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

static bool is_changing(const queued_block *q) { return q != NULL && q->settling; }

void rs_pipeline_hold(rs_pipeline *self) {
    rs_os_monitor_enter(self->monitor);
    self->held = true;
    while (is_changing(self->first) || (self->first != NULL && is_changing(self->first->next))) {
        (void)rs_os_monitor_wait(self->monitor, IDLE_MS);
    }
}

void rs_pipeline_release(rs_pipeline *self) {
    self->held = false;
    wake_worker(self);
    rs_os_monitor_leave(self->monitor);
}

static queued_block *new_queued(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block, rs_error *err) {
    queued_block *q = (queued_block *)calloc(1, sizeof *q);
    if (q == NULL) {
        (void)rs_no_memory(err);
        return NULL;
    }
    if (writer->encoding.choices.crew == NULL) writer->encoding.choices.crew = &self->crew; /* no thread reads it yet */
    q->writer = writer;
    q->block = block;
    q->bytes = rs_raw_block_memory(block);
    return q;
}

/* Returns the link to the entry of an open block, or to the end of the list. */
static queued_block **find_open(rs_pipeline *self, const rs_raw_block *block) {
    queued_block **link = &self->open;
    while (*link != NULL && (*link)->block != block) link = &(*link)->next;
    return link;
}

rs_status rs_pipeline_add_open(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block, rs_error *err) {
    queued_block **link = find_open(self, block);
    if (*link == NULL) {
        *link = new_queued(self, writer, block, err);
        if (*link == NULL) return RS_E_MEM;
    }
    wake_worker(self);
    return RS_OK;
}

void rs_pipeline_withdraw(rs_pipeline *self, const rs_raw_block *block) {
    queued_block **link = find_open(self, block), *q = *link;
    if (q == NULL) return;
    while (q->surveying) (void)rs_os_monitor_wait(self->monitor, IDLE_MS);
    link = find_open(self, block);
    *link = q->next;
    free(q);
}

rs_status rs_pipeline_add_closed(rs_pipeline *self, rs_block_writer *writer, rs_raw_block *block, rs_error *err) {
    queued_block **link = find_open(self, block), *q = *link;
    if (q != NULL) *link = q->next;
    else q = new_queued(self, writer, block, err);
    if (q == NULL) return RS_E_MEM;
    q->next = NULL;
    if (self->last == NULL) self->first = q;
    else self->last->next = q;
    self->last = q;
    self->n_closed++;
    if (!q->surveying) q->bytes = rs_raw_block_memory(block);
    wake_worker(self);
    return RS_OK;
}

static bool is_done(const rs_pipeline *self, bool all) {
    if (self->failed != RS_OK || self->n_closed == 0) return true;
    if (all) return false;
    return self->n_closed == 1 || (self->n_closed <= self->n_workers + 1 && memory_of(self) <= MOST_BYTES);
}

bool rs_pipeline_wait(rs_pipeline *self, bool all, uint32_t milliseconds) {
    unsigned turns = 64; /* each step of a thread ends a turn; most steps take less than a millisecond */
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
