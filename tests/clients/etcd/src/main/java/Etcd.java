import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.Election;
import io.etcd.jetcd.Lease;
import io.etcd.jetcd.Lock;
import io.etcd.jetcd.election.CampaignResponse;
import io.etcd.jetcd.election.LeaderKey;
import io.etcd.jetcd.election.LeaderResponse;
import io.etcd.jetcd.election.NoLeaderException;
import io.etcd.jetcd.election.NotLeaderException;
import io.etcd.jetcd.lock.LockResponse;
import io.etcd.jetcd.options.LeaseOption;
import io.etcd.jetcd.support.CloseableClient;
import io.etcd.jetcd.support.Observers;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** What programs do with jetcd's lock, election and lease clients. Ends with `N passed, N failed`. */
public final class Etcd {
  private static final long SHORT = 5;
  private static final long LONG = 60;

  private static int passed;
  private static int failed;

  private Etcd() {}

  public static void main(String[] args) throws Exception {
    try (Client one = Client.builder().endpoints(args[0]).build();
        Client other = Client.builder().endpoints(args[0]).build()) {
      locks(one, other);
      leases(one, other);
      elections(one, other);
    }
    System.out.println(passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }

  private static void locks(Client one, Client other) throws Exception {
    Lock lock = one.getLockClient();
    ByteSequence name = bytes("team/build");
    long first = grant(one, LONG);
    long second = grant(other, LONG);
    LockResponse locked = in(lock.lock(name, first));
    check("the key is that of the lease",
        text(locked.getKey()).equals("team/build/" + Long.toHexString(first)));
    CompletableFuture<LockResponse> waiting = other.getLockClient().lock(name, second);
    check("a second lock waits", isPending(waiting));
    in(lock.unlock(locked.getKey()));
    LockResponse next = in(waiting);
    check("an unlock passes it on, with a larger revision",
        next.getHeader().getRevision() > locked.getHeader().getRevision());
    check("a lease shows its keys", keys(other, second).equals(List.of(text(next.getKey()))));
    in(other.getLockClient().unlock(next.getKey()));
    check("an unlock takes the key away", keys(other, second).isEmpty());
    check("a lock without a lease is refused", refusal(lock.lock(name, 0)).contains("lease:"));
    check("as is an unknown one",
        refusal(lock.lock(name, 77)).contains("requested lease not found"));
    in(one.getLeaseClient().revoke(first));
    in(other.getLeaseClient().revoke(second));
  }

  private static void leases(Client one, Client other) throws Exception {
    ByteSequence name = bytes("team/deploy");
    long kept = grant(one, SHORT);
    long left = grant(other, LONG);
    BlockingQueue<Long> answers = new LinkedBlockingQueue<>();
    CloseableClient keeping = one.getLeaseClient()
        .keepAlive(kept, Observers.observer(answer -> answers.add(answer.getTTL())));
    LockResponse locked = in(one.getLockClient().lock(name, kept));
    CompletableFuture<LockResponse> waiting = other.getLockClient().lock(name, left);
    // More answers than one time to live has room for.
    for (int answer = 0; answer < 4; answer++) {
      Long ttl = answers.poll(20, TimeUnit.SECONDS);
      check("a keepalive is answered", ttl != null && ttl == SHORT);
    }
    check("what is kept alive stays locked", !waiting.isDone());
    keeping.close();
    LockResponse next = in(waiting);
    check("what is not kept alive is lost",
        next.getHeader().getRevision() > locked.getHeader().getRevision());
    long ttl = in(one.getLeaseClient().timeToLive(kept, LeaseOption.DEFAULT)).getTTL();
    check("its lease is gone", ttl == -1);
    check("and cannot be kept alive",
        refusal(one.getLeaseClient().keepAliveOnce(kept)).contains("lease not found"));
    CompletableFuture<LockResponse> ends = one.getLockClient().lock(name, grant(one, SHORT));
    check("a wait ends with its lease", refusal(ends).contains("lease not found"));
    in(other.getLeaseClient().revoke(left));
  }

  private static void elections(Client one, Client other) throws Exception {
    Election election = one.getElectionClient();
    ByteSequence name = bytes("workers");
    Seen seen = new Seen();
    other.getElectionClient().observe(name, seen);
    check("nobody leads at first", cause(election.leader(name)) instanceof NoLeaderException);
    long first = grant(one, LONG);
    long second = grant(other, LONG);
    CampaignResponse leads = in(election.campaign(name, first, bytes("one")));
    LeaderKey key = leads.getLeader();
    check("observers see a leader", seen.next("one"));
    check("the leader is seen", in(election.leader(name)).getKv().getValue().equals(bytes("one")));
    CompletableFuture<CampaignResponse> candidate =
        other.getElectionClient().campaign(name, second, bytes("other"));
    check("a second candidate waits", isPending(candidate));
    in(election.proclaim(key, bytes("one, again")));
    check("and a new value", seen.next("one, again"));
    in(election.resign(key));
    LeaderKey next = in(candidate).getLeader();
    check("the next term is larger", next.getRevision() > key.getRevision());
    check("a former leader proclaims nothing",
        cause(election.proclaim(key, bytes("late"))) instanceof NotLeaderException);
    check("and the next leader", seen.next("other"));
    in(other.getLeaseClient().revoke(second));
    check("the end of its lease ends a leadership",
        cause(election.leader(name)) instanceof NoLeaderException);
    in(one.getLeaseClient().revoke(first));
  }

  private static final class Seen implements Election.Listener {
    private final BlockingQueue<String> values = new LinkedBlockingQueue<>();

    boolean next(String value) throws InterruptedException {
      return value.equals(values.poll(20, TimeUnit.SECONDS));
    }

    @Override
    public void onNext(LeaderResponse response) {
      values.add(text(response.getKv().getValue()));
    }

    @Override
    public void onError(Throwable error) {
      values.add(error.toString());
    }

    @Override
    public void onCompleted() {
      values.add("completed");
    }
  }

  private static long grant(Client client, long ttl) throws Exception {
    Lease leases = client.getLeaseClient();
    return in(leases.grant(ttl)).getID();
  }

  private static List<String> keys(Client client, long lease) throws Exception {
    LeaseOption all = LeaseOption.builder().withAttachedKeys().build();
    List<String> keys = new ArrayList<>();
    for (ByteSequence key : in(client.getLeaseClient().timeToLive(lease, all)).getKeys()) {
      keys.add(text(key));
    }
    return keys;
  }

  private static <T> T in(CompletableFuture<T> future) throws Exception {
    return future.get(30, TimeUnit.SECONDS);
  }

  /** Nothing tells a caller of etcd that it waits; a grant would be there within this time. */
  private static boolean isPending(CompletableFuture<?> future) throws Exception {
    try {
      future.get(500, TimeUnit.MILLISECONDS);
      return false;
    } catch (TimeoutException waits) {
      return true;
    }
  }

  private static Throwable cause(CompletableFuture<?> future) throws Exception {
    try {
      in(future);
      return null;
    } catch (ExecutionException refused) {
      return refused.getCause();
    }
  }

  private static String refusal(CompletableFuture<?> future) throws Exception {
    return String.valueOf(cause(future));
  }

  private static void check(String what, boolean holds) {
    System.out.println((holds ? "ok " : "FAILED ") + what);
    if (holds) {
      passed++;
    } else {
      failed++;
    }
  }

  private static ByteSequence bytes(String text) {
    return ByteSequence.from(text, StandardCharsets.UTF_8);
  }

  private static String text(ByteSequence bytes) {
    return bytes.toString(StandardCharsets.UTF_8);
  }
}
