package main

import (
	"fmt"
	"strings"
	"testing"
)

// judged is whether lines of one object are accepted: time, attempt, event, and what else it says.
func judged(t *testing.T, promise promise, lines ...string) bool {
	t.Helper()
	text := fmt.Sprintf(`{"run":"test","promise":%q,"notice_us":10}`, promise)
	for _, it := range lines {
		var at, attempt int
		var what string
		if _, err := fmt.Sscan(it, &at, &attempt, &what); err != nil {
			t.Fatal(it, err)
		}
		more := ""
		if rest := strings.SplitN(it, " ", 4); len(rest) == 4 {
			more = "," + rest[3]
		}
		text += fmt.Sprintf("\n"+`{"at_us":%d,"client":"c","attempt":%d,"name":"n","what":%q%s}`,
			at, attempt, what, more)
	}
	it, err := read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	v, err := judge(it, limit, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return v.accepted()
}

func TestALeaseEndsWhenItsHolderDoesNotRelyOnItAnyMore(t *testing.T) {
	next := func(at int, end ...string) bool {
		lines := append(end, "0 1 asked", `10 1 granted "token":"5"`, "0 2 asked",
			fmt.Sprintf(`%d 2 granted "token":"6"`, at))
		return judged(t, exclusion, lines...)
	}
	for _, it := range []struct {
		end      []string
		from     int // when the next grant is accepted
		accepted bool
	}{
		{[]string{"100 1 relied"}, 100, true},
		{[]string{"100 1 relied"}, 99, false},
		{[]string{"100 1 broke"}, 100, true},
		{[]string{"100 1 broke"}, 99, false},
		{[]string{"100 1 lost"}, 90, true}, // The notice may be under way.
		{[]string{"100 1 lost"}, 89, false},
		{[]string{`50 1 at_risk "valid_us":30`, "100 1 lost"}, 80, true},
		{[]string{`50 1 at_risk "valid_us":30`, "100 1 lost"}, 79, false},
		{[]string{`50 1 at_risk "valid_us":30`, "70 1 recovered", "200 1 lost"}, 189, false},
		{[]string{"100 1 broke", "120 1 resumed", "150 1 lost"}, 130, false},
		{[]string{"100 1 broke", "120 1 resumed", "150 1 lost"}, 140, true},
		{nil, 1000, false}, // It is held to the end.
	} {
		if got := next(it.from, it.end...); got != it.accepted {
			t.Errorf("%v, next at %d: %v", it.end, it.from, got)
		}
	}
}

func TestAReleaseOfUnknownOutcomeMayOrMayNotHaveHappened(t *testing.T) {
	begin := []string{"0 1 asked", `10 1 granted "token":"5"`, "50 1 release_sent", "60 1 failed"}
	if !judged(t, exclusion, append(begin, "70 2 asked", `80 2 granted "token":"6"`)...) {
		t.Error("it may have")
	}
	if !judged(t, exclusion, append(begin, "70 2 release_sent", "80 2 refused")...) {
		t.Error("a stranger is refused in either case")
	}
	if judged(t, exclusion, append(begin, "20 2 asked", `40 2 granted "token":"6"`)...) {
		t.Error("not before it was sent")
	}
}

func TestAnAcquireOfUnknownOutcomeMayHaveAddedAHold(t *testing.T) {
	again := func(between ...string) bool {
		return judged(t, exclusion, append(between,
			`0 1 asked "owner":"o"`, `10 1 granted "owner":"o","token":"5","count":1`,
			`40 3 asked "owner":"o"`, `50 3 granted "owner":"o","token":"5","count":3`)...)
	}
	if again() {
		t.Error("a hold from nowhere")
	}
	if !again(`20 2 asked "owner":"o"`, `30 2 failed "owner":"o"`) {
		t.Error("it may have happened")
	}
	if !again(`45 2 asked "owner":"o"`, `90 2 failed "owner":"o"`) {
		t.Error("and at any time since it was sent")
	}
}

func TestACountDownOfUnknownOutcomeMayHaveHappened(t *testing.T) {
	open := func(between ...string) bool {
		return judged(t, exclusion, append(between,
			`0 1 set_sent "kind":"latch"`, `1 1 set "kind":"latch","count":2`,
			`10 2 count_sent "kind":"latch"`, `20 2 counted "kind":"latch","count":1`,
			`5 4 await_sent "kind":"latch"`, `50 4 opened "kind":"latch"`)...)
	}
	if open() {
		t.Error("it opens early")
	}
	if !open(`30 3 count_sent "kind":"latch"`, `40 3 failed "kind":"latch","count":1`) {
		t.Error("it may have been counted down")
	}
}

func TestTwoStoresMayGiveOneTokenTwice(t *testing.T) {
	first := []string{"0 1 asked", `10 1 granted "token":"5"`}
	lines := append(first, "0 2 asked", `12 2 granted "token":"5"`)
	if !judged(t, twoStores, lines...) || judged(t, tokens, lines...) {
		t.Error("only two stores may")
	}
	shrunk := append(first[:2:2], "11 2 asked", `12 2 granted "token":"4"`)
	if judged(t, twoStores, shrunk...) {
		t.Error("and none shrinks")
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	for _, text := range []string{
		"", "{}", `{"promise":"none"}` + "\n{}", `{"promise":"tokens"}`,
		`{"promise":"tokens"}` + "\nx",
	} {
		if it, err := read(strings.NewReader(text)); err == nil {
			t.Errorf("%q is %v", text, it)
		}
	}
	unknown := `{"promise":"tokens"}` + "\n" + `{"name":"n","what":"told"}`
	it, err := read(strings.NewReader(unknown))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := judge(it, limit, t.TempDir()); err == nil {
		t.Error("an unknown event is judged", v)
	}
}
