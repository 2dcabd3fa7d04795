package io.lockkeeper.internal;

import com.google.protobuf.Duration;
import io.lockkeeper.v1.AcquireAllRequest;
import io.lockkeeper.v1.AcquireRequest;
import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.LockMode;
import io.lockkeeper.v1.LockSpec;
import io.lockkeeper.v1.PermitGrant;
import io.lockkeeper.v1.RenewPermitsRequest;
import io.lockkeeper.v1.RenewRequest;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.TryAcquireAllRequest;
import io.lockkeeper.v1.TryAcquireRequest;
import java.util.List;
import java.util.stream.Collectors;

/** What the machine reads and sets in the request of a frame, whatever its kind. */
final class Requests {

    private Requests() {}

    /** Gives a request that changes state an id, so that it can be repeated. */
    static SessionRequest withRequestId(SessionRequest frame, String id) {
        SessionRequest.Builder changed = frame.toBuilder();
        switch (frame.getRequestCase()) {
            case ACQUIRE -> changed.getAcquireBuilder().setRequestId(id);
            case TRY_ACQUIRE -> changed.getTryAcquireBuilder().setRequestId(id);
            case RELEASE -> changed.getReleaseBuilder().setRequestId(id);
            case ACQUIRE_ALL -> changed.getAcquireAllBuilder().setRequestId(id);
            case TRY_ACQUIRE_ALL -> changed.getTryAcquireAllBuilder().setRequestId(id);
            case RELEASE_ALL -> changed.getReleaseAllBuilder().setRequestId(id);
            case ACQUIRE_PERMITS -> changed.getAcquirePermitsBuilder().setRequestId(id);
            case TRY_ACQUIRE_PERMITS -> changed.getTryAcquirePermitsBuilder().setRequestId(id);
            case RELEASE_PERMITS -> changed.getReleasePermitsBuilder().setRequestId(id);
            case SET_COUNT -> changed.getSetCountBuilder().setRequestId(id);
            case COUNT_DOWN -> changed.getCountDownBuilder().setRequestId(id);
            default -> {
                return frame;
            }
        }
        return changed.build();
    }

    static SessionRequest withWaitLimit(SessionRequest frame, Duration left) {
        SessionRequest.Builder changed = frame.toBuilder();
        switch (frame.getRequestCase()) {
            case ACQUIRE -> changed.getAcquireBuilder().setWaitTimeout(left);
            case ACQUIRE_ALL -> changed.getAcquireAllBuilder().setWaitTimeout(left);
            case ACQUIRE_PERMITS -> changed.getAcquirePermitsBuilder().setWaitTimeout(left);
            case AWAIT_LATCH -> changed.getAwaitLatchBuilder().setWaitTimeout(left);
            case AWAIT_FREE -> changed.getAwaitFreeBuilder().setWaitTimeout(left);
            default -> {
                return frame;
            }
        }
        return changed.build();
    }

    /** Whether it waits, and so can be cancelled. */
    static boolean waits(SessionRequest frame) {
        return switch (frame.getRequestCase()) {
            case ACQUIRE, ACQUIRE_ALL, ACQUIRE_PERMITS, AWAIT_LATCH, AWAIT_FREE -> true;
            default -> false;
        };
    }

    static boolean acquires(SessionRequest frame) {
        return switch (frame.getRequestCase()) {
            case ACQUIRE, TRY_ACQUIRE, ACQUIRE_ALL, TRY_ACQUIRE_ALL -> true;
            case ACQUIRE_PERMITS, TRY_ACQUIRE_PERMITS -> true;
            default -> false;
        };
    }

    /** Whether it is a question, which changes nothing. */
    static boolean asks(SessionRequest frame) {
        return switch (frame.getRequestCase()) {
            case DESCRIBE, DESCRIBE_SEMAPHORE, DESCRIBE_LATCH -> true;
            case CHECK_TOKEN, LEADER, EXPLAIN -> true;
            default -> false;
        };
    }

    /** The locks that it acquires, as grants without what only the coordinator knows. */
    static List<Grant> locks(SessionRequest frame) {
        switch (frame.getRequestCase()) {
            case ACQUIRE -> {
                AcquireRequest it = frame.getAcquire();
                return List.of(lock(it.getName(), it.getMode(), it.getOwner(), it.hasLease()));
            }
            case TRY_ACQUIRE -> {
                TryAcquireRequest it = frame.getTryAcquire();
                return List.of(lock(it.getName(), it.getMode(), it.getOwner(), it.hasLease()));
            }
            case ACQUIRE_ALL -> {
                AcquireAllRequest it = frame.getAcquireAll();
                return locks(it.getLocksList(), it.getOwner(), it.hasLease());
            }
            case TRY_ACQUIRE_ALL -> {
                TryAcquireAllRequest it = frame.getTryAcquireAll();
                return locks(it.getLocksList(), it.getOwner(), it.hasLease());
            }
            default -> {
                return List.of();
            }
        }
    }

    private static List<Grant> locks(List<LockSpec> specs, String owner, boolean hasLease) {
        return specs.stream()
                .map(it -> lock(it.getName(), it.getMode(), owner, hasLease))
                .toList();
    }

    private static Grant lock(String name, LockMode mode, String owner, boolean hasLease) {
        boolean isUnset = mode == LockMode.LOCK_MODE_UNSPECIFIED;
        return Grant.newBuilder()
                .setName(name)
                .setMode(isUnset ? LockMode.LOCK_MODE_EXCLUSIVE : mode)
                .setOwner(owner)
                .setHoldCount(1)
                .setWatched(!hasLease)
                .build();
    }

    /** The grant that it renews, without what only the coordinator knows. */
    static Holding renewed(SessionRequest frame) {
        if (frame.hasRenew()) {
            RenewRequest renew = frame.getRenew();
            Grant.Builder grant = Grant.newBuilder().setName(renew.getName());
            grant.setOwner(renew.getOwner()).setMode(renew.getMode());
            return Holding.of(grant.build());
        }
        RenewPermitsRequest renew = frame.getRenewPermits();
        PermitGrant.Builder grant = PermitGrant.newBuilder().setName(renew.getName());
        return Holding.of(grant.addAllPermitIds(renew.getPermitIdsList()).build());
    }

    /** What it acquires or awaits, for people. */
    static String name(SessionRequest frame) {
        return switch (frame.getRequestCase()) {
            case ACQUIRE_PERMITS -> frame.getAcquirePermits().getName();
            case TRY_ACQUIRE_PERMITS -> frame.getTryAcquirePermits().getName();
            case AWAIT_LATCH -> frame.getAwaitLatch().getName();
            case AWAIT_FREE -> frame.getAwaitFree().getName();
            default -> locks(frame).stream().map(Grant::getName).collect(Collectors.joining(", "));
        };
    }
}
