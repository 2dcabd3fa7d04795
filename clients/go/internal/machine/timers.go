package machine

import "container/heap"

// timer says when to look at an operation or a grant again. It is in at most one heap.
type timer struct {
	at        Instant
	position  int // 1 is the first; 0 means that it is not set
	operation *operation
	grant     *grant
}

// timers are the timers that are set, the first to pass at the front.
type timers []*timer

// set starts a timer, or changes when it passes. At never, it stops it.
func (t *timers) set(timer *timer, at Instant) {
	switch {
	case at == never:
		t.stop(timer)
	case timer.position == 0:
		timer.at = at
		heap.Push(t, timer)
	case timer.at != at:
		timer.at = at
		heap.Fix(t, timer.position-1)
	}
}

func (t *timers) stop(timer *timer) {
	if timer.position > 0 {
		heap.Remove(t, timer.position-1)
	}
}

func (t timers) next() Instant {
	if len(t) == 0 {
		return never
	}
	return t[0].at
}

// popDue returns a timer that has passed, or nil.
func (t *timers) popDue(now Instant) *timer {
	if t.next() > now {
		return nil
	}
	return heap.Pop(t).(*timer)
}

// Len, Less, Swap, Push and Pop are those of heap.Interface.

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at < t[j].at }

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].position, t[j].position = i+1, j+1
}

func (t *timers) Push(it any) {
	timer := it.(*timer)
	*t = append(*t, timer)
	timer.position = len(*t)
}

func (t *timers) Pop() any {
	last := len(*t) - 1
	timer := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	timer.position = 0
	return timer
}
