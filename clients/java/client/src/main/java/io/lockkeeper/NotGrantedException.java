package io.lockkeeper;

import io.lockkeeper.v1.Note;
import java.time.Duration;
import java.util.Optional;

/** The wait ended without a grant. */
public final class NotGrantedException extends LockkeeperException {

    private static final long serialVersionUID = 1;

    /** What was waited for. */
    private final String name;

    /** Why the wait ended. */
    private final String reason;

    /** Null if it is not known. */
    private final Duration holderRemainingLease;

    /** Null if there is none. */
    private final Note holderNote;

    NotGrantedException(
            String message,
            String name,
            String reason,
            Duration holderRemainingLease,
            Note holderNote) {
        super(message);
        this.name = name;
        this.reason = reason;
        this.holderRemainingLease = holderRemainingLease;
        this.holderNote = holderNote;
    }

    /**
     * What was waited for; several names are separated by commas.
     *
     * @return the name
     */
    public String name() {
        return name;
    }

    /**
     * Why the wait ended.
     *
     * @return {@code WAIT_TIMEOUT}, {@code CANCELLED}, or {@code DEADLOCK}, see {@link
     *     AcquireOptions#endOnDeadlock}
     */
    public String reason() {
        return reason;
    }

    /**
     * The remaining lease of the holder.
     *
     * @return the lease; empty if it is not known or never ends
     */
    public Optional<Duration> holderRemainingLease() {
        return Optional.ofNullable(holderRemainingLease);
    }

    /**
     * Why the holder holds the lock, of any one if there are several.
     *
     * @return the note, with its reason and labels; empty if it gave none
     */
    public Optional<Note> holderNote() {
        return Optional.ofNullable(holderNote);
    }
}
