package io.lockkeeper;

import io.lockkeeper.v1.Note;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * How to acquire. Immutable: each method returns a changed copy. The default waits without a limit
 * for an exclusive lock, which is renewed until it is released.
 */
public final class AcquireOptions {

    private static final AcquireOptions DEFAULTS = new AcquireOptions(new Settings());

    private final Settings settings;

    /** Not changed any more once it belongs to options. */
    private static final class Settings {
        LockMode mode = LockMode.EXCLUSIVE;
        String owner;
        Duration waitLimit;
        Duration lease;
        Duration holdAtLeast;
        Duration lockDelay;
        boolean endsOnDeadlock;
        boolean isPreferred;
        int minReplicaAcks;
        Duration patience;
        Note note = Note.getDefaultInstance();

        Settings() {}

        Settings(Settings from) {
            mode = from.mode;
            owner = from.owner;
            waitLimit = from.waitLimit;
            lease = from.lease;
            holdAtLeast = from.holdAtLeast;
            lockDelay = from.lockDelay;
            endsOnDeadlock = from.endsOnDeadlock;
            isPreferred = from.isPreferred;
            minReplicaAcks = from.minReplicaAcks;
            patience = from.patience;
            note = from.note;
        }
    }

    private AcquireOptions(Settings settings) {
        this.settings = settings;
    }

    private AcquireOptions with(Consumer<Settings> change) {
        Settings changed = new Settings(settings);
        change.accept(changed);
        return new AcquireOptions(changed);
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
        return with(it -> it.mode = mode);
    }

    /**
     * Sets the owner within the session. The same owner can acquire a lock again. By default each
     * acquire has an owner of its own. Deadlocks are named among owners that are one task each, so
     * give all acquires of a task the same owner.
     *
     * @param owner the owner
     * @return the changed options
     */
    public AcquireOptions owner(String owner) {
        Objects.requireNonNull(owner);
        return with(it -> it.owner = owner);
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
        return with(it -> it.waitLimit = waitLimit);
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
        return with(it -> it.lease = lease);
    }

    /**
     * Sets how long the lock stays held at least, counted from the grant, also after a release or a
     * crash; so a job that ends early does not run again at once elsewhere. Only for one lock, in
     * the modes EXCLUSIVE and FAIR; a quorum of stores refuses it.
     *
     * @param holdAtLeast the time; the coordinator accepts 100 ms to 24 h by default
     * @return the changed options
     * @throws MisconfiguredException if it is negative
     */
    public AcquireOptions holdAtLeast(Duration holdAtLeast) {
        requireNotNegative("holdAtLeast", holdAtLeast);
        return with(it -> it.holdAtLeast = holdAtLeast);
    }

    /**
     * Sets for how long nobody can acquire the lock after it was lost without a release, because
     * its holder crashed or nobody renewed it; so what the holder had begun can come to an end. A
     * release frees the lock at once. Only for one lock, in the modes EXCLUSIVE and FAIR; not with
     * {@link LockkeeperBuilder#releaseOnDisconnect}, and a quorum of stores refuses it.
     *
     * @param lockDelay the time after the end of the lease; the coordinator accepts 100 ms to 24 h
     *     by default
     * @return the changed options
     * @throws MisconfiguredException if it is negative
     */
    public AcquireOptions lockDelay(Duration lockDelay) {
        requireNotNegative("lockDelay", lockDelay);
        return with(it -> it.lockDelay = lockDelay);
    }

    /**
     * Ends the wait with {@link NotGrantedException} for the reason {@code DEADLOCK} if it is part
     * of a deadlock. Of the waits of a deadlock that set this, the youngest ends. A deadlock is
     * known among {@linkplain #owner named owners} and threads, see {@link LockkeeperLock}, whose
     * waits are older than a second.
     *
     * @return the changed options
     */
    public AcquireOptions endOnDeadlock() {
        return with(it -> it.endsOnDeadlock = true);
    }

    /**
     * Comes before the other waiters: the wait becomes the first in line, and the holder is asked
     * to yield, see {@link Grant#onYieldRequested}, unless it was preferred itself. Of several that
     * wait, the last to arrive is the first. A try does not wait, so it has no effect there. Only
     * for one lock, in the mode FAIR.
     *
     * @return the changed options
     */
    public AcquireOptions preferred() {
        return with(it -> it.isPreferred = true);
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
        return with(it -> it.minReplicaAcks = minReplicaAcks);
    }

    /**
     * Sets how long to retry while the store does not answer. The default, and the most, is the
     * session's lease; of a try the default is 6 s.
     *
     * @param patience the time
     * @return the changed options
     * @throws MisconfiguredException if it is negative
     */
    public AcquireOptions patience(Duration patience) {
        requireNotNegative("patience", patience);
        return with(it -> it.patience = patience);
    }

    /**
     * Sets why the lock is held, for others to read. Permits have no notes.
     *
     * @param reason the reason: at most 256 bytes, without control characters and secrets
     * @return the changed options
     */
    public AcquireOptions reason(String reason) {
        return with(it -> it.note = it.note.toBuilder().setReason(reason).build());
    }

    /**
     * Adds a label for others to read, at most 8 of them. Permits have no notes.
     *
     * @param key the key: 1 to 64 bytes without {@code =}
     * @param value the value: at most 128 bytes
     * @return the changed options
     */
    public AcquireOptions label(String key, String value) {
        return with(it -> it.note = it.note.toBuilder().putLabels(key, value).build());
    }

    static void requireNotNegative(String field, Duration value) {
        if (value.isNegative()) {
            throw new MisconfiguredException(field + ": must not be negative");
        }
    }

    LockMode mode() {
        return settings.mode;
    }

    /** Null for an owner of its own. */
    String owner() {
        return settings.owner;
    }

    /** Null for no limit. */
    Duration waitLimit() {
        return settings.waitLimit;
    }

    /** Null for the session's lease, renewed. */
    Duration lease() {
        return settings.lease;
    }

    /** Null for no minimum. */
    Duration holdAtLeast() {
        return settings.holdAtLeast;
    }

    /** Null for no delay. */
    Duration lockDelay() {
        return settings.lockDelay;
    }

    /** Fails if something is set that only one lock can have. */
    void refuseWhatNeedsOneLock() {
        refuseIf(settings.holdAtLeast != null, "holdAtLeast");
        refuseIf(settings.lockDelay != null, "lockDelay");
        refuseIf(settings.isPreferred, "preferred");
    }

    private static void refuseIf(boolean isSet, String field) {
        if (isSet) {
            throw new MisconfiguredException(field + ": only one lock can have it");
        }
    }

    boolean endsOnDeadlock() {
        return settings.endsOnDeadlock;
    }

    boolean isPreferred() {
        return settings.isPreferred;
    }

    int minReplicaAcks() {
        return settings.minReplicaAcks;
    }

    /** Null for the session's lease. */
    Duration patience() {
        return settings.patience;
    }

    /** Empty if it says nothing. */
    Optional<Note> note() {
        return Optional.of(settings.note).filter(it -> !it.equals(Note.getDefaultInstance()));
    }
}
