package machine

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

func TestValidityCountsFromTheRequest(t *testing.T) {
	w := open(t)
	sentAt := w.now
	op := w.start(acquire("a"))
	w.sent()
	w.pass(lease / 3)
	w.effects = nil
	w.receive(granted(op, lock("a", 7)))
	if until := take[Done](w).Guard.ValidUntil(); until != sentAt+lease {
		t.Fatalf("%v later", until-sentAt-lease)
	}
}

func TestALateGrantIsRenewedFirst(t *testing.T) {
	for _, isWatched := range []bool{true, false} {
		w := open(t)
		op := w.start(acquire("a"))
		w.pass(lease/3 + ms)
		w.effects = nil
		grant := lock("a", 7)
		grant.Watched = isWatched
		w.receive(granted(op, grant))
		renewal, sentAt := w.sent(), w.now
		if renewal.GetRenew() == nil || renewal.GetRenew().Lease != nil {
			t.Fatalf("%v", renewal)
		}
		w.quiet()
		w.pass(100 * ms)
		w.receive(renewed(renewal.OpId, grant))
		if done := take[Done](w); done.Op != op || done.Guard.ValidUntil() != sentAt+lease {
			t.Fatalf("%v", done)
		}
		w.pass(renew + 100*ms)
		if isRenewed := count[Send](w) > 0; isRenewed != isWatched {
			t.Fatalf("watched %v, renewed %v", isWatched, isRenewed)
		}
	}
}

func TestALateGrantThatIsGoneFailsTheAcquire(t *testing.T) {
	w := open(t)
	op := w.start(acquireAll("a", "b"))
	w.pass(lease / 2)
	w.effects = nil
	w.receive(&pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_GrantedAll{
		GrantedAll: &pb.GrantedAll{Grants: []*pb.Grant{lock("a", 7), lock("b", 8)}},
	}})
	w.receive(failed(w.sent().OpId, codes.FailedPrecondition, notOwner, "expired"))
	if done := take[Done](w); done.Op != op || done.Failure.Kind != LostGrant {
		t.Fatalf("%v", done)
	}
	take[Send](w) // the renewal of the other
	if release := w.sent().GetReleaseAll(); len(release.GetLocks()) != 2 {
		t.Fatalf("%v", release)
	}
}

func TestGrantsAreRenewedWhenDue(t *testing.T) {
	w := open(t)
	sentAt := w.now
	guard := w.hold("a", 7)
	w.pass(renew - ms)
	w.quiet()
	w.pass(ms)
	renewal := w.sent()
	if renewal.GetRenew() == nil {
		t.Fatalf("%v", renewal)
	}
	w.pass(300 * ms)
	w.quiet() // it is not answered yet
	w.receive(renewed(renewal.OpId, lock("a", 7)))
	if guard.ValidUntil() != sentAt+renew+lease {
		t.Fatal("not counted from the request")
	}
	w.pass(renew - 300*ms - ms)
	w.quiet()
	w.pass(ms)
	if w.sent().GetRenew() == nil {
		t.Fatal("not counted from the request")
	}
}

func TestALeaseOfItsOwnIsRenewedByItsOwnTime(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.sent()
	grant := lock("a", 7)
	grant.Lease, grant.ValidFor = durationpb.New(2*lease), durationpb.New(2*lease)
	w.receive(granted(op, grant))
	take[Done](w)
	w.pass(2*lease*3/10 - ms)
	w.quiet()
	w.pass(ms)
	w.sent()
}

func TestAnOlderCoordinatorsRenewInterval(t *testing.T) {
	w := newWorld(t, 1)
	w.step(Tick{})
	frame := opened()
	frame.GetOpened().RenewInterval = nil
	w.receive(frame)
	w.effects = nil
	w.hold("a", 7)
	w.pass(lease*3/10 - ms)
	w.quiet()
	w.pass(ms)
	w.sent()
}

func TestALeaseOfTheRequestIsNotRenewedAndEnds(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.sent()
	grant := lock("a", 7)
	grant.Watched = false
	w.receive(granted(op, grant))
	take[Done](w)
	w.pass(lease - ms)
	w.quiet()
	w.pass(ms)
	loss := take[Lost](w).Guard.Loss()
	if loss.Reason != pb.LostReason_LOST_REASON_EXPIRED || loss.Token != 7 || loss.Name != "a" {
		t.Fatalf("%v", loss)
	}
}

