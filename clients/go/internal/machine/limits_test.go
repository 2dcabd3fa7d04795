package machine

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// What ends each stream that it is sent on, and streams that end again and again.

func TestARequestThatIsTooLargeIsNotSent(t *testing.T) {
	w := open(t)
	name := strings.Repeat("n", 512)
	names := make([]string, 2100)
	for i := range names {
		names[i] = name
	}
	op := w.start(acquireAll(names...))
	done := take[Done](w)
	if done.Op != op || done.Failure.Kind != TooLarge ||
		!strings.HasPrefix(done.Failure.Cause, "acquire_all has ") ||
		!strings.HasSuffix(done.Failure.Cause, "the limit is 1048576") {
		t.Fatalf("%v", done)
	}
	w.quiet()
	w.start(acquireAll(names[:2000]...))
	if w.sent().GetAcquireAll() == nil {
		t.Fatal("not sent")
	}
}

func TestARequestThatEndedTheStreamDoesNotEndTheNext(t *testing.T) {
	w := open(t)
	large, small := w.start(acquire(strings.Repeat("n", 2000))), w.start(acquire("a"))
	w.sent()
	w.sent()
	refusal, err := status.New(codes.OutOfRange, "it failed").WithDetails(&errdetails.ErrorInfo{
		Reason: messageTooLarge, Metadata: map[string]string{"bytes_max": "2000"},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.step(StreamEnded{Err: refusal.Err(), Code: codes.OutOfRange})
	if done := take[Done](w); done.Op != large || done.Failure.Kind != TooLarge {
		t.Fatalf("%v", done)
	}
	w.pass(firstPauseMax)
	w.receive(opened())
	if frame := w.sent(); frame.OpId != small || count[Send](w) > 0 {
		t.Fatalf("%v", frame)
	}
}

func TestStreamsThatEndWithoutProgressAreOpenedLessAndLessOften(t *testing.T) {
	w := open(t)
	end := func() time.Duration {
		w.step(StreamEnded{Code: codes.OutOfRange})
		at, _ := w.machine.WakeAt()
		pause := at - w.now
		w.pass(pause)
		take[Connect](w)
		w.receive(opened())
		return pause
	}
	if pause := end(); pause > firstPauseMax {
		t.Fatalf("%v at first", pause)
	}
	for round := range 5 {
		most := min(backoffMin<<round, lease/6)
		if pause := end(); pause < most/2 || pause > most {
			t.Fatalf("%v in round %d", pause, round)
		}
	}
	w.hold("a", 1)
	if pause := end(); pause > firstPauseMax {
		t.Fatalf("%v after an answer", pause)
	}
	end()
	w.pass(backoffMax)
	if pause := end(); pause > firstPauseMax {
		t.Fatalf("%v after a stream that lasted", pause)
	}
}

func TestAFairHoldAndAnExclusiveOneOfAnOwnerAreOneGrant(t *testing.T) {
	w := open(t)
	exclusive := w.hold("a", 5)
	op := w.start(acquire("a"))
	w.sent()
	grant := lock("a", 5)
	grant.Mode, grant.HoldCount = pb.LockMode_LOCK_MODE_FAIR, 2
	w.receive(granted(op, grant))
	fair := take[Done](w).Guard
	w.receive(lostNotice(lock("a", 5), pb.LostReason_LOST_REASON_TAKEN_OVER, ""))
	lost := map[*Guard]bool{take[Lost](w).Guard: true, take[Lost](w).Guard: true}
	if !lost[exclusive] || !lost[fair] {
		t.Fatalf("%v", lost)
	}
	w.step(Release{w.machine.NewID(), fair})
	if release := w.sent().GetRelease(); release.GetMode() != pb.LockMode_LOCK_MODE_FAIR {
		t.Fatalf("%v", release)
	}
}

func TestWhatWasReleasedIsNotAcquiredAnewWithoutACaller(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.sent()
	w.breaks()
	w.step(GiveUp{op})
	w.receive(opened())
	w.sent()
	take[Send](w) // the cancel
	w.receive(failed(op, codes.FailedPrecondition, notOwner, ""))
	w.quietButChanged()
}
