package lockkeeper.interop;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** A Redisson client, and its locks: an application makes each object once, too. */
final class Client {
    private final RedissonClient redisson;
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    private Client(RedissonClient redisson) {
        this.redisson = redisson;
    }

    /** Connects with Redisson's defaults, but for smaller pools and, unless it is 0, the time-out of the watchdog. */
    static Client connect(String url, long watchdogMillis) {
        Config config = new Config();
        config.setThreads(4).setNettyThreads(4).setCodec(StringCodec.INSTANCE);
        if (watchdogMillis > 0) {
            config.setLockWatchdogTimeout(watchdogMillis);
        }
        config.useSingleServer()
                .setAddress(url)
                .setConnectionMinimumIdleSize(2)
                .setConnectionPoolSize(32);
        return new Client(Redisson.create(config));
    }

    void shutdown() {
        redisson.shutdown(0, 1, TimeUnit.SECONDS);
    }

    RedissonClient redisson() {
        return redisson;
    }

    /** The lock of a kind and a name; for several locks at once the names stand with commas between them. */
    RLock lock(String kind, String name) {
        return locks.computeIfAbsent(kind + " " + name, key -> make(kind, name));
    }

    private RLock make(String kind, String name) {
        switch (kind) {
            case "plain":
                return redisson.getLock(name);
            case "fenced":
                return redisson.getFencedLock(name);
            case "fair":
                return redisson.getFairLock(name);
            case "read":
                return redisson.getReadWriteLock(name).readLock();
            case "write":
                return redisson.getReadWriteLock(name).writeLock();
            case "multi":
                return redisson.getMultiLock(Stream.of(name.split(",")).map(redisson::getLock).toArray(RLock[]::new));
            default:
                throw new IllegalArgumentException("no kind is called " + kind);
        }
    }
}
