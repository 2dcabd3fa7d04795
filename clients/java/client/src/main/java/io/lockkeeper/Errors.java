package io.lockkeeper;

import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.lockkeeper.internal.Failure;
import io.lockkeeper.internal.Protos;
import java.util.Locale;
import java.util.Map;

/** Failures of the machine and of gRPC as exceptions. */
final class Errors {

    private Errors() {}

    static RuntimeException of(Failure failure) {
        String message = failure.describe();
        if (failure instanceof Failure.Misconfigured) {
            return new MisconfiguredException(message);
        } else if (failure instanceof Failure.Unreachable it) {
            return new UnreachableException(message, it.address());
        } else if (failure instanceof Failure.Refused it) {
            Status.Code code = Status.fromCodeValue(it.code()).getCode();
            return new RefusedException(message, code, it.reason(), it.metadata());
        } else if (failure instanceof Failure.NotGranted it) {
            String reason = it.reason().name().replace("NOT_GRANTED_REASON_", "");
            return new NotGrantedException(
                    message, it.name(), reason, it.remainingLease(), it.holderNote());
        } else if (failure instanceof Failure.Lost it) {
            return lost(loss(it));
        }
        return new SessionEndedException(message);
    }

    static Loss loss(Failure.Lost lost) {
        LossReason reason = LossReason.of(lost.reason());
        return new Loss(
                lost.name(), reason, lost.fencingToken(), lost.detail(), lost.validFor());
    }

    static LockLostException lost(Loss loss) {
        String detail = loss.detail().isEmpty() ? "" : ": " + loss.detail();
        return new LockLostException(loss.name() + ": lost, " + words(loss) + detail, loss);
    }

    private static String words(Loss loss) {
        return switch (loss.reason()) {
            case EXPIRED -> "its lease ended";
            case TAKEN_OVER -> "another owner holds it";
            case STORE_UNREACHABLE -> "the store was unreachable until its lease ended";
            case FORCE_RELEASED -> "an operator force-released it";
            case CLOCK_STEPPED -> "the store's clock stepped and ended its lease";
            case PREEMPTED -> "it was preempted";
            case HANDED_OVER -> "it was handed over";
            case UNSPECIFIED -> "the session is over";
        };
    }

    /** The failure of a call to a coordinator. */
    static Failure of(Throwable thrown, String address) {
        com.google.rpc.Status status = StatusProto.fromThrowable(thrown);
        Status local = Status.fromThrowable(thrown);
        Failure.Refused refused =
                status != null
                        ? Protos.refused(status)
                        : new Failure.Refused(
                                local.getCode().value(), "", cause(local), Map.of(), null);
        boolean answered = !refused.reason().isEmpty() || refused.isFinal();
        return answered ? refused : new Failure.Unreachable(address, hint(cause(local), address));
    }

    /** The innermost cause in a line, because it names the file, the port or the certificate. */
    private static String cause(Status status) {
        Throwable root = status.getCause();
        if (root == null) {
            String description = status.getDescription();
            return description == null ? status.getCode().toString() : description;
        }
        while (root.getCause() != null && root.getCause() != root) {
            root = root.getCause();
        }
        String message = root.getMessage();
        return message == null ? root.toString() : message.lines().findFirst().orElse("");
    }

    /** Says in words what a failure of TLS looks like. */
    private static String hint(String cause, String address) {
        String lower = cause.toLowerCase(Locale.ROOT);
        if (lower.contains("first received frame was not settings") && lower.contains(": 1503")) {
            return "the server there speaks TLS; its address begins with https://";
        }
        if (lower.contains("certification path")) {
            return "its certificate is not trusted; see Tls.ca (" + cause + ")";
        }
        boolean isCut = lower.contains("reset by peer") || lower.contains("not an ssl/tls record");
        if (address.startsWith("https://") && isCut) {
            return cause + "; if the server there has no TLS, its address begins with http://";
        }
        return cause;
    }
}
