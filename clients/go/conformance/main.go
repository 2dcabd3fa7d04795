// Command conformance is the driver of clients/conformance.md: it reads commands from standard
// input and writes events to standard output, each a JSON object on a line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sync"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

func main() {
	driver := newDriver(json.NewEncoder(os.Stdout))
	driver.print(object{"event": "ready"})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var it command
		if err := json.Unmarshal(lines.Bytes(), &it); err != nil {
			log.Fatalf("%s: %v", lines.Text(), err)
		}
		driver.start(it)
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	driver.stop()
}

type object map[string]any

// driver has at most one client.
type driver struct {
	output    sync.Mutex
	encoder   *json.Encoder
	histories histories

	// idle is what one command at a time opens.
	idle []*lockkeeper.Client

	mu      sync.Mutex
	client  *lockkeeper.Client
	guards  map[string]*lockkeeper.Grant
	cancels map[int64]context.CancelFunc
}

func newDriver(encoder *json.Encoder) *driver {
	encoder.SetEscapeHTML(false)
	return &driver{
		encoder: encoder,
		guards:  map[string]*lockkeeper.Grant{},
		cancels: map[int64]context.CancelFunc{},
	}
}

func (d *driver) print(event object) {
	d.output.Lock()
	defer d.output.Unlock()
	if err := d.encoder.Encode(event); err != nil {
		log.Fatal(err)
	}
}

// start runs a command. Others can follow before it has ended.
func (d *driver) start(it command) {
	ctx, cancel := context.WithCancel(context.Background())
	d.mu.Lock()
	d.cancels[it.ID] = cancel
	d.mu.Unlock()
	go func() {
		ok, err := d.run(ctx, it)
		d.mu.Lock()
		delete(d.cancels, it.ID)
		d.mu.Unlock()
		if err != nil {
			d.print(object{"id": it.ID, "error": failure(err)})
		} else {
			d.print(object{"id": it.ID, "ok": ok})
		}
	}()
}

func (d *driver) stop() {
	d.mu.Lock()
	client := d.client
	d.mu.Unlock()
	if client != nil {
		if err := client.Close(); err != nil {
			log.Print(err)
		}
	}
}

func (d *driver) cancel(target int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.cancels[target]; cancel != nil {
		cancel()
	}
}

func (d *driver) current() (*lockkeeper.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		return nil, &lockkeeper.SessionEndedError{Cause: "it was never opened"}
	}
	return d.client, nil
}

func (d *driver) guard(name string) (*lockkeeper.Grant, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	grant := d.guards[name]
	if grant == nil {
		return nil, &lockkeeper.MisconfiguredError{Field: "guard", Cause: fmt.Errorf("no %s", name)}
	}
	return grant, nil
}

// keep keeps a grant, and reports its loss as a user sees it.
func (d *driver) keep(it command, grant *lockkeeper.Grant) {
	d.mu.Lock()
	d.guards[it.Guard] = grant
	d.mu.Unlock()
	context.AfterFunc(grant.Context(), func() { d.reportLoss(it, grant.Context()) })
	go d.reportYields(grant)
}
