package lockkeeper

import (
	"slices"
	"sync"
	"testing"
)

// toldLate is what code of the user is told that blocked meanwhile.
func toldLate(tell func(to *notifier, see func(int))) (seen []int) {
	var it notifier
	begun, blocked := make(chan struct{}), make(chan struct{})
	it.tell(func() {
		close(begun)
		<-blocked
	})
	<-begun
	tell(&it, func(i int) { seen = append(seen, i) })
	var last sync.WaitGroup
	last.Add(1)
	it.tellLoss(last.Done)
	close(blocked)
	last.Wait()
	return seen
}

func TestTheNewestNoticesAreKeptUpToALimit(t *testing.T) {
	seen := toldLate(func(to *notifier, see func(int)) {
		for i := range 3 * maxNotices {
			to.tell(func() { see(i) })
		}
	})
	if len(seen) != maxNotices || seen[0] != 2*maxNotices || !slices.IsSorted(seen) {
		t.Fatalf("%d from %v", len(seen), seen[:3])
	}
}

func TestNoNoticeOfALossIsDropped(t *testing.T) {
	seen := toldLate(func(to *notifier, see func(int)) {
		for i := range 2 * maxNotices {
			to.tellLoss(func() { see(i) })
		}
		for i := range 10 {
			to.tell(func() { see(2*maxNotices + i) })
		}
	})
	if len(seen) != 2*maxNotices+1 || seen[0] != 0 || seen[2*maxNotices] != 2*maxNotices+9 ||
		!slices.IsSorted(seen) {
		t.Fatalf("%d from %v", len(seen), seen[:3])
	}
}
