package io.lockkeeper.internal;

import io.lockkeeper.internal.StreamState.Phase;
import io.lockkeeper.v1.CloseSession;
import io.lockkeeper.v1.OpenSession;
import io.lockkeeper.v1.SessionOpened;
import io.lockkeeper.v1.SessionRequest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;
import java.util.function.Supplier;

/**
 * A session without input and output. Each event is passed to the part that it concerns; what
 * follows is returned as effects, to be executed in order.
 */
public final class SessionMachine {

    static final long CLOSE_TIMEOUT = TimeUnit.SECONDS.toNanos(2);

    private final StreamState stream;
    private final Outbox outbox;
    private final Operations operations;
    private final GrantTable grants;
    private final Answers answers;
    private final Map<Long, Renewals> renewals = new HashMap<>();

    private long closeUntil = Timers.NEVER;

    /** Who is answered when a closed session has ended: closes, and releases since then. */
    private final List<Long> closers = new ArrayList<>();

    /** Why operations fail from now on; null as long as the session has not ended. */
    private Failure ended;

    /** A caller's renewal of a guard: how many of its grants are not renewed yet. */
    private static final class Renewals {
        private int left;
        private Failure failure;
    }

    /**
     * A session that is opened by the first step.
     *
     * @param endpoints the addresses of the coordinators, at least one
     * @param open the first frame of the first stream
     * @param requestIds makes ids that are never used twice
     * @param random makes numbers from 0 to 1
     */
    public SessionMachine(
            List<String> endpoints,
            OpenSession open,
            Supplier<String> requestIds,
            DoubleSupplier random) {
        stream = new StreamState(endpoints, open, random);
        outbox = new Outbox(stream, requestIds, random);
        operations = new Operations(outbox);
        grants = new GrantTable(outbox, operations, stream);
        answers = new Answers(this, outbox, operations, grants, stream);
    }

    /**
     * Reacts to an event.
     *
     * @param event the event
     * @param now the time, read before the effects are executed
     * @return what follows, in order
     */
    public List<Effect> step(Event event, long now) {
        if (ended == null) {
            dispatch(event, now);
        } else {
            refuse(event);
        }
        if (ended == null) {
            meetDeadlines(now);
        }
        return outbox.take();
    }

    /**
     * When the next {@link Event.Tick} is due.
     *
     * @return the time, or {@link Timers#NEVER}
     */
    public long wakeAt() {
        if (ended != null) {
            return Timers.NEVER;
        }
        long inner = Math.min(operations.wakeAt(), grants.wakeAt());
        return Math.min(Math.min(stream.wakeAt(), closeUntil), inner);
    }

    /**
     * Whether the session is over.
     *
     * @return whether no further event matters
     */
    public boolean isEnded() {
        return ended != null;
    }

    /**
     * Why the session is over, or could not be opened.
     *
     * @return the failure, or null if the session has not ended
     */
    public Failure failure() {
        return ended;
    }

    private void dispatch(Event event, long now) {
        if (event instanceof Event.Frame it) {
            onFrame(it, now);
        } else if (event instanceof Event.StreamEnded it) {
            onStreamEnded(it, now);
        } else if (event instanceof Event.Start it) {
            onStart(it, now);
        } else if (event instanceof Event.Abandon it) {
            onAbandon(it.op(), now);
        } else if (event instanceof Event.Release it) {
            onRelease(it, now);
        } else if (event instanceof Event.Renew it) {
            onRenew(it, now);
        } else if (event instanceof Event.Close it) {
            onClose(it.op(), now);
        }
    }

    private void refuse(Event event) {
        if (event instanceof Event.Start it) {
            fail(it.op(), ended);
        } else if (event instanceof Event.Renew it) {
            fail(it.op(), lossOf(it.guard()));
        } else if (event instanceof Event.Release it) {
            fail(it.op(), lossOf(it.guard()));
        } else if (event instanceof Event.Close it) {
            outbox.add(new Effect.Done(it.op()));
        }
    }

