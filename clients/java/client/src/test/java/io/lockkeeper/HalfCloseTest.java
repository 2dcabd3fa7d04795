package io.lockkeeper;

import com.google.protobuf.Duration;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import io.lockkeeper.v1.LockServiceGrpc;
import io.lockkeeper.v1.SessionOpened;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A proxy may pass on the end of a stream when it has the client's. */
@Timeout(60)
final class HalfCloseTest {

    /** Opens sessions, and ends them when their streams are half-closed after {@code close}. */
    private static final class Proxied extends LockServiceGrpc.LockServiceImplBase {

        @Override
        public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> answers) {
            return new StreamObserver<>() {
                private SessionRequest last;

                @Override
                public void onNext(SessionRequest frame) {
                    last = frame;
                    if (frame.hasOpen()) {
                        SessionOpened.Builder opened = SessionOpened.newBuilder().setSessionId("s");
                        opened.setLease(Duration.newBuilder().setSeconds(30));
                        answers.onNext(SessionResponse.newBuilder().setOpened(opened).build());
                    }
                }

                @Override
                public void onError(Throwable thrown) {}

                @Override
                public void onCompleted() {
                    if (last.hasClose()) {
                        answers.onCompleted();
                    } else {
                        answers.onError(Status.ABORTED.asRuntimeException());
                    }
                }
            };
        }
    }

    @Test
    void closeHalfClosesTheStream() throws Exception {
        Server server =
                Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
                        .addService(new Proxied())
                        .build()
                        .start();
        try (Lockkeeper client = Lockkeeper.connect("http://127.0.0.1:" + server.getPort())) {
            client.open();
        } finally {
            server.shutdownNow();
        }
    }
}
