package example;

import io.lockkeeper.Lockkeeper;
import java.time.Duration;
import java.util.UUID;

/**
 * A cron job on several nodes: one of them runs it, and the others skip.
 *
 * <p>Every node has the same line in its crontab. The name contains the date, so it is one run:
 *
 * <pre>0 3 * * *  java -cp ... example.Cron "nightly-report-$(date +\%F)"</pre>
 *
 * <p>The lock is not released after the job. It expires after an hour, so that a node whose clock
 * is late skips as well. If the node dies, nobody repeats the run.
 */
public final class Cron {

    public static void main(String[] args) throws Exception {
        String owner = UUID.randomUUID().toString();
        try (var client = Lockkeeper.connect(System.getenv("LOCKKEEPER_SERVER"))) {
            var grant = client.withoutSession().tryAcquire(args[0], owner, Duration.ofHours(1));
            System.out.println((grant.isPresent() ? "running " : "skipped ") + args[0]);
        }
    }
}
