// Command fencing writes to PostgreSQL: the row refuses a holder that lost its lock without
// noticing.
//
//	go run ./fencing
//
// It holds the lock until it has read a line. Pause it meanwhile with Ctrl-Z, take its lock away
// with `lockkeeper force-release report --reason test --yes`, write with another one, and continue
// it with `fg`: its token is smaller than that of the row.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

const update = "UPDATE reports SET body = $1, token = $2 WHERE id = 1 AND token <= $2"

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
	defer client.Close()
	grant, err := client.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("holds the lock with token", grant.FencingToken())
	line := bufio.NewScanner(os.Stdin)
	line.Scan()
	rows, err := db.Exec(ctx, update, line.Text(), grant.FencingToken())
	if err != nil || rows.RowsAffected() == 0 {
		log.Fatal("refused: a newer holder has written; ", err)
	}
	fmt.Println("written")
}
