package lockkeeper

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// maxYields is how many requests to yield a grant keeps unread.
const maxYields = 8

// YieldRequest is a request of another caller to release a lock. See [Grant.YieldRequested].
type YieldRequest struct {
	// Name is the lock.
	Name string
	// By is who asks, for people. May be empty.
	By string
	// Reason is why, for people.
	Reason string
	// Deadline is until when the request stands.
	Deadline time.Time
	// Preempts is whether the lock is taken away then.
	Preempts bool
}

// YieldRequested receives the requests of other callers to release a lock of the grant, also those
// that stood when it was acquired. The grant stays valid: finish the work, call [Grant.Unlock], or
// go on. But if the request preempts, the lock is lost at its deadline. After a broken stream the
// same request can come again. The channel is never closed, and keeps the newest 8 unread requests.
func (g *Grant) YieldRequested() <-chan YieldRequest {
	g.session.mu.Lock()
	defer g.session.mu.Unlock()
	return g.yieldsLocked()
}

func (g *Grant) yieldsLocked() chan YieldRequest {
	if g.yields == nil {
		g.yields = make(chan YieldRequest, maxYields)
	}
	return g.yields
}

// ask is called with the session's mutex locked.
func (g *Grant) ask(asked machine.YieldRequest) {
	request := YieldRequest{
		asked.Name, asked.By, asked.Reason, time.Now().Add(asked.Deadline - now()), asked.Preempts,
	}
	yields := g.yieldsLocked()
	for {
		select {
		case yields <- request:
			return
		default:
		}
		select {
		case <-yields: // the oldest
		default:
		}
	}
}

// Yield says how to ask for a lock. See [Client.RequestYield].
type Yield struct {
	// Reason is why, for the holders: 1 to 256 bytes, without control characters.
	Reason string
	// Within is how long the request stands, at most 1 h. 0 is 30 s.
	Within time.Duration
	// Preempt takes the lock from holders that still hold it then. It needs the right preempt.
	Preempt bool
	// GracePeriod is how long a preempted lock stays closed at most, while its former holders stop.
	// 0 is for as long as their leases last, so that nobody else is granted the lock while one of
	// them may rely on it; a shorter one gives that up.
	GracePeriod time.Duration
}

// YieldAnswer says which holders of a lock were asked to release it.
type YieldAnswer struct {
	// Reached are the holders that have the request, and Unreached the others: Redisson clients,
	// owners without a session, sessions without a stream. Both are at most the first 100, and
	// empty without the right describe.
	Reached, Unreached []Holder
	// Holders is the number of holders; 0 if the lock is free.
	Holders uint32
	// ReachedCount is the number of those in Reached, also without that right.
	ReachedCount uint32
}

// RequestYield asks the holders of a lock to release it, with the client's name as the name of the
// caller. They may do so, finish their work first, or ignore it, unless the request preempts. It
// returns when all of them have the request, or after 1 s; the coordinator goes on to look for the
// others. It uses no session.
//
// It fails with an [*UnreachableError] or a [*RefusedError]. It is not retried then: the holders
// may have the request.
func (c *Client) RequestYield(
	ctx context.Context, name string, request Yield,
) (YieldAnswer, error) {
	if request.Within < 0 || request.GracePeriod < 0 {
		return YieldAnswer{}, misconfigured("yield", "a duration is negative")
	}
	// At no other endpoint: the holders may have the request.
	it, err := unaryAt(ctx, c, 1, pb.NewLockServiceClient,
		pb.LockServiceClient.RequestYield, &pb.RequestYieldRequest{
			Name: name, Reason: request.Reason, Within: optional(request.Within),
			ClientName: c.config.clientName, Preempt: request.Preempt,
			GracePeriod: optional(request.GracePeriod),
		})
	return YieldAnswer{
		holdersOf(it.GetReached()), holdersOf(it.GetUnreached()),
		it.GetHolderCount(), it.GetReachedCount(),
	}, err
}

// Explain returns why a lock or a semaphore is waited for: its holders, what they wait for, and so
// on, and the deadlocks among them. It needs the right describe. It uses no session, and takes up
// to two seconds if there is a cycle.
//
// It fails with an [*UnreachableError] or a [*RefusedError].
func (c *Client) Explain(ctx context.Context, name string) (*pb.ExplainResponse, error) {
	return unary(ctx, c, pb.NewLockServiceClient,
		pb.LockServiceClient.Explain, &pb.ExplainRequest{Name: name})
}
