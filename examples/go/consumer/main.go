// Command consumer is idempotent: an order that is delivered twice is charged once.
//
//	go run ./consumer order-17
//
// The row tells that an order was charged. The lock prevents two consumers from both finding no
// row.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

func main() {
	if err := consume(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func consume(ctx context.Context, order string) error {
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	client, err := lockkeeper.Dial(ctx, []string{os.Getenv("LOCKKEEPER_SERVER")})
	if err != nil {
		return err
	}
	defer client.Close()
	work := func(ctx context.Context, _ *lockkeeper.Grant) error {
		rows, err := db.Exec(ctx, "SELECT 1 FROM charges WHERE order_id = $1", order)
		if err == nil && rows.RowsAffected() > 0 {
			fmt.Println(order, "was charged before")
			return err
		}
		fmt.Println("charging", order)
		time.Sleep(500 * time.Millisecond)
		_, err = db.Exec(ctx, "INSERT INTO charges VALUES ($1)", order)
		return err
	}
	return client.WithLock(ctx, "charge:"+order, work)
}
