package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import io.lockkeeper.internal.Holding;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;

/**
 * What one acquire obtained. It is held until it is released or {@linkplain #lost() lost}, and
 * renewed in the background unless its request set a lease. It belongs to no thread.
 */
public abstract sealed class Held implements AutoCloseable
        permits Grant, Grants, Leadership, Permits {

    private final Session session;
    private final long guard;
    private final List<Holding> holdings;
    private final CompletableFuture<Loss> lost = new CompletableFuture<>();

    /** As {@link #lost}, on the threads of the client. */
    private final CompletableFuture<Loss> noticed = new CompletableFuture<>();

    private final AtomicBoolean isReleased = new AtomicBoolean();
    private volatile long validUntil;
    private volatile Loss loss;
    private volatile Asked asked;

    /** Guarded by itself, together with a change of {@link #asked}. */
    private final List<Consumer<YieldRequest>> yieldListeners = new ArrayList<>();

    private record Asked(YieldRequest request, long until) {}

    Held(Session session, Effect.Granted granted) {
        this.session = session;
        guard = granted.guard();
        holdings = granted.holdings();
        validUntil = granted.validUntil();
    }

    long guard() {
        return guard;
    }

    List<Holding> holdings() {
        return holdings;
    }

    /**
     * The time for which everything is certainly held, unless it is renewed. It counts from before
     * the last request was sent, so it is not longer than the lease in the store.
     *
     * @return the time; zero once it is lost, or its release has begun
     */
    public final Duration validFor() {
        long left = left();
        return loss != null || isReleased.get() || left <= 0
                ? Duration.ZERO
                : Duration.ofNanos(left);
    }

    private long left() {
        return validUntil - Session.now();
    }

    /**
     * Whether it is lost. Stop the work then: another owner may hold the lock.
     *
     * @return whether a loss was noticed, or {@link #validFor} has passed
     */
    public final boolean isLost() {
        return loss != null || !isReleased.get() && left() <= 0;
    }

    /**
     * The loss.
     *
     * @return the loss, once it was noticed
     */
    public final Optional<Loss> loss() {
        return Optional.ofNullable(loss);
    }

    /**
     * Completes when the loss is noticed, at the latest when {@link #validFor} has passed. It never
     * completes if everything is released before.
     *
     * @return the loss
     */
    public final CompletionStage<Loss> lost() {
        return lost.minimalCompletionStage();
    }

    /**
     * Calls a listener when the loss is noticed, on the executor of the client. See {@link #lost}.
     *
     * @param listener the listener
     */
    public final void onLost(Consumer<Loss> listener) {
        lost.thenAcceptAsync(it -> Callbacks.tell(listener, it), session.executor());
    }

    /** As {@link #onLost}, on a thread of the client, which is never busy with something else. */
    final void onNoticed(Consumer<Loss> listener) {
        noticed.thenAcceptAsync(listener, session.threads());
    }

    /**
     * Calls a listener when another caller asks for one of the locks, on the executor of the
     * client, and at once while such a request stands. Everything stays held: finish the work,
     * release, or go on. But if the request preempts, the lock is lost when it ends. After a broken
     * stream the listener can be called for the same request again. Permits are never asked for.
     *
     * @param listener the listener
     */
    public final void onYieldRequested(Consumer<YieldRequest> listener) {
        Optional<YieldRequest> standing;
        synchronized (yieldListeners) {
            yieldListeners.add(listener);
            standing = yieldRequest();
        }
        standing.ifPresent(it -> session.executor().execute(() -> Callbacks.tell(listener, it)));
    }

    /**
     * The last request of another caller to release one of the locks, for work that looks between
     * two steps. See {@link #onYieldRequested}.
     *
     * @return the request; empty if none stands
     */
    public final Optional<YieldRequest> yieldRequest() {
        Asked last = asked;
        boolean isStanding = loss == null && last != null && last.until > Session.now();
        return isStanding ? Optional.of(last.request) : Optional.empty();
    }

    /**
     * Renews everything for its former lease, counted from now. Watched grants are renewed in the
     * background; only those whose request set a lease need it.
     *
     * @throws LockLostException if it is lost
     * @throws RefusedException if the coordinator refuses; it is still held then
     * @throws InterruptedException if the thread is interrupted
     */
    public final void renew() throws InterruptedException {
        session.renew(guard, null, false).await();
    }

    /**
     * Renews everything for a lease, counted from now. A lease is never shortened.
     *
     * @param lease the lease
     * @throws LockLostException if it is lost
     * @throws RefusedException if the coordinator refuses; it is still held then
     * @throws InterruptedException if the thread is interrupted
     */
    public final void renew(Duration lease) throws InterruptedException {
        AcquireOptions.requireNotNegative("lease", lease);
        session.renew(guard, lease, false).await();
    }

    /**
     * Releases everything, and waits until that has taken effect in the store. A second release
     * does nothing.
     *
     * @throws LockLostException if it was lost before
     * @throws RefusedException if the coordinator refuses
     */
    @Override
    public final void close() {
        if (beginRelease()) {
            session.release(guard, false).awaitUninterruptibly();
        }
    }

    /**
     * Releases everything without waiting. A second release does nothing.
     *
     * @return completes as {@link #close} returns or throws
     */
    public final CompletableFuture<Void> releaseAsync() {
        if (!beginRelease()) {
            return CompletableFuture.completedFuture(null);
        }
        return session.release(guard, true);
    }

    private boolean beginRelease() {
        boolean isFirst = isReleased.compareAndSet(false, true);
        if (isFirst) {
            session.onReleased(guard);
        }
        return isFirst;
    }

    /** Throws if it is lost. */
    final void ensureHeld() {
        if (isLost()) {
            Holding first = holdings.get(0);
            LossReason reason = LossReason.EXPIRED;
            Loss expired = new Loss(first.name(), reason, first.fencingToken(), "");
            throw Errors.lost(loss().orElse(expired));
        }
    }

    @Override
    public final String toString() {
        return getClass().getSimpleName() + holdings.stream().map(Holding::name).toList();
    }

    final Session session() {
        return session;
    }

    void onAsked(YieldRequest request, long until) {
        List<Consumer<YieldRequest>> listeners;
        synchronized (yieldListeners) {
            asked = new Asked(request, until);
            listeners = List.copyOf(yieldListeners);
        }
        listeners.forEach(
                it -> session.executor().execute(() -> Callbacks.tell(it, request)));
    }

    void onRenewed(long until) {
        validUntil = until;
    }

    /** Returns whether that is news to the user. */
    boolean onLost(Loss reported) {
        if (isReleased.get()) {
            return false;
        }
        loss = reported;
        session.threads().execute(() -> noticed.complete(reported));
        session.executor().execute(() -> lost.complete(reported));
        return true;
    }
}
