package io.lockkeeper.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.v1.NotGranted;
import io.lockkeeper.v1.NotGrantedReason;
import io.lockkeeper.v1.SessionOpened;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.TryAcquireRequest;
import io.lockkeeper.v1.TryAcquireResponse;
import io.lockkeeper.v1.Waiting;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The table of operations, and what is sent again after a resume. */
final class OperationsTest {

    private static final int UNAVAILABLE = 14;

    private static SessionResponse.Builder notGranted() {
        NotGrantedReason reason = NotGrantedReason.NOT_GRANTED_REASON_WAIT_TIMEOUT;
        return SessionResponse.newBuilder()
                .setNotGranted(NotGranted.newBuilder().setReason(reason));
    }

    @Test
    void anOperationHasARequestIdAndWhatIsLeftOfItsWait() {
        Bench bench = Bench.open();
        bench.start(Bench.acquireOf("a", "o"), 500);
        SessionRequest sent = bench.sent();
        assertEquals("id-1", sent.getAcquire().getRequestId());
        assertEquals(Bench.millis(500), sent.getAcquire().getWaitTimeout());
    }

    @Test
    void waitingDoesNotEndAWait() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.frame(op, SessionResponse.newBuilder().setWaiting(Waiting.getDefaultInstance()));
        assertTrue(bench.notices(Effect.Kind.WAITING));
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        Effect.Granted granted = bench.one(Effect.Granted.class);
        assertEquals(op, granted.op());
        assertEquals(Bench.TOKEN, granted.holdings().get(0).fencingToken());
    }

    @Test
    void anAnswerDuringThePauseBeforeARetryIsIgnored() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.take();
        bench.frame(op, Bench.failed(UNAVAILABLE, "OUTCOME_UNKNOWN"));
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        bench.frame(op, Bench.failed(UNAVAILABLE, "INVALID_NAME"));
        bench.none(Effect.Granted.class);
        bench.none(Effect.Failed.class);
        bench.until(200);
        assertEquals("id-1", bench.sent().getAcquire().getRequestId());
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        assertEquals(op, bench.one(Effect.Granted.class).op());
    }

    @Test
    void theEndOfAWaitIsNotGranted() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.frame(op, notGranted());
        Failure.NotGranted failure =
                assertInstanceOf(
                        Failure.NotGranted.class, bench.one(Effect.Failed.class).failure());
        assertEquals("a", failure.name());
    }

    @Test
    void aTryThatFailsIsNotGranted() {
        Bench bench = Bench.open();
        TryAcquireRequest.Builder request = TryAcquireRequest.newBuilder().setName("a");
        long op = bench.start(SessionRequest.newBuilder().setTryAcquire(request), Timers.NEVER);
        TryAcquireResponse.Builder tried = TryAcquireResponse.newBuilder();
        bench.frame(op, SessionResponse.newBuilder().setTried(tried));
        assertInstanceOf(Failure.NotGranted.class, bench.one(Effect.Failed.class).failure());
    }

    @ParameterizedTest
    @ValueSource(strings = {"STORE_UNAVAILABLE", "DRAINING", "OUTCOME_UNKNOWN"})
    void aTemporaryFailureIsTriedAgainWithTheSameId(String reason) {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        String id = bench.sent().getAcquire().getRequestId();
        bench.frame(op, Bench.failed(UNAVAILABLE, reason));
        bench.none(Effect.Failed.class);
        // 200 ms times a random 0.5 to 1.
        assertEquals(150, bench.wakeAt());
        bench.until(150);
        assertEquals(id, bench.sent().getAcquire().getRequestId());
    }

    @Test
    void patienceEndsWithTheLease() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        while (bench.all(Effect.Failed.class).isEmpty() && bench.now < 2 * Bench.LEASE) {
            bench.take();
            bench.frame(op, Bench.failed(UNAVAILABLE, "STORE_UNAVAILABLE"));
            bench.now += 150;
            if (bench.all(Effect.Failed.class).isEmpty()) {
                bench.step(new Event.Tick());
            }
        }
        assertEquals(Bench.LEASE + 150, bench.now);
    }

    @Test
    void anotherFailureEndsIt() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.frame(op, Bench.failed(3, "INVALID_NAME"));
        Failure.Refused failure =
                assertInstanceOf(Failure.Refused.class, bench.one(Effect.Failed.class).failure());
        assertEquals("INVALID_NAME", failure.reason());
    }

    @Test
    void anUncertainAcquireThatWasReleasedSinceGetsANewId() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        String id = bench.sent().getAcquire().getRequestId();
        bench.resume();
        SessionRequest again = bench.sent();
        assertEquals(id, again.getAcquire().getRequestId());
        bench.frame(op, Bench.failed(Failure.FAILED_PRECONDITION, "NOT_OWNER"));
        assertNotEquals(id, bench.sent().getAcquire().getRequestId());
    }

    @Test
    void anUncertainAcquireThatWasReleasedSinceEndsIfItsCallerHasGone() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.resume();
        bench.step(new Event.Abandon(op));
        bench.take();
        bench.frame(op, Bench.failed(Failure.FAILED_PRECONDITION, "NOT_OWNER"));
        bench.none(Effect.Send.class);
    }

    @Test
    void aCancelIsSentAndALateGrantIsReleased() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.take();
        bench.step(new Event.Abandon(op));
        SessionRequest cancel = bench.sent();
        assertTrue(cancel.hasCancel());
        assertEquals(op, cancel.getOpId());
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        bench.none(Effect.Granted.class);
        assertEquals("a", bench.sent().getRelease().getName());
    }

    @Test
    void whatWasNeverSentIsForgotten() {
        Bench bench = Bench.open();
        bench.broken();
        long op = bench.acquire("a");
        bench.step(new Event.Abandon(op)).until(25);
        bench.take();
        bench.frame(0, Bench.opened());
        bench.none(Effect.Send.class);
    }

    @Test
    void anAbandonedWaitThatMayHoldIsSentAgainAndCancelled() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.broken().step(new Event.Abandon(op)).until(25);
        bench.take();
        bench.frame(0, Bench.opened());
        List<SessionRequest> sent = bench.allSent();
        assertTrue(sent.get(0).hasAcquire());
        assertTrue(sent.get(1).hasCancel());
    }

    @Test
    void aWaitIsSentAgainWithWhatIsLeft() {
        Bench bench = Bench.open();
        bench.start(Bench.acquireOf("a", "o"), 10_000);
        bench.take();
        bench.now = 500;
        bench.resume();
        assertEquals(Bench.millis(9_475), bench.sent().getAcquire().getWaitTimeout());
    }

    @Test
    void permitsThatMayBeHeldAreAcquiredAnew() {
        Bench bench = Bench.open();
        bench.start(Bench.permitsOf("s"), Timers.NEVER);
        String id = bench.sent().getAcquirePermits().getRequestId();
        SessionRequest resume = bench.resume();
        assertEquals(0, resume.getResume().getPermitsCount());
        assertNotEquals(id, bench.sent().getAcquirePermits().getRequestId());
    }

    @Test
    void anAbandonedAcquireOfPermitsIsForgotten() {
        Bench bench = Bench.open();
        long op = bench.start(Bench.permitsOf("s"), Timers.NEVER);
        bench.broken().step(new Event.Abandon(op)).until(25);
        bench.take();
        bench.frame(0, Bench.opened());
        bench.none(Effect.Send.class);
    }

    @Test
    void aLockThatAGuardHoldsIsNoHalfOfASet() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.start(Bench.acquireAllOf("a", "b"), Timers.NEVER);
        String id = bench.sent().getAcquireAll().getRequestId();
        bench.broken().until(25);
        bench.take();
        SessionOpened.Builder opened = Bench.opened().getOpenedBuilder();
        opened.addGrants(Bench.grant("a", "o", Bench.TOKEN));
        bench.frame(0, SessionResponse.newBuilder().setOpened(opened));
        assertEquals(id, bench.sent().getAcquireAll().getRequestId());
    }

    @Test
    void aHalfHeldSetIsReleasedAndAcquiredAnew() {
        Bench bench = Bench.open();
        bench.start(Bench.acquireAllOf("a", "b"), Timers.NEVER);
        String id = bench.sent().getAcquireAll().getRequestId();
        bench.broken().until(25);
        bench.take();
        SessionOpened.Builder opened = Bench.opened().getOpenedBuilder();
        opened.addGrants(Bench.grant("a", "o", 1));
        bench.frame(0, SessionResponse.newBuilder().setOpened(opened));
        List<SessionRequest> sent = bench.allSent();
        assertEquals(2, sent.size());
        assertEquals("a", sent.get(0).getRelease().getName());
        assertFalse(sent.get(0).getRelease().getRequestId().isEmpty());
        assertNotEquals(id, sent.get(1).getAcquireAll().getRequestId());
    }

    @Test
    void anUnknownAnswerAndASecondOneAreIgnored() {
        Bench bench = Bench.open();
        bench.frame(99, Bench.granted("x", "o", 1));
        long op = bench.acquire("a");
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        bench.one(Effect.Granted.class);
    }
}
