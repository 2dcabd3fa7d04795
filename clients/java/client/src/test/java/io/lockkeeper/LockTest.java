package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import org.junit.jupiter.api.Test;

/** Locks of java.util.concurrent, against a real coordinator. */
final class LockTest extends WithCoordinator {

    private static <T> T inAnotherThread(Callable<T> task) throws Exception {
        FutureTask<T> future = new FutureTask<>(task);
        new Thread(future).start();
        return future.get(20, TimeUnit.SECONDS);
    }

    @Test
    void itIsReentrantAndExcludesOtherThreads() throws Exception {
        LockkeeperLock lock = client.lock("reentrant");
        lock.lock();
        client.lock("reentrant").lock();
        assertTrue(lock.isHeldByCurrentThread());
        assertEquals(lock.fencingToken(), lock.grant().orElseThrow().fencingToken());
        lock.unlock();
        assertFalse(inAnotherThread(() -> client.lock("reentrant").tryLock()));
        assertFalse(
                inAnotherThread(
                        () -> client.lock("reentrant").tryLock(50, TimeUnit.MILLISECONDS)));
        lock.unlock();
        assertEquals(Optional.empty(), lock.grant());
        assertTrue(
                inAnotherThread(
                        () -> {
                            Lock other = client.lock("reentrant");
                            boolean locked = other.tryLock();
                            other.unlock();
                            return locked;
                        }));
    }

    @Test
    void onlyItsHolderUnlocks() {
        Lock lock = client.lock("unlocked");
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertThrows(UnsupportedOperationException.class, lock::newCondition);
        lock.lock();
        lock.unlock();
        assertThrows(IllegalMonitorStateException.class, lock::unlock);
    }

    @Test
    void theUnlockOfALostOneThrows() throws Exception {
        LockkeeperLock lock = client.lock("lost");
        lock.lock();
        lock.lock();
        coordinator.forceRelease("lost", "maintenance");
        lock.grant().orElseThrow().lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
        assertTrue(lock.isLost());
        assertThrows(LockLostException.class, lock::lock);
        assertThrows(LockLostException.class, lock::unlock);
        IllegalMonitorStateException last =
                assertThrows(IllegalMonitorStateException.class, lock::unlock);
        assertEquals("lost: lost, an operator force-released it: maintenance", last.getMessage());
        lock.lock();
        lock.unlock();
    }

    @Test
    void aLeaseIsNotRenewed() throws Exception {
        LockkeeperLock lock = client.lock("lease");
        assertTrue(lock.tryLock(Duration.ofSeconds(1), Duration.ofMillis(300)));
        lock.grant().orElseThrow().lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
        assertThrows(LockLostException.class, lock::unlock);
    }

    @Test
    void aFurtherAcquireExtendsTheLeaseAndNeverShortensIt() throws Exception {
        LockkeeperLock lock = client.lock("extended");
        Duration first = Duration.ofSeconds(10);
        assertTrue(lock.tryLock(Duration.ofSeconds(1), first));
        lock.lock(Duration.ofMinutes(10));
        Duration left = lock.grant().orElseThrow().validFor();
        assertTrue(left.compareTo(Duration.ofMinutes(5)) > 0, left.toString());
        long stored =
                client.withoutSession().describe("extended").getRemainingLease().getSeconds();
        assertTrue(stored > 300, stored + " s");
        assertTrue(lock.tryLock(Duration.ZERO, first));
        lock.lock();
        left = lock.grant().orElseThrow().validFor();
        assertTrue(left.compareTo(Duration.ofMinutes(5)) > 0, left.toString());
        assertEquals(4, lock.holdCount());
        for (int held = 4; held > 0; held--) {
            lock.unlock();
        }
    }

    @Test
    void theLongestTimeToWaitIsNoLimit() throws Exception {
        Lock lock = client.lock("longest");
        assertTrue(lock.tryLock(Long.MAX_VALUE, TimeUnit.DAYS));
        assertTrue(lock.tryLock(Long.MIN_VALUE, TimeUnit.DAYS));
        lock.unlock();
        lock.unlock();
    }

    @Test
    void aHolderThatIsInterruptedAcquiresNothing() {
        LockkeeperLock lock = client.lock("held");
        lock.lock();
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, lock::lockInterruptibly);
        assertFalse(Thread.interrupted());
        assertEquals(1, lock.holdCount());
        lock.unlock();
    }

    @Test
    void aWriterReadsAndAReaderDoesNotWrite() throws Exception {
        ReadWriteLock lock = client.readWriteLock("rw");
        lock.writeLock().lock();
        lock.readLock().lock();
        lock.writeLock().unlock();
        boolean shared =
                inAnotherThread(
                        () -> {
                            Lock read = client.readWriteLock("rw").readLock();
                            boolean locked = read.tryLock(5, TimeUnit.SECONDS);
                            read.unlock();
                            return locked;
                        });
        assertTrue(shared);
        RefusedException refused =
                assertThrows(RefusedException.class, () -> lock.writeLock().lock());
        assertEquals(Optional.of("SELF_DEADLOCK"), refused.reason());
        lock.readLock().unlock();
        lock.writeLock().lock();
        lock.writeLock().unlock();
    }

    @Test
    void anInterruptEndsAnInterruptibleWait() throws Exception {
        Lock lock = client.lock("interruptible");
        lock.lock();
        FutureTask<Boolean> waiting =
                new FutureTask<>(
                        () -> {
                            assertThrows(
                                    InterruptedException.class,
                                    () -> client.lock("interruptible").lockInterruptibly());
                            return true;
                        });
        Thread thread = new Thread(waiting);
        thread.start();
        thread.interrupt();
        assertTrue(waiting.get(20, TimeUnit.SECONDS));
        lock.unlock();
    }
}
