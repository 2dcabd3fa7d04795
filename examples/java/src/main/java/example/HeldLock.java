package example;

import com.google.protobuf.Duration;
import io.grpc.ManagedChannel;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import io.lockkeeper.v1.AcquireRequest;
import io.lockkeeper.v1.CheckTokenRequest;
import io.lockkeeper.v1.ReleaseRequest;
import io.lockkeeper.v1.RenewRequest;
import io.lockkeeper.v1.LockServiceGrpc;
import io.lockkeeper.v1.OpenSession;
import io.lockkeeper.v1.ResumeSession;
import io.lockkeeper.v1.SessionOpened;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.LockMode;

/** One lock, held in a session that is resumed when its stream breaks. */
final class HeldLock {
  static final int LEASE_SECONDS = 6;
  private static final String OWNER = "0";

  /** Completes, with the reason, when the lock is not certainly held any more. */
  final CompletableFuture<String> lost = new CompletableFuture<>();

  private final LockServiceGrpc.LockServiceStub service;
  private final String name;
  private final ScheduledExecutorService timer =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
          });
  private final Map<Long, Operation> pending = new TreeMap<>();
  private StreamObserver<SessionRequest> stream;
  private boolean isUp;
  private boolean isClosed;
  private SessionOpened opened;
  private ScheduledFuture<?> expiry;
  private long lastOpId;
  private long pauseMillis = 50;
  private volatile long token;

  private record Operation(SessionRequest frame, CompletableFuture<SessionResponse> answer) {}

  HeldLock(ManagedChannel channel, String name) {
    this.service = LockServiceGrpc.newStub(channel);
    this.name = name;
    connect();
  }

  long acquire() {
    AcquireRequest request =
        AcquireRequest.newBuilder().setName(name).setOwner(OWNER).setRequestId(UUID.randomUUID().toString()).build();
    token = ask(SessionRequest.newBuilder().setAcquire(request)).join().getGranted().getFencingToken();
    // How long the answer was under way is not known; a renewal tells until when the lock is held.
    renew().join();
    // The coordinator renews too; this is for knowing until when, whatever happens to it.
    timer.scheduleAtFixedRate(this::renew, LEASE_SECONDS * 1000 / 3, LEASE_SECONDS * 1000 / 3, TimeUnit.MILLISECONDS);
    return token;
  }

  void release() {
    ReleaseRequest request =
        ReleaseRequest.newBuilder().setName(name).setOwner(OWNER).setRequestId(UUID.randomUUID().toString()).build();
    ask(SessionRequest.newBuilder().setRelease(request)).join();
    synchronized (this) {
      isClosed = true;
      timer.shutdownNow();
      stream.onCompleted(); // Half-closing ends the session.
    }
  }

  boolean checkToken() {
    CheckTokenRequest request = CheckTokenRequest.newBuilder().setName(name).setFencingToken(token).build();
    return ask(SessionRequest.newBuilder().setCheckToken(request)).join().getTokenChecked().getCurrent();
  }

  private CompletableFuture<Void> renew() {
    long sentAt = System.nanoTime();
    RenewRequest request = RenewRequest.newBuilder().setName(name).setOwner(OWNER).build();
    return ask(SessionRequest.newBuilder().setRenew(request))
        .thenAccept(answer -> validFor(sentAt, answer.getRenewed().getGrant().getValidFor()));
  }

  private synchronized void validFor(long sentAt, Duration validFor) {
    if (expiry != null) {
      expiry.cancel(false);
    }
    long nanos = TimeUnit.SECONDS.toNanos(validFor.getSeconds()) + validFor.getNanos();
    if (!isClosed) {
      expiry =
          timer.schedule(
              () -> lost.complete("it could not be renewed in time"),
              sentAt + nanos - System.nanoTime(),
              TimeUnit.NANOSECONDS);
    }
  }

  /** Sends an operation; its end may come on another stream. */
  private synchronized CompletableFuture<SessionResponse> ask(SessionRequest.Builder request) {
    SessionRequest frame = request.setOpId(++lastOpId).build();
    CompletableFuture<SessionResponse> answer = new CompletableFuture<>();
    pending.put(frame.getOpId(), new Operation(frame, answer));
    if (isUp) {
      stream.onNext(frame);
    }
    return answer;
  }

  private SessionRequest first() {
    if (opened == null) {
      Duration lease = Duration.newBuilder().setSeconds(LEASE_SECONDS).build();
      return SessionRequest.newBuilder()
          .setOpen(OpenSession.newBuilder().setLease(lease).setClientName("HoldALock"))
          .build();
    }
    // Name what is held, and what may be held because its answer was lost: what is not named is released.
    Grant grant =
        Grant.newBuilder()
            .setName(name)
            .setMode(LockMode.LOCK_MODE_EXCLUSIVE)
            .setOwner(OWNER)
            .setHoldCount(1)
            .setWatched(true)
            .build();
    return SessionRequest.newBuilder()
        .setResume(
            ResumeSession.newBuilder()
                .setSessionId(opened.getSessionId())
                .setResumeToken(opened.getResumeToken())
                .addGrants(grant))
        .build();
  }

  private synchronized void connect() {
    stream = service.session(new Frames());
    stream.onNext(first());
  }

  private synchronized void ended(Throwable error) {
    isUp = false;
    if (isClosed || lost.isDone()) {
      return;
    }
    System.err.println("stream ended: " + error);
    if (Status.fromThrowable(error).getCode() == Status.Code.NOT_FOUND) {
      lost.complete("the session is over");
      return;
    }
    timer.schedule(this::connect, ThreadLocalRandom.current().nextLong(pauseMillis / 2, pauseMillis), TimeUnit.MILLISECONDS);
    pauseMillis = Math.min(2 * pauseMillis, 1000);
  }

  private final class Frames implements StreamObserver<SessionResponse> {
    @Override
    public void onNext(SessionResponse response) {
      Operation operation;
      synchronized (HeldLock.this) {
        pauseMillis = 50;
        switch (response.getResponseCase()) {
          case OPENED -> {
            if (opened == null) {
              opened = response.getOpened();
            } else {
              System.out.println("resumed");
            }
            isUp = true;
            // Repeated with their request ids, so nothing is done twice.
            pending.values().forEach(it -> stream.onNext(it.frame()));
            return;
          }
          case LOST -> {
            if (token != 0) {
              lost.complete(response.getLost().getReason().toString());
            }
            return;
          }
          // After going_away the stream ends, and is opened anew.
          case WAITING, AT_RISK, RECOVERED, GOING_AWAY -> {
            return;
          }
          default -> operation = pending.remove(response.getOpId());
        }
      }
      if (operation != null && response.hasFailed()) {
        operation.answer().completeExceptionally(new IllegalStateException(response.getFailed().getMessage()));
      } else if (operation != null) {
        operation.answer().complete(response);
      }
    }

    @Override
    public void onError(Throwable error) {
      ended(error);
    }

    @Override
    public void onCompleted() {
      ended(Status.UNAVAILABLE.withDescription("the coordinator ended the stream").asException());
    }
  }
}
