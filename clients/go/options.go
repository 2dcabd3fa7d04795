package lockkeeper

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Option configures a [Client]. See [Dial].
type Option func(*config)

type config struct {
	addresses           []address
	lease               time.Duration
	patience            time.Duration
	clientName          string
	releaseOnDisconnect bool
	tls                 TLS
	token               func(context.Context) (string, error)
	logger              *slog.Logger
	listener            func(SessionEvent)
	dialOptions         []grpc.DialOption
}

// TLS are the certificates for https:// endpoints, as files in PEM form. They are read for every
// connection, so that renewed ones take effect.
type TLS struct {
	// CAFile has the authorities to trust; empty for those that the system trusts.
	CAFile string
	// CertFile and KeyFile are the client's certificate and key; empty if it has none.
	CertFile, KeyFile string
	// ServerName is the name in the coordinator's certificate; empty for the host of the address.
	ServerName string
}

// WithTLS sets the certificates for https:// endpoints.
func WithTLS(files TLS) Option {
	return func(c *config) { c.tls = files }
}

// WithToken sends a bearer token with every call. The stream of a session is one call.
func WithToken(token string) Option {
	return WithTokenFunc(func(context.Context) (string, error) { return token, nil })
}

// WithTokenFile sends the bearer token in a file, which is read for every call, so that a renewed
// one takes effect.
func WithTokenFile(name string) Option {
	return WithTokenFunc(func(context.Context) (string, error) {
		text, err := os.ReadFile(name)
		return string(text), err
	})
}

// WithTokenFunc sends the bearer token that a function returns. It is called for every call, also
// by several goroutines at once. An error fails the call.
func WithTokenFunc(token func(context.Context) (string, error)) Option {
	return func(c *config) {
		c.token = func(ctx context.Context) (string, error) {
			text, err := token(ctx)
			return strings.TrimSpace(text), err
		}
	}
}

// WithSessionLease sets the lease of the session: how long its locks outlive this process, and how
// long the session can be resumed. The default is the coordinator's (30 s).
func WithSessionLease(lease time.Duration) Option {
	return func(c *config) { c.lease = lease }
}

// WithClientName sets the name under which operators see the holder of a lock.
func WithClientName(name string) Option {
	return func(c *config) { c.clientName = name }
}

// WithReleaseOnDisconnect makes the coordinator release everything as soon as the session's stream
// breaks. By default it stays held until its lease ends, because this process may still be working,
// and the session is resumed.
func WithReleaseOnDisconnect() Option {
	return func(c *config) { c.releaseOnDisconnect = true }
}

// WithPatience sets how long operations are sent again while the store does not answer. The default
// is the lease, of a try 6 s. It does not limit releases, which are sent again for as long as the
// lease.
func WithPatience(patience time.Duration) Option {
	return func(c *config) { c.patience = patience }
}

// WithLogger logs what happens to the session: broken and resumed streams at level Warn, waits at
// level Debug. By default nothing is logged. If the logger blocks, the newest 1024 records wait,
// and all those of losses.
func WithLogger(logger *slog.Logger) Option {
	return func(c *config) { c.logger = logger }
}

// WithSessionListener calls a function for each change of the session's state, in order, from one
// goroutine at a time. If it blocks, the newest 1024 changes wait. Safety does not depend on it:
// grants report what is lost.
func WithSessionListener(listener func(SessionEvent)) Option {
	return func(c *config) { c.listener = listener }
}

// WithDialOptions adds options of gRPC, such as interceptors, a stats handler or credentials, to
// every connection.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(c *config) { c.dialOptions = append(c.dialOptions, options...) }
}

// AcquireOption says how to acquire locks or permits.
type AcquireOption func(*acquireOptions)

type acquireOptions struct {
	mode     Mode
	lease    time.Duration
	wait     *time.Duration
	owner    string
	replicas uint32
	note     Note

	holdAtLeast   time.Duration
	lockDelay     time.Duration
	endOnDeadlock bool
	preferred     bool
}

// WithMode sets the mode in which to hold a lock. The default is [Exclusive].
func WithMode(mode Mode) AcquireOption {
	return func(o *acquireOptions) { o.mode = mode }
}

