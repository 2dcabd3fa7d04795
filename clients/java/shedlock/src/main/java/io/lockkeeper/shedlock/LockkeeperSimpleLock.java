package io.lockkeeper.shedlock;

import io.lockkeeper.Grant;
import io.lockkeeper.LockLostException;
import io.lockkeeper.LossWatch;
import io.lockkeeper.shedlock.LockkeeperLockProvider.AtLeast;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;

/** The lock of a running task. */
final class LockkeeperSimpleLock extends AbstractSimpleLock {

    private final Grant grant;
    private final AtLeast atLeast;
    private final LockkeeperLockProvider provider;
    private final LossWatch watch;

    LockkeeperSimpleLock(
            LockConfiguration configuration,
            Grant grant,
            AtLeast atLeast,
            LockkeeperLockProvider provider) {
        super(configuration);
        this.grant = grant;
        this.atLeast = atLeast;
        this.provider = provider;
        watch = LossWatch.ofCurrentThread(grant, provider::onLost);
    }

    private LockkeeperSimpleLock(LockConfiguration configuration, LockkeeperSimpleLock former) {
        super(configuration);
        grant = former.grant;
        atLeast = former.atLeast;
        provider = former.provider;
        watch = former.watch;
    }

    @Override
    protected void doUnlock() {
        watch.close();
        grant.close();
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
                    atLeast.extend(configuration.getLockAtLeastFor());
                    return Optional.of(new LockkeeperSimpleLock(configuration, this));
                });
    }
}
