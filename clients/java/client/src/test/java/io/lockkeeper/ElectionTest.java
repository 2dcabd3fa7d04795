package io.lockkeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lockkeeper.ElectionEvent.Kind;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** Elections, against a real coordinator. */
final class ElectionTest extends WithCoordinator {

    /** More than the store keeps. */
    private static final int MANY_VALUES = 70;

    /** What an observer has seen. */
    private static final class Seen {
        private final BlockingQueue<ElectionEvent> events = new LinkedBlockingQueue<>();

        private ElectionEvent next() throws InterruptedException {
            ElectionEvent next = events.poll(20, TimeUnit.SECONDS);
            assertNotNull(next, "an event within 20 s");
            return next;
        }

        void next(Kind kind) throws InterruptedException {
            assertEquals(kind, next().kind());
        }

        /** The next leader. There may be none before it has proclaimed its value. */
        Leader leader() throws InterruptedException {
            ElectionEvent next = next();
            while (next.kind() == Kind.NO_LEADER) {
                next = next();
            }
            return next.leader().orElseThrow();
        }

        Leader leader(long term, String value) throws InterruptedException {
            Leader leader = leader();
            assertEquals(term, leader.term());
            assertEquals(value, leader.value());
            return leader;
        }
    }

    private static Throwable failure(Observation observation) {
        return assertThrows(
                        ExecutionException.class,
                        () -> observation.ended().toCompletableFuture().get(20, TimeUnit.SECONDS))
                .getCause();
    }

    @Test
    void candidatesLeadInOrderAndObserversSeeEveryTerm() throws Exception {
        Seen seen = new Seen();
        Election election = other.election("order");
        assertEquals(Optional.empty(), election.leader());
        Observation observation = election.observe(seen.events::add);
        seen.next(Kind.NO_LEADER);
        Leadership first = client.election("order").campaign("a:1");
        Leader leader = seen.leader(first.term(), "a:1");
        assertEquals("app-1", leader.clientName());
        assertEquals(Optional.of(leader), election.leader());
        long revision = first.proclaim("a:2");
        assertEquals(leader.revision() + 1, revision);
        assertEquals(revision, seen.leader(first.term(), "a:2").revision());

        CompletableFuture<Leadership> wait =
                election.campaignAsync("b:1", AcquireOptions.defaults());
        var briefly = AcquireOptions.defaults().waitLimit(Duration.ofMillis(100));
        assertThrows(
                NotGrantedException.class, () -> election.campaign("b:2", briefly));
        assertFalse(wait.isDone());
        first.resign();
        Leadership second = wait.get(20, TimeUnit.SECONDS);
        assertTrue(Long.compareUnsigned(second.term(), first.term()) > 0);
        seen.leader(second.term(), "b:1");
        assertThrows(RefusedException.class, () -> first.proclaim("late"));
        second.close();
        seen.next(Kind.NO_LEADER);
        observation.close();
        observation.ended().toCompletableFuture().get(20, TimeUnit.SECONDS);
    }

    @Test
    void aPreferredCandidateComesFirst() throws Exception {
        Leadership first = client.election("preferred").campaign("first");
        CompletableFuture<YieldRequest> asked = new CompletableFuture<>();
        first.onYieldRequested(asked::complete);
        Election election = other.election("preferred");
        CompletableFuture<Leadership> waits = election.campaignAsync("waits", DEFAULTS);
        while (client.withoutSession().describe("preferred").getWaiterCount() == 0) {
            Thread.onSpinWait();
        }
        CompletableFuture<Leadership> preferred =
                election.campaignAsync("preferred", DEFAULTS.preferred());
        soon(asked);
        first.resign();
        try (Leadership leadership = soon(preferred)) {
            assertFalse(waits.isDone());
            assertFalse(leadership.isLost());
        }
        soon(waits).resign();
    }

    @Test
    void aCandidateThatGivesUpIsGone() throws Exception {
        Election election = client.election("cancel");
        Leadership first = election.campaign("first");
        CompletableFuture<Leadership> given =
                other.election("cancel").campaignAsync("never", AcquireOptions.defaults());
        CompletableFuture<Leadership> next =
                other.election("cancel").campaignAsync("next", AcquireOptions.defaults());
        given.cancel(true);
        first.resign();
        try (Leadership leadership = next.get(20, TimeUnit.SECONDS)) {
            assertEquals("next", election.leader().orElseThrow().value());
            assertFalse(leadership.isLost());
        }
    }

    @Test
    void aValueThatIsRefusedLeavesNoLeader() throws Exception {
        Election election = client.election("refused");
        String long1025 = "x".repeat(1025);
        assertThrows(RefusedException.class, () -> election.campaign(long1025));
        var late =
                assertThrows(
                        ExecutionException.class,
                        () ->
                                election.campaignAsync(long1025, AcquireOptions.defaults())
                                        .get(20, TimeUnit.SECONDS));
        assertInstanceOf(RefusedException.class, late.getCause());
        other.acquire("refused").close();
    }

