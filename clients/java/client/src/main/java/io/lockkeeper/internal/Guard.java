package io.lockkeeper.internal;

import io.lockkeeper.v1.YieldRequested;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** What one acquire obtained and has not released. */
final class Guard {

    final long id;
    final long op;
    final List<Holding> holdings;
    final List<Entry> entries = new ArrayList<>();

    /** The grants that a renewal has to confirm before the guard is delivered. */
    final Set<Entry> unconfirmed = new HashSet<>();

    boolean isDelivered;
    Failure.Lost loss;

    Guard(long id, long op, List<Holding> holdings) {
        this.id = id;
        this.op = op;
        this.holdings = holdings;
    }

    long validUntil() {
        return entries.stream().mapToLong(it -> it.validUntil).min().orElse(0);
    }

    /** One grant, which several guards share if one owner acquired a lock several times. */
    static final class Entry {

        final long id;
        Holding holding;
        long validUntil;

        /** Never, if the request set a lease. */
        long renewAt = Timers.NEVER;

        boolean isRenewing;

        /** The last request of another caller to release it; null if there was none. */
        YieldRequested asked;

        /** Until when that request stands. */
        long askedUntil;

        /** Empty once it is being released: its loss is not reported then. */
        final List<Guard> guards = new ArrayList<>();

        Entry(long id, Holding holding) {
            this.id = id;
            this.holding = holding;
        }

        /** Whether its end is an assumption: all its guards wait for a renewal to confirm it. */
        boolean isAssumed() {
            return !guards.isEmpty()
                    && guards.stream().allMatch(it -> it.unconfirmed.contains(this));
        }
    }
}
