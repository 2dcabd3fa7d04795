package machine

import (
	"math"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

func TestAnOperationIsSentWhenTheStreamIsUp(t *testing.T) {
	w := open(t)
	w.breaks()
	op := w.start(acquire("a"))
	w.quiet()
	w.receive(opened())
	if frame := w.sent(); frame.OpId != op || frame.GetAcquire().RequestId == "" {
		t.Fatalf("%v", frame)
	}
}

func TestWaitingDoesNotEndAWait(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.sent()
	w.receive(&pb.SessionResponse{
		OpId: op, Response: &pb.SessionResponse_Waiting{Waiting: &pb.Waiting{Position: 1}},
	})
	if waiting := take[Waiting](w); waiting.Name != "a" {
		t.Fatalf("%v", waiting)
	}
	w.receive(granted(op, lock("a", 7)))
	if done := take[Done](w); done.Guard == nil {
		t.Fatalf("%v", done)
	}
}

func TestAnAnswerTwiceCountsOnce(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.sent()
	w.receive(granted(op, lock("a", 7)))
	w.receive(granted(op, lock("a", 7)))
	take[Done](w)
	w.quiet()
}

func TestNotGranted(t *testing.T) {
	note := &pb.Note{Reason: "release"}
	frames := map[string]*pb.SessionResponse{
		"not_granted": {Response: &pb.SessionResponse_NotGranted{NotGranted: &pb.NotGranted{
			Reason:               pb.NotGrantedReason_NOT_GRANTED_REASON_WAIT_TIMEOUT,
			HolderRemainingLease: durationpb.New(lease), HolderNote: note,
		}}},
		"tried": {Response: &pb.SessionResponse_Tried{Tried: &pb.TryAcquireResponse{
			HolderRemainingLease: durationpb.New(lease), HolderNote: note,
		}}},
	}
	for name, frame := range frames {
		w := open(t)
		frame.OpId = w.start(acquire("a"))
		w.sent()
		w.receive(frame)
		failure := take[Done](w).Failure
		if failure.Kind != NotGranted || failure.Name != "a" || failure.HolderLease != lease ||
			failure.HolderNote != note ||
			failure.Reason != pb.NotGrantedReason_NOT_GRANTED_REASON_WAIT_TIMEOUT {
			t.Fatalf("%s: %v", name, failure)
		}
	}
}

func TestOtherAnswersEndTheirOperation(t *testing.T) {
	w := open(t)
	op := w.start(&pb.SessionRequest{Request: &pb.SessionRequest_Describe{
		Describe: &pb.DescribeRequest{Name: "a"},
	}})
	w.sent()
	w.receive(&pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_Described{
		Described: &pb.DescribeResponse{Name: "a"},
	}})
	if done := take[Done](w); done.Op != op || done.Response.GetDescribed().Name != "a" {
		t.Fatalf("%v", done)
	}
}

// --- giving up

func TestGivingUpCancelsAWaitAndReleasesALateGrant(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.sent()
	w.step(GiveUp{op})
	if frame := w.sent(); frame.OpId != op || frame.GetCancel() == nil {
		t.Fatalf("%v", frame)
	}
	w.receive(granted(op, lock("a", 7)))
	if release := w.sent().GetRelease(); release.Name != "a" || release.Owner != "owner of a" ||
		release.RequestId == "" {
		t.Fatalf("%v", release)
	}
	if w.machine.Holds() {
		t.Fatal("it is held")
	}
	w.quiet()
}

func TestGivingUpForgetsWhatWasNeverSent(t *testing.T) {
	w := open(t)
	w.breaks()
	w.step(GiveUp{w.start(acquire("a"))})
	w.receive(opened())
	if count[Send](w) > 0 {
		t.Fatal("it was sent")
	}
}

func TestGivingUpAnUncertainWaitCancelsItOnTheNextStream(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.sent()
	resume := w.breaks()
	if len(resume.Grants) != 1 {
		t.Fatalf("%v", resume)
	}
	w.step(GiveUp{op})
	w.receive(opened(lock("a", 7)))
	if w.sent().GetAcquire() == nil || w.sent().GetCancel() == nil {
		t.Fatal("not sent and cancelled")
	}
	w.receive(granted(op, lock("a", 7)))
	if w.sent().GetRelease() == nil {
		t.Fatal("not released")
	}
}

func TestGivingUpWhileAGrantIsConfirmedReleasesIt(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.pass(lease / 2)
	w.effects = nil
	w.receive(granted(op, lock("a", 7)))
	w.sent() // the renewal
	w.step(GiveUp{op})
	if w.sent().GetRelease() == nil {
		t.Fatal("not released")
	}
}

