package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.LockEvent.End;
import io.lockkeeper.LockEvent.GapReason;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Locks that are watched, or waited for without being acquired, against a real coordinator. */
final class WatchTest extends WithCoordinator {

    /** What a watch has seen. */
    private static final class Seen {
        private final BlockingQueue<LockEvent> events = new LinkedBlockingQueue<>();

        <T extends LockEvent> T next(Class<T> kind) throws InterruptedException {
            LockEvent next = events.poll(20, TimeUnit.SECONDS);
            assertNotNull(next, "an event within 20 s");
            return assertInstanceOf(kind, next);
        }
    }

    // --- watching

    @Test
    void aWatchSeesTheLifeOfALock() throws Exception {
        Seen seen = new Seen();
        var locks = other.withoutSession();
        Observation watch = locks.watch("life", seen.events::add);
        LockEvent.State state = seen.next(LockEvent.State.class);
        assertEquals(new LockEvent.State(List.of(), 0, 0, 0), state);
        Grant grant = client.acquire("life", DEFAULTS.reason("release 1.4"));
        LockEvent.Granted granted = seen.next(LockEvent.Granted.class);
        assertEquals(grant.fencingToken(), granted.fencingToken());
        assertEquals(grant.owner(), granted.holder().getOwner());
        assertEquals("release 1.4", granted.holder().getNote().getReason());
        CompletableFuture<Grant> wait = client.acquireAsync("life", DEFAULTS);
        assertEquals(1, seen.next(LockEvent.Waiters.class).waiterCount());
        wait.cancel(true);
        assertEquals(0, seen.next(LockEvent.Waiters.class).waiterCount());
        grant.close();
        LockEvent.Ended ended = seen.next(LockEvent.Ended.class);
        assertEquals(End.RELEASED, ended.end());
        assertEquals(grant.fencingToken(), ended.fencingToken());
        assertEquals(grant.fencingToken(), seen.next(LockEvent.Free.class).lastFencingToken());
        client.acquire("life");
        seen.next(LockEvent.Granted.class);
        coordinator.forceRelease("life", "maintenance");
        LockEvent.Ended forced = seen.next(LockEvent.Ended.class);
        assertEquals(End.FORCE_RELEASED, forced.end());
        assertEquals("maintenance", forced.detail());
        watch.close();
        soon(watch.ended().toCompletableFuture());
    }

    @Test
    void aWatchGoesOnAtAnotherCoordinatorAndTellsTheGap() throws Exception {
        Seen seen = new Seen();
        try (RedisServer redis = RedisServer.start();
                Coordinator one = Coordinator.start("--store", redis.url());
                Coordinator two = Coordinator.start("--store", redis.url());
                Lockkeeper holder = Lockkeeper.connect(two.url())) {
            Lockkeeper watcher = Lockkeeper.connect(one.url(), two.url());
            Observation watch = watcher.withoutSession().watch("far", seen.events::add);
            seen.next(LockEvent.State.class);
            one.kill();
            assertEquals(GapReason.UNHEARD, seen.next(LockEvent.Gap.class).reason());
            seen.next(LockEvent.State.class);
            try (Grant grant = holder.acquire("far")) {
                LockEvent.Granted granted = seen.next(LockEvent.Granted.class);
                assertEquals(grant.fencingToken(), granted.fencingToken());
            }
            assertFalse(watch.ended().toCompletableFuture().isDone());
            watcher.close();
            soon(watch.ended().toCompletableFuture());
        }
    }

    @Test
    void aWatchThatCannotBeginSaysWhy() {
        Seen seen = new Seen();
        try (Observation refused = client.withoutSession().watch("", seen.events::add)) {
            var failed =
                    assertThrows(
                            ExecutionException.class,
                            () -> soon(refused.ended().toCompletableFuture()));
            var cause = assertInstanceOf(RefusedException.class, failed.getCause());
            assertEquals(Optional.of("INVALID_NAME"), cause.reason());
        }
        assertTrue(seen.events.isEmpty());
    }

