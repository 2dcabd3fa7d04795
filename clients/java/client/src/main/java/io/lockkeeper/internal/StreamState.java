package io.lockkeeper.internal;

import static io.lockkeeper.internal.Timers.NEVER;
import static io.lockkeeper.internal.Timers.after;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.lockkeeper.v1.OpenSession;
import io.lockkeeper.v1.Ping;
import io.lockkeeper.v1.ResumeSession;
import io.lockkeeper.v1.SessionOpened;
import io.lockkeeper.v1.SessionRequest;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;

/** The stream of a session: which endpoint it uses, and when it is resumed there or at the next. */
final class StreamState {

    static final long OPEN_TIMEOUT = TimeUnit.SECONDS.toNanos(6);
    static final long RESUME_TIMEOUT_MAX = TimeUnit.SECONDS.toNanos(2);
    static final long FIRST_PAUSE_MAX = TimeUnit.MILLISECONDS.toNanos(50);
    static final long BACKOFF_MIN = TimeUnit.MILLISECONDS.toNanos(50);
    static final long BACKOFF_MAX = TimeUnit.SECONDS.toNanos(1);
    static final long LEAVE_TIMEOUT = TimeUnit.MILLISECONDS.toNanos(500);

    enum Phase {
        UP,
        DOWN,
        OPENING,
        ENDED
    }

    private final List<String> endpoints;
    private final OpenSession open;
    private final DoubleSupplier random;

    private Phase phase = Phase.DOWN;
    private long stream;
    private int endpoint;

    private String sessionId = "";
    private ByteString resumeToken = ByteString.EMPTY;
    private long lease;
    private long pingInterval = NEVER;
    private long renewInterval = NEVER;

    /** Up: when the last frame arrived, when a ping was sent, and when to leave. */
    private long heardAt;
    private long pingedAt = NEVER;
    private long leaveAt = NEVER;
    private boolean isCloseSent;

    /** Down: when to try. Opening: from before anything was sent, and the time limit. */
    private long retryAt;
    private long sentAt;
    private long openUntil;

    /** Failed attempts in a row, and how many of the last ones were refusals. */
    private int failed;
    private int refused;

    /** When the last stream opened, and how many have ended since the last progress. */
    private long openedAt;

    private int fruitless;

    private long resumeDeadline = NEVER;

    /** Why the last attempt failed, or the stream broke; null if neither has happened. */
    private Failure fault;

    StreamState(List<String> endpoints, OpenSession open, DoubleSupplier random) {
        this.endpoints = endpoints;
        this.open = open;
        this.random = random;
    }

    boolean is(Phase expected) {
        return phase == expected;
    }

    /** Whether the session has been opened once. */
    boolean isEstablished() {
        return !sessionId.isEmpty();
    }

    /** Whether new frames may be sent. */
    boolean canSend() {
        return phase == Phase.UP && leaveAt == NEVER && !isCloseSent;
    }

    boolean isCloseSent() {
        return isCloseSent;
    }

    void onCloseSent() {
        isCloseSent = true;
    }

    /** The address of the stream. */
    String address() {
        return endpoints.get(endpoint % endpoints.size());
    }

    /** Why there is no stream, with the address. */
    Failure fault() {
        return fault != null ? fault : unreachable("it has not answered yet");
    }

    Failure unreachable(String cause) {
        return new Failure.Unreachable(address(), cause);
    }

    boolean isCurrent(long id) {
        return stream == id && (phase == Phase.UP || phase == Phase.OPENING);
    }

    long id() {
        return stream;
    }

    long sentAt() {
        return sentAt;
    }

    long lease() {
        return lease;
    }

    /** How old the last renewal of a grant is when the next is due. */
    long renewInterval(long grantLease) {
        return grantLease == lease && renewInterval != NEVER ? renewInterval : grantLease / 10 * 3;
    }

    long wakeAt() {
        return switch (phase) {
            case UP -> Math.min(leaveAt, pingAt());
            case DOWN -> Math.min(retryAt, resumeDeadline);
            case OPENING -> Math.min(openUntil, resumeDeadline);
            case ENDED -> NEVER;
        };
    }

    private long pingAt() {
        boolean mayPing = pingInterval != NEVER && leaveAt == NEVER && !isCloseSent;
        return !mayPing ? NEVER : (pingedAt == NEVER ? heardAt : pingedAt) + pingInterval;
    }

    boolean mustConnect(long now) {
        return phase == Phase.DOWN && retryAt <= now;
    }

    boolean mustLeave(long now) {
        return phase == Phase.UP && leaveAt <= now;
    }

    boolean mustPing(long now) {
        return phase == Phase.UP && pingedAt == NEVER && pingAt() <= now;
    }

