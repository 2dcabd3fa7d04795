package io.lockkeeper;

import io.grpc.CallCredentials;
import io.grpc.Metadata;
import io.grpc.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** Sends a bearer token with every call. */
final class Token extends CallCredentials {

    private static final Metadata.Key<String> HEADER =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private final Supplier<String> source;
    private final Executor executor;

    Token(Supplier<String> source, Executor executor) {
        this.source = source;
        this.executor = executor;
    }

    /** A file that is read for every call, because it is replaced when the token is renewed. */
    static Supplier<String> file(Path file) {
        return () -> {
            try {
                return Files.readString(file);
            } catch (IOException unreadable) {
                String why = Files.exists(file) ? "cannot be read" : "does not exist";
                throw new MisconfiguredException(file + ": " + why);
            }
        };
    }

    /** The header's value. */
    private String header() {
        String token = source.get().strip();
        // The token itself is never part of a message.
        if (!token.chars().allMatch(letter -> letter > ' ' && letter < 0x7f)) {
            throw new MisconfiguredException("token: has invalid characters");
        }
        return "Bearer " + token;
    }

    /** Fails if there is no token that can be sent. */
    void check() {
        header();
    }

    @Override
    public void applyRequestMetadata(RequestInfo call, Executor unused, MetadataApplier applier) {
        executor.execute(
                () -> {
                    try {
                        Metadata headers = new Metadata();
                        headers.put(HEADER, header());
                        applier.apply(headers);
                    } catch (RuntimeException failed) {
                        String why = "no token: " + failed.getMessage();
                        applier.fail(Status.UNAUTHENTICATED.withDescription(why));
                    }
                });
    }
}
