package main

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// model is what an object promises in a run; nil if nothing is promised.
func model(of object, by promise) *porcupine.Model {
	var it porcupine.Model
	switch {
	case by != exclusion && (of.kind == "lock" || of.kind == "read_write"):
		it = stepper(tokenState{}, tokenStep(by == twoStores))
	case by != exclusion:
		return nil
	case of.kind == "lock":
		it = stepper(lockState{}, lockStep)
	case of.kind == "read_write":
		it = stepper(readWriteState{}, readWriteStep)
		it.Equal = func(a, b any) bool { return a.(readWriteState).equals(b.(readWriteState)) }
	case of.kind == "semaphore":
		it = stepper(semaphoreState{}, semaphoreStep)
		it.Equal = func(a, b any) bool { return a.(semaphoreState).equals(b.(semaphoreState)) }
	case of.kind == "latch":
		it = stepper(latchState{}, latchStep)
	default:
		return nil
	}
	it.DescribeOperation = describe
	return &it
}

func stepper[S any](first S, step func(S, input, output) (bool, S)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return first },
		Step: func(state, in, out any) (bool, any) {
			return step(state.(S), in.(input), out.(output))
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

func describe(in, out any) string {
	i, o := in.(input), out.(output)
	text := fmt.Sprintf("%s %s %s", i.owner, i.op, i.mode)
	if o.token != 0 {
		text += fmt.Sprintf(" token %d", o.token)
	}
	if o.count != 0 {
		text += fmt.Sprintf(" count %d", o.count)
	}
	return text + ": " + o.outcome
}

// lockState is a lock with one owner.
type lockState struct {
	owner string
	holds int
	maybe int // acquires of the owner whose outcome is unknown
	token uint64
	last  uint64 // the largest token so far
	ended bool   // the lease may have ended, or a release may have happened
}

func lockStep(s lockState, in input, out output) (bool, lockState) {
	is := s.owner == in.owner && s.holds > 0
	switch in.op {
	case "acquire":
		if is && out.token == s.token {
			more := out.count - s.holds - 1
			if more < 0 || more > s.maybe {
				return false, s
			}
			s.holds, s.maybe = out.count, s.maybe-more
			return true, s
		}
		free := s.holds == 0 || s.ended
		if !free || out.token <= s.last || out.count > 1 {
			return false, s
		}
		return true, lockState{owner: in.owner, holds: 1, token: out.token, last: out.token}
	case "resumed":
		return is, s
	case "release":
		if out.outcome == "refused" {
			return !is || s.ended, s
		}
		s.holds--
		if is && s.holds == 0 {
			return true, lockState{last: s.last}
		}
		return is, s
	case "maybe":
		if is {
			s.maybe++
		}
		return true, s
	case "expired":
		s.ended = s.ended || is
		return true, s
	}
	return false, s
}

// reader is a reader, or a holder of permits.
type holder struct {
	owner   string
	permits int
	ended   bool
}

func without(all []holder, owner string) ([]holder, bool) {
	at := slices.IndexFunc(all, func(it holder) bool { return it.owner == owner })
	if at < 0 {
		return all, false
	}
	return slices.Delete(slices.Clone(all), at, at+1), true
}

func with(all []holder, it holder) []holder {
	all = append(slices.Clone(all), it)
	slices.SortFunc(all, func(a, b holder) int {
		switch {
		case a.owner < b.owner:
			return -1
		case a.owner > b.owner:
			return 1
		}
		return 0
	})
	return all
}

func endedOf(all []holder, owner string) []holder {
	all = slices.Clone(all)
	for i := range all {
		all[i].ended = all[i].ended || all[i].owner == owner
	}
	return all
}

// readWriteState is a read/write lock.
type readWriteState struct {
	writer  string
	ended   bool // the writer's lease may have ended
	readers []holder
	last    uint64
}

func (s readWriteState) equals(o readWriteState) bool {
	return s.writer == o.writer && s.ended == o.ended && s.last == o.last &&
		slices.Equal(s.readers, o.readers)
}

func readWriteStep(s readWriteState, in input, out output) (bool, readWriteState) {
	noWriter := s.writer == "" || s.ended
	switch in.op + " " + in.mode {
	case "acquire write":
		read := slices.ContainsFunc(s.readers, func(it holder) bool { return !it.ended })
		if !noWriter || read || out.token <= s.last {
			return false, s
		}
		return true, readWriteState{writer: in.owner, last: out.token}
	case "acquire read":
		// A reader has the token of the last writer, or 0 if that is unknown.
		if !noWriter && s.writer != in.owner || out.token != 0 && out.token < s.last {
			return false, s
		}
		if s.writer != in.owner {
			s.writer, s.ended = "", false
		}
		s.readers = with(s.readers, holder{owner: in.owner})
		s.last = max(s.last, out.token)
		return true, s
	case "release write":
		ok := s.writer == in.owner
		s.writer, s.ended = "", false
		return ok, s
	case "release read":
		var ok bool
		s.readers, ok = without(s.readers, in.owner)
		return ok, s
	case "expired write":
		s.ended = s.ended || s.writer == in.owner
		return true, s
	case "expired read":
		s.readers = endedOf(s.readers, in.owner)
		return true, s
	case "maybe write", "maybe read":
		return true, s
	}
	return false, s
}

// semaphoreState is a semaphore.
type semaphoreState struct {
	total int
	held  []holder
}

func (s semaphoreState) equals(o semaphoreState) bool {
	return s.total == o.total && slices.Equal(s.held, o.held)
}

func semaphoreStep(s semaphoreState, in input, out output) (bool, semaphoreState) {
	switch in.op {
	case "set":
		s.total = out.count
		return true, s
	case "acquire":
		sum := out.count
		for _, it := range s.held {
			if !it.ended {
				sum += it.permits
			}
		}
		s.held = with(s.held, holder{owner: in.owner, permits: out.count})
		return sum <= s.total, s
	case "release":
		var ok bool
		s.held, ok = without(s.held, in.owner)
		return ok, s
	case "expired":
		s.held = endedOf(s.held, in.owner)
		return true, s
	case "maybe":
		return true, s
	}
	return false, s
}

// latchState is a latch.
type latchState struct {
	count int
	maybe int // what may be counted down, and need not be
}

func latchStep(s latchState, in input, out output) (bool, latchState) {
	switch in.op {
	case "set":
		ok := s.count <= s.maybe
		return ok, latchState{count: out.count}
	case "counted":
		more := s.count - 1 - out.count
		if more < 0 || more > s.maybe {
			return false, s
		}
		return true, latchState{count: out.count, maybe: s.maybe - more}
	case "opened":
		if s.count > s.maybe {
			return false, s
		}
		return true, latchState{maybe: s.maybe - s.count}
	case "maybe":
		s.maybe += out.count
		return true, s
	}
	return false, s
}
