package io.lockkeeper.shedlock;

import io.lockkeeper.AcquireOptions;
import io.lockkeeper.Grant;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.Loss;
import io.lockkeeper.LossWatch;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;

/**
 * Locks of ShedLock. {@code lockAtMostFor} is the lease of the lock, and {@code lockAtLeastFor} the
 * time for which the coordinator keeps it held, also after {@code unlock} and if this process
 * crashes or stops. A quorum of stores refuses tasks with a {@code lockAtLeastFor}.
 *
 * <p>An extension cannot change how long the coordinator keeps the lock. If it has a {@code
 * lockAtLeastFor}, {@code unlock} releases the lock when that is over. Closing the client releases
 * it earlier.
 *
 * <p>A loss is never silent: the thread that runs the task is interrupted, a warning is logged,
 * {@link #lossCount} grows, the listener is called, and {@code unlock} throws a {@link
 * io.lockkeeper.LockLostException}. A task that runs for longer than {@code lockAtMostFor} has lost
 * its lock.
 */
public final class LockkeeperLockProvider implements ExtensibleLockProvider {

    /** Coordinators accept no shorter lease. */
    private static final Duration LEASE_MIN = Duration.ofMillis(100);

    private final Lockkeeper client;
    private final String prefix;
    private final Consumer<Loss> listener;
    private final AtomicLong losses = new AtomicLong();

    /**
     * A provider without a listener.
     *
     * @param client the client, which the provider does not close
     * @param prefix precedes the name of every task in the name of its lock, such as {@code jobs:}
     */
    public LockkeeperLockProvider(Lockkeeper client, String prefix) {
        this(client, prefix, loss -> {});
    }

    /**
     * A provider with a listener.
     *
     * @param client the client, which the provider does not close
     * @param prefix precedes the name of every task in the name of its lock, such as {@code jobs:}
     * @param listener called with every loss, on the executor of the client
     */
    public LockkeeperLockProvider(Lockkeeper client, String prefix, Consumer<Loss> listener) {
        this.client = Objects.requireNonNull(client);
        this.prefix = Objects.requireNonNull(prefix);
        this.listener = Objects.requireNonNull(listener);
    }

    /**
     * Acquires the lock of a task if it is free; never waits.
     *
     * @param configuration the name and the times
     * @return the lock; empty if it has another holder, or was released before its {@code
     *     lockAtLeastFor} has passed
     * @throws io.lockkeeper.LockkeeperException if the coordinator cannot be reached or refuses;
     *     the task does not run then
     */
    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        return uninterrupted(() -> tryLock(configuration));
    }

    private Optional<SimpleLock> tryLock(LockConfiguration configuration)
            throws InterruptedException {
        String name = prefix + configuration.getName();
        AcquireOptions options =
                AcquireOptions.defaults().lease(lease(configuration.getLockAtMostFor()));
        Duration atLeast = configuration.getLockAtLeastFor();
        if (!atLeast.isZero()) {
            options = options.holdAtLeast(lease(atLeast));
        }
        return client.tryAcquire(name, options)
                .map(grant -> new LockkeeperSimpleLock(configuration, grant, watch(grant)));
    }

    private LossWatch watch(Grant grant) {
        return LossWatch.ofCurrentThread(grant, losses, listener);
    }

    static Duration lease(Duration asked) {
        return asked.compareTo(LEASE_MIN) < 0 ? LEASE_MIN : asked;
    }

    /**
     * The number of losses so far, for metrics.
     *
     * @return the number
     */
    public long lossCount() {
        return losses.get();
    }

    /** What may be interrupted; ShedLock's methods may not. */
    interface Interruptible<T> {
        T call() throws InterruptedException;
    }

    static <T> T uninterrupted(Interruptible<T> call) {
        try {
            return call.call();
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", interrupt);
        }
    }
}
