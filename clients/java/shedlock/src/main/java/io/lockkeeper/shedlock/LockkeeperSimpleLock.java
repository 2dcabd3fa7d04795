package io.lockkeeper.shedlock;

import io.lockkeeper.Grant;
import io.lockkeeper.LockLostException;
import io.lockkeeper.LossWatch;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;

/** The lock of a running task. */
final class LockkeeperSimpleLock extends AbstractSimpleLock {

    private final Grant grant;
    private final LossWatch watch;

    /** Of an extension, whose minimum the coordinator does not know. */
    private final boolean isExtended;

    LockkeeperSimpleLock(
            LockConfiguration configuration, Grant grant, LossWatch watch) {
        super(configuration);
        this.grant = grant;
        this.watch = watch;
        isExtended = false;
    }

    private LockkeeperSimpleLock(LockConfiguration configuration, LockkeeperSimpleLock former) {
        super(configuration);
        grant = former.grant;
        watch = former.watch;
        isExtended = true;
    }

    @Override
    protected void doUnlock() {
        watch.close();
        Instant leastUntil = lockConfiguration.getLockAtLeastUntil();
        long left = Duration.between(ClockProvider.now(), leastUntil).toMillis();
        if (isExtended && left > 0 && !grant.isLost()) {
            // The lease is at least as long.
            CompletableFuture.delayedExecutor(left, TimeUnit.MILLISECONDS)
                    .execute(grant::releaseAsync);
        } else {
            grant.close();
        }
    }

    @Override
    protected Optional<SimpleLock> doExtend(LockConfiguration configuration) {
        return LockkeeperLockProvider.uninterrupted(
                () -> {
                    try {
                        grant.renew(LockkeeperLockProvider.lease(configuration.getLockAtMostFor()));
                    } catch (LockLostException lost) {
                        return Optional.empty();
                    }
                    return Optional.of(new LockkeeperSimpleLock(configuration, this));
                });
    }
}
