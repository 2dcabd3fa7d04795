package io.lockkeeper.conformance;

import com.google.gson.JsonObject;
import io.lockkeeper.AcquireOptions;
import io.lockkeeper.Grant;
import io.lockkeeper.LockLostException;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.LockkeeperException;
import io.lockkeeper.SessionEndedException;
import io.lockkeeper.SessionEvent;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Clients that acquire and release a lock in a loop, and write down what they see. */
final class Contenders {

    /** After an attempt that failed. */
    private static final long PAUSE_MILLIS = 50;

    private final Set<History> running = ConcurrentHashMap.newKeySet();

    /** What one contender saw, a JSON object on a line for each event. */
    private static final class History {
        private final FileChannel file;
        private final String client;
        private final String name;
        private int attempt;

        /** What is held; null if nothing is. */
        private Grant grant;

        History(FileChannel file, String client, String name) {
            this.file = file;
            this.client = client;
            this.name = name;
        }

        synchronized void note(String what, Grant held) throws IOException {
            if (what.equals("asked")) {
                attempt++;
            }
            grant = held;
            write(what, held == null ? null : held.fencingToken(), null);
        }

        synchronized void noteHeld(String what, Duration valid) throws IOException {
            // The loss of a lost one follows.
            if (grant != null && !grant.isLost()) {
                write(what, null, valid);
            }
        }

        private void write(String what, Long token, Duration valid) throws IOException {
            JsonObject event = new JsonObject();
            // The clock of the machine, which all drivers share.
            event.addProperty("at_us", System.nanoTime() / 1000);
            event.addProperty("client", client);
            event.addProperty("attempt", attempt);
            event.addProperty("name", name);
            event.addProperty("what", what);
            if (token != null) {
                event.addProperty("token", Long.toUnsignedString(token));
            }
            if (what.equals("at_risk") && valid != null) {
                event.addProperty("valid_us", valid.toNanos() / 1000);
            } else if (what.equals("broke")) {
                event.addProperty("valid_us", grant.validFor().toNanos() / 1000);
            }
            // One write for each line: several processes append to the file.
            file.write(ByteBuffer.wrap((event + "\n").getBytes(StandardCharsets.UTF_8)));
        }
    }

    JsonObject contend(Lockkeeper client, Command command)
            throws IOException, InterruptedException {
        String named = System.getenv("LOCKKEEPER_HISTORY");
        if (named == null) {
            throw new IllegalStateException("LOCKKEEPER_HISTORY must name a file");
        }
        Path path = Path.of(named);
        StandardOpenOption[] append = {StandardOpenOption.CREATE, StandardOpenOption.APPEND};
        Duration hold = command.maybeMillis("hold_ms").orElse(Duration.ZERO);
        try (FileChannel file = FileChannel.open(path, append)) {
            History history = new History(file, command.text("client"), command.name());
            running.add(history);
            try {
                double seconds = command.fields().get("seconds").getAsDouble();
                long end = System.nanoTime() + (long) (seconds * TimeUnit.SECONDS.toNanos(1));
                while (System.nanoTime() - end < 0) {
                    attempt(client, command.name(), command.options(), hold, history);
                }
            } finally {
                running.remove(history);
            }
        }
        return new JsonObject();
    }

    private static void attempt(
            Lockkeeper client, String name, AcquireOptions options, Duration hold, History history)
            throws IOException, InterruptedException {
        history.note("asked", null);
        Grant grant;
        try {
            grant = client.acquire(name, options);
        } catch (LockkeeperException | LockLostException failed) {
            history.note("failed", null);
            Thread.sleep(PAUSE_MILLIS);
            return;
        }
        history.note("granted", grant);
        CountDownLatch lost = new CountDownLatch(1);
        grant.onLost(loss -> lost.countDown());
        if (lost.await(hold.toMillis(), TimeUnit.MILLISECONDS)) {
            history.note("lost", null);
            grant.releaseAsync();
            return;
        }
        history.note("release_sent", null);
        try {
            grant.close();
            history.note("released", null);
        } catch (LockLostException | SessionEndedException refused) {
            history.note("refused", null);
        } catch (LockkeeperException failed) {
            history.note("failed", null);
        }
    }

    void onSessionEvent(SessionEvent event) {
        String what =
                switch (event.kind()) {
                    case BROKEN -> "broke";
                    case RESUMED -> "resumed";
                    case AT_RISK -> "at_risk";
                    case RECOVERED -> "recovered";
                    default -> null;
                };
        if (what == null) {
            return;
        }
        for (History history : running) {
            try {
                history.noteHeld(what, event.remaining().orElse(null));
            } catch (IOException failed) {
                failed.printStackTrace();
            }
        }
    }
}