// WithLease sets a lease that is not renewed: the grant is lost when it ends, unless [Grant.Renew]
// extends it. By default a grant has the lease of the session, and is renewed.
func WithLease(lease time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.lease = lease }
}

// WithWaitTimeout limits the wait. When it ends, the call fails with a [*NotGrantedError], or with
// an [*UnreachableError] if no coordinator answers. A coordinator that became silent during the
// wait is given up after two ping intervals (10 s by default). Zero tries once. By default the wait
// is limited only by the context.
func WithWaitTimeout(limit time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.wait = &limit }
}

// WithOwner names the owner within the session. The same owner can acquire a lock several times,
// and holds it until it has released it as often. By default each call has an owner of its own, so
// that two goroutines exclude each other.
//
// An owner stands for one task: give each goroutine that holds several locks an owner for all of
// them, and its deadlocks are named. See [WithEndOnDeadlock].
func WithOwner(owner string) AcquireOption {
	return func(o *acquireOptions) { o.owner = owner }
}

// WithMinReplicaAcks sets how many replicas of the store must acknowledge the grant and its
// renewals.
func WithMinReplicaAcks(count uint32) AcquireOption {
	return func(o *acquireOptions) { o.replicas = count }
}

// WithHoldAtLeast keeps a lock held for at least this long, counted from the grant, also after a
// release or a crash: a job that ends early does not run again at once elsewhere. It is for one
// lock in the mode [Exclusive] or [Fair].
func WithHoldAtLeast(least time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.holdAtLeast = least }
}

// WithLockDelay keeps a lock closed for this long after it was lost without a release, because this
// process crashed or could not reach a coordinator: what it had begun can come to an end. A release
// frees the lock at once. It is for one lock in the mode [Exclusive] or [Fair].
func WithLockDelay(delay time.Duration) AcquireOption {
	return func(o *acquireOptions) { o.lockDelay = delay }
}

// WithEndOnDeadlock ends the wait for locks with a [*NotGrantedError] for the reason [Deadlock] if
// it is part of a deadlock. Of the waits of a deadlock with this option, the youngest ends: release
// what the owner holds, and begin again. A deadlock is known only among owners that are named; see
// [WithOwner].
func WithEndOnDeadlock() AcquireOption {
	return func(o *acquireOptions) { o.endOnDeadlock = true }
}

// WithPreferred makes the wait for one lock in the mode [Fair] come before the other waiters: it
// becomes the first in line, and the holder is asked to yield, unless it was preferred itself. See
// [Grant.YieldRequested]. Of several that wait, the last to arrive is the first. A try does not
// wait, so it has no effect there.
func WithPreferred() AcquireOption {
	return func(o *acquireOptions) { o.preferred = true }
}

func newAcquireOptions(options []AcquireOption) (*acquireOptions, error) {
	it := &acquireOptions{}
	for _, option := range options {
		option(it)
	}
	switch {
	case it.lease < 0:
		return nil, misconfigured("lease", "%v is negative", it.lease)
	case it.holdAtLeast < 0:
		return nil, misconfigured("hold at least", "%v is negative", it.holdAtLeast)
	case it.lockDelay < 0:
		return nil, misconfigured("lock delay", "%v is negative", it.lockDelay)
	case it.wait != nil && *it.wait < 0:
		return nil, misconfigured("wait timeout", "%v is negative", *it.wait)
	}
	return it, nil
}

// check fails if an option would have no effect on a request.
func (o *acquireOptions) check(request *pb.SessionRequest) error {
	isOneLock, canDeadlock := false, true
	switch request.Request.(type) {
	case *pb.SessionRequest_Acquire, *pb.SessionRequest_TryAcquire:
		isOneLock = true
	case *pb.SessionRequest_AcquirePermits, *pb.SessionRequest_TryAcquirePermits,
		*pb.SessionRequest_Claim:
		canDeadlock = false
	}
	switch {
	case o.holdAtLeast > 0 && !isOneLock:
		return misconfigured("hold at least", "it is for a single lock")
	case o.lockDelay > 0 && !isOneLock:
		return misconfigured("lock delay", "it is for a single lock")
	case o.endOnDeadlock && !canDeadlock:
		return misconfigured("end on deadlock", "it is for waits for locks")
	case o.preferred && !isOneLock:
		return misconfigured("preferred", "it is for a single lock")
	}
	return nil
}
