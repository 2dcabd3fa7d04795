package lockkeeper_test

import (
	"context"
	"errors"
	"log"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

var ctx = context.Background()

func writeReport(context.Context, uint64) error { return nil }

func Example() {
	client, err := lockkeeper.Dial(ctx, []string{"http://locks-1:7625", "http://locks-2:7625"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	report := func(ctx context.Context, grant *lockkeeper.Grant) error {
		return writeReport(ctx, grant.FencingToken())
	}
	if err := client.WithLock(ctx, "nightly-report", report); err != nil {
		log.Fatal(err)
	}
}

func ExampleClient_TryLock() {
	var client *lockkeeper.Client
	grant, err := client.TryLock(ctx, "nightly-report")
	if errors.Is(err, lockkeeper.ErrLocked) {
		return // another node writes the report
	}
	if err != nil {
		log.Fatal(err)
	}
	defer grant.Unlock(ctx)
	if err := writeReport(grant.Context(), grant.FencingToken()); err != nil {
		log.Print(err)
	}
}

func ExampleGrant_Lost() {
	var client *lockkeeper.Client
	grant, err := client.Lock(ctx, "leader", lockkeeper.WithWaitTimeout(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	select {
	case <-grant.Lost():
		log.Print(grant.Err()) // another owner may hold the lock: stop at once
	case <-ctx.Done():
		_ = grant.Unlock(context.WithoutCancel(ctx))
	}
}

func ExampleSemaphore() {
	var client *lockkeeper.Client
	pool := client.Semaphore("connections")
	if _, err := pool.CreatePermits(ctx, 10); err != nil {
		log.Fatal(err)
	}
	permits, err := pool.Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer permits.Unlock(ctx)
}

func ExampleElection() {
	var client *lockkeeper.Client
	election := client.Election("scheduler")
	leadership, err := election.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer leadership.Resign(context.WithoutCancel(ctx))
	select {
	case request := <-leadership.YieldRequested():
		log.Printf("%s asks to lead: %s", request.By, request.Reason)
	case <-leadership.Done():
		log.Print(leadership.Err()) // another candidate may lead: stop at once
	}
}

func ExampleElection_Observe() {
	var client *lockkeeper.Client
	for event, err := range client.Election("scheduler").Observe(ctx, 0) {
		switch {
		case err != nil:
			log.Fatal(err)
		case event.Leader != nil:
			log.Printf("%s leads in term %d", event.Leader.Value, event.Leader.Term)
		case event.Missed:
			log.Print("some leaders may have come and gone")
		default:
			log.Print("nobody leads")
		}
	}
}
