package lockkeeper.interop;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.api.RFencedLock;

/**
 * Acquires and releases a fenced lock in a loop, and appends what it sees to a history in the format of {@code clients/conformance.md}.
 *
 * <p>Arguments: the lock, seconds, the milliseconds of a hold, the client in the history, the file, and the store as for {@link Client}.
 */
public final class Contender {
    private final FileChannel history;
    private final String name;
    private final String client;
    private int attempt;

    private Contender(FileChannel history, String name, String client) {
        this.history = history;
        this.name = name;
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        Stream<String> store = Stream.of(arguments).skip(5);
        Client redisson = Client.connect(Stream.concat(Stream.of("0"), store).toArray(String[]::new));
        StandardOpenOption[] append = {StandardOpenOption.CREATE, StandardOpenOption.APPEND};
        try (FileChannel file = FileChannel.open(Path.of(arguments[4]), append)) {
            Contender contender = new Contender(file, arguments[0], arguments[3]);
            RFencedLock lock = redisson.redisson().getFencedLock(arguments[0]);
            contender.contend(lock, Long.parseLong(arguments[1]), Long.parseLong(arguments[2]));
        }
        redisson.shutdown();
    }

    private void contend(RFencedLock lock, long seconds, long holdMillis) throws IOException, InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (System.nanoTime() - end < 0) {
            attempt++;
            note("asked", "");
            long token = lock.lockAndGetToken();
            note("granted", ", \"token\": \"" + token + "\"");
            Thread.sleep(holdMillis);
            note("release_sent", "");
            lock.unlock();
            note("released", "");
        }
    }

    private void note(String what, String more) throws IOException {
        String line = String.format(
                "{\"at_us\": %d, \"client\": \"%s\", \"attempt\": %d, \"name\": \"%s\", \"what\": \"%s\"%s}%n",
                System.nanoTime() / 1000, client, attempt, name, what, more);
        // One write for each line: several processes append to the file.
        history.write(ByteBuffer.wrap(line.getBytes(StandardCharsets.UTF_8)));
    }
}
