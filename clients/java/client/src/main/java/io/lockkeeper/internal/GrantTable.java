package io.lockkeeper.internal;

import static io.lockkeeper.internal.Timers.NEVER;
import static io.lockkeeper.internal.Timers.after;

import io.lockkeeper.internal.Guard.Entry;
import io.lockkeeper.internal.Operation.Purpose;
import io.lockkeeper.v1.LostReason;
import io.lockkeeper.v1.YieldRequested;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** What the session holds, until when, and by which guards. */
final class GrantTable {

    private static final long RENEWAL_PAUSE_MAX = TimeUnit.MILLISECONDS.toNanos(200);

    private final Map<Long, Entry> entries = new LinkedHashMap<>();
    private final Map<String, Entry> byKey = new HashMap<>();
    private final Map<Long, Guard> guards = new LinkedHashMap<>();

    /** Guards that are not delivered yet, by the operation that acquired them. */
    private final Map<Long, Guard> undelivered = new HashMap<>();

    /** Releases without an answer, by guard. */
    private final Map<Long, PendingRelease> releases = new HashMap<>();

    private final Timers timers = new Timers();
    private final Outbox outbox;
    private final Operations operations;
    private final StreamState stream;

    private record PendingRelease(Guard guard, long op) {}

    GrantTable(Outbox outbox, Operations operations, StreamState stream) {
        this.outbox = outbox;
        this.operations = operations;
        this.stream = stream;
    }

    /**
     * Adds what an operation acquired, and delivers its guard. Only the age of the request is
     * known: after a long wait the guard is delivered when a renewal says until when it is valid.
     */
    void granted(long op, List<Holding> holdings, long sentAt, long now) {
        Guard guard = new Guard(outbox.newId(), op, holdings);
        guards.put(guard.id, guard);
        for (Holding holding : holdings) {
            boolean isStale = now - sentAt > holding.validFor() / 3;
            Entry entry = add(guard, holding, isStale, sentAt, now);
            entry.renewAt = renewAt(holding, sentAt);
            if (isStale) {
                guard.unconfirmed.add(entry);
                entry.renewAt = now;
            }
        }
        undelivered.put(op, guard);
        deliver(guard);
        for (Entry entry : List.copyOf(guard.entries)) {
            check(entry, now);
        }
    }

    private Entry add(Guard guard, Holding holding, boolean isStale, long sentAt, long now) {
        long until = sentAt + holding.validFor();
        Entry entry = find(holding);
        // What is being released is not extended: it is a new grant, or one that ends as the old.
        if (entry != null && entry.guards.isEmpty()) {
            remove(entry);
            entry = null;
        }
        if (entry == null) {
            entry = new Entry(outbox.newId(), holding);
            // A renewal has to say more; until then there is no guard to read the assumption.
            entry.validUntil = isStale ? after(now, holding.lease()) : until;
            entries.put(entry.id, entry);
            for (String key : holding.keys()) {
                byKey.put(key, entry);
            }
        } else if (until > entry.validUntil
                || !isStale && (entry.isAssumed() || entry.holding.isOlderThan(holding))) {
            // Neither an assumption nor an older grant lends its end.
            entry.validUntil = until;
        }
        if (entry.holding.fencingToken() != holding.fencingToken()) {
            entry.asked = null;
        }
        entry.holding = holding;
        entry.guards.add(guard);
        guard.entries.add(entry);
        return entry;
    }

    private long renewAt(Holding holding, long sentAt) {
        return holding.isWatched() ? sentAt + stream.renewInterval(holding.lease()) : NEVER;
    }

    private void deliver(Guard guard) {
        if (guard.unconfirmed.isEmpty() && undelivered.remove(guard.op) != null) {
            guard.isDelivered = true;
            outbox.add(
                    new Effect.Granted(guard.op, guard.id, guard.holdings, guard.validUntil()));
            guard.entries.forEach(it -> ask(guard, it));
        }
    }

    private void ask(Guard guard, Entry entry) {
        if (guard.isDelivered && entry.asked != null) {
            outbox.add(new Effect.Asked(guard.id, entry.asked, entry.askedUntil));
        }
    }

    /** Asks the guards of a grant. Returns whether there are any, and of that grant. */
    boolean onAsked(YieldRequested request, long now) {
        Holding asked = Holding.of(request.getGrant());
        Entry entry = find(asked);
        if (entry == null
                || entry.guards.isEmpty()
                || entry.holding.fencingToken() != asked.fencingToken()) {
            return false;
        }
        entry.asked = request;
        entry.askedUntil = after(now, Protos.toNanos(request.getWithin()));
        entry.guards.forEach(it -> ask(it, entry));
        return true;
    }

    Entry find(Holding holding) {
        return holding.keys().stream().map(byKey::get).filter(it -> it != null).findFirst()
                .orElse(null);
    }

