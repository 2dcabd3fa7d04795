package io.lockkeeper;

/**
 * The loss of a lock or of permits.
 *
 * @param name the lock or the semaphore
 * @param reason why it was lost
 * @param fencingToken the token of the lost grant, unsigned; 0 for permits
 * @param detail for people: the operator's reason, or why the session ended; may be empty
 */
public record Loss(String name, LossReason reason, long fencingToken, String detail) {}
