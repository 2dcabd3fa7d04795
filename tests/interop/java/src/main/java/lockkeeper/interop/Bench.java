package lockkeeper.interop;

import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Measures Redisson with its default configuration: {@code <url> hot|own <threads> <warm-up seconds> <seconds>}. Each thread takes a lock and gives it
 * back, as often as it can: all the same one, or one of its own. Prints one JSON object in the form of {@code lockkeeper bench}.
 */
public final class Bench {
    private final RedissonClient redisson;
    private final boolean hot;
    private final long startNanos;
    private final long endNanos;
    private final Caller[] callers;

    private Bench(RedissonClient redisson, boolean hot, int threads, double warmUp, double seconds) {
        this.redisson = redisson;
        this.hot = hot;
        startNanos = System.nanoTime() + nanos(warmUp);
        endNanos = startNanos + nanos(seconds);
        callers = new Caller[threads];
    }

    public static void main(String[] arguments) throws InterruptedException {
        Config config = new Config();
        config.useSingleServer().setAddress(arguments[0]);
        RedissonClient redisson = Redisson.create(config);
        try {
            double seconds = Double.parseDouble(arguments[4]);
            Bench bench = new Bench(
                    redisson,
                    arguments[1].equals("hot"),
                    Integer.parseInt(arguments[2]),
                    Double.parseDouble(arguments[3]),
                    seconds);
            bench.run();
            System.out.println(bench.report(seconds));
        } finally {
            // Its threads would keep the process.
            redisson.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }

    private static long nanos(double seconds) {
        return (long) (seconds * 1e9);
    }

    private void run() throws InterruptedException {
        for (int number = 0; number < callers.length; number++) {
            callers[number] = new Caller(redisson.getLock(hot ? "bench" : "bench-" + number));
            callers[number].start();
        }
        for (Caller caller : callers) {
            caller.join();
            if (caller.failure != null) {
                throw new IllegalStateException(caller.failure);
            }
        }
    }

    private String report(double seconds) {
        long[] all = Arrays.stream(callers).flatMapToLong(caller -> Arrays.stream(caller.waits, 0, caller.count)).sorted().toArray();
        long fewest = Arrays.stream(callers).mapToLong(caller -> caller.count).min().orElse(0);
        long most = Arrays.stream(callers).mapToLong(caller -> caller.count).max().orElse(0);
        return String.format(
                Locale.ROOT,
                "{\"scenario\":\"%s\",\"in_flight\":%d,\"duration_s\":%.3f,\"operations_per_second\":%.3f,\"per_second\":{\"%s\":%.3f},"
                        + "\"latency_us\":{\"%s\":{\"count\":%d,\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f}},\"grants_per_waiter\":{\"fewest\":%d,\"most\":%d}}",
                hot ? "redisson-hot" : "redisson",
                callers.length,
                seconds,
                2 * all.length / seconds,
                hot ? "handovers" : "pairs",
                all.length / seconds,
                hot ? "wait" : "acquire",
                all.length,
                quantile(all, 0.5),
                quantile(all, 0.99),
                quantile(all, 1),
                fewest,
                most);
    }

    private static double quantile(long[] sorted, double quantile) {
        if (sorted.length == 0) {
            return 0;
        }
        int at = (int) Math.ceil(quantile * sorted.length) - 1;
        return sorted[Math.max(at, 0)] / 1e3;
    }

    /** One thread with its lock. */
    private final class Caller extends Thread {
        private final RLock lock;
        /** How long each lock took that counts, in nanoseconds. */
        private long[] waits = new long[1024];
        private int count;
        private volatile Throwable failure;

        Caller(RLock lock) {
            this.lock = lock;
        }

        @Override
        public void run() {
            try {
                while (System.nanoTime() < endNanos) {
                    pair();
                }
            } catch (Throwable problem) {
                failure = problem;
            }
        }

        private void pair() {
            long asked = System.nanoTime();
            lock.lock();
            long taken = System.nanoTime();
            lock.unlock();
            long given = System.nanoTime();
            if (given < startNanos || given >= endNanos) {
                return;
            }
            if (count == waits.length) {
                waits = Arrays.copyOf(waits, 2 * count);
            }
            waits[count++] = taken - asked;
        }
    }
}
