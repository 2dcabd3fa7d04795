package io.lockkeeper;

import io.grpc.Channel;
import io.grpc.stub.StreamObserver;
import io.lockkeeper.internal.Failure;
import io.lockkeeper.internal.Protos;
import io.lockkeeper.v1.AwaitFreeRequest;
import io.lockkeeper.v1.AwaitFreeResponse;
import io.lockkeeper.v1.LockServiceGrpc;
import io.lockkeeper.v1.LockServiceGrpc.LockServiceStub;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A wait until a lock is free, without a session. */
final class FreeWait implements Feed<LockServiceStub, AwaitFreeResponse, AwaitFreeResponse> {

    private final String name;

    /** Null for no limit. */
    private final Duration limit;

    private final long begun = System.nanoTime();

    /** Cancelled if the observation ends first. */
    private final CompletableFuture<Boolean> isFree = new CompletableFuture<>();

    private FreeWait(String name, Duration limit) {
        this.name = name;
        this.limit = limit;
    }

    /** Whether the lock was free within the limit, which may be null. */
    static boolean await(Calls calls, String name, Duration limit) throws InterruptedException {
        FreeWait wait = new FreeWait(name, limit);
        // No executor, because the one of the user may be busy with this call.
        try (Observation observation = new Observation(calls, Runnable::run, wait).begin()) {
            observation.end().whenComplete((unused, thrown) -> wait.isFree.cancel(false));
            return wait.result(calls, observation);
        }
    }

    private boolean result(Calls calls, Observation observation) throws InterruptedException {
        try {
            return limit == null ? isFree.get() : isFree.get(patience(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            Failure fault = observation.fault();
            if (fault == null) {
                return false;
            }
            throw Errors.of(fault);
        } catch (CancellationException ended) {
            if (calls.isClosed()) {
                throw new SessionEndedException("the client was closed");
            }
            throw Errors.of(observation.fault());
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** The limit, and the time that a coordinator has to answer. */
    private long patience() {
        long connect = TimeUnit.SECONDS.toNanos(Observation.CONNECT_SECONDS);
        long nanos = Protos.saturated(limit);
        return nanos > Long.MAX_VALUE - connect ? Long.MAX_VALUE : nanos + connect;
    }

    @Override
    public LockServiceStub stub(Channel channel) {
        return LockServiceGrpc.newStub(channel);
    }

    @Override
    public void start(LockServiceStub stub, StreamObserver<AwaitFreeResponse> into) {
        AwaitFreeRequest.Builder request = AwaitFreeRequest.newBuilder().setName(name);
        if (limit != null) {
            Duration left = limit.minusNanos(System.nanoTime() - begun);
            request.setWaitTimeout(Protos.toProto(left.isNegative() ? Duration.ZERO : left));
        }
        stub.awaitFree(request.build(), into);
    }

    @Override
    public List<AwaitFreeResponse> events(AwaitFreeResponse message, boolean goesOn) {
        return List.of(message);
    }

    @Override
    public void accept(AwaitFreeResponse answer) {
        if (answer.hasFree() || answer.hasNotFree()) {
            isFree.complete(answer.hasFree());
        }
    }
}
