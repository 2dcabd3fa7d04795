package io.lockkeeper.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.Coordinator;
import io.lockkeeper.LockLostException;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.Loss;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.integration.leader.Context;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.integration.support.locks.DistributedLock;

/** With the classes of Spring Integration that use a registry, against a real coordinator. */
@Timeout(60)
final class LockkeeperLockRegistryTest {

    private static Coordinator coordinator;
    private final BlockingQueue<Loss> losses = new LinkedBlockingQueue<>();
    private Lockkeeper client;
    private Lockkeeper otherClient;
    private LockkeeperLockRegistry registry;
    private LockkeeperLockRegistry other;

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
        // Limits shorter than it takes to connect are those of the waits.
        client = Lockkeeper.connect(coordinator.url()).open();
        otherClient = Lockkeeper.connect(coordinator.url()).open();
        registry = new LockkeeperLockRegistry(client, "spring:", losses::add);
        other = new LockkeeperLockRegistry(otherClient, "spring:");
    }

    @AfterEach
    void close() {
        client.close();
        otherClient.close();
    }

    private static <T> T inAnotherThread(Callable<T> task) throws Exception {
        FutureTask<T> future = new FutureTask<>(task);
        new Thread(future).start();
        return future.get(20, TimeUnit.SECONDS);
    }

    @Test
    void aLockIsReentrantAndExcludesOtherThreadsAndRegistries() throws Exception {
        DistributedLock lock = registry.obtain("a");
        lock.lock();
        assertTrue(registry.obtain("a").tryLock());
        assertFalse(inAnotherThread(() -> registry.obtain("a").tryLock()));
        assertFalse(other.obtain("a").tryLock(50, TimeUnit.MILLISECONDS));
        assertTrue(other.obtain("b").tryLock());
        other.obtain("b").unlock();
        lock.unlock();
        lock.unlock();
        assertTrue(other.obtain("a").tryLock());
        other.obtain("a").unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
        assertThrows(IllegalArgumentException.class, () -> registry.obtain(7));
        registry.expireUnusedOlderThan(0);
    }

    @Test
    void workRunsLocked() throws Exception {
        String done =
                registry.executeLocked(
                        "work",
                        () -> {
                            assertFalse(inAnotherThread(() -> other.obtain("work").tryLock()));
                            return "done";
                        });
        assertEquals("done", done);
        other.obtain("work").lockInterruptibly();
        assertThrows(
                TimeoutException.class,
                () ->
                        inAnotherThreadUnwrapped(
                                () ->
                                        registry.executeLocked(
                                                "work", Duration.ofMillis(50), () -> "never")));
        other.obtain("work").unlock();
    }

    private static <T> T inAnotherThreadUnwrapped(Callable<T> task) throws Exception {
        try {
            return inAnotherThread(task);
        } catch (java.util.concurrent.ExecutionException failed) {
            throw (Exception) failed.getCause();
        }
    }

    @Test
    void aTimeToLiveEndsUnlessItIsRenewed() throws Exception {
        DistributedLock lock = registry.obtain("ttl");
        assertTrue(lock.tryLock(Duration.ofSeconds(1), Duration.ofMillis(500)));
        registry.renewLock("ttl", Duration.ofSeconds(2));
        registry.renewLock("ttl");
        assertThrows(IllegalStateException.class, () -> registry.renewLock("not held"));
        assertThrows(InterruptedException.class, () -> new CountDownLatch(1).await());
        Loss loss = losses.poll(20, TimeUnit.SECONDS);
        assertEquals("spring:ttl", loss.name());
        assertThrows(LockLostException.class, lock::unlock);
        assertEquals(1, registry.lossCount());
        lock.lock(Duration.ofSeconds(5));
        lock.unlock();
        assertFalse(Thread.interrupted());
    }

    @Test
    void aLossInterruptsItsHolder() throws Exception {
        DistributedLock lock = registry.obtain("lost");
        lock.lock();
        // In another thread, because this one is interrupted.
        new Thread(() -> coordinator.forceRelease("spring:lost", "maintenance")).start();
        assertThrows(InterruptedException.class, () -> new CountDownLatch(1).await());
        LockLostException lost = assertThrows(LockLostException.class, lock::unlock);
        assertEquals("maintenance", lost.loss().detail());
    }

    /** Notes when it is elected and when it has to go. */
    private static final class Candidate extends DefaultCandidate {
        private final BlockingQueue<String> said;
        private final String name;

        Candidate(String name, BlockingQueue<String> said) {
            super(name, "leader");
            this.name = name;
            this.said = said;
        }

        @Override
        public void onGranted(Context context) {
            said.add(name + " granted");
        }

        @Override
        public void onRevoked(Context context) {
            said.add(name + " revoked");
        }
    }

    @Test
    void aLeaderThatLosesItsLockIsRevoked() throws Exception {
        BlockingQueue<String> said = new LinkedBlockingQueue<>();
        LockRegistryLeaderInitiator leader =
                new LockRegistryLeaderInitiator(registry, new Candidate("one", said));
        leader.setHeartBeatMillis(100);
        leader.setBusyWaitMillis(50);
        leader.start();
        assertEquals("one granted", said.poll(20, TimeUnit.SECONDS));
        coordinator.forceRelease("spring:leader", "maintenance");
        assertEquals("one revoked", said.poll(20, TimeUnit.SECONDS));
        assertEquals("one granted", said.poll(20, TimeUnit.SECONDS));
        leader.stop();
        assertEquals("one revoked", said.poll(20, TimeUnit.SECONDS));
        LockRegistryLeaderInitiator successor =
                new LockRegistryLeaderInitiator(other, new Candidate("two", said));
        successor.start();
        assertEquals("two granted", said.poll(20, TimeUnit.SECONDS));
        successor.stop();
    }
}
