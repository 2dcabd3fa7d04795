package example;

import io.lockkeeper.Grant;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.shedlock.LockkeeperLockProvider;
import io.lockkeeper.spring.LockkeeperLockRegistry;
import java.time.Duration;
import java.time.Instant;
import net.javacrumbs.shedlock.core.LockConfiguration;
import org.springframework.integration.support.locks.DistributedLock;

/** Uses each package once. */
public final class Main {

    private Main() {}

    /**
     * Locks a name by each package.
     *
     * @param arguments the coordinator
     * @throws InterruptedException if the thread is interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        try (Lockkeeper client = Lockkeeper.connect(arguments[0]);
                Grant grant = client.acquire("reports")) {
            System.out.println("fencing token " + grant.fencingToken());
            if (client.tryAcquire("reports").isPresent()) {
                throw new IllegalStateException("it was locked twice");
            }
            LockConfiguration task =
                    new LockConfiguration(
                            Instant.now(), "reports", Duration.ofMinutes(1), Duration.ZERO);
            if (new LockkeeperLockProvider(client, "").lock(task).isPresent()) {
                throw new IllegalStateException("the task was not skipped");
            }
            DistributedLock lock = new LockkeeperLockRegistry(client, "other:").obtain("reports");
            lock.lock();
            lock.unlock();
        }
    }
}
