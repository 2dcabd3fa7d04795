package io.lockkeeper.internal;

import io.lockkeeper.v1.LostReason;
import io.lockkeeper.v1.NotGrantedReason;
import io.lockkeeper.v1.Note;
import java.time.Duration;
import java.util.Map;

/** Why something failed. */
public sealed interface Failure {

    /** Final gRPC codes: the same request would be refused again. */
    int INVALID_ARGUMENT = 3;

    /** See {@link #INVALID_ARGUMENT}. */
    int NOT_FOUND = 5;

    /** See {@link #INVALID_ARGUMENT}. */
    int PERMISSION_DENIED = 7;

    /** See {@link #INVALID_ARGUMENT}. */
    int FAILED_PRECONDITION = 9;

    /** See {@link #INVALID_ARGUMENT}. */
    int UNIMPLEMENTED = 12;

    /** See {@link #INVALID_ARGUMENT}. */
    int UNAUTHENTICATED = 16;

    /**
     * An address, a file or a value cannot be used.
     *
     * @param message the field and the cause
     */
    record Misconfigured(String message) implements Failure {}

    /**
     * A coordinator could not be reached.
     *
     * @param address its address
     * @param cause why
     */
    record Unreachable(String address, String cause) implements Failure {}

    /**
     * A coordinator refused.
     *
     * @param code the gRPC code
     * @param reason the stable reason; empty if it has none
     * @param message for people
     * @param metadata what the error says besides its reason
     * @param retryDelay when to try again, or null
     */
    record Refused(
            int code,
            String reason,
            String message,
            Map<String, String> metadata,
            Duration retryDelay)
            implements Failure {}

    /**
     * A wait ended without a grant.
     *
     * @param name what was waited for
     * @param reason why the wait ended
     * @param remainingLease the rest of the holder's lease, or null
     * @param holderNote the holder's note, or null
     */
    record NotGranted(
            String name, NotGrantedReason reason, Duration remainingLease, Note holderNote)
            implements Failure {}

    /**
     * A lock or permits were lost.
     *
     * @param name the lock or the semaphore
     * @param reason why
     * @param fencingToken that of the grant; 0 for permits
     * @param detail for people; may be empty
     * @param validFor how long no other owner can acquire it, from the notice on
     */
    record Lost(
            String name, LostReason reason, long fencingToken, String detail, Duration validFor)
            implements Failure {

        Lost(String name, LostReason reason, long fencingToken, String detail) {
            this(name, reason, fencingToken, detail, Duration.ZERO);
        }
    }

    /**
     * The session is over.
     *
     * @param cause why
     */
    record SessionEnded(String cause) implements Failure {}

    /**
     * Whether a coordinator with this answer will never accept the session. Only a coordinator
     * gives a reason: a proxy without a route answers UNIMPLEMENTED, too.
     *
     * @return whether it is such a refusal
     */
    default boolean refusesSession() {
        return isFinalAnswer() && this instanceof Refused refused && !refused.reason.isEmpty();
    }

    private boolean isFinalAnswer() {
        return this instanceof Refused refused
                && switch (refused.code) {
                    case INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, UNIMPLEMENTED -> true;
                    default -> false;
                };
    }

    /**
     * Whether the same request would fail again.
     *
     * @return whether no retry helps
     */
    default boolean isFinal() {
        return this instanceof Misconfigured
                || isFinalAnswer()
                || this instanceof Refused refused
                        && (refused.code == PERMISSION_DENIED || refused.code == UNAUTHENTICATED);
    }

    /**
     * Whether the coordinator says that the session does not hold the lock or the permits.
     *
     * @return whether the reason is NOT_OWNER
     */
    default boolean isNotOwner() {
        return this instanceof Refused refused && refused.reason.equals("NOT_OWNER");
    }

    /**
     * The failure in a line for people.
     *
     * @return the line
     */
    default String describe() {
        if (this instanceof Misconfigured it) {
            return it.message;
        } else if (this instanceof Unreachable it) {
            return "no coordinator at " + it.address + ": " + it.cause;
        } else if (this instanceof Refused it) {
            return it.reason.isEmpty() ? it.message : it.reason + ": " + it.message;
        } else if (this instanceof NotGranted it) {
            boolean isDeadlock = it.reason == NotGrantedReason.NOT_GRANTED_REASON_DEADLOCK;
            String why = isDeadlock ? ", the wait was a deadlock" : " within the wait limit";
            return it.name + ": not granted" + why;
        } else if (this instanceof Lost it) {
            return it.name + ": lost, " + it.reason + " " + it.detail;
        } else {
            return "the session has ended: " + ((SessionEnded) this).cause;
        }
    }
}
