package io.lockkeeper;

import io.grpc.Channel;
import io.grpc.ClientInterceptor;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import io.lockkeeper.internal.Failure;
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
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * Calls without a session. A lock belongs to whoever knows its owner, and ends with its lease
 * unless it is renewed. A call that is lost on its way is repeated with the same request id, at
 * each endpoint in turn.
 *
 * <p>All methods throw {@link UnreachableException} if no coordinator answers and {@link
 * RefusedException} if one refuses.
 */
public final class SessionlessLocks {

    private static final Metadata.Key<String> TRACEPARENT =
            Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);

    /** Longer than a coordinator waits for its store. */
    private static final long CALL_TIMEOUT_SECONDS = 6;

    private static final long GIVE_UP_SECONDS = 6;

    private static final int ROUNDS = 4;
    private static final long PAUSE_MILLIS = 100;
    private static final long PAUSE_MILLIS_MAX = 1000;

    private final Connector connector;
    private final Executor executor;
    private final String clientName;
    private final Map<Address, ManagedChannel> channels = new ConcurrentHashMap<>();
    private volatile boolean isClosed;

    SessionlessLocks(Connector connector, Executor executor, String clientName) {
        this.connector = connector;
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
     * its way is not repeated, because it could take the lock from the next holder.
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
        return once(
                name, LockAdminServiceGrpc::newBlockingStub, stub -> stub.forceRelease(request));
    }

    /**
     * Asks the holders of a lock to release it; see {@link Held#onYieldRequested}. A call that is
     * lost on its way is not repeated, because the next holders are not meant.
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
     * @return the holders, as of {@link #requestYield}
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
     * @return the holders, as of {@link #requestYield}
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
                once(
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

    /** A call that is not repeated, to a coordinator that answers. */
    private <S extends AbstractStub<S>, T> T once(
            String name, Function<Channel, S> stubs, Function<S, T> call) {
        Address address = answering(name);
        try {
            return call.apply(ready(stubs.apply(channel(address))));
        } catch (StatusRuntimeException failed) {
            throw Errors.of(Errors.of(failed, address.toString()));
        }
    }

    /** A coordinator that answers. */
    private Address answering(String name) {
        DescribeRequest request = DescribeRequest.newBuilder().setName(name).build();
        Failure failure = null;
        for (Address address : connector.addresses()) {
            try {
                stub(address, LockServiceGrpc::newBlockingStub).describe(request);
                return address;
            } catch (StatusRuntimeException failed) {
                failure = Errors.of(failed, address.toString());
            }
            if (!mayRetry(failure)) {
                return address; // A refusal is an answer too.
            }
        }
        throw Errors.of(failure);
    }

    private <T> T call(Function<LockServiceBlockingStub, T> call) throws InterruptedException {
        return call(LockServiceGrpc::newBlockingStub, call);
    }

    /** A call of any service, which is repeated at each endpoint in turn. */
    <S extends AbstractStub<S>, T> T call(Function<Channel, S> stubs, Function<S, T> call)
            throws InterruptedException {
        Failure failure = null;
        long begun = System.nanoTime();
        for (int round = 0; round < ROUNDS; round++) {
            for (Address address : connector.addresses()) {
                try {
                    return call.apply(stub(address, stubs));
                } catch (StatusRuntimeException failed) {
                    failure = Errors.of(failed, address.toString());
                }
                if (!mayRetry(failure)) {
                    throw Errors.of(failure);
                }
            }
            if (System.nanoTime() - begun > TimeUnit.SECONDS.toNanos(GIVE_UP_SECONDS)) {
                break;
            }
            if (round + 1 < ROUNDS) {
                Thread.sleep(pause(round, failure));
            }
        }
        throw Errors.of(failure);
    }

    private static boolean mayRetry(Failure failure) {
        if (failure instanceof Failure.Refused refused) {
            return switch (refused.reason()) {
                case "STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "DRAINING" -> true;
                default -> false;
            };
        }
        return failure instanceof Failure.Unreachable;
    }

    private static long pause(int round, Failure failure) {
        long pause = Math.min(PAUSE_MILLIS << round, PAUSE_MILLIS_MAX);
        if (failure instanceof Failure.Refused refused && refused.retryDelay() != null) {
            pause = refused.retryDelay().toMillis();
        }
        return (long) (pause * ThreadLocalRandom.current().nextDouble(0.5, 1));
    }

    private <S extends AbstractStub<S>> S stub(Address address, Function<Channel, S> stubs) {
        ManagedChannel channel = channel(address);
        // gRPC waits longer and longer between two attempts to connect; a caller does not.
        channel.resetConnectBackoff();
        return ready(stubs.apply(channel));
    }

    ManagedChannel channel(Address address) {
        return channels.computeIfAbsent(address, connector::connect);
    }

    Connector connector() {
        return connector;
    }

    Executor executor() {
        return executor;
    }

    boolean isClosed() {
        return isClosed;
    }

    private <S extends AbstractStub<S>> S ready(S stub) {
        Metadata headers = new Metadata();
        String traceparent = TraceContext.traceparent();
        if (!traceparent.isEmpty()) {
            headers.put(TRACEPARENT, traceparent);
        }
        ClientInterceptor trace = MetadataUtils.newAttachHeadersInterceptor(headers);
        return connector
                .authorized(stub)
                .withInterceptors(trace)
                .withDeadlineAfter(CALL_TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    void close() {
        isClosed = true;
        channels.values().forEach(ManagedChannel::shutdownNow);
    }
}
