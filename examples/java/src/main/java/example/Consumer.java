package example;

import io.lockkeeper.Lockkeeper;
import java.sql.Connection;
import java.sql.DriverManager;

/**
 * An idempotent consumer: an order that is delivered twice is charged once.
 *
 * <pre>java -cp ... example.Consumer order-17</pre>
 *
 * <p>The row tells that an order was charged. The lock prevents two consumers from both finding no
 * row.
 */
public final class Consumer {

    public static void main(String[] args) throws Exception {
        try (var client = Lockkeeper.connect(System.getenv("LOCKKEEPER_SERVER"));
                var db = DriverManager.getConnection("jdbc:" + System.getenv("DATABASE_URL"))) {
            var lock = client.lock("charge:" + args[0]);
            lock.lock();
            try {
                consume(db, args[0]);
            } finally {
                lock.unlock();
            }
        }
    }

    private static void consume(Connection db, String order) throws Exception {
        var charges = db.prepareStatement("SELECT 1 FROM charges WHERE order_id = ?");
        charges.setString(1, order);
        if (charges.executeQuery().next()) {
            System.out.println(order + " was charged before");
            return;
        }
        System.out.println("charging " + order);
        Thread.sleep(500);
        var insert = db.prepareStatement("INSERT INTO charges VALUES (?)");
        insert.setString(1, order);
        insert.executeUpdate();
    }
}
