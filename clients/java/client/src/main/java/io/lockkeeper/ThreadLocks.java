package io.lockkeeper;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;

/** What threads hold by locks of {@code java.util.concurrent}. Each entry belongs to its thread. */
final class ThreadLocks {

    private record Key(String name, long thread) {}

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
    private final Map<Key, Holds> byThread = new ConcurrentHashMap<>();

    ThreadLocks(Lockkeeper client) {
        this.client = client;
    }

    Lockkeeper client() {
        return client;
    }

    /** What the current thread holds of a name. */
    Holds current(String name) {
        return byThread.computeIfAbsent(key(name), key -> new Holds(client.newOwner()));
    }

    /** Forgets an entry of the current thread that holds nothing. */
    void tidy(String name, Holds holds) {
        if (holds.read.count == 0 && holds.write.count == 0) {
            byThread.remove(key(name), holds);
        }
    }

    private static Key key(String name) {
        return new Key(name, Thread.currentThread().getId());
    }
}
