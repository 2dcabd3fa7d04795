package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import io.lockkeeper.internal.Protos;
import io.lockkeeper.v1.OfferRequest;
import io.lockkeeper.v1.SessionRequest;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/** A lock that is held. Close it to release the lock. */
public final class Grant extends Held {

    Grant(Session session, Effect.Granted granted) {
        super(session, granted);
    }

    /**
     * The lock's name.
     *
     * @return the name
     */
    public String name() {
        return holdings().get(0).name();
    }

    /**
     * The fencing token: it grows with every new grant of this name. Send it with every write, so
     * that the resource can refuse a token smaller than the largest it has seen. A reader has the
     * token of the last writer.
     *
     * @return the token; an unsigned number
     */
    public long fencingToken() {
        return holdings().get(0).fencingToken();
    }

    /**
     * Makes a ticket with which another session can take the lock over within 30 s. See {@link
     * #offer(Duration)}.
     *
     * @return the ticket, a secret
     * @throws InterruptedException if the thread is interrupted
     */
    public String offer() throws InterruptedException {
        ensureHeld();
        return beginOffer(null, false).await();
    }

    /**
     * Makes a ticket with which another session, on any coordinator, can take the lock over by
     * {@link Lockkeeper#claim}. Stop the work first: at the claim the lock is {@linkplain #lost()
     * lost} with {@link LossReason#HANDED_OVER}, and {@link #close} throws {@link
     * LockLostException}. A ticket that nobody claims changes nothing. Only an exclusive lock that
     * its owner has acquired once can be offered, without {@link AcquireOptions#holdAtLeast} and
     * {@link AcquireOptions#lockDelay}.
     *
     * @param within how long the ticket can be claimed, at most 10 min
     * @return the ticket, a secret: anyone who has it, and may acquire the lock, can claim it
     * @throws LockLostException if the lock is lost
     * @throws RefusedException if it cannot be offered: {@code TICKET_REFUSED}
     * @throws SessionEndedException if the session ends meanwhile
     * @throws InterruptedException if the thread is interrupted
     */
    public String offer(Duration within) throws InterruptedException {
        ensureHeld();
        return beginOffer(within, false).await();
    }

    /**
     * Makes a ticket without waiting.
     *
     * @param within how long the ticket can be claimed, at most 10 min
     * @return completes as {@link #offer(Duration)} returns or throws
     */
    public CompletableFuture<String> offerAsync(Duration within) {
        try {
            ensureHeld();
        } catch (LockLostException lost) {
            return CompletableFuture.failedFuture(lost);
        }
        return beginOffer(within, true);
    }

    /** {@code within} is null for the default of the coordinator. */
    private Call<String> beginOffer(Duration within, boolean isAsync) {
        OfferRequest.Builder request = OfferRequest.newBuilder();
        request.setName(name()).setOwner(owner());
        if (within != null) {
            AcquireOptions.requireNotNegative("within", within);
            request.setWithin(Protos.toProto(within));
        }
        SessionRequest frame = SessionRequest.newBuilder().setOffer(request).build();
        return session()
                .ask(
                        frame,
                        AcquireOptions.defaults(),
                        isAsync,
                        answer -> answer.getOffered().getTicket());
    }

    /**
     * The owner within the session.
     *
     * @return the owner
     */
    public String owner() {
        return holdings().get(0).lock().getOwner();
    }
}
