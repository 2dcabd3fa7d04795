package io.lockkeeper;

import io.lockkeeper.v1.Note;
import java.time.Duration;
import java.util.Optional;

/**
 * A change of a session, for logs and metrics. See {@link LockkeeperBuilder#onSessionEvent}.
 *
 * @param kind what has happened
 * @param detail the cause, or the name that is waited or asked for; may be empty
 * @param remaining the time until a grant is lost ({@link Kind#AT_RISK}), the remaining lease of
 *     the holder ({@link Kind#WAITING}), or how long the request stands ({@link
 *     Kind#YIELD_REQUESTED})
 * @param holderNote why the holder holds the lock ({@link Kind#WAITING}); empty if it gave no note
 */
public record SessionEvent(
        Kind kind, String detail, Optional<Duration> remaining, Optional<Note> holderNote) {

    /** What has happened. */
    public enum Kind {
        /** The session is open. */
        OPENED,
        /** The stream broke; the session is being resumed. */
        BROKEN,
        /** The session was resumed. */
        RESUMED,
        /** The coordinator's renewals fail. Do not start long work: a loss may follow. */
        AT_RISK,
        /** The coordinator's renewals succeed again. */
        RECOVERED,
        /** An acquire waits; repeated when its state changes. */
        WAITING,
        /** Another caller asks for a lock that is held, see {@link Held#onYieldRequested}. */
        YIELD_REQUESTED,
        /** The session is over, and everything in it is lost. */
        ENDED
    }
}
