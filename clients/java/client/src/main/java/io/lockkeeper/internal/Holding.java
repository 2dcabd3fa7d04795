package io.lockkeeper.internal;

import io.lockkeeper.v1.Grant;
import io.lockkeeper.v1.LockMode;
import io.lockkeeper.v1.LockSpec;
import io.lockkeeper.v1.PermitGrant;
import io.lockkeeper.v1.ReleaseAllRequest;
import io.lockkeeper.v1.ReleasePermitsRequest;
import io.lockkeeper.v1.ReleaseRequest;
import io.lockkeeper.v1.RenewPermitsRequest;
import io.lockkeeper.v1.RenewRequest;
import io.lockkeeper.v1.SessionOpened;
import io.lockkeeper.v1.SessionRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/**
 * One grant, which is renewed and lost independently of others.
 *
 * @param lock the grant of a lock, or null
 * @param permits the grant of permits, or null
 */
public record Holding(Grant lock, PermitGrant permits) {

    static Holding of(Grant lock) {
        return new Holding(lock, null);
    }

    static Holding of(PermitGrant permits) {
        return new Holding(null, permits);
    }

    static List<Holding> ofLocks(List<Grant> grants) {
        return grants.stream().map(Holding::of).toList();
    }

    /** Everything that a resumed session still holds. */
    static List<Holding> resumed(SessionOpened opened) {
        List<Holding> held = new ArrayList<>(ofLocks(opened.getGrantsList()));
        opened.getPermitsList().forEach(it -> held.add(of(it)));
        return held;
    }

    /**
     * The name of the lock or the semaphore.
     *
     * @return the name
     */
    public String name() {
        return lock != null ? lock.getName() : permits.getName();
    }

    /**
     * The fencing token.
     *
     * @return the token; 0 for permits
     */
    public long fencingToken() {
        return lock != null ? lock.getFencingToken() : 0;
    }

    long lease() {
        return Protos.toNanos(lock != null ? lock.getLease() : permits.getLease());
    }

    long validFor() {
        return Protos.toNanos(lock != null ? lock.getValidFor() : permits.getValidFor());
    }

    /** Whether it is renewed as long as its session lives; else its request had a lease. */
    boolean isWatched() {
        return lock != null ? lock.getWatched() : permits.getWatched();
    }

    /** What identifies it in the session: one key of a lock, one for each permit. */
    List<String> keys() {
        if (permits != null) {
            return permits.getPermitIdsList().stream().map(id -> "permit " + id).toList();
        }
        return List.of(key(lock.getName(), lock.getMode(), lock.getOwner()));
    }

    /** EXCLUSIVE and FAIR are the same lock. */
    static String key(String name, LockMode mode, String owner) {
        String side =
                switch (mode) {
                    case LOCK_MODE_READ -> "read";
                    case LOCK_MODE_WRITE -> "write";
                    default -> "lock";
                };
        return side + ' ' + owner.length() + ' ' + owner + ' ' + name;
    }

    boolean isOlderThan(Holding other) {
        return lock != null
                && other.lock != null
                && Long.compareUnsigned(fencingToken(), other.fencingToken()) < 0;
    }

    boolean isRead() {
        return lock != null && lock.getMode() == LockMode.LOCK_MODE_READ;
    }

    /** The request that renews it, for a lease or its former one. */
    SessionRequest renewal(Duration lease) {
        SessionRequest.Builder frame = SessionRequest.newBuilder();
        if (lock != null) {
            RenewRequest.Builder renew = RenewRequest.newBuilder();
            renew.setName(lock.getName()).setOwner(lock.getOwner()).setMode(lock.getMode());
            if (lease != null) {
                renew.setLease(Protos.toProto(lease));
            }
            return frame.setRenew(renew).build();
        }
        RenewPermitsRequest.Builder renew = RenewPermitsRequest.newBuilder();
        renew.setName(permits.getName()).setOwner(permits.getOwner());
        renew.addAllPermitIds(permits.getPermitIdsList());
        if (lease != null) {
            renew.setLease(Protos.toProto(lease));
        }
        return frame.setRenewPermits(renew).build();
    }

    /** The request that releases what one request acquired. */
    static SessionRequest release(List<Holding> holdings) {
        SessionRequest.Builder frame = SessionRequest.newBuilder();
        Holding first = holdings.get(0);
        if (first.permits != null) {
            ReleasePermitsRequest.Builder release = ReleasePermitsRequest.newBuilder();
            release.setName(first.name()).setOwner(first.permits.getOwner());
            release.addAllPermitIds(first.permits.getPermitIdsList());
            return frame.setReleasePermits(release).build();
        }
        Grant lock = first.lock;
        if (holdings.size() == 1) {
            ReleaseRequest.Builder release = ReleaseRequest.newBuilder();
            release.setName(lock.getName()).setOwner(lock.getOwner()).setMode(lock.getMode());
            return frame.setRelease(release).build();
        }
        ReleaseAllRequest.Builder release = ReleaseAllRequest.newBuilder();
        release.setOwner(lock.getOwner());
        for (Holding holding : holdings) {
            LockSpec.Builder spec = LockSpec.newBuilder().setName(holding.name());
            release.addLocks(spec.setMode(holding.lock.getMode()));
        }
        return frame.setReleaseAll(release).build();
    }
}
