package main

import (
	"context"
	"errors"
	"fmt"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

func (d *driver) run(ctx context.Context, it command) (object, error) {
	switch it.Do {
	case "connect":
		return object{}, d.connect(ctx, it)
	case "cancel":
		d.cancel(it.Target)
		return object{}, nil
	case "release", "renew", "state", "proclaim", "offer":
		return d.runOnGuard(ctx, it)
	case "sessions":
		return object{}, d.openIdle(ctx, it)
	case "speed":
		return speed(ctx, it)
	}
	client, err := d.current()
	if err != nil {
		return nil, err
	}
	switch it.Do {
	case "acquire", "try_acquire", "acquire_all", "try_acquire_all",
		"acquire_permits", "try_acquire_permits", "campaign", "claim":
		grant, err := acquire(ctx, client, it)
		if err != nil {
			return nil, err
		}
		d.keep(it, grant)
		return describe(grant), nil
	case "set_permits":
		return object{}, client.Semaphore(it.Name).SetPermits(ctx, it.Permits)
	case "describe_semaphore":
		state, err := client.Semaphore(it.Name).Describe(ctx)
		return object{"permits": state.Permits, "available": state.Available}, err
	case "describe":
		state, err := client.Describe(ctx, it.Name)
		return object{
			"holder_count": state.Holders, "waiter_count": state.Waiters,
			"last_fencing_token": fmt.Sprint(state.LastFencingToken),
		}, err
	case "check_token":
		current, err := client.CheckToken(ctx, it.Name, it.FencingToken)
		return object{"current": current}, err
	case "observe":
		return nil, d.observe(ctx, client, it)
	case "watch_lock":
		return nil, d.watchLock(ctx, client, it)
	case "await_free":
		return object{}, client.AwaitFree(ctx, it.Name, it.acquireOptions()...)
	case "contend":
		return object{}, d.contend(ctx, client, it)
	case "close":
		return object{}, client.Close()
	}
	ok, err := runOnLatch(ctx, client.Latch(it.Name), it)
	if !errors.Is(err, errors.ErrUnsupported) {
		return ok, err
	}
	return runOnce(ctx, client, it)
}

func (d *driver) connect(ctx context.Context, it command) error {
	listen := lockkeeper.WithSessionListener(func(event lockkeeper.SessionEvent) {
		d.histories.noteSession(event)
		d.print(object{"event": "session", "state": event.State, "cause": event.Cause})
	})
	client, err := lockkeeper.Dial(ctx, it.Endpoints, append(it.clientOptions(), listen)...)
	if err != nil {
		return err
	}
	if _, err := client.Session(ctx); err != nil {
		return errors.Join(err, client.Close())
	}
	d.mu.Lock()
	d.client = client
	d.mu.Unlock()
	return nil
}

// openIdle opens sessions of clients of their own, which stay idle.
func (d *driver) openIdle(ctx context.Context, it command) error {
	for range it.Count {
		client, err := lockkeeper.Dial(ctx, it.Endpoints)
		if err != nil {
			return err
		}
		d.idle = append(d.idle, client)
		if _, err := client.Session(ctx); err != nil {
			return err
		}
	}
	return nil
}

func acquire(
	ctx context.Context, client *lockkeeper.Client, it command,
) (*lockkeeper.Grant, error) {
	options := it.acquireOptions()
	switch it.Do {
	case "acquire":
		return client.Lock(ctx, it.Name, options...)
	case "campaign":
		leadership, err := client.Election(it.Name).Campaign(ctx, it.Value, options...)
		if err != nil {
			return nil, err
		}
		return leadership.Grant, nil
	case "claim":
		return client.Claim(ctx, it.Name, it.Ticket)
	case "try_acquire":
		return client.TryLock(ctx, it.Name, options...)
	case "acquire_all":
		return client.LockAll(ctx, it.Names, options...)
	case "try_acquire_all":
		return client.TryLockAll(ctx, it.Names, options...)
	case "acquire_permits":
		return client.Semaphore(it.Name).Acquire(ctx, it.Permits, options...)
	default:
		return client.Semaphore(it.Name).TryAcquire(ctx, it.Permits, options...)
	}
}

func (d *driver) runOnGuard(ctx context.Context, it command) (object, error) {
	grant, err := d.guard(it.Guard)
	if err != nil {
		return nil, err
	}
	switch it.Do {
	case "release":
		return object{}, grant.Unlock(ctx)
	case "renew":
		err := grant.Renew(ctx, millis(it.LeaseMS))
		return describe(grant), err
	case "offer":
		ticket, err := grant.Offer(ctx, 0)
		return object{"ticket": ticket}, err
	case "proclaim":
		revision, err := (&lockkeeper.Leadership{Grant: grant}).Proclaim(ctx, it.Value)
		return object{"revision": fmt.Sprint(revision)}, err
	default:
		state := describe(grant)
		state["lost"] = grant.Err() != nil
		return state, nil
	}
}

func runOnLatch(ctx context.Context, latch *lockkeeper.Latch, it command) (object, error) {
	switch it.Do {
	case "set_count":
		count, err := latch.SetCount(ctx, it.Count, 0)
		return object{"count": count}, err
	case "count_down":
		left, err := latch.CountDown(ctx, max(1, it.By))
		return object{"count": left}, err
	case "await_latch":
		return object{}, latch.Wait(ctx, it.acquireOptions()...)
	case "describe_latch":
		count, err := latch.Count(ctx)
		return object{"count": count}, err
	case "delete_latch":
		_, err := latch.Delete(ctx)
		return object{}, err
	}
	return nil, errors.ErrUnsupported
}

// runOnce runs calls without a session.
func runOnce(ctx context.Context, client *lockkeeper.Client, it command) (object, error) {
	lock := client.Leased(it.Name, it.Owner)
	switch it.Do {
	case "once_try_acquire":
		lease, err := lock.TryAcquire(ctx, millis(it.LeaseMS))
		if errors.Is(err, lockkeeper.ErrLocked) {
			return object{"acquired": false}, nil
		}
		return object{"acquired": true, "fencing_token": fmt.Sprint(lease.FencingToken)}, err
	case "once_renew":
		_, err := lock.Renew(ctx, millis(it.LeaseMS))
		return object{}, err
	case "once_release":
		return object{}, lock.Release(ctx)
	}
	return nil, errors.ErrUnsupported
}
