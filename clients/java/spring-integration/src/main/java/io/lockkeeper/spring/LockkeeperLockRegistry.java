package io.lockkeeper.spring;

import io.lockkeeper.Grant;
import io.lockkeeper.LockLostException;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.LockkeeperLock;
import io.lockkeeper.Loss;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.ExpirableLockRegistry;
import org.springframework.integration.support.locks.RenewableLockRegistry;

/**
 * Locks of Spring Integration that exclude each other in all processes. They are reentrant for each
 * thread, and renewed in the background until they are unlocked, unless they are acquired for a
 * time to live.
 *
 * <p>A loss is never silent: the thread that holds the lock is interrupted, a warning is logged,
 * {@link #lossCount} grows, the listener is called, and {@code unlock} throws a {@link
 * LockLostException}.
 */
public final class LockkeeperLockRegistry
        implements ExpirableLockRegistry<DistributedLock>, RenewableLockRegistry<DistributedLock> {

    private final Lockkeeper client;
    private final String prefix;
    private final AtomicLong losses = new AtomicLong();
    private final Watches watches;

    /**
     * A registry without a listener.
     *
     * @param client the client, which the registry does not close
     * @param prefix precedes every key in the name of its lock, such as {@code orders:}
     */
    public LockkeeperLockRegistry(Lockkeeper client, String prefix) {
        this(client, prefix, loss -> {});
    }

    /**
     * A registry with a listener.
     *
     * @param client the client, which the registry does not close
     * @param prefix precedes every key in the name of its lock, such as {@code orders:}
     * @param listener called with every loss, on the executor of the client
     */
    public LockkeeperLockRegistry(Lockkeeper client, String prefix, Consumer<Loss> listener) {
        this.client = Objects.requireNonNull(client);
        this.prefix = Objects.requireNonNull(prefix);
        watches = new Watches(losses, Objects.requireNonNull(listener));
    }

    /**
     * The lock of a key. All locks of a key are the same lock.
     *
     * @param lockKey the key, a string
     * @return the lock
     * @throws IllegalArgumentException if the key is not a string
     */
    @Override
    public DistributedLock obtain(Object lockKey) {
        return new WatchedLock(lock(lockKey), watches);
    }

    private LockkeeperLock lock(Object lockKey) {
        if (lockKey instanceof String key) {
            return client.lock(prefix + key);
        }
        throw new IllegalArgumentException("the lock key must be a string: " + lockKey);
    }

    /**
     * Renews the lock of a key for its former lease. Locks without a time to live do not need it.
     *
     * @param lockKey the key
     * @throws IllegalStateException if the current thread does not hold the lock
     * @throws LockLostException if the lock was lost
     */
    @Override
    public void renewLock(Object lockKey) {
        renew(lockKey, null);
    }

    /**
     * Renews the lock of a key for a time to live.
     *
     * @param lockKey the key
     * @param ttl the time to live, counted from now; it never shortens the lease
     * @throws IllegalStateException if the current thread does not hold the lock
     * @throws LockLostException if the lock was lost
     */
    @Override
    public void renewLock(Object lockKey, Duration ttl) {
        renew(lockKey, ttl);
    }

    private void renew(Object lockKey, Duration ttl) {
        String absent = lockKey + ": not held by this thread";
        Grant grant = lock(lockKey).grant().orElseThrow(() -> new IllegalStateException(absent));
        try {
            if (ttl == null) {
                grant.renew();
            } else {
                grant.renew(ttl);
            }
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(lockKey + ": interrupted", interrupt);
        }
    }

    /**
     * Does nothing: the registry keeps nothing of locks that are not held.
     *
     * @param age has no meaning
     */
    @Override
    public void expireUnusedOlderThan(long age) {
        // See above.
    }

    /**
     * The number of losses so far, for metrics.
     *
     * @return the number
     */
    public long lossCount() {
        return losses.get();
    }
}
