package io.lockkeeper.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.lockkeeper.v1.LostReason;
import io.lockkeeper.v1.ResumeSession;
import io.lockkeeper.v1.SessionGoingAway;
import io.lockkeeper.v1.SessionOpened;
import io.lockkeeper.v1.SessionResponse;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The table of the stream. */
final class StreamTest {

    private static Failure.Refused refused(int code) {
        return new Failure.Refused(code, "REASON", "because", Map.of(), null);
    }

    private static SessionResponse.Builder goingAway() {
        return SessionResponse.newBuilder().setGoingAway(SessionGoingAway.getDefaultInstance());
    }

    @Test
    void theFirstStreamOpensASession() {
        Bench bench = new Bench();
        bench.step(new Event.Tick());
        Effect.Connect connect = bench.one(Effect.Connect.class);
        assertEquals(0, connect.endpoint());
        assertTrue(connect.first().hasOpen());
        bench.frame(0, Bench.opened());
        assertTrue(bench.notices(Effect.Kind.OPENED));
    }

    @Test
    void openingTriesEachEndpointOnceAndNamesTheLast() {
        Bench bench = new Bench();
        long op = bench.acquire("a");
        bench.step(new Event.StreamEnded(1, new Failure.Unreachable("http://a:1", "refused")));
        assertEquals(1, bench.all(Effect.Connect.class).get(1).endpoint());
        bench.until(6_001);
        Effect.Failed failed = bench.one(Effect.Failed.class);
        assertEquals(op, failed.op());
        assertEquals(new Failure.Unreachable("http://b:2", "it does not answer"), failed.failure());
        assertTrue(bench.machine.isEnded());
    }

    @Test
    void aRefusalEndsTheOpeningAtOnce() {
        Bench bench = new Bench();
        long op = bench.acquire("a");
        bench.step(new Event.StreamEnded(1, refused(Failure.UNAUTHENTICATED)));
        assertEquals(op, bench.one(Effect.Failed.class).op());
        assertInstanceOf(Failure.Refused.class, bench.one(Effect.Failed.class).failure());
    }

    @Test
    void aBrokenStreamIsResumedAtTheNextEndpointAfterAPause() {
        Bench bench = Bench.open();
        bench.now = 100;
        bench.broken();
        assertTrue(bench.notices(Effect.Kind.BROKEN));
        bench.none(Effect.Connect.class);
        assertEquals(125, bench.wakeAt());
        bench.until(125);
        Effect.Connect connect = bench.one(Effect.Connect.class);
        assertEquals(1, connect.endpoint());
        ResumeSession resume = connect.first().getResume();
        assertEquals("s", resume.getSessionId());
        assertEquals("t", resume.getResumeToken().toStringUtf8());
        assertTrue(resume.getSendsPings() && resume.getSendsClose());
    }

    @Test
    void aNewResumeTokenReplacesTheEarlierOne() {
        Bench bench = Bench.open();
        SessionOpened.Builder second = SessionOpened.newBuilder().setSessionId("s");
        second.setResumeToken(ByteString.copyFromUtf8("second"));
        bench.frame(0, SessionResponse.newBuilder().setOpened(second));
        bench.broken();
        bench.until(bench.wakeAt());
        ResumeSession resume = bench.one(Effect.Connect.class).first().getResume();
        assertEquals("second", resume.getResumeToken().toStringUtf8());
    }

    @Test
    void silenceIsBrokenByAPingAndASecondOneEndsTheStream() {
        Bench bench = Bench.open();
        bench.until(Bench.PING - 1);
        bench.none(Effect.Send.class);
        bench.until(Bench.PING);
        assertTrue(bench.sent().hasPing());
        bench.until(2 * Bench.PING);
        bench.one(Effect.Cancel.class);
        String cause = bench.one(Effect.Notice.class).detail();
        assertEquals("http://a:1: no answer to a ping", cause);
    }

    @Test
    void anyFrameIsASignOfLife() {
        Bench bench = Bench.open();
        bench.until(Bench.PING);
        bench.frame(0, SessionResponse.newBuilder());
        bench.take();
        bench.until(2 * Bench.PING - 1);
        bench.none(Effect.Send.class);
        bench.until(2 * Bench.PING);
        assertTrue(bench.sent().hasPing());
    }

    @Test
    void anOlderCoordinatorIsNeverPinged() {
        Bench bench = new Bench();
        bench.step(new Event.Tick());
        SessionOpened.Builder older = Bench.opened().getOpenedBuilder().clearPingInterval();
        bench.frame(0, SessionResponse.newBuilder().setOpened(older));
        bench.take();
        bench.until(100_000);
        bench.none(Effect.Send.class);
    }

    @Test
    void aCoordinatorThatGoesAwayIsLeftAndReceivesNothingNew() {
        Bench bench = Bench.open();
        bench.frame(0, goingAway());
        long op = bench.acquire("a");
        bench.none(Effect.Send.class);
        bench.until(499);
        bench.none(Effect.Cancel.class);
        bench.until(500);
        bench.one(Effect.Cancel.class);
        bench.until(525);
        bench.frame(0, Bench.opened());
        assertEquals(op, bench.sent().getOpId());
    }

