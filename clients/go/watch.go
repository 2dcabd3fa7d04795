package lockkeeper

import (
	"context"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// AwaitFree waits until a lock has no holder, and acquires nothing: any owner may hold the lock
// when it returns. It goes on at the next endpoint if the coordinator or the connection fails. The
// wait ends with the context, or [WithWaitTimeout], the only option that has an effect. It uses no
// session, and needs the right describe.
//
// It fails with a [*NotGrantedError] when the wait timeout has passed, at most 10 s later if no
// coordinator answers, or just before the deadline of the context; with the error of the context;
// or with a [*RefusedError] if the same request would be refused again. Before a coordinator has
// answered, it also fails with an [*UnreachableError].
func (c *Client) AwaitFree(ctx context.Context, name string, options ...AcquireOption) error {
	given, err := newAcquireOptions(options)
	if err != nil {
		return err
	}
	var until time.Time
	if given.wait != nil {
		until = time.Now().Add(*given.wait)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, until.Add(callTimeout),
			&NotGrantedError{Name: name, Reason: WaitTimeout})
		defer cancel()
	}
	request := func() *pb.AwaitFreeRequest {
		it := &pb.AwaitFreeRequest{Name: name}
		if given.wait != nil {
			it.WaitTimeout = durationpb.New(max(0, time.Until(until)))
		}
		return it
	}
	var notFree *pb.NotGranted
	take := func(answer *pb.AwaitFreeResponse, _ bool) bool {
		notFree = answer.GetNotFree()
		return answer.GetFree() == nil && notFree == nil
	}
	err = follow(ctx, c, pb.NewLockServiceClient, pb.LockServiceClient.AwaitFree, request, take)
	if err == nil && notFree != nil {
		return notGranted(name, notFree)
	}
	return err
}

// WatchLock watches what happens to a lock, on all coordinators and by Redisson clients: first its
// state, then each grant, each end of a grant, and the number of waiters, in order. What may not
// have been seen is a gap. If the coordinator or the connection fails, it goes on at the next
// endpoint, for as long as that takes: with a gap for the reason UNHEARD, and the state at that
// time. It uses no session, and needs the right describe.
//
// The sequence ends with an error, whose event is nil: that of the context, or a [*RefusedError] if
// the same request would be refused again. Before anything was seen, it also ends with an
// [*UnreachableError].
func (c *Client) WatchLock(
	ctx context.Context, name string,
) iter.Seq2[*pb.WatchLockResponse, error] {
	return func(yield func(*pb.WatchLockResponse, error) bool) {
		gap := &pb.WatchLockResponse{Event: &pb.WatchLockResponse_Gap{
			Gap: &pb.LockGap{Reason: pb.LockGapReason_LOCK_GAP_REASON_UNHEARD},
		}}
		take := func(event *pb.WatchLockResponse, isResumed bool) bool {
			return !(isResumed && !yield(gap, nil)) && yield(event, nil)
		}
		request := func() *pb.WatchLockRequest { return &pb.WatchLockRequest{Name: name} }
		err := follow(
			ctx, c, pb.NewLockServiceClient, pb.LockServiceClient.WatchLock, request, take)
		if err != nil {
			yield(nil, err)
		}
	}
}
