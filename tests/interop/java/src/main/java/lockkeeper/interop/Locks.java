package lockkeeper.interop;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;

/** Locks of every kind. The first arguments are the kind and the name. Times are milliseconds; a lease of -1 is left to the watchdog. */
final class Locks {
    private Locks() {}

    /** Waits without limit. Returns the fencing token, if there is one. */
    static String lock(Client client, String[] arguments) {
        RLock lock = named(client, arguments);
        long lease = Long.parseLong(arguments[2]);
        if (lease > 0) {
            lock.lock(lease, TimeUnit.MILLISECONDS);
        } else if (lock instanceof RFencedLock) {
            return ((RFencedLock) lock).lockAndGetToken().toString();
        } else {
            lock.lock();
        }
        return token(lock);
    }

    /** Waits so long, 0: not at all. */
    static String tryLock(Client client, String[] arguments) throws InterruptedException {
        RLock lock = named(client, arguments);
        long wait = Long.parseLong(arguments[2]);
        long lease = Long.parseLong(arguments[3]);
        return yes(lock.tryLock(wait, lease, TimeUnit.MILLISECONDS));
    }

    static String unlock(Client client, String[] arguments) {
        named(client, arguments).unlock();
        return "";
    }

    static String forceUnlock(Client client, String[] arguments) {
        return yes(named(client, arguments).forceUnlock());
    }

    static String isLocked(Client client, String[] arguments) {
        return yes(named(client, arguments).isLocked());
    }

    /** How many holds this thread has. */
    static String holds(Client client, String[] arguments) {
        return Integer.toString(named(client, arguments).getHoldCount());
    }

    static String timeToLive(Client client, String[] arguments) {
        return Long.toString(named(client, arguments).remainTimeToLive());
    }

    static String yes(boolean is) {
        return is ? "yes" : "no";
    }

    private static RLock named(Client client, String[] arguments) {
        return client.lock(arguments[0], arguments[1]);
    }

    private static String token(RLock lock) {
        return lock instanceof RFencedLock ? ((RFencedLock) lock).getToken().toString() : "";
    }
}
