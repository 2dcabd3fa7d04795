package io.lockkeeper;

import io.lockkeeper.ThreadLocks.Holds;
import io.lockkeeper.ThreadLocks.Side;
import java.time.Duration;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;

/**
 * A lock of {@code java.util.concurrent} whose owner is a thread, across all processes that use the
 * coordinator. It is reentrant. A thread that ends does not release it. All locks that a thread
 * holds have one owner, so a deadlock between threads of any processes is named as one, and {@link
 * AcquireOptions#endOnDeadlock} can end it.
 *
 * <p>A loss shows in three ways: {@link Grant#onLost} of {@link #grant}, {@link #isLost}, and a
 * {@link LockLostException} of {@link #unlock} and of every further acquire by the thread.
 *
 * <p>A thread that holds the lock and acquires it with a lease renews it for that lease, unless
 * more than that is left. Without a lease it keeps the one that it has, which may end before the
 * inner section does.
 *
 * <p>All methods that acquire fail as {@link Lockkeeper#acquire(String)} does. {@code tryLock}
 * returns false at the end of its wait, but throws {@link NotGrantedException} for {@code
 * DEADLOCK}.
 */
public final class LockkeeperLock implements Lock {

    private static final String DEADLOCK = "DEADLOCK";

    private final ThreadLocks locks;
    private final String name;
    private final AcquireOptions options;

    /** Begins to acquire for an owner. */
    private interface Begin {
        Call<Grant> with(AcquireOptions options);
    }

    /** Waits for an answer, or throws. */
    private interface Await<E extends Exception> {
        <T> T on(Call<T> call) throws E;
    }

    LockkeeperLock(ThreadLocks locks, String name, AcquireOptions options) {
        if (options.owner() != null) {
            throw new MisconfiguredException("owner: the owner of this lock is the thread");
        }
        this.locks = locks;
        this.name = Objects.requireNonNull(name);
        this.options = options;
    }

    /** Waits for the lock, and leaves the thread's interrupt as it is. */
    @Override
    public void lock() {
        acquire(options, this::begin, Call::awaitUninterruptibly);
    }

    /**
     * Waits for the lock, which is not renewed in the background.
     *
     * @param lease the lease; the lock is lost when it ends
     */
    public void lock(Duration lease) {
        acquire(options.lease(lease), this::begin, Call::awaitUninterruptibly);
    }

    @Override
    public void lockInterruptibly() throws InterruptedException {
        requireNotInterrupted();
        this.<InterruptedException>acquire(options, this::begin, Call::await);
    }

    @Override
    public boolean tryLock() {
        try {
            acquire(
                    options,
                    it -> locks.client().beginTry(name, it, false),
                    Call::awaitUninterruptibly);
            return true;
        } catch (NotGrantedException busy) {
            return false;
        }
    }

    @Override
    public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
        Duration limit = Duration.ofNanos(Math.max(0, unit.toNanos(time)));
        return tryLock(options.waitLimit(limit));
    }

    /**
     * Waits for the lock, which is not renewed in the background.
     *
     * @param waitLimit the maximum time to wait
     * @param lease the lease; the lock is lost when it ends
     * @return whether the thread holds the lock
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean tryLock(Duration waitLimit, Duration lease) throws InterruptedException {
        return tryLock(options.waitLimit(waitLimit).lease(lease));
    }

    private boolean tryLock(AcquireOptions limited) throws InterruptedException {
        requireNotInterrupted();
        try {
            this.<InterruptedException>acquire(limited, this::begin, Call::await);
            return true;
        } catch (NotGrantedException busy) {
            if (busy.reason().equals(DEADLOCK)) {
                throw busy;
            }
            return false;
        }
    }

    /** A thread that holds the lock already does not wait, so nothing else would look. */
    private static void requireNotInterrupted() throws InterruptedException {
        if (Thread.interrupted()) {
            throw new InterruptedException();
        }
    }

    private Call<Grant> begin(AcquireOptions how) {
        return locks.client().begin(name, how, false);
    }

    private <E extends Exception> void acquire(AcquireOptions how, Begin begin, Await<E> await)
            throws E {
        Holds holds = locks.current(name);
        Side side = holds.side(options.mode());
        try {
            if (side.count > 0) {
                side.grant.ensureHeld();
                extend(side.grant, how.lease(), await);
            } else {
                side.grant = await.on(begin.with(how.owner(holds.owner)));
            }
            side.count++;
        } finally {
            locks.tidy(name, holds);
        }
    }

    /** Renews a grant for a lease, unless that is null or would shorten what is left. */
    private static <E extends Exception> void extend(Grant grant, Duration lease, Await<E> await)
            throws E {
        if (lease != null && grant.validFor().compareTo(lease) < 0) {
            await.on(grant.session().renew(grant.guard(), lease, false));
        }
    }

    /**
     * Releases the lock if the thread has acquired it once, and waits until that has taken effect
     * in the store.
     *
     * @throws LockLostException if the lock was lost; the thread has one hold less then, too
     * @throws IllegalMonitorStateException if the thread does not hold the lock
     */
    @Override
    public void unlock() {
        Holds holds = locks.current(name);
        Side side = holds.side(options.mode());
        try {
            if (side.count == 0) {
                throw new IllegalMonitorStateException(name + ": not held by this thread");
            }
            side.count--;
            if (side.count == 0) {
                side.grant.close();
            } else {
                side.grant.ensureHeld();
            }
        } finally {
            locks.tidy(name, holds);
        }
    }

    /** Not supported: a coordinator has no conditions. */
    @Override
    public Condition newCondition() {
        throw new UnsupportedOperationException("a distributed lock has no conditions");
    }

    /**
     * What the current thread holds, with its fencing token, its validity and its loss. Release it
     * by {@link #unlock}, not by closing it.
     *
     * @return the grant; empty if the thread does not hold the lock
     */
    public Optional<Grant> grant() {
        Holds holds = locks.current(name);
        Side side = holds.side(options.mode());
        locks.tidy(name, holds);
        return side.count == 0 ? Optional.empty() : Optional.of(side.grant);
    }

    /**
     * How often the current thread has acquired the lock and not released it.
     *
     * @return the number of holds; 0 if the thread does not hold the lock
     */
    public int holdCount() {
        Holds holds = locks.current(name);
        int count = holds.side(options.mode()).count;
        locks.tidy(name, holds);
        return count;
    }

    /**
     * The fencing token of what the current thread holds. See {@link Grant#fencingToken}.
     *
     * @return the token; an unsigned number
     * @throws IllegalMonitorStateException if the thread does not hold the lock
     */
    public long fencingToken() {
        return grant().orElseThrow(this::notHeld).fencingToken();
    }

    /**
     * Whether the current thread has acquired the lock and lost it since.
     *
     * @return whether it is lost
     */
    public boolean isLost() {
        return grant().map(Grant::isLost).orElse(false);
    }

    /**
     * Whether the current thread has acquired the lock and not lost it since.
     *
     * @return whether it holds the lock
     */
    public boolean isHeldByCurrentThread() {
        return grant().map(it -> !it.isLost()).orElse(false);
    }

    private IllegalMonitorStateException notHeld() {
        return new IllegalMonitorStateException(name + ": not held by this thread");
    }

    @Override
    public String toString() {
        return "LockkeeperLock[" + name + "]";
    }
}
