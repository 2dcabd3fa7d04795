package lockkeeper_test

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"testing"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

// observer pulls what an observer of an election sees.
type observer struct {
	t    *testing.T
	next func() (lockkeeper.Observed, error, bool)
}

func observe(t *testing.T, from iter.Seq2[lockkeeper.Observed, error]) *observer {
	next, stop := iter.Pull2(from)
	t.Cleanup(stop)
	return &observer{t, next}
}

// sees fails if the next leader is not one with this value. Between two leaders there may be none.
func (o *observer) sees(value string) *lockkeeper.Leader {
	o.t.Helper()
	it, err, ok := o.next()
	for it == (lockkeeper.Observed{}) && ok && err == nil {
		it, err, ok = o.next()
	}
	if !ok || err != nil || it.Missed || it.Leader == nil || it.Leader.Value != value {
		o.t.Fatalf("not %s: %+v, %+v, %v", value, it, it.Leader, err)
	}
	return it.Leader
}

func (o *observer) seesNobody() {
	o.t.Helper()
	if it, err, ok := o.next(); !ok || err != nil || it.Missed || it.Leader != nil {
		o.t.Fatalf("%+v, %v", it, err)
	}
}

func TestAnElection(t *testing.T) {
	client := dial(t, startCoordinator(t).url(), lockkeeper.WithClientName("node 1"))
	election := client.Election("e")
	if leader, err := election.Leader(t.Context()); leader != nil || err != nil {
		t.Fatalf("%+v, %v", leader, err)
	}
	seen := observe(t, election.Observe(withTimeout(t, patience), 0))
	seen.seesNobody()

	first, err := election.Campaign(t.Context(), "one", noted...)
	check(t, err)
	if leader := seen.sees("one"); leader.Term != first.Term() || leader.ClientName != "node 1" {
		t.Fatalf("%+v", leader)
	}
	next := make(chan *lockkeeper.Leadership)
	go func() {
		leadership, err := election.Campaign(t.Context(), "three")
		if err != nil {
			t.Error(err)
		}
		next <- leadership
	}()
	eventually(t, "a candidate waits", func() bool {
		state, err := client.Describe(t.Context(), "e")
		check(t, err)
		return state.Waiters == 1 && state.HeldBy[0].Mode == lockkeeper.Fair &&
			state.HeldBy[0].Note.Reason == why
	})
	revision, err := first.Proclaim(t.Context(), "two")
	check(t, err)
	if leader := seen.sees("two"); leader.Revision != revision || leader.Term != first.Term() {
		t.Fatalf("%+v", leader)
	}
	check(t, first.Resign(t.Context()))
	receive(t, "the end of the term", first.Done())
	if first.Err() != nil {
		t.Fatalf("%v", first.Err())
	}
	second := receive(t, "the next leader", next)
	if leader := seen.sees("three"); leader.Term != second.Term() ||
		second.Term() <= first.Term() || leader.Revision != revision+1 {
		t.Fatalf("%+v", leader)
	}
	leader, err := election.Leader(t.Context())
	if err != nil || leader == nil || leader.Term != second.Term() || leader.Value != "three" {
		t.Fatalf("%+v, %v", leader, err)
	}
	if _, err := first.Proclaim(t.Context(), "late"); !errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("a former leader proclaims: %v", err)
	}
}

func TestAPreferredCandidateComesFirst(t *testing.T) {
	url := startCoordinator(t).url()
	client := dial(t, url)
	campaign := func(options ...lockkeeper.AcquireOption) <-chan *lockkeeper.Leadership {
		other := dial(t, url).Election("e")
		led := make(chan *lockkeeper.Leadership, 1)
		go func() {
			leadership, err := other.Campaign(t.Context(), "other", options...)
			if err != nil {
				t.Error(err)
			}
			led <- leadership
		}()
		return led
	}
	first, err := client.Election("e").Campaign(t.Context(), "first")
	check(t, err)
	waits := campaign()
	eventually(t, "a candidate waits", func() bool {
		state, err := client.Describe(t.Context(), "e")
		check(t, err)
		return state.Waiters == 1
	})
	preferred := campaign(lockkeeper.WithPreferred())
	receive(t, "the request", first.YieldRequested())
	check(t, first.Resign(t.Context()))
	check(t, receive(t, "the preferred leader", preferred).Resign(t.Context()))
	check(t, receive(t, "the last leader", waits).Resign(t.Context()))
}

