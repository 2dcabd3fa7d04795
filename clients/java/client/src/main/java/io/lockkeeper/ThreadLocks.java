package io.lockkeeper;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;

/** What threads hold by locks of {@code java.util.concurrent}. */
final class ThreadLocks {

    /** What one thread holds; only that thread uses it. */
    private static final class OfThread {

        /** The same for all of its locks, so that deadlocks between threads are known. */
        final String owner;

        final Map<String, Holds> byName = new HashMap<>();

        OfThread(String owner) {
            this.owner = owner;
        }
    }

    /** What one thread holds of one name: as a reader, and exclusively or as the writer. */
    static final class Holds {

        /** The same on both sides, so that a writer can read. */
        final String owner;

        final Side read = new Side();
        final Side write = new Side();

        Holds(String owner) {
            this.owner = owner;
        }

        Side side(LockMode mode) {
            return mode == LockMode.READ ? read : write;
        }
    }

    /** A grant, and how often its thread has acquired it. */
    static final class Side {
        Grant grant;
        int count;
    }

    record ReadWrite(Lock readLock, Lock writeLock) implements ReadWriteLock {}

    private final Lockkeeper client;
    private final Map<Long, OfThread> byThread = new ConcurrentHashMap<>();

    ThreadLocks(Lockkeeper client) {
        this.client = client;
    }

    Lockkeeper client() {
        return client;
    }

    /**
     * What the current thread holds of a name. While it holds nothing at all, it has no owner: the
     * next one is new, so that it has nothing to do with what was lost before.
     */
    Holds current(String name) {
        OfThread all =
                byThread.computeIfAbsent(
                        thread(), id -> new OfThread(client.frames().newOwner() + "-thread-" + id));
        return all.byName.computeIfAbsent(name, it -> new Holds(all.owner));
    }

    /** Forgets an entry of the current thread that holds nothing. */
    void tidy(String name, Holds holds) {
        if (holds.read.count > 0 || holds.write.count > 0) {
            return;
        }
        OfThread all = byThread.get(thread());
        if (all != null && all.byName.remove(name, holds) && all.byName.isEmpty()) {
            byThread.remove(thread());
        }
    }

    private static long thread() {
        return Thread.currentThread().getId();
    }
}
