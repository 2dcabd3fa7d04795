package example;

import io.lockkeeper.Lockkeeper;
import java.sql.DriverManager;

/**
 * A migration under a lock: instances start at once, one migrates, and the others wait for it.
 *
 * <pre>java -cp ... example.Migration</pre>
 */
public final class Migration {

    private static final String MIGRATION =
            "CREATE TABLE invoices AS SELECT 1 AS id, pg_sleep(1)::text AS note";

    public static void main(String[] args) throws Exception {
        try (var client = Lockkeeper.connect(System.getenv("LOCKKEEPER_SERVER"));
                var db = DriverManager.getConnection("jdbc:" + System.getenv("DATABASE_URL"))) {
            var lock = client.lock("migration");
            lock.lock();
            try {
                var tables = db.getMetaData().getTables(null, null, "invoices", null);
                if (!tables.next()) {
                    System.out.println("migrating");
                    db.createStatement().execute(MIGRATION);
                }
            } finally {
                lock.unlock();
            }
            System.out.println("serving");
        }
    }
}
