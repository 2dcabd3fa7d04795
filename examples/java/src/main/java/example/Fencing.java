package example;

import io.lockkeeper.Lockkeeper;
import java.sql.DriverManager;
import java.util.Scanner;

/**
 * Fencing a write in PostgreSQL: the row refuses a holder that lost its lock without noticing.
 *
 * <pre>java -cp ... example.Fencing</pre>
 *
 * <p>It holds the lock until it has read a line. Pause it meanwhile with Ctrl-Z, take its lock away
 * with {@code lockkeeper force-release report --reason test --yes}, write with another one, and
 * continue it with {@code fg}: its token is smaller than that of the row.
 */
public final class Fencing {

    public static void main(String[] args) throws Exception {
        try (var client = Lockkeeper.connect(System.getenv("LOCKKEEPER_SERVER"));
                var db = DriverManager.getConnection("jdbc:" + System.getenv("DATABASE_URL"));
                var grant = client.acquire("report")) {
            System.out.println("holds the lock with token " + grant.fencingToken());
            var update = "UPDATE reports SET body = ?, token = ? WHERE id = 1 AND token <= ?";
            var statement = db.prepareStatement(update);
            statement.setString(1, new Scanner(System.in).nextLine());
            statement.setLong(2, grant.fencingToken());
            statement.setLong(3, grant.fencingToken());
            if (statement.executeUpdate() == 0) {
                throw new IllegalStateException("refused: a newer holder has written");
            }
            System.out.println("written");
        }
    }
}
