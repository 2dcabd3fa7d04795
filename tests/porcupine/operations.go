package main

import (
	"fmt"
	"slices"
	"sort"

	"github.com/anishathalye/porcupine"
)

// input is what an operation does to an object.
type input struct {
	op    string
	owner string // who acts; unique over all clients
	mode  string
}

// output is how it ended.
type output struct {
	outcome string // ok, refused or unknown
	token   uint64
	count   int
}

// object is one lock, semaphore or latch.
type object struct{ kind, name string }

// attempt is one request of a client and all that follows from it.
type attempt struct {
	client  string
	attempt uint64
	object
}

// builder turns the lines of one attempt into operations.
//
// An operation whose outcome is unknown may happen at any time until the end of the history, and so
// may the end of a lease once its holder does not rely on it any more. Both are operations of one
// instant, after which the models permit either state: see the models.
type builder struct {
	notice    int64
	client    int
	in        input
	add       func(porcupine.Operation)
	sent      int64 // the request or the release
	open      *line // a request without an answer
	granted   bool
	held      bool // granted, and not known to be released
	releasing bool
	relies    bool
	end       int64 // of the reliance, if it does not rely
	risk      int64 // when an announced risk comes true
	atRisk    bool
}

// operations are those of each object.
func operations(it *history) (map[object][]porcupine.Operation, error) {
	byAttempt := map[attempt][]line{}
	clients := map[string]int{}
	for _, next := range it.lines {
		key := attempt{next.Client, next.Attempt, object{next.Kind, next.Name}}
		byAttempt[key] = append(byAttempt[key], next)
		if _, known := clients[next.Client]; !known {
			clients[next.Client] = len(clients)
		}
	}
	all := map[object][]porcupine.Operation{}
	for key, lines := range byAttempt {
		first := lines[0]
		owner := first.Owner
		if owner == "" {
			owner = fmt.Sprintf("%s/%d", key.client, key.attempt)
		}
		b := &builder{
			notice: it.NoticeUs,
			client: clients[key.client],
			in:     input{owner: owner, mode: first.Mode},
			add: func(op porcupine.Operation) {
				all[key.object] = append(all[key.object], op)
			},
		}
		for _, next := range lines {
			if err := b.follow(next); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", key.name, owner, err)
			}
		}
		b.finish()
	}
	for _, ops := range all {
		sort.Slice(ops, func(i, j int) bool { return ops[i].Call < ops[j].Call })
	}
	return all, nil
}

func (b *builder) emit(op string, call, end int64, out output) {
	in := b.in
	in.op = op
	b.add(porcupine.Operation{
		ClientId: b.client, Input: in, Call: call, Output: out, Return: end,
	})
}

// instant is an operation that only makes something possible.
func (b *builder) instant(op string, at int64, count int) {
	b.emit(op, at, at, output{outcome: "unknown", count: count})
}

// answers are the events that end a request.
var answers = []string{"granted", "set", "counted", "opened", "failed", "refused"}

func (b *builder) follow(it line) error {
	if slices.Contains(answers, it.What) {
		b.open = nil
	}
	switch it.What {
	case "asked", "set_sent", "count_sent", "await_sent":
		b.sent, b.open = it.AtUs, &it
	case "granted":
		b.emit("acquire", b.sent, it.AtUs, output{"ok", it.Token, it.Count})
		b.granted, b.held, b.relies = true, true, true
		b.end = it.AtUs
	case "set", "counted", "opened":
		b.emit(it.What, b.sent, it.AtUs, output{outcome: "ok", count: it.Count})
	case "release_sent":
		b.stop(it.AtUs)
		b.sent, b.releasing = it.AtUs, true
	case "released":
		b.emit("release", b.sent, it.AtUs, output{outcome: "ok"})
		if b.held && b.end < b.sent {
			b.instant("expired", b.end, 0)
		}
		b.held = false
	case "refused":
		if !b.granted && b.releasing {
			b.emit("release", b.sent, it.AtUs, output{outcome: "refused"})
		}
		b.stop(it.AtUs)
	case "failed":
		b.failed(it)
	default:
		return b.notices(it)
	}
	return nil
}

// failed is an outcome that is not known.
func (b *builder) failed(it line) {
	switch {
	case b.granted || b.releasing: // A release: the end of the reliance says the rest.
	case it.Kind == "latch":
		b.instant("maybe", b.sent, it.Count)
	default:
		b.instant("maybe", b.sent, 0)
	}
}

// notices are what a holder hears of what it holds.
func (b *builder) notices(it line) error {
	switch it.What {
	case "relied", "broke":
		b.stop(it.AtUs)
	case "lost":
		b.stop(it.AtUs - b.notice)
	case "at_risk":
		b.risk, b.atRisk = it.AtUs+it.ValidUs, true
	case "recovered":
		b.atRisk = false
	case "resumed":
		if b.held && !b.releasing {
			b.emit("resumed", b.end, it.AtUs, output{outcome: "ok"})
			b.relies, b.atRisk = true, false
		}
	default:
		return fmt.Errorf("no event is called %q", it.What)
	}
	return nil
}

// stop ends the reliance, if it has not ended before.
func (b *builder) stop(at int64) {
	if !b.relies {
		return
	}
	if b.atRisk && b.risk < at {
		at = b.risk
	}
	b.relies = false
	b.end = max(b.end, at) // Not before the grant.
}

// finish says from when on the lease of what was not released may have ended, and what the request
// without an answer may have done.
func (b *builder) finish() {
	if b.open != nil {
		b.failed(*b.open)
	}
	if b.held && !b.relies {
		b.instant("expired", b.end, 0)
	}
}
