package io.lockkeeper.internal;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;

/** One timer for each id. Times are nanoseconds of the clock that the machine is given. */
public final class Timers {

    /** Later than every time. */
    public static final long NEVER = Long.MAX_VALUE;

    private record Timer(long at, long id) implements Comparable<Timer> {
        @Override
        public int compareTo(Timer other) {
            int order = Long.compare(at, other.at);
            return order != 0 ? order : Long.compare(id, other.id);
        }
    }

    private final TreeSet<Timer> timers = new TreeSet<>();
    private final Map<Long, Long> times = new HashMap<>();

    /** Sets the timer of an id, in place of a former one. */
    void set(long id, long at) {
        remove(id);
        if (at != NEVER) {
            times.put(id, at);
            timers.add(new Timer(at, id));
        }
    }

    void remove(long id) {
        Long at = times.remove(id);
        if (at != null) {
            timers.remove(new Timer(at, id));
        }
    }

    long next() {
        return timers.isEmpty() ? NEVER : timers.first().at;
    }

    /** Takes the next id whose time has come; -1 if there is none. */
    long popDue(long now) {
        if (next() > now) {
            return -1;
        }
        Timer timer = timers.pollFirst();
        times.remove(timer.id);
        return timer.id;
    }

    /**
     * A later time, or {@link #NEVER} if it is out of range.
     *
     * @param now the time
     * @param nanos how much later, in nanoseconds
     * @return the later time
     */
    public static long after(long now, long nanos) {
        return nanos >= NEVER - now ? NEVER : now + nanos;
    }
}
