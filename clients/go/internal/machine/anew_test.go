package machine

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// What is held anew: a later grant of the same lock to the same owner, which a release, a renewal
// and a notice name in the same way.

// lost has a guard that lost a lock.
func lost(w *world, name string, token uint64) *Guard {
	w.t.Helper()
	guard := w.hold(name, token)
	w.receive(lostNotice(lock(name, token), pb.LostReason_LOST_REASON_EXPIRED, ""))
	take[Lost](w)
	return guard
}

func TestAReleaseOfALostGrantIsNotSentIfItsOwnerHoldsTheLockAnew(t *testing.T) {
	w := open(t)
	guard := lost(w, "a", 5)
	anew := w.hold("a", 6)
	op := w.machine.NewID()
	w.step(Release{op, guard})
	if done := take[Done](w); done.Op != op || done.Failure.Kind != LostGrant ||
		done.Failure.Loss.Token != 5 {
		t.Fatalf("%v", done)
	}
	w.quiet() // a release would free the new grant
	w.step(Release{w.machine.NewID(), anew})
	if w.sent().GetRelease() == nil {
		t.Fatal("not released")
	}
}

func TestWithTheSameTokenItIsAFurtherHoldButOfAReaderThatIsUnknown(t *testing.T) {
	for mode, isSent := range map[pb.LockMode]bool{
		pb.LockMode_LOCK_MODE_EXCLUSIVE: true,
		pb.LockMode_LOCK_MODE_READ:      false,
	} {
		w := open(t)
		grant := lock("a", 5)
		grant.Mode = mode
		var guards []*Guard
		for range 2 {
			op := w.start(acquire("a"))
			w.sent()
			w.receive(granted(op, grant))
			guards = append(guards, take[Done](w).Guard)
			if len(guards) == 1 {
				w.receive(lostNotice(grant, pb.LostReason_LOST_REASON_EXPIRED, ""))
				take[Lost](w)
			}
		}
		w.step(Release{w.machine.NewID(), guards[0]})
		take[Done](w)
		if isSent {
			w.sent()
		}
		w.quiet()
	}
}

func TestOfSeveralLocksThoseThatAreHeldAnewAreNotReleased(t *testing.T) {
	w := open(t)
	op := w.start(acquireAll("a", "b", "c"))
	w.sent()
	all := []*pb.Grant{lock("a", 5), lock("b", 5), lock("c", 5)}
	for _, it := range all {
		it.Owner = "all"
	}
	w.receive(&pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_GrantedAll{
		GrantedAll: &pb.GrantedAll{Grants: all},
	}})
	guard := take[Done](w).Guard
	w.receive(lostNotice(all[0], pb.LostReason_LOST_REASON_EXPIRED, ""))
	take[Lost](w)
	op = w.start(acquireBy("a", "all"))
	w.sent()
	anew := lock("a", 6)
	anew.Owner = "all"
	w.receive(granted(op, anew))
	take[Done](w)
	w.step(Release{0, guard})
	release := w.sent()
	if left := release.GetReleaseAll(); left.GetOwner() != "all" || len(left.Locks) != 2 ||
		left.Locks[0].Name != "b" || left.Locks[1].Name != "c" {
		t.Fatalf("%v", release)
	}
	w.receive(&pb.SessionResponse{OpId: release.OpId, Response: &pb.SessionResponse_ReleasedAll{
		ReleasedAll: &pb.ReleaseAllResponse{},
	}})
	if resume := w.breaks(); len(resume.Grants) != 1 || resume.Grants[0].FencingToken != 6 {
		t.Fatalf("%v", resume)
	}
}

// releasing has a lock whose release is not answered for certain.
func releasing(w *world, token uint64) {
	w.t.Helper()
	op := w.machine.NewID()
	w.step(Release{op, w.hold("a", token)})
	w.sent()
	w.receive(failed(op, codes.Unavailable, outcomeUnknown, ""))
}

func TestAGrantIsNotValidForAsLongAsTheOneThatIsBeingReleased(t *testing.T) {
	w := open(t)
	releasing(w, 7)
	sentAt := w.now
	op := w.start(acquire("a"))
	w.sent()
	w.pass(10 * ms)
	grant := lock("a", 8)
	grant.Lease, grant.ValidFor = durationpb.New(time.Second), durationpb.New(time.Second)
	w.receive(granted(op, grant))
	if until := take[Done](w).Guard.ValidUntil(); until != sentAt+time.Second {
		t.Fatalf("valid for %v", until-sentAt)
	}
}

func TestALateGrantAfterOneThatIsBeingReleasedIsRenewedFirst(t *testing.T) {
	w := open(t)
	releasing(w, 7)
	op := w.start(acquire("a"))
	w.pass(2 * lease)
	w.effects = nil
	w.receive(granted(op, lock("a", 8)))
	renewal, sentAt := w.sent(), w.now
	if renewal.GetRenew() == nil {
		t.Fatalf("%v", renewal)
	}
	w.quiet()
	w.receive(renewed(renewal.OpId, lock("a", 8)))
	if done := take[Done](w); done.Op != op || done.Guard.ValidUntil() != sentAt+lease {
		t.Fatalf("%v", done)
	}
}

func TestANewerGrantIsNotValidForAsLongAsTheOlderOne(t *testing.T) {
	w := open(t)
	w.hold("a", 7)
	op := w.start(acquire("a"))
	w.sent()
	grant := lock("a", 8) // the notice that the older one is lost has not come
	grant.Lease, grant.ValidFor = durationpb.New(time.Second), durationpb.New(time.Second)
	w.receive(granted(op, grant))
	if until := take[Done](w).Guard.ValidUntil(); until != w.now+time.Second {
		t.Fatalf("valid for %v", until-w.now)
	}
}

func TestANewerGrantIsNotAskedToYieldLikeTheOlderOne(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.receive(yieldNotice(lock("a", 7), time.Minute))
	take[Asked](w)
	op := w.machine.NewID()
	w.step(Release{op, guard})
	w.sent()
	w.receive(failed(op, codes.Unavailable, outcomeUnknown, ""))
	w.hold("a", 8)
	w.quiet()
}

func TestARenewalByTheUserOfAnOlderGrantDoesNotLoseTheNewerOne(t *testing.T) {
	w := open(t)
	w.hold("a", 5)
	renewal := w.start(&pb.SessionRequest{Request: &pb.SessionRequest_Renew{
		Renew: &pb.RenewRequest{Name: "a", Owner: "owner of a"},
	}})
	w.sent()
	w.receive(lostNotice(lock("a", 5), pb.LostReason_LOST_REASON_EXPIRED, ""))
	take[Lost](w)
	w.hold("a", 6)
	w.receive(failed(renewal, codes.FailedPrecondition, notOwner, "expired"))
	if done := take[Done](w); done.Op != renewal || done.Failure == nil {
		t.Fatalf("%v", done)
	}
	w.quiet()
}
