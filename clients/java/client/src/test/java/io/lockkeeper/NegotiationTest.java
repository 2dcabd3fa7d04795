package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.v1.Deadlock;
import io.lockkeeper.v1.DeadlockedWait;
import io.lockkeeper.v1.ExplainResponse;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** What callers say to each other about a lock, and deadlocks, against a real coordinator. */
final class NegotiationTest extends WithCoordinator {

    // --- hold_at_least

    @Test
    void aLockStaysHeldAfterItsRelease() throws Exception {
        Duration least = Duration.ofSeconds(2);
        AcquireOptions options = DEFAULTS.holdAtLeast(least);
        for (boolean waits : List.of(true, false)) {
            long begun = System.nanoTime();
            Grant grant =
                    waits
                            ? client.acquire("least", options)
                            : client.tryAcquire("least", options).orElseThrow();
            grant.close();
            assertEquals(Optional.empty(), other.tryAcquire("least"));
            other.acquire("least").close();
            Duration took = Duration.ofNanos(System.nanoTime() - begun);
            assertTrue(took.compareTo(least) >= 0, took.toString());
        }
    }

    @Test
    void aLockStaysClosedAfterALossAndNotAfterARelease() throws Exception {
        Duration delay = Duration.ofSeconds(2);
        AcquireOptions delayed = DEFAULTS.lockDelay(delay);
        AcquireOptions options = delayed.lease(Duration.ofSeconds(1));
        for (boolean waits : List.of(true, false)) {
            Grant lost =
                    waits
                            ? client.acquire("delay", options)
                            : client.tryAcquire("delay", options).orElseThrow();
            long begun = System.nanoTime();
            assertEquals(LossReason.EXPIRED, soon(lost.lost().toCompletableFuture()).reason());
            assertEquals(Optional.empty(), other.tryAcquire("delay"));
            Grant next = other.acquire("delay", delayed);
            Duration took = Duration.ofNanos(System.nanoTime() - begun);
            assertTrue(took.compareTo(delay) > 0, took.toString());
            next.close();
            client.tryAcquire("delay").orElseThrow().close();
        }
    }

    @Test
    void aDelayThatCannotBeIsRefused() {
        AcquireOptions options = DEFAULTS.lockDelay(Duration.ofSeconds(1));
        var fails = MisconfiguredException.class;
        var several = assertThrows(fails, () -> client.acquireAll(List.of("a", "b"), options));
        assertEquals("lockDelay: only one lock can have it", several.getMessage());
        assertThrows(fails, () -> client.semaphore("s").acquire(1, options));
        AcquireOptions preferred = DEFAULTS.mode(LockMode.FAIR).preferred();
        assertThrows(fails, () -> client.acquireAll(List.of("a", "b"), preferred));
        assertThrows(fails, () -> client.semaphore("s").acquire(1, preferred));
        assertThrows(fails, () -> DEFAULTS.lockDelay(Duration.ofSeconds(-1)));
        AcquireOptions reader = options.mode(LockMode.READ);
        var refused = assertThrows(RefusedException.class, () -> client.acquire("a", reader));
        assertEquals(Optional.of("INVALID_LOCK_DELAY"), refused.reason());
    }

    @Test
    void onlyOneLockCanStayHeld() {
        AcquireOptions options = DEFAULTS.holdAtLeast(Duration.ofSeconds(1));
        List<String> names = List.of("a", "b");
        var fails = MisconfiguredException.class;
        assertThrows(fails, () -> client.acquireAll(names, options));
        assertThrows(fails, () -> client.tryAcquireAll(names, options));
        assertThrows(fails, () -> client.semaphore("s").acquire(1, options));
        assertThrows(fails, () -> client.semaphore("s").tryAcquire(1, options));
        assertThrows(fails, () -> DEFAULTS.holdAtLeast(Duration.ofSeconds(-1)));
        AcquireOptions reader = options.mode(LockMode.READ);
        var refused = assertThrows(RefusedException.class, () -> client.acquire("a", reader));
        assertEquals(Optional.of("INVALID_HOLD_AT_LEAST"), refused.reason());
    }

