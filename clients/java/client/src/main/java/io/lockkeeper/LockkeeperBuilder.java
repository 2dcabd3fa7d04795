package io.lockkeeper;

import io.grpc.ClientInterceptor;
import io.lockkeeper.internal.Protos;
import io.lockkeeper.v1.OnDisconnect;
import io.lockkeeper.v1.OpenSession;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;

/** The settings of a client. Begin with {@link Lockkeeper#builder}. */
public final class LockkeeperBuilder {

    private static final long IDLE_THREAD_SECONDS = 10;

    private final List<Address> addresses = new ArrayList<>();
    private final OpenSession.Builder open = OpenSession.newBuilder();
    private final List<ClientInterceptor> interceptors = new ArrayList<>();
    private Tls tls = Tls.defaults();
    private Supplier<String> token;
    private Executor executor;
    private Consumer<SessionEvent> listener;

    LockkeeperBuilder() {}

    /**
     * Adds coordinators of one store. They are tried in this order, also after a broken stream.
     *
     * @param endpoints {@code http://HOST:PORT}, {@code https://HOST:PORT}, {@code unix:///PATH}
     *     (on Linux), or {@code HOST:PORT}, which means {@code http://}
     * @return this builder
     * @throws MisconfiguredException if an address cannot be used
     */
    public LockkeeperBuilder endpoints(String... endpoints) {
        Arrays.stream(endpoints).map(Address::parse).forEach(addresses::add);
        return this;
    }

    /**
     * Sets the session's lease: how long what is held outlives this process, and how long a broken
     * stream may take to be resumed. The default is the coordinator's, which is 30 s by default.
     *
     * @param lease the lease; the coordinator accepts 100 ms to 24 h by default
     * @return this builder
     * @throws MisconfiguredException if it is negative
     */
    public LockkeeperBuilder lease(Duration lease) {
        AcquireOptions.requireNotNegative("lease", lease);
        open.setLease(Protos.toProto(lease));
        return this;
    }

    /**
     * Sets the name under which operators see the holder of a lock.
     *
     * @param clientName the name
     * @return this builder
     */
    public LockkeeperBuilder clientName(String clientName) {
        open.setClientName(clientName);
        return this;
    }

    /**
     * Releases everything as soon as the stream breaks. By default it stays held until the lease
     * ends, because this process may still be working, and the session can be resumed until then.
     *
     * @return this builder
     */
    public LockkeeperBuilder releaseOnDisconnect() {
        open.setOnDisconnect(OnDisconnect.ON_DISCONNECT_RELEASE);
        return this;
    }

    /**
     * Sets the certificates for {@code https://}.
     *
     * @param tls the certificates
     * @return this builder
     */
    public LockkeeperBuilder tls(Tls tls) {
        this.tls = Objects.requireNonNull(tls);
        return this;
    }

    /**
     * Sends a bearer token with every call.
     *
     * @param token the token
     * @return this builder
     */
    public LockkeeperBuilder token(String token) {
        Objects.requireNonNull(token);
        return token(() -> token);
    }

    /**
     * Sends a bearer token with every call. It is called for each of them, on a thread of the
     * client, and may block.
     *
     * @param token returns the token
     * @return this builder
     */
    public LockkeeperBuilder token(Supplier<String> token) {
        this.token = Objects.requireNonNull(token);
        return this;
    }

    /**
     * Sends the bearer token of a file with every call. The file is read for each of them.
     *
     * @param file the file
     * @return this builder
     */
    public LockkeeperBuilder tokenFile(Path file) {
        return token(Token.file(file));
    }

    /**
     * Adds interceptors to every call, including the session's stream.
     *
     * @param interceptors the interceptors
     * @return this builder
     */
    public LockkeeperBuilder intercept(ClientInterceptor... interceptors) {
        this.interceptors.addAll(List.of(interceptors));
        return this;
    }

    /**
     * Sets where listeners and futures run. By default they run on threads of the client, which end
     * when they are idle. What the executor rejects runs on a thread of its own. While all threads
     * of the executor are busy, its listeners learn of a loss late; {@link Held#isLost} and {@link
     * LossWatch} do not depend on it, and neither do the session and its tokens.
     *
     * @param executor the executor; {@link Lockkeeper#close} does not shut it down
     * @return this builder
     */
    public LockkeeperBuilder executor(Executor executor) {
        this.executor = Objects.requireNonNull(executor);
        return this;
    }

    /**
     * Sets a listener for the state of the session. It is called in order, on the executor.
     *
     * @param listener the listener
     * @return this builder
     */
    public LockkeeperBuilder onSessionEvent(Consumer<SessionEvent> listener) {
        this.listener = Objects.requireNonNull(listener);
        return this;
    }

    /**
     * Makes the client. It connects when it is first used.
     *
     * @return the client
     * @throws MisconfiguredException if there is no endpoint, or a file cannot be used
     */
    public Lockkeeper connect() {
        if (addresses.isEmpty()) {
            throw new MisconfiguredException("endpoints: must not be empty");
        }
        ThreadPoolExecutor own = threads();
        Executor used = executor == null ? own : new Callbacks(executor);
        // The stream needs its token also while the user's threads are busy.
        Token credentials = token == null ? null : new Token(token, own);
        Connector connector =
                new Connector(
                        List.copyOf(addresses), tls, credentials, List.copyOf(interceptors));
        connector.check();
        OpenSession first = open.setSendsPings(true).setSendsClose(true).build();
        SessionListener events = new SessionListener(listener);
        return new Lockkeeper(
                () -> new Session(connector, first, own, used, events),
                new SessionlessLocks(new Calls(connector), used, first.getClientName()),
                own::shutdown);
    }

    /** Threads as they are needed, because a listener that blocks must not delay a loss. */
    private static ThreadPoolExecutor threads() {
        return new ThreadPoolExecutor(
                0,
                Integer.MAX_VALUE,
                IDLE_THREAD_SECONDS,
                TimeUnit.SECONDS,
                new SynchronousQueue<>(),
                task -> {
                    Thread thread = new Thread(task, "lockkeeper-callback");
                    thread.setDaemon(true);
                    return thread;
                },
                // After close, futures still complete.
                (task, pool) -> task.run());
    }
}
