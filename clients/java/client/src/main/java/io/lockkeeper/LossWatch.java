package io.lockkeeper;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.function.Consumer;

/**
 * Reports the loss of a grant where an interface of another library has no place for it: it logs a
 * warning, calls a listener, and interrupts the thread that works under the lock. Close it when the
 * work is over, before the release: the thread is not interrupted after that.
 */
public final class LossWatch implements AutoCloseable {

    private static final Logger LOGGER = System.getLogger("io.lockkeeper");

    private final Thread worker;
    private final Consumer<Loss> listener;
    private boolean isOver;

    private LossWatch(Thread worker, Consumer<Loss> listener) {
        this.worker = worker;
        this.listener = listener;
    }

    /**
     * Watches a grant for the current thread.
     *
     * @param grant the grant
     * @param listener also called with a loss, on the executor of the client
     * @return the watch
     */
    public static LossWatch ofCurrentThread(Held grant, Consumer<Loss> listener) {
        LossWatch watch = new LossWatch(Thread.currentThread(), listener);
        grant.onLost(watch::onLost);
        return watch;
    }

    private void onLost(Loss loss) {
        synchronized (this) {
            if (isOver) {
                return;
            }
            worker.interrupt();
        }
        String name = worker.getName();
        LOGGER.log(Level.WARNING, () -> loss.name() + ": lost, so " + name + " is interrupted");
        listener.accept(loss);
    }

    @Override
    public synchronized void close() {
        isOver = true;
    }
}
