package io.lockkeeper;

import io.lockkeeper.v1.Holder;
import io.lockkeeper.v1.RequestYieldResponse;
import java.util.List;

/**
 * Which holders have a request to yield. See {@link SessionlessLocks#requestYield}.
 *
 * @param holderCount the number of holders; 0 if the lock is free
 * @param reachedCount the number of holders that have the request
 * @param reached the holders that have it, at most 100; empty without the right {@code describe}
 * @param unreached those of the first 100 holders that do not, such as Redisson clients; empty
 *     without that right
 */
public record YieldAnswer(
        int holderCount, int reachedCount, List<Holder> reached, List<Holder> unreached) {

    static YieldAnswer of(RequestYieldResponse it) {
        return new YieldAnswer(
                it.getHolderCount(),
                it.getReachedCount4(),
                it.getReached1List(),
                it.getUnreachedList());
    }
}
