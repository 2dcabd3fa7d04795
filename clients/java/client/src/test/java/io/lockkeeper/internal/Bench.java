package io.lockkeeper.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.rpc.ErrorInfo;
import com.google.rpc.Status;
import io.lockkeeper.v1.AcquireAllRequest;
import io.lockkeeper.v1.AcquirePermitsRequest;
import io.lockkeeper.v1.AcquireRequest;
import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.LockMode;
import io.lockkeeper.v1.LockSpec;
import io.lockkeeper.v1.OpenSession;
import io.lockkeeper.v1.RenewResponse;
import io.lockkeeper.v1.SessionOpened;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A machine with two endpoints, a lease of 30 s and a clock that the test sets. */
final class Bench {

    static final long LEASE = 30_000;
    static final long PING = 5_000;
    static final long RENEW = 9_000;
    static final long TOKEN = (1L << 60) + 7;

    private final AtomicInteger requestIds = new AtomicInteger();

    /** In the middle of every random pause. */
    final SessionMachine machine =
            new SessionMachine(
                    List.of("http://a:1", "http://b:2"),
                    OpenSession.getDefaultInstance(),
                    () -> "id-" + requestIds.incrementAndGet(),
                    () -> 0.5);

    /** Milliseconds. */
    long now;

    /** The effects since they were last taken. */
    private List<Effect> effects = new ArrayList<>();

    /** The stream of the last {@link Effect.Connect}. */
    long stream;

    private long lastOp;

    /** A machine whose session is open. */
    static Bench open() {
        Bench bench = new Bench();
        bench.step(new Event.Tick());
        assertTrue(bench.one(Effect.Connect.class).first().hasOpen());
        bench.frame(0, opened());
        bench.take();
        return bench;
    }

    Bench step(Event event) {
        effects.addAll(machine.step(event, TimeUnit.MILLISECONDS.toNanos(now)));
        for (Effect effect : effects) {
            if (effect instanceof Effect.Connect connect) {
                stream = connect.stream();
            }
        }
        return this;
    }

    /** Lets time pass, timer by timer. */
    Bench until(long millis) {
        while (wakeAt() <= millis) {
            now = Math.max(now, wakeAt());
            step(new Event.Tick());
        }
        now = millis;
        return this;
    }

    /** The next timer, in milliseconds. */
    long wakeAt() {
        long nanos = machine.wakeAt();
        return nanos == Timers.NEVER ? Timers.NEVER : (nanos + 999_999) / 1_000_000;
    }

    Bench frame(long op, SessionResponse.Builder frame) {
        return step(new Event.Frame(stream, frame.setOpId(op).build()));
    }

    Bench broken() {
        return step(new Event.StreamEnded(stream, new Failure.Unreachable("http://a:1", "reset")));
    }

    /** Breaks the stream and lets the next endpoint confirm what it is asked for. */
    SessionRequest resume() {
        broken().until(now + 25);
        SessionRequest first = one(Effect.Connect.class).first();
        SessionOpened.Builder opened = opened().getOpened().toBuilder();
        for (Grant grant : first.getResume().getGrantsList()) {
            opened.addGrants(grant.toBuilder().setLease(millis(LEASE)).setValidFor(millis(LEASE)));
        }
        take();
        frame(0, SessionResponse.newBuilder().setOpened(opened));
        return first;
    }

    // --- effects

    <T extends Effect> List<T> all(Class<T> kind) {
        return effects.stream().filter(kind::isInstance).map(kind::cast).toList();
    }

    <T extends Effect> T one(Class<T> kind) {
        List<T> found = all(kind);
        assertEquals(1, found.size(), () -> kind.getSimpleName() + " in " + effects);
        return found.get(0);
    }

    <T extends Effect> void none(Class<T> kind) {
        assertTrue(all(kind).isEmpty(), () -> kind.getSimpleName() + " in " + effects);
    }

    /** The frame that was sent since the effects were last taken. */
    SessionRequest sent() {
        SessionRequest frame = one(Effect.Send.class).frame();
        take();
        return frame;
    }

    List<SessionRequest> allSent() {
        List<SessionRequest> frames =
                all(Effect.Send.class).stream().map(it -> it.frame()).toList();
        take();
        return frames;
    }

