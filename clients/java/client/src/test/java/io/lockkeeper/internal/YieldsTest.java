package io.lockkeeper.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.YieldRequested;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Requests of other callers to release a grant. */
final class YieldsTest {

    private static final long WITHIN = 5_000;

    private static SessionResponse.Builder asked(String name, long token) {
        YieldRequested.Builder request = YieldRequested.newBuilder().setBy("ops").setReason("why");
        request.setGrant(Bench.grant(name, "o", token)).setWithin(Bench.millis(WITHIN));
        return SessionResponse.newBuilder().setYieldRequested(request.setPreempt(true));
    }

    @Test
    void theGuardsOfTheGrantAreAsked() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        bench.now = 1_000;
        bench.frame(0, asked("a", Bench.TOKEN));
        Effect.Asked asked = bench.one(Effect.Asked.class);
        assertEquals(guard, asked.guard());
        assertEquals("why", asked.request().getReason());
        assertEquals(TimeUnit.MILLISECONDS.toNanos(1_000 + WITHIN), asked.until());
        Effect.Notice notice = bench.one(Effect.Notice.class);
        assertEquals(Effect.Kind.YIELD_REQUESTED, notice.kind());
        assertEquals("a", notice.detail());
        assertEquals(Duration.ofMillis(WITHIN), notice.remaining());
        bench.none(Effect.Lost.class);
    }

    @Test
    void anotherGrantIsNotAsked() {
        Bench bench = Bench.open();
        bench.frame(0, asked("a", Bench.TOKEN));
        long guard = bench.held("a");
        bench.frame(0, asked("b", Bench.TOKEN));
        bench.frame(0, asked("a", Bench.TOKEN - 1));
        bench.frame(0, asked("a", Bench.TOKEN + 1));
        bench.release(guard);
        bench.frame(0, asked("a", Bench.TOKEN));
        bench.none(Effect.Asked.class);
        bench.none(Effect.Notice.class);
    }

    @Test
    void aGuardThatIsDeliveredLaterIsAsked() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.take();
        bench.now = Bench.LEASE / 3 + 1_000;
        bench.frame(op, Bench.granted("a", "o", Bench.TOKEN));
        long renewal = bench.sent().getOpId();
        bench.frame(0, asked("a", Bench.TOKEN));
        bench.none(Effect.Asked.class);
        bench.frame(renewal, Bench.renewed(Bench.grant("a", "o", Bench.TOKEN)));
        long guard = bench.one(Effect.Granted.class).guard();
        assertEquals(guard, bench.one(Effect.Asked.class).guard());
    }

    @Test
    void oneMoreHoldOfTheGrantIsAskedAndANewGrantIsNot() {
        Bench bench = Bench.open();
        bench.held("a");
        bench.frame(0, asked("a", Bench.TOKEN));
        bench.take();
        long again = bench.held("a");
        bench.frame(bench.acquire("a"), Bench.granted("a", "o", Bench.TOKEN));
        assertTrue(bench.one(Effect.Asked.class).guard() > again);
        bench.take();
        bench.frame(bench.acquire("a"), Bench.granted("a", "o", Bench.TOKEN + 1));
        bench.one(Effect.Granted.class);
        bench.none(Effect.Asked.class);
    }
}
