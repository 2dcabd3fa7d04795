package example;

import io.lockkeeper.Lockkeeper;
import io.lockkeeper.Semaphore;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.stream.Stream;

/**
 * A bounded pool: five downloads here and any number in other processes, but three at a time.
 *
 * <pre>java -cp ... example.Pool</pre>
 */
public final class Pool {

    public static void main(String[] args) throws Exception {
        var threads = Executors.newFixedThreadPool(5);
        try (var client = Lockkeeper.connect(System.getenv("LOCKKEEPER_SERVER"))) {
            var pool = client.semaphore("downloads");
            pool.createIfAbsent(3);
            Callable<Void> download = () -> download(pool);
            for (var result : threads.invokeAll(Stream.generate(() -> download).limit(5).toList())) {
                result.get();
            }
        }
        threads.shutdown();
    }

    private static Void download(Semaphore pool) throws Exception {
        var permit = pool.acquire();
        try {
            System.out.println("begin");
            Thread.sleep(200);
            System.out.println("end");
        } finally {
            permit.close();
        }
        return null;
    }
}
