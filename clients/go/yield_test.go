package lockkeeper_test

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

func TestAHolderIsAskedToYield(t *testing.T) {
	url := startCoordinator(t).url()
	holder := dial(t, url)
	caller := dial(t, url, lockkeeper.WithClientName("deploy"))
	first, err := holder.Lock(t.Context(), "a")
	check(t, err)
	ask := lockkeeper.Yield{Reason: "release 1.4", Within: time.Minute}
	begun := time.Now()
	answer, err := caller.RequestYield(t.Context(), "a", ask)
	check(t, err)
	if answer.Holders != 1 || answer.ReachedCount != 1 || len(answer.Reached) != 1 {
		t.Fatalf("%+v", answer)
	}
	request := receive(t, "the request", first.YieldRequested())
	if request.Name != "a" || request.By != "deploy" || request.Reason != "release 1.4" ||
		request.Preempts || request.Deadline.Before(begun.Add(time.Minute-time.Second)) {
		t.Fatalf("%+v", request)
	}
	if first.ValidUntil().IsZero() || first.Err() != nil {
		t.Fatal("it is not valid any more")
	}
	check(t, first.Unlock(t.Context()))
	second, err := holder.TryLock(t.Context(), "a")
	check(t, err)
	select {
	case request := <-second.YieldRequested():
		t.Fatalf("a later holder was asked: %+v", request)
	default:
	}
}

func TestUnreadRequestsToYieldAreKeptUpToALimit(t *testing.T) {
	var text syncBuffer
	client := dial(t, startCoordinator(t).url(),
		lockkeeper.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
	grant, err := client.LockAll(t.Context(), []string{"a", "b"})
	check(t, err)
	for i := range 10 {
		ask := lockkeeper.Yield{Reason: strconv.Itoa(i)}
		answer, err := client.RequestYield(t.Context(), "b", ask)
		check(t, err)
		if answer.ReachedCount != 1 {
			t.Fatalf("%+v", answer)
		}
	}
	eventually(t, "all have come", func() bool {
		return strings.Contains(text.String(), "reason=9")
	})
	for i := range 8 {
		request := receive(t, "a request", grant.YieldRequested())
		if request.Name != "b" || request.Reason != strconv.Itoa(i+2) {
			t.Fatalf("%+v is not the next of the newest", request)
		}
	}
}

func TestAPreemptedLockIsLost(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	grant, err := client.Lock(t.Context(), "a")
	check(t, err)
	ask := lockkeeper.Yield{Reason: "host 7", Within: 200 * time.Millisecond, Preempt: true}
	_, err = client.RequestYield(t.Context(), "a", ask)
	check(t, err)
	if !receive(t, "the request", grant.YieldRequested()).Preempts {
		t.Fatal("it does not say that it preempts")
	}
	receive(t, "the loss", grant.Lost())
	var lost *lockkeeper.LostError
	if !errors.As(grant.Err(), &lost) || lost.Reason != lockkeeper.LostPreempted ||
		lost.Detail != "host 7" || time.Until(lost.ValidUntil) <= 0 {
		t.Fatalf("%+v", grant.Err())
	}
	_, err = client.TryLock(t.Context(), "a")
	if !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("it is open before its holder has stopped: %v", err)
	}
	if err := grant.Unlock(t.Context()); !errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("%v", err)
	}
	next, err := client.Lock(t.Context(), "a")
	check(t, err)
	if !time.Now().Before(lost.ValidUntil) || next.FencingToken() <= grant.FencingToken() {
		t.Fatal("the release did not open the lock")
	}
}

func TestAnOwnerWithoutASessionIsNotReached(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	_, err := client.Leased("a", "me").TryAcquire(t.Context(), time.Minute)
	check(t, err)
	answer, err := client.RequestYield(t.Context(), "a", lockkeeper.Yield{Reason: "why"})
	check(t, err)
	if answer.Holders != 1 || answer.ReachedCount != 0 || len(answer.Unreached) != 1 ||
		answer.Unreached[0].Owner != "me" {
		t.Fatalf("%+v", answer)
	}
	for reason, ask := range map[string]lockkeeper.Yield{
		"INVALID_REASON": {},
		"INVALID_WITHIN": {Reason: "why", Within: 2 * time.Hour},
	} {
		_, err := client.RequestYield(t.Context(), "a", ask)
		var refused *lockkeeper.RefusedError
		if !errors.As(err, &refused) || refused.Reason != reason {
			t.Fatalf("%v", err)
		}
	}
	var wrong *lockkeeper.MisconfiguredError
	_, err = client.RequestYield(t.Context(), "a", lockkeeper.Yield{Reason: "why", Within: -1})
	if !errors.As(err, &wrong) {
		t.Fatalf("%v", err)
	}
}

// --- hold at least