    void take() {
        effects = new ArrayList<>();
    }

    boolean notices(Effect.Kind kind) {
        return all(Effect.Notice.class).stream().anyMatch(it -> it.kind() == kind);
    }

    // --- callers

    long start(SessionRequest.Builder request, long waitMillis) {
        lastOp += 2;
        long until =
                waitMillis == Timers.NEVER
                        ? Timers.NEVER
                        : TimeUnit.MILLISECONDS.toNanos(now + waitMillis);
        step(new Event.Start(lastOp, request.build(), until, Timers.NEVER));
        return lastOp;
    }

    long acquire(String name) {
        return start(acquireOf(name, "o"), Timers.NEVER);
    }

    /** A guard of a watched grant; returns its id. */
    long held(String name) {
        long op = acquire(name);
        frame(op, granted(name, "o", TOKEN));
        long guard = one(Effect.Granted.class).guard();
        take();
        return guard;
    }

    long release(long guard) {
        lastOp += 2;
        step(new Event.Release(lastOp, guard));
        return lastOp;
    }

    long renew(long guard, java.time.Duration lease) {
        lastOp += 2;
        step(new Event.Renew(lastOp, guard, lease));
        return lastOp;
    }

    long close() {
        lastOp += 2;
        step(new Event.Close(lastOp));
        return lastOp;
    }

    // --- messages

    static Duration millis(long millis) {
        return Protos.toProto(java.time.Duration.ofMillis(millis));
    }

    static SessionResponse.Builder opened() {
        return SessionResponse.newBuilder()
                .setOpened(
                        SessionOpened.newBuilder()
                                .setSessionId("s")
                                .setResumeToken(ByteString.copyFromUtf8("t"))
                                .setLease(millis(LEASE))
                                .setPingInterval(millis(PING))
                                .setRenewInterval(millis(RENEW)));
    }

    static SessionRequest.Builder acquireOf(String name, String owner) {
        AcquireRequest.Builder acquire = AcquireRequest.newBuilder().setName(name);
        return SessionRequest.newBuilder().setAcquire(acquire.setOwner(owner));
    }

    static SessionRequest.Builder acquireAllOf(String... names) {
        AcquireAllRequest.Builder acquire = AcquireAllRequest.newBuilder().setOwner("o");
        for (String name : names) {
            LockMode mode = LockMode.LOCK_MODE_EXCLUSIVE;
            acquire.addLocks(LockSpec.newBuilder().setName(name).setMode(mode));
        }
        return SessionRequest.newBuilder().setAcquireAll(acquire);
    }

    static SessionRequest.Builder permitsOf(String name) {
        AcquirePermitsRequest.Builder acquire = AcquirePermitsRequest.newBuilder();
        return SessionRequest.newBuilder()
                .setAcquirePermits(acquire.setName(name).setOwner("o").setPermits(1));
    }

    static Grant.Builder grant(String name, String owner, long token) {
        return Grant.newBuilder()
                .setName(name)
                .setOwner(owner)
                .setMode(LockMode.LOCK_MODE_EXCLUSIVE)
                .setHoldCount(1)
                .setFencingToken(token)
                .setLease(millis(LEASE))
                .setValidFor(millis(LEASE))
                .setWatched(true);
    }

    static SessionResponse.Builder granted(String name, String owner, long token) {
        return SessionResponse.newBuilder().setGranted(grant(name, owner, token));
    }

    static SessionResponse.Builder renewed(Grant.Builder grant) {
        return SessionResponse.newBuilder()
                .setRenewed(RenewResponse.newBuilder().setGrant(grant));
    }

    static SessionResponse.Builder failed(int code, String reason, String... state) {
        ErrorInfo.Builder info = ErrorInfo.newBuilder().setReason(reason).setDomain("lockkeeper");
        if (state.length > 0) {
            info.putMetadata("state", state[0]);
        }
        return SessionResponse.newBuilder()
                .setFailed(
                        Status.newBuilder()
                                .setCode(code)
                                .setMessage("because")
                                .addDetails(Any.pack(info.build())));
    }
}
