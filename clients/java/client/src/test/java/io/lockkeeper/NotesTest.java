package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.SessionEvent.Kind;
import io.lockkeeper.v1.Note;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Notes of holders, and forced releases with a grace period, against a real coordinator. */
final class NotesTest extends WithCoordinator {

    private static final AcquireOptions NOTED =
            AcquireOptions.defaults().reason("release 1.4").label("team", "web").label("run", "7");
    private static final Note NOTE =
            Note.newBuilder()
                    .setReason("release 1.4")
                    .putLabels("team", "web")
                    .putLabels("run", "7")
                    .build();

    private final LinkedBlockingQueue<SessionEvent> waits = new LinkedBlockingQueue<>();

    @Override
    LockkeeperBuilder configure(LockkeeperBuilder builder) {
        return builder.onSessionEvent(it -> waits.addAll(isWait(it) ? List.of(it) : List.of()));
    }

    private static boolean isWait(SessionEvent event) {
        return event.kind() == Kind.WAITING;
    }

    private void isShownToOthers(Callable<? extends Held> acquire) throws Exception {
        try (Held held = acquire.call()) {
            assertFalse(held.isLost());
            var one = assertThrows(NotGrantedException.class, () -> client.acquire("a", BRIEFLY));
            assertEquals(Optional.of(NOTE), one.holderNote());
            List<String> names = List.of("c", "a");
            var several =
                    assertThrows(
                            NotGrantedException.class, () -> client.acquireAll(names, BRIEFLY));
            assertEquals(Optional.of(NOTE), several.holderNote());
            var state = client.withoutSession().describe("a");
            assertEquals(NOTE, state.getHolders(0).getNote());
        }
    }

    @Test
    void aNoteIsShownToOthers() throws Exception {
        isShownToOthers(() -> client.acquire("a", NOTED));
        isShownToOthers(() -> client.tryAcquire("a", NOTED).orElseThrow());
        isShownToOthers(() -> client.acquireAll(List.of("a", "b"), NOTED));
        isShownToOthers(() -> client.tryAcquireAll(List.of("a", "b"), NOTED).orElseThrow());
        SessionEvent wait = waits.poll(20, TimeUnit.SECONDS);
        assertEquals("a", wait.detail());
        assertEquals(Optional.of(NOTE), wait.holderNote());
    }

    @Test
    void aRefusedTryAndALockOfAThreadHaveItToo() throws Exception {
        LockkeeperLock lock = client.lock("thread", NOTED);
        lock.lock();
        var options = AcquireOptions.defaults().waitLimit(Duration.ZERO);
        var busy =
                assertThrows(NotGrantedException.class, () -> client.acquire("thread", options));
        assertEquals(Optional.of(NOTE), busy.holderNote());
        assertEquals(Optional.empty(), client.tryAcquire("thread"));
        lock.unlock();
    }

    @Test
    void aHoldWithoutANoteShowsNone() throws Exception {
        try (Grant grant = client.acquire("none")) {
            assertFalse(grant.isLost());
            var busy =
                    assertThrows(
                            NotGrantedException.class, () -> client.acquire("none", BRIEFLY));
            assertEquals(Optional.empty(), busy.holderNote());
        }
    }

    @Test
    void aNoteWithoutASession() throws Exception {
        var locks = client.withoutSession();
        assertTrue(locks.tryAcquire("once", "me", Duration.ofMinutes(1), NOTE).isPresent());
        var busy =
                assertThrows(NotGrantedException.class, () -> client.acquire("once", BRIEFLY));
        assertEquals(Optional.of(NOTE), busy.holderNote());
    }

    @Test
    void aNoteThatCannotBeUsedIsRefused() {
        AcquireOptions options = AcquireOptions.defaults();
        AcquireOptions longReason = options.reason("x".repeat(257));
        AcquireOptions badLabel = options.label("a=b", "");
        var refused = assertThrows(RefusedException.class, () -> client.acquire("a", longReason));
        assertEquals(Optional.of("INVALID_NOTE_REASON"), refused.reason());
        refused = assertThrows(RefusedException.class, () -> client.acquire("a", badLabel));
        assertEquals(Optional.of("INVALID_NOTE_LABELS"), refused.reason());
    }

    @Test
    void aForcedReleaseWaitsForTheHolder() throws Exception {
        Duration grace = Duration.ofSeconds(15);
        Grant grant = client.acquire("forced");
        CompletableFuture<Grant> next =
                client.acquireAsync("forced", AcquireOptions.defaults());
        long begun = System.nanoTime();
        var forced = client.withoutSession().forceRelease("forced", "maintenance", grace);
        assertTrue(forced.getReleased());
        assertEquals(1, forced.getHolderCount());
        assertTrue(forced.hasClosedFor());
        Loss loss = grant.lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
        Duration took = Duration.ofNanos(System.nanoTime() - begun);
        assertEquals(LossReason.FORCE_RELEASED, loss.reason());
        assertTrue(loss.validFor().compareTo(grace) <= 0, loss.toString());
        Duration least = grace.minus(took).minusSeconds(1);
        assertTrue(loss.validFor().compareTo(least) > 0, loss.toString());
        assertEquals(Duration.ZERO, grant.validFor());
        assertEquals(Optional.empty(), client.tryAcquire("forced"));
        assertThrows(LockLostException.class, grant::close);
        next.get(20, TimeUnit.SECONDS).close();
        Duration all = Duration.ofNanos(System.nanoTime() - begun);
        assertTrue(all.compareTo(loss.validFor()) < 0, "the release did not end the period");
    }

    @Test
    void aForcedReleaseUsesTheCoordinatorThatAnswers() throws Exception {
        String nobody = "http://127.0.0.1:1";
        Grant grant = client.acquire("forced");
        try (Lockkeeper operator = Lockkeeper.connect(nobody, coordinator.url())) {
            var locks = operator.withoutSession();
            assertTrue(locks.forceRelease("forced", "why", Duration.ZERO).getReleased());
            assertThrows(LockLostException.class, () -> released(grant));
            assertFalse(locks.forceRelease("forced", "why", Duration.ZERO).getReleased());
            var refused =
                    assertThrows(
                            RefusedException.class,
                            () -> locks.forceRelease("forced", " ", Duration.ZERO));
            assertEquals(Optional.of("INVALID_REASON"), refused.reason());
        }
    }

    /** Releases what is lost, once the loss was noticed. */
    private static void released(Grant grant) throws Exception {
        grant.lost().toCompletableFuture().get(20, TimeUnit.SECONDS);
        grant.close();
    }
}
