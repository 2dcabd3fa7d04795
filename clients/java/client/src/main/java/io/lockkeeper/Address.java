package io.lockkeeper;

import java.net.URI;
import java.net.URISyntaxException;

/**
 * The address of a coordinator: {@code http://HOST:PORT}, {@code https://HOST:PORT}, {@code
 * unix:///PATH}, or {@code HOST:PORT}, which means {@code http://}. {@code socket} is the path of a
 * Unix socket, and null for the others.
 */
record Address(String host, int port, boolean isTls, String socket) {

    static Address parse(String text) {
        String url = text.contains("://") ? text : "http://" + text;
        String fault = "must be http://HOST:PORT, https://HOST:PORT or unix:///PATH";
        try {
            URI uri = new URI(url);
            if ("unix".equals(uri.getScheme()) && uri.getAuthority() == null) {
                return new Address("localhost", 0, false, uri.getPath());
            }
            boolean isTls = "https".equals(uri.getScheme());
            boolean isPath = uri.getRawPath() != null && !uri.getRawPath().matches("/?");
            boolean isKnown = isTls || "http".equals(uri.getScheme());
            if (isKnown && uri.getHost() != null && uri.getPort() > 0 && !isPath) {
                return new Address(uri.getHost(), uri.getPort(), isTls, null);
            }
            String authority = uri.getRawAuthority();
            if (isKnown && uri.getHost() == null && authority != null && authority.contains("_")) {
                fault = "has a host name with an underscore, which java.net.URI does not allow";
            }
        } catch (URISyntaxException malformed) {
            // Reported like any other text that is no address.
        }
        throw new MisconfiguredException("endpoint: " + text + " " + fault);
    }

    @Override
    public String toString() {
        if (socket != null) {
            return "unix://" + socket;
        }
        return (isTls ? "https://" : "http://") + host + ":" + port;
    }
}
