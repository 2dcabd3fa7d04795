package io.lockkeeper;

import io.grpc.Channel;
import io.grpc.ClientInterceptor;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.MetadataUtils;
import io.lockkeeper.internal.Failure;
import io.lockkeeper.v1.DescribeRequest;
import io.lockkeeper.v1.LockServiceGrpc;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/** How calls without a session reach a coordinator. */
final class Calls {

    private static final Metadata.Key<String> TRACEPARENT =
            Metadata.Key.of("traceparent", Metadata.ASCII_STRING_MARSHALLER);

    /** Longer than a coordinator waits for its store. */
    private static final long CALL_TIMEOUT_SECONDS = 6;

    private static final long GIVE_UP_SECONDS = 6;

    private static final int ROUNDS = 4;
    private static final long PAUSE_MILLIS = 100;
    private static final long PAUSE_MILLIS_MAX = 1000;

    private final Connector connector;
    private final Map<Address, ManagedChannel> channels = new ConcurrentHashMap<>();
    private volatile boolean isClosed;

    Calls(Connector connector) {
        this.connector = connector;
    }

    /** A call of any service, which is retried at each endpoint in turn. */
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

    /** A call about a lock that is not retried, to a coordinator that answers. */
    <S extends AbstractStub<S>, T> T once(
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
        return ready(stubs.apply(channel(address)));
    }

    private <S extends AbstractStub<S>> S ready(S stub) {
        return traced(stub).withDeadlineAfter(CALL_TIMEOUT_SECONDS, TimeUnit.SECONDS);
    }

    /** A stub with the token and the trace of the caller. */
    <S extends AbstractStub<S>> S traced(S stub) {
        Metadata headers = new Metadata();
        String traceparent = TraceContext.traceparent();
        if (!traceparent.isEmpty()) {
            headers.put(TRACEPARENT, traceparent);
        }
        ClientInterceptor trace = MetadataUtils.newAttachHeadersInterceptor(headers);
        return connector.authorized(stub).withInterceptors(trace);
    }

    List<Address> addresses() {
        return connector.addresses();
    }

    /** Of a pool, so that it is not closed after a call. It connects at once if it has to. */
    ManagedChannel channel(Address address) {
        ManagedChannel channel = channels.computeIfAbsent(address, connector::connect);
        // gRPC waits longer and longer between two attempts to connect; a caller does not.
        channel.resetConnectBackoff();
        return channel;
    }

    boolean isClosed() {
        return isClosed;
    }

    void close() {
        isClosed = true;
        channels.values().forEach(ManagedChannel::shutdownNow);
    }
}