func TestGivingUpAReleaseDoesNotStopIt(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.breaks()
	op := w.machine.NewID()
	w.step(Release{op, guard})
	w.step(GiveUp{op})
	w.receive(opened(lock("a", 7)))
	if w.sent().GetRelease() == nil {
		t.Fatal("not released")
	}
}

// --- failures

func TestTemporaryFailuresAreRetriedWithTheSameRequestID(t *testing.T) {
	for _, reason := range []string{storeUnavailable, outcomeUnknown, draining} {
		w := open(t)
		op := w.start(acquire("a"))
		first := w.sent().GetAcquire().RequestId
		w.receive(failed(op, codes.Unavailable, reason, ""))
		w.pass(50*ms - 1)
		w.quiet()
		w.pass(50 * ms)
		if again := w.sent().GetAcquire(); again.RequestId != first {
			t.Fatalf("%s: another request id", reason)
		}
	}
}

func TestRetriesEndAfterALease(t *testing.T) {
	limits := map[time.Duration]time.Duration{0: lease, time.Second: time.Second}
	for patience, want := range limits {
		w := open(t)
		w.machine.config.Patience = patience
		begun := w.now
		op := w.start(acquire("a"))
		for count[Done](w) == 0 && w.now < begun+2*lease {
			if count[Send](w) > 0 && w.sent().GetAcquire() != nil {
				w.receive(failed(op, codes.Unavailable, storeUnavailable, ""))
			}
			w.pass(ms)
		}
		if after := w.now - begun; after < want || after > want+101*ms {
			t.Fatalf("after %v, not %v", after, want)
		}
		if failure := take[Done](w).Failure; failure.Kind != Refused ||
			ErrorInfo(failure.Status).Reason != storeUnavailable {
			t.Fatalf("%v", failure)
		}
	}
}

func TestPatienceMayHaveNoEnd(t *testing.T) {
	w := open(t)
	w.machine.config.Patience = math.MaxInt64
	op := w.start(try("a"))
	w.sent()
	w.receive(failed(op, codes.Unavailable, storeUnavailable, ""))
	w.pass(101 * ms)
	if w.sent().GetTryAcquire() == nil {
		t.Fatal("it is not sent again")
	}
}

func TestPatienceDoesNotLimitReleases(t *testing.T) {
	w := open(t)
	w.machine.config.Patience = time.Second
	begun := w.now
	op := w.machine.NewID()
	w.step(Release{op, w.hold("a", 7)})
	for _, at := range []time.Duration{0, 300 * ms, 1200 * ms} {
		if w.sent().GetRelease() == nil {
			t.Fatal("not released")
		}
		w.pass(at - (w.now - begun))
		w.receive(failed(op, codes.Unavailable, storeUnavailable, ""))
		w.quiet() // it is retried
		w.pass(101 * ms)
	}
	if w.sent().GetRelease() == nil {
		t.Fatal("it was given up, so the lock is held until the session ends")
	}
	w.pass(lease)
	w.receive(failed(op, codes.Unavailable, storeUnavailable, ""))
	if failure := take[Done](w).Failure; failure.Kind != Refused {
		t.Fatalf("%v", failure)
	}
}

func TestNotOwnerOfAnUncertainAcquireStartsAnew(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	first := w.sent().GetAcquire().RequestId
	w.breaks()
	w.receive(opened())
	if w.sent().GetAcquire().RequestId != first {
		t.Fatal("another request id")
	}
	w.receive(failed(op, codes.FailedPrecondition, notOwner, "expired"))
	if again := w.sent(); again.OpId != op || again.GetAcquire().RequestId == first {
		t.Fatal("the same request id")
	}
	w.receive(failed(op, codes.FailedPrecondition, notOwner, "expired"))
	if failure := take[Done](w).Failure; failure.Kind != Refused {
		t.Fatalf("%v", failure)
	}
}

func TestOtherFailuresEndTheOperation(t *testing.T) {
	w := open(t)
	op := w.start(acquire(""))
	w.sent()
	w.receive(failed(op, codes.InvalidArgument, "INVALID_NAME", ""))
	failure := take[Done](w).Failure
	if failure.Kind != Refused || failure.Status.Code() != codes.InvalidArgument {
		t.Fatalf("%v", failure)
	}
}

// --- resending

