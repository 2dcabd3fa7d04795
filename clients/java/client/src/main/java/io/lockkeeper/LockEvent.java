package io.lockkeeper;

import io.lockkeeper.v1.Holder;
import java.util.List;

/** What happens to a lock, on any coordinator. See {@link SessionlessLocks#watch}. */
public sealed interface LockEvent {

    /**
     * The lock when the watch began, or went on at another coordinator.
     *
     * @param holders the holders, at most the first 100; empty if the lock is free
     * @param holderCount the number of holders
     * @param waiterCount the number of waiters, see {@link Waiters}
     * @param lastFencingToken the token of the newest grant, unsigned; 0 if none is known
     */
    record State(List<Holder> holders, int holderCount, int waiterCount, long lastFencingToken)
            implements LockEvent {}

    /**
     * An owner was granted the lock.
     *
     * @param holder the holder
     * @param fencingToken the token of the newest grant, unsigned: that of this one, unless its
     *     mode is READ or a Redisson client made it
     */
    record Granted(Holder holder, long fencingToken) implements LockEvent {}

    /**
     * A grant has ended.
     *
     * @param holder the holder, as it was last seen
     * @param fencingToken the token, see {@link Granted}
     * @param end how the grant ended, as far as that is known
     * @param detail the reason that was given, for people; only of {@link End#FORCE_RELEASED} and
     *     {@link End#PREEMPTED}, otherwise empty
     */
    record Ended(Holder holder, long fencingToken, End end, String detail) implements LockEvent {}

    /**
     * Nobody holds the lock any more.
     *
     * @param lastFencingToken the token of the newest grant, unsigned; 0 if none is known
     */
    record Free(long lastFencingToken) implements LockEvent {}

    /**
     * The number of known waiters has changed: of a fair lock all, otherwise those of the
     * coordinator that is asked.
     *
     * @param waiterCount the number
     */
    record Waiters(int waiterCount) implements LockEvent {}

    /**
     * Something may not have been seen.
     *
     * @param reason why
     */
    record Gap(GapReason reason) implements LockEvent {}

    /** How a grant ended. */
    enum End {
        /** In a way that a newer coordinator knows. */
        UNSPECIFIED,
        /** It was released. */
        RELEASED,
        /** The lease was over. */
        EXPIRED,
        /** An operator force-released the lock. */
        FORCE_RELEASED,
        /** The lock was preempted after a request to yield it. */
        PREEMPTED,
        /**
         * It ended before its lease without an announcement: a fair lock was released with nobody
         * in its queue, one of several readers released its hold, or the key was deleted or lost.
         */
        UNANNOUNCED
    }

    /** Why something may not have been seen. */
    enum GapReason {
        /** For a reason that a newer coordinator knows. */
        UNSPECIFIED,
        /** Grants began and ended between two reads. The newest fencing token shows it. */
        FOLDED,
        /** The stream was interrupted, or the coordinator may have missed announcements. */
        UNHEARD,
        /** The store could not be read. */
        STORE_UNREACHABLE,
        /** The listener was too slow. */
        BEHIND
    }
}
