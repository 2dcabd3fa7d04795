package io.lockkeeper.conformance;

import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.stub.StreamObserver;
import io.lockkeeper.v1.LockMode;
import io.lockkeeper.v1.LockServiceGrpc;
import io.lockkeeper.v1.OpenSession;
import io.lockkeeper.v1.ReleaseRequest;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.TryAcquireRequest;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;

/** A session's stream of gRPC without the client, shared by threads. */
final class BareStream implements StreamObserver<SessionResponse>, AutoCloseable {

    private final ManagedChannel channel;
    private final StreamObserver<SessionRequest> requests;

    /** By operation, which is the task's number plus 1; that of opening is 0. */
    private final AtomicReferenceArray<CompletableFuture<SessionResponse>> answers;

    private final CompletableFuture<Void> end = new CompletableFuture<>();
    private final AtomicLong lastOwner = new AtomicLong();

    /** Opens a session. */
    BareStream(String endpoint, int tasks) throws Exception {
        answers = new AtomicReferenceArray<>(tasks + 1);
        String target = endpoint.replaceFirst("^http://", "");
        channel = Grpc.newChannelBuilder(target, InsecureChannelCredentials.create()).build();
        // Answers are only handed over, which gRPC's own thread may do.
        requests = LockServiceGrpc.newStub(channel).withExecutor(Runnable::run).session(this);
        ask(SessionRequest.newBuilder().setOpen(OpenSession.getDefaultInstance()));
    }

    /** Sends what the client sends: owners and request ids are as long and as different. */
    void pair(int task) throws Exception {
        String name = "bare-" + task;
        String owner = "12345678-" + lastOwner.incrementAndGet();
        TryAcquireRequest.Builder acquire = TryAcquireRequest.newBuilder().setName(name);
        acquire.setOwner(owner).setMode(LockMode.LOCK_MODE_EXCLUSIVE).setRequestId(requestId());
        SessionRequest.Builder frame = SessionRequest.newBuilder().setOpId(task + 1);
        SessionResponse tried = ask(frame.setTryAcquire(acquire));
        if (!tried.getTried().getAcquired()) {
            throw new IllegalStateException("not acquired: " + tried);
        }
        ReleaseRequest.Builder release = ReleaseRequest.newBuilder().setName(name);
        release.setOwner(owner).setMode(LockMode.LOCK_MODE_EXCLUSIVE).setRequestId(requestId());
        SessionResponse released = ask(frame.setRelease(release));
        if (!released.getReleased().getReleased()) {
            throw new IllegalStateException("not released: " + released);
        }
    }

    private static String requestId() {
        return UUID.randomUUID().toString();
    }

    private SessionResponse ask(SessionRequest.Builder frame) throws Exception {
        CompletableFuture<SessionResponse> answer = new CompletableFuture<>();
        answers.set((int) frame.getOpId(), answer);
        if (end.isDone()) {
            throw new IllegalStateException("the stream has ended");
        }
        SessionRequest request = frame.build();
        synchronized (requests) {
            requests.onNext(request);
        }
        return answer.get();
    }

    @Override
    public void onNext(SessionResponse answer) {
        answers.get((int) answer.getOpId()).complete(answer);
    }

    @Override
    public void onError(Throwable thrown) {
        end.completeExceptionally(thrown);
        for (int op = 0; op < answers.length(); op++) {
            CompletableFuture<SessionResponse> answer = answers.get(op);
            if (answer != null) {
                answer.completeExceptionally(thrown);
            }
        }
    }

    @Override
    public void onCompleted() {
        end.complete(null);
    }

    /** Ends the session. */
    @Override
    public void close() {
        try {
            requests.onCompleted();
            end.orTimeout(5, TimeUnit.SECONDS).join();
        } finally {
            channel.shutdownNow();
        }
    }
}