    private Failure lossOf(long guard) {
        Guard known = grants.guard(guard);
        return known != null && known.loss != null ? known.loss : ended;
    }

    private void fail(long op, Failure failure) {
        outbox.add(new Effect.Failed(op, failure));
    }

    // --- time

    private void meetDeadlines(long now) {
        grants.checkDue(now);
        operations.meetDue(now);
        if (closeUntil <= now) {
            end("it was closed, and no coordinator has confirmed it", null, now);
        } else if (stream.isExpired(now)) {
            String why = stream.fault().describe();
            end("no coordinator was reachable for as long as the lease; " + why, null, now);
        } else if (stream.mustLeave(now)) {
            breakStream("the coordinator is shutting down", now);
        } else if (stream.isSilent(now)) {
            breakStream("no answer to a ping", now);
        } else if (stream.mustPing(now)) {
            outbox.send(stream.ping(now));
        } else if (stream.isAttemptLate(now)) {
            outbox.add(new Effect.Cancel(stream.id()));
            onAttemptFailed(stream.unreachable("it does not answer"), now);
        }
        if (ended == null && stream.mustConnect(now)) {
            List<Holding> named = new ArrayList<>(grants.held());
            for (Holding possible : Holding.ofLocks(operations.possibleGrants())) {
                if (grants.find(possible) == null) {
                    named.add(possible);
                }
            }
            outbox.add(stream.connect(now, named));
        }
    }

    // --- the stream

    private void onFrame(Event.Frame event, long now) {
        if (!stream.isCurrent(event.stream())) {
            return;
        }
        if (stream.is(Phase.UP)) {
            stream.onFrame(now);
            answers.onFrame(event.frame(), now);
        } else if (event.frame().hasOpened()) {
            onOpened(event.frame().getOpened(), now);
        } else {
            outbox.add(new Effect.Cancel(stream.id()));
            onAttemptFailed(stream.unreachable("it does not open the session"), now);
        }
    }

    private void onOpened(SessionOpened opened, long now) {
        boolean isFirst = !stream.isEstablished();
        long sentAt = stream.sentAt();
        stream.onOpened(now, opened);
        Effect.Kind kind = isFirst ? Effect.Kind.OPENED : Effect.Kind.RESUMED;
        outbox.add(new Effect.Notice(kind, "", null));
        List<Holding> held = Holding.resumed(opened);
        held.forEach(it -> grants.renewed(it, sentAt, now));
        if (isClosing()) {
            sendClose();
            return;
        }
        operations.onResumed(held, it -> grants.find(it) != null, now);
        grants.checkAll(now);
    }

    private void onStreamEnded(Event.StreamEnded event, long now) {
        if (!stream.isCurrent(event.stream())) {
            return;
        }
        Failure failure = event.failure();
        if (stream.is(Phase.OPENING)) {
            boolean none = failure == null;
            onAttemptFailed(none ? stream.unreachable("it ended the stream") : failure, now);
        } else if (failure == null && stream.isCloseSent()) {
            end("it was closed", null, now);
        } else {
            markBroken(cause(failure), now);
            if (failure instanceof Failure.Refused it && it.reason().equals("MESSAGE_TOO_LARGE")) {
                operations.limitRequests(bytesMax(it), now, answers::onTooLarge);
            }
        }
    }

    private static long bytesMax(Failure.Refused tooLarge) {
        String named = tooLarge.metadata().get("bytes_max");
        return named == null ? Long.MAX_VALUE : Long.parseLong(named);
    }

    private static String cause(Failure failure) {
        if (failure == null) {
            return "the coordinator ended the stream";
        }
        return failure instanceof Failure.Unreachable it ? it.cause() : failure.describe();
    }

    /** Drops a stream that is of no use any more. */
    private void breakStream(String cause, long now) {
        outbox.add(new Effect.Cancel(stream.id()));
        markBroken(cause, now);
    }

