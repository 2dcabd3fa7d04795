package lockkeeper.interop;

import java.util.concurrent.TimeUnit;
import org.redisson.api.RCountDownLatch;

/** Latches that count down. The first argument is the name. */
final class Latches {
    private Latches() {}

    /** name, count. */
    static String trySetCount(Client client, String[] arguments) {
        return Locks.yes(latch(client, arguments).trySetCount(Long.parseLong(arguments[1])));
    }

    static String countDown(Client client, String[] arguments) {
        latch(client, arguments).countDown();
        return "";
    }

    static String count(Client client, String[] arguments) {
        return Long.toString(latch(client, arguments).getCount());
    }

    /** name, wait in milliseconds, -1: without limit. Returns whether it has opened. */
    static String await(Client client, String[] arguments) throws InterruptedException {
        long wait = Long.parseLong(arguments[1]);
        if (wait >= 0) {
            return Locks.yes(latch(client, arguments).await(wait, TimeUnit.MILLISECONDS));
        }
        latch(client, arguments).await();
        return "yes";
    }

    private static RCountDownLatch latch(Client client, String[] arguments) {
        return client.redisson().getCountDownLatch(arguments[0]);
    }
}
