/* rs_mixing.c: draws of items of several sources, as specified at the top of rs_mixing.h. */
#include "base/rs_mixing.h"

static inline int64_t next_length(const rs_mixing_source *source) {
    return source->lengths == NULL ? source->length : source->lengths[source->drawn - source->first];
}

/* Sets what is taken off for the next item when sources are compared. */
static inline void set_threshold(rs_mixing_source *source) {
    const uint64_t word = rs_alias_word(source->key, (uint64_t)source->drawn);
    const int64_t length = next_length(source);
    const int64_t random = source->lengths == NULL || length < RS_MIXING_RANDOM ? length : RS_MIXING_RANDOM;
    source->threshold = RS_MIXING_WHOLE / 2 * (length - random) + (int64_t)(word >> 34) * random; /* 30 bits of 64 */
    source->priority = source->behind - source->threshold;
}

uint64_t rs_mixing_run(rs_mixing_source *sources, size_t n, uint64_t draws, uint64_t skip, uint64_t step,
                       int64_t *out_sources, int64_t *out_numbers) {
    uint64_t done = 0;
    size_t best = n;
    for (size_t k = 0; k < n; k++) {
        if (sources[k].weight == 0) continue;
        set_threshold(&sources[k]);
        if (best == n || sources[k].priority > sources[best].priority) best = k;
    }
    while (done < draws && best < n) {
        rs_mixing_source *drawn = &sources[best];
        const int64_t length = next_length(drawn);
        if (done++ == skip) {
            *out_sources++ = (int64_t)best;
            *out_numbers++ = drawn->drawn;
            skip += step;
        }
        drawn->behind = drawn->priority + drawn->threshold - RS_MIXING_WHOLE * length;
        drawn->priority = drawn->behind, drawn->threshold = 0;
        const bool ends = ++drawn->drawn == drawn->end;
        if (!ends) set_threshold(drawn);
        int64_t most = INT64_MIN;
        for (size_t k = 0; k < n; k++) {
            if (sources[k].weight == 0) continue;
            sources[k].priority += sources[k].weight * length;
            if (sources[k].priority > most) most = sources[k].priority, best = k;
        }
        if (ends) break;
    }
    for (size_t k = 0; k < n; k++) {
        if (sources[k].weight != 0) sources[k].behind = sources[k].priority + sources[k].threshold;
    }
    return done;
}
