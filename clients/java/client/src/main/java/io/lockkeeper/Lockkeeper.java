package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import java.time.Duration;
import java.util.Collection;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import java.util.function.BiFunction;
import java.util.function.Supplier;

/**
 * A client of Lockkeeper. All of its locks share one session, which is opened by the first acquire,
 * renews what is held, and is resumed at the next endpoint if its stream breaks. If the session
 * ends, everything in it is reported lost, and the next acquire opens a new one.
 *
 * <p>A client is safe for use by several threads. {@link #close} releases everything.
 */
public final class Lockkeeper implements AutoCloseable {

    private final Supplier<Session> sessions;
    private final SessionlessLocks sessionless;
    private final Runnable release;
    private final ThreadLocks threadLocks = new ThreadLocks(this);
    private final Frames frames = new Frames();

    private Session session;
    private boolean isClosed;

    Lockkeeper(Supplier<Session> sessions, SessionlessLocks sessionless, Runnable release) {
        this.sessions = sessions;
        this.sessionless = sessionless;
        this.release = release;
    }

    /**
     * A client with default settings. It connects when it is first used.
     *
     * @param endpoints the coordinators of one store: {@code http://HOST:PORT}, {@code
     *     https://HOST:PORT}, {@code unix:///PATH} (on Linux), or {@code HOST:PORT}, which means
     *     {@code http://}
     * @return the client
     * @throws MisconfiguredException if an address cannot be used
     */
    public static Lockkeeper connect(String... endpoints) {
        return builder().endpoints(endpoints).connect();
    }

    /**
     * A client with other settings.
     *
     * @return its builder
     */
    public static LockkeeperBuilder builder() {
        return new LockkeeperBuilder();
    }

    /**
     * Opens the session now and not with the first acquire, which reports a wrong address early.
     *
     * @return this client
     * @throws UnreachableException if no coordinator answers within 6 s
     * @throws RefusedException if a coordinator refuses
     * @throws InterruptedException if the thread is interrupted
     */
    public Lockkeeper open() throws InterruptedException {
        session().awaitOpen();
        return this;
    }

    /** The session; a new one if the last is over, also for those who just learn of that. */
    synchronized Session session() {
        if (isClosed) {
            throw new SessionEndedException("the client was closed");
        }
        if (session == null || session.hasEnded()) {
            session = sessions.get();
        }
        return session;
    }

    // --- locks

    /**
     * A lock of {@code java.util.concurrent}, held by threads. Two of the same name are the same
     * lock.
     *
     * @param name the name
     * @return the lock
     */
    public LockkeeperLock lock(String name) {
        return lock(name, AcquireOptions.defaults());
    }

    /**
     * A lock of {@code java.util.concurrent}, held by threads.
     *
     * @param name the name
     * @param options how to acquire: the mode, the lease, the replicas; the wait limit is that of
     *     {@link Lock#lock()}, which throws {@link NotGrantedException} when it passes
     * @return the lock
     * @throws MisconfiguredException if the options name an owner
     */
    public LockkeeperLock lock(String name, AcquireOptions options) {
        return new LockkeeperLock(threadLocks, name, options);
    }

    /**
     * A read/write lock of {@code java.util.concurrent}, held by threads. A writer can also read; a
     * reader must release its read lock before it writes ({@code SELF_DEADLOCK}).
     *
     * @param name the name
     * @return the lock
     */
    public ReadWriteLock readWriteLock(String name) {
        return new ThreadLocks.ReadWrite(
                lock(name, AcquireOptions.defaults().mode(LockMode.READ)),
                lock(name, AcquireOptions.defaults().mode(LockMode.WRITE)));
    }

    // --- grants

    /**
     * Waits for an exclusive lock without a limit. Each acquire excludes all others, also those of
     * the same thread.
     *
     * @param name the name
     * @return the lock; close it to release
     * @throws UnreachableException if no coordinator answers within 6 s
     * @throws RefusedException if the coordinator refuses
     * @throws SessionEndedException if the session ends meanwhile
     * @throws InterruptedException if the thread is interrupted; the lock is not held then
     */
    public Grant acquire(String name) throws InterruptedException {
        return acquire(name, AcquireOptions.defaults());
    }

    /**
     * Waits for a lock.
     *
     * @param name the name
     * @param options how to acquire
     * @return the lock; close it to release
     * @throws NotGrantedException if the wait limit passes
     * @throws UnreachableException if no coordinator answers within 6 s
     * @throws RefusedException if the coordinator refuses
     * @throws SessionEndedException if the session ends meanwhile
     * @throws InterruptedException if the thread is interrupted; the lock is not held then
     */
    public Grant acquire(String name, AcquireOptions options) throws InterruptedException {
        return begin(name, options, false).await();
    }

