package io.lockkeeper;

import io.lockkeeper.internal.Failure;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/** An operation of a session whose caller waits. Ending it in any other way abandons it. */
final class Call<T> extends CompletableFuture<T> {

    final long op;

    /** Runs what depends on an asynchronous call; null if a thread waits for the answer. */
    private final Executor executor;

    private volatile boolean isAnswered;

    /** The failure of a call that a thread waits for, which throws an exception of its own. */
    private static final class Failed extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final transient Failure failure;

        Failed(Failure failure) {
            super(failure.describe(), null, false, false);
            this.failure = failure;
        }
    }

    Call(long op, Executor executor, LongConsumer abandon) {
        this.op = op;
        this.executor = executor;
        whenComplete(
                (value, thrown) -> {
                    if (!isAnswered) {
                        abandon.accept(op);
                    }
                });
    }

    /** Answers the caller. {@code unwanted} receives what a caller that gave up does not take. */
    void answer(T value, Consumer<T> unwanted) {
        isAnswered = true;
        run(
                () -> {
                    if (!complete(value)) {
                        unwanted.accept(value);
                    }
                });
    }

    void fail(Failure failure) {
        isAnswered = true;
        boolean isAwaited = executor == null;
        run(() -> completeExceptionally(isAwaited ? new Failed(failure) : Errors.of(failure)));
    }

    private void run(Runnable completion) {
        if (executor == null) {
            completion.run();
        } else {
            executor.execute(completion);
        }
    }

    /** Waits for the answer. An interrupt gives up, unless the answer has arrived. */
    T await() throws InterruptedException {
        try {
            return result();
        } catch (InterruptedException interrupt) {
            if (cancel(false)) {
                throw interrupt;
            }
            Thread.currentThread().interrupt();
            return awaitUninterruptibly();
        }
    }

    /** Waits for the answer, and leaves the thread's interrupt as it is. */
    T awaitUninterruptibly() {
        boolean wasInterrupted = Thread.interrupted();
        try {
            while (true) {
                try {
                    return result();
                } catch (InterruptedException interrupt) {
                    wasInterrupted = true;
                }
            }
        } finally {
            if (wasInterrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Waits for the answer. Nothing if it is that nothing was granted. */
    Optional<T> tried() throws InterruptedException {
        try {
            return Optional.of(await());
        } catch (NotGrantedException busy) {
            return Optional.empty();
        }
    }

    /** Nothing if nothing was granted. {@code unwanted} receives what came after a cancel. */
    CompletableFuture<Optional<T>> triedAsync(Consumer<T> unwanted) {
        CompletableFuture<Optional<T>> tried = new CompletableFuture<>();
        tried.whenComplete((value, thrown) -> cancel(false));
        whenComplete(
                (value, thrown) -> {
                    if (thrown instanceof NotGrantedException) {
                        tried.complete(Optional.empty());
                    } else if (thrown != null) {
                        tried.completeExceptionally(thrown);
                    } else if (!tried.complete(Optional.of(value))) {
                        unwanted.accept(value);
                    }
                });
        return tried;
    }

    private T result() throws InterruptedException {
        try {
            return get();
        } catch (ExecutionException failed) {
            if (failed.getCause() instanceof Failed it) {
                throw Errors.of(it.failure);
            }
            throw new IllegalStateException(failed.getCause());
        }
    }

    @Override
    public <U> CompletableFuture<U> newIncompleteFuture() {
        return new CompletableFuture<>();
    }
}