    // --- deadlocks

    /** Holds one lock, and waits for the other once both are held. */
    private <T> FutureTask<T> holder(String held, CyclicBarrier bothHold, Callable<T> wait) {
        FutureTask<T> task =
                new FutureTask<>(
                        () -> {
                            LockkeeperLock lock = client.lock(held);
                            lock.lock();
                            bothHold.await();
                            try {
                                return wait.call();
                            } finally {
                                lock.unlock();
                            }
                        });
        new Thread(task).start();
        return task;
    }

    @Test
    void aDeadlockOfThreadsIsNamed() throws Exception {
        CyclicBarrier bothHold = new CyclicBarrier(2);
        Callable<Void> waits =
                () -> {
                    client.lock("named-b").lockInterruptibly();
                    return null;
                };
        FutureTask<Void> first = holder("named-a", bothHold, waits);
        FutureTask<Boolean> second =
                holder(
                        "named-b",
                        bothHold,
                        () -> client.lock("named-a").tryLock(50, TimeUnit.SECONDS));
        List<Deadlock> deadlocks = List.of();
        while (deadlocks.stream().allMatch(Deadlock::getIsPossible)) {
            deadlocks = client.withoutSession().explain("named-a").getDeadlocksList();
        }
        assertEquals(2, deadlocks.get(0).getWaitsCount());
        for (DeadlockedWait wait : deadlocks.get(0).getWaitsList()) {
            assertTrue(wait.getOwner().contains("-thread-"), wait.toString());
        }
        first.cancel(true);
        assertTrue(second.get(20, TimeUnit.SECONDS));
    }

    @Test
    void aDeadlockEndsTheWaitThatAskedForIt() throws Exception {
        CyclicBarrier bothHold = new CyclicBarrier(2);
        FutureTask<Boolean> goesOn =
                holder(
                        "dead-a",
                        bothHold,
                        () -> client.lock("dead-b").tryLock(50, TimeUnit.SECONDS));
        LockkeeperLock a = client.lock("dead-a", DEFAULTS.endOnDeadlock());
        FutureTask<NotGrantedException> ends =
                holder(
                        "dead-b",
                        bothHold,
                        () ->
                                assertThrows(
                                        NotGrantedException.class,
                                        () -> a.tryLock(50, TimeUnit.SECONDS)));
        NotGrantedException ended = ends.get(20, TimeUnit.SECONDS);
        assertEquals("DEADLOCK", ended.reason());
        assertEquals("dead-a: not granted, the wait was a deadlock", ended.getMessage());
        assertTrue(goesOn.get(20, TimeUnit.SECONDS));
    }

    @Test
    void aThreadHasOneOwnerWhileItHoldsSomething() throws Exception {
        LockkeeperLock a = client.lock("own-a");
        LockkeeperLock b = client.lock("own-b");
        a.lock();
        b.lock();
        String owner = a.grant().orElseThrow().owner();
        assertEquals(owner, b.grant().orElseThrow().owner());
        String thread = "-thread-" + Thread.currentThread().getId();
        assertTrue(owner.endsWith(thread), owner);
        a.unlock();
        assertEquals(1, b.holdCount());
        b.unlock();
        a.lock();
        assertFalse(a.grant().orElseThrow().owner().equals(owner));
        a.unlock();
    }

