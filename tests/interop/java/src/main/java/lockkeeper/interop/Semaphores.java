package lockkeeper.interop;

import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RPermitExpirableSemaphore;

/** Semaphores whose permits have leases. The first argument is the name; times are milliseconds, a lease of -1 never ends. */
final class Semaphores {
    private Semaphores() {}

    /** name, permits. */
    static String trySetPermits(Client client, String[] arguments) {
        return Locks.yes(semaphore(client, arguments).trySetPermits(Integer.parseInt(arguments[1])));
    }

    /** name, permits, lease: waits without limit. Returns the ids of the permits, with commas between them. */
    static String acquire(Client client, String[] arguments) throws InterruptedException {
        RPermitExpirableSemaphore semaphore = semaphore(client, arguments);
        int permits = Integer.parseInt(arguments[1]);
        long lease = Long.parseLong(arguments[2]);
        if (lease > 0) {
            return String.join(",", semaphore.acquire(permits, lease, TimeUnit.MILLISECONDS));
        }
        return String.join(",", semaphore.acquire(permits));
    }

    /** name, permits, wait, lease. Returns "no", or the ids of the permits. */
    static String tryAcquire(Client client, String[] arguments) throws InterruptedException {
        int permits = Integer.parseInt(arguments[1]);
        long wait = Long.parseLong(arguments[2]);
        long lease = Long.parseLong(arguments[3]);
        List<String> ids = semaphore(client, arguments).tryAcquire(permits, wait, lease, TimeUnit.MILLISECONDS);
        return ids == null || ids.isEmpty() ? "no" : String.join(",", ids);
    }

    /** name, ids. */
    static String release(Client client, String[] arguments) {
        semaphore(client, arguments).release(Arrays.asList(arguments[1].split(",")));
        return "";
    }

    /** name, id, lease. */
    static String updateLeaseTime(Client client, String[] arguments) {
        long lease = Long.parseLong(arguments[2]);
        boolean isUpdated = semaphore(client, arguments).updateLeaseTime(arguments[1], lease, TimeUnit.MILLISECONDS);
        return Locks.yes(isUpdated);
    }

    static String available(Client client, String[] arguments) {
        return Integer.toString(semaphore(client, arguments).availablePermits());
    }

    /** name, rounds, witness, sides: counts the witness up and signs the list while it has the only permit. */
    static String contend(Client client, String[] arguments) throws InterruptedException {
        RPermitExpirableSemaphore semaphore = semaphore(client, arguments);
        int rounds = Integer.parseInt(arguments[1]);
        for (int round = 0; round < rounds; round++) {
            String id = semaphore.acquire();
            try {
                Contest.takePart(client, arguments[2], arguments[3]);
            } finally {
                semaphore.release(id);
            }
        }
        return "";
    }

    private static RPermitExpirableSemaphore semaphore(Client client, String[] arguments) {
        return client.redisson().getPermitExpirableSemaphore(arguments[0]);
    }
}