func TestResendingKeepsRequestIDAndLimit(t *testing.T) {
	w := open(t)
	w.startWait(acquire("a"), 2*time.Second)
	before := w.sent().GetAcquire()
	if before.WaitTimeout.AsDuration() != 2*time.Second {
		t.Fatalf("%v", before)
	}
	w.pass(time.Second)
	resume := w.breaks()
	possible := resume.Grants[0]
	if possible.Name != "a" || possible.HoldCount != 1 || !possible.Watched ||
		possible.Mode != pb.LockMode_LOCK_MODE_EXCLUSIVE || possible.Owner != "owner of a" {
		t.Fatalf("%v", possible)
	}
	w.receive(opened())
	after := w.sent().GetAcquire()
	if after.RequestId != before.RequestId {
		t.Fatal("another request id")
	}
	if left := after.WaitTimeout.AsDuration(); left > time.Second || left < 900*ms {
		t.Fatalf("%v are left", left)
	}
	if before.WaitTimeout.AsDuration() != 2*time.Second {
		t.Fatal("a frame was changed after it was sent")
	}
}

func TestAPossibleGrantWithALeaseIsNotWatched(t *testing.T) {
	w := open(t)
	request := acquire("a")
	request.GetAcquire().Lease = durationpb.New(lease)
	w.start(request)
	if resume := w.breaks(); resume.Grants[0].Watched {
		t.Fatalf("%v", resume)
	}
}

func TestAWaitThatIsOverTriesOnce(t *testing.T) {
	w := open(t)
	op := w.startWait(acquire("a"), 10*ms)
	w.sent()
	w.receive(failed(op, codes.Unavailable, storeUnavailable, ""))
	w.pass(100 * ms)
	if left := w.sent().GetAcquire().WaitTimeout; left == nil || left.AsDuration() != 0 {
		t.Fatalf("%v are left", left)
	}
}

func TestUncertainPermitsGetANewRequestID(t *testing.T) {
	w := open(t)
	w.start(acquirePermits())
	first := w.sent().GetAcquirePermits().RequestId
	resume := w.breaks()
	if len(resume.Grants)+len(resume.Permits) > 0 {
		t.Fatalf("%v", resume)
	}
	w.receive(opened())
	if again := w.sent().GetAcquirePermits(); again.RequestId == first || again.RequestId == "" {
		t.Fatalf("%v", again)
	}
}

func TestPartlyHeldLocksAreReleasedAndAcquiredAnew(t *testing.T) {
	w := open(t)
	w.start(acquireAll("a", "b"))
	first := w.sent().GetAcquireAll().RequestId
	if resume := w.breaks(); len(resume.Grants) != 2 {
		t.Fatalf("%v", resume)
	}
	held := lock("b", 7)
	held.Owner = "all"
	w.receive(opened(held))
	if release := w.sent().GetRelease(); release.Name != "b" || release.Owner != "all" {
		t.Fatalf("%v", release)
	}
	if again := w.sent().GetAcquireAll(); again.RequestId == first {
		t.Fatal("the same request id")
	}
}

func TestCompletelyHeldLocksKeepTheirRequestID(t *testing.T) {
	w := open(t)
	w.start(acquireAll("a", "b"))
	first := w.sent().GetAcquireAll().RequestId
	w.breaks()
	a, b := lock("a", 7), lock("b", 7)
	a.Owner, b.Owner = "all", "all"
	w.receive(opened(a, b))
	if again := w.sent().GetAcquireAll(); again.RequestId != first {
		t.Fatalf("%v", again)
	}
	w.quietButChanged()
}

func (w *world) quietButChanged() {
	w.t.Helper()
	take[Changed](w)
	w.quiet()
}

func TestAHeldLockIsNotReleasedForAnUncertainAcquireOfSeveral(t *testing.T) {
	w := open(t)
	op := w.start(acquireBy("a", "all"))
	w.sent()
	held := lock("a", 7)
	held.Owner = "all"
	w.receive(granted(op, held))
	take[Done](w)
	w.start(acquireAll("a", "b"))
	w.sent()
	w.breaks()
	w.receive(opened(held))
	if w.sent().GetAcquireAll() == nil {
		t.Fatal("a lock was released that another guard holds")
	}
	w.quietButChanged()
}

func TestAReleaseIsResentWithItsRequestID(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.step(Release{w.machine.NewID(), guard})
	first := w.sent().GetRelease().RequestId
	if resume := w.breaks(); len(resume.Grants) != 1 {
		t.Fatalf("%v", resume)
	}
	w.receive(opened(lock("a", 7)))
	if again := w.sent().GetRelease(); again.RequestId != first {
		t.Fatalf("%v", again)
	}
}