    @Test
    void whatIsHeldAndWhatMayBeHeldIsNamed() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.acquire("b");
        bench.broken().until(25);
        var grants = bench.one(Effect.Connect.class).first().getResume().getGrantsList();
        assertEquals(List.of("a", "b"), grants.stream().map(it -> it.getName()).toList());
        assertEquals(Bench.TOKEN, grants.get(0).getFencingToken());
        assertEquals(1, grants.get(1).getHoldCount());
        assertTrue(grants.get(1).getWatched());
    }

    @Test
    void aResumeRenewsFromBeforeItWasSent() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.now = 1_000;
        bench.broken().until(1_025);
        bench.take();
        bench.now = 1_400;
        SessionOpened.Builder opened = Bench.opened().getOpenedBuilder();
        opened.addGrants(Bench.grant("a", "o", Bench.TOKEN));
        bench.frame(0, SessionResponse.newBuilder().setOpened(opened));
        assertTrue(bench.notices(Effect.Kind.RESUMED));
        long validUntil = bench.one(Effect.Valid.class).validUntil();
        assertEquals((1_025 + Bench.LEASE) * 1_000_000, validUntil);
    }

    @Test
    void attemptsHaveNoPauseInsideARoundAndALongerOneAfterEach() {
        Bench bench = Bench.open();
        bench.broken().until(25);
        Failure none = new Failure.Unreachable("http://b:2", "refused");
        bench.take();
        // The random half is half used: 50 ms times 0.75.
        bench.step(new Event.StreamEnded(bench.stream, none));
        assertEquals(0, bench.one(Effect.Connect.class).endpoint());
        bench.take();
        bench.step(new Event.StreamEnded(bench.stream, none));
        bench.none(Effect.Connect.class);
        assertEquals(25 + 38, bench.wakeAt());
        bench.until(25 + 38);
        bench.step(new Event.StreamEnded(bench.stream, none));
        bench.step(new Event.StreamEnded(bench.stream, none));
        assertEquals(bench.now + 75, bench.wakeAt());
    }

    @Test
    void anAttemptToResumeHasATimeLimitThatDoubles() {
        Bench bench = Bench.open();
        bench.broken().until(25);
        long begun = bench.now;
        assertEquals(begun + 2_000, bench.wakeAt());
        bench.until(begun + 2_000);
        assertEquals(begun + 4_000, bench.wakeAt());
        bench.until(begun + 4_038);
        assertEquals(3, bench.all(Effect.Connect.class).size());
        assertEquals(bench.now + 4_000, bench.wakeAt());
    }

    @Test
    void aSessionThatEveryEndpointRefusesHasEnded() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        long op = bench.acquire("b");
        bench.broken().until(25);
        bench.step(new Event.StreamEnded(bench.stream, refused(Failure.NOT_FOUND)));
        assertFalse(bench.machine.isEnded());
        bench.step(new Event.StreamEnded(bench.stream, refused(Failure.NOT_FOUND)));
        Effect.Lost lost = bench.one(Effect.Lost.class);
        assertEquals(guard, lost.guard());
        assertEquals(LostReason.LOST_REASON_UNSPECIFIED, lost.loss().reason());
        assertEquals(op, bench.one(Effect.Failed.class).op());
        assertInstanceOf(Failure.SessionEnded.class, bench.one(Effect.Failed.class).failure());
        assertTrue(bench.notices(Effect.Kind.ENDED));
        assertEquals(Timers.NEVER, bench.machine.wakeAt());
    }

    @Test
    void missingCredentialsAndProxiesAreNoRefusalOfTheSession() {
        Failure noRoute = new Failure.Refused(Failure.UNIMPLEMENTED, "", "", Map.of(), null);
        for (Failure failure : List.of(refused(Failure.UNAUTHENTICATED), noRoute)) {
            Bench bench = Bench.open();
            bench.broken().until(25);
            for (int attempt = 0; attempt < 4; attempt++) {
                bench.step(new Event.StreamEnded(bench.stream, failure)).until(bench.now + 500);
            }
            assertFalse(bench.machine.isEnded());
        }
    }

    @Test
    void theSessionEndsIfNobodyWasReachableForALease() {
        Bench bench = Bench.open();
        bench.now = 1_000;
        bench.broken();
        Failure none = new Failure.Unreachable("http://b:2", "refused");
        while (!bench.machine.isEnded() && bench.now < 100_000) {
            bench.until(bench.wakeAt());
            bench.step(new Event.StreamEnded(bench.stream, none));
        }
        assertEquals(1_000 + Bench.LEASE, bench.now);
        String cause = bench.machine.failure().describe();
        assertTrue(cause.contains("http://b:2: refused"), cause);
    }

    @Test
    void anOlderStreamIsIgnored() {
        Bench bench = Bench.open();
        long old = bench.stream;
        bench.resume();
        bench.take();
        bench.step(new Event.StreamEnded(old, null));
        assertFalse(bench.notices(Effect.Kind.BROKEN));
    }
}
