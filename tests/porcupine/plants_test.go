package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const limit = 20 * time.Second

// recorded is the beginning of a run of a fault row that promises exclusion.
func recorded(t *testing.T) *history {
	t.Helper()
	file, err := os.Open("testdata/recorded.history")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	it, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	return it
}

// find returns the first line that fits.
func find(t *testing.T, lines []line, fits func(line) bool) *line {
	t.Helper()
	at := slices.IndexFunc(lines, fits)
	if at < 0 {
		t.Fatal("the recorded history has no such line")
	}
	return &lines[at]
}

// is says whether a line is an event of an object.
func is(name, what string) func(line) bool {
	return func(it line) bool { return strings.HasPrefix(it.Name, name) && it.What == what }
}

// grantOf says whether a line is a grant of an object with a mode, and a count unless that is 0.
func grantOf(name, mode string, count int) func(line) bool {
	return func(it line) bool {
		return is(name, "granted")(it) && it.Mode == mode && (count == 0 || it.Count == count)
	}
}

// after is a grant of the object to another attempt than a grant before it.
func after(t *testing.T, lines []line, before *line, mode string) *line {
	t.Helper()
	return find(t, lines, func(it line) bool {
		return it.AtUs > before.AtUs && it.Name == before.Name && it.What == "granted" &&
			it.Mode == mode &&
			(it.Owner == "" || it.Owner != before.Owner) &&
			(it.Client != before.Client || it.Attempt != before.Attempt)
	})
}

// counted is the answer to a count-down with what is left.
func counted(t *testing.T, lines []line, left int) *line {
	t.Helper()
	return find(t, lines, func(it line) bool {
		return is("kind-latch", "counted")(it) && it.Count == left
	})
}

// later is a grant that was asked for after a grant, so that the order of both is known.
func later(t *testing.T, lines []line, before *line) *line {
	t.Helper()
	return find(t, lines, func(it line) bool {
		asked := func(of line) bool {
			return of.Client == it.Client && of.Attempt == it.Attempt && of.What == "asked"
		}
		return is(before.Name, "granted")(it) && it.Owner != before.Owner &&
			find(t, lines, asked).AtUs > before.AtUs
	})
}

// delay moves what a holder does after a grant to a time after another event.
func delay(lines []line, grant, until *line) {
	by := until.AtUs - grant.AtUs + 1
	for i := range lines {
		it := &lines[i]
		same := it.Client == grant.Client && it.Attempt == grant.Attempt
		if same && slices.Contains([]string{"relied", "release_sent", "released"}, it.What) {
			it.AtUs += by
		}
	}
}