func TestARenewalByTheUserMovesTheEnd(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.pass(100 * ms)
	sentAt := w.now
	op := w.start(&pb.SessionRequest{Request: &pb.SessionRequest_Renew{Renew: &pb.RenewRequest{
		Name: "a", Owner: "owner of a",
	}}})
	w.sent()
	w.receive(renewed(op, lock("a", 7)))
	if done := take[Done](w); done.Failure != nil || guard.ValidUntil() != sentAt+lease {
		t.Fatalf("%v", done)
	}
}

func TestARenewalByTheUserOfWhatIsGone(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	op := w.start(&pb.SessionRequest{Request: &pb.SessionRequest_Renew{Renew: &pb.RenewRequest{
		Name: "a", Owner: "owner of a",
	}}})
	w.sent()
	w.receive(failed(op, codes.FailedPrecondition, notOwner, "held_by_another"))
	if done := take[Done](w); done.Failure.Kind != LostGrant {
		t.Fatalf("%v", done)
	}
	if take[Lost](w).Guard != guard {
		t.Fatal("another guard")
	}
}

func TestARenewalThatIsNotOwnerLosesTheGrant(t *testing.T) {
	reasons := map[string]pb.LostReason{
		"held_by_another": pb.LostReason_LOST_REASON_TAKEN_OVER,
		"expired":         pb.LostReason_LOST_REASON_EXPIRED,
	}
	for state, reason := range reasons {
		w := open(t)
		w.hold("a", 7)
		w.pass(renew)
		w.receive(failed(w.sent().OpId, codes.FailedPrecondition, notOwner, state))
		if loss := take[Lost](w).Guard.Loss(); loss.Reason != reason {
			t.Fatalf("%s: %v", state, loss)
		}
	}
}

func TestOtherFailuresOfARenewalAreRepeatedUntilTheEnd(t *testing.T) {
	w := open(t)
	begun := w.now
	w.hold("a", 7)
	w.pass(renew)
	for count[Lost](w) == 0 && w.now < begun+2*lease {
		renewal := w.sent()
		w.receive(failed(renewal.OpId, codes.PermissionDenied, "PERMISSION_DENIED", ""))
		w.pass(retryPause)
	}
	if after := w.now - begun; after < lease || after > lease+retryPause {
		t.Fatalf("lost after %v", after)
	}
	if loss := take[Lost](w).Guard.Loss(); loss.Reason != pb.LostReason_LOST_REASON_EXPIRED {
		t.Fatalf("%v", loss)
	}
}

func TestNothingIsRenewedWhileTheStreamIsDown(t *testing.T) {
	w := open(t)
	w.hold("a", 7)
	w.pass(renew - 100*ms)
	w.breaks()
	w.pass(300 * ms)
	if count[Send](w) > 0 {
		t.Fatal("it was sent")
	}
	w.receive(opened()) // it is not confirmed: the notice follows
	if w.sent().GetRenew() == nil {
		t.Fatal("not renewed")
	}
}

// --- losses

func TestALostNotice(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	notice := lostNotice(lock("a", 7), pb.LostReason_LOST_REASON_FORCE_RELEASED, "by hand")
	w.receive(notice)
	if lost := take[Lost](w); lost.Guard != guard {
		t.Fatal("another guard")
	}
	loss := guard.Loss()
	if loss.Reason != pb.LostReason_LOST_REASON_FORCE_RELEASED || loss.Detail != "by hand" {
		t.Fatalf("%v", loss)
	}
	if loss.ValidUntil != 0 {
		t.Fatalf("another owner may hold it, but not before %v", loss.ValidUntil)
	}
	w.receive(notice)
	w.quiet() // it is lost once
}

func TestALostNoticeSaysUntilWhenNobodyElseHoldsIt(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 2 * lease: lease, // it cannot be longer than the lease
	} {
		w := open(t)
		guard := w.hold("a", 7)
		notice := lostNotice(lock("a", 7), pb.LostReason_LOST_REASON_FORCE_RELEASED, "by hand")
		notice.GetLost().ValidFor = durationpb.New(given)
		w.receive(notice)
		if left := guard.Loss().ValidUntil - w.now; left != want {
			t.Fatalf("%v of %v", left, given)
		}
	}
}

func TestALostNoticeOfAnOlderGrantIsIgnored(t *testing.T) {
	w := open(t)
	w.hold("a", 7)
	w.receive(lostNotice(lock("a", 6), pb.LostReason_LOST_REASON_EXPIRED, ""))
	w.quiet()
}

