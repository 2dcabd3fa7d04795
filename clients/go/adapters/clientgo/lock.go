package clientgo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

const (
	// describeInterval is how soon a candidate that waits learns of another leader.
	describeInterval = time.Second
	// maxDescribeInterval is for one that may not describe the lock: each refusal is audited.
	maxDescribeInterval = time.Minute
	// callTimeout limits a call that does not wait.
	callTimeout = 5 * time.Second
	// stoppedLeading is what an elector records at the end of each term.
	stoppedLeading = "stopped leading"
)

// resource is the kind of object in errors of Kubernetes.
var resource = schema.GroupResource{Group: "lockkeeper", Resource: "locks"}

// Lock is the lock of a candidate. It is for one elector at a time.
type Lock struct {
	client         *lockkeeper.Client
	name, identity string
	lease          time.Duration

	// OnEvent is called with what happens to the candidate, such as "became leader". May be nil.
	OnEvent func(message string)

	mu sync.Mutex
	// wait is the wait of a candidate; nil if there is none, or if its grant was taken.
	wait *wait
	// seen is the other leader that was reported last.
	seen string
	// grant and record are those of the last term; nil before the first.
	grant  *lockkeeper.Grant
	record resourcelock.LeaderElectionRecord
	// isReleased is whether the leader has released the lock, isOver whether its term has ended.
	isReleased, isOver bool
	// onLead is called when a term begins.
	onLead func(*lockkeeper.Grant)
}

var _ resourcelock.Interface = (*Lock)(nil)

// wait is a wait for the lock. Its fields do not change once done is closed.
type wait struct {
	done  chan struct{}
	grant *lockkeeper.Grant
	err   error
}

func (w *wait) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// isOver is whether the candidate has to wait anew.
func (w *wait) isOver() bool { return w.isDone() && (w.err != nil || w.grant.Err() != nil) }

// New makes the lock of a candidate. Candidates have different identities. The lease is how long
// the lock outlives a leader that was killed, from its last renewal; it is the LeaseDuration of the
// elector. New does nothing by itself.
func New(client *lockkeeper.Client, name, identity string, lease time.Duration) *Lock {
	return &Lock{client: client, name: name, identity: identity, lease: lease}
}

// Run runs an elector with this lock until the context is done or the leader stops. Unlike
// [leaderelection.LeaderElector.Run], it ends the context of OnStartedLeading as soon as the lock
// is lost. The Lock and the LeaseDuration of the configuration are set by it.
//
// It fails with a [*lockkeeper.LostError] if the lock was lost, and at once if the configuration is
// not valid.
func (l *Lock) Run(ctx context.Context, config leaderelection.LeaderElectionConfig) error {
	config.Lock, config.LeaseDuration = l, l.lease
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return err
	}
	if config.WatchDog != nil {
		config.WatchDog.SetLeaderElection(elector)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.mu.Lock()
	l.forgetTerm()
	l.onLead = func(grant *lockkeeper.Grant) {
		go func() {
			select {
			case <-grant.Lost():
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	l.mu.Unlock()
	elector.Run(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onLead = nil
	if l.grant == nil || l.isReleased {
		return nil
	}
	return l.grant.Err()
}

// FencingToken is that of the leader. Send it with every write, so that the resource can refuse a
// smaller one than it has seen. It is 0 before the first term.
func (l *Lock) FencingToken() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.grant == nil {
		return 0
	}
	return l.grant.FencingToken()
}

// --- the interface

// Get returns the record of the leader. It blocks as long as another leader goes on that was
// returned before, so that the next leader is there at once.
//
// It fails with a NotFound if there is no leader, and with a [*lockkeeper.LostError] if this one
// lost the lock and its elector has not noticed yet.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	l.forgetTerm()
	grant, record, isReleased := l.grant, l.record, l.isReleased
	l.mu.Unlock()
	switch {
	case grant == nil:
		return l.await(ctx)
	case isReleased:
		return nil, nil, apierrors.NewNotFound(resource, l.name)
	case grant.Err() != nil:
		return nil, nil, grant.Err()
	}
	return encoded(record)
}

// Create begins the term of this leader. It fails with an AlreadyExists if another one leads.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	grant, err := l.acquired(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grant, l.isReleased, l.isOver, l.seen = grant, false, true, ""
	l.leads(record)
	return nil
}

// Update renews the lock of this leader for the lease, releases it if the record has no holder, or
// begins the term of this leader.
//
// It fails with a [*lockkeeper.LostError] if the lock was lost.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	grant := l.grant
	l.isReleased = l.isReleased || grant != nil && record.HolderIdentity == ""
	isReleased := l.isReleased
	l.mu.Unlock()
	switch {
	case grant == nil && record.HolderIdentity == "":
		return apierrors.NewNotFound(resource, l.name)
	case grant == nil:
		return l.Create(ctx, record)
	case isReleased:
		return grant.Unlock(ctx)
	}
	if err := grant.Renew(ctx, l.lease); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leads(record)
	return nil
}

// RecordEvent calls OnEvent: there is no object of Kubernetes that an event could be about.
func (l *Lock) RecordEvent(message string) {
	l.mu.Lock()
	l.isOver = l.isOver || message == stoppedLeading
	l.mu.Unlock()
	if l.OnEvent != nil {
		l.OnEvent(message)
	}
}