// plants are violations; each changes the recorded history a little.
var plants = []struct {
	name  string
	of    string // the kind whose model refuses it
	plant func(*testing.T, []line)
}{
	{"two holders at once", "lock", func(t *testing.T, all []line) {
		first := find(t, all, is("hot-0", "granted"))
		delay(all, first, after(t, all, first, ""))
	}},
	{"two holders at once through the official client", "lock", func(t *testing.T, all []line) {
		first := find(t, all, is("kind-lock", "granted"))
		second := after(t, all, first, "")
		for i := range all {
			if all[i].Owner == first.Owner && all[i].What != "asked" && all[i].What != "granted" {
				all[i].AtUs += second.AtUs - first.AtUs + 1
			}
		}
	}},
	{"a token that does not grow", "lock", func(t *testing.T, all []line) {
		first := find(t, all, is("hot-0", "granted"))
		after(t, all, first, "").Token = first.Token
	}},
	{"a token that shrinks", "lock", func(t *testing.T, all []line) {
		first := find(t, all, is("kind-lock", "granted"))
		later(t, all, first).Token = first.Token - 1
	}},
	{"a release by a stranger that succeeds", "lock", func(t *testing.T, all []line) {
		find(t, all, is("kind-lock", "refused")).What = "released"
	}},
	{"another token for a further hold", "lock", func(t *testing.T, all []line) {
		again := find(t, all, grantOf("kind-lock", "", 2))
		again.Token++
	}},
	{"a hold that is not counted", "lock", func(t *testing.T, all []line) {
		again := find(t, all, grantOf("kind-lock", "", 2))
		again.Count = 1
	}},
	{"a hold too many", "lock", func(t *testing.T, all []line) {
		find(t, all, grantOf("kind-lock", "", 1)).Count = 2
	}},
	{"a lock that is free after the first of two releases", "lock", func(t *testing.T, all []line) {
		again := find(t, all, grantOf("kind-lock", "", 2))
		next := after(t, all, again, "")
		delay(all, again, next)
	}},
	{"a reader beside a writer", "read_write", func(t *testing.T, all []line) {
		writer := find(t, all, grantOf("kind-read", "write", 0))
		delay(all, writer, after(t, all, writer, "read"))
	}},
	{"a writer beside a reader", "read_write", func(t *testing.T, all []line) {
		reader := find(t, all, grantOf("kind-read", "read", 0))
		delay(all, reader, after(t, all, reader, "write"))
	}},
	{"a writer's token that does not grow", "read_write", func(t *testing.T, all []line) {
		writer := find(t, all, grantOf("kind-read", "write", 0))
		after(t, all, writer, "write").Token = writer.Token
	}},
	{"a reader with the token of an earlier writer", "read_write", func(t *testing.T, all []line) {
		writer := find(t, all, grantOf("kind-read", "write", 0))
		next := after(t, all, writer, "write")
		after(t, all, next, "read").Token = writer.Token
	}},
	{"a permit too many", "semaphore", func(t *testing.T, all []line) {
		find(t, all, is("kind-semaphore", "set")).Count--
	}},
	{"permits that are granted beside others", "semaphore", func(t *testing.T, all []line) {
		find(t, all, is("kind-semaphore", "granted")).Count += 3
	}},
	{"a latch that opens early", "latch", func(t *testing.T, all []line) {
		opened := find(t, all, is("kind-latch", "opened"))
		for i := range all {
			if all[i].Name == opened.Name && all[i].What == "counted" && all[i].Count == 0 {
				sent := find(t, all, func(it line) bool {
					return it.Client == all[i].Client && it.Attempt == all[i].Attempt
				})
				sent.AtUs = opened.AtUs + 1
				all[i].AtUs = opened.AtUs + 2
			}
		}
	}},
	{"a count-down that counts twice", "latch", func(t *testing.T, all []line) {
		counted(t, all, 2).Count = 1
	}},
	{"a count-down that does not count", "latch", func(t *testing.T, all []line) {
		counted(t, all, 1).Count = 2
	}},
}

func TestTheRecordedHistoryIsAccepted(t *testing.T) {
	v, err := judge(recorded(t), limit, t.TempDir())
	if err != nil || !v.accepted() || v.judged < 1000 {
		t.Fatal(v, err)
	}
}

func TestEachPlantedViolationIsFound(t *testing.T) {
	for _, plant := range plants {
		t.Run(plant.name, func(t *testing.T) {
			it := recorded(t)
			plant.plant(t, it.lines)
			folder := t.TempDir()
			v, err := judge(it, limit, folder)
			if err != nil || len(v.refused) != 1 || len(v.unjudged) != 0 {
				t.Fatalf("%+v %v", v, err)
			}
			if !strings.HasPrefix(v.refused[0], plant.of+" ") {
				t.Error(v.refused)
			}
			kept, err := os.ReadDir(folder)
			if err != nil || len(kept) != 1 {
				t.Error("no visualisation is kept", err)
			}
		})
	}
}

// What is not promised is not judged, and tokens always are.
func TestWithoutExclusionTokensAreJudged(t *testing.T) {
	for _, plant := range plants {
		isToken := strings.Contains(plant.name, "token") && !strings.Contains(plant.name, "reader")
		t.Run(plant.name, func(t *testing.T) {
			it := recorded(t)
			it.Promise = tokens
			plant.plant(t, it.lines)
			v, err := judge(it, limit, t.TempDir())
			if err != nil || len(v.unjudged) != 0 {
				t.Fatal(v, err)
			}
			if len(v.unpromised) != 2 {
				t.Error("semaphores and latches are judged", v)
			}
			// A further hold with a larger token looks like a new grant.
			isToken = isToken && plant.name != "another token for a further hold"
			if found := len(v.refused) > 0; found != isToken {
				t.Error(v.refused)
			}
		})
	}
}

func TestWhatIsNotJudgedInTimeIsNotAccepted(t *testing.T) {
	v, err := judge(recorded(t), time.Nanosecond, t.TempDir())
	if err != nil || v.accepted() || len(v.unjudged) == 0 {
		t.Fatal(v, err)
	}
}
