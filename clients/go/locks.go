package lockkeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Mode is how a lock is held.
type Mode int

// The modes of a lock. [Exclusive] and [Fair] are the same lock; so are the two sides of a
// read/write lock, [Read] and [Write]. A name is either one or the other kind of lock.
const (
	// Exclusive: one owner at a time.
	Exclusive Mode = Mode(pb.LockMode_LOCK_MODE_EXCLUSIVE)
	// Fair: one owner at a time, in order of arrival across all coordinators.
	Fair Mode = Mode(pb.LockMode_LOCK_MODE_FAIR)
	// Read: shared with other readers.
	Read Mode = Mode(pb.LockMode_LOCK_MODE_READ)
	// Write: one owner at a time, without other readers.
	Write Mode = Mode(pb.LockMode_LOCK_MODE_WRITE)
)

// Lock waits for a lock and acquires it. The wait ends with the context, or [WithWaitTimeout]. If
// the context ends it, what is granted nevertheless is released.
//
// It fails with a [*NotGrantedError], the error of the context, an [*UnreachableError], a
// [*RefusedError] or a [*SessionEndedError].
func (c *Client) Lock(ctx context.Context, name string, options ...AcquireOption) (*Grant, error) {
	return c.acquire(ctx, options, true, func(o *acquireOptions) *pb.SessionRequest {
		return &pb.SessionRequest{Request: &pb.SessionRequest_Acquire{Acquire: &pb.AcquireRequest{
			Name: name, Mode: o.pbMode(), Owner: o.owner, Lease: o.pbLease(),
			MinReplicaAcks: o.replicas, Note: o.note.pb(), HoldAtLeast: optional(o.holdAtLeast),
			LockDelay: optional(o.lockDelay), EndOnDeadlock: o.endOnDeadlock,
			Preferred: o.preferred,
		}}}
	})
}

// WithLock waits for a lock, works under it, and releases it. The context of the work is
// [Grant.Context]: it is cancelled when the lock is lost.
//
// It fails like [Client.Lock] and then does no work, or with the error of the work, joined with a
// [*LostError] if the lock was lost meanwhile.
func (c *Client) WithLock(
	ctx context.Context, name string, work func(context.Context, *Grant) error,
	options ...AcquireOption,
) (err error) {
	grant, err := c.Lock(ctx, name, options...)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, grant.Unlock(context.WithoutCancel(ctx)))
	}()
	return work(grant.Context(), grant)
}

// RLock is [Client.Lock] for the reading side of a read/write lock. For the other side, use
// [WithMode] and [Write].
func (c *Client) RLock(ctx context.Context, name string, options ...AcquireOption) (*Grant, error) {
	return c.Lock(ctx, name, append(slices.Clone(options), WithMode(Read))...)
}

// TryLock acquires a lock if it is available now. If it is not, it fails with a [*NotGrantedError],
// which is an [ErrLocked]. If no coordinator answers, it ends after 6 s, or [WithPatience], once
// the session is open.
func (c *Client) TryLock(
	ctx context.Context, name string, options ...AcquireOption,
) (*Grant, error) {
	return c.acquire(ctx, options, false, func(o *acquireOptions) *pb.SessionRequest {
		try := &pb.TryAcquireRequest{
			Name: name, Mode: o.pbMode(), Owner: o.owner, Lease: o.pbLease(),
			MinReplicaAcks: o.replicas, Note: o.note.pb(), HoldAtLeast: optional(o.holdAtLeast),
			LockDelay: optional(o.lockDelay),
		}
		return &pb.SessionRequest{Request: &pb.SessionRequest_TryAcquire{TryAcquire: try}}
	})
}

// LockAll waits for several locks and acquires all of them or none, in one mode. Calls that name
// the same locks in another order cannot deadlock. The grant is lost as soon as one of the locks
// is.
//
// It fails like [Client.Lock].
func (c *Client) LockAll(
	ctx context.Context, names []string, options ...AcquireOption,
) (*Grant, error) {
	return c.acquire(ctx, options, true, func(o *acquireOptions) *pb.SessionRequest {
		acquire := &pb.AcquireAllRequest{
			Locks: o.specs(names), Owner: o.owner, Lease: o.pbLease(), MinReplicaAcks: o.replicas,
			Note: o.note.pb(), EndOnDeadlock: o.endOnDeadlock,
		}
		return &pb.SessionRequest{Request: &pb.SessionRequest_AcquireAll{AcquireAll: acquire}}
	})
}

// TryLockAll acquires several locks if all of them are available now. If they are not, it acquires
// none and fails with a [*NotGrantedError], which is an [ErrLocked].
func (c *Client) TryLockAll(
	ctx context.Context, names []string, options ...AcquireOption,
) (*Grant, error) {
	return c.acquire(ctx, options, false, func(o *acquireOptions) *pb.SessionRequest {
		try := &pb.TryAcquireAllRequest{
			Locks: o.specs(names), Owner: o.owner, Lease: o.pbLease(), MinReplicaAcks: o.replicas,
			Note: o.note.pb(),
		}
		return &pb.SessionRequest{Request: &pb.SessionRequest_TryAcquireAll{TryAcquireAll: try}}
	})
}

// acquire runs a request that ends with a grant.
func (c *Client) acquire(
	ctx context.Context, options []AcquireOption, waits bool,
	request func(*acquireOptions) *pb.SessionRequest,
) (*Grant, error) {
	given, err := newAcquireOptions(options)
	if err != nil {
		return nil, err
	}
	if given.wait != nil && !waits {
		return nil, misconfigured("wait timeout", "a try does not wait")
	}
	session, err := c.current()
	if err != nil {
		return nil, err
	}
	if given.owner == "" {
		given.owner = session.newOwner()
	}
	acquire := request(given)
	if err := given.check(acquire); err != nil {
		return nil, err
	}
	call, err := session.do(ctx, acquire, given.wait)
	if err != nil {
		return nil, err
	}
	if call.grant == nil {
		return nil, fmt.Errorf("lockkeeper: unexpected answer %T", call.answer.GetResponse())
	}
	return call.grant, nil
}

// newOwner is one that no other call of this session has.
func (s *Session) newOwner() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "call-" + strconv.FormatUint(s.machine.NewID(), 10)
}

func (o *acquireOptions) pbMode() pb.LockMode {
	if o.mode == 0 {
		return pb.LockMode_LOCK_MODE_EXCLUSIVE
	}
	return pb.LockMode(o.mode)
}

func (o *acquireOptions) pbLease() *durationpb.Duration { return optional(o.lease) }

func (o *acquireOptions) specs(names []string) []*pb.LockSpec {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	specs := make([]*pb.LockSpec, len(names))
	for i, name := range names {
		specs[i] = &pb.LockSpec{Name: name, Mode: o.pbMode()}
	}
	return specs
}

// optional is unset if d is 0.
func optional(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
