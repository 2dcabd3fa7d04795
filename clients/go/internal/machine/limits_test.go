package machine

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// Streams that end again and again, and what is not sent again.

func TestStreamsThatEndWithoutProgressAreOpenedLessAndLessOften(t *testing.T) {
	w := open(t)
	end := func() time.Duration {
		w.step(StreamEnded{Code: codes.OutOfRange})
		at, _ := w.machine.WakeAt()
		pause := at - w.now
		w.pass(pause)
		take[Connect](w)
		w.receive(opened())
		return pause
	}
	if pause := end(); pause > firstPauseMax {
		t.Fatalf("%v at first", pause)
	}
	for round := range 5 {
		most := min(backoffMin<<round, lease/6)
		if pause := end(); pause < most/2 || pause > most {
			t.Fatalf("%v in round %d", pause, round)
		}
	}
	w.hold("a", 1)
	if pause := end(); pause > firstPauseMax {
		t.Fatalf("%v after an answer", pause)
	}
	end()
	w.pass(backoffMax)
	if pause := end(); pause > firstPauseMax {
		t.Fatalf("%v after a stream that lasted", pause)
	}
}

func TestWhatWasReleasedIsNotAcquiredAnewWithoutACaller(t *testing.T) {
	w := open(t)
	op := w.start(acquire("a"))
	w.sent()
	w.breaks()
	w.step(GiveUp{op})
	w.receive(opened())
	w.sent()
	take[Send](w) // the cancel
	w.receive(failed(op, codes.FailedPrecondition, notOwner, ""))
	w.quietButChanged()
}
