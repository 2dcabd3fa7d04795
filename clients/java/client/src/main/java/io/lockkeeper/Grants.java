package io.lockkeeper;

import io.lockkeeper.internal.Effect;
import io.lockkeeper.internal.Holding;
import java.util.Collections;
import java.util.SortedMap;
import java.util.TreeMap;

/** Several locks that are held together. Close it to release all of them. */
public final class Grants extends Held {

    private final SortedMap<String, Long> fencingTokens;

    Grants(Session session, Effect.Granted granted) {
        super(session, granted);
        SortedMap<String, Long> tokens = new TreeMap<>();
        for (Holding holding : granted.holdings()) {
            tokens.put(holding.name(), holding.fencingToken());
        }
        fencingTokens = Collections.unmodifiableSortedMap(tokens);
    }

    /**
     * The fencing token of each lock, by name. See {@link Grant#fencingToken}.
     *
     * @return the tokens
     */
    public SortedMap<String, Long> fencingTokens() {
        return fencingTokens;
    }
}
