package io.lockkeeper.shedlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.Coordinator;
import io.lockkeeper.LockLostException;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.LossReason;
import io.lockkeeper.UnreachableException;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockAssert;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockExtender;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** With the classes of ShedLock that use a provider, against a real coordinator. */
@Timeout(60)
final class LockkeeperLockProviderTest {

    private static final Duration MINUTE = Duration.ofMinutes(1);

    private static Coordinator coordinator;
    private Lockkeeper client;
    private Lockkeeper otherClient;
    private LockkeeperLockProvider provider;
    private LockkeeperLockProvider other;

    @BeforeAll
    static void start() throws IOException {
        coordinator = Coordinator.start();
    }

    @AfterAll
    static void stop() {
        coordinator.close();
    }

    @BeforeEach
    void connect() {
        client = Lockkeeper.connect(coordinator.url());
        otherClient = Lockkeeper.connect(coordinator.url());
        provider = new LockkeeperLockProvider(client, "shed:");
        other = new LockkeeperLockProvider(otherClient, "shed:");
    }

    @AfterEach
    void close() {
        client.close();
        otherClient.close();
    }

    private static LockConfiguration task(String name, Duration atMost, Duration atLeast) {
        return new LockConfiguration(Instant.now(), name, atMost, atLeast);
    }

    private static LockConfiguration task(String name) {
        return task(name, MINUTE, Duration.ZERO);
    }

    @Test
    void aTaskIsSkippedWhileAnotherRuns() {
        SimpleLock lock = provider.lock(task("skip")).orElseThrow();
        assertEquals(Optional.empty(), other.lock(task("skip")));
        assertEquals(Optional.empty(), provider.lock(task("skip")));
        other.lock(task("another")).orElseThrow().unlock();
        lock.unlock();
        other.lock(task("skip")).orElseThrow().unlock();
    }

    /** Waits until a lock is free, and returns how long that took. */
    private Duration free(String name) throws InterruptedException {
        Instant begun = Instant.now();
        Optional<SimpleLock> lock = other.lock(task(name));
        while (lock.isEmpty()) {
            Thread.onSpinWait();
            lock = other.lock(task(name));
        }
        lock.get().unlock();
        return Duration.between(begun, Instant.now());
    }

    @Test
    void theMinimumOutlivesTheUnlockAndTheClient() throws Exception {
        Instant begun = Instant.now();
        SimpleLock lock = provider.lock(task("least", MINUTE, Duration.ofSeconds(2))).orElseThrow();
        lock.unlock();
        client.close();
        assertEquals(Optional.empty(), other.lock(task("least")));
        free("least");
        Duration after = Duration.between(begun, Instant.now());
        assertIsTwoSeconds(after);
    }

    private static void assertIsTwoSeconds(Duration after) {
        assertTrue(after.compareTo(Duration.ofMillis(1_900)) > 0, after.toString());
        assertTrue(after.compareTo(Duration.ofSeconds(20)) < 0, after.toString());
    }

    @Test
    void theMinimumOfAnExtensionOutlivesTheUnlock() throws Exception {
        Instant begun = Instant.now();
        SimpleLock lock = provider.lock(task("longer")).orElseThrow();
        SimpleLock extended = lock.extend(MINUTE, Duration.ofSeconds(2)).orElseThrow();
        extended.unlock();
        assertEquals(Optional.empty(), other.lock(task("longer")));
        free("longer");
        assertIsTwoSeconds(Duration.between(begun, Instant.now()));
        assertEquals(0, provider.lossCount());
    }

    @Test
    void theMaximumEndsALockThatIsNotUnlocked() throws Exception {
        SimpleLock lock =
                provider.lock(task("most", Duration.ofMillis(500), Duration.ZERO)).orElseThrow();
        assertThrows(InterruptedException.class, () -> new CountDownLatch(1).await());
        free("most");
        LockLostException lost = assertThrows(LockLostException.class, lock::unlock);
        assertEquals(LossReason.EXPIRED, lost.loss().reason());
        assertEquals(1, provider.lossCount());
    }

