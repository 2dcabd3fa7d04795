package io.lockkeeper;

import io.lockkeeper.internal.Protos;
import io.lockkeeper.v1.YieldRequested;
import java.time.Duration;

/**
 * A request of another caller to release a lock. See {@link Held#onYieldRequested}.
 *
 * @param name the lock
 * @param by who asks, for people; may be empty
 * @param reason why, for people
 * @param within how long the request stands, counted from when it was reported
 * @param preempts whether the lock is taken away then
 */
public record YieldRequest(
        String name, String by, String reason, Duration within, boolean preempts) {

    static YieldRequest of(YieldRequested it) {
        String name = it.getGrant().getName();
        Duration within = Protos.toDuration(it.getWithin());
        return new YieldRequest(name, it.getBy(), it.getReason(), within, it.getPreempt());
    }
}
