package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Every kind, against a real coordinator. */
final class LockkeeperTest extends WithCoordinator {

    @Test
    void aGrantExcludesOthersUntilItIsClosed() throws Exception {
        long token;
        try (Grant grant = client.acquire("grant")) {
            token = grant.fencingToken();
            assertTrue(grant.validFor().toMillis() > 0);
            assertEquals("Grant[grant]", grant.toString());
            assertFalse(grant.isLost());
            assertEquals(Optional.empty(), other.tryAcquire("grant"));
            NotGrantedException late =
                    assertThrows(
                            NotGrantedException.class, () -> other.acquire("grant", BRIEFLY));
            assertEquals("WAIT_TIMEOUT", late.reason());
            assertEquals("grant", late.name());
            assertTrue(late.holderRemainingLease().isPresent());
        }
        try (Grant next = other.acquire("grant")) {
            assertTrue(Long.compareUnsigned(next.fencingToken(), token) > 0);
        }
    }

    @Test
    void aGrantIsNotValidAnyMoreOnceItsReleaseHasBegun() throws Exception {
        Grant grant = client.acquire("released");
        CompletableFuture<Void> released = grant.releaseAsync();
        assertEquals(Duration.ZERO, grant.validFor());
        assertFalse(grant.isLost());
        soon(released);
        assertEquals(Duration.ZERO, grant.validFor());
    }

