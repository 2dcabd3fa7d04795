package io.lockkeeper.spring;

import io.lockkeeper.Grant;
import io.lockkeeper.Loss;
import io.lockkeeper.LossWatch;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

/** The watches of what is held, one for each grant. */
final class Watches {

    private final Map<Grant, LossWatch> byGrant = new ConcurrentHashMap<>();
    private final Consumer<Loss> listener;

    Watches(Consumer<Loss> listener) {
        this.listener = listener;
    }

    void watch(Grant grant) {
        byGrant.computeIfAbsent(grant, it -> LossWatch.ofCurrentThread(it, listener));
    }

    void end(Grant grant) {
        LossWatch watch = byGrant.remove(grant);
        if (watch != null) {
            watch.close();
        }
    }
}
