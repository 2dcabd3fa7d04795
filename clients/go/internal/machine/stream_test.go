package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

var errDown = errors.New("connection refused")

func TestOpenedKeepsIDAndLease(t *testing.T) {
	w := open(t)
	if w.machine.SessionID() != "id" || w.machine.Lease() != lease {
		t.Fatalf("%q, %v", w.machine.SessionID(), w.machine.Lease())
	}
	w.quiet()
}

func TestOpenTriesEachEndpointOnce(t *testing.T) {
	w := newWorld(t, 2)
	w.step(Tick{})
	w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
	take[Connect](w)
	if second := take[Connect](w); second.Endpoint != 1 || second.First.GetOpen() == nil {
		t.Fatalf("%v", second)
	}
	w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
	if failed := take[OpenFailed](w); failed.Endpoint != 1 || failed.Err != errDown {
		t.Fatalf("%v", failed)
	}
	if count[Changed](w) > 0 {
		t.Fatal("a session that never was has ended")
	}
}

func TestOpenEndsWithARefusal(t *testing.T) {
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Unauthenticated} {
		w := newWorld(t, 2)
		w.step(Tick{})
		w.step(StreamEnded{Err: errDown, Code: code})
		if failed := take[OpenFailed](w); failed.Endpoint != 0 {
			t.Fatalf("%v: %v", code, failed)
		}
	}
}

func TestOpenTimesOut(t *testing.T) {
	w := newWorld(t, 1)
	w.step(Tick{})
	take[Connect](w)
	w.passSilently(openTimeout-ms, nil)
	w.quiet()
	w.passSilently(ms, nil)
	take[Disconnect](w)
	if failed := take[OpenFailed](w); failed.Err != nil || failed.Cause == "" {
		t.Fatalf("%v", failed)
	}
}

func TestBrokenStreamIsResumedAtTheNextEndpoint(t *testing.T) {
	w := open(t)
	w.hold("a", 7)
	w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
	take[Changed](w)
	if at, _ := w.machine.WakeAt(); at < w.now || at > w.now+firstPauseMax {
		t.Fatalf("retries in %v", at-w.now)
	}
	w.pass(firstPauseMax)
	connect := take[Connect](w)
	resume := connect.First.GetResume()
	if connect.Endpoint != 1 || resume.SessionId != "id" || string(resume.ResumeToken) != "token" {
		t.Fatalf("%v", connect)
	}
	if len(resume.Grants) != 1 || resume.Grants[0].FencingToken != 7 {
		t.Fatalf("%v", resume.Grants)
	}
	w.receive(opened(lock("a", 7)))
	if changed := take[Changed](w); changed.State != Connected {
		t.Fatalf("%v", changed)
	}
}

func TestANewResumeTokenReplacesTheEarlierOne(t *testing.T) {
	w := open(t)
	for _, token := range []string{"second", "third"} {
		frame := opened()
		frame.GetOpened().ResumeToken = []byte(token)
		w.receive(frame)
		w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
		take[Changed](w)
		w.pass(firstPauseMax)
		resume := take[Connect](w).First.GetResume()
		if string(resume.ResumeToken) != token {
			t.Fatalf("%v", resume)
		}
		frame = opened()
		frame.GetOpened().ResumeToken = []byte("of the resume")
		w.receive(frame)
		take[Changed](w)
	}
}

func TestStreamThatEndsWithoutAnErrorIsResumed(t *testing.T) {
	w := open(t)
	w.step(StreamEnded{})
	if changed := take[Changed](w); changed.State != Resuming {
		t.Fatalf("%v", changed)
	}
}

func TestResumeRenewsWhatItConfirms(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.pass(400 * ms)
	w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
	at, _ := w.machine.WakeAt()
	w.pass(firstPauseMax)
	w.pass(200 * ms)
	w.receive(opened(lock("a", 7)))
	if guard.ValidUntil() != at+lease {
		t.Fatalf("counted from %v, not from the resume", guard.ValidUntil()-lease-at)
	}
}

func TestPingsAfterSilence(t *testing.T) {
	w := open(t)
	w.passSilently(ping-ms, nil)
	w.quiet()
	w.passSilently(ms, nil)
	if w.sent().GetPing() == nil {
		t.Fatal("no ping")
	}
	w.receive(&pb.SessionResponse{Response: &pb.SessionResponse_Pong{Pong: &pb.Pong{}}})
	w.passSilently(ping-ms, nil)
	w.quiet()
}

func TestSilenceAfterAPingBreaksTheStream(t *testing.T) {
	w := open(t)
	w.passSilently(2*ping, nil)
	take[Disconnect](w)
	if changed := take[Changed](w); changed.Cause != "no answer to a ping" {
		t.Fatalf("%v", changed)
	}
}

