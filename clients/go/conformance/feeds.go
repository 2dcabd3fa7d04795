package main

import (
	"context"
	"fmt"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// tell reports what a feed was told.
func (d *driver) tell(it command, what string, more object) {
	event := object{"event": "told", "feed": it.Feed, "what": what}
	for field, value := range more {
		event[field] = value
	}
	d.print(event)
}

// observe follows an election until an error ends that.
func (d *driver) observe(ctx context.Context, client *lockkeeper.Client, it command) error {
	for seen, err := range client.Election(it.Name).Observe(ctx, 0) {
		switch leader := seen.Leader; {
		case err != nil:
			return err
		case leader != nil:
			d.tell(it, "leader", object{
				"value": leader.Value, "revision": fmt.Sprint(leader.Revision),
				"fencing_token": fmt.Sprint(leader.Term),
			})
		case seen.Missed:
			d.tell(it, "missed", nil)
		default:
			d.tell(it, "no_leader", nil)
		}
	}
	return nil
}

// watchLock follows a lock until an error ends that.
func (d *driver) watchLock(ctx context.Context, client *lockkeeper.Client, it command) error {
	for seen, err := range client.WatchLock(ctx, it.Name) {
		if err != nil {
			return err
		}
		switch event := seen.Event.(type) {
		case *pb.WatchLockResponse_State:
			d.tell(it, "state", nil)
		case *pb.WatchLockResponse_Granted:
			d.tell(it, "granted", tokenOf(event.Granted.FencingToken))
		case *pb.WatchLockResponse_Ended:
			d.tell(it, "ended", tokenOf(event.Ended.FencingToken))
		case *pb.WatchLockResponse_Free:
			d.tell(it, "free", nil)
		case *pb.WatchLockResponse_Waiters:
			d.tell(it, "waiters", nil)
		case *pb.WatchLockResponse_Gap:
			d.tell(it, "gap", nil)
		}
	}
	return nil
}

func tokenOf(token uint64) object { return object{"fencing_token": fmt.Sprint(token)} }
