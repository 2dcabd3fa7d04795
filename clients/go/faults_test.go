package lockkeeper_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// spy sees the frames of sessions, as an interceptor of the user would.
type spy struct {
	sent     func(*pb.SessionRequest)
	received func(*pb.SessionResponse)
}

type spiedStream struct {
	grpc.ClientStream
	spy spy
}

func (s spy) option() lockkeeper.Option {
	intercept := func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
		streamer grpc.Streamer, options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, conn, method, options...)
		return spiedStream{stream, s}, err
	}
	return lockkeeper.WithDialOptions(grpc.WithStreamInterceptor(intercept))
}

func (s spiedStream) SendMsg(message any) error {
	if frame, ok := message.(*pb.SessionRequest); ok && s.spy.sent != nil {
		s.spy.sent(frame)
	}
	return s.ClientStream.SendMsg(message)
}

func (s spiedStream) RecvMsg(message any) error {
	err := s.ClientStream.RecvMsg(message)
	if frame, ok := message.(*pb.SessionResponse); ok && err == nil && s.spy.received != nil {
		s.spy.received(frame)
	}
	return err
}

func TestForcedReleaseIsSeenWithin100MsOfTheNotice(t *testing.T) {
	noticed := make(chan time.Time, 1)
	client := dial(t, startCoordinator(t).url(), spy{received: func(frame *pb.SessionResponse) {
		if frame.GetLost() != nil {
			noticed <- time.Now()
		}
	}}.option())
	conn, err := client.Conn()
	check(t, err)
	admin := pb.NewLockAdminServiceClient(conn)
	var grant *lockkeeper.Grant
	// A machine that stalls at this moment proves nothing.
	for attempt := 1; ; attempt++ {
		grant, err = client.Lock(t.Context(), "a")
		check(t, err)
		force := &pb.ForceReleaseRequest{Name: "a", Reason: "maintenance"}
		_, err = admin.ForceRelease(t.Context(), force)
		check(t, err)
		receive(t, "the end of the context", grant.Context().Done())
		seen := time.Now()
		after := seen.Sub(receive(t, "the notice", noticed))
		if after <= 100*time.Millisecond {
			break
		}
		if attempt == 3 {
			t.Fatalf("seen after %v", after)
		}
	}
	var lost *lockkeeper.LostError
	if !errors.As(context.Cause(grant.Context()), &lost) {
		t.Fatalf("%v", context.Cause(grant.Context()))
	}
	want := lockkeeper.LostError{
		Name: "a", Reason: lockkeeper.LostForceReleased, Token: grant.FencingToken(),
		Detail: "maintenance",
	}
	if *lost != want {
		t.Fatalf("%+v", lost)
	}
	_, err = client.TryLock(t.Context(), "a") // the session goes on
	check(t, err)
}

