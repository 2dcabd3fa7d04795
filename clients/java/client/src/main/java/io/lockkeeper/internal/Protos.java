package io.lockkeeper.internal;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import java.time.Duration;
import java.util.Map;

/** Conversions from and to messages of the protocol. */
public final class Protos {

    private Protos() {}

    /**
     * A duration as a message.
     *
     * @param duration the duration
     * @return the message
     */
    public static com.google.protobuf.Duration toProto(Duration duration) {
        return com.google.protobuf.Duration.newBuilder()
                .setSeconds(duration.getSeconds())
                .setNanos(duration.getNano())
                .build();
    }

    /**
     * A message as a duration.
     *
     * @param duration the message
     * @return the duration
     */
    public static Duration toDuration(com.google.protobuf.Duration duration) {
        return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
    }

    static long toNanos(com.google.protobuf.Duration duration) {
        return saturated(toDuration(duration));
    }

    /**
     * A duration in nanoseconds.
     *
     * @param duration the duration
     * @return its length, or {@link Timers#NEVER} if it is too long
     */
    public static long saturated(Duration duration) {
        try {
            return Math.max(0, duration.toNanos());
        } catch (ArithmeticException tooLong) {
            return Timers.NEVER;
        }
    }

    /**
     * The failure that a status describes.
     *
     * @param status the status
     * @return the failure
     */
    public static Failure.Refused refused(Status status) {
        String reason = "";
        Map<String, String> metadata = Map.of();
        Duration retryDelay = null;
        try {
            for (Any detail : status.getDetailsList()) {
                if (detail.is(ErrorInfo.class)) {
                    ErrorInfo info = detail.unpack(ErrorInfo.class);
                    reason = info.getReason();
                    metadata = info.getMetadataMap();
                } else if (detail.is(RetryInfo.class)) {
                    retryDelay = toDuration(detail.unpack(RetryInfo.class).getRetryDelay());
                }
            }
        } catch (InvalidProtocolBufferException malformed) {
            // The code and the message say enough.
        }
        return new Failure.Refused(
                status.getCode(), reason, status.getMessage(), metadata, retryDelay);
    }
}
