package io.lockkeeper;

import io.lockkeeper.v1.LostReason;

/** Why a lock or permits were lost. */
public enum LossReason {
    /** The session ended; the detail has the cause. */
    UNSPECIFIED,
    /** The lease ended, or the store no longer had the grant. */
    EXPIRED,
    /** Another owner holds the lock. */
    TAKEN_OVER,
    /** The store was unreachable until the lease ended. It may still have the grant. */
    STORE_UNREACHABLE,
    /** An operator force-released the lock; the detail has the operator's reason. */
    FORCE_RELEASED,
    /** The store's clock stepped forward, which ended the lease before its time. */
    CLOCK_STEPPED,
    /** The lock was preempted; the detail has the reason. */
    PREEMPTED,
    /** Another session claimed a ticket for the lock and holds it. */
    HANDED_OVER;

    static LossReason of(LostReason reason) {
        return switch (reason) {
            case LOST_REASON_EXPIRED -> EXPIRED;
            case LOST_REASON_TAKEN_OVER -> TAKEN_OVER;
            case LOST_REASON_STORE_UNREACHABLE -> STORE_UNREACHABLE;
            case LOST_REASON_FORCE_RELEASED -> FORCE_RELEASED;
            case LOST_REASON_CLOCK_STEPPED -> CLOCK_STEPPED;
            case LOST_REASON_PREEMPTED -> PREEMPTED;
            case LOST_REASON_HANDED_OVER -> HANDED_OVER;
            default -> UNSPECIFIED;
        };
    }
}
