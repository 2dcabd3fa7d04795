package io.lockkeeper;

import io.lockkeeper.v1.Leadership;

/**
 * The leader of an election, and a value that it has proclaimed.
 *
 * @param term the term, which increases with every leader; an unsigned number
 * @param value the value
 * @param revision the number of the value in the record of the election: 1 more than that of the
 *     value before it
 * @param owner the leader within its session
 * @param clientName the name that the leader's client gave
 * @param sessionDigest a digest of the leader's session
 */
public record Leader(
        long term,
        String value,
        long revision,
        String owner,
        String clientName,
        String sessionDigest) {

    static Leader of(Leadership it) {
        return new Leader(
                it.getTerm(),
                it.getValue(),
                it.getRevision(),
                it.getOwner(),
                it.getClientName(),
                it.getSessionDigest());
    }
}
