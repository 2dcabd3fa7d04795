package lockkeeper.interop;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A Java thread with a name, and what it is to do. */
final class Worker {
    private final ExecutorService executor;
    private volatile Thread thread;

    Worker(String name) {
        executor = Executors.newSingleThreadExecutor(task -> {
            thread = new Thread(task, name);
            thread.setDaemon(true);
            return thread;
        });
    }

    void submit(Runnable task) {
        executor.execute(task);
    }

    /** Interrupts what it does now. */
    void interrupt() {
        thread.interrupt();
    }
}
