package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import io.lockkeeper.internal.Protos;
import io.lockkeeper.v1.AcquireAllRequest;
import io.lockkeeper.v1.AcquireRequest;
import io.lockkeeper.v1.LockSpec;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.TryAcquireAllRequest;
import io.lockkeeper.v1.TryAcquireRequest;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
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
    private final String owners = UUID.randomUUID().toString().substring(0, 8);
    private final AtomicLong lastOwner = new AtomicLong();

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

    /** The session; a new one if the end of the last was reported. */
    synchronized Session session() {
        if (isClosed) {
            throw new SessionEndedException("the client was closed");
        }
        if (session == null || session.isOver()) {
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
     * @param options how to acquire; the wait limit has no meaning
     * @return the lock, or nothing if it has another holder
     * @throws InterruptedException if the thread is interrupted; the lock is not held then
     */
    public Optional<Grant> tryAcquire(String name, AcquireOptions options)
            throws InterruptedException {
        return tried(beginTry(name, options, false));
    }

    /**
     * Acquires a lock if it is free, without blocking.
     *
     * @param name the name
     * @param options how to acquire; the wait limit has no meaning
     * @return completes as {@link #tryAcquire(String, AcquireOptions)} returns or throws
     */
    public CompletableFuture<Optional<Grant>> tryAcquireAsync(
            String name, AcquireOptions options) {
        return beginTry(name, options, true)
                .handle(
                        (grant, thrown) -> {
                            if (thrown instanceof NotGrantedException) {
                                return CompletableFuture.<Optional<Grant>>completedFuture(
                                        Optional.empty());
                            }
                            return thrown == null
                                    ? CompletableFuture.completedFuture(Optional.of(grant))
                                    : CompletableFuture.<Optional<Grant>>failedFuture(thrown);
                        })
                .thenCompose(result -> result);
    }

    Call<Grant> begin(String name, AcquireOptions options, boolean isAsync) {
        return begin(name, options, isAsync, Grant::new);
    }

    <T extends Held> Call<T> begin(
            String name,
            AcquireOptions options,
            boolean isAsync,
            BiFunction<Session, Effect.Granted, T> held) {
        AcquireRequest.Builder request = AcquireRequest.newBuilder().setName(name);
        request.setMode(options.mode().proto()).setOwner(owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        request.setEndOnDeadlock(options.endsOnDeadlock());
        lease(options).ifPresent(request::setLease);
        holdAtLeast(options).ifPresent(request::setHoldAtLeast);
        options.note().ifPresent(request::setNote);
        SessionRequest frame = SessionRequest.newBuilder().setAcquire(request).build();
        Session current = session();
        return current.acquire(frame, options, isAsync, it -> held.apply(current, it));
    }

    Call<Grant> beginTry(String name, AcquireOptions options, boolean isAsync) {
        TryAcquireRequest.Builder request = TryAcquireRequest.newBuilder().setName(name);
        request.setMode(options.mode().proto()).setOwner(owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        lease(options).ifPresent(request::setLease);
        holdAtLeast(options).ifPresent(request::setHoldAtLeast);
        options.note().ifPresent(request::setNote);
        SessionRequest frame = SessionRequest.newBuilder().setTryAcquire(request).build();
        Session current = session();
        return current.acquire(frame, options, isAsync, it -> new Grant(current, it));
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
     * @param options how to acquire; the wait limit has no meaning
     * @return the locks, or nothing if one of them has another holder
     * @throws InterruptedException if the thread is interrupted; no lock is held then
     */
    public Optional<Grants> tryAcquireAll(Collection<String> names, AcquireOptions options)
            throws InterruptedException {
        TryAcquireAllRequest.Builder request = TryAcquireAllRequest.newBuilder();
        request.addAllLocks(specs(names, options)).setOwner(owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        lease(options).ifPresent(request::setLease);
        options.note().ifPresent(request::setNote);
        SessionRequest frame = SessionRequest.newBuilder().setTryAcquireAll(request).build();
        Session current = session();
        return tried(current.acquire(frame, options, false, it -> new Grants(current, it)));
    }

    private Call<Grants> beginAll(
            Collection<String> names, AcquireOptions options, boolean isAsync) {
        AcquireAllRequest.Builder request = AcquireAllRequest.newBuilder();
        request.addAllLocks(specs(names, options)).setOwner(owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        request.setEndOnDeadlock(options.endsOnDeadlock());
        lease(options).ifPresent(request::setLease);
        options.note().ifPresent(request::setNote);
        SessionRequest frame = SessionRequest.newBuilder().setAcquireAll(request).build();
        Session current = session();
        return current.acquire(frame, options, isAsync, it -> new Grants(current, it));
    }

    private static List<LockSpec> specs(Collection<String> names, AcquireOptions options) {
        options.refuseHoldAtLeast();
        LockSpec.Builder spec = LockSpec.newBuilder().setMode(options.mode().proto());
        return names.stream().map(name -> spec.setName(name).build()).toList();
    }

    // --- what several kinds share

    /** By default each acquire has an owner of its own, so two tasks exclude each other. */
    String owner(AcquireOptions options) {
        return options.owner() != null ? options.owner() : newOwner();
    }

    String newOwner() {
        return owners + "-" + lastOwner.incrementAndGet();
    }

    static Optional<com.google.protobuf.Duration> lease(AcquireOptions options) {
        return Optional.ofNullable(options.lease()).map(Protos::toProto);
    }

    private static Optional<com.google.protobuf.Duration> holdAtLeast(AcquireOptions options) {
        return Optional.ofNullable(options.holdAtLeast()).map(Protos::toProto);
    }

    static <T> Optional<T> tried(Call<T> call) throws InterruptedException {
        try {
            return Optional.of(call.await());
        } catch (NotGrantedException busy) {
            return Optional.empty();
        }
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
