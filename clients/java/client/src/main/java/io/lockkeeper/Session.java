package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import io.lockkeeper.internal.Event;
import io.lockkeeper.internal.Failure;
import io.lockkeeper.internal.Protos;
import io.lockkeeper.internal.SessionMachine;
import io.lockkeeper.internal.Timers;
import io.lockkeeper.v1.OpenSession;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.function.LongFunction;

/** Runs a session machine: one thread that passes events to it and executes the effects. */
final class Session {

    private static final Logger LOGGER = System.getLogger("io.lockkeeper");
    private static final long ORIGIN = System.nanoTime();
    private static final AtomicLong NUMBERS = new AtomicLong();

    private final Connector connector;

    /** Threads of the client, of which one is always free. */
    private final Executor threads;

    /** Runs what belongs to the user. */
    private final Executor executor;

    private final SessionMachine machine;
    private final SessionListener listener;
    private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final Map<Long, Pending<?>> pending = new ConcurrentHashMap<>();

    /** Even, because those of the machine are odd. */
    private final AtomicLong ops = new AtomicLong();

    /** Empty when the session is open; else why it could not be opened, or has ended. */
    private final CompletableFuture<Failure> opened = new CompletableFuture<>();

    /** What is held; not what is lost or being released. */
    private final Map<Long, Held> guards = new ConcurrentHashMap<>();

    /** Belongs to the thread. */
    private Link link;

    /** A bug that has ended the thread; null if there is none. */
    private volatile Failure bug;

    /** Whether the machine has ended; set before anyone learns of that. */
    private volatile boolean hasEnded;

    /** Guarded by this: the end was reported, and events are handled by those who post them. */
    private boolean isOver;

    private record Pending<T>(Call<T> call, Function<Effect, T> value) {
        void answer(Effect effect) {
            call.answer(value.apply(effect), Session::discard);
        }
    }