    private void markBroken(String cause, long now) {
        String why = stream.isGoingAway() ? "the coordinator is shutting down" : cause;
        String at = stream.address() + ": ";
        stream.onBroken(now, why);
        operations.onStreamEnded();
        grants.onStreamEnded();
        outbox.add(new Effect.Notice(Effect.Kind.BROKEN, at + why, null));
    }

    private void onAttemptFailed(Failure failure, long now) {
        if (!stream.onAttemptFailed(now, failure)) {
            String cause = "no coordinator knows it: " + failure.describe();
            end(stream.isEstablished() ? cause : failure.describe(), failure, now);
        }
    }

    // --- callers

    private void onStart(Event.Start start, long now) {
        if (isClosing()) {
            fail(start.op(), closed());
        } else {
            operations.startForCaller(Operation.of(start, outbox.newRequestId()), now);
        }
    }

    private void onAbandon(long op, long now) {
        Guard undelivered = grants.undelivered(op);
        if (undelivered != null) {
            grants.release(undelivered.id, -1, now);
        } else {
            operations.abandon(op);
        }
    }

    private void onRelease(Event.Release event, long now) {
        if (grants.guard(event.guard()) == null) {
            fail(event.op(), closed());
        } else if (isClosing()) {
            closers.add(event.op());
        } else {
            grants.release(event.guard(), event.op(), now);
        }
    }

    private void onRenew(Event.Renew event, long now) {
        Guard guard = grants.guard(event.guard());
        if (guard == null || isClosing()) {
            fail(event.op(), closed());
        } else if (guard.loss != null) {
            fail(event.op(), guard.loss);
        } else {
            Renewals pending = new Renewals();
            renewals.put(event.op(), pending);
            pending.left = grants.renew(event.op(), guard, event.lease(), now);
        }
    }

    /** One of the renewals that a caller asked for has ended; {@code failure} may be null. */
    void onCallerRenewed(long op, Failure failure) {
        Renewals pending = renewals.get(op);
        if (pending == null) {
            return;
        }
        pending.failure = pending.failure == null ? failure : pending.failure;
        pending.left--;
        if (pending.left == 0) {
            renewals.remove(op);
            outbox.add(
                    pending.failure == null
                            ? new Effect.Done(op)
                            : new Effect.Failed(op, pending.failure));
        }
    }

    // --- the end

    boolean isClosing() {
        return closeUntil != Timers.NEVER;
    }

    /** What callers are answered while the session is being closed. */
    Failure closed() {
        return new Failure.SessionEnded("it was closed");
    }

    private void onClose(long op, long now) {
        closers.add(op);
        if (isClosing()) {
            return;
        }
        if (!stream.isEstablished()) {
            end("it was closed", null, now);
            return;
        }
        closeUntil = now + CLOSE_TIMEOUT;
        operations.failAll(closed(), true);
        sendClose();
    }

    private void sendClose() {
        if (stream.canSend()) {
            SessionRequest.Builder frame = SessionRequest.newBuilder();
            outbox.send(frame.setClose(CloseSession.getDefaultInstance()).build());
            stream.onCloseSent();
        }
    }

    /** The session is over. {@code cause} of a session that was never open is what prevented it. */
    private void end(String cause, Failure failure, long now) {
        boolean isConfirmed = stream.isCloseSent() && closeUntil > now || !stream.isEstablished();
        ended = new Failure.SessionEnded(cause);
        if (!stream.isEstablished() && failure != null) {
            ended = failure;
        }
        if (stream.is(Phase.UP) || stream.is(Phase.OPENING)) {
            outbox.add(new Effect.Cancel(stream.id()));
        }
        stream.end();
        operations.failAll(ended, false);
        grants.end(cause, ended, isConfirmed);
        renewals.keySet().forEach(op -> fail(op, ended));
        renewals.clear();
        outbox.add(new Effect.Notice(Effect.Kind.ENDED, cause, null));
        for (long op : closers) {
            outbox.add(isConfirmed ? new Effect.Done(op) : new Effect.Failed(op, ended));
        }
    }
}
