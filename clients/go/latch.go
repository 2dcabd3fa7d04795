package lockkeeper

import (
	"context"
	"time"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Latch is a count. It is open when the count is 0, and closed before. Without a count, it is open.
type Latch struct {
	client *Client
	name   string
}

// Latch returns the latch with a name. It does nothing by itself.
func (c *Client) Latch(name string) *Latch { return &Latch{c, name} }

// SetCount sets the count if the latch has none, and returns its count. If ttl is not 0, the latch
// is forgotten, and so opens, after this time.
func (l *Latch) SetCount(ctx context.Context, count uint32, ttl time.Duration) (uint32, error) {
	if ttl < 0 {
		return 0, misconfigured("ttl", "%v is negative", ttl)
	}
	set := &pb.SetCountRequest{Name: l.name, Count: count, Ttl: optional(ttl)}
	answer, err := l.client.do(ctx,
		&pb.SessionRequest{Request: &pb.SessionRequest_SetCount{SetCount: set}})
	return answer.GetCountSet().GetCount(), err
}

// CountDown lowers the count, and returns what is left. It is done once, even if the session is
// resumed meanwhile.
func (l *Latch) CountDown(ctx context.Context, by uint32) (uint32, error) {
	down := &pb.CountDownRequest{Name: l.name, By: by}
	answer, err := l.client.do(ctx,
		&pb.SessionRequest{Request: &pb.SessionRequest_CountDown{CountDown: down}})
	return answer.GetCountedDown().GetCount(), err
}

// Wait waits until the latch is open. Of the options, only [WithWaitTimeout] has an effect; when it
// ends, the call fails with a [*NotGrantedError], or with an [*UnreachableError] if no coordinator
// answers.
func (l *Latch) Wait(ctx context.Context, options ...AcquireOption) error {
	given, err := newAcquireOptions(options)
	if err != nil {
		return err
	}
	session, err := l.client.current()
	if err != nil {
		return err
	}
	await := &pb.SessionRequest_AwaitLatch{AwaitLatch: &pb.AwaitLatchRequest{Name: l.name}}
	_, err = session.do(ctx, &pb.SessionRequest{Request: await}, given.wait)
	return err
}

// Count is the remaining count; 0 if the latch is open.
func (l *Latch) Count(ctx context.Context) (uint32, error) {
	describe := &pb.SessionRequest_DescribeLatch{
		DescribeLatch: &pb.DescribeLatchRequest{Name: l.name},
	}
	answer, err := l.client.do(ctx, &pb.SessionRequest{Request: describe})
	return answer.GetLatchDescribed().GetCount(), err
}

// Delete deletes the count, which opens the latch. It returns whether there was one.
func (l *Latch) Delete(ctx context.Context) (bool, error) {
	remove := &pb.SessionRequest_DeleteLatch{DeleteLatch: &pb.DeleteLatchRequest{Name: l.name}}
	answer, err := l.client.do(ctx, &pb.SessionRequest{Request: remove})
	return answer.GetLatchDeleted().GetDeleted(), err
}