    Session(
            Connector connector,
            OpenSession open,
            Executor threads,
            Executor executor,
            SessionListener listener) {
        this.connector = connector;
        this.threads = threads;
        this.executor = executor;
        this.listener = listener;
        machine =
                new SessionMachine(
                        connector.addresses().stream().map(Address::toString).toList(),
                        open,
                        () -> UUID.randomUUID().toString(),
                        () -> ThreadLocalRandom.current().nextDouble());
        String name = "lockkeeper-session-" + NUMBERS.incrementAndGet();
        Thread thread = new Thread(this::run, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Nanoseconds of a monotonic clock. It does not run while the machine sleeps. */
    static long now() {
        return System.nanoTime() - ORIGIN;
    }

    Executor threads() {
        return threads;
    }

    Executor executor() {
        return executor;
    }

    /** Whether it is over, although its end may not have been reported to everyone yet. */
    boolean hasEnded() {
        return hasEnded || bug != null;
    }

    /** Waits until the session is open. */
    void awaitOpen() throws InterruptedException {
        try {
            Failure failure = opened.get();
            if (failure != null) {
                throw Errors.of(failure);
            }
        } catch (java.util.concurrent.ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    // --- calls

    /** Acquires something. {@code isAsync} runs what depends on the result on the executor. */
    <T extends Held> Call<T> acquire(
            SessionRequest request,
            AcquireOptions options,
            boolean isAsync,
            Function<Effect.Granted, T> held) {
        Function<Effect, T> value =
                effect -> {
                    T guard = held.apply((Effect.Granted) effect);
                    guards.put(guard.guard(), guard);
                    return guard;
                };
        return start(request, options, isAsync, value);
    }

    /** Asks something. */
    <T> Call<T> ask(
            SessionRequest request,
            AcquireOptions options,
            boolean isAsync,
            Function<SessionResponse, T> answer) {
        return start(
                request,
                options,
                isAsync,
                effect -> answer.apply(((Effect.Answered) effect).answer()));
    }

    private <T> Call<T> start(
            SessionRequest request,
            AcquireOptions options,
            boolean isAsync,
            Function<Effect, T> value) {
        Duration limit = options.waitLimit();
        long waitUntil =
                limit == null ? Timers.NEVER : Timers.after(now(), Protos.saturated(limit));
        Duration patience = options.patience();
        long nanos = patience == null ? Timers.NEVER : Protos.saturated(patience);
        SessionRequest traced =
                request.toBuilder().setTraceparent(TraceContext.traceparent()).build();
        return submit(isAsync, value, op -> new Event.Start(op, traced, waitUntil, nanos));
    }

    Call<Void> release(long guard, boolean isAsync) {
        return submit(isAsync, effect -> null, op -> new Event.Release(op, guard));
    }

    Call<Void> renew(long guard, Duration lease, boolean isAsync) {
        return submit(isAsync, effect -> null, op -> new Event.Renew(op, guard, lease));
    }

    Call<Void> close() {
        return submit(false, effect -> null, Event.Close::new);
    }

    private <T> Call<T> submit(
            boolean isAsync, Function<Effect, T> value, LongFunction<Event> event) {
        Call<T> call = new Call<>(ops.addAndGet(2), isAsync ? executor : null, this::abandon);
        pending.put(call.op, new Pending<>(call, value));
        post(event.apply(call.op));
        return call;
    }

    private void abandon(long op) {
        pending.remove(op);
        post(new Event.Abandon(op));
    }

    /** The caller gave up while the grant was on its way. */
    private static void discard(Object value) {
        if (value instanceof Held held) {
            held.releaseAsync();
        }
    }

    // --- the thread

    private void post(Event event) {
        synchronized (this) {
            if (!isOver) {
                events.add(event);
                return;
            }
            if (bug == null) {
                handle(event);
            } else {
                crash();
            }
        }
    }

    private void run() {
        try {
            handle(new Event.Tick());
            while (!machine.isEnded()) {
                handle(next());
            }
        } catch (InterruptedException | RuntimeException | Error thrown) {
            LOGGER.log(Level.ERROR, "the session's thread failed", thrown);
            bug = new Failure.SessionEnded("internal error: " + thrown);
        }
        synchronized (this) {
            isOver = true;
            if (bug == null) {
                events.forEach(this::handle);
            } else {
                crash();
            }
            events.clear();
        }
        opened.complete(bug == null ? machine.failure() : bug);
    }

    private Event next() throws InterruptedException {
        long wakeAt = machine.wakeAt();
        if (wakeAt == Timers.NEVER) {
            return events.take();
        }
        Event event = events.poll(Math.max(0, wakeAt - now()), TimeUnit.NANOSECONDS);
        return event == null ? new Event.Tick() : event;
    }

    private void handle(Event event) {
        if (event instanceof Event.StreamEnded ended) {
            closeLink(ended.stream());
        }
        List<Effect> effects = machine.step(event, now());
        hasEnded = machine.isEnded();
        effects.forEach(this::execute);
        if (event instanceof Event.Frame frame && link != null && link.is(frame.stream())) {
            link.onHandled();
        }
    }

    private void execute(Effect effect) {
        if (effect instanceof Effect.Send it) {
            if (link != null && link.is(it.stream())) {
                link.send(it.frame());
            }
        } else if (effect instanceof Effect.Granted it) {
            answer(it.op(), it);
        } else if (effect instanceof Effect.Answered it) {
            answer(it.op(), it);
        } else if (effect instanceof Effect.Done it) {
            answer(it.op(), it);
        } else if (effect instanceof Effect.Failed it) {
            fail(it.op(), it.failure());
        } else if (effect instanceof Effect.Valid it) {
            Held held = guards.get(it.guard());
            if (held != null) {
                held.onRenewed(it.validUntil());
            }
        } else if (effect instanceof Effect.Asked it) {
            Held held = guards.get(it.guard());
            if (held != null) {
                held.onAsked(YieldRequest.of(it.request()), it.until());
            }
        } else if (effect instanceof Effect.Lost it) {
            lose(it.guard(), it.loss());
        } else if (effect instanceof Effect.Connect it) {
            connect(it);
        } else if (effect instanceof Effect.Cancel it) {
            closeLink(it.stream());
        } else if (effect instanceof Effect.Notice it) {
            notice(it);
        }
    }

    private void answer(long op, Effect effect) {
        Pending<?> waiting = pending.remove(op);
        if (waiting != null) {
            waiting.answer(effect);
        } else if (effect instanceof Effect.Granted granted) {
            // The caller gave up, which the machine learns too late.
            post(new Event.Release(ops.addAndGet(2), granted.guard()));
        }
    }

    private void fail(long op, Failure failure) {
        Pending<?> waiting = pending.remove(op);
        if (waiting != null) {
            waiting.call.fail(failure);
        }
    }

    private void lose(long guard, Failure.Lost loss) {
        Held held = guards.remove(guard);
        Loss reported = Errors.loss(loss);
        if (held != null && held.onLost(reported)) {
            LOGGER.log(Level.WARNING, () -> Errors.lost(reported).getMessage());
        }
    }

    /** A guard that is being released loses nothing any more. */
    void onReleased(long guard) {
        guards.remove(guard);
    }

    private void connect(Effect.Connect effect) {
        Address address = connector.addresses().get(effect.endpoint());
        long stream = effect.stream();
        try {
            link = Link.open(connector, address, stream, effect.first(), this::post);
        } catch (MisconfiguredException unusable) {
            Failure why = new Failure.Misconfigured(unusable.getMessage());
            post(new Event.StreamEnded(stream, why));
        } catch (RuntimeException failed) {
            Failure why = new Failure.Unreachable(address.toString(), failed.toString());
            post(new Event.StreamEnded(stream, why));
        }
    }

    private void closeLink(long stream) {
        if (link != null && link.is(stream)) {
            link.close();
            link = null;
        }
    }

    private void notice(Effect.Notice notice) {
        if (notice.kind() == Effect.Kind.OPENED) {
            opened.complete(null);
        }
        Level level =
                switch (notice.kind()) {
                    case BROKEN, AT_RISK -> Level.WARNING;
                    case RESUMED, RECOVERED, YIELD_REQUESTED -> Level.INFO;
                    case OPENED, WAITING, ENDED -> Level.DEBUG;
                };
        LOGGER.log(level, () -> "session: " + notice.kind() + " " + notice.detail());
        listener.on(notice, executor);
    }

    /** Everything fails because of the bug, and what fails meanwhile spares the rest. */
    private void crash() {
        // First, because the coordinator renews what is held as long as there is a stream.
        Link last = link;
        link = null;
        if (last != null) {
            attempt(last::close);
        }
        pending.values().forEach(it -> attempt(() -> it.call.fail(bug)));
        pending.clear();
        Loss loss = new Loss("", LossReason.UNSPECIFIED, 0, bug.describe());
        guards.values().forEach(it -> attempt(() -> it.onLost(loss)));
        guards.clear();
    }

    private static void attempt(Runnable step) {
        try {
            step.run();
        } catch (RuntimeException | Error thrown) {
            LOGGER.log(Level.ERROR, "the end of a session failed in part", thrown);
        }
    }
}
