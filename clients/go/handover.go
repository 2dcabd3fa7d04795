package lockkeeper

import (
	"context"
	"time"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Offer makes a ticket with which another session takes the lock over by [Client.Claim], on any
// coordinator. It can be claimed for 30 s, or within that, which is at most 10 min. Stop the work
// first: at the claim the grant is lost, for the reason [LostHandedOver]. A ticket that is not
// claimed changes nothing. It is a secret.
//
// It fails with a [*LostError] if the grant was lost, with a [*MisconfiguredError] for several
// locks or permits, with a [*RefusedError] if the lock is not [Exclusive] or was acquired several
// times by its owner, and with a [*SessionEndedError].
func (g *Grant) Offer(ctx context.Context, within time.Duration) (string, error) {
	if within < 0 {
		return "", misconfigured("within", "%v is negative", within)
	}
	if len(g.guard.Locks) != 1 {
		return "", misconfigured("offer", "it is for a single lock")
	}
	if err := g.Err(); err != nil {
		return "", err
	}
	lock := g.guard.Locks[0]
	offer := &pb.OfferRequest{Name: lock.Name, Owner: lock.Owner, Within: optional(within)}
	frame := &pb.SessionRequest{Request: &pb.SessionRequest_Offer{Offer: offer}}
	call, err := g.session.do(ctx, frame, nil)
	if err != nil {
		return "", err
	}
	return call.answer.GetOffered().GetTicket(), nil
}

// Claim takes over a lock that another session has offered by [Grant.Offer]. The grant has a new,
// larger fencing token, and at no moment was the lock free. Of the options, [WithOwner] and
// [WithLease] have an effect.
//
// It fails with a [*RefusedError] if the ticket is not valid any more or was claimed, or if the
// lock was acquired [WithHoldAtLeast] or [WithLockDelay], and then has changed nothing. If the
// answer is lost on its way, it is refused as well, and the lock is released or ends with its
// lease. Otherwise it fails like [Client.TryLock].
func (c *Client) Claim(
	ctx context.Context, name, ticket string, options ...AcquireOption,
) (*Grant, error) {
	return c.acquire(ctx, options, false, func(o *acquireOptions) *pb.SessionRequest {
		claim := &pb.ClaimRequest{Name: name, Ticket: ticket, Owner: o.owner, Lease: o.pbLease()}
		return &pb.SessionRequest{Request: &pb.SessionRequest_Claim{Claim: claim}}
	})
}
