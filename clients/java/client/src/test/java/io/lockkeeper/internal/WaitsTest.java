package io.lockkeeper.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.v1.DescribeLatchRequest;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.TryAcquireRequest;
import java.util.List;
import org.junit.jupiter.api.Test;

/** A wait limit that passes while no stream is open ends the wait in the client. */
final class WaitsTest {

    private static final Failure RESET = new Failure.Unreachable("http://a:1", "reset");

    private static long acquire(Bench bench, long limit) {
        return bench.start(Bench.acquireOf("a", "o"), limit);
    }

    private static void assertEnded(Bench bench, long op, Failure failure) {
        assertEquals(new Effect.Failed(op, failure), bench.one(Effect.Failed.class));
        bench.take();
    }

    @Test
    void itEndsAndIsNeverSent() {
        Bench bench = Bench.open().broken();
        long op = acquire(bench, 300);
        bench.until(25);
        Failure refused = new Failure.Unreachable("http://b:2", "connection refused");
        bench.step(new Event.StreamEnded(bench.stream, refused)).until(299);
        bench.none(Effect.Failed.class);
        bench.until(300);
        assertEnded(bench, op, refused);
        bench.frame(0, Bench.opened());
        bench.none(Effect.Send.class);
    }

    @Test
    void aRefusalIsNamedWithItsAddress() {
        Bench bench = Bench.open().broken();
        long op = acquire(bench, 100);
        bench.until(25);
        Failure refused = new Failure.Refused(16, "UNAUTHENTICATED", "no", java.util.Map.of(), null);
        bench.step(new Event.StreamEnded(bench.stream, refused)).until(100);
        assertEnded(bench, op, new Failure.Unreachable("http://b:2", "UNAUTHENTICATED: no"));
    }

    @Test
    void whatMayBeGrantedIsCancelledAndReleased() {
        Bench bench = Bench.open();
        long op = acquire(bench, 300);
        String requestId = bench.sent().getAcquire().getRequestId();
        bench.broken().until(25);
        assertEquals(1, bench.one(Effect.Connect.class).first().getResume().getGrantsCount());
        bench.until(300);
        assertEnded(bench, op, RESET);
        SessionResponse.Builder opened = Bench.opened();
        opened.getOpenedBuilder().addGrants(Bench.grant("a", "o", Bench.TOKEN));
        bench.frame(0, opened);
        List<SessionRequest> sent = bench.allSent();
        assertEquals(requestId, sent.get(0).getAcquire().getRequestId());
        assertTrue(sent.get(1).hasCancel());
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        bench.none(Effect.Granted.class);
        assertEquals("a", bench.sent().getRelease().getName());
    }

    @Test
    void theCoordinatorDecidesWhileTheStreamIsOpen() {
        Bench bench = Bench.open();
        long op = acquire(bench, 100);
        bench.until(200);
        bench.none(Effect.Failed.class);
        bench.broken();
        assertEnded(bench, op, RESET);
    }

    @Test
    void theCoordinatorDecidesAfterAResumeInTime() {
        Bench bench = Bench.open();
        acquire(bench, 100);
        bench.resume();
        bench.until(1_000);
        bench.none(Effect.Failed.class);
    }

    @Test
    void aSilentStreamOverrunsItByTwoPings() {
        Bench bench = Bench.open();
        long op = acquire(bench, 100);
        bench.until(2 * Bench.PING);
        assertEnded(bench, op, new Failure.Unreachable("http://a:1", "no answer to a ping"));
    }

    @Test
    void itReplacesThePauseBeforeARetryWhenTheStreamEnds() {
        Bench bench = Bench.open();
        long op = acquire(bench, 20);
        bench.frame(op, Bench.failed(14, "STORE_UNAVAILABLE"));
        bench.broken().until(20);
        assertEnded(bench, op, RESET);
    }

    @Test
    void itCoversTheOpeningOfTheSessionButALimitOfZeroWaitsForIt() {
        Bench bench = new Bench();
        bench.step(new Event.Tick());
        long op = acquire(bench, 100);
        long attempt = bench.start(Bench.acquireOf("b", "o"), 0);
        bench.until(100);
        assertEnded(bench, op, new Failure.Unreachable("http://a:1", "it has not answered yet"));
        bench.frame(0, Bench.opened());
        assertEquals(attempt, bench.sent().getOpId());
    }

    @Test
    void aLimitOfZeroEndsAtOnceWhileASessionIsResumed() {
        Bench bench = Bench.open().broken();
        bench.take();
        assertEnded(bench, acquire(bench, 0), RESET);
    }

    private static SessionRequest.Builder attempt() {
        return SessionRequest.newBuilder()
                .setTryAcquire(TryAcquireRequest.newBuilder().setName("a").setOwner("o"));
    }

    @Test
    void aTryAndAQuestionWithoutALimitLast6SecondsWhileASessionIsResumed() {
        SessionRequest.Builder question = SessionRequest.newBuilder();
        question.setDescribeLatch(DescribeLatchRequest.newBuilder().setName("a"));
        for (SessionRequest.Builder request : List.of(attempt(), question)) {
            Bench bench = Bench.open().broken();
            bench.start(request, Timers.NEVER);
            bench.until(5_999);
            bench.none(Effect.Failed.class);
            bench.until(6_000);
            Failure failure = bench.one(Effect.Failed.class).failure();
            assertInstanceOf(Failure.Unreachable.class, failure);
        }
    }

    @Test
    void aTryWithoutALimitWaitsForEachEndpointOfANewSession() {
        Bench bench = new Bench();
        bench.step(new Event.Tick());
        long op = bench.start(attempt(), Timers.NEVER);
        bench.until(6_000);
        bench.none(Effect.Failed.class);
        bench.frame(0, Bench.opened());
        assertEquals(op, bench.sent().getOpId());
    }

    @Test
    void aFailureAfterItEndsItAndALateGrantIsReleased() {
        Bench bench = Bench.open();
        long op = bench.start(attempt(), 100);
        bench.frame(op, Bench.failed(14, "OUTCOME_UNKNOWN"));
        bench.none(Effect.Failed.class);
        bench.until(150);
        bench.frame(op, Bench.failed(14, "STORE_UNAVAILABLE"));
        assertInstanceOf(Failure.Refused.class, bench.one(Effect.Failed.class).failure());
        bench.until(300);
        bench.take();
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        assertEquals("a", bench.sent().getRelease().getName());
    }
}