    @Test
    void aChainOfWaitsIsExplained() throws Exception {
        AcquireOptions mine = DEFAULTS.owner("mine");
        Grant second = other.acquire("why-b", DEFAULTS.reason("release 1.4"));
        try (Grant first = client.acquire("why-a", mine)) {
            CompletableFuture<Grant> wait = client.acquireAsync("why-b", mine);
            ExplainResponse seen = other.withoutSession().explain("why-a");
            // A wait is known once it is older than a second.
            while (seen.getLocksCount() < 2) {
                seen = other.withoutSession().explain("why-a");
            }
            assertEquals("why-a", seen.getLocks(0).getName());
            var holder = seen.getLocks(0).getHolders(0);
            assertEquals("mine", holder.getHolder().getOwner());
            assertEquals("why-b", holder.getWaits(0).getName());
            assertTrue(holder.getWaits(0).getIsHolder());
            var last = seen.getLocks(1).getHolders(0).getHolder();
            assertEquals("release 1.4", last.getNote().getReason());
            assertEquals(0, seen.getDeadlocksCount());
            assertFalse(first.isLost());
            second.close();
            wait.get(20, TimeUnit.SECONDS).close();
        }
    }

    // --- requests to yield

    @Test
    void aHolderIsAskedAndMayGoOn() throws Exception {
        CompletableFuture<YieldRequest> asked = new CompletableFuture<>();
        try (Grant grant = client.acquire("yield")) {
            assertEquals(Optional.empty(), grant.yieldRequest());
            grant.onYieldRequested(asked::complete);
            Duration within = Duration.ofSeconds(30);
            YieldAnswer answer =
                    other.withoutSession().requestYield("yield", "release 1.4", within);
            assertEquals(1, answer.holderCount());
            assertEquals(1, answer.reachedCount());
            assertEquals(grant.owner(), answer.reached().get(0).getOwner());
            assertEquals(List.of(), answer.unreached());
            YieldRequest request = asked.get(20, TimeUnit.SECONDS);
            assertEquals("yield", request.name());
            assertEquals("deploy", request.by());
            assertEquals("release 1.4", request.reason());
            assertFalse(request.preempts());
            assertTrue(request.within().compareTo(within) <= 0, request.toString());
            assertEquals(Optional.of(request), grant.yieldRequest());
            CompletableFuture<YieldRequest> standing = new CompletableFuture<>();
            grant.onYieldRequested(standing::complete);
            assertEquals(request, standing.get(20, TimeUnit.SECONDS));
            grant.renew();
            assertFalse(grant.isLost());
        }
        var nobody = other.withoutSession().requestYield("yield", "why", Duration.ofSeconds(1));
        assertEquals(0, nobody.holderCount());
    }

    @Test
    void aHolderThatGoesOnIsPreempted() throws Exception {
        Grant grant = client.acquire("preempt");
        CompletableFuture<YieldRequest> asked = new CompletableFuture<>();
        grant.onYieldRequested(asked::complete);
        var locks = other.withoutSession();
        locks.preempt("preempt", "urgent", Duration.ofMillis(500));
        assertTrue(asked.get(20, TimeUnit.SECONDS).preempts());
        Loss loss = grant.lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
        assertEquals(LossReason.PREEMPTED, loss.reason());
        assertEquals("urgent", loss.detail());
        // It is closed to others until the former holder has stopped.
        assertTrue(loss.validFor().compareTo(Duration.ZERO) > 0, loss.toString());
        assertEquals(Optional.empty(), grant.yieldRequest());
        assertThrows(LockLostException.class, grant::close);
        other.acquire("preempt").close();
    }

    @Test
    void aRequestThatCannotBeUsedIsRefused() {
        var locks = other.withoutSession();
        var second = Duration.ofSeconds(1);
        var refused =
                assertThrows(
                        RefusedException.class, () -> locks.requestYield("yield", " ", second));
        assertEquals(Optional.of("INVALID_REASON"), refused.reason());
        assertThrows(
                RefusedException.class,
                () -> locks.preempt("yield", "why", second, Duration.ofMillis(1)));
        var fails = MisconfiguredException.class;
        assertThrows(fails, () -> locks.requestYield("yield", "why", second.negated()));
    }
}