// Identity is that of the candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe names the lock in logs.
func (l *Lock) Describe() string { return "lockkeeper/" + l.name }

// --- terms

// leads keeps the record of this leader, with the mutex locked.
func (l *Lock) leads(record resourcelock.LeaderElectionRecord) {
	isNew := l.isOver
	l.record, l.isOver = record, false
	if isNew && l.onLead != nil {
		l.onLead(l.grant)
	}
}

// forgetTerm makes this a candidate again if its term is over and the lock is not held any more.
// In the term, an elector that finds no leader would go on to lead, with a gap that its user does
// not see. The mutex is locked.
func (l *Lock) forgetTerm() {
	if l.isOver && l.grant != nil && (l.isReleased || l.grant.Err() != nil) {
		l.grant, l.isReleased, l.isOver = nil, false, false
	}
}

// --- candidates

// await waits as long as the same leader goes on, and returns the record of another. What decides
// is the wait: a candidate that may not describe the lock knows no other leader, but can lead.
func (l *Lock) await(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	it := l.waitFor(ctx)
	pause := describeInterval
	for {
		if it.isDone() {
			if it.err != nil {
				return nil, nil, it.err
			}
			return nil, nil, apierrors.NewNotFound(resource, l.name)
		}
		leader, err := l.leader(ctx)
		if err == nil && leader != nil && l.isNew(leader.HolderIdentity) {
			return encoded(*leader)
		}
		if err != nil {
			pause = min(2*pause, maxDescribeInterval)
		} else {
			pause = describeInterval
		}
		select {
		case <-it.done:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (l *Lock) isNew(leader string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	isNew := leader != l.seen
	l.seen = leader
	return isNew
}

// leader reads which other candidate holds the lock; nil if none does.
func (l *Lock) leader(ctx context.Context) (*resourcelock.LeaderElectionRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	session, err := l.client.Session(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := l.client.Conn()
	if err != nil {
		return nil, err
	}
	request := &pb.DescribeRequest{Name: l.name}
	described, err := pb.NewLockServiceClient(conn).Describe(ctx, request)
	if err != nil || len(described.Holders) == 0 {
		return nil, err
	}
	holder := described.Holders[0]
	identity := holder.Owner
	if identity == l.identity {
		if holder.SessionDigest == digest(session.ID()) {
			return nil, nil // The answer to the wait is on its way.
		}
		// A process of this name that was killed still has its lease: it is another leader.
		identity = fmt.Sprintf("%s (session %s)", identity, holder.SessionDigest)
	}
	left := holder.RemainingLease.AsDuration()
	return &resourcelock.LeaderElectionRecord{
		HolderIdentity:       identity,
		LeaseDurationSeconds: int((left + time.Second - 1) / time.Second),
		RenewTime:            metav1.Now(),
	}, nil
}

// digest is what coordinators show of a session's id.
func digest(session string) string {
	sum := sha256.Sum256([]byte(session))
	return hex.EncodeToString(sum[:8])
}

// waitFor starts the wait for the lock, unless this candidate waits already, or has the lock since.
// It ends with the context, which is that of the elector's search for a leader.
func (l *Lock) waitFor(ctx context.Context) *wait {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wait == nil || l.wait.isOver() {
		l.wait = &wait{done: make(chan struct{})}
		go l.waits(ctx, l.wait)
	}
	return l.wait
}

func (l *Lock) waits(ctx context.Context, it *wait) {
	it.grant, it.err = l.client.Lock(ctx, l.name, l.options()...)
	close(it.done)
	if it.err == nil {
		<-ctx.Done() // The elector leads, or has stopped.
	}
	l.mu.Lock()
	isUnused := l.wait == it
	if isUnused {
		l.wait = nil
	}
	l.mu.Unlock()
	if isUnused && it.grant != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		_ = it.grant.Unlock(ctx) // Otherwise its lease ends it.
	}
}

// acquired takes the lock that the wait has obtained, or tries to acquire it.
func (l *Lock) acquired(ctx context.Context) (*lockkeeper.Grant, error) {
	l.mu.Lock()
	it := l.wait
	isOthers := it != nil && !it.isDone()
	if !isOthers {
		l.wait = nil
	}
	l.mu.Unlock()
	switch {
	case isOthers:
		return nil, apierrors.NewAlreadyExists(resource, l.name)
	case it != nil && it.err == nil:
		return it.grant, it.grant.Err()
	}
	grant, err := l.client.TryLock(ctx, l.name, l.options()...)
	if errors.Is(err, lockkeeper.ErrLocked) {
		err = apierrors.NewAlreadyExists(resource, l.name)
	}
	return grant, err
}

func (l *Lock) options() []lockkeeper.AcquireOption {
	return []lockkeeper.AcquireOption{
		lockkeeper.WithOwner(l.identity), lockkeeper.WithLease(l.lease),
	}
}

func encoded(
	record resourcelock.LeaderElectionRecord,
) (*resourcelock.LeaderElectionRecord, []byte, error) {
	text, err := json.Marshal(record)
	return &record, text, err
}
