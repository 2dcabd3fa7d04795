package io.lockkeeper;

import io.lockkeeper.internal.Protos;
import io.lockkeeper.v1.CheckTokenRequest;
import io.lockkeeper.v1.CheckTokenResponse;
import io.lockkeeper.v1.DescribeRequest;
import io.lockkeeper.v1.DescribeResponse;
import io.lockkeeper.v1.ExplainRequest;
import io.lockkeeper.v1.ExplainResponse;
import io.lockkeeper.v1.ForceReleaseRequest;
import io.lockkeeper.v1.ForceReleaseResponse;
import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.LockAdminServiceGrpc;
import io.lockkeeper.v1.LockServiceGrpc;
import io.lockkeeper.v1.LockServiceGrpc.LockServiceBlockingStub;
import io.lockkeeper.v1.Note;
import io.lockkeeper.v1.ReleaseRequest;
import io.lockkeeper.v1.RenewRequest;
import io.lockkeeper.v1.RequestYieldRequest;
import io.lockkeeper.v1.TryAcquireRequest;
import java.time.Duration;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * Calls without a session. A lock belongs to anyone who knows its owner, and ends with its lease
 * unless it is renewed. A call that is lost on its way is retried with the same request id, at
 * each endpoint in turn.
 *
 * <p>All methods throw {@link UnreachableException} if no coordinator answers and {@link
 * RefusedException} if one refuses.
 */
public final class SessionlessLocks {

    private final Calls calls;
    private final Executor executor;
    private final String clientName;

    SessionlessLocks(Calls calls, Executor executor, String clientName) {
        this.calls = calls;
        this.executor = executor;
        this.clientName = clientName;
    }

    /**
     * Acquires an exclusive lock if it is free. The same owner can acquire it again.
     *
     * @param name the name
     * @param owner the owner, a secret of the caller such as a UUID
     * @param lease the time for which the lock is held unless it is renewed
     * @return the grant, or nothing if the lock has another holder; count its {@code valid_for}
     *     from before this call
     * @throws InterruptedException if the thread is interrupted between two attempts
     */
    public Optional<Grant> tryAcquire(String name, String owner, Duration lease)
            throws InterruptedException {
        return tryAcquire(name, owner, lease, Note.getDefaultInstance());
    }

    /**
     * Acquires an exclusive lock if it is free, and tells others why. The same owner can acquire it
     * again.
     *
     * @param name the name
     * @param owner the owner, a secret of the caller such as a UUID
     * @param lease the time for which the lock is held unless it is renewed
     * @param note the reason and the labels, for others to read
     * @return the grant, or nothing if the lock has another holder; count its {@code valid_for}
     *     from before this call
     * @throws InterruptedException if the thread is interrupted between two attempts
     */
    public Optional<Grant> tryAcquire(String name, String owner, Duration lease, Note note)
            throws InterruptedException {
        TryAcquireRequest.Builder request = TryAcquireRequest.newBuilder();
        request.setName(name).setOwner(owner).setLease(Protos.toProto(lease));
        request.setRequestId(UUID.randomUUID().toString());
        if (!note.equals(Note.getDefaultInstance())) {
            request.setNote(note);
        }
        var answer = call(stub -> stub.tryAcquire(request.build()));
        return answer.getAcquired() ? Optional.of(answer.getGrant()) : Optional.empty();
    }

    /**
     * Extends the lease, counted from now; never shortens it.
     *
     * @param name the name
     * @param owner the owner
     * @param lease the new lease
     * @return the grant; count its {@code valid_for} from before this call
     * @throws RefusedException with reason {@code NOT_OWNER} if the owner does not hold the lock
     * @throws InterruptedException if the thread is interrupted between two attempts
     */
    public Grant renew(String name, String owner, Duration lease) throws InterruptedException {
        RenewRequest request =
                RenewRequest.newBuilder()
                        .setName(name)
                        .setOwner(owner)
                        .setLease(Protos.toProto(lease))
                        .build();
        return call(stub -> stub.renew(request)).getGrant();
    }

    /**
     * Releases one hold.
     *
     * @param name the name
     * @param owner the owner
     * @throws RefusedException with reason {@code NOT_OWNER} if the owner does not hold the lock
     * @throws InterruptedException if the thread is interrupted between two attempts
     */
    public void release(String name, String owner) throws InterruptedException {
        ReleaseRequest request =
                ReleaseRequest.newBuilder()
                        .setName(name)
                        .setOwner(owner)
                        .setRequestId(UUID.randomUUID().toString())
                        .build();
        call(stub -> stub.release(request));
    }

    /**
     * The holders and the waiters of a lock at the moment the store was read.
     *
     * @param name the name
     * @return the state of the lock
     * @throws InterruptedException if the thread is interrupted between two attempts
     */
    public DescribeResponse describe(String name) throws InterruptedException {
        DescribeRequest request = DescribeRequest.newBuilder().setName(name).build();
        return call(stub -> stub.describe(request));
    }

    /**
     * Whether a fencing token belongs to the newest grant of a name, for resources that cannot
     * compare tokens. A newer grant can follow at any time.
     *
     * @param name the name
     * @param fencingToken the token that the holder presented
     * @return whether it is current
     * @throws InterruptedException if the thread is interrupted between two attempts
     */
    public CheckTokenResponse checkToken(String name, long fencingToken)
            throws InterruptedException {
        CheckTokenRequest request =
                CheckTokenRequest.newBuilder()
                        .setName(name)
                        .setFencingToken(fencingToken)
                        .build();
        return call(stub -> stub.checkToken(request));
    }

