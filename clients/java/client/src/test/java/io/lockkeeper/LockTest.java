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
