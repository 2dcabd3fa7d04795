package machine

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

func yieldNotice(grant *pb.Grant, within time.Duration) *pb.SessionResponse {
	return &pb.SessionResponse{Response: &pb.SessionResponse_YieldRequested{
		YieldRequested: &pb.YieldRequested{
			Grant: grant, By: "ci", Reason: "release", Within: durationpb.New(within),
			Preempt: true,
		},
	}}
}

func TestARequestToYieldIsReportedToAllGuards(t *testing.T) {
	w := open(t)
	guards := []*Guard{w.hold("a", 7), w.hold("a", 7)}
	w.hold("b", 8)
	w.receive(yieldNotice(lock("a", 7), time.Minute))
	want := YieldRequest{"a", "ci", "release", w.now + time.Minute, true}
	for _, guard := range guards {
		if asked := take[Asked](w); asked.Guard != guard || asked.Request != want {
			t.Fatalf("%v", asked)
		}
	}
	w.quiet() // nothing is lost or released
}

func TestARequestToYieldOfAnotherGrantIsIgnored(t *testing.T) {
	w := open(t)
	w.hold("a", 7)
	other := lock("a", 7)
	other.Owner = "another"
	for _, grant := range []*pb.Grant{lock("a", 6), lock("a", 8), lock("b", 7), other, nil} {
		w.receive(yieldNotice(grant, time.Minute))
		w.quiet()
	}
}

func TestARequestToYieldWhatIsReleasedIsIgnored(t *testing.T) {
	w := open(t)
	guard := w.hold("a", 7)
	w.step(Release{w.machine.NewID(), guard})
	w.sent()
	w.receive(yieldNotice(lock("a", 7), time.Minute))
	w.quiet()
}

func TestARequestToYieldThatStandsIsReportedWithALateGrant(t *testing.T) {
	for within, stands := range map[time.Duration]bool{time.Minute: true, 50 * ms: false} {
		w := open(t)
		op := w.start(acquire("a"))
		w.pass(lease / 2)
		w.effects = nil
		w.receive(granted(op, lock("a", 7)))
		renewal := w.sent()
		w.receive(yieldNotice(lock("a", 7), within))
		w.quiet() // there is no guard yet
		w.pass(100 * ms)
		w.receive(renewed(renewal.OpId, lock("a", 7)))
		guard := take[Done](w).Guard
		if stands && take[Asked](w).Guard != guard {
			t.Fatal("another guard")
		}
		w.quiet()
	}
}

func TestANextHoldOfTheOwnerIsAskedToo(t *testing.T) {
	w := open(t)
	w.hold("a", 7)
	w.receive(yieldNotice(lock("a", 7), time.Minute))
	take[Asked](w)
	next := w.hold("a", 7)
	if asked := take[Asked](w); asked.Guard != next {
		t.Fatal("another guard")
	}
}