    /** Everything that is held, to be named when the session is resumed. */
    List<Holding> held() {
        return entries.values().stream().map(it -> it.holding).toList();
    }

    // --- renewals

    /** Renews a grant if that is due, or reports that it is lost. */
    private void check(Entry entry, long now) {
        if (entry.guards.isEmpty() || !entries.containsKey(entry.id)) {
            return;
        }
        if (entry.validUntil <= now) {
            lose(entry, lost(entry, LostReason.LOST_REASON_EXPIRED, "", Duration.ZERO), now);
            return;
        }
        boolean mayRenew = !entry.isRenewing && outbox.canSend();
        if (mayRenew && entry.renewAt <= now) {
            entry.isRenewing = true;
            operations.startRenewal(Purpose.RENEWAL, entry.id, entry.holding, null, now);
            mayRenew = false;
        }
        long renewAt = mayRenew ? entry.renewAt : NEVER;
        timers.set(entry.id, Math.min(entry.validUntil, renewAt));
    }

    long wakeAt() {
        return timers.next();
    }

    void checkDue(long now) {
        for (long id = timers.popDue(now); id >= 0; id = timers.popDue(now)) {
            check(entries.get(id), now);
        }
    }

    void checkAll(long now) {
        List.copyOf(entries.values()).forEach(it -> check(it, now));
    }

    /** Takes over the result of a renewal, or of a resume, that was sent at {@code sentAt}. */
    void renewed(Holding holding, long sentAt, long now) {
        Entry entry = find(holding);
        if (entry == null || holding.isOlderThan(entry.holding)) {
            return;
        }
        long until = sentAt + holding.validFor();
        entry.holding = holding;
        entry.renewAt = renewAt(holding, sentAt);
        if (until > now && (entry.isAssumed() || until > entry.validUntil)) {
            entry.validUntil = until;
        }
        for (Guard guard : entry.guards) {
            if (until > now && guard.unconfirmed.remove(entry)) {
                deliver(guard);
            } else if (guard.isDelivered) {
                outbox.add(new Effect.Valid(guard.id, guard.validUntil()));
            }
        }
        check(entry, now);
    }

    void onRenewalAnswered(long id, long now) {
        Entry entry = entries.get(id);
        if (entry != null) {
            entry.isRenewing = false;
            check(entry, now);
        }
    }

    /** Without NOT_OWNER only time decides: nobody has taken the grant. */
    void onRenewalFailed(Operation renewal, Failure.Refused failure, long now) {
        Entry entry = entries.get(renewal.subject);
        if (entry == null) {
            return;
        }
        entry.isRenewing = false;
        if (failure.isNotOwner() && isAbout(renewal, entry)) {
            lose(entry, lostAfter(entry.holding, failure), now);
            return;
        }
        entry.renewAt = now + Math.min(RENEWAL_PAUSE_MAX, stream.lease() / 6);
        check(entry, now);
    }

    /** Whether the grant is the one that was to be renewed, and not a newer one of its owner. */
    private static boolean isAbout(Operation renewal, Entry entry) {
        return Long.compareUnsigned(entry.holding.fencingToken(), renewal.token) <= 0;
    }

    void onStreamEnded() {
        entries.values().forEach(it -> it.isRenewing = false);
    }

    /** Starts the renewals that a caller asked for. Returns how many there are. */
    int renew(long op, Guard guard, Duration lease, long now) {
        List<Entry> renewed = List.copyOf(guard.entries);
        for (Entry entry : renewed) {
            operations.startRenewal(Purpose.CALLER_RENEWAL, op, entry.holding, lease, now);
        }
        return renewed.size();
    }

    // --- losses

    /** A notice of the coordinator. One about an older grant of the same owner is ignored. */
    void onLost(Holding gone, LostReason reason, String detail, long validFor, long now) {
        Entry entry = find(gone);
        if (entry != null && !gone.isOlderThan(entry.holding)) {
            long left = Math.max(0, Math.min(validFor, entry.validUntil - now));
            lose(entry, lost(entry, reason, detail, Duration.ofNanos(left)), now);
        }
    }

    /** A renewal that a caller asked for found that the grant is gone. Returns the loss. */
    Failure onNotOwner(Operation renewal, Failure.Refused failure, long now) {
        Holding renewed = renewal.renewedHolding();
        Entry entry = find(renewed);
        if (entry == null || !isAbout(renewal, entry)) {
            return lostAfter(renewed, failure);
        }
        Failure.Lost loss = lostAfter(entry.holding, failure);
        lose(entry, loss, now);
        return loss;
    }

    private void lose(Entry entry, Failure.Lost loss, long now) {
        remove(entry);
        for (Guard guard : List.copyOf(entry.guards)) {
            report(guard, loss);
            if (undelivered.remove(guard.op) != null) {
                outbox.add(new Effect.Failed(guard.op, loss));
                release(guard.id, -1, now);
            }
        }
    }

