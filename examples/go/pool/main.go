// Command pool is bounded: five downloads here and any number in other processes, but three at a
// time.
//
//	go run ./pool
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

func main() {
	ctx := context.Background()
	client, err := lockkeeper.Dial(ctx, []string{os.Getenv("LOCKKEEPER_SERVER")})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pool := client.Semaphore("downloads")
	if _, err := pool.CreatePermits(ctx, 3); err != nil {
		log.Fatal(err)
	}
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() { download(ctx, pool) })
	}
	group.Wait()
}

func download(ctx context.Context, pool *lockkeeper.Semaphore) {
	permit, err := pool.Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer permit.Unlock(ctx)
	fmt.Println("begin")
	time.Sleep(200 * time.Millisecond)
	fmt.Println("end")
}