    /**
     * Releases a lock of any holders, for operators; needs the admin right. A call that is lost on
     * its way is not retried, because it could take the lock from the next holder.
     *
     * @param name the name
     * @param reason why, for the holders and for the audit log
     * @param gracePeriod how long the lock stays closed to others at most, while its holders stop;
     *     it opens as soon as they have released it
     * @return whether it was held, and its holders
     */
    public ForceReleaseResponse forceRelease(String name, String reason, Duration gracePeriod) {
        AcquireOptions.requireNotNegative("gracePeriod", gracePeriod);
        ForceReleaseRequest request =
                ForceReleaseRequest.newBuilder()
                        .setName(name)
                        .setReason(reason)
                        .setGracePeriod(Protos.toProto(gracePeriod))
                        .build();
        return calls.once(
                name, LockAdminServiceGrpc::newBlockingStub, stub -> stub.forceRelease(request));
    }

    /**
     * Asks the holders of a lock to release it; see {@link Held#onYieldRequested}. A call that is
     * lost on its way is not retried, because the next holders are not meant.
     *
     * @param name the name
     * @param reason why, for the holders: 1 to 256 bytes
     * @param within how long the request stands, at most 1 h
     * @return how many holders there are and how many have the request, after 1 s at the latest;
     *     who they are only with the right {@code describe}
     */
    public YieldAnswer requestYield(String name, String reason, Duration within) {
        return requestYield(yieldOf(name, reason, within));
    }

    /**
     * Asks the holders of a lock to release it, and takes it from those that still hold it when the
     * request ends; needs the right {@code preempt}. The lock then stays closed to others until its
     * former holders have stopped, at most for the lease that is left. See {@link #requestYield}.
     *
     * @param name the name
     * @param reason why, for the holders: 1 to 256 bytes
     * @param within how long the request stands, at most 1 h
     * @return the holders, as {@link #requestYield} returns them
     */
    public YieldAnswer preempt(String name, String reason, Duration within) {
        return requestYield(yieldOf(name, reason, within).setPreempt(true));
    }

    /**
     * Preempts as {@link #preempt(String, String, Duration)} does, but the lock stays closed for
     * less time: holders that have not stopped by then may go on beside the next.
     *
     * @param name the name
     * @param reason why, for the holders: 1 to 256 bytes
     * @param within how long the request stands, at most 1 h
     * @param gracePeriod how long the lock stays closed at most once it is taken away
     * @return the holders, as {@link #requestYield} returns them
     */
    public YieldAnswer preempt(
            String name, String reason, Duration within, Duration gracePeriod) {
        AcquireOptions.requireNotNegative("gracePeriod", gracePeriod);
        RequestYieldRequest.Builder request = yieldOf(name, reason, within).setPreempt(true);
        return requestYield(request.setGracePeriod(Protos.toProto(gracePeriod)));
    }

    private RequestYieldRequest.Builder yieldOf(String name, String reason, Duration within) {
        AcquireOptions.requireNotNegative("within", within);
        RequestYieldRequest.Builder request = RequestYieldRequest.newBuilder().setName(name);
        request.setReason(reason).setWithin(Protos.toProto(within));
        return request.setClientName(clientName);
    }

    private YieldAnswer requestYield(RequestYieldRequest.Builder request) {
        return YieldAnswer.of(
                calls.once(
                        request.getName(),
                        LockServiceGrpc::newBlockingStub,
                        stub -> stub.requestYield(request.build())));
    }

    /**
     * Why a lock or a semaphore is waited for: its holders, what each of them waits for, the
     * holders of that, and so on, over all coordinators, with the deadlocks among them. Names that
     * the caller has no right to describe are hidden.
     *
     * @param name the name
     * @return the chain
     * @throws InterruptedException if the thread is interrupted between two attempts
     */
    public ExplainResponse explain(String name) throws InterruptedException {
        ExplainRequest request = ExplainRequest.newBuilder().setName(name).build();
        return call(stub -> stub.explain(request));
    }

    /**
     * Waits without a limit until a lock has no holder in any mode, and acquires nothing. Any owner
     * may hold the lock when this returns. Goes on at the next endpoint if a coordinator or the
     * connection fails, once one has answered.
     *
     * @param name the name
     * @throws InterruptedException if the thread is interrupted
     */
    public void awaitFree(String name) throws InterruptedException {
        FreeWait.await(calls, name, null);
    }

    /**
     * Waits until a lock has no holder. See {@link #awaitFree(String)}. A coordinator that does not
     * answer can delay the end of the wait by 6 s.
     *
     * @param name the name
     * @param waitLimit the maximum time to wait; zero checks once
     * @return whether the lock was free
     * @throws MisconfiguredException if the limit is negative
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean awaitFree(String name, Duration waitLimit) throws InterruptedException {
        AcquireOptions.requireNotNegative("waitLimit", waitLimit);
        return FreeWait.await(calls, name, waitLimit);
    }

    /**
     * Watches a lock: first its state, then each grant, each end of a grant, and the number of
     * waiters, in order, on any coordinator of the store. If the coordinator or the connection
     * fails, it goes on at the next endpoint, with a {@link LockEvent.Gap} and the state. Needs the
     * right {@code describe}.
     *
     * @param name the name
     * @param listener called with each event, in order, on the executor of the client; the next
     *     event waits for its end
     * @return the observation; close it to end it
     */
    public Observation watch(String name, Consumer<LockEvent> listener) {
        return observe(new LockFeed(name, listener));
    }

    Observation observe(Feed<?, ?, ?> feed) {
        return new Observation(calls, executor, feed).begin();
    }

    private <T> T call(Function<LockServiceBlockingStub, T> call) throws InterruptedException {
        return calls.call(LockServiceGrpc::newBlockingStub, call);
    }

    Calls calls() {
        return calls;
    }

    void close() {
        calls.close();
    }
}