    /**
     * Waits for a lock without blocking. Cancelling the future gives up, and a late grant is
     * released.
     *
     * @param name the name
     * @param options how to acquire
     * @return completes as {@link #acquire(String, AcquireOptions)} returns or throws
     */
    public CompletableFuture<Grant> acquireAsync(String name, AcquireOptions options) {
        return begin(name, options, true);
    }

    /**
     * Acquires an exclusive lock if it is free.
     *
     * @param name the name
     * @return the lock, or nothing if it has another holder
     * @throws InterruptedException if the thread is interrupted; the lock is not held then
     */
    public Optional<Grant> tryAcquire(String name) throws InterruptedException {
        return tryAcquire(name, AcquireOptions.defaults());
    }

    /**
     * Acquires a lock if it is free. Fails as {@link #acquire(String, AcquireOptions)} does.
     *
     * @param name the name
     * @param options how to acquire; the wait limit, by default 6 s, is for a silent coordinator
     * @return the lock, or nothing if it has another holder
     * @throws InterruptedException if the thread is interrupted; the lock is not held then
     */
    public Optional<Grant> tryAcquire(String name, AcquireOptions options)
            throws InterruptedException {
        return beginTry(name, options, false).tried();
    }

    /**
     * Acquires a lock if it is free, without blocking.
     *
     * @param name the name
     * @param options how to acquire; the wait limit holds while no coordinator answers
     * @return completes as {@link #tryAcquire(String, AcquireOptions)} returns or throws
     */
    public CompletableFuture<Optional<Grant>> tryAcquireAsync(
            String name, AcquireOptions options) {
        return beginTry(name, options, true).triedAsync(Held::releaseAsync);
    }

    Call<Grant> begin(String name, AcquireOptions options, boolean isAsync) {
        return begin(name, options, isAsync, Grant::new);
    }

    <T extends Held> Call<T> begin(
            String name,
            AcquireOptions options,
            boolean isAsync,
            BiFunction<Session, Effect.Granted, T> held) {
        Session current = session();
        return current.acquire(
                frames.acquire(name, options), options, isAsync, it -> held.apply(current, it));
    }

    Call<Grant> beginTry(String name, AcquireOptions options, boolean isAsync) {
        Session current = session();
        return current.acquire(
                frames.tryAcquire(name, options), options, isAsync, it -> new Grant(current, it));
    }

    // --- several locks

    /**
     * Waits for several locks, all or none, without a limit. No two such calls can deadlock.
     *
     * @param names the names
     * @return the locks; close it to release all of them
     * @throws InterruptedException if the thread is interrupted; no lock is held then
     */
    public Grants acquireAll(Collection<String> names) throws InterruptedException {
        return acquireAll(names, AcquireOptions.defaults());
    }

    /**
     * Waits for several locks, all or none. Fails as {@link #acquire(String, AcquireOptions)} does.
     *
     * @param names the names
     * @param options how to acquire; the wait limit covers the whole call
     * @return the locks; close it to release all of them
     * @throws InterruptedException if the thread is interrupted; no lock is held then
     */
    public Grants acquireAll(Collection<String> names, AcquireOptions options)
            throws InterruptedException {
        return beginAll(names, options, false).await();
    }

    /**
     * Waits for several locks without blocking. Cancelling the future gives up.
     *
     * @param names the names
     * @param options how to acquire
     * @return completes as {@link #acquireAll(Collection, AcquireOptions)} returns or throws
     */
    public CompletableFuture<Grants> acquireAllAsync(
            Collection<String> names, AcquireOptions options) {
        return beginAll(names, options, true);
    }

    /**
     * Acquires several locks if all of them are free, otherwise none.
     *
     * @param names the names
     * @param options how to acquire; the wait limit holds while no coordinator answers
     * @return the locks, or nothing if one of them has another holder
     * @throws InterruptedException if the thread is interrupted; no lock is held then
     */
    public Optional<Grants> tryAcquireAll(Collection<String> names, AcquireOptions options)
            throws InterruptedException {
        SessionRequest request = frames.tryAcquireAll(names, options);
        Session current = session();
        return current.acquire(request, options, false, it -> new Grants(current, it)).tried();
    }

    private Call<Grants> beginAll(
            Collection<String> names, AcquireOptions options, boolean isAsync) {
        SessionRequest frame = frames.acquireAll(names, options);
        Session current = session();
        return current.acquire(frame, options, isAsync, it -> new Grants(current, it));
    }

