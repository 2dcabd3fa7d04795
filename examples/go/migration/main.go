// Command migration runs under a lock: instances start at once, one migrates, and the others wait
// for it.
//
//	go run ./migration
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

const migration = "CREATE TABLE invoices AS SELECT 1 AS id, pg_sleep(1)::text AS note"

func main() {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	client, err := lockkeeper.Dial(ctx, []string{os.Getenv("LOCKKEEPER_SERVER")})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.WithLock(ctx, "migration", migrate(db)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("serving")
}

func migrate(db *pgx.Conn) func(context.Context, *lockkeeper.Grant) error {
	return func(ctx context.Context, _ *lockkeeper.Grant) error {
		table, err := db.Exec(ctx, "SELECT 1 FROM pg_tables WHERE tablename = 'invoices'")
		if err != nil || table.RowsAffected() > 0 {
			return err
		}
		fmt.Println("migrating")
		_, err = db.Exec(ctx, migration)
		return err
	}
}
