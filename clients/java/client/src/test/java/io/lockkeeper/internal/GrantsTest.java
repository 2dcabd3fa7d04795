package io.lockkeeper.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.GrantLost;
import io.lockkeeper.v1.GrantedAll;
import io.lockkeeper.v1.LostReason;
import io.lockkeeper.v1.PermitGrant;
import io.lockkeeper.v1.PermitsLost;
import io.lockkeeper.v1.Pong;
import io.lockkeeper.v1.ReleaseAllResponse;
import io.lockkeeper.v1.ReleaseResponse;
import io.lockkeeper.v1.ReleasedLock;
import io.lockkeeper.v1.SessionAtRisk;
import io.lockkeeper.v1.SessionRecovered;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The table of grants. */
final class GrantsTest {

    private static SessionResponse.Builder lost(String name, long token, LostReason reason) {
        GrantLost.Builder notice = GrantLost.newBuilder().setReason(reason).setDetail("detail");
        return SessionResponse.newBuilder().setLost(notice.setGrant(Bench.grant(name, "o", token)));
    }

    private static SessionResponse.Builder released() {
        ReleaseResponse.Builder released = ReleaseResponse.newBuilder().setReleased(true);
        return SessionResponse.newBuilder().setReleased(released);
    }

    private static SessionResponse.Builder renewed() {
        return Bench.renewed(Bench.grant("a", "o", Bench.TOKEN));
    }

    @Test
    void validityCountsFromTheRequest() {
        Bench bench = Bench.open();
        bench.now = 1_000;
        long op = bench.acquire("a");
        bench.now = 4_000;
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        assertEquals(31_000_000_000L, bench.one(Effect.Granted.class).validUntil());
    }

