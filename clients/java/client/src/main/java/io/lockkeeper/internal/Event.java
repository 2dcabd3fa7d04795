package io.lockkeeper.internal;

import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import java.time.Duration;

/** What the session machine reacts to. The ids of a caller's operations are even. */
public sealed interface Event {

    /**
     * A caller starts an operation.
     *
     * @param op the operation
     * @param request the frame without its {@code op_id}
     * @param waitUntil until when it waits, or {@link Timers#NEVER}
     * @param patience for how long to repeat it while the store fails, or {@link Timers#NEVER} for
     *     the session's lease
     */
    record Start(long op, SessionRequest request, long waitUntil, long patience) implements Event {}

    /**
     * The caller no longer waits.
     *
     * @param op the operation
     */
    record Abandon(long op) implements Event {}

    /**
     * A caller releases what a guard holds.
     *
     * @param op answered when the release has taken effect
     * @param guard the guard
     */
    record Release(long op, long guard) implements Event {}

    /**
     * A caller renews what a guard holds.
     *
     * @param op answered when everything is renewed
     * @param guard the guard
     * @param lease the new lease, or null for the former one
     */
    record Renew(long op, long guard, Duration lease) implements Event {}

    /**
     * A caller closes the session.
     *
     * @param op answered when the session has ended
     */
    record Close(long op) implements Event {}

    /**
     * A frame has arrived.
     *
     * @param stream the stream
     * @param frame the frame
     */
    record Frame(long stream, SessionResponse frame) implements Event {}

    /**
     * A stream has ended, or could not be opened.
     *
     * @param stream the stream
     * @param failure why, or null if the coordinator ended it without an error
     */
    record StreamEnded(long stream, Failure failure) implements Event {}

    /** Time has passed. */
    record Tick() implements Event {}
}