func TestALostNoticeOfAnotherGrantIsIgnored(t *testing.T) {
	w := open(t)
	w.hold("a", 7)
	other := lock("a", 7)
	other.Owner = "another"
	w.receive(lostNotice(other, pb.LostReason_LOST_REASON_EXPIRED, ""))
	w.receive(lostNotice(nil, pb.LostReason_LOST_REASON_EXPIRED, ""))
	w.quiet()
}

func TestALostNoticeOfWhatIsReleasedIsIgnored(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	op := w.machine.NewID()
	w.step(Release{op, guard})
	w.sent()
	w.receive(lostNotice(lock("a", 7), pb.LostReason_LOST_REASON_EXPIRED, ""))
	w.quiet()
	w.receive(released(op))
	if done := take[Done](w); done.Failure != nil {
		t.Fatalf("%v", done.Failure)
	}
}

func TestLostPermits(t *testing.T) {
	w := open(t)
	op := w.start(acquirePermits())
	w.sent()
	w.receive(&pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_PermitsGranted{
		PermitsGranted: permitsOf("1", "2"),
	}})
	guard := take[Done](w).Guard
	w.receive(&pb.SessionResponse{Response: &pb.SessionResponse_PermitsLost{
		PermitsLost: &pb.PermitsLost{
			Grant: permitsOf("2"), Reason: pb.LostReason_LOST_REASON_STORE_UNREACHABLE,
		},
	}})
	take[Lost](w)
	if loss := guard.Loss(); loss.Name != "s" || loss.Token != 0 {
		t.Fatalf("%v", loss)
	}
}

func TestSeveralLocksAreLostOnce(t *testing.T) {
	w := open(t)
	op := w.start(acquireAll("a", "b"))
	w.sent()
	w.receive(&pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_GrantedAll{
		GrantedAll: &pb.GrantedAll{Grants: []*pb.Grant{lock("a", 7), lock("b", 8)}},
	}})
	take[Done](w)
	w.receive(lostNotice(lock("b", 8), pb.LostReason_LOST_REASON_EXPIRED, ""))
	if loss := take[Lost](w).Guard.Loss(); loss.Name != "b" || loss.Token != 8 {
		t.Fatalf("%v", loss)
	}
	w.receive(lostNotice(lock("a", 7), pb.LostReason_LOST_REASON_EXPIRED, ""))
	w.quiet()
}

// --- releases

func TestAReleaseOfALostGrantFailsButIsSent(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.receive(lostNotice(lock("a", 7), pb.LostReason_LOST_REASON_EXPIRED, ""))
	take[Lost](w)
	op := w.machine.NewID()
	w.step(Release{op, guard})
	if done := take[Done](w); done.Op != op || done.Failure.Kind != LostGrant {
		t.Fatalf("%v", done)
	}
	release := w.sent()
	if release.GetRelease() == nil {
		t.Fatalf("%v", release)
	}
	w.receive(failed(release.OpId, codes.FailedPrecondition, notOwner, "expired"))
	w.quiet()
}

func TestAGuardIsReleasedOnce(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.step(Release{w.machine.NewID(), guard})
	w.step(Release{0, guard})
	w.sent()
	w.quiet()
}

func TestAReleasedGrantIsNotRenewed(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.step(Release{w.machine.NewID(), guard})
	w.sent()
	w.pass(time.Minute)
	w.quiet()
}

func TestGuardsOfOneOwnerShareAGrant(t *testing.T) {
	w := open(t)
	first := w.hold("a", 7)
	second := w.hold("a", 7)
	op := w.machine.NewID()
	w.step(Release{op, first})
	w.sent()
	w.receive(&pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_Released{
		Released: &pb.ReleaseResponse{HoldCount: 1},
	}})
	take[Done](w)
	if resume := w.breaks(); len(resume.Grants) != 1 || resume.Grants[0].HoldCount != 1 {
		t.Fatalf("%v", resume)
	}
	w.receive(opened(lock("a", 7)))
	w.effects = nil
	w.receive(lostNotice(lock("a", 7), pb.LostReason_LOST_REASON_EXPIRED, ""))
	if lost := take[Lost](w); lost.Guard != second || first.Loss() != nil {
		t.Fatal("another guard")
	}
}

func TestTimersDoNotGrowWithReleasedGrants(t *testing.T) {
	w := open(t)
	for range 1000 {
		op := w.machine.NewID()
		w.step(Release{op, w.hold("a", 7)})
		w.sent()
		w.receive(released(op))
		take[Done](w)
	}
	if left := len(w.machine.timers) + len(w.machine.grants) + len(w.machine.byKey); left != 0 {
		t.Fatalf("%d are left", left)
	}
}
