package lockkeeper_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"google.golang.org/grpc"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// watcher pulls what a watcher of a lock sees, without the number of waiters.
type watcher struct {
	t    *testing.T
	next func() (*pb.WatchLockResponse, error, bool)
}

func watch(t *testing.T, from iter.Seq2[*pb.WatchLockResponse, error]) *watcher {
	next, stop := iter.Pull2(from)
	t.Cleanup(stop)
	return &watcher{t, next}
}

func (w *watcher) sees() *pb.WatchLockResponse {
	w.t.Helper()
	for {
		event, err, ok := w.next()
		if !ok || err != nil {
			w.t.Fatalf("%v, %v", err, ok)
		}
		if event.GetWaiters() == nil {
			return event
		}
	}
}

func (w *watcher) seesGrant(grant *lockkeeper.Grant) {
	w.t.Helper()
	event := w.sees()
	if event.GetGranted().GetFencingToken() != grant.FencingToken() {
		w.t.Fatalf("%v", event)
	}
}

func TestALockIsWatched(t *testing.T) {
	url := startCoordinator(t).url()
	client := dial(t, url, lockkeeper.WithClientName("node 1"))
	first, err := client.Lock(t.Context(), "a", noted...)
	check(t, err)
	seen := watch(t, client.WatchLock(withTimeout(t, patience), "a"))
	state := seen.sees().GetState()
	if len(state.GetHolders()) != 1 || state.Holders[0].ClientName != "node 1" ||
		state.Holders[0].Note.Reason != why || state.LastFencingToken != first.FencingToken() {
		t.Fatalf("%v", state)
	}
	check(t, first.Unlock(t.Context()))
	if event := seen.sees(); event.GetEnded().GetEnd() != pb.GrantEnd_GRANT_END_RELEASED {
		t.Fatalf("%v", event)
	}
	if event := seen.sees(); event.GetFree().GetLastFencingToken() != first.FencingToken() {
		t.Fatalf("%v", event)
	}
	second, err := client.Lock(t.Context(), "a")
	check(t, err)
	seen.seesGrant(second)
}

func TestAWatcherGoesOnAtAnotherCoordinator(t *testing.T) {
	flags := []string{"--store", startRedis(t)}
	used, other := startCoordinator(t, flags...), startCoordinator(t, flags...)
	holder := dial(t, other.url())
	client, err := lockkeeper.Dial(t.Context(), []string{used.url(), other.url()})
	check(t, err)
	defer client.Close()
	seen := watch(t, client.WatchLock(withTimeout(t, patience), "a"))
	if state := seen.sees().GetState(); state == nil || state.HolderCount != 0 {
		t.Fatalf("%v", state)
	}
	used.kill()
	grant, err := holder.Lock(t.Context(), "a")
	check(t, err)
	event := seen.sees()
	for event.GetGranted() != nil { // it had been read before
		event = seen.sees()
	}
	if event.GetGap().GetReason() != pb.LockGapReason_LOCK_GAP_REASON_UNHEARD {
		t.Fatalf("%v", event)
	}
	if state := seen.sees().GetState(); state.GetLastFencingToken() != grant.FencingToken() ||
		state.HolderCount != 1 {
		t.Fatalf("%v", state)
	}
}

func TestAWatchEnds(t *testing.T) {
	coordinator := startCoordinator(t)
	client := dial(t, coordinator.url())
	var last error
	for event, err := range client.WatchLock(t.Context(), "") {
		if event != nil {
			t.Fatalf("%v", event)
		}
		last = err
	}
	isRefused(t, last, "INVALID_NAME", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range client.WatchLock(ctx, "a") {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Fatalf("%v", last)
	}
	coordinator.kill()
	other := dial(t, coordinator.url())
	for _, err := range other.WatchLock(t.Context(), "a") {
		last = err
	}
	var unreachable *lockkeeper.UnreachableError
	if !errors.As(last, &unreachable) {
		t.Fatalf("%v", last)
	}
}

// --- waiting until a lock is free

func TestALockIsAwaitedWithoutAcquiringIt(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	check(t, client.AwaitFree(t.Context(), "a"))
	grant, err := client.Lock(t.Context(), "a", noted...)
	check(t, err)
	for _, limit := range []time.Duration{0, 50 * time.Millisecond} {
		err = client.AwaitFree(t.Context(), "a", lockkeeper.WithWaitTimeout(limit))
		hasHolderNote(t, err, note)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = client.AwaitFree(ctx, "a")
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("%v", err)
	}
	waits := make(chan error)
	go func() { waits <- client.AwaitFree(t.Context(), "a") }()
	check(t, grant.Unlock(t.Context()))
	check(t, receive(t, "the end of the wait", waits))
	next, err := client.TryLock(t.Context(), "a")
	check(t, err)
	check(t, next.Unlock(t.Context()))
	isRefused(t, client.AwaitFree(t.Context(), ""), "INVALID_NAME", "")
	isMisconfigured(t, client.AwaitFree(t.Context(), "a", lockkeeper.WithWaitTimeout(-1)))
}

// waiting is told when a call is answered that it waits.
type waiting struct {
	grpc.ClientStream
	told chan<- struct{}
}

func (w waiting) RecvMsg(message any) error {
	err := w.ClientStream.RecvMsg(message)
	if answer, ok := message.(*pb.AwaitFreeResponse); ok && answer.GetWaiting() != nil {
		select {
		case w.told <- struct{}{}:
		default:
		}
	}
	return err
}

func TestAWaitUntilALockIsFreeGoesOnAtAnotherCoordinator(t *testing.T) {
	flags := []string{"--store", startRedis(t)}
	used, other := startCoordinator(t, flags...), startCoordinator(t, flags...)
	grant, err := dial(t, other.url()).Lock(t.Context(), "a")
	check(t, err)
	told := make(chan struct{}, 1)
	intercept := func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
		streamer grpc.Streamer, options ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		stream, err := streamer(ctx, desc, conn, method, options...)
		return waiting{stream, told}, err
	}
	client, err := lockkeeper.Dial(t.Context(), []string{used.url(), other.url()},
		lockkeeper.WithDialOptions(grpc.WithStreamInterceptor(intercept)))
	check(t, err)
	defer client.Close()
	ends := make(chan error, 2)
	limits := [][]lockkeeper.AcquireOption{nil, {lockkeeper.WithWaitTimeout(patience)}}
	for _, options := range limits {
		go func() { ends <- client.AwaitFree(t.Context(), "a", options...) }()
		receive(t, "the wait begins", told)
	}
	used.kill()
	receive(t, "a wait goes on", told)
	check(t, grant.Unlock(t.Context()))
	for range limits {
		check(t, receive(t, "the end of a wait", ends))
	}
}
