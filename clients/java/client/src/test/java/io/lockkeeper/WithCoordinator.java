package io.lockkeeper;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;

/**
 * A real coordinator for the tests of a class, and two clients for each of them. Their sessions are
 * open, because a short wait limit would also have to cover that.
 */
@Timeout(60)
abstract class WithCoordinator {

    static final AcquireOptions DEFAULTS = AcquireOptions.defaults();
    static final AcquireOptions BRIEFLY = DEFAULTS.waitLimit(Duration.ofMillis(100));

    static Coordinator coordinator;

    Lockkeeper client;
    Lockkeeper other;

    @BeforeAll
    static void start() throws IOException {
        coordinator = Coordinator.start();
    }

    @AfterAll
    static void stop() {
        coordinator.close();
    }

    @BeforeEach
    void connect() throws InterruptedException {
        client = configure(Lockkeeper.builder().endpoints(coordinator.url())).connect().open();
        LockkeeperBuilder builder = Lockkeeper.builder().endpoints(coordinator.address());
        other = builder.clientName("deploy").connect().open();
    }

    /** Changes the settings of {@link #client}. */
    LockkeeperBuilder configure(LockkeeperBuilder builder) {
        return builder.clientName("app-1");
    }

    @AfterEach
    void close() {
        client.close();
        other.close();
    }

    static <T> T soon(CompletableFuture<T> future)
            throws InterruptedException, ExecutionException, TimeoutException {
        return future.get(20, TimeUnit.SECONDS);
    }
}
