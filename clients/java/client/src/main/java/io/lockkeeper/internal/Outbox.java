package io.lockkeeper.internal;

import io.lockkeeper.v1.SessionRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.function.DoubleSupplier;
import java.util.function.Supplier;

/** The effects of a step, and what the parts of the machine share: ids and chance. */
final class Outbox {

    private final StreamState stream;
    private final Supplier<String> requestIds;
    private final DoubleSupplier random;
    private List<Effect> effects = new ArrayList<>();

    /** Odd, because those of callers are even. */
    private long lastId = -1;

    Outbox(StreamState stream, Supplier<String> requestIds, DoubleSupplier random) {
        this.stream = stream;
        this.requestIds = requestIds;
        this.random = random;
    }

    long newId() {
        lastId += 2;
        return lastId;
    }

    String newRequestId() {
        return requestIds.get();
    }

    /** A pause times a random 0.5 to 1. */
    long jittered(long pause) {
        return (long) (pause * (0.5 + random.getAsDouble() / 2));
    }

    boolean canSend() {
        return stream.canSend();
    }

    /** Whether the stream is open, even if nothing may be sent on it. */
    boolean isUp() {
        return stream.is(StreamState.Phase.UP);
    }

    /** Whether the session was open once. */
    boolean isEstablished() {
        return stream.isEstablished();
    }

    /** Why there is no stream. */
    Failure fault() {
        return stream.fault();
    }

    void send(SessionRequest frame) {
        add(new Effect.Send(stream.id(), frame));
    }

    void add(Effect effect) {
        effects.add(effect);
    }

    List<Effect> take() {
        List<Effect> taken = effects;
        effects = new ArrayList<>();
        return taken;
    }
}
