package lockkeeper

import "sync"

// notifier runs code of the user, which may call the client: in order, in one goroutine at a time,
// which ends when there is nothing left to tell.
type notifier struct {
	mu        sync.Mutex
	notices   []func()
	isTelling bool
}

func (n *notifier) tell(notice func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notices = append(n.notices, notice)
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
		for _, notice := range notices {
			notice()
		}
		n.mu.Lock()
	}
	n.isTelling = false
}
