"""The memory that a build may still take, for `recstore doctor`. Builds use the same limit."""


cdef extern from "os/rs_os.h" nogil:
    ctypedef struct rs_os_memory_roots:
        const char *proc
        const char *file_system

    enum:
        RS_OS_LIMIT_NAME_SIZE

    void rs_os_memory_headroom_at(const rs_os_memory_roots *roots, uint64_t *out_bytes, char *limit_name,
                                  size_t limit_name_size)


def headroom(proc="/proc", file_system=""):
    """`(bytes, limit)`: the bytes that may be taken before the tightest limit is 95% full, and its name: the machine, a
    memory cgroup or the address space of this process. `(None, "")` if no limit is known.

    `proc` is used in place of /proc. `file_system` is a prefix of the mount points in its self/mountinfo.
    """
    cdef bytes proc_path = os.fsencode(proc), prefix = os.fsencode(file_system)
    cdef rs_os_memory_roots roots
    cdef uint64_t available
    cdef char name[RS_OS_LIMIT_NAME_SIZE]
    roots.proc = proc_path
    roots.file_system = prefix
    rs_os_memory_headroom_at(&roots, &available, name, sizeof(name))
    limit = (<bytes>name).decode("utf-8", "backslashreplace")
    return (None, "") if available == <uint64_t>-1 else (available, limit)
