package io.lockkeeper.shedlock;

import io.lockkeeper.AcquireOptions;
import io.lockkeeper.Grant;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.Loss;
import io.lockkeeper.SessionlessLocks;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;

/**
 * Locks of ShedLock. {@code lockAtMostFor} is the lease of the lock {@code NAME}. {@code
 * lockAtLeastFor} is the lease of a second lock, {@code NAME:at-least}, which no session holds and
 * which is never released: it ends with its lease, also if this process crashes or stops.
 *
 * <p>A loss is never silent: the thread that runs the task is interrupted, a warning is logged,
 * {@link #lossCount} grows, the listener is called, and {@code unlock} throws a {@link
 * io.lockkeeper.LockLostException}. A task that runs for longer than {@code lockAtMostFor} has lost
 * its lock.
 */
public final class LockkeeperLockProvider implements ExtensibleLockProvider {

    private static final String AT_LEAST = ":at-least";

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
        Optional<Grant> grant = client.tryAcquire(name, options);
        if (grant.isEmpty()) {
            return Optional.empty();
        }
        AtLeast atLeast = new AtLeast(client.withoutSession(), name + AT_LEAST);
        boolean isFree = false;
        try {
            // Without a minimum of its own a task still respects that of the last one.
            isFree = atLeast.begin(configuration.getLockAtLeastFor());
        } finally {
            if (!isFree) {
                grant.get().close();
            }
        }
        return isFree
                ? Optional.of(new LockkeeperSimpleLock(configuration, grant.get(), atLeast, this))
                : Optional.empty();
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

    void onLost(Loss loss) {
        losses.incrementAndGet();
        listener.accept(loss);
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

    /** The lock that keeps {@code lockAtLeastFor}. */
    static final class AtLeast {
        private final SessionlessLocks locks;
        private final String name;
        private final String owner = UUID.randomUUID().toString();

        AtLeast(SessionlessLocks locks, String name) {
            this.locks = locks;
            this.name = name;
        }

        /** Whether the minimum of the last task is over; that of this one begins then. */
        boolean begin(Duration minimum) throws InterruptedException {
            if (minimum.isZero()) {
                return locks.describe(name).getHolderCount() == 0;
            }
            return locks.tryAcquire(name, owner, lease(minimum)).isPresent();
        }

        /** Prolongs it, also if it is over: the task still holds its own lock. */
        void extend(Duration minimum) throws InterruptedException {
            if (!minimum.isZero()) {
                locks.tryAcquire(name, owner, lease(minimum));
            }
        }
    }
}
