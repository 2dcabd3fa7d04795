package io.lockkeeper.spring;

import io.lockkeeper.Grant;
import io.lockkeeper.LockkeeperLock;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;

/** A lock whose loss interrupts its thread. */
final class WatchedLock implements DistributedLock {

    private final LockkeeperLock lock;
    private final Watches watches;

    WatchedLock(LockkeeperLock lock, Watches watches) {
        this.lock = lock;
        this.watches = watches;
    }

    private boolean watched(boolean isHeld) {
        if (isHeld) {
            lock.grant().ifPresent(watches::watch);
        }
        return isHeld;
    }

    @Override
    public void lock() {
        lock.lock();
        watched(true);
    }

    @Override
    public void lock(Duration ttl) {
        lock.lock(ttl);
        watched(true);
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        lock.lockInterruptibly();
        watched(true);
    }

    @Override
    public boolean tryLock() {
        return watched(lock.tryLock());
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        return watched(lock.tryLock(time, unit));
    }

    @Override
    public boolean tryLock(Duration waitTime, Duration ttl) throws InterruptedException {
        return watched(lock.tryLock(waitTime, ttl));
    }

    @Override
    public void unlock() {
        Optional<Grant> grant = lock.grant();
        boolean isLast = lock.holdCount() == 1;
        if (isLast) {
            grant.ifPresent(watches::end);
        }
        lock.unlock();
    }

    @Override
    public Condition newCondition() {
        return lock.newCondition();
    }

    @Override
    public String toString() {
        return lock.toString();
    }
}
