package io.lockkeeper;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/**
 * Reports the loss of a grant where an interface of another library has no place for it: it counts,
 * interrupts the thread that works under the lock, logs a warning and calls a listener. Only the
 * listener waits for a free thread of the client's executor. Close it when the work is over, before
 * the release: the thread is not interrupted after that.
 */
public final class LossWatch implements AutoCloseable {

    private static final Logger LOGGER = System.getLogger("io.lockkeeper");

    private final Thread worker;
    private final AtomicLong count;
    private final Consumer<Loss> listener;
    private boolean isOver;

    private LossWatch(Thread worker, AtomicLong count, Consumer<Loss> listener) {
        this.worker = worker;
        this.count = count;
        this.listener = listener;
    }

    /**
     * Watches a grant for the current thread.
     *
     * @param grant the grant
     * @param count grows by one with a loss, before the thread is interrupted
     * @param listener also called with a loss, on the executor of the client
     * @return the watch
     */
    public static LossWatch ofCurrentThread(
            Held grant, AtomicLong count, Consumer<Loss> listener) {
        LossWatch watch = new LossWatch(Thread.currentThread(), count, listener);
        grant.onNoticed(loss -> watch.onLost(loss, grant.session().executor()));
        return watch;
    }

    private void onLost(Loss loss, Executor executor) {
        synchronized (this) {
            if (isOver) {
                return;
            }
            count.incrementAndGet();
            worker.interrupt();
        }
        String name = worker.getName();
        LOGGER.log(Level.WARNING, () -> loss.name() + ": lost, so " + name + " is interrupted");
        executor.execute(() -> Callbacks.tell(listener, loss));
    }

    @Override
    public synchronized void close() {
        isOver = true;
    }
}
