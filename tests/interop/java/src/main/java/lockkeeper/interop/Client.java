package lockkeeper.interop;

import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/** A Redisson client, and its locks: an application makes each object once, too. */
final class Client {
    private final RedissonClient redisson;
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();

    private Client(RedissonClient redisson) {
        this.redisson = redisson;
    }

    /**
     * Connects with Redisson's defaults, but for smaller pools and, unless it is 0, the time-out of the watchdog: watchdog, then {@code single} and
     * a URL, {@code sentinel}, the service and URLs, or {@code cluster}, its way to subscribe and URLs.
     */
    static Client connect(String[] arguments) throws ReflectiveOperationException {
        Config config = new Config();
        config.setThreads(4).setNettyThreads(4).setCodec(StringCodec.INSTANCE);
        long watchdogMillis = Long.parseLong(arguments[0]);
        if (watchdogMillis > 0) {
            config.setLockWatchdogTimeout(watchdogMillis);
        }
        switch (arguments[1]) {
            case "single":
                config.useSingleServer()
                        .setAddress(arguments[2])
                        .setConnectionMinimumIdleSize(2)
                        .setConnectionPoolSize(32);
                break;
            case "sentinel":
                small(config.useSentinelServers())
                        .setMasterName(arguments[2])
                        .addSentinelAddress(from(arguments, 3));
                break;
            case "cluster":
                ClusterServersConfig cluster = small(config.useClusterServers());
                cluster.addNodeAddress(from(arguments, 3));
                subscribe(cluster, arguments[2]);
                break;
            default:
                throw new IllegalArgumentException("no deployment is called " + arguments[1]);
        }
        return new Client(Redisson.create(config));
    }

    /** What a contest writes must be read where it was written: a replica may be a moment behind. */
    private static <T extends BaseMasterSlaveServersConfig<T>> T small(T servers) {
        return servers.setReadMode(ReadMode.MASTER)
                .setMasterConnectionMinimumIdleSize(2)
                .setMasterConnectionPoolSize(32)
                .setSlaveConnectionMinimumIdleSize(1)
                .setSlaveConnectionPoolSize(8);
    }

    /** Older versions have no such setting. */
    private static void subscribe(ClusterServersConfig cluster, String mode) throws ReflectiveOperationException {
        if (mode.equals("default")) {
            return;
        }
        for (Method setter : ClusterServersConfig.class.getMethods()) {
            if (setter.getName().equals("setShardedSubscriptionMode")) {
                Class<?> type = setter.getParameterTypes()[0];
                setter.invoke(cluster, type.getMethod("valueOf", String.class).invoke(null, mode));
                return;
            }
        }
        throw new IllegalArgumentException("this version cannot choose how to subscribe");
    }

    private static String[] from(String[] arguments, int first) {
        return Arrays.copyOfRange(arguments, first, arguments.length);
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
