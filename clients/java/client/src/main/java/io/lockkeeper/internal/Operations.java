package io.lockkeeper.internal;

import io.lockkeeper.internal.Operation.Purpose;
import io.lockkeeper.v1.CancelOperation;
import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.SessionRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Predicate;

/** The operations without an answer, sent or to be sent. */
final class Operations {

    /** The pause before an operation is sent again, if the coordinator names no other. */
    static final long RETRY_PAUSE = TimeUnit.MILLISECONDS.toNanos(200);

    /** A coordinator with default settings ends the stream after a larger request. */
    private static final long BYTES_MAX = 1024 * 1024;

    private final Map<Long, Operation> byId = new LinkedHashMap<>();

    /** When to send an operation again or, while there is no stream, when to end its wait. */
    private final Timers timers = new Timers();

    private final Outbox outbox;

    /** The largest request that is sent. */
    private long bytesMax = BYTES_MAX;

    Operations(Outbox outbox) {
        this.outbox = outbox;
    }

    /** Starts an operation: sends it now, or when the stream is next up. */
    void start(Operation operation, long now) {
        byId.put(operation.id, operation);
        send(operation, now);
    }

    /** Starts an operation of the machine itself. */
    void start(Purpose purpose, long subject, SessionRequest request, long now) {
        SessionRequest repeatable = Requests.withRequestId(request, outbox.newRequestId());
        start(new Operation(outbox.newId(), purpose, subject, 0, repeatable), now);
    }

    /** Starts the renewal of a grant that has this fencing token. */
    void startRenewal(Purpose purpose, long subject, Holding held, Duration lease, long now) {
        long token = held.fencingToken();
        SessionRequest renewal = held.renewal(lease);
        start(new Operation(outbox.newId(), purpose, subject, token, renewal), now);
    }

    /** Starts an operation of a caller. */
    void startForCaller(Operation operation, long now) {
        if (outbox.isEstablished()) {
            operation.limit(now);
        }
        Failure tooLarge = operation.tooLarge(bytesMax, now);
        if (tooLarge != null) {
            outbox.add(new Effect.Failed(operation.id, tooLarge));
            return;
        }
        start(operation, now);
        // A limit of 0 means to try, for which a new session is opened first.
        if (!outbox.isUp() && (outbox.isEstablished() || operation.waitUntil() > now)) {
            limitWait(operation);
        }
    }

    /** Ends a wait in time while there is no stream. On a stream, the coordinator does it. */
    private void limitWait(Operation operation) {
        timers.set(operation.id, operation.isAbandoned() ? Timers.NEVER : operation.waitUntil());
    }

    private void send(Operation operation, long now) {
        if (!outbox.canSend()) {
            return;
        }
        timers.remove(operation.id);
        outbox.send(operation.send(now));
        if (operation.isAbandoned()) {
            cancel(operation);
        }
    }

    private void cancel(Operation operation) {
        if (operation.waits() && operation.isSent() && outbox.canSend()) {
            SessionRequest.Builder cancel = SessionRequest.newBuilder().setOpId(operation.id);
            outbox.send(cancel.setCancel(CancelOperation.getDefaultInstance()).build());
        }
    }

    Operation get(long id) {
        return byId.get(id);
    }

    /** Takes the operation that is answered; null if it is not known. */
    Operation take(long id) {
        timers.remove(id);
        return byId.remove(id);
    }

    /** The caller no longer waits. What is granted nevertheless is released. */
    void abandon(long id) {
        Operation operation = byId.get(id);
        if (operation == null) {
            return;
        }
        operation.abandon();
        if (!operation.isSent() && !operation.isUncertain()) {
            take(id);
        } else {
            cancel(operation);
        }
    }

