package lockkeeper

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// callTimeout limits a call that does not wait. It is longer than a coordinator waits for its
// store.
const callTimeout = 10 * time.Second

// LeasedLock is a lock for an owner that outlives a process, or for an occasional call: it needs no
// session. Nothing renews it and nothing reports its loss. Its owner can renew and release it from
// any process.
type LeasedLock struct {
	// Note is what TryAcquire says about the hold, for others to read. It may be empty.
	Note Note
	// HoldAtLeast is how long the lock stays held at least, also after a release; see
	// [WithHoldAtLeast]. It may be 0.
	HoldAtLeast time.Duration
	// LockDelay is for how long the lock stays closed after its lease has ended without a release;
	// see [WithLockDelay]. It may be 0.
	LockDelay time.Duration

	client      *Client
	name, owner string
}

// Lease is what a [LeasedLock] obtained.
type Lease struct {
	// FencingToken is larger for each new grant of the lock.
	FencingToken uint64
	// ValidUntil is until when the owner certainly holds the lock. Go compares it by a clock that
	// may stand still while the machine is suspended; see [Lease.ValidFor].
	ValidUntil time.Time

	validUntil machine.Instant
}

// ValidFor is for how long the owner certainly holds the lock from now on. On Linux, it also
// shrinks while the machine is suspended. It is 0 when that is over.
func (l Lease) ValidFor() time.Duration { return max(0, l.validUntil-now()) }

// Leased returns a lock that an owner holds without a session. An empty owner is replaced by a
// random one. It does nothing by itself.
func (c *Client) Leased(name, owner string) *LeasedLock {
	if owner == "" {
		owner = rand.Text()
	}
	return &LeasedLock{client: c, name: name, owner: owner}
}

// Owner is the owner. Anyone who knows it can act as that owner, unless the coordinator
// authenticates its callers.
func (l *LeasedLock) Owner() string { return l.owner }

// TryAcquire acquires the lock for a lease if it is available now. 0 is the coordinator's default
// (30 s). If it is not available, it fails with a [*NotGrantedError].
func (l *LeasedLock) TryAcquire(ctx context.Context, lease time.Duration) (Lease, error) {
	sentAt := now()
	answer, err := unary(ctx, l.client, pb.NewLockServiceClient,
		pb.LockServiceClient.TryAcquire, &pb.TryAcquireRequest{
			Name: l.name, Owner: l.owner, Lease: optional(lease), RequestId: rand.Text(),
			Note: l.Note.pb(), HoldAtLeast: optional(l.HoldAtLeast),
			LockDelay: optional(l.LockDelay),
		})
	if err != nil {
		return Lease{}, err
	}
	if !answer.Acquired {
		return Lease{}, &NotGrantedError{
			Name: l.name, Reason: WaitTimeout, HolderNote: noteOf(answer.HolderNote),
			HolderLease: answer.HolderRemainingLease.AsDuration(),
		}
	}
	return leaseOf(sentAt, answer.Grant), nil
}

// Renew extends the lease from now. 0 is the coordinator's default (30 s). It fails with a
// [*RefusedError], which is an [ErrLost], if the owner does not hold the lock.
func (l *LeasedLock) Renew(ctx context.Context, lease time.Duration) (Lease, error) {
	sentAt := now()
	answer, err := unary(ctx, l.client, pb.NewLockServiceClient,
		pb.LockServiceClient.Renew, &pb.RenewRequest{
			Name: l.name, Owner: l.owner, Lease: optional(lease),
		})
	if err != nil {
		return Lease{}, err
	}
	return leaseOf(sentAt, answer.Grant), nil
}

// Release releases the lock. It fails with a [*RefusedError], which is an [ErrLost], if the owner
// does not hold it.
func (l *LeasedLock) Release(ctx context.Context) error {
	_, err := unary(ctx, l.client, pb.NewLockServiceClient,
		pb.LockServiceClient.Release, &pb.ReleaseRequest{
			Name: l.name, Owner: l.owner, RequestId: rand.Text(),
		})
	return err
}

func leaseOf(sentAt machine.Instant, grant *pb.Grant) Lease {
	until := sentAt + grant.GetValidFor().AsDuration()
	return Lease{grant.GetFencingToken(), time.Now().Add(until - now()), until}
}

// LockState is what a lock was when the store was read.
type LockState struct {
	// Holders is the number of owners that hold the lock.
	Holders uint32
	// Waiters is the number of waiters: of a fair lock in the whole store, otherwise on the queried
	// coordinator.
	Waiters uint32
	// LastFencingToken is the token of the newest grant; 0 if none is known.
	LastFencingToken uint64
	// RemainingLease is the remaining lease; 0 if the lock is not held.
	RemainingLease time.Duration
	// HeldBy are the holders, at most the first 1,000.
	HeldBy []Holder
}

