package io.lockkeeper;

import io.lockkeeper.internal.Effect;

/** A lock that is held. Close it to release the lock. */
public final class Grant extends Held {

    Grant(Session session, Effect.Granted granted) {
        super(session, granted);
    }

    /**
     * The lock's name.
     *
     * @return the name
     */
    public String name() {
        return holdings().get(0).name();
    }

    /**
     * The fencing token: it grows with every new grant of this name. Send it with every write, so
     * that the resource can refuse a token smaller than the largest it has seen. A reader has the
     * token of the last writer.
     *
     * @return the token; an unsigned number
     */
    public long fencingToken() {
        return holdings().get(0).fencingToken();
    }

    /**
     * The owner within the session.
     *
     * @return the owner
     */
    public String owner() {
        return holdings().get(0).lock().getOwner();
    }
}
