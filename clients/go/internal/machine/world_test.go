package machine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

const (
	lease = 3 * time.Second
	ping  = 500 * time.Millisecond
	renew = 900 * time.Millisecond
	ms    = time.Millisecond
)

// world is a machine, the time, and what came out of the machine and was not looked at yet.
type world struct {
	t       *testing.T
	machine *Machine
	now     Instant
	effects []Effect
}

// newWorld has a machine that was not stepped yet.
func newWorld(t *testing.T, endpoints int) *world {
	names := []string{"http://a:1", "http://b:2"}[:endpoints]
	config := Config{Endpoints: names, Open: &pb.OpenSession{ClientName: "test"}}
	return &world{t: t, machine: New(config), now: time.Hour}
}

// open has an open session at the first of two endpoints.
func open(t *testing.T) *world {
	w := newWorld(t, 2)
	w.step(Tick{})
	if connect := take[Connect](w); connect.Endpoint != 0 || connect.First.GetOpen() == nil {
		t.Fatalf("not an open: %v", connect)
	}
	w.receive(opened())
	if changed := take[Changed](w); changed.State != Connected {
		t.Fatalf("not connected: %v", changed)
	}
	return w
}

func opened(grants ...*pb.Grant) *pb.SessionResponse {
	return &pb.SessionResponse{Response: &pb.SessionResponse_Opened{Opened: &pb.SessionOpened{
		SessionId: "id", ResumeToken: []byte("token"), Lease: durationpb.New(lease),
		PingInterval: durationpb.New(ping), RenewInterval: durationpb.New(renew), Grants: grants,
	}}}
}

// --- events

func (w *world) step(event Event) {
	w.effects = append(w.effects, slices.Clone(w.machine.Step(w.now, event))...)
}

func (w *world) receive(frame *pb.SessionResponse) { w.step(Received{frame}) }

// pass lets time pass, with a tick whenever the machine wants one. Pings are answered.
func (w *world) pass(d time.Duration) {
	w.passSilently(d, func(frame *pb.SessionRequest) bool {
		if frame.GetPing() == nil {
			return false
		}
		w.receive(&pb.SessionResponse{Response: &pb.SessionResponse_Pong{Pong: &pb.Pong{}}})
		return true
	})
}

// passSilently lets time pass; answer takes frames away.
func (w *world) passSilently(d time.Duration, answer func(*pb.SessionRequest) bool) {
	until := w.now + d
	for range 10_000 {
		at, ok := w.machine.WakeAt()
		if !ok || at > until {
			w.now = until
			return
		}
		w.now = max(w.now, at)
		w.step(Tick{})
		for answer != nil {
			i := slices.IndexFunc(w.effects, func(it Effect) bool {
				send, isSend := it.(Send)
				return isSend && answer(send.Frame)
			})
			if i < 0 {
				break
			}
			w.effects = slices.Delete(w.effects, i, i+1)
		}
	}
	w.t.Fatal("the machine wants to be woken without end")
}

// start starts an operation and returns its id.
func (w *world) start(request *pb.SessionRequest) uint64 {
	op := w.machine.NewID()
	w.step(Do{Op: op, Request: request})
	return op
}

func (w *world) startWait(request *pb.SessionRequest, limit time.Duration) uint64 {
	op, until := w.machine.NewID(), w.now+limit
	w.step(Do{Op: op, Request: request, WaitUntil: &until})
	return op
}

// breaks ends the stream, and passes the pause before the first attempt to resume.
func (w *world) breaks() *pb.ResumeSession {
	w.t.Helper()
	w.step(StreamEnded{Err: errors.New("reset"), Code: codes.Unavailable})
	if changed := take[Changed](w); changed.State != Resuming || changed.Cause != "reset" {
		w.t.Fatalf("not resuming: %v", changed)
	}
	w.pass(firstPauseMax)
	resume := take[Connect](w).First.GetResume()
	if resume != nil && !(resume.GetSendsPings() && resume.GetSendsClose()) {
		w.t.Fatal("it does not say that it sends pings and close")
	}
	return resume
}

// --- effects

