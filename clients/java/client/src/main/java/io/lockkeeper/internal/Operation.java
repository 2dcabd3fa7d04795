package io.lockkeeper.internal;

import static io.lockkeeper.internal.Timers.NEVER;

import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.SessionRequest;
import java.time.Duration;
import java.util.List;
import java.util.Locale;

/** An operation without an answer. */
final class Operation {

    /** What the answer is for. */
    enum Purpose {
        /** A caller. */
        CALLER,
        /** A caller's renewal of a guard; the subject is the caller's operation. */
        CALLER_RENEWAL,
        /** The renewal of a grant, which is the subject. */
        RENEWAL,
        /** The release of what a guard holds, which is the subject. */
        RELEASE,
        /** The release of what was granted after its caller gave up, or of what was lost. */
        LATE_RELEASE,
        /** The release of some of several locks. A resume that does not name them repeats it. */
        CLEANUP
    }

    final long id;
    final Purpose purpose;
    final long subject;

    /** Of a renewal: the fencing token of what it renews. */
    final long token;

    private SessionRequest request;
    private long waitUntil = NEVER;
    private long patience = NEVER;

    /** From before it was sent on this stream. */
    private long sentAt = NEVER;

    private boolean uncertain;
    private boolean abandoned;
    private long failingSince = NEVER;

    Operation(long id, Purpose purpose, long subject, long token, SessionRequest request) {
        this.id = id;
        this.purpose = purpose;
        this.subject = subject;
        this.token = token;
        this.request = request;
    }

    static Operation of(Event.Start start, String requestId) {
        SessionRequest request = Requests.withRequestId(start.request(), requestId);
        Operation operation = new Operation(start.op(), Purpose.CALLER, 0, 0, request);
        operation.waitUntil = start.waitUntil();
        operation.patience = start.patience();
        return operation;
    }

    /** The frame to send now. */
    SessionRequest send(long now) {
        sentAt = now;
        return frame(now);
    }

    private SessionRequest frame(long now) {
        SessionRequest frame = request;
        if (waitUntil != NEVER) {
            Duration left = Duration.ofNanos(Math.max(0, waitUntil - now));
            frame = Requests.withWaitLimit(frame, Protos.toProto(left));
        }
        return frame.toBuilder().setOpId(id).build();
    }

    /** Why no coordinator with this limit takes it; null if it fits. */
    Failure tooLarge(long bytesMax, long now) {
        long bytes = frame(now).getSerializedSize();
        if (bytes <= bytesMax) {
            return null;
        }
        String kind = request.getRequestCase().name().toLowerCase(Locale.ROOT);
        String problem = kind + " has " + bytes + " bytes, the limit is " + bytesMax;
        return new Failure.Misconfigured("request: " + problem);
    }

    boolean isSent() {
        return sentAt != NEVER;
    }

    /** From before it was sent on this stream. Another answer is a repeat, and is ignored. */
    long sentAt() {
        return sentAt;
    }

    /** When its wait ends; never if it has no limit. */
    long waitUntil() {
        return waitUntil;
    }

    /** What waits for no holder does not wait for long while nothing answers, either. */
    void limit(long now) {
        boolean isShort = acquires() && !waits() || Requests.asks(request);
        if (waitUntil == NEVER && isShort) {
            long least = StreamState.OPEN_TIMEOUT;
            waitUntil = Timers.after(now, patience == NEVER ? least : Math.max(least, patience));
        }
    }

    /** Whether it pauses after a failure, and its caller waits no longer. */
    boolean isLate(long now) {
        return isAwaited() && !isSent() && waitUntil <= now;
    }

    boolean isUncertain() {
        return uncertain;
    }

    boolean isAbandoned() {
        return abandoned;
    }

    /** Whether its caller still waits for the answer. */
    boolean isAwaited() {
        return purpose == Purpose.CALLER && !abandoned;
    }

    boolean waits() {
        return Requests.waits(request);
    }

    boolean acquires() {
        return Requests.acquires(request);
    }

    /** Whether it may have acquired permits, whose ids only the answer contains. */
    boolean mayHoldPermits() {
        return uncertain && acquires() && possibleGrants().isEmpty();
    }

    String name() {
        return Requests.name(request);
    }

    /** The locks that it may hold already, so that a resume confirms them. */
    List<Grant> possibleGrants() {
        return uncertain ? Requests.locks(request) : List.of();
    }

    /** The grant that it renews, without what only the coordinator knows. */
    Holding renewedHolding() {
        return Requests.renewed(request);
    }

    void abandon() {
        abandoned = true;
    }

    void onStreamEnded() {
        uncertain |= isSent();
        sentAt = NEVER;
        // The next coordinator may not fail.
        failingSince = NEVER;
    }

    /** Makes it a new operation to the coordinator. */
    void startAnew(String requestId) {
        uncertain = false;
        request = Requests.withRequestId(request, requestId);
    }

    /** Whether it may succeed when it is sent again; it is uncertain then. */
    boolean retries(Failure.Refused failure, long now, long lease) {
        long limit =
                switch (failure.reason()) {
                    case "DRAINING" -> lease;
                    case "STORE_UNAVAILABLE", "OUTCOME_UNKNOWN" -> Math.min(patience, lease);
                    default -> 0;
                };
        long since = Math.min(failingSince, now);
        if (purpose == Purpose.RENEWAL || purpose == Purpose.CLEANUP || now - since >= limit) {
            return false;
        }
        failingSince = since;
        uncertain = true;
        sentAt = NEVER;
        return true;
    }
}
