package io.lockkeeper.conformance;

import com.google.gson.JsonObject;
import io.lockkeeper.Lockkeeper;
import java.util.concurrent.CompletionService;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;

/** Measures how fast the client is, beside a bare stream of gRPC. */
final class Speed {

    private static final long WARM_UP_NANOS = TimeUnit.SECONDS.toNanos(1);

    private final String[] endpoints;
    private final int tasks;
    private final long nanos;

    /** Acquires and releases the lock of a task. */
    interface Pair {
        void run(int task) throws Exception;
    }

    /** Pairs of an acquire and a release in a time. */
    private record Rate(long pairs, long nanos) {
        Rate plus(Rate other) {
            return new Rate(pairs + other.pairs, nanos + other.nanos);
        }

        double perSecond() {
            return pairs * 1e9 / nanos;
        }
    }

    Speed(Command command) {
        endpoints = command.texts("endpoints").toArray(String[]::new);
        tasks = command.number("tasks");
        nanos = (long) (command.fields().get("seconds").getAsDouble() * 1e9);
    }

    /** Measures both in turns, so that a busy machine slows them alike. */
    JsonObject measure() throws Exception {
        Rate client = new Rate(0, 0);
        Rate bare = new Rate(0, 0);
        for (int turn = 0; turn < 2; turn++) {
            client = client.plus(client());
            bare = bare.plus(bare());
        }
        JsonObject answer = new JsonObject();
        answer.addProperty("pairs_per_second", client.perSecond());
        answer.addProperty("bare_pairs_per_second", bare.perSecond());
        return answer;
    }

    private Rate client() throws Exception {
        try (Lockkeeper client = Lockkeeper.connect(endpoints)) {
            return rate(task -> client.tryAcquire("speed-" + task).orElseThrow().close());
        }
    }

    private Rate bare() throws Exception {
        try (BareStream stream = new BareStream(endpoints[0], tasks)) {
            return rate(stream::pair);
        }
    }

    /** Counts the pairs of all tasks in half of the time, for there are two turns. */
    private Rate rate(Pair pair) throws Exception {
        LongAdder pairs = new LongAdder();
        AtomicBoolean isOver = new AtomicBoolean();
        ExecutorService threads = Executors.newFixedThreadPool(tasks);
        CompletionService<Void> ends = new ExecutorCompletionService<>(threads);
        try {
            for (int i = 0; i < tasks; i++) {
                int task = i;
                ends.submit(
                        () -> {
                            while (!isOver.get()) {
                                pair.run(task);
                                pairs.increment();
                            }
                            return null;
                        });
            }
            pause(ends, WARM_UP_NANOS);
            long before = pairs.sum();
            long begin = System.nanoTime();
            pause(ends, nanos / 2);
            Rate rate = new Rate(pairs.sum() - before, System.nanoTime() - begin);
            isOver.set(true);
            for (int i = 0; i < tasks; i++) {
                ends.take().get();
            }
            return rate;
        } finally {
            threads.shutdownNow();
        }
    }

    /** Throws if a task fails meanwhile. */
    private static void pause(CompletionService<Void> ends, long nanos) throws Exception {
        Future<Void> end = ends.poll(nanos, TimeUnit.NANOSECONDS);
        if (end != null) {
            end.get();
        }
    }
}
