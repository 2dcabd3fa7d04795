package lockkeeper.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Does with Redisson what it is told on standard input, one command a line: {@code <id> <client> <thread> <verb> <argument>...}.
 * Each is answered on standard output: {@code <id> ok <value>} or {@code <id> failed <exception> <message>}.
 *
 * <p>Commands of one thread are done one after the other, in a Java thread of that name, because that is what owns a lock; those of
 * different threads at the same time. When standard input ends, so does the process: it never outlives the test that started it.
 */
public final class Agent {
    private final Map<String, Client> clients = new ConcurrentHashMap<>();
    private final Map<String, Worker> workers = new ConcurrentHashMap<>();
    private final PrintStream answers;

    private Agent(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] arguments) throws IOException {
        // Whatever a library prints must not be taken for an answer.
        Agent agent = new Agent(System.out);
        System.setOut(System.err);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            agent.take(line.split(" "));
        }
        Runtime.getRuntime().halt(0);
    }

    private void take(String[] words) {
        String id = words[0];
        String client = words[1];
        String verb = words[3];
        String[] arguments = Arrays.copyOfRange(words, 4, words.length);
        Worker worker = workers.computeIfAbsent(client + " " + words[2], Worker::new);
        if (verb.equals("interrupt")) {
            // What the thread is at would keep it from obeying.
            worker.interrupt();
            answer(id, "ok", "");
            return;
        }
        worker.submit(() -> {
            try {
                String value = obey(client, verb, arguments);
                answer(id, "ok", value);
            } catch (Throwable failure) {
                answer(id, "failed", failure.getClass().getSimpleName() + " " + failure.getMessage());
            }
        });
    }

    private String obey(String name, String verb, String[] arguments) throws Exception {
        switch (verb) {
            case "connect":
                clients.put(name, Client.connect(arguments));
                return "";
            case "shutdown":
                clients.remove(name).shutdown();
                return "";
            default:
                return Verbs.named(verb).run(client(name), arguments);
        }
    }

    private Client client(String name) {
        Client client = clients.get(name);
        if (client == null) {
            throw new IllegalArgumentException("no client is called " + name);
        }
        return client;
    }

    private synchronized void answer(String id, String outcome, String text) {
        answers.println(id + " " + outcome + " " + text.replace('\n', ' '));
        answers.flush();
    }
}
