package io.lockkeeper;

import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.lockkeeper.internal.Failure;
import io.lockkeeper.v1.ElectionServiceGrpc;
import io.lockkeeper.v1.ObserveRequest;
import io.lockkeeper.v1.ObserveResponse;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;

/** An observation of an election. See {@link Election#observe}. Close it to end it. */
public final class Observation implements AutoCloseable {

    private static final Logger LOGGER = System.getLogger("io.lockkeeper");

    private static final long CONNECT_SECONDS = 6;
    private static final long RETRY_MILLIS = 500;

    private final SessionlessLocks locks;
    private final String name;
    private final Consumer<ElectionEvent> listener;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();

    /** The fields below belong to the callbacks of one stream after the other. */
    private volatile long afterRevision;

    private volatile boolean hasBegun;
    private volatile int attempts;
    private volatile Stream stream;

    Observation(
            SessionlessLocks locks,
            String name,
            long afterRevision,
            Consumer<ElectionEvent> listener) {
        this.locks = locks;
        this.name = name;
        this.afterRevision = afterRevision;
        this.listener = listener;
    }

    /**
     * Completes when the observation ends: normally when it or the client is closed; with {@link
     * RefusedException} if the same request would be refused again; with the failure of the last
     * endpoint if none could be observed before the first event. It goes on after any other
     * failure.
     *
     * @return the end
     */
    public CompletionStage<Void> ended() {
        return ended.minimalCompletionStage();
    }

    /** Ends the observation. The listener may still be running, but is not called again. */
    @Override
    public void close() {
        ended.complete(null);
        Stream last = stream;
        if (last != null) {
            last.cancel("the observation is over");
        }
    }

    /** Observes at the next endpoint. */
    void begin() {
        if (ended.isDone() || locks.isClosed()) {
            ended.complete(null);
            return;
        }
        List<Address> addresses = locks.connector().addresses();
        Address address = addresses.get(attempts % addresses.size());
        ManagedChannel channel;
        try {
            channel = locks.channel(address);
        } catch (MisconfiguredException unusable) {
            ended.completeExceptionally(unusable);
            return;
        }
        channel.resetConnectBackoff();
        Stream next = new Stream(address, channel);
        ObserveRequest.Builder request = ObserveRequest.newBuilder().setName(name);
        locks.connector()
                .authorized(ElectionServiceGrpc.newStub(channel))
                .withExecutor(locks.executor())
                .observe(request.setAfterRevision(afterRevision).build(), next);
        stream = next;
        CompletableFuture.delayedExecutor(CONNECT_SECONDS, TimeUnit.SECONDS, locks.executor())
                .execute(next::giveUpUnlessConnected);
        if (ended.isDone()) {
            next.cancel("the observation is over");
        }
    }

    private void onEvent(ElectionEvent event) {
        hasBegun = true;
        event.leader().ifPresent(it -> afterRevision = it.revision());
        if (ended.isDone()) {
            return;
        }
        try {
            listener.accept(event);
        } catch (RuntimeException thrown) {
            LOGGER.log(Level.WARNING, "the listener of the election " + name + " failed", thrown);
        }
    }

    /** A stream has ended; {@code failure} is null if it did so without an error. */
    private void onStreamEnded(Failure failure) {
        attempts++;
        boolean isFinal = failure != null && failure.isFinal();
        boolean isNowhere = !hasBegun && attempts >= locks.connector().addresses().size();
        if (failure != null && !locks.isClosed() && (isFinal || isNowhere)) {
            ended.completeExceptionally(Errors.of(failure));
            return;
        }
        double jitter = ThreadLocalRandom.current().nextDouble(0.5, 1);
        long pause = hasBegun ? (long) (RETRY_MILLIS * jitter) : 0;
        CompletableFuture.delayedExecutor(pause, TimeUnit.MILLISECONDS, locks.executor())
                .execute(this::begin);
    }

    /** One call, until it ends. */
    private final class Stream implements ClientResponseObserver<ObserveRequest, ObserveResponse> {

        private final Address address;
        private final ManagedChannel channel;
        private volatile ClientCallStreamObserver<ObserveRequest> call;
        private volatile boolean isOver;

        /** Without a revision, the coordinator does not know what came since the last stream. */
        private volatile boolean isGap = hasBegun && afterRevision == 0;

        Stream(Address address, ManagedChannel channel) {
            this.address = address;
            this.channel = channel;
        }

        void cancel(String why) {
            call.cancel(why, null);
        }

        /** gRPC itself would wait for a server that is silent. */
        void giveUpUnlessConnected() {
            if (!isOver && channel.getState(false) != ConnectivityState.READY) {
                cancel("it does not answer");
            }
        }

        @Override
        public void beforeStart(ClientCallStreamObserver<ObserveRequest> requests) {
            call = requests;
        }

        @Override
        public void onNext(ObserveResponse seen) {
            if (isGap) {
                isGap = false;
                onEvent(ElectionEvent.MISSED);
            }
            ElectionEvent.of(seen).ifPresent(Observation.this::onEvent);
        }

        @Override
        public void onError(Throwable thrown) {
            isOver = true;
            onStreamEnded(Errors.of(thrown, address.toString()));
        }

        @Override
        public void onCompleted() {
            isOver = true;
            onStreamEnded(null);
        }
    }
}
