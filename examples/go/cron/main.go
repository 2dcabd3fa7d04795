// Command cron is a job on several nodes: one of them runs it, and the others skip.
//
// Every node has the same line in its crontab. The name contains the date, so it is one run:
//
//	0 3 * * *  cron "nightly-report-$(date +\%F)"
//
// The lock is not released after the job. It expires after an hour, so that a node whose clock is
// late skips as well. If the node dies, nobody repeats the run.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

func main() {
	ctx, run := context.Background(), os.Args[1]
	client, err := lockkeeper.Dial(ctx, []string{os.Getenv("LOCKKEEPER_SERVER")})
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Leased(run, "").TryAcquire(ctx, time.Hour)
	switch {
	case err == nil:
		fmt.Println("running", run)
	case errors.Is(err, lockkeeper.ErrLocked):
		fmt.Println("skipped", run)
	default:
		log.Fatal(err)
	}
}
