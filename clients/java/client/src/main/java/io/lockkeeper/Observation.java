package io.lockkeeper;

import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.lockkeeper.internal.Failure;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * An observation of an election or of a lock. See {@link Election#observe} and {@link
 * SessionlessLocks#watch}. Close it to end it.
 */
public final class Observation implements AutoCloseable {

    private static final Logger LOGGER = System.getLogger("io.lockkeeper");

    static final long CONNECT_SECONDS = 6;

    private static final long RETRY_MILLIS = 500;

    private final Calls calls;
    private final Executor executor;
    private final Feed<?, ?, ?> feed;
    private final CompletableFuture<Void> ended = new CompletableFuture<>();

    /** The fields below belong to the callbacks of one stream after the other. */
    private volatile boolean hasBegun;

    private volatile int attempts;
    private volatile Failure lastFailure;
    private volatile Stream<?, ?> stream;

    Observation(Calls calls, Executor executor, Feed<?, ?, ?> feed) {
        this.calls = calls;
        this.executor = executor;
        this.feed = feed;
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

    /** As {@link #ended}, for this client. */
    CompletableFuture<Void> end() {
        return ended;
    }

    /** Ends the observation. The listener may still be running, but is not called again. */
    @Override
    public void close() {
        ended.complete(null);
        Stream<?, ?> last = stream;
        if (last != null) {
            last.cancel("the observation is over");
        }
    }

    /** Observes at the next endpoint. */
    Observation begin() {
        if (ended.isDone() || calls.isClosed()) {
            ended.complete(null);
            return this;
        }
        List<Address> addresses = calls.addresses();
        Address address = addresses.get(attempts % addresses.size());
        try {
            open(feed, address, calls.channel(address));
        } catch (MisconfiguredException unusable) {
            lastFailure = new Failure.Misconfigured(unusable.getMessage());
            ended.completeExceptionally(unusable);
        } catch (SessionEndedException closed) {
            ended.complete(null);
        }
        return this;
    }

    private <S extends AbstractStub<S>, R, E> void open(
            Feed<S, R, E> feed, Address address, ManagedChannel channel) {
        Stream<R, E> next = new Stream<>(feed, address, channel);
        stream = next;
        feed.start(calls.traced(feed.stub(channel)).withExecutor(executor), next);
        CompletableFuture.delayedExecutor(CONNECT_SECONDS, TimeUnit.SECONDS, executor)
                .execute(next::giveUpUnlessConnected);
        if (ended.isDone()) {
            next.cancel("the observation is over");
        }
    }

    /** Why nothing can be seen now; null if something can. */
    Failure fault() {
        Stream<?, ?> last = stream;
        if (last != null && last.isAnswered && !last.isOver) {
            return null;
        }
        String cause = "it has not answered yet";
        boolean isNew = lastFailure == null && last != null;
        return isNew ? new Failure.Unreachable(last.address.toString(), cause) : lastFailure;
    }

    private void onStreamEnded(Failure failure) {
        attempts++;
        lastFailure = failure;
        boolean isNowhere = !hasBegun && attempts >= calls.addresses().size();
        if (!calls.isClosed() && (failure.isFinal() || isNowhere)) {
            ended.completeExceptionally(Errors.of(failure));
            return;
        }
        double jitter = ThreadLocalRandom.current().nextDouble(0.5, 1);
        long pause = hasBegun ? (long) (RETRY_MILLIS * jitter) : 0;
        CompletableFuture.delayedExecutor(pause, TimeUnit.MILLISECONDS, executor)
                .execute(this::begin);
    }

    /** One call, until it ends. */
    private final class Stream<R, E> implements ClientResponseObserver<Object, R> {

        private final Feed<?, R, E> feed;
        private final Address address;
        private final ManagedChannel channel;
        private final boolean goesOn = hasBegun;
        private volatile ClientCallStreamObserver<Object> call;
        private volatile boolean isAnswered;
        private volatile boolean isOver;

        Stream(Feed<?, R, E> feed, Address address, ManagedChannel channel) {
            this.feed = feed;
            this.address = address;
            this.channel = channel;
        }

        void cancel(String why) {
            ClientCallStreamObserver<Object> begun = call;
            if (begun != null) {
                begun.cancel(why, null);
            }
        }

        /** gRPC itself would wait for a server that is silent. */
        void giveUpUnlessConnected() {
            if (!isOver && channel.getState(false) != ConnectivityState.READY) {
                cancel("it does not answer");
            }
        }

        @Override
        public void beforeStart(ClientCallStreamObserver<Object> requests) {
            call = requests;
        }

        @Override
        public void onNext(R message) {
            boolean isFirst = !isAnswered;
            isAnswered = true;
            hasBegun = true;
            feed.events(message, isFirst && goesOn).forEach(this::deliver);
        }

        private void deliver(E event) {
            if (ended.isDone()) {
                return;
            }
            try {
                feed.accept(event);
            } catch (RuntimeException thrown) {
                LOGGER.log(Level.WARNING, "the listener of an observation failed", thrown);
            }
        }

        @Override
        public void onError(Throwable thrown) {
            isOver = true;
            Failure failure = Errors.of(thrown, address.toString());
            if (failure instanceof Failure.Unreachable && !ended.isDone()) {
                calls.drop(address, channel);
            }
            onStreamEnded(failure);
        }

        /** A failure too, because a peer may end every stream at once. */
        @Override
        public void onCompleted() {
            isOver = true;
            onStreamEnded(new Failure.Unreachable(address.toString(), "it ended the stream"));
        }
    }
}