    // --- waiting until a lock is free

    private static <T> FutureTask<T> inAThread(Callable<T> task) {
        FutureTask<T> future = new FutureTask<>(task);
        new Thread(future).start();
        return future;
    }

    @Test
    void aWaitEndsWhenTheLockIsFree() throws Exception {
        client.awaitFree("free");
        other.withoutSession().awaitFree("free");
        Grant grant = client.acquire("free");
        assertFalse(other.awaitFree("free", Duration.ofMillis(50)));
        assertFalse(other.awaitFree("free", Duration.ZERO));
        assertFalse(other.withoutSession().awaitFree("free", Duration.ofMillis(50)));
        assertFalse(other.withoutSession().awaitFree("free", Duration.ZERO));
        CompletableFuture<Void> cancelled = other.awaitFreeAsync("free");
        CompletableFuture<Void> later = other.awaitFreeAsync("free");
        FutureTask<Boolean> without =
                inAThread(() -> other.withoutSession().awaitFree("free", Duration.ofMinutes(1)));
        assertTrue(cancelled.cancel(true));
        assertFalse(later.isDone());
        assertFalse(without.isDone());
        grant.close();
        soon(later);
        assertTrue(without.get(20, TimeUnit.SECONDS));
        assertTrue(other.awaitFree("free", Duration.ZERO));
    }

    @Test
    void aWaitWithoutASessionGoesOnAtAnotherCoordinator() throws Exception {
        try (RedisServer redis = RedisServer.start();
                Coordinator one = Coordinator.start("--store", redis.url());
                Coordinator two = Coordinator.start("--store", redis.url());
                Lockkeeper holder = Lockkeeper.connect(two.url());
                Lockkeeper waiter = Lockkeeper.connect(one.url(), two.url())) {
            Grant grant = holder.acquire("free");
            var locks = waiter.withoutSession();
            FutureTask<Boolean> wait =
                    inAThread(() -> locks.awaitFree("free", Duration.ofMinutes(1)));
            one.kill();
            assertFalse(locks.awaitFree("free", Duration.ofMillis(50)));
            grant.close();
            assertTrue(wait.get(20, TimeUnit.SECONDS));
        }
    }

    @Test
    void aWaitThatCannotGoOnSaysWhy() throws Exception {
        var locks = client.withoutSession();
        assertThrows(RefusedException.class, () -> locks.awaitFree(""));
        assertThrows(RefusedException.class, () -> client.awaitFree(""));
        Duration negative = Duration.ofSeconds(-1);
        assertThrows(MisconfiguredException.class, () -> locks.awaitFree("a", negative));
        assertThrows(MisconfiguredException.class, () -> client.awaitFree("a", negative));
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
                Lockkeeper nowhere =
                        Lockkeeper.connect("http://127.0.0.1:" + silent.getLocalPort())) {
            var calls = nowhere.withoutSession();
            var failed =
                    assertThrows(
                            UnreachableException.class,
                            () -> calls.awaitFree("a", Duration.ofMillis(10)));
            assertTrue(failed.getMessage().startsWith("no coordinator at "), failed.toString());
        }
        try (Grant held = client.acquire("ends")) {
            FutureTask<Class<?>> wait =
                    inAThread(
                            () ->
                                    assertThrows(
                                                    InterruptedException.class,
                                                    () -> {
                                                        Thread.currentThread().interrupt();
                                                        locks.awaitFree("ends");
                                                    })
                                            .getClass());
            assertEquals(InterruptedException.class, wait.get(20, TimeUnit.SECONDS));
            FutureTask<RuntimeException> closed =
                    inAThread(
                            () ->
                                    assertThrows(
                                            SessionEndedException.class,
                                            () -> other.withoutSession().awaitFree("ends")));
            other.close();
            assertNotNull(closed.get(20, TimeUnit.SECONDS));
            assertFalse(held.isLost());
        }
    }
}
