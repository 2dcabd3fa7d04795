package io.lockkeeper;

import io.grpc.ManagedChannel;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import io.lockkeeper.internal.Event;
import io.lockkeeper.v1.LockServiceGrpc;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import java.util.function.Consumer;

/** One connection with a session's stream. */
final class Link implements ClientResponseObserver<SessionRequest, SessionResponse> {

    /** Frames that may wait for the session's thread; the coordinator is not read meanwhile. */
    private static final int FRAMES_QUEUED = 64;

    private final long id;
    private final String address;
    private final Consumer<Event> events;
    private final ManagedChannel channel;
    private ClientCallStreamObserver<SessionRequest> requests;

    private Link(long id, String address, Consumer<Event> events, ManagedChannel channel) {
        this.id = id;
        this.address = address;
        this.events = events;
        this.channel = channel;
    }

    /** Connects and sends the first frame. */
    static Link open(
            Connector connector,
            Address address,
            long id,
            SessionRequest first,
            Consumer<Event> events) {
        Link link = new Link(id, address.toString(), events, connector.connect(address));
        // Events are only queued, which gRPC's own thread may do.
        connector
                .authorized(LockServiceGrpc.newStub(link.channel))
                .withExecutor(Runnable::run)
                .session(link);
        link.send(first);
        return link;
    }

    /**
     * Sends a frame. The stream is half-closed after {@code close} only: some proxies pass on the
     * coordinator's end of a stream when they have the client's.
     */
    void send(SessionRequest frame) {
        requests.onNext(frame);
        if (frame.hasClose()) {
            requests.onCompleted();
        }
    }

    /** A frame was handled, so another one may arrive. */
    void onHandled() {
        requests.request(1);
    }

    void close() {
        requests.cancel("the stream is not needed any more", null);
        channel.shutdownNow();
    }

    boolean is(long stream) {
        return id == stream;
    }

    @Override
    public void beforeStart(ClientCallStreamObserver<SessionRequest> stream) {
        requests = stream;
        stream.disableAutoRequestWithInitial(FRAMES_QUEUED);
    }

    @Override
    public void onNext(SessionResponse frame) {
        events.accept(new Event.Frame(id, frame));
    }

    @Override
    public void onError(Throwable thrown) {
        events.accept(new Event.StreamEnded(id, Errors.of(thrown, address)));
    }

    @Override
    public void onCompleted() {
        events.accept(new Event.StreamEnded(id, null));
    }
}