func TestNoPingWithoutAnInterval(t *testing.T) {
	w := newWorld(t, 1)
	w.step(Tick{})
	frame := opened()
	frame.GetOpened().PingInterval = nil
	w.receive(frame)
	w.passSilently(time.Hour, nil)
	if count[Send](w) > 0 {
		t.Fatal("an older coordinator does not know pings")
	}
}

func TestGoingAwayLeavesAndSendsNothingNew(t *testing.T) {
	w := open(t)
	w.receive(&pb.SessionResponse{
		Response: &pb.SessionResponse_GoingAway{GoingAway: &pb.SessionGoingAway{}},
	})
	op := w.start(acquire("a"))
	w.passSilently(leaveTimeout-ms, nil)
	w.quiet()
	w.passSilently(ms, nil)
	take[Disconnect](w)
	take[Changed](w)
	w.pass(firstPauseMax)
	if take[Connect](w).Endpoint != 1 {
		t.Fatal("not at the next endpoint")
	}
	w.receive(opened())
	if frame := w.sent(); frame.OpId != op || frame.GetAcquire() == nil {
		t.Fatalf("%v", frame)
	}
}

func TestAttemptsPauseAfterEachRound(t *testing.T) {
	w := open(t)
	w.breaks()
	want := backoffMin
	for round := 1; round <= 7; round++ {
		w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
		take[Connect](w) // at once, at the other endpoint
		w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
		w.quiet()
		at, _ := w.machine.WakeAt()
		if pause := at - w.now; pause < want/2 || pause > want {
			t.Fatalf("round %d: %v", round, pause)
		}
		want = min(2*want, backoffMax)
		if w.now = at; round < 7 {
			w.step(Tick{})
			take[Connect](w)
		}
	}
}

func TestPausesDiffer(t *testing.T) {
	pauses := map[Instant]bool{}
	for seed := range byte(20) {
		w := open(t)
		w.machine = New(Config{
			Endpoints: []string{"a:1"}, Open: &pb.OpenSession{}, Seed: [32]byte{seed},
		})
		w.step(Tick{})
		w.receive(opened())
		w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
		at, _ := w.machine.WakeAt()
		pauses[at] = true
	}
	if len(pauses) < 15 {
		t.Fatalf("%d different pauses of 20", len(pauses))
	}
}

func TestResumeTimeoutGrowsWithTheRounds(t *testing.T) {
	w := open(t)
	w.breaks()
	begun := w.now
	limit := func() time.Duration {
		at, _ := w.machine.WakeAt()
		return at - w.now
	}
	if limit() > lease/6 || limit() < lease/6-firstPauseMax {
		t.Fatalf("the first attempt may take %v", limit())
	}
	w.passSilently(limit(), nil)
	take[Disconnect](w)
	take[Connect](w)
	if limit() != lease/6 {
		t.Fatalf("the same round: %v", limit())
	}
	w.passSilently(limit(), nil)
	w.passSilently(limit(), nil)
	take[Connect](w)
	if limit() != lease/3 {
		t.Fatalf("the second round: %v", limit())
	}
	if w.now-begun > lease {
		t.Fatal("too slow")
	}
}

func TestRefusalsOfAllEndpointsEndTheSession(t *testing.T) {
	refusals := []codes.Code{
		codes.NotFound, codes.InvalidArgument, codes.FailedPrecondition, codes.Unimplemented,
	}
	for _, code := range refusals {
		w := open(t)
		guard := w.hold("a", 7)
		w.breaks()
		w.step(refusal(code))
		take[Connect](w)
		w.step(refusal(code))
		if lost := take[Lost](w); lost.Guard != guard {
			t.Fatal("another guard")
		}
		loss := guard.Loss()
		if loss.Reason != pb.LostReason_LOST_REASON_UNSPECIFIED || loss.Detail == "" {
			t.Fatalf("%v", loss)
		}
		if changed := take[Changed](w); changed.State != Ended {
			t.Fatalf("%v", changed)
		}
		w.pass(time.Hour)
		if count[Connect](w) > 0 {
			t.Fatal("another session was opened")
		}
	}
}

func TestOtherFailuresDoNotEndTheSession(t *testing.T) {
	others := []StreamEnded{
		refusal(codes.Unauthenticated), refusal(codes.PermissionDenied), refusal(codes.Unknown),
		{Err: status.Error(codes.Unimplemented, "a proxy's"), Code: codes.Unimplemented},
	}
	for _, other := range others {
		w := open(t)
		w.breaks()
		unknown := refusal(codes.NotFound)
		for _, ended := range []StreamEnded{unknown, other, unknown} {
			w.step(ended)
			w.pass(backoffMin)
		}
		if count[Changed](w) > 0 {
			t.Fatalf("%v: %v", other.Code, take[Changed](w))
		}
	}
}