func TestACampaignThatEndsLeavesNoCandidate(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	election := client.Election("e")
	leadership, err := election.Campaign(t.Context(), "one")
	check(t, err)
	_, err = election.Campaign(t.Context(), "two", lockkeeper.WithWaitTimeout(50*time.Millisecond))
	if !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err = election.Campaign(ctx, "two"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	var refused *lockkeeper.RefusedError
	if _, err = leadership.Proclaim(t.Context(), "a\nb"); !errors.As(err, &refused) ||
		refused.Reason != "INVALID_VALUE" {
		t.Fatalf("%v", err)
	}
	check(t, leadership.Resign(t.Context()))
	if _, err = election.Campaign(t.Context(), "a\nb"); !errors.As(err, &refused) {
		t.Fatalf("%v", err)
	}
	eventually(t, "nothing is held", func() bool {
		state, err := client.Describe(t.Context(), "e")
		check(t, err)
		return state.Holders == 0 && state.Waiters == 0
	})
}

func TestALeaderThatIsLostIsTold(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	election := client.Election("e")
	leadership, err := election.Campaign(t.Context(), "one")
	check(t, err)
	ask := lockkeeper.Yield{Reason: "why", Within: 100 * time.Millisecond, Preempt: true}
	_, err = client.RequestYield(t.Context(), "e", ask)
	check(t, err)
	receive(t, "the end of the term", leadership.Done())
	if !errors.Is(leadership.Err(), lockkeeper.ErrLost) {
		t.Fatalf("%v", leadership.Err())
	}
}

func TestAnObserverIsToldWhatItMissed(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	election := client.Election("e")
	leadership, err := election.Campaign(t.Context(), "0")
	check(t, err)
	first, err := election.Leader(t.Context())
	check(t, err)
	last := 0
	for last = 1; last <= 70; last++ {
		_, err := leadership.Proclaim(t.Context(), strconv.Itoa(last))
		check(t, err)
	}
	seen := observe(t, election.Observe(withTimeout(t, patience), first.Revision))
	if it, err, _ := seen.next(); err != nil || !it.Missed || it.Leader != nil {
		t.Fatalf("%+v, %v", it, err)
	}
	for value := last - 64; value < last; value++ {
		seen.sees(strconv.Itoa(value))
	}
}

func TestAnObserverGoesOnAtAnotherCoordinator(t *testing.T) {
	flags := []string{"--store", startRedis(t),
		"--set", "session.secret=a secret of the tests of the Go client"}
	used, other := startCoordinator(t, flags...), startCoordinator(t, flags...)
	leader := dial(t, other.url())
	leadership, err := leader.Election("e").Campaign(t.Context(), "one")
	check(t, err)
	client, err := lockkeeper.Dial(t.Context(), []string{used.url(), other.url()})
	check(t, err)
	defer client.Close()
	seen := observe(t, client.Election("e").Observe(withTimeout(t, patience), 0))
	nobody := observe(t, client.Election("n").Observe(withTimeout(t, patience), 0))
	seen.sees("one")
	nobody.seesNobody()
	used.kill()
	for _, value := range []string{"two", "three"} {
		_, err := leadership.Proclaim(t.Context(), value)
		check(t, err)
	}
	seen.sees("two")
	seen.sees("three")
	// Leaders that came and went meanwhile would not be seen.
	if it, err, _ := nobody.next(); err != nil || !it.Missed {
		t.Fatalf("%+v, %v", it, err)
	}
	nobody.seesNobody()
}

func TestAnObserverEnds(t *testing.T) {
	coordinator := startCoordinator(t)
	client := dial(t, coordinator.url())
	for it, err := range client.Election("").Observe(t.Context(), 0) {
		var refused *lockkeeper.RefusedError
		if !errors.As(err, &refused) || refused.Reason != "INVALID_NAME" {
			t.Fatalf("%+v, %v", it, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range client.Election("e").Observe(ctx, 0) {
		cancel()
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Fatalf("%v", last)
	}
	for _, err := range client.Election("e").Observe(t.Context(), 0) {
		if last = err; err == nil {
			check(t, client.Close())
		}
	}
	if !errors.Is(last, lockkeeper.ErrSessionEnded) {
		t.Fatalf("%v", last)
	}
	coordinator.kill()
	other := dial(t, coordinator.url())
	for _, err := range other.Election("e").Observe(t.Context(), 0) {
		last = err
	}
	var unreachable *lockkeeper.UnreachableError
	if !errors.As(last, &unreachable) {
		t.Fatalf("%v", last)
	}
}