func TestKilledCoordinatorIsNotNoticed(t *testing.T) {
	coordinator := startCoordinator(t, "--store", startRedis(t),
		"--set", "session.secret=a secret of the tests of the Go client")
	var seen states
	var text syncBuffer
	client := dial(t, coordinator.url(),
		lockkeeper.WithSessionListener(seen.listen),
		lockkeeper.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
	grant, err := client.Lock(t.Context(), "a")
	check(t, err)
	waiting := make(chan error)
	go func() {
		grant, err := client.Lock(t.Context(), "a", lockkeeper.WithWaitTimeout(math.MaxInt64))
		if err == nil {
			err = grant.Unlock(t.Context())
		}
		waiting <- err
	}()
	coordinator.kill()
	eventually(t, "the stream breaks", seen.has(lockkeeper.Connected, lockkeeper.Resuming))
	coordinator.start()
	// Both calls end although the session is still being resumed, or just was.
	check(t, grant.Context().Err())
	check(t, grant.Unlock(t.Context()))
	check(t, receive(t, "the other grant", waiting))
	eventually(t, "it is resumed",
		seen.has(lockkeeper.Connected, lockkeeper.Resuming, lockkeeper.Connected))
	eventually(t, "it is logged", func() bool {
		return strings.Contains(text.String(), "session resuming")
	})
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestSessionEndsWithoutACoordinator(t *testing.T) {
	const sessionLease = 3 * time.Second
	coordinator := startCoordinator(t)
	client := dial(t, coordinator.url(), lockkeeper.WithSessionLease(sessionLease))
	session, err := client.Session(t.Context())
	check(t, err)
	if session.Lease() != sessionLease || session.State() != lockkeeper.Connected ||
		session.Err() != nil || session.ID() == "" {
		t.Fatalf("%v", session)
	}
	grant, err := client.Lock(t.Context(), "a")
	check(t, err)
	coordinator.kill()
	receive(t, "the end of the session", session.Done())
	receive(t, "the loss", grant.Lost())
	if err := session.Err(); !errors.Is(err, lockkeeper.ErrSessionEnded) ||
		!strings.Contains(err.Error(), coordinator.url()) {
		t.Fatalf("it does not name the address: %v", err)
	}
	if _, err = client.Lock(t.Context(), "a"); err == nil {
		t.Fatal("a lock without a coordinator")
	}
	coordinator.start()
	_, err = client.Lock(t.Context(), "a") // a new session, because it was asked for
	check(t, err)
	if again, err := client.Session(t.Context()); err != nil || again == session {
		t.Fatalf("%v", err)
	}
}

func TestWaitTimeoutWithoutACoordinator(t *testing.T) {
	ctx := withTimeout(t, 30*time.Second)
	wait := lockkeeper.WithWaitTimeout(300 * time.Millisecond)
	ends := func(client *lockkeeper.Client, address string) {
		t.Helper()
		begun := time.Now()
		_, err := client.Lock(ctx, "a", wait)
		unreachable, ok := errors.AsType[*lockkeeper.UnreachableError](err)
		if !ok || unreachable.Address != address || unreachable.Cause == nil {
			t.Fatalf("%v", err)
		}
		if after := time.Since(begun); after < 300*time.Millisecond || after > 5*time.Second {
			t.Fatalf("after %v", after)
		}
	}
	address := silent(t)
	ends(dial(t, address), address)

	coordinator := startCoordinator(t)
	client := dial(t, coordinator.url())
	_, err := client.Session(ctx)
	check(t, err)
	coordinator.kill()
	ends(client, coordinator.url())
}

func TestSeveralEndpoints(t *testing.T) {
	closed := "http://127.0.0.1:" + freePort(t)
	coordinator := startCoordinator(t)
	client, err := lockkeeper.Dial(t.Context(), []string{closed, coordinator.url()})
	check(t, err)
	defer client.Close()
	_, err = client.Lock(t.Context(), "a")
	check(t, err)
	_, err = client.Leased("b", "me").TryAcquire(t.Context(), 0)
	check(t, err)
}

func TestCloseReleasesAndLeavesNoGoroutine(t *testing.T) {
	coordinator := startCoordinator(t)
	other := dial(t, coordinator.url())
	_, err := other.Session(t.Context())
	check(t, err)
	before := runtime.NumGoroutine()
	client := dial(t, coordinator.url())
	grant, err := client.Lock(t.Context(), "a")
	check(t, err)
	_, err = client.Leased("b", "me").TryAcquire(t.Context(), 0)
	check(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := client.Lock(t.Context(), "a")
		waiting <- err
	}()
	eventually(t, "it waits", func() bool {
		state, err := client.Describe(t.Context(), "a")
		return err == nil && state.Waiters == 1
	})
	check(t, client.Close())
	if err := receive(t, "the end of the wait", waiting); !errors.Is(err,
		lockkeeper.ErrSessionEnded) {
		t.Fatalf("%v", err)
	}
	_, err = other.TryLock(t.Context(), "a")
	check(t, err)
	if err := grant.Err(); !errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("%v", err)
	}
	check(t, client.Close()) // again
	if _, err := client.Lock(t.Context(), "a"); !errors.Is(err, lockkeeper.ErrSessionEnded) {
		t.Fatalf("%v", err)
	}
	noGoroutineLeft(t, before)
}

func TestCloseWhileNobodyAnswersLeavesNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	client := dial(t, silent(t))
	opening := make(chan error, 1)
	go func() {
		_, err := client.Session(t.Context())
		opening <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	check(t, client.Close())
	if err := receive(t, "the end", opening); !errors.Is(err, lockkeeper.ErrSessionEnded) {
		t.Fatalf("%v", err)
	}
	noGoroutineLeft(t, before+1) // that which keeps the connection silent
}

func TestUnlockReleasesAlthoughItsContextIsDone(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	ctx, cancel := context.WithCancel(t.Context())
	grant, err := client.Lock(ctx, "a")
	check(t, err)
	cancel()
	receive(t, "the end of the work", grant.Context().Done())
	if err := grant.Unlock(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err = client.Lock(withTimeout(t, patience), "a")
	check(t, err)
	select {
	case <-grant.Lost():
		t.Fatal("a released lock is not lost")
	default:
	}
}