    /** An operation has failed. Returns it, or null if it is sent again. */
    Operation onFailed(long id, Failure.Refused failure, long lease, long now) {
        Operation operation = byId.get(id);
        if (operation == null) {
            return null;
        }
        // Then it had been granted and released since.
        boolean isReleased = operation.isUncertain() && failure.isNotOwner();
        if (operation.acquires() && isReleased && !operation.isAbandoned()) {
            operation.startAnew(outbox.newRequestId());
            send(operation, now);
            return null;
        }
        if (operation.retries(failure, now, lease)) {
            long pause =
                    failure.retryDelay() == null
                            ? RETRY_PAUSE
                            : Protos.saturated(failure.retryDelay());
            timers.set(id, Timers.after(now, outbox.jittered(pause)));
            return null;
        }
        return take(id);
    }

    /** What was sent may have been executed. Renewals start anew. */
    void onStreamEnded() {
        byId.values()
                .removeIf(it -> it.purpose == Purpose.RENEWAL || it.purpose == Purpose.CLEANUP);
        for (Operation operation : byId.values()) {
            operation.onStreamEnded();
            limitWait(operation);
        }
    }

    /**
     * The coordinator has ended the stream because of a larger request, which would end the next.
     * {@code end} receives what is larger, and why it fails.
     */
    void limitRequests(long limit, long now, BiConsumer<Operation, Failure> end) {
        bytesMax = Math.min(limit, bytesMax);
        for (Operation operation : List.copyOf(byId.values())) {
            Failure tooLarge = operation.tooLarge(bytesMax, now);
            if (tooLarge != null) {
                take(operation.id);
                end.accept(operation, tooLarge);
            }
        }
    }

    /** The locks that operations may have acquired when the stream broke. */
    List<Grant> possibleGrants() {
        return byId.values().stream().flatMap(it -> it.possibleGrants().stream()).toList();
    }

    /**
     * Sends everything on a resumed stream, with the same request ids. Two kinds start anew:
     * permits, which cannot be named in a resume, and several locks of which only some are held;
     * those are released. Locks that a guard of the same owner holds do not count.
     */
    void onResumed(Collection<Holding> held, Predicate<Holding> isGuarded, long now) {
        byId.values().removeIf(it -> it.isAbandoned() && it.mayHoldPermits());
        Set<String> heldKeys = new HashSet<>();
        held.forEach(it -> heldKeys.addAll(it.keys()));
        List<Holding> partial = new ArrayList<>();
        for (Operation operation : byId.values()) {
            List<Holding> possible =
                    Holding.ofLocks(operation.possibleGrants()).stream()
                            .filter(isGuarded.negate())
                            .toList();
            List<Holding> confirmed =
                    possible.stream().filter(it -> heldKeys.containsAll(it.keys())).toList();
            boolean isPartial = !confirmed.isEmpty() && confirmed.size() < possible.size();
            if (isPartial) {
                partial.addAll(confirmed);
            }
            if (isPartial || operation.mayHoldPermits()) {
                operation.startAnew(outbox.newRequestId());
            }
        }
        for (Holding holding : partial) {
            start(Purpose.CLEANUP, 0, Holding.release(List.of(holding)), now);
        }
        sendUnsent(now);
    }

    private void sendUnsent(long now) {
        for (Operation operation : byId.values()) {
            if (!operation.isSent()) {
                send(operation, now);
            }
        }
    }

    long wakeAt() {
        return timers.next();
    }

    /** Sends again what has paused for long enough, or ends waits whose limit has passed. */
    void meetDue(long now) {
        for (long id = timers.popDue(now); id >= 0; id = timers.popDue(now)) {
            Operation operation = byId.get(id);
            if (operation != null && !outbox.isUp()) {
                outbox.add(new Effect.Failed(id, outbox.fault()));
                abandon(id);
            } else if (operation != null && !operation.isSent()) {
                send(operation, now);
            }
        }
    }

    /** Fails the operations of callers: their waits, or all of them. */
    void failAll(Failure failure, boolean onlyWaits) {
        for (Operation operation : List.copyOf(byId.values())) {
            if (operation.isAwaited() && (!onlyWaits || operation.waits())) {
                outbox.add(new Effect.Failed(operation.id, failure));
                abandonSilently(operation);
            }
        }
    }

    private void abandonSilently(Operation operation) {
        operation.abandon();
        if (!operation.isSent() && !operation.isUncertain()) {
            take(operation.id);
        }
    }

}