    @Test
    void aLostLeadershipIsToldAndProclaimsNothing() throws Exception {
        Leadership leadership = client.election("lost").campaign("a");
        CompletableFuture<Loss> told = new CompletableFuture<>();
        leadership.onLost(told::complete);
        coordinator.forceRelease("lost", "maintenance");
        assertEquals(LossReason.FORCE_RELEASED, told.get(20, TimeUnit.SECONDS).reason());
        assertThrows(LockLostException.class, () -> leadership.proclaim("b"));
        assertTrue(leadership.proclaimAsync("b").isCompletedExceptionally());
        assertThrows(LockLostException.class, leadership::resign);
        assertEquals(Optional.empty(), other.election("lost").leader());
    }

    @Test
    void anObserverGoesOnAfterARevisionAndIsToldOfGaps() throws Exception {
        try (Leadership leadership = client.election("gap").campaign("0")) {
            long first = client.election("gap").leader().orElseThrow().revision();
            leadership.proclaim("1");
            Seen after = new Seen();
            Election election = other.election("gap");
            try (Observation observation = election.observe(first, after.events::add)) {
                assertEquals(first + 1, after.leader(leadership.term(), "1").revision());
                assertNotNull(observation);
            }
            for (int value = 2; value < MANY_VALUES; value++) {
                leadership.proclaim(Integer.toString(value));
            }
            Seen late = new Seen();
            try (Observation observation = election.observe(first, late.events::add)) {
                late.next(Kind.MISSED);
                Leader oldest = late.leader();
                assertTrue(oldest.revision() > first + 1, oldest.toString());
                assertNotNull(observation);
            }
        }
    }

    @Test
    void anObserverGoesOnAtAnotherCoordinator() throws Exception {
        Seen seen = new Seen();
        try (RedisServer redis = RedisServer.start();
                Coordinator one = Coordinator.start("--store", redis.url());
                Coordinator two = Coordinator.start("--store", redis.url());
                Lockkeeper candidate = Lockkeeper.connect(two.url())) {
            Lockkeeper watcher = Lockkeeper.connect(one.url(), two.url());
            Observation observation = watcher.election("e").observe(seen.events::add);
            seen.next(Kind.NO_LEADER);
            Leadership leadership = candidate.election("e").campaign("1");
            Leader first = seen.leader(leadership.term(), "1");
            one.kill();
            leadership.proclaim("2");
            leadership.proclaim("3");
            assertEquals(first.revision() + 1, seen.leader(leadership.term(), "2").revision());
            seen.leader(leadership.term(), "3");
            assertFalse(observation.ended().toCompletableFuture().isDone());
            watcher.close();
            observation.ended().toCompletableFuture().get(20, TimeUnit.SECONDS);
        }
    }

    @Test
    void anObserverThatHasSeenNoLeaderIsToldOfAGap() throws Exception {
        Seen seen = new Seen();
        try (Coordinator one = Coordinator.start();
                Coordinator two = Coordinator.start();
                Lockkeeper watcher = Lockkeeper.connect(one.url(), two.url());
                Observation observation = watcher.election("e").observe(seen.events::add)) {
            seen.next(Kind.NO_LEADER);
            one.kill();
            seen.next(Kind.MISSED);
            seen.next(Kind.NO_LEADER);
            assertFalse(observation.ended().toCompletableFuture().isDone());
        }
    }

    @Test
    void aListenerThatFailsIsCalledAgain() throws Exception {
        Seen seen = new Seen();
        Election election = other.election("fails");
        try (Leadership leadership = client.election("fails").campaign("1");
                Observation observation =
                        election.observe(
                                event -> {
                                    seen.events.add(event);
                                    throw new IllegalStateException("on purpose");
                                })) {
            seen.leader(leadership.term(), "1");
            leadership.proclaim("2");
            seen.leader(leadership.term(), "2");
            assertNotNull(observation);
        }
    }

    @Test
    void anObservationThatCannotBeginSaysWhy() throws Exception {
        Seen seen = new Seen();
        try (Observation refused = client.election("").observe(seen.events::add)) {
            RefusedException failure = assertInstanceOf(RefusedException.class, failure(refused));
            assertEquals(Optional.of("INVALID_NAME"), failure.reason());
        }
        try (ServerSocket silent = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            String last = "http://127.0.0.1:" + silent.getLocalPort();
            try (Lockkeeper nowhere = Lockkeeper.connect("http://127.0.0.1:1", last);
                    Observation none = nowhere.election("e").observe(seen.events::add)) {
                var failure = assertInstanceOf(UnreachableException.class, failure(none));
                String expected = "no coordinator at " + last + ": it does not answer";
                assertEquals(expected, failure.getMessage());
            }
        }
        assertTrue(seen.events.isEmpty());
    }
}
