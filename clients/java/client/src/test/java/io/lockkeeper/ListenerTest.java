package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What listeners of the user throw is logged. */
final class ListenerTest extends WithCoordinator {

    private static final Logger LOGGER = Logger.getLogger("io.lockkeeper");

    private final BlockingQueue<LogRecord> records = new LinkedBlockingQueue<>();
    private final Handler handler =
            new Handler() {
                @Override
                public void publish(LogRecord record) {
                    if (record.getThrown() != null) {
                        records.add(record);
                    }
                }

                @Override
                public void flush() {}

                @Override
                public void close() {}
            };

    @BeforeEach
    void listen() {
        LOGGER.addHandler(handler);
        LOGGER.setUseParentHandlers(false);
    }

    @AfterEach
    void end() {
        LOGGER.removeHandler(handler);
        LOGGER.setUseParentHandlers(true);
    }

    private void assertLogged(String message) throws InterruptedException {
        LogRecord record = records.poll(20, TimeUnit.SECONDS);
        assertEquals(message, record == null ? null : record.getThrown().getMessage());
        assertEquals(Level.WARNING, record.getLevel());
    }

    @Test
    void ofALoss() throws Exception {
        Grant grant = client.acquire("loss");
        grant.onLost(
                loss -> {
                    throw new IllegalStateException("of the loss");
                });
        coordinator.forceRelease("loss", "maintenance");
        assertLogged("of the loss");
    }

    @Test
    void ofARequestToYield() throws Exception {
        try (Grant grant = client.acquire("yield")) {
            grant.onYieldRequested(
                    request -> {
                        throw new IllegalStateException("of the request");
                    });
            other.withoutSession().requestYield("yield", "release 1.4", Duration.ofSeconds(30));
            assertLogged("of the request");
        }
    }

    @Test
    void ofASession() throws Exception {
        LockkeeperBuilder builder = Lockkeeper.builder().endpoints(coordinator.url());
        builder.onSessionEvent(
                event -> {
                    throw new AssertionError("of " + event.kind());
                });
        builder.connect().open().close();
        assertLogged("of OPENED");
        assertLogged("of ENDED");
    }
}
