package example;

import io.lockkeeper.Grant;
import io.lockkeeper.LockLostException;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.LockkeeperException;

/** Holds a lock until it is lost; see clients/new-user. */
public final class Hold {

    private Hold() {}

    /**
     * Holds the lock.
     *
     * @param arguments the coordinator
     * @throws InterruptedException if the thread is interrupted
     */
    public static void main(String[] arguments) throws InterruptedException {
        try (Lockkeeper client = Lockkeeper.connect(arguments[0]);
                Grant grant = client.acquire("report")) {
            System.out.println("held " + grant.fencingToken());
            grant.lost().toCompletableFuture().join();
            System.out.println("lost");
        } catch (LockLostException lost) {
            return;
        } catch (LockkeeperException failed) {
            System.err.println("error: " + failed.getMessage());
            System.exit(1);
        }
    }
}
