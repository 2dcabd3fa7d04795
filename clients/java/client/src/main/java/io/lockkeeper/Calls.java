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
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.IntStream;

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

    /** Those that failed, until the last call on them has ended. */
    private final Set<ManagedChannel> dropped = ConcurrentHashMap.newKeySet();

    /** The place of the endpoint that answered last. */
    private volatile int answering;

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
            for (int place : places()) {
                Address address = connector.addresses().get(place);
                ManagedChannel channel = channel(address);
                try {
                    T answer = call.apply(ready(stubs.apply(channel)));
                    answering = place;
                    return answer;
                } catch (StatusRuntimeException failed) {
                    failure = failure(failed, address, channel);
                }
                if (!mayRetry(failure)) {
                    answering = place;
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
        Address address = connector.addresses().get(findAnswering(name));
        ManagedChannel channel = channel(address);
        try {
            return call.apply(ready(stubs.apply(channel)));
        } catch (StatusRuntimeException failed) {
            throw Errors.of(failure(failed, address, channel));
        }
    }

    /** The place of a coordinator that answers. */
    private int findAnswering(String name) {
        DescribeRequest request = DescribeRequest.newBuilder().setName(name).build();
        Failure failure = null;
        for (int place : places()) {
            Address address = connector.addresses().get(place);
            ManagedChannel channel = channel(address);
            try {
                ready(LockServiceGrpc.newBlockingStub(channel)).describe(request);
                answering = place;
                return place;
            } catch (StatusRuntimeException failed) {
                failure = failure(failed, address, channel);
            }
            if (!mayRetry(failure)) {
                answering = place; // A refusal is an answer too.
                return place;
            }
        }
        throw Errors.of(failure);
    }

    /** The places of the endpoints, beginning with the one that answered last. */
    private int[] places() {
        int count = connector.addresses().size();
        int first = answering;
        return IntStream.range(0, count).map(it -> (first + it) % count).toArray();
    }

    private Failure failure(StatusRuntimeException failed, Address address, ManagedChannel on) {
        Failure failure = Errors.of(failed, address.toString());
        if (failure instanceof Failure.Unreachable) {
            drop(address, on);
        }
        return failure;
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
        // After the entry, so that either this or the close sees the other.
        if (isClosed) {
            channel.shutdownNow();
            throw new SessionEndedException("the client was closed");
        }
        // gRPC waits longer and longer between two attempts to connect; a caller does not.
        channel.resetConnectBackoff();
        return channel;
    }

    /** Connects anew next time, with certificates that may have been renewed. */
    void drop(Address address, ManagedChannel channel) {
        dropped.removeIf(ManagedChannel::isTerminated);
        // First, so that a close at the same time finds it in one of the two.
        dropped.add(channel);
        channels.remove(address, channel);
        channel.shutdown();
    }

    boolean isClosed() {
        return isClosed;
    }

    void close() {
        isClosed = true;
        channels.values().forEach(ManagedChannel::shutdownNow);
        dropped.forEach(ManagedChannel::shutdownNow);
    }
}
