package lockkeeper

import (
	"context"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Semaphore is a number of permits that callers share. Permits have no fencing tokens.
type Semaphore struct {
	client *Client
	name   string
}

// SemaphoreState is what a semaphore had when the store was read.
type SemaphoreState struct {
	// Permits is the total number of permits; 0 if the semaphore does not exist.
	Permits uint32
	// Available is the number of free permits. It is negative while more permits are held than the
	// semaphore has.
	Available int64
	// Holders is the number of owners that hold permits.
	Holders uint32
	// Waiters is the number of waiters on the queried coordinator.
	Waiters uint32
}

// Semaphore returns the semaphore with a name. It does nothing by itself.
func (c *Client) Semaphore(name string) *Semaphore { return &Semaphore{c, name} }

// SetPermits sets the total number of permits, and creates the semaphore if there is none. 0
// removes it. Permits that are held stay held.
func (s *Semaphore) SetPermits(ctx context.Context, permits uint32) error {
	set := &pb.SetPermitsRequest{Name: s.name, Permits: permits}
	_, err := s.client.do(ctx,
		&pb.SessionRequest{Request: &pb.SessionRequest_SetPermits{SetPermits: set}})
	return err
}

// CreatePermits sets the total number of permits if the semaphore does not exist, and returns how
// many it has.
func (s *Semaphore) CreatePermits(ctx context.Context, permits uint32) (uint32, error) {
	set := &pb.SetPermitsRequest{Name: s.name, Permits: permits, OnlyIfAbsent: true}
	answer, err := s.client.do(ctx,
		&pb.SessionRequest{Request: &pb.SessionRequest_SetPermits{SetPermits: set}})
	return answer.GetPermitsSet().GetTotal(), err
}

// Acquire waits for permits and acquires all of them or none. It fails like [Client.Lock], and with
// a [*RefusedError] if the semaphore does not exist or never has as many permits.
func (s *Semaphore) Acquire(
	ctx context.Context, permits uint32, options ...AcquireOption,
) (*Grant, error) {
	return s.client.acquire(ctx, options, true, func(o *acquireOptions) *pb.SessionRequest {
		acquire := &pb.AcquirePermitsRequest{
			Name: s.name, Permits: permits, Owner: o.owner, Lease: o.pbLease(),
			MinReplicaAcks: o.replicas,
		}
		frame := &pb.SessionRequest_AcquirePermits{AcquirePermits: acquire}
		return &pb.SessionRequest{Request: frame}
	})
}

// TryAcquire acquires permits if they are free now. If they are not, it fails with a
// [*NotGrantedError], which is an [ErrLocked].
func (s *Semaphore) TryAcquire(
	ctx context.Context, permits uint32, options ...AcquireOption,
) (*Grant, error) {
	return s.client.acquire(ctx, options, false, func(o *acquireOptions) *pb.SessionRequest {
		try := &pb.TryAcquirePermitsRequest{
			Name: s.name, Permits: permits, Owner: o.owner, Lease: o.pbLease(),
			MinReplicaAcks: o.replicas,
		}
		frame := &pb.SessionRequest_TryAcquirePermits{TryAcquirePermits: try}
		return &pb.SessionRequest{Request: frame}
	})
}

// Describe returns what the semaphore has.
func (s *Semaphore) Describe(ctx context.Context) (SemaphoreState, error) {
	describe := &pb.SessionRequest_DescribeSemaphore{
		DescribeSemaphore: &pb.DescribeSemaphoreRequest{Name: s.name},
	}
	answer, err := s.client.do(ctx, &pb.SessionRequest{Request: describe})
	it := answer.GetSemaphoreDescribed()
	return SemaphoreState{
		it.GetTotal(), it.GetAvailable(), it.GetHolderCount(), it.GetWaiterCount(),
	}, err
}
