package io.lockkeeper;

import io.lockkeeper.internal.Protos;
import io.lockkeeper.v1.AwaitLatchRequest;
import io.lockkeeper.v1.CountDownRequest;
import io.lockkeeper.v1.DeleteLatchRequest;
import io.lockkeeper.v1.DescribeLatchRequest;
import io.lockkeeper.v1.SessionRequest;
import io.lockkeeper.v1.SetCountRequest;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * A latch that opens when it was counted down. It has no owner, and a name without a count is an
 * open latch. All methods fail as {@link Lockkeeper#acquire(String)} does.
 */
public final class Latch {

    private final Lockkeeper client;
    private final String name;

    Latch(Lockkeeper client, String name) {
        this.client = client;
        this.name = name;
    }

    /**
     * Sets the count if the latch has none.
     *
     * @param count the number of count-downs until it opens; at least 1
     * @return the latch's count, which another caller may have set
     * @throws InterruptedException if the thread is interrupted
     */
    public int setCount(int count) throws InterruptedException {
        return setCount(SetCountRequest.newBuilder().setCount(count));
    }

    /**
     * Sets the count if the latch has none, until a time has passed.
     *
     * @param count the number of count-downs until it opens; at least 1
     * @param ttl the time after which the latch is forgotten, and so opens
     * @return the latch's count, which another caller may have set
     * @throws InterruptedException if the thread is interrupted
     */
    public int setCount(int count, Duration ttl) throws InterruptedException {
        AcquireOptions.requireNotNegative("ttl", ttl);
        return setCount(SetCountRequest.newBuilder().setCount(count).setTtl(Protos.toProto(ttl)));
    }

    private int setCount(SetCountRequest.Builder request) throws InterruptedException {
        request.setName(name);
        SessionRequest frame = SessionRequest.newBuilder().setSetCount(request).build();
        return client.ask(frame, AcquireOptions.defaults()).getCountSet().getCount();
    }

    /**
     * Counts down by 1.
     *
     * @return the remaining count; 0 if this call opened the latch
     * @throws RefusedException if the latch is open: {@code COUNT_EXCEEDED}
     * @throws InterruptedException if the thread is interrupted
     */
    public int countDown() throws InterruptedException {
        return countDown(1);
    }

    /**
     * Counts down.
     *
     * @param by the amount; at least 1
     * @return the remaining count; 0 if this call opened the latch
     * @throws RefusedException if the count would fall below 0: {@code COUNT_EXCEEDED}
     * @throws InterruptedException if the thread is interrupted
     */
    public int countDown(int by) throws InterruptedException {
        CountDownRequest.Builder request = CountDownRequest.newBuilder().setName(name).setBy(by);
        SessionRequest frame = SessionRequest.newBuilder().setCountDown(request).build();
        return client.ask(frame, AcquireOptions.defaults()).getCountedDown().getCount();
    }

    /**
     * Waits until the latch is open.
     *
     * @throws InterruptedException if the thread is interrupted
     */
    public void await() throws InterruptedException {
        begin(AcquireOptions.defaults(), false).await();
    }

    /**
     * Waits until the latch is open.
     *
     * @param waitLimit the maximum time to wait
     * @return whether it is open
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean await(Duration waitLimit) throws InterruptedException {
        try {
            begin(AcquireOptions.defaults().waitLimit(waitLimit), false).await();
            return true;
        } catch (NotGrantedException closed) {
            return false;
        }
    }

    /**
     * Waits until the latch is open, without blocking. Cancelling the future gives up.
     *
     * @return completes when the latch is open
     */
    public CompletableFuture<Void> awaitAsync() {
        return begin(AcquireOptions.defaults(), true);
    }

    private Call<Void> begin(AcquireOptions options, boolean isAsync) {
        AwaitLatchRequest.Builder request = AwaitLatchRequest.newBuilder().setName(name);
        SessionRequest frame = SessionRequest.newBuilder().setAwaitLatch(request).build();
        return client.session().ask(frame, options, isAsync, answer -> null);
    }

    /**
     * The remaining count at the moment the store was read.
     *
     * @return the count; 0 if the latch is open
     * @throws InterruptedException if the thread is interrupted
     */
    public int count() throws InterruptedException {
        DescribeLatchRequest.Builder request = DescribeLatchRequest.newBuilder().setName(name);
        SessionRequest frame = SessionRequest.newBuilder().setDescribeLatch(request).build();
        return client.ask(frame, AcquireOptions.defaults()).getLatchDescribed().getCount();
    }

    /**
     * Deletes the latch, which opens it for all waiters.
     *
     * @return whether it had a count
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean delete() throws InterruptedException {
        DeleteLatchRequest.Builder request = DeleteLatchRequest.newBuilder().setName(name);
        SessionRequest frame = SessionRequest.newBuilder().setDeleteLatch(request).build();
        return client.ask(frame, AcquireOptions.defaults()).getLatchDeleted().getDeleted();
    }
}
