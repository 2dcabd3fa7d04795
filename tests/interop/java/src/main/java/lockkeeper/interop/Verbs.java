package lockkeeper.interop;

import java.util.Map;

/** What can be told to a client. */
@FunctionalInterface
interface Verbs {
    Map<String, Verbs> ALL = Map.ofEntries(
            Map.entry("lock", Locks::lock),
            Map.entry("try", Locks::tryLock),
            Map.entry("unlock", Locks::unlock),
            Map.entry("force-unlock", Locks::forceUnlock),
            Map.entry("locked", Locks::isLocked),
            Map.entry("holds", Locks::holds),
            Map.entry("ttl", Locks::timeToLive),
            Map.entry("contend", Contest::contend),
            Map.entry("read-pair", Contest::readPair),
            Map.entry("write-pair", Contest::writePair),
            Map.entry("sign", Contest::sign),
            Map.entry("semaphore-set", Semaphores::trySetPermits),
            Map.entry("semaphore-acquire", Semaphores::acquire),
            Map.entry("semaphore-try", Semaphores::tryAcquire),
            Map.entry("semaphore-release", Semaphores::release),
            Map.entry("semaphore-renew", Semaphores::updateLeaseTime),
            Map.entry("semaphore-available", Semaphores::available),
            Map.entry("semaphore-contend", Semaphores::contend),
            Map.entry("latch-set", Latches::trySetCount),
            Map.entry("latch-down", Latches::countDown),
            Map.entry("latch-count", Latches::count),
            Map.entry("latch-await", Latches::await));

    String run(Client client, String[] arguments) throws Exception;

    static Verbs named(String name) {
        Verbs verb = ALL.get(name);
        if (verb == null) {
            throw new IllegalArgumentException("no verb is called " + name);
        }
        return verb;
    }
}
