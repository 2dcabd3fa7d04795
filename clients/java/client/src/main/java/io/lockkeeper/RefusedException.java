package io.lockkeeper;

import io.grpc.Status;
import java.util.Map;
import java.util.Optional;

/** The coordinator refused the call. */
public final class RefusedException extends LockkeeperException {

    private static final long serialVersionUID = 1;

    /** The gRPC code. */
    private final Status.Code code;

    /** Empty if the coordinator gave none. */
    private final String reason;

    /** What the error says besides its reason. */
    private final transient Map<String, String> metadata;

    RefusedException(
            String message, Status.Code code, String reason, Map<String, String> metadata) {
        super(message);
        this.code = code;
        this.reason = reason;
        this.metadata = metadata;
    }

    /**
     * The gRPC code.
     *
     * @return the code
     */
    public Status.Code code() {
        return code;
    }

    /**
     * The stable reason of the refusal, such as {@code WAITERS_PER_LOCK_MAX}.
     *
     * @return the reason; empty for errors of gRPC itself
     */
    public Optional<String> reason() {
        return reason.isEmpty() ? Optional.empty() : Optional.of(reason);
    }

    /**
     * What the error says besides its reason, such as the {@code field} or the {@code state}.
     *
     * @return the metadata
     */
    public Map<String, String> metadata() {
        return metadata == null ? Map.of() : metadata;
    }
}
