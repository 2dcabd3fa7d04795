package io.lockkeeper.internal;

import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Duration;
import com.google.protobuf.Message;
import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.LockMode;
import io.lockkeeper.v1.LockSpec;
import io.lockkeeper.v1.PermitGrant;
import io.lockkeeper.v1.RenewPermitsRequest;
import io.lockkeeper.v1.RenewRequest;
import io.lockkeeper.v1.SessionRequest;
import java.util.List;
import java.util.stream.Collectors;

/** What the machine reads and sets in the request of a frame, whatever its kind. */
final class Requests {

    private Requests() {}

    /** Gives a request that changes state an id, so that it can be repeated. */
    static SessionRequest withRequestId(SessionRequest frame, String id) {
        return with(frame, "request_id", id);
    }

    static boolean hasRequestId(SessionRequest frame) {
        FieldDescriptor field = field(frame, "request_id");
        return field != null && !message(frame).getField(field).equals("");
    }

    static SessionRequest withWaitLimit(SessionRequest frame, Duration left) {
        return with(frame, "wait_timeout", left);
    }

    /** Whether it waits, and so can be cancelled. */
    static boolean waits(SessionRequest frame) {
        return field(frame, "wait_timeout") != null;
    }

    static boolean acquires(SessionRequest frame) {
        return switch (frame.getRequestCase()) {
            case ACQUIRE, TRY_ACQUIRE, ACQUIRE_ALL, TRY_ACQUIRE_ALL -> true;
            case ACQUIRE_PERMITS, TRY_ACQUIRE_PERMITS -> true;
            default -> false;
        };
    }

    /** The locks that it acquires, as grants without what only the coordinator knows. */
    static List<Grant> locks(SessionRequest frame) {
        return switch (frame.getRequestCase()) {
            case ACQUIRE -> List.of(lock(frame, frame.getAcquire().getName(),
                    frame.getAcquire().getMode()));
            case TRY_ACQUIRE -> List.of(lock(frame, frame.getTryAcquire().getName(),
                    frame.getTryAcquire().getMode()));
            case ACQUIRE_ALL -> locks(frame, frame.getAcquireAll().getLocksList());
            case TRY_ACQUIRE_ALL -> locks(frame, frame.getTryAcquireAll().getLocksList());
            default -> List.of();
        };
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

    /** What it is about, for people. */
    static String name(SessionRequest frame) {
        FieldDescriptor name = field(frame, "name");
        if (name != null) {
            return (String) message(frame).getField(name);
        }
        return locks(frame).stream().map(Grant::getName).collect(Collectors.joining(", "));
    }

    private static List<Grant> locks(SessionRequest frame, List<LockSpec> locks) {
        return locks.stream().map(it -> lock(frame, it.getName(), it.getMode())).toList();
    }

    private static Grant lock(SessionRequest frame, String name, LockMode mode) {
        boolean unset = mode == LockMode.LOCK_MODE_UNSPECIFIED;
        Message message = message(frame);
        return Grant.newBuilder()
                .setName(name)
                .setMode(unset ? LockMode.LOCK_MODE_EXCLUSIVE : mode)
                .setOwner((String) message.getField(field(frame, "owner")))
                .setHoldCount(1)
                .setWatched(!message.hasField(field(frame, "lease")))
                .build();
    }

    private static SessionRequest with(SessionRequest frame, String name, Object value) {
        FieldDescriptor field = field(frame, name);
        if (field == null) {
            return frame;
        }
        Message changed = message(frame).toBuilder().setField(field, value).build();
        return frame.toBuilder().setField(kind(frame), changed).build();
    }

    private static FieldDescriptor field(SessionRequest frame, String name) {
        return message(frame).getDescriptorForType().findFieldByName(name);
    }

    private static Message message(SessionRequest frame) {
        return (Message) frame.getField(kind(frame));
    }

    private static FieldDescriptor kind(SessionRequest frame) {
        return frame.getOneofFieldDescriptor(
                SessionRequest.getDescriptor().getOneofs().get(0));
    }
}
