package machine

import (
	"slices"

	"google.golang.org/protobuf/proto"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// grant is what the session holds, possibly by several guards of one owner.
type grant struct {
	id         uint64
	holding    holding
	validUntil Instant
	// renewAt is never for a lease that the request set.
	renewAt  Instant
	renewing bool
	// guards is empty once it is being released: its loss is not reported then.
	guards []*Guard
	// asked is the newest request to yield.
	asked YieldRequest
	timer timer
}

// Guard is what one request acquired. Its methods must not be called during a Step.
type Guard struct {
	grants  []*grant
	release *pb.SessionRequest
	loss    *Loss

	// Locks and Permits are the messages of the coordinator. They do not change.
	Locks   []*pb.Grant
	Permits *pb.PermitGrant

	// op waits for the guard while left has grants that are not confirmed yet.
	op   uint64
	left []*grant
	// released is whether its release began.
	released bool
}

// ValidUntil is the earliest end of what the guard holds.
func (g *Guard) ValidUntil() Instant {
	at := never
	for _, it := range g.grants {
		at = min(at, it.validUntil)
	}
	return at
}

// Loss is why the guard was lost first; nil if it was not.
func (g *Guard) Loss() *Loss { return g.loss }

func (g *Guard) failure() *Failure {
	return &Failure{Kind: LostGrant, Name: g.loss.Name, Loss: *g.loss}
}

func (m *Machine) find(it holding) *grant {
	for _, key := range it.keys() {
		if found := m.byKey[key]; found != nil {
			return found
		}
	}
	return nil
}

// --- new grants

// grant adds what an operation acquired and delivers its guard. Only the instant of the request is
// known, not that of the grant: after a long wait, the guard is delivered when a renewal has said
// until when it is valid.
func (m *Machine) grant(op *operation, holdings []holding) {
	guard := &Guard{op: op.id, release: releaseOf(holdings), Permits: holdings[0].permits}
	for _, it := range holdings {
		if it.lock != nil {
			guard.Locks = append(guard.Locks, it.lock)
		}
		entry := m.addGrant(guard, it, op.sentAt)
		if m.now-op.sentAt > it.validFor()/3 {
			guard.left = append(guard.left, entry)
			entry.renewAt = m.now
		}
	}
	if len(guard.left) == 0 {
		m.deliver(guard)
	} else {
		m.unconfirmed[op.id] = guard
	}
	for _, it := range guard.grants {
		m.check(it)
	}
}

// deliver passes a guard to its caller, with the requests to yield that stand.
func (m *Machine) deliver(guard *Guard) {
	m.emit(Done{Op: guard.op, Guard: guard})
	for _, it := range guard.grants {
		if it.asked.Deadline > m.now {
			m.emit(Asked{guard, it.asked})
		}
	}
}

// addGrant adds a grant, or one more hold of a known one.
func (m *Machine) addGrant(guard *Guard, it holding, sentAt Instant) *grant {
	until := sentAt + it.validFor()
	entry := m.find(it)
	if entry == nil {
		entry = &grant{id: m.NewID()}
		entry.timer.grant = entry
		m.grants[entry.id] = entry
		for _, key := range it.keys() {
			m.byKey[key] = entry
		}
	}
	switch {
	case len(entry.guards) == 0:
		// What is being released says nothing about it. An answer that is late says too little; a
		// renewal has to say more within a lease.
		if m.now-sentAt > it.validFor()/3 {
			until = m.now + it.lease()
		}
		entry.validUntil = until
	case entry.holding.olderThan(it) && until > m.now:
		entry.validUntil = until
	default:
		entry.validUntil = max(entry.validUntil, until)
	}
	if entry.holding.token() != it.token() {
		entry.asked = YieldRequest{}
	}
	entry.renewAt = m.renewAt(it, sentAt)
	entry.holding = it
	entry.guards = append(entry.guards, guard)
	guard.grants = append(guard.grants, entry)
	return entry
}

// renewAt is a little before the coordinator's watchdog, which counts from the last renewal by
// either side.
func (m *Machine) renewAt(it holding, sentAt Instant) Instant {
	if !it.watched() {
		return never
	}
	interval := it.lease() * 3 / 10
	if given := m.session.RenewInterval; given != nil && it.lease() == m.lease {
		interval = given.AsDuration()
	}
	return max(m.now, sentAt+interval)
}

// --- renewals

// check renews a grant if that is due, reports that it is lost, and sets its timer.
func (m *Machine) check(it *grant) {
	if m.grants[it.id] != it || len(it.guards) == 0 {
		return
	}
	if it.validUntil <= m.now {
		m.lose(it, Loss{Reason: pb.LostReason_LOST_REASON_EXPIRED})
		return
	}
	if !it.renewing && it.renewAt <= m.now && m.canSend() {
		it.renewing = true
		op := m.start(it.holding.renewal(), forRenewal)
		op.grant, op.token = it, it.holding.token()
	}
	at := it.validUntil
	if !it.renewing && m.canSend() {
		at = min(at, it.renewAt)
	}
	m.timers.set(&it.timer, at)
}

// renewed takes the answer to a renewal, or to a resume, that was sent at sentAt. Such answers may
// overtake each other.
func (m *Machine) renewed(it holding, sentAt Instant) {
	entry := m.find(it)
	if entry == nil || it.olderThan(entry.holding) {
		return
	}
	until := sentAt + it.validFor()
	isAwaited := len(entry.guards) > 0 && !slices.ContainsFunc(entry.guards, isDelivered)
	if until > m.now && (isAwaited || until > entry.validUntil) {
		entry.validUntil = until
	}
	entry.renewAt = m.renewAt(it, sentAt)
	entry.holding = it
	if until > m.now {
		for _, guard := range slices.Clone(entry.guards) {
			m.confirm(guard, entry)
		}
	}
	m.check(entry)
}

func isDelivered(guard *Guard) bool { return len(guard.left) == 0 }

// confirm delivers a guard if this was the last grant that had to be renewed.
func (m *Machine) confirm(guard *Guard, entry *grant) {
	if isDelivered(guard) {
		return
	}
	guard.left = slices.DeleteFunc(guard.left, func(it *grant) bool { return it == entry })
	if isDelivered(guard) && m.unconfirmed[guard.op] == guard {
		delete(m.unconfirmed, guard.op)
		m.deliver(guard)
	}
}

// onRenewalFailed tries again, because only time decides: neither a store that is down nor a
// coordinator that refuses to renew takes a grant away. The exception is a lock that is not held.
func (m *Machine) onRenewalFailed(op *operation, isNotOwner bool, state string) {
	it := op.grant
	it.renewing = false
	if m.grants[it.id] != it {
		return
	}
	if isNotOwner && op.token != it.holding.token() {
		m.check(it) // it is a newer grant than the one that is not held
		return
	}
	if isNotOwner {
		m.lose(it, lossOf(state))
		return
	}
	it.renewAt = m.now + min(retryPause, m.lease/6)
	m.check(it)
}

func lossOf(state string) Loss {
	if state == "held_by_another" {
		return Loss{Reason: pb.LostReason_LOST_REASON_TAKEN_OVER}
	}
	return Loss{Reason: pb.LostReason_LOST_REASON_EXPIRED}
}

// --- requests to yield

// onYieldRequested takes the coordinator's notice. That of another grant is ignored: its owner
// holds the lock anew, and was not asked.
func (m *Machine) onYieldRequested(notice *pb.YieldRequested) {
	asked := holding{lock: notice.Grant}
	if asked.lock == nil {
		return
	}
	entry := m.find(asked)
	if entry == nil || asked.token() != entry.holding.token() {
		return
	}
	entry.asked = YieldRequest{
		Name: asked.name(), By: notice.By, Reason: notice.Reason, Preempts: notice.Preempt,
		Deadline: m.now + notice.Within.AsDuration(),
	}
	for _, guard := range entry.guards {
		if isDelivered(guard) && guard.loss == nil {
			m.emit(Asked{guard, entry.asked})
		}
	}
}

// --- losses

// onLost takes the coordinator's notice. That of an older grant is ignored: its owner holds the
// lock anew. So is that of a grant which is being released.
func (m *Machine) onLost(gone holding, loss Loss) {
	if gone.lock == nil && gone.permits == nil {
		return
	}
	entry := m.find(gone)
	if entry == nil || len(entry.guards) == 0 || gone.olderThan(entry.holding) {
		return
	}
	m.lose(entry, loss)
}

// lose reports a loss to the guards of a grant. An acquire whose guard is not delivered yet fails,
// and is released: of several locks the others are still held.
func (m *Machine) lose(it *grant, loss Loss) Loss {
	m.removeGrant(it)
	loss.Name, loss.Token = it.holding.name(), it.holding.token()
	loss.ValidUntil = min(loss.ValidUntil, it.validUntil)
	for _, guard := range it.guards {
		if guard.loss != nil {
			continue
		}
		guard.loss = &loss
		if isDelivered(guard) {
			m.emit(Lost{guard})
		} else if m.unconfirmed[guard.op] == guard {
			delete(m.unconfirmed, guard.op)
			m.emit(Done{Op: guard.op, Failure: guard.failure()})
			m.release(guard, 0)
		}
	}
	return loss
}

func (m *Machine) removeGrant(it *grant) {
	delete(m.grants, it.id)
	m.timers.stop(&it.timer)
	for _, key := range it.holding.keys() {
		if m.byKey[key] == it {
			delete(m.byKey, key)
		}
	}
}

// --- releases

// release releases what a guard holds, even if it is lost: a coordinator that could not be reached
// may still hold it. That is left out if its owner holds it anew.
func (m *Machine) release(guard *Guard, id uint64) {
	if guard.loss != nil && id != 0 {
		m.emit(Done{Op: id, Failure: guard.failure()})
		id = 0
	}
	if guard.released {
		return
	}
	guard.released = true
	for _, it := range guard.grants {
		it.guards = slices.DeleteFunc(slices.Clone(it.guards), func(other *Guard) bool {
			return other == guard
		})
		if len(it.guards) == 0 {
			m.timers.stop(&it.timer)
		}
	}
	request := m.releaseLeft(guard)
	if request == nil {
		return
	}
	hasCaller := id != 0
	if !hasCaller {
		id = m.NewID()
	}
	op := m.add(id, request, forRelease)
	op.guard, op.hasCaller = guard, hasCaller
	m.send(op)
}

// releaseLeft releases a guard without the locks that were lost, and that their owner holds anew: a
// release names no grant, and would free the new one. It is nil if there are no others.
func (m *Machine) releaseLeft(guard *Guard) *pb.SessionRequest {
	var left []*pb.Grant
	for _, it := range guard.grants {
		if !m.isHeldAnew(it) {
			left = append(left, it.holding.lock)
		}
	}
	switch len(left) {
	case len(guard.grants):
		return guard.release
	case 0:
		return nil
	default:
		return releaseOf(locks(left))
	}
}

// isHeldAnew reports whether a lock was lost, and its owner has a newer grant. With the same token
// it is a further hold of the grant, but of a reader that is unknown: the token is that of the last
// writer.
func (m *Machine) isHeldAnew(it *grant) bool {
	current := m.find(it.holding)
	if current == nil || current == it {
		return false
	}
	isRead := it.holding.lock.GetMode() == pb.LockMode_LOCK_MODE_READ
	return isRead || current.holding.token() > it.holding.token()
}

// onReleased forgets what a guard held, and what its owner holds no more.
func (m *Machine) onReleased(guard *Guard, answer *pb.SessionResponse) {
	for _, it := range guard.grants {
		if m.grants[it.id] != it {
			continue
		}
		count := holdsLeft(answer, it.holding.name())
		if len(it.guards) == 0 {
			m.removeGrant(it)
		} else if count > 0 && it.holding.lock != nil {
			it.holding.lock = proto.Clone(it.holding.lock).(*pb.Grant)
			it.holding.lock.HoldCount = count
		}
	}
}

// holdsLeft is how often a lock is still held after a release; 0 if the answer does not say.
func holdsLeft(answer *pb.SessionResponse, name string) uint32 {
	for _, lock := range answer.GetReleasedAll().GetLocks() {
		if lock.Name == name {
			return lock.HoldCount
		}
	}
	return answer.GetReleased().GetHoldCount()
}
