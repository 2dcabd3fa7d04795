package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

// pause follows an attempt that failed.
const pause = 50 * time.Millisecond

// histories are those of the contenders that run.
type histories struct {
	mu      sync.Mutex
	running map[*history]bool
	state   lockkeeper.State
}

// history is what one contender saw, a JSON object on a line for each event.
type history struct {
	mu      sync.Mutex
	file    *os.File
	client  string
	name    string
	attempt int
	// grant is what is held; nil if nothing is.
	grant *lockkeeper.Grant
}

func (h *histories) add(it *history) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.running == nil {
		h.running = map[*history]bool{}
	}
	h.running[it] = true
}

func (h *histories) remove(it *history) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.running, it)
}

// noteSession notes what happens to the session while a contender holds the lock.
func (h *histories) noteSession(event lockkeeper.SessionEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.state
	h.state = event.State
	word := map[lockkeeper.State]string{
		lockkeeper.Resuming: "broke", lockkeeper.Connected: "resumed", lockkeeper.AtRisk: "at_risk",
	}[event.State]
	if event.State == lockkeeper.Connected && before == lockkeeper.AtRisk {
		word = "recovered"
	}
	for it := range h.running {
		if word != "" {
			it.noteHeld(word, event.ValidFor)
		}
	}
}

func (h *history) noteHeld(what string, validFor time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.grant != nil && h.grant.Err() == nil { // else its loss follows
		h.write(what, 0, validFor)
	}
}

func (h *history) note(what string, held *lockkeeper.Grant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grant = held
	var token uint64
	switch what {
	case "asked":
		h.attempt++
	case "granted":
		token = held.FencingToken()
	}
	h.write(what, token, 0)
}

func (h *history) write(what string, token uint64, validFor time.Duration) {
	event := object{
		"at_us": monotonic().Microseconds(), "client": h.client, "attempt": h.attempt,
		"name": h.name, "what": what,
	}
	if token != 0 {
		event["token"] = fmt.Sprint(token)
	}
	switch what {
	case "at_risk":
		event["valid_us"] = validFor.Microseconds()
	case "broke": // after at_us was read, so that both together are not too late
		event["valid_us"] = h.grant.ValidFor().Microseconds()
	}
	line, err := json.Marshal(event)
	if err == nil {
		// One write for each line: several processes append to the file.
		_, err = h.file.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "history:", err)
	}
}

// contend acquires and releases a lock again and again.
func (d *driver) contend(ctx context.Context, client *lockkeeper.Client, it command) error {
	path := os.Getenv("LOCKKEEPER_HISTORY")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return &lockkeeper.MisconfiguredError{Field: "LOCKKEEPER_HISTORY", Cause: err}
	}
	defer file.Close()
	seen := &history{file: file, client: fmt.Sprint(it.Client), name: it.Name}
	d.histories.add(seen)
	defer d.histories.remove(seen)
	end := time.Now().Add(time.Duration(it.Seconds * float64(time.Second)))
	for time.Now().Before(end) && ctx.Err() == nil {
		seen.note("asked", nil)
		grant, err := client.Lock(ctx, it.Name, it.acquireOptions()...)
		if err != nil {
			seen.note("failed", nil)
			time.Sleep(pause)
			continue
		}
		seen.note("granted", grant)
		hold(ctx, grant, millis(it.HoldMS), seen)
	}
	return context.Cause(ctx)
}

// hold works under a lock, and releases it.
func hold(ctx context.Context, grant *lockkeeper.Grant, busy time.Duration, seen *history) {
	select {
	case <-grant.Lost():
		seen.note("lost", nil)
		_ = grant.Unlock(ctx) // it says that it was lost
		return
	case <-time.After(busy):
	}
	seen.note("release_sent", nil)
	err := grant.Unlock(ctx)
	switch {
	case err == nil:
		seen.note("released", nil)
	case errors.Is(err, lockkeeper.ErrLost), errors.Is(err, lockkeeper.ErrSessionEnded):
		seen.note("refused", nil)
	default:
		seen.note("failed", nil)
	}
}
