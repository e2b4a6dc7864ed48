/* replay.c: drives a fuzz target without libFuzzer, so that every test run repeats earlier findings:
 * `fuzz_<name> [-mutations=N] [-seed=N] [-ending=.rec] FILE_OR_FOLDER...`
 * runs each file, then N changes of each. The same seed gives the same changes in every run. In a folder it runs the
 * files with this ending. It prints the number of executions. A finding ends the process, as with libFuzzer.
 * `-keep=FILE` writes each input before it runs, so that the file has the input that ended the process. */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "fuzz.h"

enum { PATH_SIZE = 4096, MAX_GROWTH = 4096 };

typedef struct options {
    unsigned long long mutations, seed, executions;
    const char *keep, *ending;
} options;

static uint64_t state; /* of LLVMFuzzerMutate, whose parameters have no place for it */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
    uint64_t n = 1 + fuzz_below(&state, 4);
    for (; n > 0; n--) {
        const size_t at = size == 0 ? 0 : (size_t)fuzz_below(&state, size);
        const size_t n_bytes = size == 0 ? 0 : 1 + (size_t)fuzz_below(&state, size - at < 16 ? size - at : 16);
        switch (fuzz_below(&state, 6)) {
        case 0:
            if (size > 0) data[at] ^= (uint8_t)(1u << fuzz_below(&state, 8));
            break;
        case 1:
            if (size > 0) data[at] = (uint8_t)fuzz_random(&state);
            break;
        case 2:
            if (size < max_size) data[size++] = (uint8_t)fuzz_random(&state);
            break;
        case 3: /* repeats some bytes */
            if (n_bytes > 0 && size + n_bytes <= max_size) {
                memmove(data + at + n_bytes, data + at, size - at);
                size += n_bytes;
            }
            break;
        case 4:
            memmove(data + at, data + at + n_bytes, size - at - n_bytes);
            size -= n_bytes;
            break;
        default:
            if (n_bytes == 0) break;
            memmove(data + fuzz_below(&state, size - n_bytes + 1), data + at, n_bytes);
        }
    }
    return size;
}

static void run(options *o, const uint8_t *data, size_t size) {
    uint8_t *exact = fuzz_copy(data, size);
    if (o->keep != NULL) {
        FILE *file = fopen(o->keep, "wb");
        FUZZ_MUST(file != NULL && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    }
    FUZZ_MUST(LLVMFuzzerTestOneInput(exact, size) == 0);
    free(exact);
    o->executions++;
}

/* Runs the input and changes of it. Half of the changes start from the input, the others from the previous change. */
static void run_changes(options *o, const uint8_t *data, size_t size) {
    const size_t room = size + MAX_GROWTH;
    uint8_t *changed = (uint8_t *)malloc(room);
    size_t changed_size = size;
    FUZZ_MUST(changed != NULL);
    if (size != 0) memcpy(changed, data, size);
    state = o->seed + fuzz_seed(data, size);
    run(o, data, size);
    for (unsigned long long i = 0; i < o->mutations; i++) {
        if (fuzz_below(&state, 2) == 0) {
            changed_size = size;
            if (size != 0) memcpy(changed, data, size);
        }
        changed_size = LLVMFuzzerCustomMutator(changed, changed_size, room, (unsigned int)fuzz_random(&state));
        run(o, changed, changed_size);
    }
    free(changed);
}

static int run_file(options *o, const char *path, size_t size) {
    uint8_t *data = (uint8_t *)malloc(size + 1);
    FILE *file = fopen(path, "rb");
    int ok = file != NULL && data != NULL && fread(data, 1, size, file) == size;
    if (ok) run_changes(o, data, size);
    else (void)fprintf(stderr, "%s cannot be read\n", path);
    if (file != NULL) (void)fclose(file);
    free(data);
    return ok;
}

static int run_path(options *o, const char *path) {
    struct stat info;
    struct dirent **names;
    int ok = 1;
    if (stat(path, &info) != 0) {
        (void)fprintf(stderr, "%s does not exist\n", path);
        return 0;
    }
    if (!S_ISDIR(info.st_mode)) return run_file(o, path, (size_t)info.st_size);
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char below[PATH_SIZE];
        const size_t length = strlen(names[i]->d_name), ending = strlen(o->ending);
        if (names[i]->d_name[0] != '.' && length >= ending &&
            strcmp(names[i]->d_name + length - ending, o->ending) == 0) {
            (void)snprintf(below, sizeof below, "%s/%s", path, names[i]->d_name);
            ok &= run_path(o, below);
        }
        free(names[i]);
    }
    if (n >= 0) free(names);
    return ok && n >= 0;
}

int main(int argc, char **argv) {
    options o = {0, 1, 0, NULL, ""};
    int ok = 1;
    for (int i = 1; i < argc; i++) {
        if (sscanf(argv[i], "-mutations=%llu", &o.mutations) == 1 || sscanf(argv[i], "-seed=%llu", &o.seed) == 1)
            continue;
        if (strncmp(argv[i], "-keep=", 6) == 0) o.keep = argv[i] + 6;
        else if (strncmp(argv[i], "-ending=", 8) == 0) o.ending = argv[i] + 8;
        else ok &= run_path(&o, argv[i]);
    }
    (void)printf("%s: %llu executions\n", argv[0], o.executions);
    return ok && o.executions > 0 ? 0 : 1;
}
