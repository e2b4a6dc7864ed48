"""What stands in /dev/shm that a test of ours could have left there."""

import os

# multiprocessing, loky, torch and stores shared by name make names there at any moment, for whoever runs on the machine;
# and so does this suite, run twice. Tests of stores with names look for their own. recstore makes no semaphores: glibc
# gives each a name such as sem.qIa1Uu for a moment, before the one that was asked for.
OF_OTHERS = ("sem.", "joblib_memmapping_", "pym-", "psm_", "torch_", "recstore-test-", "recs1-")


def names():
    """The names, but for those that others may have made."""
    if not os.path.isdir("/dev/shm"):
        return []
    own = f"recstore-test-{os.getpid()}-"
    return sorted(name for name in os.listdir("/dev/shm") if name.startswith(own) or not name.startswith(OF_OTHERS))