func TestALockIsHeldAtLeast(t *testing.T) {
	const least = 400 * time.Millisecond
	client := dial(t, startCoordinator(t).url())
	acquires := map[string]func(string) (*lockkeeper.Grant, error){
		"Lock": func(name string) (*lockkeeper.Grant, error) {
			return client.Lock(t.Context(), name, lockkeeper.WithHoldAtLeast(least))
		},
		"TryLock": func(name string) (*lockkeeper.Grant, error) {
			return client.TryLock(t.Context(), name, lockkeeper.WithHoldAtLeast(least))
		},
	}
	for name, acquire := range acquires {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			grant, err := acquire(name)
			check(t, err)
			check(t, grant.Unlock(t.Context()))
			next, err := client.Lock(t.Context(), name)
			check(t, err)
			if took := time.Since(begun); took < least {
				t.Fatalf("it was free after %v", took)
			}
			check(t, next.Unlock(t.Context()))
		})
	}
	leased := client.Leased("leased", "me")
	leased.HoldAtLeast = time.Minute
	_, err := leased.TryAcquire(t.Context(), time.Second)
	check(t, err)
	check(t, leased.Release(t.Context()))
	if _, err := client.TryLock(t.Context(), "leased"); !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("%v", err)
	}
}

func TestOptionsThatHaveNoEffectAreRefused(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	least, end := lockkeeper.WithHoldAtLeast(time.Second), lockkeeper.WithEndOnDeadlock()
	_, several := client.LockAll(t.Context(), []string{"a", "b"}, least)
	_, permits := client.Semaphore("s").TryAcquire(t.Context(), 1, least)
	_, deadlock := client.Semaphore("s").Acquire(t.Context(), 1, end)
	_, preferred := client.LockAll(t.Context(), []string{"a", "b"}, lockkeeper.WithPreferred())
	_, negative := client.Lock(t.Context(), "a", lockkeeper.WithHoldAtLeast(-1))
	for _, err := range []error{several, permits, deadlock, preferred, negative} {
		var wrong *lockkeeper.MisconfiguredError
		if !errors.As(err, &wrong) {
			t.Fatalf("%v", err)
		}
	}
	_, err := client.Lock(t.Context(), "a", least, lockkeeper.WithMode(lockkeeper.Read))
	var refused *lockkeeper.RefusedError
	if !errors.As(err, &refused) || refused.Reason != "INVALID_HOLD_AT_LEAST" {
		t.Fatalf("%v", err)
	}
}

// --- deadlocks

// deadlock makes a client for each of two tasks, which wait for each other's lock with the options.
func deadlock(
	t *testing.T, url string, options func(task int) []lockkeeper.AcquireOption,
) (*lockkeeper.Client, []*lockkeeper.Grant, chan error) {
	names := []string{"a", "b"}
	var clients []*lockkeeper.Client
	var held []*lockkeeper.Grant
	for task, name := range names {
		clients = append(clients, dial(t, url))
		grant, err := clients[task].Lock(t.Context(), name, options(task)...)
		check(t, err)
		held = append(held, grant)
	}
	ends := make(chan error, len(names))
	for task, client := range clients {
		go func() {
			grant, err := client.Lock(t.Context(), names[1-task], options(task)...)
			if err == nil {
				err = grant.Unlock(t.Context())
			}
			ends <- err
		}()
	}
	return clients[0], held, ends
}

func TestADeadlockOfNamedOwnersIsNamedAndEnded(t *testing.T) {
	url := startCoordinator(t).url()
	_, held, ends := deadlock(t, url, func(task int) []lockkeeper.AcquireOption {
		return []lockkeeper.AcquireOption{
			lockkeeper.WithOwner("worker-" + strconv.Itoa(task)), lockkeeper.WithEndOnDeadlock(),
		}
	})
	var ended *lockkeeper.NotGrantedError
	if err := receive(t, "the end of a wait", ends); !errors.As(err, &ended) ||
		ended.Reason != lockkeeper.Deadlock {
		t.Fatalf("%v", err)
	}
	// The one whose wait ended releases what it holds, for which the other waits.
	at := map[string]int{"b": 0, "a": 1}[ended.Name]
	check(t, held[at].Unlock(t.Context()))
	check(t, receive(t, "the other wait", ends))
}

func TestADeadlockIsExplained(t *testing.T) {
	for _, isNamed := range []bool{true, false} {
		t.Run(strconv.FormatBool(isNamed), func(t *testing.T) {
			t.Parallel()
			url := startCoordinator(t).url()
			client, held, ends := deadlock(t, url, func(int) []lockkeeper.AcquireOption {
				if isNamed {
					return []lockkeeper.AcquireOption{lockkeeper.WithOwner("worker")}
				}
				return nil
			})
			eventually(t, "the deadlock is explained", func() bool {
				it, err := client.Explain(t.Context(), "a")
				check(t, err)
				return len(it.Locks) == 2 && len(it.Deadlocks) == 1 &&
					it.Deadlocks[0].IsPossible != isNamed && len(it.Deadlocks[0].Waits) == 2
			})
			check(t, held[0].Unlock(t.Context()))
			check(t, receive(t, "a wait", ends))
			check(t, held[1].Unlock(t.Context()))
			check(t, receive(t, "the other wait", ends))
		})
	}
}
