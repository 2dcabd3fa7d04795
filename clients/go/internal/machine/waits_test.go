package machine

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// isUnreachable takes the failure of an operation whose limit passed without a stream.
func (w *world) isUnreachable(op uint64, address, cause string) {
	w.t.Helper()
	done := take[Done](w)
	it := done.Failure
	if done.Op != op || it == nil || it.Kind != Unreachable || it.Address != address {
		w.t.Fatalf("%v: %v", done, it)
	}
	if text := (fault{it.Address, it.Err, it.Cause}).String(); text != cause {
		w.t.Fatalf("%q is not the last error", text)
	}
}

func TestALimitThatPassesWithoutAStreamEndsTheWait(t *testing.T) {
	w := open(t)
	w.breaks()
	op := w.startWait(acquire("a"), 200*ms)
	w.step(StreamEnded{Err: errors.New("refused"), Code: codes.Unavailable})
	take[Connect](w) // the last endpoint of the round
	w.pass(199 * ms)
	if count[Done](w) > 0 {
		t.Fatal("it ended too early")
	}
	w.pass(ms)
	w.isUnreachable(op, "http://b:2", "refused")
	w.receive(opened())
	if count[Send](w) > 0 {
		t.Fatal("it was sent")
	}
}

func TestALimitThatPassesIsLikeACancelOfAnUncertainWait(t *testing.T) {
	w := open(t)
	op := w.startWait(acquire("a"), time.Second)
	first := w.sent().GetAcquire().RequestId
	if resume := w.breaks(); len(resume.Grants) != 1 {
		t.Fatalf("%v", resume)
	}
	w.pass(time.Second)
	w.isUnreachable(op, "http://b:2", "http://b:2: it did not answer in time")
	if resume := take[Connect](w).First.GetResume(); len(resume.Grants) != 1 {
		t.Fatalf("the next attempt does not name it: %v", resume)
	}
	w.receive(opened(lock("a", 7)))
	if again := w.sent(); again.GetAcquire().RequestId != first || again.OpId != op {
		t.Fatalf("%v", again)
	}
	if w.sent().GetCancel() == nil {
		t.Fatal("not cancelled")
	}
	w.receive(granted(op, lock("a", 7)))
	if w.sent().GetRelease() == nil || w.machine.Holds() {
		t.Fatal("not released")
	}
}

func TestALimitThatPassedBeforeTheStreamBrokeEndsTheWaitThen(t *testing.T) {
	w := open(t)
	op := w.startWait(acquire("a"), 100*ms)
	w.sent()
	w.pass(200 * ms)
	if count[Done](w) > 0 {
		t.Fatal("the coordinator decides while the stream is open")
	}
	w.step(StreamEnded{Err: errors.New("reset"), Code: codes.Unavailable})
	w.isUnreachable(op, "http://a:1", "reset")
}

func TestASilentStreamEndsAWaitByThePingRule(t *testing.T) {
	w := open(t)
	begun := w.now
	op := w.startWait(acquire("a"), 100*ms)
	w.sent()
	w.passSilently(2*ping, nil)
	if w.sent().GetPing() == nil || w.now-begun > 2*ping {
		t.Fatal("no ping")
	}
	w.isUnreachable(op, "http://a:1", "http://a:1: no answer to a ping")
}

func TestALimitEndsTheWaitForANewSession(t *testing.T) {
	w := newWorld(t, 1)
	w.step(Tick{})
	take[Connect](w)
	op, try := w.startWait(acquire("a"), 100*ms), w.startWait(acquire("b"), 0)
	w.pass(100 * ms)
	w.isUnreachable(op, "http://a:1", "http://a:1: it has not answered yet")
	w.receive(opened())
	if frame := w.sent(); frame.OpId != try || frame.GetAcquire().WaitTimeout.AsDuration() != 0 {
		t.Fatalf("%v", frame)
	}
	w.quietButChanged()
}

func TestALimitOfZeroEndsAtOnceWithoutAStream(t *testing.T) {
	w := open(t)
	w.breaks()
	w.isUnreachable(w.startWait(acquire("a"), 0), "http://a:1", "reset")
}

func TestAResumeInTimeLeavesTheLimitToTheCoordinator(t *testing.T) {
	w := open(t)
	w.startWait(acquire("a"), 200*ms)
	w.sent()
	w.breaks()
	w.receive(opened())
	w.sent()
	w.pass(time.Second)
	if count[Done](w) > 0 {
		t.Fatal("the coordinator decides while the stream is open")
	}
}

func try(name string) *pb.SessionRequest {
	request := &pb.TryAcquireRequest{Name: name, Owner: "o"}
	return &pb.SessionRequest{Request: &pb.SessionRequest_TryAcquire{TryAcquire: request}}
}

func TestWhatWaitsForNoHolderLasts6SecondsWhileASessionIsResumed(t *testing.T) {
	describe := &pb.SessionRequest_Describe{Describe: &pb.DescribeRequest{Name: "a"}}
	latch := &pb.SessionRequest_DescribeLatch{DescribeLatch: &pb.DescribeLatchRequest{Name: "a"}}
	for _, request := range []*pb.SessionRequest{try("a"), {Request: describe}, {Request: latch}} {
		w := open(t)
		w.machine.lease = 30 * time.Second
		w.breaks()
		op := w.start(request)
		w.pass(openTimeout - ms)
		if count[Done](w) > 0 {
			t.Fatal("too early")
		}
		w.pass(ms)
		w.isUnreachable(op, "http://a:1", "http://a:1: it did not answer in time")
	}
}

func TestATryWithoutALimitWaitsForEachEndpointOfANewSession(t *testing.T) {
	w := newWorld(t, 2)
	w.step(Tick{})
	op := w.start(try("a"))
	w.pass(openTimeout)
	w.receive(opened())
	if count[Done](w) > 0 || w.sent().OpId != op {
		t.Fatal("it ended")
	}
}

func TestAFailureAfterTheLimitEndsItAndALateGrantIsReleased(t *testing.T) {
	w := open(t)
	op := w.startWait(try("a"), 60*ms)
	w.sent()
	w.receive(failed(op, codes.Unavailable, outcomeUnknown, ""))
	w.pass(100 * ms)
	w.sent()
	w.receive(failed(op, codes.Unavailable, storeUnavailable, ""))
	if failure := take[Done](w).Failure; failure.Kind != Refused {
		t.Fatalf("%v", failure)
	}
	w.pass(100 * ms)
	w.sent()
	w.receive(granted(op, lock("a", 7)))
	if w.sent().GetRelease() == nil {
		t.Fatal("it stays held")
	}
}
