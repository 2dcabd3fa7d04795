package io.lockkeeper;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * The executor of the user. What it rejects, because it is full or was shut down, runs on a thread
 * of its own: a loss is reported nevertheless, and a caller gets its answer. So the executor does
 * not fail the thread of a session.
 *
 * @param executor the executor of the user
 */
record Callbacks(Executor executor) implements Executor {

    private static final Logger LOGGER = System.getLogger("io.lockkeeper");

    /** Calls a listener of the user. Nobody else would see that it failed. */
    static <T> void tell(Consumer<T> listener, T event) {
        try {
            listener.accept(event);
        } catch (RuntimeException | Error thrown) {
            LOGGER.log(Level.WARNING, "a listener failed", thrown);
        }
    }

    @Override
    public void execute(Runnable task) {
        AtomicBoolean isBegun = new AtomicBoolean();
        Runnable once =
                () -> {
                    if (isBegun.compareAndSet(false, true)) {
                        task.run();
                    }
                };
        try {
            executor.execute(once);
        } catch (RuntimeException thrown) {
            if (isBegun.get()) {
                // It ran in the calling thread.
                LOGGER.log(Level.WARNING, "a callback failed", thrown);
                return;
            }
            LOGGER.log(Level.WARNING, () -> "the executor rejected a callback: " + thrown);
            Thread thread = new Thread(once, "lockkeeper-rejected");
            thread.setDaemon(true);
            thread.start();
        }
    }
}
