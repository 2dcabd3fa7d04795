package io.lockkeeper.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

/** Closing, and what follows the end. */
final class ClosingTest {

    @Test
    void closeIsSentAndTheEndOfTheStreamConfirmsIt() {
        Bench bench = Bench.open();
        bench.held("a");
        long op = bench.close();
        assertTrue(bench.sent().hasClose());
        bench.none(Effect.Done.class);
        bench.step(new Event.StreamEnded(bench.stream, null));
        assertEquals(op, bench.one(Effect.Done.class).op());
        bench.one(Effect.Lost.class);
        assertTrue(bench.notices(Effect.Kind.ENDED));
        assertFalse(bench.notices(Effect.Kind.BROKEN));
    }

    @Test
    void closeFailsWaitsAtOnce() {
        Bench bench = Bench.open();
        long op = bench.acquire("a");
        bench.close();
        assertEquals(op, bench.one(Effect.Failed.class).op());
        assertInstanceOf(Failure.SessionEnded.class, bench.one(Effect.Failed.class).failure());
    }

    @Test
    void closeWithoutAnAnswerEndsAfterTwoSeconds() {
        Bench bench = Bench.open();
        long op = bench.close();
        bench.until(1_999);
        bench.none(Effect.Failed.class);
        bench.until(2_000);
        assertEquals(op, bench.one(Effect.Failed.class).op());
        assertTrue(bench.machine.isEnded());
    }

    @Test
    void closeOfABrokenSessionIsSentWhenItIsResumed() {
        Bench bench = Bench.open();
        bench.broken();
        bench.close();
        bench.until(25);
        bench.take();
        bench.frame(0, Bench.opened());
        assertTrue(bench.sent().hasClose());
    }

    @Test
    void nothingIsSentAfterClose() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        bench.close();
        bench.take();
        long release = bench.release(guard);
        bench.none(Effect.Send.class);
        bench.step(new Event.StreamEnded(bench.stream, null));
        assertTrue(bench.all(Effect.Done.class).contains(new Effect.Done(release)));
    }

    @Test
    void anEndedSessionRefusesEverythingAndNeverOpensAnother() {
        Bench bench = Bench.open();
        long guard = bench.held("a");
        bench.close();
        bench.step(new Event.StreamEnded(bench.stream, null));
        bench.take();
        bench.acquire("b");
        assertInstanceOf(Failure.SessionEnded.class, bench.one(Effect.Failed.class).failure());
        bench.take();
        bench.release(guard);
        assertInstanceOf(Failure.Lost.class, bench.one(Effect.Failed.class).failure());
        bench.take();
        bench.until(100_000);
        bench.none(Effect.Connect.class);
    }
}