    private void report(Guard guard, Failure.Lost loss) {
        if (guard.loss == null) {
            guard.loss = loss;
            if (guard.isDelivered) {
                outbox.add(new Effect.Lost(guard.id, loss));
            }
        }
    }

    private static Failure.Lost lost(
            Entry entry, LostReason reason, String detail, Duration validFor) {
        Holding holding = entry.holding;
        return new Failure.Lost(
                holding.name(), reason, holding.fencingToken(), detail, validFor);
    }

    private static Failure.Lost lostAfter(Holding holding, Failure.Refused failure) {
        boolean isTaken = "held_by_another".equals(failure.metadata().get("state"));
        LostReason reason =
                isTaken ? LostReason.LOST_REASON_TAKEN_OVER : LostReason.LOST_REASON_EXPIRED;
        return new Failure.Lost(holding.name(), reason, holding.fencingToken(), "");
    }

    private void remove(Entry entry) {
        entries.remove(entry.id);
        timers.remove(entry.id);
        entry.holding.keys().forEach(key -> byKey.remove(key, entry));
    }

    // --- releases

    Guard guard(long id) {
        return guards.get(id);
    }

    /** The guard that waits for its confirmation on behalf of an operation, or null. */
    Guard undelivered(long op) {
        return undelivered.get(op);
    }

    /**
     * Releases what a guard holds, even if it is lost: a coordinator that could not be reached may
     * still hold it. {@code op} is negative if no caller waits for the answer.
     */
    void release(long guardId, long op, long now) {
        Guard guard = guards.remove(guardId);
        if (guard == null) {
            return;
        }
        undelivered.remove(guard.op);
        List<Holding> left = guard.holdings;
        if (guard.loss != null) {
            answer(op, guard.loss);
            left = leftOf(guard);
        }
        for (Entry entry : guard.entries) {
            entry.guards.remove(guard);
            if (entry.guards.isEmpty()) {
                timers.remove(entry.id);
            }
        }
        if (!left.isEmpty()) {
            releases.put(guard.id, new PendingRelease(guard, guard.loss != null ? -1 : op));
            operations.start(Purpose.RELEASE, guard.id, Holding.release(left), now);
        }
    }

    /**
     * What a lost guard may still hold. Not a lock that its owner holds anew: a release would take
     * that.
     */
    private List<Holding> leftOf(Guard guard) {
        List<Holding> left = new ArrayList<>();
        for (int at = 0; at < guard.entries.size(); at++) {
            if (!isHeldAnew(guard.entries.get(at))) {
                left.add(guard.holdings.get(at));
            }
        }
        return left;
    }

    /**
     * Whether a lock was lost, and its owner has a newer grant. With the same token it is a further
     * hold of the grant, but of a reader that is unknown: the token is the last writer's.
     */
    private boolean isHeldAnew(Entry lost) {
        Entry current = find(lost.holding);
        return current != null
                && current != lost
                && (lost.holding.isRead() || lost.holding.isOlderThan(current.holding));
    }

    /** A release has ended; {@code failure} is null if it has taken effect. */
    void onReleased(long guardId, Failure failure) {
        PendingRelease release = releases.remove(guardId);
        if (release == null) {
            return;
        }
        for (Entry entry : release.guard.entries) {
            if (entry.guards.isEmpty()) {
                remove(entry);
            }
        }
        Failure reported = failure;
        if (failure instanceof Failure.Refused refused && refused.isNotOwner()) {
            String gone = refused.metadata().get("name");
            List<Holding> held = release.guard.holdings;
            Holding named =
                    held.stream()
                            .filter(it -> it.name().equals(gone))
                            .findFirst()
                            .orElse(held.get(0));
            reported = lostAfter(named, refused);
        }
        answer(release.op, reported);
    }

    private void answer(long op, Failure failure) {
        if (op >= 0) {
            outbox.add(failure == null ? new Effect.Done(op) : new Effect.Failed(op, failure));
        }
    }

    // --- the end

    /** The session has ended: everything is lost, and no release will be answered any more. */
    void end(String cause, Failure ended, boolean isConfirmed) {
        for (Guard guard : new ArrayList<>(guards.values())) {
            Holding first = guard.holdings.get(0);
            LostReason reason = LostReason.LOST_REASON_UNSPECIFIED;
            report(guard,
                    new Failure.Lost(first.name(), reason, first.fencingToken(), cause));
            if (undelivered.remove(guard.op) != null) {
                outbox.add(new Effect.Failed(guard.op, ended));
            }
        }
        // The end of a session releases everything.
        releases.values().forEach(it -> answer(it.op, isConfirmed ? null : ended));
        releases.clear();
    }
}
