package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Consumer;

/** Passes the events of a session to a user's listener, in order, and on no thread of a session. */
final class SessionListener {

    private final Consumer<SessionEvent> listener;
    private CompletableFuture<Void> last = CompletableFuture.completedFuture(null);

    /** {@code listener} is null if there is none. */
    SessionListener(Consumer<SessionEvent> listener) {
        this.listener = listener;
    }

    synchronized void on(Effect.Notice notice, Executor executor) {
        if (listener == null) {
            return;
        }
        SessionEvent.Kind kind = SessionEvent.Kind.valueOf(notice.kind().name());
        Optional<java.time.Duration> remaining = Optional.ofNullable(notice.remaining());
        var note = Optional.ofNullable(notice.holderNote());
        SessionEvent event = new SessionEvent(kind, notice.detail(), remaining, note);
        // The failure of one call must not end the chain.
        last = last.handleAsync((unused, thrown) -> pass(event), executor);
    }

    private Void pass(SessionEvent event) {
        Callbacks.tell(listener, event);
        return null;
    }
}
