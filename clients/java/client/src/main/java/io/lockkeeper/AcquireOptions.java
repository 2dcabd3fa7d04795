package io.lockkeeper;

import io.lockkeeper.v1.Note;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;

/**
 * How to acquire. Immutable: each method returns a changed copy. The default waits without a limit
 * for an exclusive lock, which is renewed until it is released.
 */
public final class AcquireOptions {

    private static final AcquireOptions DEFAULTS =
            new AcquireOptions(
                    LockMode.EXCLUSIVE, null, null, null, 0, null, Note.getDefaultInstance());

    private final LockMode mode;
    private final String owner;
    private final Duration waitLimit;
    private final Duration lease;
    private final int minReplicaAcks;
    private final Duration patience;
    private final Note note;

    private AcquireOptions(
            LockMode mode,
            String owner,
            Duration waitLimit,
            Duration lease,
            int minReplicaAcks,
            Duration patience,
            Note note) {
        this.mode = mode;
        this.owner = owner;
        this.waitLimit = waitLimit;
        this.lease = lease;
        this.minReplicaAcks = minReplicaAcks;
        this.patience = patience;
        this.note = note;
    }

    /**
     * The default options.
     *
     * @return the options
     */
    public static AcquireOptions defaults() {
        return DEFAULTS;
    }

    /**
     * Sets the mode in which to hold the lock.
     *
     * @param mode the mode
     * @return the changed options
     */
    public AcquireOptions mode(LockMode mode) {
        Objects.requireNonNull(mode);
        return new AcquireOptions(mode, owner, waitLimit, lease, minReplicaAcks, patience, note);
    }

    /**
     * Sets the owner within the session. The same owner can acquire a lock again. By default each
     * acquire has an owner of its own.
     *
     * @param owner the owner
     * @return the changed options
     */
    public AcquireOptions owner(String owner) {
        Objects.requireNonNull(owner);
        return new AcquireOptions(mode, owner, waitLimit, lease, minReplicaAcks, patience, note);
    }

    /**
     * Sets the maximum time to wait. By default a wait has no limit. If no coordinator answers, it
     * ends with {@link UnreachableException}; a coordinator that becomes silent during the wait can
     * delay that by two ping intervals.
     *
     * @param waitLimit the time; zero tries once
     * @return the changed options
     * @throws MisconfiguredException if it is negative
     */
    public AcquireOptions waitLimit(Duration waitLimit) {
        requireNotNegative("waitLimit", waitLimit);
        return new AcquireOptions(mode, owner, waitLimit, lease, minReplicaAcks, patience, note);
    }

    /**
     * Sets a lease that is not renewed in the background. By default it is the session's lease,
     * renewed until the release.
     *
     * @param lease the lease; the coordinator accepts 100 ms to 24 h by default
     * @return the changed options
     * @throws MisconfiguredException if it is negative
     */
    public AcquireOptions lease(Duration lease) {
        requireNotNegative("lease", lease);
        return new AcquireOptions(mode, owner, waitLimit, lease, minReplicaAcks, patience, note);
    }

    /**
     * Sets the minimum number of the store's replicas that must acknowledge the grant and its
     * renewals. The default is 0.
     *
     * @param minReplicaAcks the number
     * @return the changed options
     * @throws MisconfiguredException if it is negative
     */
    public AcquireOptions minReplicaAcks(int minReplicaAcks) {
        if (minReplicaAcks < 0) {
            throw new MisconfiguredException("minReplicaAcks: must not be negative");
        }
        return new AcquireOptions(mode, owner, waitLimit, lease, minReplicaAcks, patience, note);
    }

    /**
     * Sets how long to retry while the store does not answer. The default, and the most, is the
     * session's lease.
     *
     * @param patience the time
     * @return the changed options
     * @throws MisconfiguredException if it is negative
     */
    public AcquireOptions patience(Duration patience) {
        requireNotNegative("patience", patience);
        return new AcquireOptions(mode, owner, waitLimit, lease, minReplicaAcks, patience, note);
    }

    /**
     * Sets why the lock is held, for others to read. Permits have no notes.
     *
     * @param reason the reason: at most 256 bytes, without control characters and secrets
     * @return the changed options
     */
    public AcquireOptions reason(String reason) {
        return note(note.toBuilder().setReason(reason).build());
    }

    /**
     * Adds a label for others to read, at most 8 of them. Permits have no notes.
     *
     * @param key the key: 1 to 64 bytes without {@code =}
     * @param value the value: at most 128 bytes
     * @return the changed options
     */
    public AcquireOptions label(String key, String value) {
        return note(note.toBuilder().putLabels(key, value).build());
    }

    private AcquireOptions note(Note note) {
        return new AcquireOptions(mode, owner, waitLimit, lease, minReplicaAcks, patience, note);
    }

    static void requireNotNegative(String field, Duration value) {
        if (value.isNegative()) {
            throw new MisconfiguredException(field + ": must not be negative");
        }
    }

    LockMode mode() {
        return mode;
    }

    /** Null for an owner of its own. */
    String owner() {
        return owner;
    }

    /** Null for no limit. */
    Duration waitLimit() {
        return waitLimit;
    }

    /** Null for the session's lease, renewed. */
    Duration lease() {
        return lease;
    }

    int minReplicaAcks() {
        return minReplicaAcks;
    }

    /** Null for the session's lease. */
    Duration patience() {
        return patience;
    }

    /** Empty if it says nothing. */
    Optional<Note> note() {
        return Optional.of(note).filter(it -> !it.equals(Note.getDefaultInstance()));
    }
}
