package io.lockkeeper.conformance;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import io.lockkeeper.Grant;
import io.lockkeeper.Grants;
import io.lockkeeper.Held;
import io.lockkeeper.Latch;
import io.lockkeeper.Leadership;
import io.lockkeeper.Lockkeeper;
import io.lockkeeper.LockkeeperBuilder;
import io.lockkeeper.Permits;
import io.lockkeeper.Semaphore;
import io.lockkeeper.SessionEvent;
import io.lockkeeper.SessionlessLocks;
import io.lockkeeper.Tls;
import io.lockkeeper.YieldRequest;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;

/** What each command does. */
final class Commands {

    private final Driver driver;
    private final Map<String, Held> guards = new ConcurrentHashMap<>();
    private final Queue<Lockkeeper> idle = new ConcurrentLinkedQueue<>();
    private final Contenders contenders = new Contenders();
    private volatile Lockkeeper client;

    Commands(Driver driver) {
        this.driver = driver;
    }

    /** Ends the session. */
    void end() {
        Lockkeeper last = client;
        if (last != null) {
            try {
                last.close();
            } catch (RuntimeException failed) {
                failed.printStackTrace();
            }
        }
    }

    JsonObject run(Command command) throws Exception {
        return switch (command.action()) {
            case "connect" -> connect(command);
            case "close" -> {
                client.close();
                yield new JsonObject();
            }
            case "acquire", "acquire_all", "acquire_permits", "campaign", "claim" ->
                    keep(command, acquire(command));
            case "try_acquire", "try_acquire_all", "try_acquire_permits" ->
                    keep(command, tryAcquire(command).orElseThrow(() -> new Busy(command)));
            case "release" -> {
                guard(command).close();
                yield new JsonObject();
            }
            case "renew" -> {
                Held held = guard(command);
                Optional<Duration> lease = command.maybeMillis("lease_ms");
                if (lease.isPresent()) {
                    held.renew(lease.get());
                } else {
                    held.renew();
                }
                yield describe(held);
            }
            case "proclaim" -> {
                Leadership leadership = (Leadership) guard(command);
                JsonObject answer = new JsonObject();
                String revision = Long.toUnsignedString(leadership.proclaim(command.text("value")));
                answer.addProperty("revision", revision);
                yield answer;
            }
            case "offer" -> {
                JsonObject answer = new JsonObject();
                answer.addProperty("ticket", ((Grant) guard(command)).offer());
                yield answer;
            }
            case "observe", "watch_lock", "await_free" -> {
                new Feeds(driver, client).follow(command);
                yield new JsonObject();
            }
            case "state" -> {
                JsonObject state = describe(guard(command));
                state.addProperty("lost", guard(command).isLost());
                yield state;
            }
            case "contend" -> contenders.contend(client, command);
            case "sessions" -> openIdle(command);
            case "speed" -> new Speed(command).measure();
            case "once_try_acquire", "once_renew", "once_release" -> once(command);
            default -> about(command);
        };
    }

    /** A try that was not granted, in the form of the other clients. */
    static final class Busy extends Exception {
        private static final long serialVersionUID = 1;

        Busy(Command command) {
            super(command.action() + ": not granted");
        }
    }

    private JsonObject connect(Command command) throws InterruptedException {
        LockkeeperBuilder builder = Lockkeeper.builder().onSessionEvent(this::onSessionEvent);
        builder.endpoints(command.texts("endpoints").toArray(String[]::new));
        command.maybeMillis("lease_ms").ifPresent(builder::lease);
        command.maybeText("client_name").ifPresent(builder::clientName);
        command.maybeText("token").ifPresent(builder::token);
        command.maybeText("token_file").map(Path::of).ifPresent(builder::tokenFile);
        if (command.maybe("release_on_disconnect", JsonElement::getAsBoolean).orElse(false)) {
            builder.releaseOnDisconnect();
        }
        builder.tls(tls(command));
        client = builder.connect();
        client.open();
        return new JsonObject();
    }

    /** Opens sessions of clients of their own, which stay idle. */
    private JsonObject openIdle(Command command) throws InterruptedException {
        for (int left = command.number("count"); left > 0; left--) {
            String[] endpoints = command.texts("endpoints").toArray(String[]::new);
            Lockkeeper opened = Lockkeeper.connect(endpoints);
            idle.add(opened);
            opened.open();
        }
        return new JsonObject();
    }

    private static Tls tls(Command command) {
        Tls tls = Tls.defaults();
        tls = command.maybeText("ca_file").map(Path::of).map(tls::ca).orElse(tls);
        tls = command.maybeText("server_name").map(tls::serverName).orElse(tls);
        Optional<Path> certificate = command.maybeText("cert_file").map(Path::of);
        return certificate.isPresent()
                ? tls.certificate(certificate.get(), Path.of(command.text("key_file")))
                : tls;
    }

    private void onSessionEvent(SessionEvent event) {
        contenders.onSessionEvent(event);
        String state =
                switch (event.kind()) {
                    case OPENED, RESUMED, RECOVERED -> "connected";
                    case BROKEN -> "resuming";
                    case AT_RISK -> "at_risk";
                    case ENDED -> "ended";
                    case WAITING, YIELD_REQUESTED -> null;
                };
        if (state != null) {
            JsonObject line = new JsonObject();
            line.addProperty("event", "session");
            line.addProperty("state", state);
            line.addProperty("cause", event.detail());
            driver.print(line);
        }
    }

    // --- guards

