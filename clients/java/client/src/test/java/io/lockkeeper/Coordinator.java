package io.lockkeeper;

import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.lockkeeper.v1.ForceReleaseRequest;
import io.lockkeeper.v1.LockAdminServiceGrpc;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A real coordinator on a free port, ended with this value. LOCKKEEPER names the binary. */
public final class Coordinator implements AutoCloseable {

    private static final Pattern ADDRESS = Pattern.compile("\"address\":\"([^\"]+)\"");

    private final List<String> settings;
    private Process process;
    private String address = "127.0.0.1:0";

    private Coordinator(List<String> settings) {
        this.settings = settings;
    }

    /**
     * Starts one with its embedded store, unless the settings name another.
     *
     * @param settings further arguments, such as {@code --set} and {@code session.lease=3s}
     * @return the coordinator
     * @throws IOException if it does not serve
     */
    public static Coordinator start(String... settings) throws IOException {
        Coordinator coordinator = new Coordinator(List.of(settings));
        coordinator.start();
        return coordinator;
    }

    private void start() throws IOException {
        List<String> command = new ArrayList<>();
        command.addAll(List.of(binary(), "serve", "--listen", address));
        command.addAll(List.of("--set", "log.format=json"));
        command.addAll(settings);
        ProcessBuilder builder = new ProcessBuilder(command);
        builder.environment().keySet().removeIf(it -> it.startsWith("LOCKKEEPER"));
        builder.environment().remove("RUST_LOG");
        process = builder.redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
        BufferedReader log =
                new BufferedReader(
                        new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8));
        StringBuilder said = new StringBuilder();
        for (String line = log.readLine(); line != null; line = log.readLine()) {
            Matcher found = ADDRESS.matcher(line);
            if (found.find()) {
                address = found.group(1);
                drain(log);
                return;
            }
            said.append(line).append('\n');
        }
        throw new IOException("the coordinator does not serve: " + said);
    }

    private static String binary() {
        String named = System.getenv("LOCKKEEPER");
        if (named != null) {
            return named;
        }
        for (Path folder = Path.of("").toAbsolutePath();
                folder != null;
                folder = folder.getParent()) {
            Path built = folder.resolve("target/debug/lockkeeper");
            if (Files.isExecutable(built)) {
                return built.toString();
            }
        }
        throw new IllegalStateException("LOCKKEEPER must name the coordinator's binary");
    }

    /** Nobody reads the log from here on, but the coordinator must be able to write it. */
    private static void drain(BufferedReader log) {
        Thread thread = new Thread(() -> log.lines().forEach(line -> {}), "coordinator-log");
        thread.setDaemon(true);
        thread.start();
    }

    /**
     * Its address.
     *
     * @return host and port
     */
    public String address() {
        return address;
    }

    /**
     * Its address as a URL.
     *
     * @return the URL
     */
    public String url() {
        return "http://" + address;
    }

    /**
     * Kills it with SIGKILL.
     *
     * @throws InterruptedException if the thread is interrupted
     */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    /**
     * Starts it again where it was.
     *
     * @throws IOException if it does not serve
     */
    public void restart() throws IOException {
        start();
    }

    /**
     * Takes a lock away from its holder, as an operator does.
     *
     * @param name the lock
     * @param reason the operator's reason
     */
    public void forceRelease(String name, String reason) {
        ManagedChannel channel =
                Grpc.newChannelBuilder(address, InsecureChannelCredentials.create()).build();
        try {
            LockAdminServiceGrpc.newBlockingStub(channel)
                    .forceRelease(
                            ForceReleaseRequest.newBuilder()
                                    .setName(name)
                                    .setReason(reason)
                                    .build());
        } finally {
            channel.shutdownNow();
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
        }
    }
}