    @Test
    void twoTasksOfOneClientExcludeEachOther() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        Runnable work =
                () -> {
                    for (int round = 0; round < 20; round++) {
                        try (Grant grant = client.acquire("tasks")) {
                            assertFalse(grant.isLost());
                            most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                            inside.decrementAndGet();
                        } catch (InterruptedException interrupt) {
                            throw new IllegalStateException(interrupt);
                        }
                    }
                };
        CompletableFuture<Void> first = CompletableFuture.runAsync(work, task -> start(task));
        CompletableFuture<Void> second = CompletableFuture.runAsync(work, task -> start(task));
        soon(CompletableFuture.allOf(first, second));
        assertEquals(1, most.get());
    }

    private static void start(Runnable task) {
        new Thread(task).start();
    }

    @Test
    void anAsynchronousAcquireCanBeCancelled() throws Exception {
        try (Grant held = client.acquire("cancel")) {
            AcquireOptions options = AcquireOptions.defaults();
            CompletableFuture<Grant> waiting = other.acquireAsync("cancel", options);
            assertTrue(waiting.cancel(true));
            CompletableFuture<Grant> next = other.acquireAsync("cancel", options);
            assertEquals("cancel", held.name());
            soon(held.releaseAsync());
            soon(soon(next).releaseAsync());
        }
        assertEquals(0, client.withoutSession().describe("cancel").getHolderCount());
    }

    @Test
    void anInterruptGivesUp() throws Exception {
        try (Grant held = client.acquire("interrupt")) {
            CompletableFuture<Class<?>> outcome = new CompletableFuture<>();
            Thread waiter =
                    new Thread(
                            () -> {
                                try {
                                    other.acquire("interrupt").close();
                                    outcome.complete(null);
                                } catch (InterruptedException interrupt) {
                                    outcome.complete(interrupt.getClass());
                                }
                            });
            waiter.start();
            while (client.withoutSession().describe("interrupt").getWaiterCount() == 0) {
                Thread.onSpinWait();
            }
            waiter.interrupt();
            assertEquals(InterruptedException.class, soon(outcome));
            assertFalse(held.isLost());
        }
        other.acquire("interrupt").close();
    }

    @Test
    void readersShareAndWritersDoNot() throws Exception {
        AcquireOptions read = AcquireOptions.defaults().mode(LockMode.READ);
        AcquireOptions write = BRIEFLY.mode(LockMode.WRITE);
        try (Grant first = client.acquire("rw", read);
                Grant second = other.acquire("rw", read)) {
            assertFalse(first.isLost() || second.isLost());
            assertThrows(NotGrantedException.class, () -> other.acquire("rw", write));
        }
        other.acquire("rw", write).close();
    }

    @Test
    void fairLocksAndLeasesOfARequest() throws Exception {
        AcquireOptions fair =
                AcquireOptions.defaults().mode(LockMode.FAIR).lease(Duration.ofMillis(400));
        try (Grant grant = client.acquire("fair", fair)) {
            grant.renew(Duration.ofMillis(800));
            assertTrue(grant.validFor().toMillis() <= 800);
            Loss loss = soon(grant.lost().toCompletableFuture());
            assertEquals(LossReason.EXPIRED, loss.reason());
            assertEquals(grant.fencingToken(), loss.fencingToken());
            assertThrows(LockLostException.class, grant::renew);
            assertThrows(LockLostException.class, grant::close);
        }
    }

    @Test
    void severalLocksAreOneGuard() throws Exception {
        List<String> names = List.of("all-b", "all-a");
        try (Grants grants = client.acquireAll(names)) {
            assertEquals(List.of("all-a", "all-b"), List.copyOf(grants.fencingTokens().keySet()));
            assertEquals(Optional.empty(), other.tryAcquireAll(names, BRIEFLY));
            assertEquals(Optional.empty(), other.tryAcquire("all-a"));
        }
        soon(soon(other.acquireAllAsync(names, BRIEFLY)).releaseAsync());
    }

    @Test
    void semaphoresHavePermits() throws Exception {
        Semaphore semaphore = client.semaphore("pool");
        assertEquals(3, semaphore.createIfAbsent(3));
        assertEquals(3, semaphore.createIfAbsent(9));
        try (Permits permits = semaphore.acquire(2)) {
            assertEquals(2, permits.count());
            assertEquals(1, semaphore.describe().getAvailable());
            assertEquals(Optional.empty(), other.semaphore("pool").tryAcquire(2));
            other.semaphore("pool").acquire().close();
        }
        assertEquals(3, semaphore.describe().getAvailable());
        RefusedException refused =
                assertThrows(RefusedException.class, () -> semaphore.acquire(4, BRIEFLY));
        assertEquals(Optional.of("PERMITS_EXCEEDED"), refused.reason());
        semaphore.setPermits(0);
    }

    @Test
    void latchesOpen() throws Exception {
        Latch latch = client.latch("latch");
        assertEquals(2, latch.setCount(2));
        assertEquals(2, latch.setCount(5, Duration.ofSeconds(60)));
        assertFalse(latch.await(Duration.ofMillis(50)));
        CompletableFuture<Void> opened = other.latch("latch").awaitAsync();
        assertEquals(1, latch.countDown());
        assertEquals(0, other.latch("latch").countDown(1));
        soon(opened);
        latch.await();
        RefusedException refused = assertThrows(RefusedException.class, latch::countDown);
        assertEquals(Optional.of("COUNT_EXCEEDED"), refused.reason());
        latch.setCount(1);
        assertTrue(latch.delete());
        assertEquals(0, latch.count());
    }

    @Test
    void callsWithoutASession() throws Exception {
        SessionlessLocks locks = client.withoutSession();
        Duration lease = Duration.ofSeconds(5);
        long token = locks.tryAcquire("once", "me", lease).orElseThrow().getFencingToken();
        assertEquals(Optional.empty(), locks.tryAcquire("once", "you", lease));
        assertEquals(token, locks.renew("once", "me", lease).getFencingToken());
        assertEquals(1, locks.describe("once").getHolderCount());
        assertTrue(locks.checkToken("once", token).getCurrent());
        assertFalse(locks.checkToken("once", token - 1).getCurrent());
        locks.release("once", "me");
        RefusedException refused =
                assertThrows(RefusedException.class, () -> locks.release("once", "me"));
        assertEquals(Optional.of("NOT_OWNER"), refused.reason());
    }

    @Test
    void aRefusalHasItsReason() {
        RefusedException refused =
                assertThrows(RefusedException.class, () -> client.acquire("bad\u0001name"));
        assertEquals(Optional.of("INVALID_NAME"), refused.reason());
        assertEquals(io.grpc.Status.Code.INVALID_ARGUMENT, refused.code());
    }

    @Test
    void aTryIsAFutureToo() throws Exception {
        AcquireOptions options = AcquireOptions.defaults();
        try (Grant grant = soon(client.tryAcquireAsync("try", options)).orElseThrow()) {
            assertEquals("try", grant.name());
            assertEquals(Optional.empty(), soon(other.tryAcquireAsync("try", options)));
        }
    }

    @Test
    void aTryThatIsCancelledHoldsNothing() throws Exception {
        CompletableFuture<Optional<Grant>> tried = client.tryAcquireAsync("given", DEFAULTS);
        if (!tried.cancel(true)) {
            soon(tried).orElseThrow().close();
        }
        other.acquire("given", DEFAULTS.waitLimit(Duration.ofSeconds(10))).close();
    }

    @Test
    void aForcedReleaseIsSeenWithinAHundredMilliseconds() throws Exception {
        Grant grant = client.acquire("forced");
        CompletableFuture<Long> seen = new CompletableFuture<>();
        grant.onLost(loss -> seen.complete(System.nanoTime()));
        coordinator.forceRelease("forced", "maintenance");
        long answered = System.nanoTime();
        long late = TimeUnit.NANOSECONDS.toMillis(soon(seen) - answered);
        assertTrue(late < 100, late + " ms after the coordinator's answer");
        assertTrue(grant.isLost());
        LockLostException lost = assertThrows(LockLostException.class, grant::close);
        assertEquals(LossReason.FORCE_RELEASED, lost.loss().reason());
        assertEquals("maintenance", lost.loss().detail());
    }

    @Test
    void closeReleases() throws Exception {
        Grant grant = client.acquire("close");
        client.close();
        assertTrue(grant.isLost());
        assertThrows(SessionEndedException.class, () -> client.acquire("close"));
        ExecutionException failed =
                assertThrows(ExecutionException.class, () -> soon(grant.releaseAsync()));
        assertEquals(LockLostException.class, failed.getCause().getClass());
        assertTrue(other.tryAcquire("close").isPresent());
    }
}
