package io.lockkeeper;

/** How a lock is held. */
public enum LockMode {
    /** One owner at a time. Waiters of one coordinator are served in order of arrival. */
    EXCLUSIVE(io.lockkeeper.v1.LockMode.LOCK_MODE_EXCLUSIVE),
    /** As exclusive, but granted in order of arrival across all coordinators. */
    FAIR(io.lockkeeper.v1.LockMode.LOCK_MODE_FAIR),
    /** Shared with other readers of a read/write lock. */
    READ(io.lockkeeper.v1.LockMode.LOCK_MODE_READ),
    /** The one writer of a read/write lock, without readers. */
    WRITE(io.lockkeeper.v1.LockMode.LOCK_MODE_WRITE);

    private final io.lockkeeper.v1.LockMode proto;

    LockMode(io.lockkeeper.v1.LockMode proto) {
        this.proto = proto;
    }

    io.lockkeeper.v1.LockMode proto() {
        return proto;
    }
}
