package io.lockkeeper;

import java.time.Duration;

/**
 * The loss of a lock or of permits.
 *
 * @param name the lock or the semaphore
 * @param reason why it was lost
 * @param fencingToken the token of the lost grant, unsigned; 0 for permits
 * @param detail for people: the operator's reason, or why the session ended; may be empty
 * @param validFor how long no other owner can acquire the lock, counted from when the loss was
 *     reported: the grace period of a forced release. Stop within it and release the lock, which
 *     ends the period. Zero if another owner may hold the lock already
 */
public record Loss(
        String name, LossReason reason, long fencingToken, String detail, Duration validFor) {

    Loss(String name, LossReason reason, long fencingToken, String detail) {
        this(name, reason, fencingToken, detail, Duration.ZERO);
    }
}
