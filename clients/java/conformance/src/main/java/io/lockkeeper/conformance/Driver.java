package io.lockkeeper.conformance;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.lockkeeper.LockLostException;
import io.lockkeeper.MisconfiguredException;
import io.lockkeeper.NotGrantedException;
import io.lockkeeper.RefusedException;
import io.lockkeeper.SessionEndedException;
import io.lockkeeper.UnreachableException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Reads commands and writes events, each a JSON object on a line. */
public final class Driver {

    private static final PrintStream OUT = System.out;

    private final Commands commands = new Commands(this);
    private final Map<Long, Thread> running = new ConcurrentHashMap<>();

    private Driver() {}

    /**
     * Runs until the standard input ends.
     *
     * @param arguments none
     * @throws IOException if the standard input cannot be read
     */
    public static void main(String[] arguments) throws IOException {
        Driver driver = new Driver();
        JsonObject ready = new JsonObject();
        ready.addProperty("event", "ready");
        driver.print(ready);
        try (BufferedReader input =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                driver.start(JsonParser.parseString(line).getAsJsonObject());
            }
        }
        driver.commands.end();
        System.exit(0);
    }

    /** Writes a line. */
    void print(JsonObject event) {
        synchronized (OUT) {
            OUT.println(event);
            OUT.flush();
        }
    }

    /** Commands run concurrently: one that waits does not delay the next. */
    void start(JsonObject command) {
        long id = command.get("id").getAsLong();
        Thread thread = new Thread(() -> run(id, command), "command-" + id);
        thread.setDaemon(true);
        running.put(id, thread);
        thread.start();
    }

    private void run(long id, JsonObject command) {
        JsonObject answer = new JsonObject();
        answer.addProperty("id", id);
        try {
            if ("cancel".equals(command.get("do").getAsString())) {
                cancel(command.get("target").getAsLong());
                answer.add("ok", new JsonObject());
            } else {
                answer.add("ok", commands.run(new Command(command)));
            }
        } catch (Exception | LinkageError failure) {
            answer.add("error", describe(failure));
        }
        running.remove(id);
        print(answer);
    }

    private void cancel(long target) {
        Thread thread = running.get(target);
        if (thread != null) {
            thread.interrupt();
        }
    }

    private static JsonObject describe(Throwable failure) {
        JsonObject error = new JsonObject();
        error.addProperty("kind", kind(failure));
        String reason = reason(failure);
        if (reason != null) {
            error.addProperty("reason", reason);
        }
        error.addProperty("message", String.valueOf(failure.getMessage()));
        return error;
    }

    private static String kind(Throwable failure) {
        if (failure instanceof InterruptedException) {
            return "cancelled";
        } else if (failure instanceof MisconfiguredException) {
            return "misconfigured";
        } else if (failure instanceof UnreachableException) {
            return "unreachable";
        } else if (failure instanceof NotGrantedException || failure instanceof Commands.Busy) {
            return "not_granted";
        } else if (failure instanceof LockLostException) {
            return "lost";
        } else if (failure instanceof RefusedException) {
            return "refused";
        } else if (failure instanceof SessionEndedException) {
            return "session_ended";
        }
        failure.printStackTrace();
        return "unsupported";
    }

    private static String reason(Throwable failure) {
        if (failure instanceof NotGrantedException it) {
            return it.reason();
        } else if (failure instanceof Commands.Busy) {
            return "WAIT_TIMEOUT";
        } else if (failure instanceof LockLostException it) {
            return it.loss().reason().name();
        } else if (failure instanceof RefusedException it) {
            return it.reason().orElse(null);
        }
        return null;
    }
}
