package io.lockkeeper;

import io.grpc.Channel;
import io.grpc.stub.StreamObserver;
import io.lockkeeper.LockEvent.End;
import io.lockkeeper.LockEvent.GapReason;
import io.lockkeeper.v1.GrantEnd;
import io.lockkeeper.v1.LockEnded;
import io.lockkeeper.v1.LockGapReason;
import io.lockkeeper.v1.LockServiceGrpc;
import io.lockkeeper.v1.LockServiceGrpc.LockServiceStub;
import io.lockkeeper.v1.LockState;
import io.lockkeeper.v1.WatchLockRequest;
import io.lockkeeper.v1.WatchLockResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** What happens to a lock. A watch that goes on elsewhere begins with a gap and the state. */
record LockFeed(String name, Consumer<LockEvent> listener)
        implements Feed<LockServiceStub, WatchLockResponse, LockEvent> {

    @Override
    public LockServiceStub stub(Channel channel) {
        return LockServiceGrpc.newStub(channel);
    }

    @Override
    public void start(LockServiceStub stub, StreamObserver<WatchLockResponse> into) {
        stub.watchLock(WatchLockRequest.newBuilder().setName(name).build(), into);
    }

    @Override
    public List<LockEvent> events(WatchLockResponse seen, boolean goesOn) {
        List<LockEvent> events = new ArrayList<>();
        if (goesOn) {
            events.add(new LockEvent.Gap(GapReason.UNHEARD));
        }
        LockEvent event = event(seen);
        if (event != null) {
            events.add(event);
        }
        return events;
    }

    @Override
    public void accept(LockEvent event) {
        listener.accept(event);
    }

    /** Null if a newer coordinator says something else. */
    private static LockEvent event(WatchLockResponse seen) {
        return switch (seen.getEventCase()) {
            case STATE -> state(seen.getState());
            case GRANTED -> {
                var granted = seen.getGranted();
                yield new LockEvent.Granted(granted.getHolder(), granted.getFencingToken());
            }
            case ENDED -> ended(seen.getEnded());
            case FREE -> new LockEvent.Free(seen.getFree().getLastFencingToken());
            case WAITERS -> new LockEvent.Waiters(seen.getWaiters().getWaiterCount());
            case GAP -> new LockEvent.Gap(reason(seen.getGap().getReason()));
            case EVENT_NOT_SET -> null;
        };
    }

    private static LockEvent state(LockState it) {
        return new LockEvent.State(
                List.copyOf(it.getHoldersList()),
                it.getHolderCount(),
                it.getWaiterCount(),
                it.getLastFencingToken());
    }

    private static LockEvent ended(LockEnded it) {
        End end = end(it.getEnd());
        return new LockEvent.Ended(it.getHolder(), it.getFencingToken(), end, it.getDetail());
    }

    private static End end(GrantEnd end) {
        return switch (end) {
            case GRANT_END_RELEASED -> End.RELEASED;
            case GRANT_END_EXPIRED -> End.EXPIRED;
            case GRANT_END_FORCE_RELEASED -> End.FORCE_RELEASED;
            case GRANT_END_PREEMPTED -> End.PREEMPTED;
            case GRANT_END_UNANNOUNCED -> End.UNANNOUNCED;
            default -> End.UNSPECIFIED;
        };
    }

    private static GapReason reason(LockGapReason reason) {
        return switch (reason) {
            case LOCK_GAP_REASON_FOLDED -> GapReason.FOLDED;
            case LOCK_GAP_REASON_UNHEARD -> GapReason.UNHEARD;
            case LOCK_GAP_REASON_STORE_UNREACHABLE -> GapReason.STORE_UNREACHABLE;
            case LOCK_GAP_REASON_BEHIND -> GapReason.BEHIND;
            default -> GapReason.UNSPECIFIED;
        };
    }
}