// take removes the first effect of a kind, which must exist.
func take[E Effect](w *world) E {
	w.t.Helper()
	for i, effect := range w.effects {
		if it, ok := effect.(E); ok {
			w.effects = slices.Delete(w.effects, i, i+1)
			return it
		}
	}
	var none E
	w.t.Fatalf("no %T among %v", none, w.effects)
	return none
}

func count[E Effect](w *world) (n int) {
	for _, effect := range w.effects {
		if _, ok := effect.(E); ok {
			n++
		}
	}
	return n
}

// sent takes the next frame that was sent.
func (w *world) sent() *pb.SessionRequest {
	w.t.Helper()
	return take[Send](w).Frame
}

// quiet fails if there is an effect left.
func (w *world) quiet() {
	w.t.Helper()
	if len(w.effects) > 0 {
		w.t.Fatalf("unexpected: %v", w.effects)
	}
}

// --- messages

func acquire(name string) *pb.SessionRequest {
	return acquireBy(name, "owner of "+name)
}

func acquireBy(name, owner string) *pb.SessionRequest {
	return &pb.SessionRequest{Request: &pb.SessionRequest_Acquire{
		Acquire: &pb.AcquireRequest{Name: name, Owner: owner},
	}}
}

func acquireAll(names ...string) *pb.SessionRequest {
	it := &pb.AcquireAllRequest{Owner: "all"}
	for _, name := range names {
		it.Locks = append(it.Locks, &pb.LockSpec{Name: name})
	}
	return &pb.SessionRequest{Request: &pb.SessionRequest_AcquireAll{AcquireAll: it}}
}

func acquirePermits() *pb.SessionRequest {
	return &pb.SessionRequest{Request: &pb.SessionRequest_AcquirePermits{
		AcquirePermits: &pb.AcquirePermitsRequest{Name: "s", Permits: 2, Owner: "o"},
	}}
}

// lock is a watched grant with a full lease.
func lock(name string, token uint64) *pb.Grant {
	return &pb.Grant{
		Name: name, Owner: "owner of " + name, Mode: pb.LockMode_LOCK_MODE_EXCLUSIVE, HoldCount: 1,
		FencingToken: token, Lease: durationpb.New(lease), ValidFor: durationpb.New(lease),
		Watched: true,
	}
}

func permitsOf(ids ...string) *pb.PermitGrant {
	return &pb.PermitGrant{
		Name: "s", Owner: "o", Permits: uint32(len(ids)), PermitIds: ids,
		Lease: durationpb.New(lease), ValidFor: durationpb.New(lease), Watched: true,
	}
}

func granted(op uint64, grant *pb.Grant) *pb.SessionResponse {
	return &pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_Granted{Granted: grant}}
}

func renewed(op uint64, grant *pb.Grant) *pb.SessionResponse {
	return &pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_Renewed{
		Renewed: &pb.RenewResponse{Grant: grant},
	}}
}

func released(op uint64) *pb.SessionResponse {
	return &pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_Released{
		Released: &pb.ReleaseResponse{Released: true},
	}}
}

func lostNotice(grant *pb.Grant, reason pb.LostReason, detail string) *pb.SessionResponse {
	return &pb.SessionResponse{Response: &pb.SessionResponse_Lost{
		Lost: &pb.GrantLost{Grant: grant, Reason: reason, Detail: detail},
	}}
}

func failed(op uint64, code codes.Code, reason, state string) *pb.SessionResponse {
	details := []protoadapt.MessageV1{
		&errdetails.ErrorInfo{
			Reason: reason, Domain: "lockkeeper", Metadata: map[string]string{"state": state},
		},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(100 * ms)},
	}
	it, err := status.New(code, "it failed").WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return &pb.SessionResponse{OpId: op, Response: &pb.SessionResponse_Failed{Failed: it.Proto()}}
}

// hold acquires a lock.
func (w *world) hold(name string, token uint64) *Guard {
	w.t.Helper()
	op := w.start(acquire(name))
	w.sent()
	w.receive(granted(op, lock(name, token)))
	done := take[Done](w)
	if done.Op != op || done.Guard == nil {
		w.t.Fatalf("not granted: %v", done.Failure)
	}
	return done.Guard
}