    @Test
    void aLossIsCountedBeforeItsThreadIsInterrupted() throws Exception {
        CountDownLatch isCounted = new CountDownLatch(1);
        Handler slow = new SlowHandler(isCounted);
        Logger logger = Logger.getLogger("io.lockkeeper");
        logger.addHandler(slow);
        try {
            provider.lock(task("counted", Duration.ofMillis(200), Duration.ZERO)).orElseThrow();
            assertThrows(InterruptedException.class, () -> new CountDownLatch(1).await());
            assertEquals(1, provider.lossCount());
        } finally {
            isCounted.countDown();
            logger.removeHandler(slow);
        }
    }

    /** Keeps what logs waiting. */
    private static final class SlowHandler extends Handler {

        private final CountDownLatch end;

        SlowHandler(CountDownLatch end) {
            this.end = end;
        }

        @Override
        public void publish(LogRecord record) {
            try {
                end.await();
            } catch (InterruptedException interrupt) {
                Thread.currentThread().interrupt();
            }
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
    }

    @Test
    void anExtensionCountsFromNow() throws Exception {
        SimpleLock lock =
                provider.lock(task("extend", Duration.ofSeconds(2), Duration.ZERO)).orElseThrow();
        SimpleLock extended = lock.extend(MINUTE, Duration.ZERO).orElseThrow();
        assertFalse(new CountDownLatch(1).await(2_500, TimeUnit.MILLISECONDS));
        assertEquals(Optional.empty(), other.lock(task("extend")));
        assertThrows(IllegalStateException.class, lock::unlock);
        extended.unlock();
        other.lock(task("extend")).orElseThrow().unlock();
    }

    @Test
    void aLostLockCannotBeExtended() {
        SimpleLock lock = provider.lock(task("lost")).orElseThrow();
        // In another thread, because this one is interrupted.
        new Thread(() -> coordinator.forceRelease("shed:lost", "maintenance")).start();
        assertThrows(InterruptedException.class, () -> new CountDownLatch(1).await());
        assertEquals(Optional.empty(), lock.extend(MINUTE, Duration.ZERO));
    }

    @Test
    void theTaskExecutorLocksExtendsAndSkips() throws Throwable {
        LockingTaskExecutor executor = new DefaultLockingTaskExecutor(provider);
        LockingTaskExecutor second = new DefaultLockingTaskExecutor(other);
        AtomicBoolean isSkipped = new AtomicBoolean();
        executor.executeWithLock(
                (Runnable)
                        () -> {
                            LockAssert.assertLocked();
                            LockExtender.extendActiveLock(MINUTE, Duration.ZERO);
                            AtomicBoolean hasRun = new AtomicBoolean();
                            Runnable run = () -> hasRun.set(true);
                            // In another thread: in this one, ShedLock would not lock again.
                            CompletableFuture.runAsync(
                                            () -> second.executeWithLock(run, task("task")))
                                    .join();
                            isSkipped.set(!hasRun.get());
                        },
                task("task"));
        assertTrue(isSkipped.get());
        AtomicInteger runs = new AtomicInteger();
        second.executeWithLock((Runnable) runs::incrementAndGet, task("task"));
        assertEquals(1, runs.get());
    }

    @Test
    void aTaskDoesNotRunWithoutACoordinator() throws Exception {
        AtomicBoolean hasRun = new AtomicBoolean();
        try (Coordinator gone = Coordinator.start();
                Lockkeeper unreachable = Lockkeeper.connect(gone.url())) {
            gone.kill();
            LockkeeperLockProvider broken = new LockkeeperLockProvider(unreachable, "shed:");
            LockingTaskExecutor executor = new DefaultLockingTaskExecutor(broken);
            Runnable task = () -> hasRun.set(true);
            assertThrows(
                    UnreachableException.class,
                    () -> executor.executeWithLock(task, task("unreachable")));
        }
        assertFalse(hasRun.get());
    }
}
