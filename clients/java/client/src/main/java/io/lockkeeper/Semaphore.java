package io.lockkeeper;

import io.lockkeeper.v1.AcquirePermitsRequest;
import io.lockkeeper.v1.DescribeSemaphoreRequest;
import io.lockkeeper.v1.DescribeSemaphoreResponse;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.SetPermitsRequest;
import io.lockkeeper.v1.TryAcquirePermitsRequest;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;

/**
 * A semaphore: a number of permits that clients share. The permits of a client that crashes are
 * free again when its lease ends. All methods fail as {@link Lockkeeper#acquire(String)} does.
 */
public final class Semaphore {

    private final Lockkeeper client;
    private final String name;

    Semaphore(Lockkeeper client, String name) {
        this.client = client;
        this.name = name;
    }

    /**
     * Waits for one permit.
     *
     * @return the permit
     * @throws InterruptedException if the thread is interrupted; no permit is held then
     */
    public Permits acquire() throws InterruptedException {
        return acquire(1, AcquireOptions.defaults());
    }

    /**
     * Waits for permits, all or none.
     *
     * @param permits how many
     * @return the permits
     * @throws InterruptedException if the thread is interrupted; no permit is held then
     */
    public Permits acquire(int permits) throws InterruptedException {
        return acquire(permits, AcquireOptions.defaults());
    }

    /**
     * Waits for permits, all or none.
     *
     * @param permits how many
     * @param options how to acquire; the mode has no meaning
     * @return the permits
     * @throws NotGrantedException if the wait limit passes
     * @throws InterruptedException if the thread is interrupted; no permit is held then
     */
    public Permits acquire(int permits, AcquireOptions options) throws InterruptedException {
        return begin(permits, options, false).await();
    }

    /**
     * Waits for permits without blocking. Cancelling the future gives up.
     *
     * @param permits how many
     * @param options how to acquire; the mode has no meaning
     * @return completes as {@link #acquire(int, AcquireOptions)} returns or throws
     */
    public CompletableFuture<Permits> acquireAsync(int permits, AcquireOptions options) {
        return begin(permits, options, true);
    }

    /**
     * Acquires permits if enough are free now.
     *
     * @param permits how many
     * @return the permits, or nothing if too few are free
     * @throws InterruptedException if the thread is interrupted; no permit is held then
     */
    public Optional<Permits> tryAcquire(int permits) throws InterruptedException {
        return tryAcquire(permits, AcquireOptions.defaults());
    }

    /**
     * Acquires permits if enough are free now.
     *
     * @param permits how many
     * @param options how to acquire; the mode and the wait limit have no meaning
     * @return the permits, or nothing if too few are free
     * @throws InterruptedException if the thread is interrupted; no permit is held then
     */
    public Optional<Permits> tryAcquire(int permits, AcquireOptions options)
            throws InterruptedException {
        options.refuseWhatNeedsOneLock();
        TryAcquirePermitsRequest.Builder request = TryAcquirePermitsRequest.newBuilder();
        request.setName(name).setPermits(permits).setOwner(client.frames().owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        Frames.lease(options).ifPresent(request::setLease);
        SessionRequest frame =
                SessionRequest.newBuilder().setTryAcquirePermits(request).build();
        Session session = client.session();
        return session.acquire(frame, options, false, it -> new Permits(session, it)).tried();
    }

    private Call<Permits> begin(int permits, AcquireOptions options, boolean isAsync) {
        options.refuseWhatNeedsOneLock();
        AcquirePermitsRequest.Builder request = AcquirePermitsRequest.newBuilder();
        request.setName(name).setPermits(permits).setOwner(client.frames().owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        Frames.lease(options).ifPresent(request::setLease);
        SessionRequest frame = SessionRequest.newBuilder().setAcquirePermits(request).build();
        Session session = client.session();
        return session.acquire(frame, options, isAsync, it -> new Permits(session, it));
    }

    /**
     * Creates the semaphore or changes its number of permits. Held permits stay held.
     *
     * @param permits the number
     * @throws InterruptedException if the thread is interrupted
     */
    public void setPermits(int permits) throws InterruptedException {
        set(permits, false);
    }

    /**
     * Creates the semaphore unless it exists.
     *
     * @param permits the number of permits of a new semaphore
     * @return the number of permits that it has
     * @throws InterruptedException if the thread is interrupted
     */
    public int createIfAbsent(int permits) throws InterruptedException {
        return set(permits, true);
    }

    private int set(int permits, boolean onlyIfAbsent) throws InterruptedException {
        SetPermitsRequest.Builder request = SetPermitsRequest.newBuilder().setName(name);
        request.setPermits(permits).setOnlyIfAbsent(onlyIfAbsent);
        SessionRequest frame = SessionRequest.newBuilder().setSetPermits(request).build();
        SessionResponse answer = client.ask(frame, AcquireOptions.defaults());
        return answer.getPermitsSet().getTotal();
    }

    /**
     * The permits, the holders and the waiters at the moment the store was read.
     *
     * @return the state of the semaphore
     * @throws InterruptedException if the thread is interrupted
     */
    public DescribeSemaphoreResponse describe() throws InterruptedException {
        DescribeSemaphoreRequest.Builder request =
                DescribeSemaphoreRequest.newBuilder().setName(name);
        SessionRequest frame = SessionRequest.newBuilder().setDescribeSemaphore(request).build();
        return client.ask(frame, AcquireOptions.defaults()).getSemaphoreDescribed();
    }
}
