package lockkeeper_test

import (
	"errors"
	"testing"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

// isRefused fails if an error is not a refusal for a reason, in a state if that is not empty.
func isRefused(t *testing.T, err error, reason, state string) {
	t.Helper()
	var refused *lockkeeper.RefusedError
	if !errors.As(err, &refused) || refused.Reason != reason ||
		state != "" && refused.Metadata["state"] != state {
		t.Fatalf("%v, %+v", err, refused)
	}
}

func isMisconfigured(t *testing.T, err error) {
	t.Helper()
	var wrong *lockkeeper.MisconfiguredError
	if !errors.As(err, &wrong) {
		t.Fatalf("%v", err)
	}
}

func TestALockIsHandedOver(t *testing.T) {
	url := startCoordinator(t).url()
	giver, taker := dial(t, url), dial(t, url, lockkeeper.WithClientName("taker"))
	given, err := giver.Lock(t.Context(), "a")
	check(t, err)
	ticket, err := given.Offer(t.Context(), 0)
	check(t, err)
	if given.Err() != nil || given.ValidUntil().IsZero() {
		t.Fatal("the offer ended the grant")
	}
	taken, err := taker.Claim(t.Context(), "a", ticket, lockkeeper.WithOwner("worker"))
	check(t, err)
	if taken.FencingToken() <= given.FencingToken() || taken.ValidUntil().IsZero() {
		t.Fatalf("%d after %d", taken.FencingToken(), given.FencingToken())
	}
	receive(t, "the loss", given.Lost())
	var lost *lockkeeper.LostError
	if !errors.As(given.Err(), &lost) || lost.Reason != lockkeeper.LostHandedOver {
		t.Fatalf("%v", given.Err())
	}
	if err := given.Unlock(t.Context()); !errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("%v", err)
	}
	state, err := taker.Describe(t.Context(), "a")
	check(t, err)
	if state.Holders != 1 || state.HeldBy[0].Owner != "worker" ||
		state.HeldBy[0].ClientName != "taker" {
		t.Fatalf("%+v", state)
	}
	_, err = giver.Claim(t.Context(), "a", ticket)
	isRefused(t, err, "TICKET_REFUSED", "over")
	check(t, taken.Unlock(t.Context()))
	next, err := giver.TryLock(t.Context(), "a")
	check(t, err)
	check(t, next.Unlock(t.Context()))
}

func TestATicketThatIsNotClaimedChangesNothing(t *testing.T) {
	url := startCoordinator(t).url()
	giver, taker := dial(t, url), dial(t, url)
	given, err := giver.Lock(t.Context(), "a")
	check(t, err)
	ticket, err := given.Offer(t.Context(), time.Minute)
	check(t, err)
	_, err = taker.Claim(t.Context(), "a", "no ticket")
	isRefused(t, err, "TICKET_REFUSED", "invalid")
	_, err = giver.Claim(t.Context(), "a", ticket, lockkeeper.WithOwner("another"))
	check(t, err) // another owner of the same session is another holder
	receive(t, "the loss", given.Lost())
	_, err = given.Offer(t.Context(), 0)
	if !errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("%v", err)
	}
	held, err := giver.Lock(t.Context(), "b")
	check(t, err)
	ticket, err = held.Offer(t.Context(), 0)
	check(t, err)
	check(t, held.Unlock(t.Context()))
	_, err = taker.Claim(t.Context(), "b", ticket)
	isRefused(t, err, "TICKET_REFUSED", "over")
}

func TestWhatCannotBeHandedOver(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	several, err := client.LockAll(t.Context(), []string{"a", "b"})
	check(t, err)
	_, err = several.Offer(t.Context(), 0)
	isMisconfigured(t, err)
	_, err = several.Offer(t.Context(), -1)
	isMisconfigured(t, err)
	for name, option := range map[string]lockkeeper.AcquireOption{
		"least": lockkeeper.WithHoldAtLeast(time.Second),
		"delay": lockkeeper.WithLockDelay(time.Second),
	} {
		grant, err := client.Lock(t.Context(), name, option)
		check(t, err)
		ticket, err := grant.Offer(t.Context(), 0)
		check(t, err)
		_, err = client.Claim(t.Context(), name, ticket)
		isRefused(t, err, "TICKET_REFUSED", "unfit")
	}
	worker := lockkeeper.WithOwner("worker")
	grant, err := client.Lock(t.Context(), "c", worker)
	check(t, err)
	_, err = client.Lock(t.Context(), "c", worker)
	check(t, err)
	_, err = grant.Offer(t.Context(), 0)
	isRefused(t, err, "TICKET_REFUSED", "unfit")
	_, err = grant.Offer(t.Context(), time.Hour)
	isRefused(t, err, "INVALID_WITHIN", "")
	for _, option := range []lockkeeper.AcquireOption{
		lockkeeper.WithHoldAtLeast(time.Second), lockkeeper.WithLockDelay(time.Second),
		lockkeeper.WithEndOnDeadlock(), lockkeeper.WithPreferred(),
		lockkeeper.WithWaitTimeout(time.Second),
	} {
		_, err = client.Claim(t.Context(), "c", "ticket", option)
		isMisconfigured(t, err)
	}
}

// --- lock delay

func TestALockStaysClosedAfterALoss(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	options := []lockkeeper.AcquireOption{
		lockkeeper.WithLease(200 * time.Millisecond), lockkeeper.WithLockDelay(time.Minute),
	}
	for name, acquire := range map[string]func(string) (*lockkeeper.Grant, error){
		"Lock": func(name string) (*lockkeeper.Grant, error) {
			return client.Lock(t.Context(), name, options...)
		},
		"TryLock": func(name string) (*lockkeeper.Grant, error) {
			return client.TryLock(t.Context(), name, options...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			grant, err := acquire(name)
			check(t, err)
			receive(t, "the loss", grant.Lost())
			_, err = client.TryLock(t.Context(), name)
			var busy *lockkeeper.NotGrantedError
			if !errors.As(err, &busy) || busy.HolderLease <= 30*time.Second {
				t.Fatalf("%v, %+v", err, busy)
			}
			if err := grant.Unlock(t.Context()); !errors.Is(err, lockkeeper.ErrLost) {
				t.Fatalf("%v", err)
			}
			// The late release ends the delay.
			next, err := client.Lock(t.Context(), name, lockkeeper.WithWaitTimeout(patience))
			check(t, err)
			check(t, next.Unlock(t.Context()))
		})
	}
	leased := client.Leased("leased", "me")
	leased.LockDelay = time.Minute
	_, err := leased.TryAcquire(t.Context(), 100*time.Millisecond)
	check(t, err)
	eventually(t, "the lease has ended, and the delay has not", func() bool {
		state, err := client.Describe(t.Context(), "leased")
		check(t, err)
		return state.Holders == 1 && state.HeldBy[0].RemainingLease == 0 &&
			state.RemainingLease > 30*time.Second
	})
}

func TestAReleaseEndsTheLockDelay(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	grant, err := client.Lock(t.Context(), "a", lockkeeper.WithLockDelay(time.Minute))
	check(t, err)
	check(t, grant.Unlock(t.Context()))
	next, err := client.TryLock(t.Context(), "a")
	check(t, err)
	check(t, next.Unlock(t.Context()))
}
