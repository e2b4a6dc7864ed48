"""Lock files. A lock file exists while a process holds its lock, for instance to build a named store or to fetch files
into a cache. Its content informs waiting processes.

No Python code runs between opening and locking, and deallocation releases a Lock, so a KeyboardInterrupt never leaves a
lock behind. A forked child closes all Locks at once (rs_os_open_lock). Otherwise it would share them with its parent,
and other processes would wait for a child that outlives its killed parent.
"""


HELD, BUSY, GONE = "held", "busy", "gone"
cdef enum:
    MOST_CONTENT = 1 << 16  # bytes


@cython.final
cdef class Lock:
    """The lock file at `path`, created if it is missing. With `group`, all users of the group of the folder share it.
    Otherwise raises PermissionError for another user's file. Raises OSError.

    ``state`` is HELD if this process holds the lock, BUSY if another process does, and GONE if this process locked a
    file that is no longer at `path`, so that other processes do not see the lock."""

    cdef rs_os_lock core
    cdef readonly str state
    cdef readonly str path
    cdef bytes encoded

    def __cinit__(self, str path, bint group=False):
        cdef rs_error err
        self.core.fd = -1
        self.path, self.encoded = path, encode_path(path)
        check_path(rs_os_open_lock(self.encoded, group, &self.core, &err), &err, path)
        self.attempt()

    def __dealloc__(self):
        self.drop()

    cpdef attempt(self):
        """Tries to lock without waiting, and returns the new state."""
        cdef rs_error err
        cdef rs_bool named
        cdef rs_status status = rs_os_try_lock(self.core.fd, self.encoded, &named, &err)
        if status == RS_E_STATE_BUSY:
            self.state = BUSY
        elif status == RS_OK:
            self.state = HELD if named else GONE
        else:
            raise_status(&err)
        return self.state

    def leads(self):
        """Whether this file is still at the path."""
        return bool(rs_os_leads_to(self.encoded, self.core.fd))

    def read(self):
        """The content of the file, which the process that holds the lock may be writing."""
        return os.pread(self.core.fd, MOST_CONTENT, 0)

    def write(self, bytes content):
        """Sets the content. Returns False if that fails; the content only informs, so the caller can go on."""
        try:
            if os.fstat(self.core.fd).st_nlink > 1:
                return False  # since the lock was opened, another user of the folder has linked a file of ours here
            os.ftruncate(self.core.fd, 0)
            os.pwrite(self.core.fd, content[:MOST_CONTENT], 0)
        except OSError:
            return False
        return True

    def close(self):
        """Releases the lock, and removes the file if this process held the lock."""
        self.drop()

    def forget(self):
        """Closes the file and leaves it there, as a killed process does."""
        rs_os_close_lock(&self.core)

    cdef int drop(self) except -1:
        cdef rs_status _ignored
        # In a forked child the file is closed, and the lock belongs to the parent.
        if self.core.fd >= 0 and self.state == HELD and rs_os_leads_to(self.encoded, self.core.fd):
            # Only the holder of the lock removes the file, so the path still leads to it.
            _ignored = rs_os_unlink(self.encoded, NULL, NULL)
        rs_os_close_lock(&self.core)
        return 0


def unlink_unused(path, judged=None, *, bint group=False):
    """Removes a file of this user, or with `group` of any user, that no process has leased or locked. Returns whether
    it did. With `judged`, an earlier result of os.lstat, keeps a file that was replaced or modified since."""
    cdef rs_error err
    cdef rs_bool removed
    cdef rs_os_removable expected
    encoded = encode_path(path)
    if judged is None:
        check_path(rs_os_unlink_unused(encoded, group, NULL, &removed, &err), &err, path)
    else:
        expected.device, expected.inode = judged.st_dev, judged.st_ino
        expected.modified_ns = <uint64_t><int64_t>judged.st_mtime_ns
        check_path(rs_os_unlink_removable(encoded, &expected, &removed, &err), &err, path)
    return bool(removed)


def is_leased(path):
    """Whether a process holds a lease or lock on the file. Raises OSError.

    The test holds a lock for a moment. It is one C call, so that no child is forked in between and keeps the lock."""
    cdef rs_error err
    cdef rs_bool leased
    encoded = encode_path(path)
    check_path(rs_os_is_leased(encoded, &leased, &err), &err, path)
    return bool(leased)
