package io.lockkeeper;

import java.net.URI;
import java.net.URISyntaxException;

/**
 * The address of a coordinator: {@code http://HOST:PORT}, {@code https://HOST:PORT}, or {@code
 * HOST:PORT}, which means {@code http://}.
 */
record Address(String host, int port, boolean isTls) {

    static Address parse(String text) {
        String url = text.contains("://") ? text : "http://" + text;
        try {
            URI uri = new URI(url);
            boolean isTls = "https".equals(uri.getScheme());
            boolean isPath = uri.getRawPath() != null && !uri.getRawPath().matches("/?");
            boolean isKnown = isTls || "http".equals(uri.getScheme());
            if (isKnown && uri.getHost() != null && uri.getPort() > 0 && !isPath) {
                return new Address(uri.getHost(), uri.getPort(), isTls);
            }
        } catch (URISyntaxException malformed) {
            // Reported like any other text that is no address.
        }
        throw new MisconfiguredException(
                "endpoint: " + text + " must be http://HOST:PORT or https://HOST:PORT");
    }

    @Override
    public String toString() {
        return (isTls ? "https://" : "http://") + host + ":" + port;
    }
}
