package io.lockkeeper;

import com.google.protobuf.Duration;
import io.lockkeeper.internal.Protos;
import io.lockkeeper.v1.AcquireAllRequest;
import io.lockkeeper.v1.AcquireRequest;
import io.lockkeeper.v1.AwaitFreeRequest;
import io.lockkeeper.v1.ClaimRequest;
import io.lockkeeper.v1.LockSpec;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.TryAcquireAllRequest;
import io.lockkeeper.v1.TryAcquireRequest;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicLong;

/** The frames of one client for locks. */
final class Frames {

    private final String owners = UUID.randomUUID().toString().substring(0, 8);
    private final AtomicLong lastOwner = new AtomicLong();

    /** By default each acquire has an owner of its own, so two tasks exclude each other. */
    String owner(AcquireOptions options) {
        return options.owner() != null ? options.owner() : newOwner();
    }

    String newOwner() {
        return owners + "-" + lastOwner.incrementAndGet();
    }

    static Optional<Duration> lease(AcquireOptions options) {
        return Optional.ofNullable(options.lease()).map(Protos::toProto);
    }

    SessionRequest acquire(String name, AcquireOptions options) {
        AcquireRequest.Builder request = AcquireRequest.newBuilder().setName(name);
        request.setMode(options.mode().proto()).setOwner(owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        request.setEndOnDeadlock(options.endsOnDeadlock());
        request.setPreferred(options.isPreferred());
        lease(options).ifPresent(request::setLease);
        holdAtLeast(options).ifPresent(request::setHoldAtLeast);
        lockDelay(options).ifPresent(request::setLockDelay);
        options.note().ifPresent(request::setNote);
        return SessionRequest.newBuilder().setAcquire(request).build();
    }

    SessionRequest tryAcquire(String name, AcquireOptions options) {
        TryAcquireRequest.Builder request = TryAcquireRequest.newBuilder().setName(name);
        request.setMode(options.mode().proto()).setOwner(owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        lease(options).ifPresent(request::setLease);
        holdAtLeast(options).ifPresent(request::setHoldAtLeast);
        lockDelay(options).ifPresent(request::setLockDelay);
        options.note().ifPresent(request::setNote);
        return SessionRequest.newBuilder().setTryAcquire(request).build();
    }

    SessionRequest acquireAll(Collection<String> names, AcquireOptions options) {
        AcquireAllRequest.Builder request = AcquireAllRequest.newBuilder();
        request.addAllLocks(specs(names, options)).setOwner(owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        request.setEndOnDeadlock(options.endsOnDeadlock());
        lease(options).ifPresent(request::setLease);
        options.note().ifPresent(request::setNote);
        return SessionRequest.newBuilder().setAcquireAll(request).build();
    }

    SessionRequest tryAcquireAll(Collection<String> names, AcquireOptions options) {
        TryAcquireAllRequest.Builder request = TryAcquireAllRequest.newBuilder();
        request.addAllLocks(specs(names, options)).setOwner(owner(options));
        request.setMinReplicaAcks(options.minReplicaAcks());
        lease(options).ifPresent(request::setLease);
        options.note().ifPresent(request::setNote);
        return SessionRequest.newBuilder().setTryAcquireAll(request).build();
    }

    SessionRequest claim(String name, String ticket) {
        ClaimRequest.Builder request = ClaimRequest.newBuilder().setName(name);
        request.setOwner(newOwner()).setTicket(ticket);
        return SessionRequest.newBuilder().setClaim(request).build();
    }

    static SessionRequest awaitFree(String name) {
        AwaitFreeRequest.Builder request = AwaitFreeRequest.newBuilder().setName(name);
        return SessionRequest.newBuilder().setAwaitFree(request).build();
    }

    private static List<LockSpec> specs(Collection<String> names, AcquireOptions options) {
        options.refuseWhatNeedsOneLock();
        LockSpec.Builder spec = LockSpec.newBuilder().setMode(options.mode().proto());
        return names.stream().map(name -> spec.setName(name).build()).toList();
    }

    private static Optional<Duration> holdAtLeast(AcquireOptions options) {
        return Optional.ofNullable(options.holdAtLeast()).map(Protos::toProto);
    }

    private static Optional<Duration> lockDelay(AcquireOptions options) {
        return Optional.ofNullable(options.lockDelay()).map(Protos::toProto);
    }
}