    /** Whether a ping was not answered. */
    boolean isSilent(long now) {
        return phase == Phase.UP && pingedAt != NEVER && pingAt() <= now;
    }

    boolean isAttemptLate(long now) {
        return phase == Phase.OPENING && openUntil <= now;
    }

    /** Whether no coordinator was reachable for as long as the lease. */
    boolean isExpired(long now) {
        return resumeDeadline <= now && (phase == Phase.DOWN || phase == Phase.OPENING);
    }

    boolean isGoingAway() {
        return leaveAt != NEVER;
    }

    void onFrame(long now) {
        heardAt = now;
        pingedAt = NEVER;
    }

    SessionRequest ping(long now) {
        pingedAt = now;
        return SessionRequest.newBuilder().setPing(Ping.getDefaultInstance()).build();
    }

    void onGoingAway(long now) {
        if (leaveAt == NEVER) {
            leaveAt = now + LEAVE_TIMEOUT;
        }
    }

    /** Begins an attempt to open or to resume the session. */
    Effect.Connect connect(long now, List<Holding> held) {
        phase = Phase.OPENING;
        stream++;
        sentAt = now;
        openUntil = after(now, isEstablished() ? resumeTimeout() : OPEN_TIMEOUT);
        return new Effect.Connect(stream, endpoint % endpoints.size(), first(held));
    }

    private SessionRequest first(List<Holding> held) {
        SessionRequest.Builder frame = SessionRequest.newBuilder();
        if (!isEstablished()) {
            return frame.setOpen(open).build();
        }
        ResumeSession.Builder resume = ResumeSession.newBuilder();
        resume.setSessionId(sessionId).setResumeToken(resumeToken);
        resume.setSendsPings(true).setSendsClose(true);
        for (Holding holding : held) {
            if (holding.lock() != null) {
                resume.addGrants(holding.lock());
            } else {
                resume.addPermits(holding.permits());
            }
        }
        return frame.setResume(resume).build();
    }

    /** Grows, because a coordinator that many sessions come to at once may need longer. */
    private long resumeTimeout() {
        int round = Math.min(failed / endpoints.size(), 30);
        return Math.min(Math.min(RESUME_TIMEOUT_MAX, lease / 6) << round, lease / 2);
    }

    void onOpened(long now, SessionOpened opened) {
        phase = Phase.UP;
        sessionId = opened.getSessionId();
        resumeToken = opened.getResumeToken();
        lease = Protos.toNanos(opened.getLease());
        pingInterval = interval(opened.hasPingInterval(), opened.getPingInterval());
        renewInterval = interval(opened.hasRenewInterval(), opened.getRenewInterval());
        onFrame(now);
        openedAt = now;
        leaveAt = NEVER;
        failed = 0;
        refused = 0;
        resumeDeadline = NEVER;
    }

    /** An operation was answered. */
    void onProgress() {
        fruitless = 0;
    }

    /** The coordinator replaces the token from time to time. */
    void onResumeToken(ByteString token) {
        resumeToken = token;
    }

    private static long interval(boolean isSet, Duration duration) {
        long nanos = Protos.toNanos(duration);
        return isSet && nanos > 0 ? nanos : NEVER;
    }

    /**
     * The stream broke: the session is resumed at the next endpoint. The pause grows if streams end
     * again and again without progress, which is an answer, or a stream that lasted.
     */
    void onBroken(long now, String cause) {
        phase = Phase.DOWN;
        fault = unreachable(cause);
        endpoint++;
        isCloseSent = false;
        fruitless = now >= openedAt + BACKOFF_MAX ? 1 : fruitless + 1;
        retryAt =
                fruitless == 1
                        ? now + (long) (FIRST_PAUSE_MAX * random.getAsDouble())
                        : now + Math.min(backoff(fruitless - 1), lease / 6);
        if (resumeDeadline == NEVER) {
            resumeDeadline = after(now, lease);
        }
    }

    /** An attempt has failed. Returns whether there will be another. */
    boolean onAttemptFailed(long now, Failure failure) {
        phase = Phase.DOWN;
        boolean hasAddress = failure instanceof Failure.Unreachable;
        fault = hasAddress ? failure : unreachable(failure.describe());
        endpoint++;
        failed++;
        refused = failure.refusesSession() ? refused + 1 : 0;
        if (!isEstablished()) {
            retryAt = now;
            return !failure.isFinal() && failed < endpoints.size();
        }
        retryAt = now + (failed % endpoints.size() == 0 ? backoff(failed / endpoints.size()) : 0);
        return refused < endpoints.size();
    }

    private long backoff(int round) {
        long pause = Math.min(BACKOFF_MIN << Math.min(round - 1, 30), BACKOFF_MAX);
        return (long) (pause * (0.5 + random.getAsDouble() / 2));
    }

    void end() {
        phase = Phase.ENDED;
    }
}
