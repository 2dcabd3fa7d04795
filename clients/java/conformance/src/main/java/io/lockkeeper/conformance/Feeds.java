package io.lockkeeper.conformance;

import com.google.gson.JsonObject;
import io.lockkeeper.ElectionEvent;
import io.lockkeeper.LockEvent;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.Observation;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.ExecutionException;

/** What the driver follows: elections, and locks. */
record Feeds(Driver driver, Lockkeeper client) {

    /** Tells what happens until the thread is interrupted, or waits until a lock is free. */
    void follow(Command command) throws Exception {
        String name = command.name();
        switch (command.action()) {
            case "observe" ->
                    untilEnd(client.election(name).observe(event -> tell(command, event)));
            case "watch_lock" ->
                    untilEnd(client.withoutSession().watch(name, event -> tell(command, event)));
            default -> awaitFree(command);
        }
    }

    private void awaitFree(Command command) throws Exception {
        Optional<Duration> limit = command.maybeMillis("wait_ms");
        if (limit.isEmpty()) {
            client.withoutSession().awaitFree(command.name());
        } else if (!client.withoutSession().awaitFree(command.name(), limit.get())) {
            throw new Commands.Busy(command);
        }
    }

    private static void untilEnd(Observation observation) throws Exception {
        try (observation) {
            observation.ended().toCompletableFuture().get();
        } catch (ExecutionException ended) {
            throw ended.getCause() instanceof Exception failure ? failure : ended;
        }
    }

    private void tell(Command command, ElectionEvent event) {
        JsonObject line = line(command, event.kind().name());
        event.leader()
                .ifPresent(
                        leader -> {
                            line.addProperty("value", leader.value());
                            String revision = Long.toUnsignedString(leader.revision());
                            line.addProperty("revision", revision);
                            addToken(line, leader.term());
                        });
        driver.print(line);
    }

    private void tell(Command command, LockEvent event) {
        JsonObject line = line(command, event.getClass().getSimpleName());
        if (event instanceof LockEvent.Granted granted) {
            addToken(line, granted.fencingToken());
        } else if (event instanceof LockEvent.Ended ended) {
            addToken(line, ended.fencingToken());
        }
        driver.print(line);
    }

    private static void addToken(JsonObject line, long token) {
        line.addProperty("fencing_token", Long.toUnsignedString(token));
    }

    private static JsonObject line(Command command, String what) {
        JsonObject line = new JsonObject();
        line.addProperty("event", "told");
        line.addProperty("feed", command.text("feed"));
        line.addProperty("what", what.toLowerCase(Locale.ROOT));
        return line;
    }
}
