"""Locks of builders: a file that exists while somebody builds, locked by who does, with what others want to know of it.

Opening and locking are one call without Python code between them, and whoever drops a Lock gives it back: a
KeyboardInterrupt leaves nothing behind, wherever it comes. A forked child lets go of all locks at once: it shares them
with its parent, also one that the parent gets only later, and if it outlived a killed parent, everybody would wait for
it.
"""


HELD, BUSY, GONE = "held", "busy", "gone"
cdef enum:
    MOST = 1 << 16  # bytes of content

_locks = weakref.WeakSet()


cdef class Lock:
    """The lock file `path`, made where it is missing. ``state`` is HELD: ours, and nobody else gets it; BUSY:
    another's; GONE: ours, but the path leads to it no more, so that others do not see it. PermissionError for a file
    that is not this user's, OSError."""

    cdef int fd
    cdef readonly str state
    cdef readonly str path
    cdef bytes encoded
    cdef object pid
    cdef object __weakref__

    def __cinit__(self, str path):
        cdef rs_error err
        self.fd = -1
        self.path, self.encoded, self.pid = path, encode_path(path), os.getpid()
        _locks.add(self)
        check_path(rs_os_open_lock(self.encoded, &self.fd, &err), &err, path)
        self.attempt()

    def __dealloc__(self):
        self.drop()

    cpdef attempt(self):
        """Tries once more; the new state."""
        cdef rs_error err
        cdef rs_bool named
        cdef rs_status status = rs_os_try_lock(self.fd, self.encoded, &named, &err)
        if status == RS_E_STATE_BUSY:
            self.state = BUSY
        elif status == RS_OK:
            self.state = HELD if named else GONE
        else:
            raise_status(&err)
        return self.state

    def leads(self):
        """Whether the path still leads to this file."""
        return bool(rs_os_leads_to(self.encoded, self.fd))

    def read(self):
        """The content, which its holder may be changing."""
        return os.pread(self.fd, MOST, 0)

    def write(self, bytes content):
        """Sets the content; nothing where the file system is full: what it says is of use, not of need."""
        try:
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, content[:MOST], 0)
        except OSError:
            return False
        return True

    def close(self):
        """Gives the lock back, and removes the file if it is held."""
        self.drop()

    def forget(self):
        """In a forked child: the lock stays the parent's."""
        rs_os_close(&self.fd)

    cdef int drop(self) except -1:
        cdef rs_status _ignored
        if self.fd >= 0 and self.state == HELD and self.pid == os.getpid() and rs_os_leads_to(self.encoded, self.fd):
            # Only who holds the lock removes the file, so it cannot be another one by now.
            _ignored = rs_os_unlink(self.encoded, NULL, NULL)
        rs_os_close(&self.fd)
        return 0


def _after_fork():
    for lock in list(_locks):
        lock.forget()


os.register_at_fork(after_in_child=_after_fork)


def unlink_unused(path, judged=None):
    """Removes a file of this user that nobody has locked; whether it did. With `judged`, what os.lstat said of it, only
    if it has been neither replaced nor touched since."""
    cdef rs_error err
    cdef rs_bool removed
    cdef rs_os_judged was
    encoded = encode_path(path)
    if judged is None:
        check_path(rs_os_unlink_unused(encoded, NULL, &removed, &err), &err, path)
    else:
        was.device, was.inode = judged.st_dev, judged.st_ino
        was.modified_ns = <uint64_t><int64_t>judged.st_mtime_ns
        check_path(rs_os_unlink_judged(encoded, &was, &removed, &err), &err, path)
    return bool(removed)


def is_leased(path):
    """Whether a process has it leased or locked. One call without Python code in it: a child forked meanwhile would
    keep the lock. OSError."""
    cdef rs_error err
    cdef rs_bool leased
    encoded = encode_path(path)
    check_path(rs_os_is_leased(encoded, &leased, &err), &err, path)
    return bool(leased)
