package io.lockkeeper;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** An authority, the certificates that it issued, and an authority that issued none, by openssl. */
record Certificates(Path folder) {

    static Certificates make(Path folder) throws IOException, InterruptedException {
        Certificates made = new Certificates(folder);
        made.selfSigned("ca");
        made.selfSigned("other");
        made.issued("server", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        made.issued("client", "subjectAltName=URI:spiffe://test/client");
        return made;
    }

    Path ca() {
        return folder.resolve("ca.pem");
    }

    Path otherCa() {
        return folder.resolve("other.pem");
    }

    Path client() {
        return folder.resolve("client.pem");
    }

    Path clientKey() {
        return folder.resolve("client.key");
    }

    /** The settings of a coordinator that requires the client's certificate. */
    String[] settings() {
        return new String[] {
            "--set", "server.tls.certificate_file=" + folder.resolve("server.pem"),
            "--set", "server.tls.key_file=" + folder.resolve("server.key"),
            "--set", "server.tls.client_ca_file=" + ca()
        };
    }

    private void selfSigned(String name) throws IOException, InterruptedException {
        openssl("req", "-x509", "-days", "2", "-subj", "/CN=" + name, "-out", name + ".pem",
                "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", name + ".key");
    }

    private void issued(String name, String extension) throws IOException, InterruptedException {
        openssl("req", "-subj", "/CN=" + name, "-out", name + ".csr",
                "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", name + ".key");
        Files.writeString(folder.resolve(name + ".ext"), extension);
        openssl("x509", "-req", "-days", "2", "-in", name + ".csr", "-out", name + ".pem",
                "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-extfile", name + ".ext");
    }

    private void openssl(String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(List.of("openssl"));
        command.addAll(List.of(arguments));
        Process process =
                new ProcessBuilder(command)
                        .directory(folder.toFile())
                        .redirectErrorStream(true)
                        .start();
        byte[] said = process.getInputStream().readAllBytes();
        if (process.waitFor() != 0) {
            throw new IOException(new String(said, StandardCharsets.UTF_8));
        }
    }
}