    @Test
    void aGrantIsRenewedAtTheIntervalFromTheRequest() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.until(Bench.RENEW - 1);
        bench.allSent();
        bench.until(Bench.RENEW);
        SessionRequest renewal = bench.sent();
        assertEquals("a", renewal.getRenew().getName());
        assertFalse(renewal.getRenew().hasLease());
        bench.now += 600;
        bench.frame(renewal.getOpId(), renewed());
        long validUntil = bench.one(Effect.Valid.class).validUntil();
        assertEquals((Bench.RENEW + Bench.LEASE) * 1_000_000, validUntil);
        bench.take();
        bench.until(2 * Bench.RENEW);
        assertTrue(bench.allSent().stream().anyMatch(SessionRequest::hasRenew));
    }

    @Test
    void aGrantWithAnotherLeaseIsRenewedAtThreeTenthsOfIt() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        Grant.Builder grant = Bench.grant("a", "o", 1).setLease(Bench.millis(10_000));
        grant.setValidFor(Bench.millis(10_000));
        bench.frame(op, SessionResponse.newBuilder().setGranted(grant));
        bench.take();
        bench.until(2_999);
        bench.none(Effect.Send.class);
        bench.until(3_000);
        assertTrue(bench.sent().hasRenew());
    }

    @Test
    void aLeaseOfTheRequestIsNotRenewedAndEnds() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        Grant.Builder grant = Bench.grant("a", "o", 1).setWatched(false);
        grant.setLease(Bench.millis(2_000)).setValidFor(Bench.millis(2_000));
        bench.frame(op, SessionResponse.newBuilder().setGranted(grant));
        bench.take();
        bench.until(2_000);
        bench.none(Effect.Send.class);
        LostReason reason = bench.one(Effect.Lost.class).loss().reason();
        assertEquals(LostReason.LOST_REASON_EXPIRED, reason);
    }

    @Test
    void aLateGrantIsDeliveredWhenARenewalConfirmsIt() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.take();
        bench.now = 10_001;
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        bench.none(Effect.Granted.class);
        SessionRequest renewal =
                bench.allSent().stream().filter(SessionRequest::hasRenew).findFirst().orElseThrow();
        bench.now = 10_500;
        bench.frame(renewal.getOpId(), renewed());
        long validUntil = bench.one(Effect.Granted.class).validUntil();
        assertEquals((10_001 + Bench.LEASE) * 1_000_000, validUntil);
    }

    @Test
    void aLateGrantThatIsGoneFailsItsAcquire() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.take();
        bench.now = 20_000;
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        long renewal =
                bench.allSent().stream()
                        .filter(SessionRequest::hasRenew)
                        .findFirst()
                        .orElseThrow()
                        .getOpId();
        bench.frame(renewal, Bench.failed(9, "NOT_OWNER", "held_by_another"));
        Effect.Failed failed = bench.one(Effect.Failed.class);
        assertEquals(op, failed.op());
        Failure.Lost loss = assertInstanceOf(Failure.Lost.class, failed.failure());
        assertEquals(LostReason.LOST_REASON_TAKEN_OVER, loss.reason());
        bench.none(Effect.Lost.class);
    }

    @Test
    void aCallerThatGivesUpBeforeTheConfirmationReleases() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.now = 20_000;
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        bench.take();
        bench.step(new Event.Abandon(op));
        assertTrue(bench.sent().hasRelease());
    }

    /** Lets every renewal fail until nothing is left; returns when the loss is reported. */
    private static long lostWithoutRenewals(Bench bench) {
        while (bench.all(Effect.Lost.class).isEmpty()) {
            for (Effect.Send send : bench.all(Effect.Send.class)) {
                if (send.frame().hasRenew()) {
                    bench.frame(send.frame().getOpId(), Bench.failed(14, "STORE_UNAVAILABLE"));
                } else if (send.frame().hasPing()) {
                    bench.frame(0, SessionResponse.newBuilder().setPong(Pong.getDefaultInstance()));
                }
            }
            if (bench.all(Effect.Lost.class).isEmpty()) {
                bench.take();
                bench.until(bench.wakeAt());
            }
        }
        return bench.now;
    }

    @Test
    void whatIsHeldIsNotExtendedByAnAssumption() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.now = 5_000;
        long op = bench.acquire("a");
        bench.now = 16_000;
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        bench.none(Effect.Granted.class);
        // What is certain counts from the second request.
        assertEquals(5_000 + Bench.LEASE, lostWithoutRenewals(bench));
    }

    @Test
    void anAssumptionIsNotLentToAnotherGuard() {
        Bench bench = Bench.open();
        long late = bench.acquire("a");
        bench.now = 15_000;
        long early = bench.acquire("a");
        bench.now = 16_000;
        bench.frame(late, Bench.granted("a", "o", Bench.TOKEN));
        bench.none(Effect.Granted.class);
        bench.frame(early, Bench.granted("a", "o", Bench.TOKEN));
        long validUntil = bench.one(Effect.Granted.class).validUntil();
        assertEquals((15_000 + Bench.LEASE) * 1_000_000, validUntil);
    }

    @Test
    void theConfirmationOfAnotherGuardDoesNotShortenWhatIsHeld() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        bench.take();
        bench.now = 1_000;
        long op = bench.acquire("a");
        bench.now = 12_000;
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        List<SessionRequest> sent = bench.allSent();
        SessionRequest renewal =
                sent.stream().filter(SessionRequest::hasRenew).findFirst().orElseThrow();
        Grant.Builder shorter = Bench.grant("a", "o", Bench.TOKEN).setValidFor(Bench.millis(9_000));
        bench.frame(renewal.getOpId(), Bench.renewed(shorter));
        bench.one(Effect.Granted.class);
        Effect.Valid valid =
                bench.all(Effect.Valid.class).stream()
                        .filter(it -> it.guard() == guard)
                        .findFirst()
                        .orElseThrow();
        assertEquals((1_000 + Bench.LEASE) * 1_000_000, valid.validUntil());
    }

    private static SessionResponse.Builder grantedBriefly(long token) {
        Grant.Builder grant = Bench.grant("a", "o", token).setWatched(false);
        return SessionResponse.newBuilder().setGranted(grant.setValidFor(Bench.millis(1_000)));
    }

    @Test
    void aReleaseDoesNotLendItsValidityToANewGrant() {
        Bench bench = Bench.open();
        bench.release(bench.held("a"));
        bench.frame(bench.sent().getOpId(), Bench.failed(14, "OUTCOME_UNKNOWN"));
        bench.now = 100;
        long op = bench.acquire("a");
        bench.frame(op, grantedBriefly(Bench.TOKEN + 1));
        long validUntil = bench.one(Effect.Granted.class).validUntil();
        assertEquals(1_100_000_000L, validUntil);
        bench.take();
        // The answer to the release is about the old grant.
        bench.until(150);
        bench.frame(bench.sent().getOpId(), released());
        bench.until(1_100);
        assertEquals(Bench.TOKEN + 1, bench.one(Effect.Lost.class).loss().fencingToken());
    }

    @Test
    void anOlderGrantDoesNotLendItsValidityToANewerOne() {
        Bench bench = Bench.open();
        bench.held("a");
        long op = bench.acquire("a");
        bench.frame(op, grantedBriefly(Bench.TOKEN + 1));
        assertEquals(1_000_000_000L, bench.one(Effect.Granted.class).validUntil());
    }

    @Test
    void aRenewalOfAnOlderGrantDoesNotExtendTheNewOne() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.until(Bench.RENEW);
        long renewal = bench.allSent().stream().reduce((a, b) -> b).orElseThrow().getOpId();
        bench.frame(0, lost("a", Bench.TOKEN, LostReason.LOST_REASON_EXPIRED));
        bench.take();
        long op = bench.acquire("a");
        bench.frame(op, grantedBriefly(Bench.TOKEN + 1));
        bench.take();
        bench.frame(renewal, renewed());
        bench.none(Effect.Valid.class);
        bench.until(Bench.RENEW + 1_000);
        assertEquals(Bench.TOKEN + 1, bench.one(Effect.Lost.class).loss().fencingToken());
    }

    @Test
    void aRenewalThatFailsIsRepeatedAndOnlyTimeDecides() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.until(Bench.RENEW);
        long first = bench.allSent().stream().reduce((a, b) -> b).orElseThrow().getOpId();
        bench.frame(first, Bench.failed(14, "STORE_UNAVAILABLE"));
        bench.none(Effect.Lost.class);
        bench.until(Bench.RENEW + 199);
        bench.none(Effect.Send.class);
        bench.until(Bench.RENEW + 200);
        assertTrue(bench.sent().hasRenew());
        bench.until(Bench.LEASE);
        LostReason reason = bench.one(Effect.Lost.class).loss().reason();
        assertEquals(LostReason.LOST_REASON_EXPIRED, reason);
    }

    @Test
    void aRenewalByAnotherOwnerIsALoss() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.until(Bench.RENEW);
        long renewal = bench.allSent().stream().reduce((a, b) -> b).orElseThrow().getOpId();
        bench.frame(renewal, Bench.failed(9, "NOT_OWNER", "expired"));
        LostReason reason = bench.one(Effect.Lost.class).loss().reason();
        assertEquals(LostReason.LOST_REASON_EXPIRED, reason);
    }

    @Test
    void aRenewalOfAnOlderGrantIsNoLossOfTheNewOne() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.until(Bench.RENEW);
        long renewal = bench.allSent().stream().reduce((a, b) -> b).orElseThrow().getOpId();
        long op = bench.acquire("a");
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN + 1));
        bench.frame(renewal, Bench.failed(9, "NOT_OWNER", "expired"));
        bench.none(Effect.Lost.class);
    }

    @Test
    void aLossIsReportedOnceWithItsReason() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        bench.frame(0, lost("a", Bench.TOKEN, LostReason.LOST_REASON_FORCE_RELEASED));
        bench.frame(0, lost("a", Bench.TOKEN, LostReason.LOST_REASON_EXPIRED));
        Effect.Lost lost = bench.one(Effect.Lost.class);
        assertEquals(guard, lost.guard());
        LostReason reason = LostReason.LOST_REASON_FORCE_RELEASED;
        assertEquals(new Failure.Lost("a", reason, Bench.TOKEN, "detail"), lost.loss());
    }

    @Test
    void aLossSaysForHowLongNobodyElseHoldsIt() {
        // It cannot be longer than the rest of the lease, 30 s.
        assertEquals(Duration.ofSeconds(1), validForAfter(Duration.ofSeconds(1)));
        assertEquals(Duration.ofSeconds(30), validForAfter(Duration.ofMinutes(1)));
    }

    private static Duration validForAfter(Duration given) {
        Bench bench = Bench.open();
        bench.held("a");
        SessionResponse.Builder notice =
                lost("a", Bench.TOKEN, LostReason.LOST_REASON_FORCE_RELEASED);
        notice.getLostBuilder().setValidFor(Protos.toProto(given));
        bench.frame(0, notice);
        return bench.one(Effect.Lost.class).loss().validFor();
    }

    @Test
    void theLossOfAnOlderGrantIsIgnored() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.frame(0, lost("a", Bench.TOKEN - 1, LostReason.LOST_REASON_EXPIRED));
        bench.frame(0, lost("b", Bench.TOKEN, LostReason.LOST_REASON_EXPIRED));
        bench.none(Effect.Lost.class);
    }

    @Test
    void aLossDuringTheReleaseIsNotReported() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        long release = bench.release(guard);
        long op = bench.sent().getOpId();
        bench.frame(0, lost("a", Bench.TOKEN, LostReason.LOST_REASON_EXPIRED));
        bench.frame(op, released());
        bench.none(Effect.Lost.class);
        assertEquals(release, bench.one(Effect.Done.class).op());
    }

    @Test
    void theReleaseOfALostGrantFailsAndIsSent() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        bench.frame(0, lost("a", Bench.TOKEN, LostReason.LOST_REASON_TAKEN_OVER));
        bench.take();
        long op = bench.release(guard);
        assertEquals(op, bench.one(Effect.Failed.class).op());
        assertInstanceOf(Failure.Lost.class, bench.one(Effect.Failed.class).failure());
        assertTrue(bench.sent().hasRelease());
    }

    @Test
    void theReleaseOfALostGrantDoesNotTakeANewOneOfTheSameOwner() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        bench.frame(0, lost("a", Bench.TOKEN, LostReason.LOST_REASON_EXPIRED));
        long again = bench.acquire("a");
        bench.frame(again, Bench.granted("a", "o", Bench.TOKEN + 1));
        bench.take();
        bench.release(guard);
        bench.none(Effect.Send.class);
    }

    @Test
    void theReleaseOfALostGrantThatIsHeldOnceMoreIsSent() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        bench.frame(0, lost("a", Bench.TOKEN, LostReason.LOST_REASON_EXPIRED));
        // The token is the same: the coordinator has not lost it, and counts both.
        bench.held("a");
        bench.release(guard);
        assertTrue(bench.sent().hasRelease());
    }

    @Test
    void theReleaseOfSeveralLocksLeavesOnlyThoseThatAreHeldAnew() {
        Bench bench = Bench.open();
        long op = bench.start(Bench.acquireAllOf("a", "b"), Timers.NEVER);
        GrantedAll.Builder all = GrantedAll.newBuilder();
        all.addGrants(Bench.grant("a", "o", 1)).addGrants(Bench.grant("b", "o", 2));
        bench.frame(op, SessionResponse.newBuilder().setGrantedAll(all));
        long guard = bench.one(Effect.Granted.class).guard();
        bench.frame(0, lost("a", 1, LostReason.LOST_REASON_EXPIRED));
        bench.take();
        bench.held("a");
        bench.release(guard);
        SessionRequest release = bench.sent();
        assertEquals("b", release.getRelease().getName());
        bench.frame(release.getOpId(), released());
        List<Grant> named = bench.resume().getResume().getGrantsList();
        assertEquals(List.of("a"), named.stream().map(Grant::getName).toList());
    }

    @Test
    void aReleaseThatFindsNothingIsALoss() {
        Bench bench = Bench.open();
        long op = bench.release(bench.held("a"));
        bench.frame(bench.sent().getOpId(), Bench.failed(9, "NOT_OWNER", "held_by_another"));
        Effect.Failed failed = bench.one(Effect.Failed.class);
        assertEquals(op, failed.op());
        Failure.Lost loss = assertInstanceOf(Failure.Lost.class, failed.failure());
        assertEquals(LostReason.LOST_REASON_TAKEN_OVER, loss.reason());
    }

    @Test
    void aReleaseIsSentAgainWithTheSameIdAndStillNamed() {
        Bench bench = Bench.open();
        bench.release(bench.held("a"));
        String id = bench.sent().getRelease().getRequestId();
        SessionRequest resume = bench.resume();
        assertEquals(1, resume.getResume().getGrantsCount());
        SessionRequest again = bench.sent();
        assertEquals(id, again.getRelease().getRequestId());
        bench.frame(again.getOpId(), released());
        bench.one(Effect.Done.class);
        assertEquals(0, bench.resume().getResume().getGrantsCount());
    }

    @Test
    void severalGuardsShareAGrantOfOneOwner() {
        Bench bench = Bench.open();
        long first = bench.held("a");
        long second = bench.held("a");
        bench.release(first);
        bench.frame(bench.sent().getOpId(), released());
        bench.take();
        bench.frame(0, lost("a", Bench.TOKEN, LostReason.LOST_REASON_EXPIRED));
        assertEquals(second, bench.one(Effect.Lost.class).guard());
    }

    @Test
    void oneOfSeveralLocksIsTheLossOfTheGuardAndAllAreReleased() {
        Bench bench = Bench.open();
        long op = bench.start(Bench.acquireAllOf("a", "b"), Timers.NEVER);
        GrantedAll.Builder all = GrantedAll.newBuilder();
        all.addGrants(Bench.grant("a", "o", 1)).addGrants(Bench.grant("b", "o", 2));
        bench.frame(op, SessionResponse.newBuilder().setGrantedAll(all));
        long guard = bench.one(Effect.Granted.class).guard();
        bench.take();
        bench.frame(0, lost("b", 2, LostReason.LOST_REASON_TAKEN_OVER));
        bench.frame(0, lost("a", 1, LostReason.LOST_REASON_TAKEN_OVER));
        assertEquals("b", bench.one(Effect.Lost.class).loss().name());
        bench.take();
        bench.release(guard);
        assertEquals(2, bench.sent().getReleaseAll().getLocksCount());
    }

    @Test
    void aReleaseOfSeveralLocksOfWhichOneWasGoneIsALoss() {
        Bench bench = Bench.open();
        long op = bench.start(Bench.acquireAllOf("a", "b"), Timers.NEVER);
        GrantedAll.Builder all = GrantedAll.newBuilder();
        all.addGrants(Bench.grant("a", "o", 1)).addGrants(Bench.grant("b", "o", 2));
        bench.frame(op, SessionResponse.newBuilder().setGrantedAll(all));
        long guard = bench.one(Effect.Granted.class).guard();
        bench.take();
        bench.release(guard);
        ReleaseAllResponse.Builder answer = ReleaseAllResponse.newBuilder();
        answer.addLocks(ReleasedLock.newBuilder().setName("a").setHeld(true));
        answer.addLocks(ReleasedLock.newBuilder().setName("b").setHeld(false));
        long release = bench.sent().getOpId();
        bench.frame(release, SessionResponse.newBuilder().setReleasedAll(answer));
        Failure.Lost loss =
                assertInstanceOf(Failure.Lost.class, bench.one(Effect.Failed.class).failure());
        assertEquals("b", loss.name());
    }

    @Test
    void permitsAreHeldRenewedAndLost() {
        Bench bench = Bench.open();
        long op = bench.start(Bench.permitsOf("s"), Timers.NEVER);
        PermitGrant.Builder grant = PermitGrant.newBuilder().setName("s").setOwner("o");
        grant.addPermitIds("p1").setPermits(1).setWatched(true);
        grant.setLease(Bench.millis(Bench.LEASE)).setValidFor(Bench.millis(Bench.LEASE));
        bench.frame(op, SessionResponse.newBuilder().setPermitsGranted(grant));
        bench.take();
        bench.until(Bench.RENEW);
        SessionRequest renewal = bench.allSent().stream().reduce((a, b) -> b).orElseThrow();
        assertEquals(List.of("p1"), renewal.getRenewPermits().getPermitIdsList());
        PermitsLost.Builder notice = PermitsLost.newBuilder().setGrant(grant);
        notice.setReason(LostReason.LOST_REASON_EXPIRED);
        bench.frame(0, SessionResponse.newBuilder().setPermitsLost(notice));
        assertEquals("s", bench.one(Effect.Lost.class).loss().name());
    }

    @Test
    void aRenewalByTheCallerHasItsLeaseAndSaysHowItEnded() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        long op = bench.renew(guard, Duration.ofSeconds(60));
        SessionRequest sent = bench.sent();
        assertEquals(Bench.millis(60_000), sent.getRenew().getLease());
        bench.frame(sent.getOpId(), renewed());
        assertEquals(op, bench.one(Effect.Done.class).op());
        bench.take();
        bench.renew(guard, null);
        bench.frame(bench.sent().getOpId(), Bench.failed(9, "NOT_OWNER", "expired"));
        bench.one(Effect.Lost.class);
        assertInstanceOf(Failure.Lost.class, bench.one(Effect.Failed.class).failure());
    }

    @Test
    void atRiskIsNotALoss() {
        Bench bench = Bench.open();
        bench.held("a");
        SessionAtRisk.Builder risk = SessionAtRisk.newBuilder().setValidFor(Bench.millis(9));
        bench.frame(0, SessionResponse.newBuilder().setAtRisk(risk));
        assertTrue(bench.notices(Effect.Kind.AT_RISK));
        SessionRecovered recovered = SessionRecovered.getDefaultInstance();
        bench.frame(0, SessionResponse.newBuilder().setRecovered(recovered));
        assertTrue(bench.notices(Effect.Kind.RECOVERED));
        bench.none(Effect.Lost.class);
    }
}
