package io.lockkeeper.internal;

import io.lockkeeper.internal.Operation.Purpose;
import io.lockkeeper.v1.NotGrantedReason;
import io.lockkeeper.v1.Note;
import io.lockkeeper.v1.ReleasedLock;
import io.lockkeeper.v1.SessionResponse;
import io.lockkeeper.v1.Waiting;
import io.lockkeeper.v1.YieldRequested;
import java.time.Duration;
import java.util.List;
import java.util.Map;

/** What the frames of the coordinator mean: answers to operations, and notices. */
final class Answers {

    private final SessionMachine machine;
    private final Outbox outbox;
    private final Operations operations;
    private final GrantTable grants;
    private final StreamState stream;

    Answers(
            SessionMachine machine,
            Outbox outbox,
            Operations operations,
            GrantTable grants,
            StreamState stream) {
        this.machine = machine;
        this.outbox = outbox;
        this.operations = operations;
        this.grants = grants;
        this.stream = stream;
    }

    void onFrame(SessionResponse frame, long now) {
        long op = frame.getOpId();
        switch (frame.getResponseCase()) {
            case LOST -> {
                var lost = frame.getLost();
                Holding gone = Holding.of(lost.getGrant());
                long validFor = Protos.toNanos(lost.getValidFor());
                grants.onLost(gone, lost.getReason(), lost.getDetail(), validFor, now);
            }
            case PERMITS_LOST -> {
                var lost = frame.getPermitsLost();
                grants.onLost(Holding.of(lost.getGrant()), lost.getReason(), "", 0, now);
            }
            case AT_RISK -> {
                Duration left = Protos.toDuration(frame.getAtRisk().getValidFor());
                outbox.add(new Effect.Notice(Effect.Kind.AT_RISK, "", left));
            }
            case RECOVERED -> outbox.add(new Effect.Notice(Effect.Kind.RECOVERED, "", null));
            case YIELD_REQUESTED -> onYieldRequested(frame.getYieldRequested(), now);
            case GOING_AWAY -> stream.onGoingAway(now);
            case WAITING -> onWaiting(op, "", frame.getWaiting());
            case WAITING_FOR_ALL -> {
                var all = frame.getWaitingForAll();
                onWaiting(op, all.getName(), all.getWaiting());
            }
            case WAITING_FOR_PERMITS, WAITING_FOR_LATCH -> {
                onWaiting(op, "", Waiting.getDefaultInstance());
            }
            case OPENED -> stream.onResumeToken(frame.getOpened().getResumeToken());
            case PONG, RESPONSE_NOT_SET -> {}
            case FAILED -> onFailed(op, Protos.refused(frame.getFailed()), now);
            default -> onAnswer(op, frame, now);
        }
    }

    private void onYieldRequested(YieldRequested request, long now) {
        if (grants.onAsked(request, now)) {
            String name = request.getGrant().getName();
            Duration within = Protos.toDuration(request.getWithin());
            outbox.add(new Effect.Notice(Effect.Kind.YIELD_REQUESTED, name, within));
        }
    }

    private void onWaiting(long op, String busy, Waiting waiting) {
        Operation operation = operations.get(op);
        if (operation != null && operation.isAwaited()) {
            String name = busy.isEmpty() ? operation.name() : busy;
            boolean isKnown = waiting.hasHolderRemainingLease();
            var left = waiting.getHolderRemainingLease();
            Duration remaining = isKnown ? Protos.toDuration(left) : null;
            Note note = waiting.hasHolderNote() ? waiting.getHolderNote() : null;
            outbox.add(new Effect.Notice(Effect.Kind.WAITING, name, remaining, note));
        }
    }

    /** The end of an operation that did not fail. */
    private void onAnswer(long op, SessionResponse answer, long now) {
        Operation operation = operations.get(op);
        if (operation == null || !operation.isSent()) {
            return;
        }
        stream.onProgress();
        operations.take(op);
        long sentAt = operation.sentAt();
        renewed(answer).forEach(it -> grants.renewed(it, sentAt, now));
        switch (operation.purpose) {
            case RENEWAL -> grants.onRenewalAnswered(operation.subject, now);
            case CALLER_RENEWAL -> machine.onCallerRenewed(operation.subject, null);
            case RELEASE -> grants.onReleased(operation.subject, notHeld(answer));
            case CALLER -> onCallerAnswered(operation, answer, now);
            case LATE_RELEASE, CLEANUP -> {}
        }
    }

    private void onCallerAnswered(Operation operation, SessionResponse answer, long now) {
        List<Holding> granted = granted(answer);
        if (!granted.isEmpty() && !operation.isAwaited()) {
            operations.start(Purpose.LATE_RELEASE, 0, Holding.release(granted), now);
        } else if (!granted.isEmpty()) {
            grants.granted(operation.id, granted, operation.sentAt(), now);
        } else if (operation.isAwaited()) {
            Failure failure = notGranted(operation, answer);
            if (failure != null && machine.isClosing()) {
                failure = machine.closed();
            }
            outbox.add(
                    failure == null
                            ? new Effect.Answered(operation.id, answer)
                            : new Effect.Failed(operation.id, failure));
        }
    }

