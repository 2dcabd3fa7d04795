package io.lockkeeper.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.v1.AwaitFreeRequest;
import io.lockkeeper.v1.ClaimRequest;
import io.lockkeeper.v1.ClaimResponse;
import io.lockkeeper.v1.LockFree;
import io.lockkeeper.v1.NotGranted;
import io.lockkeeper.v1.NotGrantedReason;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.Waiting;
import org.junit.jupiter.api.Test;

/** Claims of tickets, and waits until a lock is free. */
final class HandOversTest {

    private static SessionRequest.Builder claimOf(String name) {
        ClaimRequest.Builder claim = ClaimRequest.newBuilder().setName(name).setOwner("o");
        return SessionRequest.newBuilder().setClaim(claim.setTicket("t"));
    }

    private static SessionResponse.Builder claimed(String name) {
        ClaimResponse.Builder answer = ClaimResponse.newBuilder();
        answer.setGrant(Bench.grant(name, "o", Bench.TOKEN));
        return SessionResponse.newBuilder().setClaimed(answer);
    }

    private static SessionRequest.Builder freeOf(String name) {
        AwaitFreeRequest.Builder request = AwaitFreeRequest.newBuilder().setName(name);
        return SessionRequest.newBuilder().setAwaitFree(request);
    }

    @Test
    void aClaimedGrantIsHeldAndRenewed() {
        Bench bench = Bench.open();
        long op = bench.start(claimOf("a"), Timers.NEVER);
        assertEquals("t", bench.sent().getClaim().getTicket());
        bench.frame(op, claimed("a"));
        assertEquals(op, bench.one(Effect.Granted.class).op());
        bench.take();
        bench.until(Bench.RENEW);
        assertTrue(bench.allSent().stream().anyMatch(it -> it.getRenew().getName().equals("a")));
    }

    @Test
    void whatIsClaimedForNobodyIsReleased() {
        Bench bench = Bench.open();
        long op = bench.start(claimOf("a"), Timers.NEVER);
        bench.step(new Event.Abandon(op)).take();
        bench.frame(op, claimed("a"));
        bench.none(Effect.Granted.class);
        assertEquals("a", bench.sent().getRelease().getName());
    }

    @Test
    void aClaimIsRepeatedAfterAResumeThatDoesNotNameIt() {
        Bench bench = Bench.open();
        long op = bench.start(claimOf("a"), Timers.NEVER);
        assertEquals(0, bench.resume().getResume().getGrantsCount());
        assertEquals("t", bench.sent().getClaim().getTicket());
        bench.frame(op, Bench.failed(9, "TICKET_REFUSED", "over"));
        Failure failure = bench.one(Effect.Failed.class).failure();
        assertEquals("TICKET_REFUSED: because", failure.describe());
    }

    @Test
    void aWaitUntilALockIsFreeHasALimitAndIsCancelled() {
        Bench bench = Bench.open();
        long op = bench.start(freeOf("a"), 100);
        assertEquals(Bench.millis(100), bench.sent().getAwaitFree().getWaitTimeout());
        Waiting waiting = Waiting.newBuilder().setHolderRemainingLease(Bench.millis(7)).build();
        bench.frame(op, SessionResponse.newBuilder().setWaiting(waiting));
        assertEquals("a", bench.one(Effect.Notice.class).detail());
        bench.take();
        bench.step(new Event.Abandon(op));
        assertTrue(bench.sent().hasCancel());
    }

    @Test
    void aWaitUntilALockIsFreeEnds() {
        Bench bench = Bench.open();
        long free = bench.start(freeOf("a"), Timers.NEVER);
        long held = bench.start(freeOf("b"), 100);
        bench.take();
        bench.frame(free, SessionResponse.newBuilder().setLockFree(LockFree.newBuilder()));
        assertEquals(free, bench.one(Effect.Answered.class).op());
        NotGrantedReason timeout = NotGrantedReason.NOT_GRANTED_REASON_WAIT_TIMEOUT;
        NotGranted.Builder ended = NotGranted.newBuilder().setReason(timeout);
        bench.frame(held, SessionResponse.newBuilder().setNotGranted(ended));
        var failure = (Failure.NotGranted) bench.one(Effect.Failed.class).failure();
        assertEquals("b", failure.name());
    }
}
