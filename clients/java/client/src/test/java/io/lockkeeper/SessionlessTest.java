package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.stub.StreamObserver;
import io.lockkeeper.v1.AwaitFreeRequest;
import io.lockkeeper.v1.AwaitFreeResponse;
import io.lockkeeper.v1.LockServiceGrpc;
import io.lockkeeper.v1.WatchLockRequest;
import io.lockkeeper.v1.WatchLockResponse;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The connections of what uses no session. */
@Timeout(60)
final class SessionlessTest {

    private static final Duration LEASE = Duration.ofSeconds(5);

    @TempDir Path folder;

    @Test
    void renewedCertificatesAreRead() throws Exception {
        Certificates certificates = Certificates.make(folder);
        Path ca = Files.copy(certificates.otherCa(), folder.resolve("trusted.pem"));
        Tls tls =
                Tls.defaults()
                        .ca(ca)
                        .certificate(certificates.client(), certificates.clientKey());
        try (Coordinator coordinator = Coordinator.start(certificates.settings())) {
            String url = "https://localhost:" + coordinator.address().split(":")[1];
            try (Lockkeeper client = Lockkeeper.builder().endpoints(url).tls(tls).connect()) {
                SessionlessLocks locks = client.withoutSession();
                assertThrows(UnreachableException.class, () -> locks.describe("a"));
                try (Observation watch = locks.watch("a", event -> {})) {
                    assertUnreachable(watch);
                }
                Files.copy(certificates.ca(), ca, StandardCopyOption.REPLACE_EXISTING);
                assertEquals(0, locks.describe("a").getHolderCount());
                assertTrue(locks.awaitFree("a", LEASE));
            }
        }
    }

    private static UnreachableException assertUnreachable(Observation watch) {
        var end = watch.ended().toCompletableFuture();
        var failed =
                assertThrows(ExecutionException.class, () -> end.get(20, TimeUnit.SECONDS));
        return assertInstanceOf(UnreachableException.class, failed.getCause());
    }

    /** Accepts connections and closes them at once. */
    private static void closing(ServerSocket socket, AtomicInteger accepted) {
        Runnable work =
                () -> {
                    while (!socket.isClosed()) {
                        try (Socket next = socket.accept()) {
                            accepted.addAndGet(next.isBound() ? 1 : 0);
                        } catch (IOException closed) {
                            return;
                        }
                    }
                };
        new Thread(work).start();
    }

    @Test
    void theEndpointThatAnsweredIsTheFirstOneNextTime() throws Exception {
        AtomicInteger accepted = new AtomicInteger();
        try (ServerSocket closed = new ServerSocket(0, 9, InetAddress.getLoopbackAddress());
                Coordinator coordinator = Coordinator.start();
                Lockkeeper client =
                        Lockkeeper.connect(
                                "http://127.0.0.1:" + closed.getLocalPort(),
                                coordinator.url())) {
            closing(closed, accepted);
            SessionlessLocks locks = client.withoutSession();
            locks.describe("a");
            int before = accepted.get();
            assertTrue(before > 0);
            for (int call = 0; call < 5; call++) {
                assertTrue(locks.tryAcquire("a" + call, "me", LEASE).isPresent());
                assertTrue(locks.forceRelease("a" + call, "test", Duration.ZERO).getReleased());
            }
            assertEquals(before, accepted.get());
        }
    }

    @Test
    void callsOfAClosedClientFail() throws Exception {
        try (Coordinator coordinator = Coordinator.start()) {
            Lockkeeper client = Lockkeeper.connect(coordinator.url());
            SessionlessLocks locks = client.withoutSession();
            client.close();
            SessionEndedException closed =
                    assertThrows(
                            SessionEndedException.class,
                            () -> locks.tryAcquire("a", "me", LEASE));
            assertEquals("the client was closed", closed.getMessage());
            assertThrows(
                    SessionEndedException.class,
                    () -> locks.forceRelease("a", "test", Duration.ZERO));
        }
    }

    /** Ends every stream at once, and counts them. */
    private static final class Ending extends LockServiceGrpc.LockServiceImplBase {
        private final AtomicInteger streams = new AtomicInteger();

        @Override
        public void watchLock(WatchLockRequest request, StreamObserver<WatchLockResponse> into) {
            streams.incrementAndGet();
            into.onCompleted();
        }

        @Override
        public void awaitFree(AwaitFreeRequest request, StreamObserver<AwaitFreeResponse> into) {
            streams.incrementAndGet();
            into.onCompleted();
        }
    }

    @Test
    void aPeerThatEndsEveryStreamAtOnceIsUnreachable() throws Exception {
        Ending service = new Ending();
        Server server =
                Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                        .addService(service)
                        .build()
                        .start();
        String url = "http://127.0.0.1:" + server.getPort();
        try (Lockkeeper client = Lockkeeper.connect(url)) {
            SessionlessLocks locks = client.withoutSession();
            String expected = "no coordinator at " + url + ": it ended the stream";
            try (Observation watch = locks.watch("a", event -> {})) {
                assertEquals(expected, assertUnreachable(watch).getMessage());
            }
            UnreachableException failed =
                    assertThrows(UnreachableException.class, () -> locks.awaitFree("a", LEASE));
            assertEquals(expected, failed.getMessage());
            assertEquals(2, service.streams.get());
        } finally {
            server.shutdownNow();
        }
    }
}
