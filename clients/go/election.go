package lockkeeper

import (
	"context"
	"iter"
	"slices"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Election is the fair lock of the same name, with a value that its holder proclaims. A holder that
// has proclaimed none, such as a Redisson client, is no leader.
type Election struct {
	client *Client
	name   string
}

// Election returns the election with a name. It does nothing by itself.
func (c *Client) Election(name string) *Election { return &Election{c, name} }

// Leadership is the leadership of an election, which lasts as long as the grant of its lock.
type Leadership struct {
	// Grant is the grant of the election's lock.
	*Grant
}

// Campaign waits until this candidate leads, and proclaims its value: at most 1024 bytes, without
// control characters. Candidates lead in order of arrival, but for those that are [WithPreferred].
// The options are those of [Client.Lock], but for [WithMode].
//
// It fails like [Client.Lock], or with a [*RefusedError], which is an [ErrLost] if the leadership
// was lost before the value was proclaimed. Nothing is held then.
func (e *Election) Campaign(
	ctx context.Context, value string, options ...AcquireOption,
) (*Leadership, error) {
	grant, err := e.client.Lock(ctx, e.name, append(slices.Clone(options), WithMode(Fair))...)
	if err != nil {
		return nil, err
	}
	it := &Leadership{grant}
	if _, err := it.Proclaim(ctx, value); err != nil {
		_ = grant.Unlock(ctx) // err says more
		return nil, err
	}
	return it, nil
}

// Term is the fencing token to send to what the leader works on. It increases with every leader.
func (l *Leadership) Term() uint64 { return l.FencingToken() }

// Done is closed when the work of the leader has to stop: when the leadership is lost, by
// [Leadership.Resign], and with the context of the campaign. [Grant.Err] says whether it was lost.
func (l *Leadership) Done() <-chan struct{} { return l.Context().Done() }

// Proclaim replaces the value for all observers, and returns its revision.
//
// It fails with a [*RefusedError], which is an [ErrLost] if the leadership has ended, or with a
// [*SessionEndedError].
func (l *Leadership) Proclaim(ctx context.Context, value string) (uint64, error) {
	lock := l.guard.Locks[0]
	proclaim := &pb.ProclaimRequest{
		Name: lock.Name, Owner: lock.Owner, Term: lock.FencingToken, Value: value,
	}
	frame := &pb.SessionRequest{Request: &pb.SessionRequest_Proclaim{Proclaim: proclaim}}
	call, err := l.session.do(ctx, frame, nil)
	if err != nil {
		return 0, err
	}
	return call.answer.GetProclaimed().GetRevision(), nil
}

// Resign ends the leadership, so that the next candidate leads. It is [Grant.Unlock].
func (l *Leadership) Resign(ctx context.Context) error { return l.Unlock(ctx) }

// Leader is a leader, and a value that it has proclaimed.
type Leader struct {
	// Term is the fencing token of the leader's grant.
	Term uint64
	// Value is the value.
	Value string
	// Revision is the number of the value: 1 more than that of the value before it.
	Revision uint64
	// Owner is the leader within its session, and ClientName the name of [WithClientName].
	Owner, ClientName string
}

// Leader returns who leads now, with the newest value; nil if nobody does. It uses no session.
//
// It fails with an [*UnreachableError] or a [*RefusedError].
func (e *Election) Leader(ctx context.Context) (*Leader, error) {
	answer, err := unary(ctx, e.client, pb.NewElectionServiceClient,
		pb.ElectionServiceClient.Leader, &pb.LeaderRequest{Name: e.name})
	return leaderOf(answer.GetLeader()), err
}

func leaderOf(it *pb.Leadership) *Leader {
	if it == nil {
		return nil
	}
	return &Leader{it.Term, it.Value, it.Revision, it.Owner, it.ClientName}
}

// --- observers

// Observed is what an observer of an election sees.
type Observed struct {
	// Leader is a term or a new value. The term may be over already; what follows says so. If
	// Leader is nil and Missed is false, there is no leader.
	Leader *Leader
	// Missed is whether terms or values may have been missed before what follows.
	Missed bool
}

// Observe sees the present leader, or that there is none, and then every term and value in order.
// If the coordinator or the connection fails, it goes on at the next endpoint after what it has
// seen, for as long as that takes. To go on after an earlier observer, name the last revision that
// it has seen; otherwise 0.
//
// The sequence ends with an error, whose Observed is to be ignored: that of the context, or a
// [*RefusedError] if the same request would be refused again. Before anything was seen, it also
// ends with an [*UnreachableError].
func (e *Election) Observe(ctx context.Context, afterRevision uint64) iter.Seq2[Observed, error] {
	return func(yield func(Observed, error) bool) {
		request := &pb.ObserveRequest{Name: e.name, AfterRevision: afterRevision}
		take := func(answer *pb.ObserveResponse, isResumed bool) bool {
			// Without a revision to go on after, what came between two streams is not known.
			isGap := isResumed && request.AfterRevision == 0
			leader := leaderOf(answer.GetLeader())
			if leader != nil {
				request.AfterRevision = leader.Revision
			}
			return !(isGap && !yield(Observed{Missed: true}, nil)) &&
				yield(Observed{leader, answer.GetMissed() != nil}, nil)
		}
		err := follow(ctx, e.client, pb.NewElectionServiceClient, pb.ElectionServiceClient.Observe,
			func() *pb.ObserveRequest { return request }, take)
		if err != nil {
			yield(Observed{}, err)
		}
	}
}
