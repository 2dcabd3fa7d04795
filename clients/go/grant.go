package lockkeeper

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Grant is what an acquire obtained: a lock, several locks, or permits of a semaphore. It is
// renewed until [Grant.Unlock], unless it was acquired [WithLease].
type Grant struct {
	session *Session
	guard   *machine.Guard
	ctx     context.Context
	cancel  context.CancelCauseFunc
	lost    chan struct{}

	// The following are protected by the session's mutex.

	err      *LostError
	released *call
	// yields is made when it is first needed.
	yields chan YieldRequest
}

// newGrant is called with the session's mutex locked.
func newGrant(ctx context.Context, session *Session, guard *machine.Guard) *Grant {
	it := &Grant{session: session, guard: guard, lost: make(chan struct{})}
	it.ctx, it.cancel = context.WithCancelCause(ctx)
	return it
}

// lose is called with the session's mutex locked.
func (g *Grant) lose(err *LostError) {
	g.err = err
	close(g.lost)
	g.cancel(err)
}

// Context is for the work under the lock. It has the values of the context that the grant was
// acquired with, and is cancelled with it. It is also cancelled when the grant is lost, with a
// [*LostError] as [context.Cause], and by [Grant.Unlock], with [ErrReleased].
func (g *Grant) Context() context.Context { return g.ctx }

// Lost is closed when the grant, or one of several locks, is lost. Another owner may hold it from
// then on. It stays open if the grant is released first.
func (g *Grant) Lost() <-chan struct{} { return g.lost }

// Err is why the grant was lost, a [*LostError]; nil if it was not.
func (g *Grant) Err() error {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	if g.err == nil {
		return nil
	}
	return g.err
}

// FencingToken is larger for each new grant of the lock. Send it with every write, so that the
// resource can refuse a smaller one than it has seen. It is 0 for permits; for several locks, see
// [Grant.FencingTokens]. A reader's token is that of the last writer.
func (g *Grant) FencingToken() uint64 {
	if len(g.guard.Locks) != 1 {
		return 0
	}
	return g.guard.Locks[0].FencingToken
}

// FencingTokens are the fencing tokens by the names of the locks; empty for permits.
func (g *Grant) FencingTokens() map[string]uint64 {
	tokens := make(map[string]uint64, len(g.guard.Locks))
	for _, lock := range g.guard.Locks {
		tokens[lock.Name] = lock.FencingToken
	}
	return tokens
}

// PermitIDs are the ids of permits; empty for locks. They are secrets.
func (g *Grant) PermitIDs() []string { return g.guard.Permits.GetPermitIds() }

// ValidFor is for how long the grant is certainly held, whatever happens to the coordinator. It
// grows with each renewal. On Linux, it also shrinks while the machine is suspended. It is 0 if the
// grant was lost or released.
func (g *Grant) ValidFor() time.Duration {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	if g.err != nil || g.released != nil {
		return 0
	}
	return max(0, g.guard.ValidUntil()-now())
}

// ValidUntil is when [Grant.ValidFor] ends, or the zero time if that is 0. It moves with each
// renewal. Go compares it by a clock that may stand still while the machine is suspended: do not
// keep it over a suspension.
func (g *Grant) ValidUntil() time.Time {
	at := time.Now()
	left := g.ValidFor()
	if left == 0 {
		return time.Time{}
	}
	return at.Add(left)
}

// Renew renews the grant now, for a lease, or for the one it had if lease is 0. It never shortens a
// lease. Only grants that were acquired [WithLease] need it.
//
// It fails with a [*LostError] if the grant is not held any more.
func (g *Grant) Renew(ctx context.Context, lease time.Duration) error {
	if lease < 0 {
		return misconfigured("lease", "%v is negative", lease)
	}
	if err := g.Err(); err != nil {
		return err
	}
	var given *durationpb.Duration
	if lease > 0 {
		given = durationpb.New(lease)
	}
	for _, request := range g.renewals(given) {
		if _, err := g.session.do(ctx, request, nil); err != nil {
			return err
		}
	}
	return nil
}

func (g *Grant) renewals(lease *durationpb.Duration) []*pb.SessionRequest {
	if it := g.guard.Permits; it != nil {
		renew := &pb.RenewPermitsRequest{
			Name: it.Name, Owner: it.Owner, PermitIds: it.PermitIds, Lease: lease,
		}
		frame := &pb.SessionRequest_RenewPermits{RenewPermits: renew}
		return []*pb.SessionRequest{{Request: frame}}
	}
	var requests []*pb.SessionRequest
	for _, it := range g.guard.Locks {
		renew := &pb.RenewRequest{Name: it.Name, Owner: it.Owner, Mode: it.Mode, Lease: lease}
		frame := &pb.SessionRequest_Renew{Renew: renew}
		requests = append(requests, &pb.SessionRequest{Request: frame})
	}
	return requests
}

// Unlock releases what the grant holds, and waits until that has taken effect. The release is sent
// in any case, and goes on if the context is done first: then the error is that of the context.
// Only the first call releases; others return what it returns.
//
// It fails with a [*LostError] if the grant was lost before.
func (g *Grant) Unlock(ctx context.Context) error {
	g.session.mu.Lock()
	if g.released == nil {
		g.released = g.session.releaseLocked(g.guard)
	}
	released := g.released
	g.session.mu.Unlock()
	g.cancel(ErrReleased)
	select {
	case <-released.done:
		return released.err
	case <-ctx.Done():
	}
	select {
	case <-released.done:
		return released.err
	default:
		return context.Cause(ctx)
	}
}
