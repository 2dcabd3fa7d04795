package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The executor of the user has one thread, which is busy. */
final class BusyExecutorTest extends WithCoordinator {

    private final ExecutorService pool = Executors.newSingleThreadExecutor();

    @AfterEach
    void end() {
        pool.shutdownNow();
    }

    @Override
    LockkeeperBuilder configure(LockkeeperBuilder builder) {
        return super.configure(builder).executor(pool).token("constant");
    }

    @Test
    void theStreamAndTheCallsHaveTheirToken() throws Exception {
        CountDownLatch isOver = new CountDownLatch(1);
        pool.submit(() -> isOver.await(60, TimeUnit.SECONDS));
        LockkeeperBuilder builder = Lockkeeper.builder().endpoints(coordinator.url());
        try (Lockkeeper late = configure(builder).connect()) {
            late.acquire("token", DEFAULTS).close();
            late.withoutSession().describe("token");
        } finally {
            isOver.countDown();
        }
    }

    @Test
    void aWatchInterruptsAtOnceAndItsListenerIsCalledLater() throws Exception {
        AtomicLong count = new AtomicLong();
        CompletableFuture<Loss> heard = new CompletableFuture<>();
        CountDownLatch isHeld = new CountDownLatch(1);
        Future<Boolean> work =
                pool.submit(
                        () -> {
                            Grant grant = client.acquire("watched");
                            try (LossWatch watch =
                                    LossWatch.ofCurrentThread(grant, count, heard::complete)) {
                                isHeld.countDown();
                                assertThrows(
                                        InterruptedException.class,
                                        () -> TimeUnit.SECONDS.sleep(20));
                                return watch != null && heard.isDone();
                            }
                        });
        isHeld.await();
        coordinator.forceRelease("watched", "maintenance");
        assertEquals(false, work.get(30, TimeUnit.SECONDS));
        assertEquals(1, count.get());
        assertEquals(LossReason.FORCE_RELEASED, soon(heard).reason());
    }
}