    // --- hand-over, and waiting for others

    /**
     * Takes over a lock that another session has {@linkplain Grant#offer offered}. At no moment is
     * the lock free; the former holder has lost it.
     *
     * @param name the name
     * @param ticket the ticket
     * @return the lock, with a new, larger fencing token; close it to release
     * @throws RefusedException if the ticket cannot be claimed: {@code TICKET_REFUSED}, with the
     *     {@code state} that says why in its metadata
     * @throws UnreachableException if no coordinator answers within 6 s
     * @throws SessionEndedException if the session ends meanwhile
     * @throws InterruptedException if the thread is interrupted; the lock may be claimed then, and
     *     is released
     */
    public Grant claim(String name, String ticket) throws InterruptedException {
        return beginClaim(name, ticket, false).await();
    }

    /**
     * Takes over a lock without blocking. Cancelling the future gives up, and a late grant is
     * released.
     *
     * @param name the name
     * @param ticket the ticket
     * @return completes as {@link #claim} returns or throws
     */
    public CompletableFuture<Grant> claimAsync(String name, String ticket) {
        return beginClaim(name, ticket, true);
    }

    private Call<Grant> beginClaim(String name, String ticket, boolean isAsync) {
        Session current = session();
        return current.acquire(
                frames.claim(name, ticket),
                AcquireOptions.defaults(),
                isAsync,
                it -> new Grant(current, it));
    }

    /**
     * Waits without a limit until a lock has no holder, and acquires nothing. Any owner may hold it
     * when this returns. {@link SessionlessLocks#awaitFree(String)} needs no session.
     *
     * @param name the name
     * @throws UnreachableException if no coordinator answers within 6 s
     * @throws RefusedException if the coordinator refuses
     * @throws SessionEndedException if the session ends meanwhile
     * @throws InterruptedException if the thread is interrupted
     */
    public void awaitFree(String name) throws InterruptedException {
        beginAwaitFree(name, AcquireOptions.defaults(), false).await();
    }

    /**
     * Waits until a lock has no holder. Fails as {@link #awaitFree(String)} does.
     *
     * @param name the name
     * @param waitLimit the maximum time to wait; zero checks once
     * @return whether the lock was free
     * @throws MisconfiguredException if the limit is negative
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean awaitFree(String name, Duration waitLimit) throws InterruptedException {
        try {
            beginAwaitFree(name, AcquireOptions.defaults().waitLimit(waitLimit), false).await();
            return true;
        } catch (NotGrantedException held) {
            return false;
        }
    }

    /**
     * Waits until a lock has no holder, without blocking. Cancelling the future gives up.
     *
     * @param name the name
     * @return completes as {@link #awaitFree(String)} returns or throws
     */
    public CompletableFuture<Void> awaitFreeAsync(String name) {
        return beginAwaitFree(name, AcquireOptions.defaults(), true);
    }

    private Call<Void> beginAwaitFree(String name, AcquireOptions options, boolean isAsync) {
        return session().ask(Frames.awaitFree(name), options, isAsync, answer -> null);
    }

    // --- what several kinds share

    Frames frames() {
        return frames;
    }

    SessionResponse ask(SessionRequest frame, AcquireOptions options) throws InterruptedException {
        return session().ask(frame, options, false, answer -> answer).await();
    }

    // --- the others

    /**
     * A semaphore.
     *
     * @param name the name
     * @return the semaphore
     */
    public Semaphore semaphore(String name) {
        return new Semaphore(this, name);
    }

    /**
     * A latch.
     *
     * @param name the name
     * @return the latch
     */
    public Latch latch(String name) {
        return new Latch(this, name);
    }

    /**
     * An election.
     *
     * @param name the name, which is that of its lock
     * @return the election
     */
    public Election election(String name) {
        return new Election(this, name);
    }

    /**
     * Calls without a session, for occasional use: with an owner and a lease, and without renewal.
     * They use a connection of their own.
     *
     * @return the calls
     */
    public SessionlessLocks withoutSession() {
        return sessionless;
    }

    /**
     * Ends the session, which releases everything that it holds, and waits for the coordinator's
     * confirmation. A second close does nothing.
     *
     * @throws SessionEndedException if no coordinator confirms it within 2 s; what was held is free
     *     when its lease ends
     */
    @Override
    public void close() {
        Session last;
        synchronized (this) {
            if (isClosed) {
                return;
            }
            isClosed = true;
            last = session;
        }
        sessionless.close();
        try {
            if (last != null) {
                last.close().awaitUninterruptibly();
            }
        } finally {
            release.run();
        }
    }
}