    private void onFailed(long op, Failure.Refused failure, long now) {
        Operation known = operations.get(op);
        if (known == null || !known.isSent()) {
            return;
        }
        stream.onProgress();
        if (known.isAwaited() && machine.isClosing()) {
            operations.take(op);
            outbox.add(new Effect.Failed(op, machine.closed()));
            return;
        }
        Operation operation = operations.onFailed(op, failure, stream.lease(), now);
        if (operation == null) {
            if (known.isLate(now)) {
                outbox.add(new Effect.Failed(op, failure));
                operations.abandon(op);
            }
            return;
        }
        switch (operation.purpose) {
            case RENEWAL -> grants.onRenewalFailed(operation, failure, now);
            case RELEASE -> grants.onReleased(operation.subject, failure);
            case CALLER_RENEWAL -> onCallerRenewalFailed(operation, failure, now);
            case CALLER -> {
                if (operation.isAwaited()) {
                    outbox.add(new Effect.Failed(op, failure));
                }
            }
            case LATE_RELEASE, CLEANUP -> {}
        }
    }

    /** The operation is of no use, because every coordinator with its limit ends the stream. */
    void onTooLarge(Operation operation, Failure failure) {
        switch (operation.purpose) {
            case RELEASE -> grants.onReleased(operation.subject, failure);
            case CALLER_RENEWAL -> machine.onCallerRenewed(operation.subject, failure);
            case CALLER -> {
                if (operation.isAwaited()) {
                    outbox.add(new Effect.Failed(operation.id, failure));
                }
            }
            case RENEWAL, LATE_RELEASE, CLEANUP -> {}
        }
    }

    private void onCallerRenewalFailed(
            Operation operation, Failure.Refused failure, long now) {
        Failure reported = failure;
        if (failure.isNotOwner()) {
            reported = grants.onNotOwner(operation, failure, now);
        }
        machine.onCallerRenewed(operation.subject, reported);
    }

    private static List<Holding> renewed(SessionResponse answer) {
        return switch (answer.getResponseCase()) {
            case RENEWED -> List.of(Holding.of(answer.getRenewed().getGrant()));
            case PERMITS_RENEWED ->
                    answer.getPermitsRenewed().getGrantsList().stream().map(Holding::of).toList();
            default -> List.of();
        };
    }

    /** What an answer grants; empty if it grants nothing. */
    private static List<Holding> granted(SessionResponse answer) {
        return switch (answer.getResponseCase()) {
            case GRANTED -> List.of(Holding.of(answer.getGranted()));
            case CLAIMED -> List.of(Holding.of(answer.getClaimed().getGrant()));
            case GRANTED_ALL -> Holding.ofLocks(answer.getGrantedAll().getGrantsList());
            case PERMITS_GRANTED -> List.of(Holding.of(answer.getPermitsGranted()));
            case TRIED ->
                    answer.getTried().getAcquired()
                            ? List.of(Holding.of(answer.getTried().getGrant()))
                            : List.of();
            case TRIED_ALL -> Holding.ofLocks(answer.getTriedAll().getGrantsList());
            case PERMITS_TRIED ->
                    answer.getPermitsTried().getAcquired()
                            ? List.of(Holding.of(answer.getPermitsTried().getGrant()))
                            : List.of();
            default -> List.of();
        };
    }

    /** Why nothing was granted; null if the answer is about something else. */
    private static Failure notGranted(Operation operation, SessionResponse answer) {
        NotGrantedReason timeout = NotGrantedReason.NOT_GRANTED_REASON_WAIT_TIMEOUT;
        var none = com.google.protobuf.Duration.getDefaultInstance();
        var left =
                switch (answer.getResponseCase()) {
                    case NOT_GRANTED -> answer.getNotGranted().getHolderRemainingLease();
                    case TRIED -> answer.getTried().getHolderRemainingLease();
                    case TRIED_ALL -> answer.getTriedAll().getHolderRemainingLease();
                    case PERMITS_NOT_GRANTED, LATCH_NOT_OPENED, PERMITS_TRIED -> none;
                    default -> null;
                };
        if (left == null) {
            return null;
        }
        NotGrantedReason reason =
                switch (answer.getResponseCase()) {
                    case NOT_GRANTED -> answer.getNotGranted().getReason();
                    case PERMITS_NOT_GRANTED -> answer.getPermitsNotGranted().getReason();
                    case LATCH_NOT_OPENED -> answer.getLatchNotOpened().getReason();
                    default -> timeout;
                };
        Duration remaining = left.equals(none) ? null : Protos.toDuration(left);
        return new Failure.NotGranted(operation.name(), reason, remaining, holderNote(answer));
    }

    /** Null if the holder gave none. */
    private static Note holderNote(SessionResponse answer) {
        Note note =
                switch (answer.getResponseCase()) {
                    case NOT_GRANTED -> answer.getNotGranted().getHolderNote();
                    case TRIED -> answer.getTried().getHolderNote();
                    case TRIED_ALL -> answer.getTriedAll().getHolderNote();
                    default -> Note.getDefaultInstance();
                };
        return note.equals(Note.getDefaultInstance()) ? null : note;
    }

    /** The release of several locks succeeds although some were no longer held. */
    private static Failure notHeld(SessionResponse answer) {
        for (ReleasedLock lock : answer.getReleasedAll().getLocksList()) {
            if (!lock.getHeld()) {
                String message = lock.getName() + " was no longer held";
                Map<String, String> metadata = Map.of("name", lock.getName());
                return new Failure.Refused(
                        Failure.FAILED_PRECONDITION, "NOT_OWNER", message, metadata, null);
            }
        }
        return null;
    }
}
