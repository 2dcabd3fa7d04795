package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.ProclaimRequest;
import io.lockkeeper.v1.SessionRequest;
import java.util.concurrent.CompletableFuture;

/** The leadership of an election. Close it to resign; when it is lost, stop to lead. */
public final class Leadership extends Held {

    Leadership(Session session, Effect.Granted granted) {
        super(session, granted);
    }

    /**
     * The election's name.
     *
     * @return the name
     */
    public String name() {
        return grant().getName();
    }

    /**
     * The term, which is the fencing token to send to what the leader works on. It increases with
     * every leader.
     *
     * @return the term; an unsigned number
     */
    public long term() {
        return grant().getFencingToken();
    }

    /**
     * Replaces the value for all observers.
     *
     * @param value at most 1024 bytes, without control characters
     * @return the revision of the value
     * @throws LockLostException if the leadership is lost
     * @throws RefusedException if the coordinator refuses; the reason is {@code NOT_OWNER} if the
     *     leadership has ended
     * @throws SessionEndedException if the session ends meanwhile
     * @throws InterruptedException if the thread is interrupted
     */
    public long proclaim(String value) throws InterruptedException {
        ensureHeld();
        return begin(value, false).await();
    }

    /**
     * Replaces the value for all observers, without waiting.
     *
     * @param value at most 1024 bytes, without control characters
     * @return completes as {@link #proclaim} returns or throws
     */
    public CompletableFuture<Long> proclaimAsync(String value) {
        try {
            ensureHeld();
        } catch (LockLostException lost) {
            return CompletableFuture.failedFuture(lost);
        }
        return begin(value, true);
    }

    /** Ends the leadership, so that the next candidate leads. The same as {@link #close}. */
    public void resign() {
        close();
    }

    private Call<Long> begin(String value, boolean isAsync) {
        ProclaimRequest.Builder request = ProclaimRequest.newBuilder().setValue(value);
        request.setName(name()).setOwner(grant().getOwner()).setTerm(term());
        SessionRequest frame = SessionRequest.newBuilder().setProclaim(request).build();
        return session()
                .ask(
                        frame,
                        AcquireOptions.defaults(),
                        isAsync,
                        answer -> answer.getProclaimed().getRevision());
    }

    private Grant grant() {
        return holdings().get(0).lock();
    }
}
