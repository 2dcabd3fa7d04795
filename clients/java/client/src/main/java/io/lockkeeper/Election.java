package io.lockkeeper;

import io.grpc.Channel;
import io.grpc.stub.StreamObserver;
import io.lockkeeper.v1.ElectionServiceGrpc;
import io.lockkeeper.v1.ElectionServiceGrpc.ElectionServiceStub;
import io.lockkeeper.v1.LeaderRequest;
import io.lockkeeper.v1.LeaderResponse;
import io.lockkeeper.v1.ObserveRequest;
import io.lockkeeper.v1.ObserveResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** An election: the fair lock of the same name, with a value that its holder proclaims. */
public final class Election {

    private final Lockkeeper client;
    private final String name;

    Election(Lockkeeper client, String name) {
        this.client = client;
        this.name = name;
    }

    /**
     * Waits without a limit until this candidate leads, and proclaims its value.
     *
     * @param value what observers see, such as an address: at most 1024 bytes, without control
     *     characters
     * @return the leadership; close it to resign
     * @throws InterruptedException if the thread is interrupted; it does not lead then
     */
    public Leadership campaign(String value) throws InterruptedException {
        return campaign(value, AcquireOptions.defaults());
    }

    /**
     * Waits until this candidate leads, and proclaims its value. Candidates lead in order of
     * arrival, but for those that are {@linkplain AcquireOptions#preferred preferred}. Fails as
     * {@link Lockkeeper#acquire(String, AcquireOptions)} does, and does not lead then.
     *
     * @param value what observers see: at most 1024 bytes, without control characters
     * @param options how to acquire the lock; the mode is always FAIR
     * @return the leadership; close it to resign
     * @throws InterruptedException if the thread is interrupted; it does not lead then
     */
    public Leadership campaign(String value, AcquireOptions options) throws InterruptedException {
        Objects.requireNonNull(value);
        Leadership leadership = begin(options, false).await();
        try {
            leadership.proclaim(value);
            return leadership;
        } catch (InterruptedException | RuntimeException failed) {
            leadership.releaseAsync();
            throw failed;
        }
    }

    /**
     * Waits until this candidate leads, without blocking. Cancelling the future gives up.
     *
     * @param value what observers see: at most 1024 bytes, without control characters
     * @param options how to acquire the lock; the mode is always FAIR
     * @return completes as {@link #campaign(String, AcquireOptions)} returns or throws
     */
    public CompletableFuture<Leadership> campaignAsync(String value, AcquireOptions options) {
        Objects.requireNonNull(value);
        Call<Leadership> wait = begin(options, true);
        CompletableFuture<Leadership> elected = new CompletableFuture<>();
        elected.whenComplete((leadership, thrown) -> wait.cancel(false));
        wait.whenComplete(
                (leadership, thrown) -> {
                    if (thrown == null) {
                        proclaim(leadership, value, elected);
                    } else {
                        elected.completeExceptionally(thrown);
                    }
                });
        return elected;
    }

    private static void proclaim(
            Leadership leadership, String value, CompletableFuture<Leadership> elected) {
        leadership
                .proclaimAsync(value)
                .whenComplete(
                        (revision, thrown) -> {
                            if (thrown != null) {
                                elected.completeExceptionally(thrown);
                            }
                            // Not if the caller gave up meanwhile.
                            boolean leads = thrown == null && elected.complete(leadership);
                            if (!leads) {
                                leadership.releaseAsync();
                            }
                        });
    }

    private Call<Leadership> begin(AcquireOptions options, boolean isAsync) {
        return client.begin(name, options.mode(LockMode.FAIR), isAsync, Leadership::new);
    }

    /**
     * Who leads at the moment the store was read. Opens no session.
     *
     * @return the leader with its newest value; empty if there is none
     * @throws UnreachableException if no coordinator answers
     * @throws RefusedException if the coordinator refuses
     * @throws InterruptedException if the thread is interrupted between two attempts
     */
    public Optional<Leader> leader() throws InterruptedException {
        LeaderRequest request = LeaderRequest.newBuilder().setName(name).build();
        LeaderResponse seen =
                client.withoutSession()
                        .calls()
                        .call(ElectionServiceGrpc::newBlockingStub, it -> it.leader(request));
        return seen.hasLeader() ? Optional.of(Leader.of(seen.getLeader())) : Optional.empty();
    }

    /**
     * Observes the election from its present leader on. See {@link #observe(long, Consumer)}.
     *
     * @param listener called with each event
     * @return the observation; close it to end it
     */
    public Observation observe(Consumer<ElectionEvent> listener) {
        return observe(0, listener);
    }

    /**
     * Observes the election: every term and value in order, that there is no leader, or that some
     * were missed. If the coordinator or the connection fails, it goes on at the next endpoint
     * after what it has seen. Opens no session.
     *
     * @param afterRevision the last revision that was seen; 0 begins with the present leader
     * @param listener called with each event, in order, on the executor of the client; the next
     *     event waits for its end
     * @return the observation; close it to end it
     */
    public Observation observe(long afterRevision, Consumer<ElectionEvent> listener) {
        Feed<?, ?, ?> feed = new Terms(name, new AtomicLong(afterRevision), listener);
        return client.withoutSession().observe(feed);
    }

    /** What observers see, after the last revision that was seen. */
    private record Terms(
            String name, AtomicLong afterRevision, Consumer<ElectionEvent> listener)
            implements Feed<ElectionServiceStub, ObserveResponse, ElectionEvent> {

        @Override
        public ElectionServiceStub stub(Channel channel) {
            return ElectionServiceGrpc.newStub(channel);
        }

        @Override
        public void start(ElectionServiceStub stub, StreamObserver<ObserveResponse> into) {
            ObserveRequest.Builder request = ObserveRequest.newBuilder().setName(name);
            stub.observe(request.setAfterRevision(afterRevision.get()).build(), into);
        }

        @Override
        public List<ElectionEvent> events(ObserveResponse seen, boolean goesOn) {
            List<ElectionEvent> events = new ArrayList<>();
            // Without a revision, the coordinator does not know what came since the last stream.
            if (goesOn && afterRevision.get() == 0) {
                events.add(ElectionEvent.MISSED);
            }
            ElectionEvent.of(seen).ifPresent(events::add);
            return events;
        }

        @Override
        public void accept(ElectionEvent event) {
            event.leader().ifPresent(it -> afterRevision.set(it.revision()));
            listener.accept(event);
        }
    }
}