// refusal is a coordinator's, with a reason.
func refusal(code codes.Code) StreamEnded {
	return StreamEnded{status.ErrorProto(failed(0, code, "REASON", "").GetFailed()), code}
}

func TestSessionEndsIfNoCoordinatorAnswersForALease(t *testing.T) {
	w := open(t)
	begun := w.now
	w.breaks()
	for count[Changed](w) == 0 && w.now-begun < 2*lease {
		w.pass(10 * ms)
	}
	if changed := take[Changed](w); changed.State != Ended ||
		!strings.HasPrefix(changed.Cause, unreachable+"http://") {
		t.Fatalf("%v", changed)
	}
	if after := w.now - begun; after < lease || after > lease+20*ms {
		t.Fatalf("after %v", after)
	}
}

func TestTheDeadlineIsNotMovedByAnotherBreak(t *testing.T) {
	w := open(t)
	w.breaks()
	w.pass(100 * ms)
	w.receive(opened())
	take[Changed](w)
	w.breaks()
	at := w.machine.stream.resumeDeadline
	w.step(StreamEnded{Err: errDown, Code: codes.Unavailable})
	if w.machine.stream.resumeDeadline != at {
		t.Fatal("a failed attempt moved it")
	}
}

func TestAFrameOtherThanOpenedFailsTheAttempt(t *testing.T) {
	w := open(t)
	w.breaks()
	w.receive(released(4711))
	take[Disconnect](w)
	if take[Connect](w).Endpoint != 0 {
		t.Fatal("not at the next endpoint")
	}
}

func TestEverythingFailsWhenTheSessionEnds(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.breaks()
	w.pass(lease)
	done := take[Done](w)
	if done.Op != op || done.Failure.Kind != SessionEnded ||
		!strings.HasPrefix(done.Failure.Cause, unreachable) {
		t.Fatalf("%v", done)
	}
	take[Changed](w)
	w.effects = nil
	after := w.start(acquire("b"))
	if done := take[Done](w); done.Op != after || done.Failure.Kind != SessionEnded {
		t.Fatalf("%v", done)
	}
	w.quiet()
	if _, ok := w.machine.WakeAt(); ok {
		t.Fatal("it wants to be woken")
	}
}

func TestRiskAndRecoveryAreReported(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.receive(&pb.SessionResponse{Response: &pb.SessionResponse_AtRisk{
		AtRisk: &pb.SessionAtRisk{ValidFor: durationpb.New(time.Second)},
	}})
	if changed := take[Changed](w); changed.State != AtRisk || changed.ValidFor != time.Second {
		t.Fatalf("%v", changed)
	}
	w.receive(&pb.SessionResponse{
		Response: &pb.SessionResponse_Recovered{Recovered: &pb.SessionRecovered{}},
	})
	if changed := take[Changed](w); changed.State != Connected || guard.Loss() != nil {
		t.Fatalf("%v", changed)
	}
	w.quiet()
}

// --- closing

func TestCloseSendsAndEnds(t *testing.T) {
	w := open(t)
	wait := w.start(acquire("a"))
	w.sent()
	w.step(Close{})
	if done := take[Done](w); done.Op != wait || done.Failure.Kind != SessionEnded {
		t.Fatalf("%v", done)
	}
	if w.sent().GetClose() == nil {
		t.Fatal("no close")
	}
	w.step(StreamEnded{})
	if changed := take[Changed](w); changed.State != Ended || !IsClean(changed.Cause) {
		t.Fatalf("%v", changed)
	}
}

func TestCloseWithoutAnAnswerEndsAfterItsTimeout(t *testing.T) {
	w := open(t)
	w.step(Close{})
	w.sent()
	w.passSilently(closeTimeout-ms, nil)
	w.quiet()
	w.passSilently(ms, nil)
	if changed := take[Changed](w); changed.State != Ended || IsClean(changed.Cause) {
		t.Fatalf("%v", changed)
	}
}

func TestCloseIsSentAgainOnTheNextStream(t *testing.T) {
	w := open(t)
	w.step(Close{})
	w.sent()
	w.breaks()
	w.receive(opened())
	if w.sent().GetClose() == nil {
		t.Fatal("no close")
	}
}

func TestCloseReleasesAGrantThatComesLate(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.step(Close{})
	w.effects = nil
	w.receive(granted(op, lock("a", 7)))
	w.quiet() // the end of the session releases it
}

func TestCloseOfWhatIsOpening(t *testing.T) {
	w := newWorld(t, 1)
	w.step(Tick{})
	w.step(Close{})
	take[Disconnect](w)
	if failed := take[OpenFailed](w); !IsClean(failed.Cause) {
		t.Fatalf("%v", failed)
	}
}
