package io.lockkeeper;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** A Redis on a free port, ended with this value. */
final class RedisServer implements AutoCloseable {

    private static final int ATTEMPTS = 20;

    private final Process process;
    private final int port;

    private RedisServer(Process process, int port) {
        this.process = process;
        this.port = port;
    }

    /** Another program may take the port first; then the next is tried. */
    static RedisServer start() throws IOException {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            int port;
            try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
                port = socket.getLocalPort();
            }
            List<String> command =
                    List.of(
                            "redis-server",
                            "--port",
                            Integer.toString(port),
                            "--bind",
                            "127.0.0.1",
                            "--save",
                            "",
                            "--appendonly",
                            "no");
            Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
            BufferedReader log =
                    new BufferedReader(
                            new InputStreamReader(
                                    process.getInputStream(), StandardCharsets.UTF_8));
            for (String line = log.readLine(); line != null; line = log.readLine()) {
                if (line.contains("Ready to accept")) {
                    return new RedisServer(process, port);
                }
            }
        }
        throw new IOException("no Redis could be started");
    }

    String url() {
        return "redis://127.0.0.1:" + port;
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
