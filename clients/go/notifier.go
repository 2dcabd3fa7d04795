package lockkeeper

import (
	"slices"
	"sync"
)

// maxNotices is how many notices wait while code of the user does not return.
const maxNotices = 1024

// notifier runs code of the user, which may call the client: in order, in one goroutine at a time,
// which ends when there is nothing left to tell. Of more notices than it keeps, the oldest are
// dropped: others than the user can cause them. Those of losses are not, which are at most as many
// as there were grants.
type notifier struct {
	mu        sync.Mutex
	notices   []notice
	isTelling bool
}

type notice struct {
	run    func()
	isLoss bool
}

// told is what the user is told: the changes of sessions are not dropped because much is logged.
type told struct{ changes, logs notifier }

func (n *notifier) tell(run func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.notices) >= maxNotices {
		oldest := slices.IndexFunc(n.notices, func(it notice) bool { return !it.isLoss })
		if oldest >= 0 {
			n.notices = slices.Delete(n.notices, oldest, oldest+1)
		}
	}
	n.addLocked(notice{run: run})
}

func (n *notifier) tellLoss(run func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addLocked(notice{run, true})
}

func (n *notifier) addLocked(it notice) {
	n.notices = append(n.notices, it)
	if !n.isTelling {
		n.isTelling = true
		go n.tellAll()
	}
}

func (n *notifier) tellAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.notices) > 0 {
		notices := n.notices
		n.notices = nil
		n.mu.Unlock()
		for _, it := range notices {
			it.run()
		}
		n.mu.Lock()
	}
	n.isTelling = false
}
