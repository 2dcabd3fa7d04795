package io.lockkeeper;

import io.grpc.ChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;

/**
 * Certificates for {@code https://}, as files in PEM form. They are read for every connection, so
 * that renewed ones take effect. Immutable: each method returns a changed copy.
 */
public final class Tls {

    private static final Tls DEFAULTS = new Tls(null, null, null, null);

    private final Path ca;
    private final Path certificate;
    private final Path key;
    private final String serverName;

    private Tls(Path ca, Path certificate, Path key, String serverName) {
        this.ca = ca;
        this.certificate = certificate;
        this.key = key;
        this.serverName = serverName;
    }

    /**
     * Trusts the authorities of the Java runtime and presents no certificate.
     *
     * @return the settings
     */
    public static Tls defaults() {
        return DEFAULTS;
    }

    /**
     * Sets the authorities to trust.
     *
     * @param ca the file
     * @return the changed settings
     */
    public Tls ca(Path ca) {
        return new Tls(Objects.requireNonNull(ca), certificate, key, serverName);
    }

    /**
     * Sets the client's certificate, if the coordinator requires one.
     *
     * @param certificate the file of the certificate chain
     * @param key the file of its private key, in PKCS#8 form
     * @return the changed settings
     */
    public Tls certificate(Path certificate, Path key) {
        return new Tls(
                ca,
                Objects.requireNonNull(certificate),
                Objects.requireNonNull(key),
                serverName);
    }

    /**
     * Sets the name in the coordinator's certificate. The default is the host of the address.
     *
     * @param serverName the name
     * @return the changed settings
     */
    public Tls serverName(String serverName) {
        return new Tls(ca, certificate, key, Objects.requireNonNull(serverName));
    }

    /** Null for the host of the address. */
    String serverName() {
        return serverName;
    }

    /** Reads the files. */
    ChannelCredentials credentials() {
        TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
        try {
            if (ca != null) {
                require(ca);
                tls.trustManager(ca.toFile());
            }
            if (certificate != null) {
                require(certificate);
                require(key);
                tls.keyManager(certificate.toFile(), key.toFile());
            }
        } catch (IOException unreadable) {
            throw new MisconfiguredException(unreadable.getMessage());
        }
        return tls.build();
    }

    private static void require(Path file) {
        if (!Files.isReadable(file)) {
            String why = Files.exists(file) ? "cannot be read" : "does not exist";
            throw new MisconfiguredException(file + ": " + why);
        }
    }
}
