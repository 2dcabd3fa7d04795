package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import java.util.List;

/**
 * Permits of a semaphore that are held. Close it to release them. Permits have no fencing tokens.
 */
public final class Permits extends Held {

    Permits(Session session, Effect.Granted granted) {
        super(session, granted);
    }

    /**
     * The semaphore's name.
     *
     * @return the name
     */
    public String name() {
        return holdings().get(0).name();
    }

    /**
     * The number of permits.
     *
     * @return the number
     */
    public int count() {
        return permitIds().size();
    }

    /**
     * One id for each permit. Whoever knows an id can release its permit through Redisson.
     *
     * @return the ids
     */
    public List<String> permitIds() {
        return holdings().get(0).permits().getPermitIdsList();
    }
}