// Holder is an owner that holds a lock.
type Holder struct {
	// Owner is the owner within its session, or the owner without one. It is a digest if the
	// coordinator authenticates callers and the owner is another's.
	Owner string
	// ClientName is the name of [WithClientName]; empty if the queried coordinator does not serve
	// the session.
	ClientName string
	// Mode is how the owner holds the lock.
	Mode Mode
	// RemainingLease is the remaining lease; 0 if it has no end.
	RemainingLease time.Duration
	// Note is why it holds the lock; nil if it gave none. Of more than 200 readers, only the first
	// ones are shown with their notes.
	Note *Note
}

// Describe returns what a lock is. It uses the session if one is open, and opens none.
func (c *Client) Describe(ctx context.Context, name string) (LockState, error) {
	request := &pb.DescribeRequest{Name: name}
	frame := &pb.SessionRequest{Request: &pb.SessionRequest_Describe{Describe: request}}
	answer, isOpen, err := c.doIfOpen(ctx, frame)
	it := answer.GetDescribed()
	if !isOpen {
		it, err = unary(ctx, c, pb.NewLockServiceClient, pb.LockServiceClient.Describe, request)
	}
	return LockState{
		it.GetHolderCount(), it.GetWaiterCount(), it.GetLastFencingToken(),
		it.GetRemainingLease().AsDuration(), holdersOf(it.GetHolders()),
	}, err
}

func holdersOf(all []*pb.Holder) (holders []Holder) {
	for _, it := range all {
		holders = append(holders, Holder{
			it.Owner, it.ClientName, Mode(it.Mode), it.RemainingLease.AsDuration(),
			noteOf(it.Note),
		})
	}
	return holders
}

// CheckToken returns whether a fencing token belongs to the newest grant of a lock. It is for
// resources that cannot compare tokens: a newer grant can follow at any time. It uses the session
// if one is open, and opens none.
func (c *Client) CheckToken(ctx context.Context, name string, token uint64) (bool, error) {
	request := &pb.CheckTokenRequest{Name: name, FencingToken: token}
	frame := &pb.SessionRequest{Request: &pb.SessionRequest_CheckToken{CheckToken: request}}
	answer, isOpen, err := c.doIfOpen(ctx, frame)
	it := answer.GetTokenChecked()
	if !isOpen {
		it, err = unary(ctx, c, pb.NewLockServiceClient, pb.LockServiceClient.CheckToken, request)
	}
	return it.GetCurrent(), err
}

// Conn is a connection to the first coordinator that answers, for generated clients such as
// lockkeeperpb.NewLockAdminServiceClient. It is closed by [Client.Close].
func (c *Client) Conn() (grpc.ClientConnInterface, error) {
	it, err := c.direct(0)
	if err != nil {
		return nil, err
	}
	return it.conn, nil
}

// direct is a connection for calls without a session.
type direct struct {
	conn   *grpc.ClientConn
	first  address
	faults faults
}

// direct returns the connection that tries an endpoint first, then those after it, then the others.
func (c *Client) direct(first int) (*direct, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return nil, &SessionEndedError{"the client was closed"}
	}
	if it := c.conns[first]; it != nil {
		return it, nil
	}
	all := c.config.addresses
	it := &direct{first: all[first]}
	var err error
	it.conn, err = connection(c.config, slices.Concat(all[first:], all[:first]), &it.faults)
	if err != nil {
		return nil, err
	}
	c.conns[first] = it
	return it, nil
}

// explain says why a call failed.
func (d *direct) explain(err error) error {
	_, err = d.faults.explain(err, d.first)
	return err
}

// unary makes a call without a session, at the endpoint that answered last or at those after it.
func unary[S, In, Out any](
	ctx context.Context, c *Client, stub func(grpc.ClientConnInterface) S,
	method func(S, context.Context, In, ...grpc.CallOption) (Out, error), request In,
) (Out, error) {
	return unaryAt(ctx, c, len(c.config.addresses), stub, method, request)
}

// unaryAt is unary, at so many endpoints at most.
func unaryAt[S, In, Out any](
	ctx context.Context, c *Client, endpoints int, stub func(grpc.ClientConnInterface) S,
	method func(S, context.Context, In, ...grpc.CallOption) (Out, error), request In,
) (Out, error) {
	var none Out
	var refusal error
	limited, cancel := context.WithTimeout(traced(ctx), callTimeout)
	defer cancel()
	first := int(c.answered.Load())
	for i := range endpoints {
		endpoint := (first + i) % len(c.config.addresses)
		direct, err := c.direct(endpoint)
		if err != nil {
			return none, err
		}
		answer, err := method(stub(direct.conn), limited, request)
		switch {
		case err == nil:
			c.answered.Store(int32(endpoint))
			return answer, nil
		case ctx.Err() != nil:
			return none, context.Cause(ctx)
		case refusal == nil || limited.Err() == nil:
			refusal = direct.explain(err)
		}
		if limited.Err() != nil || !isElsewhere(err) {
			break
		}
	}
	return none, refusal
}

// isElsewhere is whether a call has changed nothing, and another coordinator may execute it.
func isElsewhere(err error) bool {
	reason := machine.ErrorInfo(status.Convert(err)).GetReason()
	return reason == "DRAINING" || reason == "STORE_UNAVAILABLE"
}
