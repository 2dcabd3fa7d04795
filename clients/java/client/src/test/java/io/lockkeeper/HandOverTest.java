package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

/** Locks that are handed over by ticket, against a real coordinator. */
final class HandOverTest extends WithCoordinator {

    private static String refusal(RefusedException refused) {
        assertEquals(Optional.of("TICKET_REFUSED"), refused.reason());
        return refused.metadata().get("state");
    }

    @Test
    void aTicketTakesTheLockOverOnce() throws Exception {
        Grant given = client.acquire("once");
        CompletableFuture<Grant> waiter = client.acquireAsync("once", DEFAULTS);
        String ticket = given.offer();
        given.renew();
        Grant taken = other.claim("once", ticket);
        assertEquals("once", taken.name());
        assertTrue(Long.compareUnsigned(taken.fencingToken(), given.fencingToken()) > 0);
        Loss loss = soon(given.lost().toCompletableFuture());
        assertEquals(LossReason.HANDED_OVER, loss.reason());
        assertEquals(given.fencingToken(), loss.fencingToken());
        assertThrows(LockLostException.class, given::offer);
        assertTrue(given.offerAsync(Duration.ofSeconds(1)).isCompletedExceptionally());
        var lost = assertThrows(LockLostException.class, given::close);
        assertEquals("once: lost, it was handed over", lost.getMessage());
        var again = assertThrows(RefusedException.class, () -> client.claim("once", ticket));
        assertEquals("over", refusal(again));
        assertFalse(waiter.isDone());
        taken.renew();
        taken.close();
        soon(waiter).close();
    }

    @Test
    void aLockIsHandedOverBetweenCoordinators() throws Exception {
        try (RedisServer redis = RedisServer.start();
                Coordinator one = Coordinator.start("--store", redis.url(), "--set", SECRET);
                Coordinator two = Coordinator.start("--store", redis.url(), "--set", SECRET);
                Lockkeeper giver = Lockkeeper.connect(one.url());
                Lockkeeper taker = Lockkeeper.connect(two.url())) {
            Grant given = giver.acquire("far");
            String ticket = soon(given.offerAsync(Duration.ofMinutes(1)));
            try (Grant taken = soon(taker.claimAsync("far", ticket))) {
                Loss loss = soon(given.lost().toCompletableFuture());
                assertEquals(LossReason.HANDED_OVER, loss.reason());
                assertFalse(taken.isLost());
            }
        }
    }

    private static final String SECRET = "session.secret=0123456789abcdef0123456789abcdef";

    @Test
    void aTicketThatCannotBeUsedSaysWhy() throws Exception {
        try (Grant grant = client.acquire("bad")) {
            String ticket = grant.offer();
            var claim = RefusedException.class;
            var none = assertThrows(claim, () -> other.claim("bad", "none"));
            assertEquals("invalid", refusal(none));
            var another = assertThrows(claim, () -> other.claim("other", ticket));
            assertEquals("invalid", refusal(another));
            var own = assertThrows(claim, () -> grant.offer(Duration.ofMinutes(11)));
            assertEquals(Optional.of("INVALID_WITHIN"), own.reason());
            var fails = MisconfiguredException.class;
            assertThrows(fails, () -> grant.offer(Duration.ofSeconds(-1)));
            assertFalse(grant.isLost());
        }
        try (Grant reader = client.acquire("bad", DEFAULTS.mode(LockMode.READ))) {
            assertThrows(RefusedException.class, reader::offer);
        }
    }
}
