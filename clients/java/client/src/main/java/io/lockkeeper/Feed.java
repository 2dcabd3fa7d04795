package io.lockkeeper;

import io.grpc.Channel;
import io.grpc.stub.AbstractStub;
import io.grpc.stub.StreamObserver;
import java.util.List;

/** What an observation streams: messages, and the events in them. */
interface Feed<S extends AbstractStub<S>, R, E> {

    S stub(Channel channel);

    /** Starts a call that goes on after what was seen. */
    void start(S stub, StreamObserver<R> into);

    /** The events in a message. {@code goesOn}: the first one after those of another stream. */
    List<E> events(R message, boolean goesOn);

    /** Passes an event to the user. */
    void accept(E event);
}
