package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.MethodDescriptor;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What cannot work says so, and what can go on goes on. */
@Timeout(120)
final class FailureTest {

    @TempDir Path folder;

    private static String message(Lockkeeper client, Class<? extends RuntimeException> kind) {
        long begun = System.nanoTime();
        try (client) {
            String message = assertThrows(kind, client::open).getMessage();
            long seconds = TimeUnit.NANOSECONDS.toSeconds(System.nanoTime() - begun);
            assertTrue(seconds < 8, seconds + " s");
            assertFalse(message.contains("\n"), message);
            return message;
        }
    }

    private static int unusedPort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        }
    }

    @Test
    void aWrongAddressIsNamed() throws IOException {
        String url = "http://127.0.0.1:" + unusedPort();
        String message = message(Lockkeeper.connect(url), UnreachableException.class);
        assertTrue(message.startsWith("no coordinator at " + url + ": "), message);
        assertTrue(message.contains("refused"), message);
    }

    @Test
    void aServerThatDoesNotAnswerIsGivenUp() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            String url = "http://127.0.0.1:" + silent.getLocalPort();
            String message = message(Lockkeeper.connect(url), UnreachableException.class);
            assertEquals("no coordinator at " + url + ": it does not answer", message);
        }
    }

    private static void assertEndedByLimit(Lockkeeper client, String url) {
        AcquireOptions limited = AcquireOptions.defaults().waitLimit(Duration.ofMillis(300));
        long begun = System.nanoTime();
        UnreachableException ended =
                assertThrows(UnreachableException.class, () -> client.acquire("a", limited));
        long millis = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
        assertTrue(millis >= 300 && millis < 5_000, millis + " ms");
        assertEquals(url, ended.address());
        assertTrue(ended.getMessage().startsWith("no coordinator at " + url + ": "));
    }

    @Test
    void theWaitLimitHoldsWhileNoCoordinatorAnswers() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            String url = "http://127.0.0.1:" + silent.getLocalPort();
            try (Lockkeeper client = Lockkeeper.connect(url)) {
                assertEndedByLimit(client, url);
            }
        }
        try (Coordinator coordinator = Coordinator.start()) {
            Lockkeeper client = Lockkeeper.connect(coordinator.url()).open();
            coordinator.kill();
            assertEndedByLimit(client, coordinator.url());
            assertThrows(SessionEndedException.class, client::close);
        }
    }

    @Test
    @SuppressWarnings("try") // The coordinator is only to run.
    void aUnixSocketCarriesTheSessionAndTheCalls() throws Exception {
        Path socket = folder.resolve("coordinator.sock");
        try (Coordinator running = Coordinator.start("--set", "server.uds_path=" + socket);
                Lockkeeper client = Lockkeeper.connect("unix://" + socket);
                Grant held = client.acquire("a")) {
            assertFalse(held.isLost());
            assertEquals(1, client.withoutSession().describe("a").getHolderCount());
        }
    }

    @Test
    void whatCannotBeUsedIsNamed() {
        assertMisconfigured("endpoint: redis://x:1", "redis://x:1");
        assertMisconfigured(
                "endpoint: http://a_b:1 has a host name with an underscore", "http://a_b:1");
        assertMisconfigured("endpoints: must not be empty");
        MisconfiguredException unreadable =
                assertThrows(
                        MisconfiguredException.class,
                        () ->
                                Lockkeeper.builder()
                                        .endpoints("https://localhost:1")
                                        .tls(Tls.defaults().ca(Path.of("/nowhere/ca.pem")))
                                        .connect());
        assertEquals("/nowhere/ca.pem: does not exist", unreadable.getMessage());
        MisconfiguredException noCertificate =
                assertThrows(
                        MisconfiguredException.class,
                        () -> {
                            Path text = Files.writeString(folder.resolve("text"), "text");
                            Lockkeeper.builder()
                                    .endpoints("https://localhost:1")
                                    .tls(Tls.defaults().certificate(text, text))
                                    .connect();
                        });
        assertTrue(noCertificate.getMessage().startsWith("tls: "), noCertificate.getMessage());
        MisconfiguredException token =
                assertThrows(
                        MisconfiguredException.class,
                        () -> Lockkeeper.builder().endpoints("a:1").token("s\u00e9cret").connect());
        assertEquals("token: has invalid characters", token.getMessage());
    }

    private static void assertMisconfigured(String beginning, String... endpoints) {
        String message =
                assertThrows(MisconfiguredException.class, () -> Lockkeeper.connect(endpoints))
                        .getMessage();
        assertTrue(message.startsWith(beginning), message);
    }

    @Test
    void certificatesAreChecked() throws Exception {
        Certificates certificates = Certificates.make(folder);
        try (Coordinator coordinator = Coordinator.start(certificates.settings())) {
            String url = "https://localhost:" + coordinator.address().split(":")[1];
            Tls right = Tls.defaults().ca(certificates.ca());
            Tls mutual = right.certificate(certificates.client(), certificates.clientKey());
            LockkeeperBuilder mtls = Lockkeeper.builder().endpoints(url).tls(mutual);
            try (Lockkeeper client = mtls.connect().open();
                    Grant grant = client.acquire("tls")) {
                assertEquals("tls", grant.name());
            }
            Tls wrong = mutual.ca(certificates.otherCa());
            LockkeeperBuilder untrusted = Lockkeeper.builder().endpoints(url).tls(wrong);
            String message = message(untrusted.connect(), UnreachableException.class);
            assertTrue(message.contains(url) && message.contains("certification path"), message);
            LockkeeperBuilder anonymous = Lockkeeper.builder().endpoints(url).tls(right);
            message(anonymous.connect(), UnreachableException.class);
            LockkeeperBuilder misnamed =
                    Lockkeeper.builder().endpoints(url).tls(mutual.serverName("elsewhere"));
            assertTrue(
                    message(misnamed.connect(), UnreachableException.class).contains("elsewhere"));
            String plain = url.replace("https", "http");
            assertEquals(
                    "no coordinator at "
                            + plain
                            + ": the server there speaks TLS; its address begins with https://",
                    message(Lockkeeper.connect(plain), UnreachableException.class));
        }
    }

    @Test
    void tokensAreSentWithEveryCall() throws Exception {
        Path known = Files.writeString(folder.resolve("known"), "me 0123456789abcdef\n");
        Path token = Files.writeString(folder.resolve("token"), "0123456789abcdef\n");
        try (Coordinator coordinator =
                Coordinator.start("--set", "auth.token_file=" + known)) {
            LockkeeperBuilder file = Lockkeeper.builder().endpoints(coordinator.url());
            try (Lockkeeper client = file.tokenFile(token).connect()) {
                client.acquire("token").close();
                client.withoutSession().describe("token");
                Files.writeString(token, "another-token-that-is-unknown");
                RefusedException refused =
                        assertThrows(
                                RefusedException.class,
                                () -> client.withoutSession().describe("token"));
                assertEquals(Optional.of("UNAUTHENTICATED"), refused.reason());
            }
            LockkeeperBuilder callback = Lockkeeper.builder().endpoints(coordinator.url());
            try (Lockkeeper client = callback.token(() -> "0123456789abcdef").connect()) {
                client.acquire("token").close();
            }
            LockkeeperBuilder wrong = Lockkeeper.builder().endpoints(coordinator.url());
            String message = message(wrong.token("wrong").connect(), RefusedException.class);
            assertTrue(message.startsWith("UNAUTHENTICATED: "), message);
        }
    }

    @Test
    void tlsToAServerWithoutItIsNamed() throws IOException {
        try (Coordinator coordinator = Coordinator.start()) {
            String url = "https://" + coordinator.address();
            String message = message(Lockkeeper.connect(url), UnreachableException.class);
            assertTrue(message.startsWith("no coordinator at " + url + ": "), message);
            assertTrue(message.endsWith("its address begins with http://"), message);
        }
    }

    @Test
    void aCoordinatorIsKilledAndRestartedAndTheUserDoesNotNotice() throws Exception {
        BlockingQueue<SessionEvent.Kind> events = new LinkedBlockingQueue<>();
        try (RedisServer redis = RedisServer.start();
                Coordinator coordinator =
                        Coordinator.start(
                                "--store",
                                redis.url(),
                                "--set",
                                "session.secret=a secret of the tests of this client",
                                "--set",
                                "session.lease=20s");
                Lockkeeper client =
                        Lockkeeper.builder()
                                .endpoints(coordinator.url())
                                .onSessionEvent(it -> events.add(it.kind()))
                                .connect()) {
            try (Grant grant = client.acquire("killed");
                    Grant other = client.acquire("other")) {
                coordinator.kill();
                AcquireOptions patient = AcquireOptions.defaults();
                var waiting = client.acquireAsync("killed", patient);
                coordinator.restart();
                while (events.poll(30, TimeUnit.SECONDS) != SessionEvent.Kind.RESUMED) {
                    Thread.onSpinWait();
                }
                assertFalse(grant.isLost() || other.isLost());
                assertEquals(Optional.empty(), client.tryAcquire("killed"));
                long token = grant.fencingToken();
                grant.releaseAsync().get(30, TimeUnit.SECONDS);
                try (Grant next = waiting.get(30, TimeUnit.SECONDS)) {
                    assertTrue(Long.compareUnsigned(next.fencingToken(), token) > 0);
                }
            }
        }
    }

    @Test
    void aSessionWhoseCoordinatorForgotItEndsAndTheNextAcquireOpensAnother() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                Lockkeeper client = Lockkeeper.connect(coordinator.url())) {
            Grant grant = client.acquire("forgotten");
            coordinator.kill();
            coordinator.restart();
            Loss loss = grant.lost().toCompletableFuture().get(30, TimeUnit.SECONDS);
            assertEquals(LossReason.UNSPECIFIED, loss.reason());
            assertThrows(LockLostException.class, grant::close);
            client.acquire("forgotten").close();
        }
    }

    @Test
    void whoHearsOfALossByTheEndOfASessionCanAcquireAnew() throws Exception {
        // In the session's thread, before the end is reported to others.
        LockkeeperBuilder builder = Lockkeeper.builder().executor(Runnable::run);
        try (Coordinator coordinator = Coordinator.start();
                Lockkeeper client = builder.endpoints(coordinator.url()).connect()) {
            Grant grant = client.acquire("lost");
            CompletableFuture<CompletableFuture<Grant>> next = new CompletableFuture<>();
            AcquireOptions options = AcquireOptions.defaults();
            grant.onLost(loss -> next.complete(client.acquireAsync("lost", options)));
            coordinator.kill();
            coordinator.restart();
            next.get(30, TimeUnit.SECONDS).get(30, TimeUnit.SECONDS).close();
        }
    }

    /** Runs tasks on threads of their own, until it is told to reject them. */
    private static final class Moody implements Executor {
        private volatile boolean rejects;

        @Override
        public void execute(Runnable task) {
            if (rejects) {
                throw new RejectedExecutionException("full");
            }
            new Thread(task).start();
        }
    }

    private static CompletableFuture<Grant> acquiring(Lockkeeper client, String name) {
        CompletableFuture<Grant> outcome = new CompletableFuture<>();
        Runnable task =
                () -> {
                    try {
                        outcome.complete(client.acquire(name));
                    } catch (InterruptedException | RuntimeException failed) {
                        outcome.completeExceptionally(failed);
                    }
                };
        new Thread(task).start();
        return outcome;
    }

    private static void awaitWaiters(Lockkeeper client, String name, int count)
            throws InterruptedException {
        while (client.withoutSession().describe(name).getWaiterCount() < count) {
            Thread.sleep(10);
        }
    }

    @Test
    void anExecutorThatRejectsCallbacksDoesNotEndTheSession() throws Exception {
        Moody executor = new Moody();
        try (Coordinator coordinator = Coordinator.start();
                Lockkeeper other = Lockkeeper.connect(coordinator.url());
                Lockkeeper client =
                        Lockkeeper.builder()
                                .endpoints(coordinator.url())
                                .executor(executor)
                                .connect()) {
            Grant lost = client.acquire("a");
            CompletableFuture<Loss> heard = new CompletableFuture<>();
            lost.onLost(heard::complete);
            Grant busy = other.acquire("b");
            CompletableFuture<Grant> waiting = acquiring(client, "b");
            awaitWaiters(other, "b", 1);
            executor.rejects = true;
            coordinator.forceRelease("a", "maintenance");
            Loss loss = heard.get(20, TimeUnit.SECONDS);
            assertEquals(LossReason.FORCE_RELEASED, loss.reason());
            busy.close();
            waiting.get(20, TimeUnit.SECONDS).close();
            client.acquireAsync("a", AcquireOptions.defaults()).get(20, TimeUnit.SECONDS).close();
        }
    }

    /** Throws when a frame is sent, once it is told to. */
    private static final class Broken implements ClientInterceptor {
        private volatile boolean throwsNow;

        @Override
        public <I, O> ClientCall<I, O> interceptCall(
                MethodDescriptor<I, O> method, CallOptions options, Channel next) {
            return new SimpleForwardingClientCall<>(next.newCall(method, options)) {
                @Override
                public void sendMessage(I message) {
                    if (throwsNow) {
                        throw new IllegalStateException("a bug");
                    }
                    super.sendMessage(message);
                }
            };
        }
    }

    private static void assertSessionEnds(CompletableFuture<?> outcome) {
        var failed =
                assertThrows(ExecutionException.class, () -> outcome.get(20, TimeUnit.SECONDS));
        assertEquals(SessionEndedException.class, failed.getCause().getClass());
    }

    @Test
    void aBugEndsAllCallsAndTheStream() throws Exception {
        Moody executor = new Moody();
        Broken bug = new Broken();
        try (Coordinator coordinator = Coordinator.start();
                Lockkeeper other = Lockkeeper.connect(coordinator.url())) {
            Lockkeeper client =
                    Lockkeeper.builder()
                            .endpoints(coordinator.url())
                            .executor(executor)
                            .intercept(bug)
                            .lease(Duration.ofSeconds(2))
                            .connect();
            Grant held = client.acquire("a");
            try (Grant busy = other.acquire("b")) {
                var first = client.acquireAsync("b", AcquireOptions.defaults());
                CompletableFuture<Grant> second = acquiring(client, "b");
                awaitWaiters(other, "b", 2);
                executor.rejects = true;
                bug.throwsNow = true;
                assertThrows(SessionEndedException.class, () -> client.acquire("c"));
                assertSessionEnds(first);
                assertSessionEnds(second);
                Loss loss = held.lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
                assertEquals(LossReason.UNSPECIFIED, loss.reason());
                assertFalse(busy.isLost());
            }
            // Nobody renews what nobody holds.
            AcquireOptions patient = AcquireOptions.defaults().waitLimit(Duration.ofSeconds(20));
            other.acquire("a", patient).close();
        }
    }

    @Test
    void theNextEndpointIsTried() throws Exception {
        try (Coordinator coordinator = Coordinator.start();
                Lockkeeper client =
                        Lockkeeper.connect("127.0.0.1:" + unusedPort(), coordinator.url())) {
            client.acquire("second").close();
            Duration lease = Duration.ofSeconds(5);
            assertTrue(client.withoutSession().tryAcquire("second", "me", lease).isPresent());
        }
    }
}
