package lockkeeper_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

func TestTwoTasksExcludeEachOther(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	var tasks sync.WaitGroup
	unprotected, inside := 0, 0
	for range 8 {
		tasks.Go(func() {
			for range 10 {
				grant, err := client.Lock(t.Context(), "counter")
				if err != nil {
					t.Error(err)
					return
				}
				inside++
				if inside != 1 {
					t.Errorf("%d tasks hold the lock", inside)
				}
				unprotected++
				inside--
				if err := grant.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	tasks.Wait()
	if unprotected != 80 {
		t.Fatalf("%d of 80", unprotected)
	}
}

func TestTryLock(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	grant, err := client.TryLock(t.Context(), "a")
	check(t, err)
	if grant.FencingToken() == 0 || time.Until(grant.ValidUntil()) <= 0 || grant.ValidFor() <= 0 {
		t.Fatalf("%d, %v, %v", grant.FencingToken(), grant.ValidUntil(), grant.ValidFor())
	}
	_, err = client.TryLock(t.Context(), "a")
	var refused *lockkeeper.NotGrantedError
	if !errors.Is(err, lockkeeper.ErrLocked) || !errors.As(err, &refused) ||
		refused.HolderLease <= 0 {
		t.Fatalf("%v", err)
	}
	check(t, grant.Unlock(t.Context()))
	if !errors.Is(context.Cause(grant.Context()), lockkeeper.ErrReleased) {
		t.Fatal("the context goes on")
	}
	if !grant.ValidUntil().IsZero() || grant.ValidFor() != 0 {
		t.Fatal("it is valid after the release")
	}
	check(t, grant.Unlock(t.Context())) // only the first call releases
	again, err := client.TryLock(t.Context(), "a")
	check(t, err)
	if again.FencingToken() <= grant.FencingToken() {
		t.Fatal("the token did not grow")
	}
}

func TestWithLock(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	failed := errors.New("no paper")
	work := func(ctx context.Context, _ *lockkeeper.Grant) error {
		if _, err := client.TryLock(ctx, "a"); !errors.Is(err, lockkeeper.ErrLocked) {
			t.Errorf("%v", err)
		}
		return failed
	}
	err := client.WithLock(t.Context(), "a", work)
	if !errors.Is(err, failed) || errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("%v", err)
	}
	lose := func(ctx context.Context, _ *lockkeeper.Grant) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	err = client.WithLock(t.Context(), "a", lose, lockkeeper.WithLease(200*time.Millisecond))
	if !errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("%v", err)
	}
	never := func(context.Context, *lockkeeper.Grant) error { panic("it was not granted") }
	if err := client.WithLock(t.Context(), "", never); err == nil {
		t.Fatal("a lock without a name")
	}
}

func TestWaitTimeout(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	_, err := client.Lock(t.Context(), "a")
	check(t, err)
	begun := time.Now()
	_, err = client.Lock(t.Context(), "a", lockkeeper.WithWaitTimeout(200*time.Millisecond))
	var refused *lockkeeper.NotGrantedError
	if !errors.As(err, &refused) || refused.Reason != lockkeeper.WaitTimeout ||
		refused.Name != "a" {
		t.Fatalf("%v", err)
	}
	if after := time.Since(begun); after < 150*time.Millisecond {
		t.Fatalf("after %v", after)
	}
}

func TestCancelledWaitLeavesNoWaiter(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	_, err := client.Lock(t.Context(), "a")
	check(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	waiters := func(want uint32) func() bool {
		return func() bool {
			state, err := client.Describe(t.Context(), "a")
			return err == nil && state.Waiters == want
		}
	}
	ended := make(chan error)
	go func() {
		_, err := client.Lock(ctx, "a", lockkeeper.WithWaitTimeout(math.MaxInt64))
		ended <- err
	}()
	eventually(t, "it waits", waiters(1))
	cause := errors.New("no longer needed")
	cancel(cause)
	if err := receive(t, "the end of the wait", ended); !errors.Is(err, cause) {
		t.Fatalf("%v", err)
	}
	eventually(t, "it waits no longer", waiters(0))
}

func TestModes(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	for _, name := range []string{"first", "second"} {
		_, err := client.RLock(t.Context(), "shared")
		if err != nil {
			t.Fatalf("%s reader: %v", name, err)
		}
	}
	_, err := client.TryLock(t.Context(), "shared", lockkeeper.WithMode(lockkeeper.Write))
	if !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("a writer beside readers: %v", err)
	}
	_, err = client.TryLock(t.Context(), "shared")
	var refused *lockkeeper.RefusedError
	if !errors.As(err, &refused) || refused.Reason != "WRONG_KIND" {
		t.Fatalf("another kind of lock: %v", err)
	}
	fair, err := client.Lock(t.Context(), "queue", lockkeeper.WithMode(lockkeeper.Fair))
	check(t, err)
	check(t, fair.Unlock(t.Context()))
}

func TestOwnersAreReentrant(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	me := lockkeeper.WithOwner("me")
	first, err := client.Lock(t.Context(), "a", me)
	check(t, err)
	second, err := client.TryLock(t.Context(), "a", me)
	check(t, err)
	check(t, first.Unlock(t.Context()))
	if _, err := client.TryLock(t.Context(), "a"); !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("free after one of two releases: %v", err)
	}
	check(t, second.Unlock(t.Context()))
	_, err = client.TryLock(t.Context(), "a")
	check(t, err)
}

func TestSeveralLocks(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	all, err := client.LockAll(t.Context(), []string{"b", "a", "b"})
	check(t, err)
	tokens := all.FencingTokens()
	if len(tokens) != 2 || tokens["a"] == 0 || tokens["b"] == 0 {
		t.Fatalf("%v", tokens)
	}
	if _, err := client.TryLockAll(t.Context(), []string{"c", "b"}); !errors.Is(err,
		lockkeeper.ErrLocked) {
		t.Fatalf("%v", err)
	}
	check(t, all.Unlock(t.Context()))
	_, err = client.TryLockAll(t.Context(), []string{"c", "b"})
	check(t, err)
}

func TestLeaseOfTheRequest(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	grant, err := client.Lock(t.Context(), "a", lockkeeper.WithLease(2*time.Second))
	check(t, err)
	first := grant.ValidUntil()
	check(t, grant.Renew(t.Context(), 3*time.Second))
	if later := grant.ValidUntil().Sub(first); later < 900*time.Millisecond {
		t.Fatalf("%v later after a renewal", later)
	}
	receive(t, "the end of the lease", grant.Lost())
	var lost *lockkeeper.LostError
	if !errors.As(grant.Err(), &lost) || lost.Reason != lockkeeper.LostExpired ||
		lost.Token != grant.FencingToken() {
		t.Fatalf("%v", grant.Err())
	}
	for what, err := range map[string]error{
		"renewal": grant.Renew(t.Context(), 0), "release": grant.Unlock(t.Context()),
		"cause": context.Cause(grant.Context()),
	} {
		if !errors.Is(err, lockkeeper.ErrLost) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func TestWatchedGrantOutlivesItsLease(t *testing.T) {
	const lease = 4 * time.Second
	client := dial(t, startCoordinator(t).url(), lockkeeper.WithSessionLease(lease))
	grant, err := client.Lock(t.Context(), "a")
	check(t, err)
	first := grant.ValidUntil()
	eventually(t, "it was renewed again and again", func() bool {
		return grant.ValidUntil().After(first.Add(lease))
	})
	check(t, grant.Err())
	check(t, grant.Unlock(t.Context()))
}

func TestSemaphore(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	pool := client.Semaphore("pool")
	_, err := pool.Acquire(t.Context(), 1)
	var refused *lockkeeper.RefusedError
	if !errors.As(err, &refused) || refused.Reason != "SEMAPHORE_NOT_FOUND" {
		t.Fatalf("%v", err)
	}
	check(t, pool.SetPermits(t.Context(), 3))
	if total, err := pool.CreatePermits(t.Context(), 9); err != nil || total != 3 {
		t.Fatalf("%d, %v", total, err)
	}
	two, err := pool.Acquire(t.Context(), 2)
	check(t, err)
	if len(two.PermitIDs()) != 2 || two.FencingToken() != 0 || len(two.FencingTokens()) != 0 {
		t.Fatalf("%v", two.PermitIDs())
	}
	if _, err := pool.TryAcquire(t.Context(), 2); !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("%v", err)
	}
	check(t, two.Renew(t.Context(), 0))
	state, err := pool.Describe(t.Context())
	check(t, err)
	if state != (lockkeeper.SemaphoreState{Permits: 3, Available: 1, Holders: 1}) {
		t.Fatalf("%+v", state)
	}
	check(t, two.Unlock(t.Context()))
	_, err = pool.TryAcquire(t.Context(), 3)
	check(t, err)
}

func TestLatch(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	latch := client.Latch("start")
	check(t, latch.Wait(t.Context())) // a name without a count is open
	if count, err := latch.SetCount(t.Context(), 2, time.Minute); err != nil || count != 2 {
		t.Fatalf("%d, %v", count, err)
	}
	err := latch.Wait(t.Context(), lockkeeper.WithWaitTimeout(10*time.Millisecond))
	if !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("%v", err)
	}
	opened := make(chan error)
	go func() { opened <- latch.Wait(t.Context()) }()
	for want := range []uint32{1, 0} {
		left, err := latch.CountDown(t.Context(), 1)
		if err != nil || left != uint32(1-want) {
			t.Fatalf("%d, %v", left, err)
		}
	}
	check(t, receive(t, "the opening", opened))
	if _, err = latch.SetCount(t.Context(), 5, 0); err != nil {
		t.Fatal(err)
	}
	if count, err := latch.Count(t.Context()); err != nil || count != 5 {
		t.Fatalf("%d, %v", count, err)
	}
	if existed, err := latch.Delete(t.Context()); err != nil || !existed {
		t.Fatalf("%v, %v", existed, err)
	}
}

func TestCallsWithoutASession(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	mine, other := client.Leased("a", "me"), client.Leased("a", "")
	lease, err := mine.TryAcquire(t.Context(), 10*time.Second)
	check(t, err)
	left := lease.ValidFor()
	if lease.FencingToken == 0 || left < 5*time.Second || left > 10*time.Second {
		t.Fatalf("%+v", lease)
	}
	if late := time.Until(lease.ValidUntil) - left; late > 0 || late < -time.Second {
		t.Fatalf("the time ends %v after the duration", late)
	}
	if none := (lockkeeper.Lease{}); none.ValidFor() != 0 {
		t.Fatalf("%v", none.ValidFor())
	}
	if _, err := other.TryAcquire(t.Context(), 0); !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("%v", err)
	}
	if other.Owner() == "" {
		t.Fatal("no owner")
	}
	again, err := mine.Renew(t.Context(), 20*time.Second)
	check(t, err)
	if !again.ValidUntil.After(lease.ValidUntil) || again.FencingToken != lease.FencingToken {
		t.Fatalf("%+v", again)
	}
	describeAndCheck(t, client, lease.FencingToken)
	check(t, mine.Release(t.Context()))
	if err := mine.Release(t.Context()); !errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("%v", err)
	}
	_, err = client.Session(t.Context())
	check(t, err)
	describeAndCheck(t, client, lease.FencingToken) // now as frames
}

func describeAndCheck(t *testing.T, client *lockkeeper.Client, token uint64) {
	t.Helper()
	state, err := client.Describe(t.Context(), "a")
	check(t, err)
	if state.LastFencingToken != token {
		t.Fatalf("%+v", state)
	}
	for given, want := range map[uint64]bool{token: true, token - 1: false} {
		current, err := client.CheckToken(t.Context(), "a", given)
		if err != nil || current != want {
			t.Fatalf("%d: %v, %v", given, current, err)
		}
	}
}
