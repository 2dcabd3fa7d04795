package io.lockkeeper.spring;

import io.lockkeeper.Grant;
import io.lockkeeper.Loss;
import io.lockkeeper.LossWatch;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** The watches of what is held, one for each grant. */
final class Watches {

    private final Map<Grant, LossWatch> byGrant = new ConcurrentHashMap<>();
    private final AtomicLong losses;
    private final Consumer<Loss> listener;

    Watches(AtomicLong losses, Consumer<Loss> listener) {
        this.losses = losses;
        this.listener = listener;
    }

    void watch(Grant grant) {
        byGrant.computeIfAbsent(
                grant, it -> LossWatch.ofCurrentThread(it, losses, listener));
    }

    void end(Grant grant) {
        LossWatch watch = byGrant.remove(grant);
        if (watch != null) {
            watch.close();
        }
    }
}
