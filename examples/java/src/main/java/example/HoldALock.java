package example;

import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Holds a lock around work: {@code HoldALock 127.0.0.1:7625 nightly-report 10}. Ends with 0 if the work was done, with 3 if the lock was lost
 * meanwhile.
 */
public final class HoldALock {
  private HoldALock() {}

  public static void main(String[] arguments) throws Exception {
    String server = arguments.length > 0 ? arguments[0] : "127.0.0.1:7625";
    String name = arguments.length > 1 ? arguments[1] : "nightly-report";
    double seconds = arguments.length > 2 ? Double.parseDouble(arguments[2]) : 10;
    ManagedChannel channel =
        Grpc.newChannelBuilder(server, InsecureChannelCredentials.create())
            .keepAliveTime(10, TimeUnit.SECONDS)
            .keepAliveTimeout(HeldLock.LEASE_SECONDS / 3, TimeUnit.SECONDS)
            .build();
    HeldLock lock = new HeldLock(channel, name);

    System.out.println("holds " + name + ", fencing token " + Long.toUnsignedString(lock.acquire()));
    try {
      // The work: it shows the token to whatever it changes, and stops at once when the lock is lost.
      String why = lock.lost.get((long) (seconds * 1000), TimeUnit.MILLISECONDS);
      System.out.println("lost: " + why);
      System.exit(3);
    } catch (TimeoutException done) {
      // What the resource should ask if it cannot compare tokens by itself.
      System.out.println("token is current: " + lock.checkToken());
      lock.release();
      System.out.println("done");
      channel.shutdown().awaitTermination(5, TimeUnit.SECONDS);
    }
  }
}