    private Held acquire(Command command) throws InterruptedException {
        return switch (command.action()) {
            case "acquire_all" -> client.acquireAll(command.texts("names"), command.options());
            case "campaign" ->
                    client.election(command.name())
                            .campaign(command.text("value"), command.options());
            case "acquire_permits" ->
                    client.semaphore(command.name())
                            .acquire(command.number("permits"), command.options());
            case "claim" -> client.claim(command.name(), command.text("ticket"));
            default -> client.acquire(command.name(), command.options());
        };
    }

    private Optional<? extends Held> tryAcquire(Command command) throws InterruptedException {
        return switch (command.action()) {
            case "try_acquire_all" ->
                    client.tryAcquireAll(command.texts("names"), command.options());
            case "try_acquire_permits" ->
                    client.semaphore(command.name())
                            .tryAcquire(command.number("permits"), command.options());
            default -> client.tryAcquire(command.name(), command.options());
        };
    }

    private JsonObject keep(Command command, Held held) {
        String guard = command.text("guard");
        guards.put(guard, held);
        JsonObject described = describe(held);
        held.onLost(
                loss -> {
                    command.maybe("on_lost", JsonElement::getAsJsonObject)
                            .ifPresent(driver::start);
                    JsonObject line = new JsonObject();
                    line.addProperty("event", "lost");
                    line.addProperty("guard", guard);
                    line.addProperty("reason", loss.reason().name());
                    String token = Long.toUnsignedString(loss.fencingToken());
                    line.addProperty("fencing_token", token);
                    line.addProperty("detail", loss.detail());
                    driver.print(line);
                });
        held.onYieldRequested(this::onYieldRequested);
        return described;
    }

    private void onYieldRequested(YieldRequest request) {
        JsonObject line = new JsonObject();
        line.addProperty("event", "yield_requested");
        line.addProperty("name", request.name());
        line.addProperty("by", request.by());
        line.addProperty("reason", request.reason());
        line.addProperty("preempts", request.preempts());
        driver.print(line);
    }

    private Held guard(Command command) {
        return guards.get(command.text("guard"));
    }

    private static JsonObject describe(Held held) {
        JsonObject guard = new JsonObject();
        guard.addProperty("valid_ms", held.validFor().toMillis());
        if (held instanceof Leadership leadership) {
            guard.addProperty("fencing_token", Long.toUnsignedString(leadership.term()));
        } else if (held instanceof Grant grant) {
            String token = Long.toUnsignedString(grant.fencingToken());
            guard.addProperty("fencing_token", token);
        } else if (held instanceof Grants grants) {
            JsonObject tokens = new JsonObject();
            grants.fencingTokens()
                    .forEach((name, it) -> tokens.addProperty(name, Long.toUnsignedString(it)));
            guard.add("fencing_tokens", tokens);
        } else if (held instanceof Permits permits) {
            var ids = new com.google.gson.JsonArray();
            permits.permitIds().forEach(ids::add);
            guard.add("permit_ids", ids);
        }
        return guard;
    }

    // --- the others

    private static void await(Latch latch, Command command) throws Exception {
        Optional<Duration> limit = command.maybeMillis("wait_ms");
        if (limit.isEmpty()) {
            latch.await();
        } else if (!latch.await(limit.get())) {
            throw new Busy(command);
        }
    }

    private JsonObject about(Command command) throws Exception {
        Semaphore semaphore = client.semaphore(command.name());
        Latch latch = client.latch(command.name());
        JsonObject answer = new JsonObject();
        switch (command.action()) {
            case "set_permits" -> semaphore.setPermits(command.number("permits"));
            case "describe_semaphore" -> {
                var seen = semaphore.describe();
                answer.addProperty("permits", seen.getTotal());
                answer.addProperty("available", seen.getAvailable());
            }
            case "set_count" ->
                    answer.addProperty("count", latch.setCount(command.number("count")));
            case "count_down" -> {
                int by = command.maybe("by", JsonElement::getAsInt).orElse(1);
                answer.addProperty("count", latch.countDown(by));
            }
            case "await_latch" -> await(latch, command);
            case "describe_latch" -> answer.addProperty("count", latch.count());
            case "delete_latch" -> latch.delete();
            case "describe" -> {
                var seen = client.withoutSession().describe(command.name());
                answer.addProperty("holder_count", seen.getHolderCount());
                answer.addProperty("waiter_count", seen.getWaiterCount());
                String token = Long.toUnsignedString(seen.getLastFencingToken());
                answer.addProperty("last_fencing_token", token);
            }
            case "check_token" -> {
                long token = Long.parseUnsignedLong(command.text("fencing_token"));
                var checked = client.withoutSession().checkToken(command.name(), token);
                answer.addProperty("current", checked.getCurrent());
            }
            default -> throw new UnsupportedOperationException(command.action());
        }
        return answer;
    }

    private JsonObject once(Command command) throws InterruptedException {
        SessionlessLocks locks = client.withoutSession();
        String owner = command.text("owner");
        Duration lease = command.maybeMillis("lease_ms").orElse(Duration.ofSeconds(30));
        JsonObject answer = new JsonObject();
        switch (command.action()) {
            case "once_try_acquire" -> {
                var grant = locks.tryAcquire(command.name(), owner, lease);
                answer.addProperty("acquired", grant.isPresent());
                grant.map(it -> Long.toUnsignedString(it.getFencingToken()))
                        .ifPresent(it -> answer.addProperty("fencing_token", it));
            }
            case "once_renew" -> locks.renew(command.name(), owner, lease);
            default -> locks.release(command.name(), owner);
        }
        return answer;
    }
}
