package io.lockkeeper.internal;

import io.lockkeeper.v1.Note;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.YieldRequested;
import java.time.Duration;
import java.util.List;

/** What follows from an event. */
public sealed interface Effect {

    /**
     * Connect and send a first frame. The stream's end is reported whatever comes of it.
     *
     * @param stream the new stream
     * @param endpoint the index of the endpoint
     * @param first the first frame
     */
    record Connect(long stream, int endpoint, SessionRequest first) implements Effect {}

    /**
     * Send a frame.
     *
     * @param stream the stream
     * @param frame the frame
     */
    record Send(long stream, SessionRequest frame) implements Effect {}

    /**
     * Drop a stream; nothing that arrives on it matters any more.
     *
     * @param stream the stream
     */
    record Cancel(long stream) implements Effect {}

    /**
     * An operation has acquired something.
     *
     * @param op the operation
     * @param guard the new guard
     * @param holdings its grants
     * @param validUntil until when all of them are certainly held unless they are renewed
     */
    record Granted(long op, long guard, List<Holding> holdings, long validUntil)
            implements Effect {}

    /**
     * An operation has ended with an answer.
     *
     * @param op the operation
     * @param answer the answer
     */
    record Answered(long op, SessionResponse answer) implements Effect {}

    /**
     * A release, a renewal or the end of the session has succeeded.
     *
     * @param op the operation
     */
    record Done(long op) implements Effect {}

    /**
     * An operation has failed.
     *
     * @param op the operation
     * @param failure why
     */
    record Failed(long op, Failure failure) implements Effect {}

    /**
     * A guard's grants were renewed.
     *
     * @param guard the guard
     * @param validUntil until when all of them are certainly held unless they are renewed
     */
    record Valid(long guard, long validUntil) implements Effect {}

    /**
     * A guard has lost a grant. Reported once for each guard.
     *
     * @param guard the guard
     * @param loss the loss
     */
    record Lost(long guard, Failure.Lost loss) implements Effect {}

    /**
     * Another caller asks for a grant of a guard.
     *
     * @param guard the guard
     * @param request the request
     * @param until until when it stands
     */
    record Asked(long guard, YieldRequested request, long until) implements Effect {}

    /**
     * The state of the session has changed, an operation waits, or a grant is asked for.
     *
     * @param kind what has happened
     * @param detail the cause, or the name that is waited or asked for
     * @param remaining what is left until a loss, of the holder's lease, or of the request; null if
     *     unknown
     * @param holderNote the note of the holder that is waited for; null if it gave none
     */
    record Notice(Kind kind, String detail, Duration remaining, Note holderNote)
            implements Effect {

        Notice(Kind kind, String detail, Duration remaining) {
            this(kind, detail, remaining, null);
        }
    }

    /** The kinds of notices. */
    enum Kind {
        /** The session is open. */
        OPENED,
        /** The stream broke. */
        BROKEN,
        /** The session was resumed. */
        RESUMED,
        /** Renewals fail. */
        AT_RISK,
        /** Renewals succeed again. */
        RECOVERED,
        /** An operation waits. */
        WAITING,
        /** Another caller asks for a grant. */
        YIELD_REQUESTED,
        /** The session is over. */
        ENDED
    }
}
