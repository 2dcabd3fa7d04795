package io.lockkeeper;

import io.lockkeeper.v1.ObserveResponse;
import java.util.Optional;

/**
 * What an observer of an election sees. See {@link Election#observe}.
 *
 * @param kind what has happened
 * @param leader the leader; only of {@link Kind#LEADER}
 */
public record ElectionEvent(Kind kind, Optional<Leader> leader) {

    /** What has happened. */
    public enum Kind {
        /** A term or a new value. The leader may have ended already; then another event follows. */
        LEADER,
        /** There is no leader, or it has proclaimed no value yet. */
        NO_LEADER,
        /** Terms or values were missed before the next one. */
        MISSED
    }

    static final ElectionEvent MISSED = of(Kind.MISSED, null);

    /** Empty if a newer coordinator says something else. */
    static Optional<ElectionEvent> of(ObserveResponse seen) {
        return switch (seen.getEventCase()) {
            case LEADER -> Optional.of(of(Kind.LEADER, Leader.of(seen.getLeader())));
            case NO_LEADER -> Optional.of(of(Kind.NO_LEADER, null));
            case MISSED -> Optional.of(MISSED);
            case EVENT_NOT_SET -> Optional.empty();
        };
    }

    private static ElectionEvent of(Kind kind, Leader leader) {
        return new ElectionEvent(kind, Optional.ofNullable(leader));
    }
}
