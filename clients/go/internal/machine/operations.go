package machine

import (
	"slices"

	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// The reasons that the machine knows.
const (
	notOwner         = "NOT_OWNER"
	storeUnavailable = "STORE_UNAVAILABLE"
	outcomeUnknown   = "OUTCOME_UNKNOWN"
	draining         = "DRAINING"
	messageTooLarge  = "MESSAGE_TOO_LARGE"
)

// --- callers

func (m *Machine) do(it Do) {
	if m.isClosing() {
		m.emit(Done{Op: it.Op, Failure: m.closedFailure()})
		return
	}
	op := m.add(it.Op, it.Request, forCaller)
	if failure := op.tooLarge(m.bytesMax); failure != nil {
		m.remove(op.id)
		m.emit(Done{Op: op.id, Failure: failure})
		return
	}
	op.hasCaller = true
	if it.WaitUntil != nil {
		op.waitUntil = *it.WaitUntil
	} else if m.session != nil && (op.acquires() && !op.waits() || op.asks()) {
		// What waits for no holder does not wait for long while nothing answers, either.
		op.waitUntil = Later(m.now, max(openTimeout, m.config.Patience))
	}
	if entry := m.renewedBy(op.request); entry != nil {
		op.token = entry.holding.token()
	}
	m.send(op)
	// A limit of 0 means to try, for which a new session is opened first.
	if m.session != nil || op.waitUntil > m.now {
		m.limitWait(op)
	}
}

// limitWait ends a wait in time while there is no stream. On a stream, the coordinator does it.
func (m *Machine) limitWait(op *operation) {
	if m.stream.phase == phaseUp {
		return
	}
	at := never
	if op.hasCaller {
		at = op.waitUntil
	}
	m.timers.set(&op.retry, at)
}

// endWait ends a wait whose limit has passed as its caller could have done.
func (m *Machine) endWait(op *operation) {
	last := m.stream.fault
	if last.address == "" {
		last = fault{m.config.Endpoints[m.stream.endpoint], nil, "it has not answered yet"}
	}
	m.emit(Done{Op: op.id, Failure: &Failure{
		Kind: Unreachable, Name: op.name(), Address: last.address, Err: last.err, Cause: last.cause,
	}})
	m.giveUp(op.id)
}

// giveUp forgets an operation that was never sent, cancels a wait, and releases what is granted
// nevertheless. A release goes on.
func (m *Machine) giveUp(id uint64) {
	if guard := m.unconfirmed[id]; guard != nil {
		delete(m.unconfirmed, id)
		m.release(guard, 0)
		return
	}
	op := m.operations[id]
	if op == nil {
		return
	}
	op.hasCaller = false
	if op.purpose != forCaller {
		return
	}
	op.abandoned = true
	switch {
	case op.sentAt == never && !op.uncertain:
		m.remove(id)
	case op.sentAt != never && op.waits():
		m.cancel(id)
	}
}

func (m *Machine) cancel(id uint64) {
	if m.canSend() {
		cancel := &pb.SessionRequest_Cancel{Cancel: &pb.CancelOperation{}}
		m.emit(Send{&pb.SessionRequest{OpId: id, Request: cancel}})
	}
}

// failWaits ends all waits of callers, because the session is being closed.
func (m *Machine) failWaits() {
	for _, id := range sortedIDs(m.unconfirmed) {
		m.emit(Done{Op: id, Failure: m.closedFailure()})
	}
	clear(m.unconfirmed)
	for _, id := range sortedIDs(m.operations) {
		if op := m.operations[id]; op.hasCaller && op.waits() {
			op.hasCaller = false
			m.emit(Done{Op: id, Failure: m.closedFailure()})
		}
	}
}

// limitFrames ends the operations of callers that are larger than the coordinator takes: each would
// end the next stream too.
func (m *Machine) limitFrames(bytesMax int) {
	m.bytesMax = min(m.bytesMax, bytesMax)
	for _, id := range sortedIDs(m.operations) {
		op := m.operations[id]
		failure := op.tooLarge(m.bytesMax)
		if op.purpose != forCaller || failure == nil {
			continue
		}
		m.remove(id)
		if op.hasCaller {
			m.emit(Done{Op: id, Failure: failure})
		}
	}
}

func (m *Machine) closedFailure() *Failure {
	return &Failure{Kind: SessionEnded, Cause: closed}
}

// --- the table of operations

func (m *Machine) add(id uint64, request *pb.SessionRequest, purpose purpose) *operation {
	request.OpId = id
	if requestID := requestID(request); requestID != nil && *requestID == "" {
		*requestID = m.newRequestID()
	}
	op := &operation{
		id: id, request: request, purpose: purpose,
		waitUntil: never, sentAt: never, failingSince: never,
	}
	op.retry.operation = op
	m.operations[id] = op
	return op
}

// start starts an operation of the session itself.
func (m *Machine) start(request *pb.SessionRequest, purpose purpose) *operation {
	op := m.add(m.NewID(), request, purpose)
	m.send(op)
	return op
}

// send sends an operation now, or leaves it to the next stream.
func (m *Machine) send(op *operation) {
	if !m.canSend() {
		return
	}
	m.timers.stop(&op.retry)
	m.emit(Send{op.frame(m.now)})
	if op.abandoned && op.waits() {
		m.cancel(op.id)
	}
}

func (m *Machine) remove(id uint64) {
	if op := m.operations[id]; op != nil {
		m.timers.stop(&op.retry)
		delete(m.operations, id)
	}
}

func (m *Machine) sendAllUnsent() {
	for _, id := range sortedIDs(m.operations) {
		if op := m.operations[id]; op.sentAt == never {
			m.send(op)
		}
	}
}

// --- resending

// possibleGrants are the locks that an operation may hold, without those that are known to be held.
// Permits have ids that only the answer contains.
func (m *Machine) possibleGrants(op *operation) []*pb.Grant {
	if !op.uncertain {
		return nil
	}
	return slices.DeleteFunc(op.locks(), func(it *pb.Grant) bool {
		return m.byKey[lockKey(it)] != nil
	})
}

// resend sends everything on a resumed stream. What may have been executed keeps its request id,
// and gets its first answer. Two kinds start anew: permits, and several locks of which only some
// are held; those are released.
func (m *Machine) resend(stillHeld []holding) {
	held := map[key]bool{}
	for _, it := range stillHeld {
		for _, key := range it.keys() {
			held[key] = true
		}
	}
	for _, id := range sortedIDs(m.operations) {
		op := m.operations[id]
		if !op.uncertain {
			continue
		}
		if op.acquiresPermits() {
			if op.abandoned {
				m.remove(id)
				continue
			}
			op.renewRequestID(m.newRequestID())
		}
		possible := m.possibleGrants(op)
		isMissing := func(it *pb.Grant) bool { return !held[lockKey(it)] }
		if confirmed := slices.DeleteFunc(slices.Clone(possible), isMissing); len(confirmed) > 0 &&
			len(confirmed) < len(possible) {
			op.renewRequestID(m.newRequestID())
			for _, it := range confirmed {
				m.start(releaseOf(locks([]*pb.Grant{it})), forCleanup)
			}
		}
	}
	m.sendAllUnsent()
}

// --- answers

// onAnswer ends an operation that did not fail.
func (m *Machine) onAnswer(frame *pb.SessionResponse) {
	op := m.operations[frame.OpId]
	if op == nil || op.sentAt == never {
		return
	}
	m.remove(op.id)
	m.stream.fruitless = 0
	switch it := frame.Response.(type) {
	case *pb.SessionResponse_Renewed:
		if it.Renewed.Grant != nil {
			m.renewed(holding{lock: it.Renewed.Grant}, op.sentAt)
		}
	case *pb.SessionResponse_PermitsRenewed:
		for _, grant := range it.PermitsRenewed.Grants {
			m.renewed(holding{permits: grant}, op.sentAt)
		}
	}
	switch op.purpose {
	case forRenewal:
		op.grant.renewing = false
		m.check(op.grant)
		return
	case forRelease:
		m.onReleased(op.guard, frame)
	}
	granted, refusal := outcome(frame)
	switch {
	case len(granted) > 0:
		m.onGranted(op, granted)
	case !op.hasCaller:
	case refusal != nil && m.isClosing():
		m.emit(Done{Op: op.id, Failure: m.closedFailure()})
	case refusal != nil:
		refusal.Name = op.name()
		m.emit(Done{Op: op.id, Failure: refusal})
	default:
		m.emit(Done{Op: op.id, Response: frame})
	}
}

// outcome is what an answer to an acquire says: what was granted, or why nothing was.
func outcome(frame *pb.SessionResponse) ([]holding, *Failure) {
	refused := &Failure{
		Kind: NotGranted, Reason: pb.NotGrantedReason_NOT_GRANTED_REASON_WAIT_TIMEOUT,
	}
	switch it := frame.Response.(type) {
	case *pb.SessionResponse_Granted:
		return locks([]*pb.Grant{it.Granted}), nil
	case *pb.SessionResponse_Claimed:
		return locks([]*pb.Grant{it.Claimed.Grant}), nil
	case *pb.SessionResponse_GrantedAll:
		return locks(it.GrantedAll.Grants), nil
	case *pb.SessionResponse_PermitsGranted:
		return permits([]*pb.PermitGrant{it.PermitsGranted}), nil
	case *pb.SessionResponse_Tried:
		if it.Tried.Acquired {
			return locks([]*pb.Grant{it.Tried.Grant}), nil
		}
		refused.HolderLease = it.Tried.HolderRemainingLease.AsDuration()
		refused.HolderNote = it.Tried.HolderNote
	case *pb.SessionResponse_TriedAll:
		if it.TriedAll.Acquired {
			return locks(it.TriedAll.Grants), nil
		}
		refused.HolderLease = it.TriedAll.HolderRemainingLease.AsDuration()
		refused.HolderNote = it.TriedAll.HolderNote
	case *pb.SessionResponse_PermitsTried:
		if it.PermitsTried.Acquired {
			return permits([]*pb.PermitGrant{it.PermitsTried.Grant}), nil
		}
	case *pb.SessionResponse_NotGranted:
		refused.Reason = it.NotGranted.Reason
		refused.HolderLease = it.NotGranted.HolderRemainingLease.AsDuration()
		refused.HolderNote = it.NotGranted.HolderNote
	case *pb.SessionResponse_PermitsNotGranted:
		refused.Reason = it.PermitsNotGranted.Reason
	case *pb.SessionResponse_LatchNotOpened:
		refused.Reason = it.LatchNotOpened.Reason
	default:
		return nil, nil
	}
	return nil, refused
}

func (m *Machine) onGranted(op *operation, holdings []holding) {
	switch {
	case m.isClosing(): // the end of the session releases it
		if op.hasCaller {
			m.emit(Done{Op: op.id, Failure: m.closedFailure()})
		}
	case op.hasCaller:
		m.grant(op, holdings)
	default:
		m.start(releaseOf(holdings), forLateRelease)
	}
}

// --- failures

func (m *Machine) onFailed(id uint64, failed *rpc.Status) {
	op := m.operations[id]
	if op == nil || op.sentAt == never {
		return
	}
	m.stream.fruitless = 0
	refusal := status.FromProto(failed)
	info := ErrorInfo(refusal)
	switch {
	case op.purpose == forRenewal:
		m.remove(id)
		m.onRenewalFailed(op, info.GetReason() == notOwner, info.GetMetadata()["state"])
		return
	case m.isClosing() && op.purpose == forCaller:
		m.remove(id)
		if op.hasCaller {
			m.emit(Done{Op: id, Failure: m.closedFailure()})
		}
		return
	case op.uncertain && !op.abandoned && op.acquires() && info.GetReason() == notOwner:
		// What the first attempt acquired was released since; this is a new one.
		op.renewRequestID(m.newRequestID())
		m.send(op)
		return
	case m.mayRetry(op, info.GetReason()):
		m.retry(op, refusal)
		if op.hasCaller && op.waitUntil <= m.now {
			m.emit(Done{Op: id, Failure: &Failure{Kind: Refused, Status: refusal}})
			m.giveUp(id)
		}
		return
	}
	m.remove(id)
	failure := &Failure{Kind: Refused, Status: refusal}
	if op.purpose == forRelease {
		m.onReleased(op.guard, nil)
	}
	// A newer grant than the one that was to be renewed is not lost.
	if entry := m.renewedBy(op.request); entry != nil && info.GetReason() == notOwner &&
		entry.holding.token() <= op.token {
		loss := m.lose(entry, lossOf(info.GetMetadata()["state"]))
		failure = &Failure{Kind: LostGrant, Name: loss.Name, Loss: loss}
	}
	if op.hasCaller {
		m.emit(Done{Op: id, Failure: failure})
	}
}

// renewedBy is the grant that a caller wanted to renew; nil for another request.
func (m *Machine) renewedBy(request *pb.SessionRequest) *grant {
	if it := request.GetRenew(); it != nil {
		return m.byKey[key{name: it.Name, owner: it.Owner, mode: keyMode(it.Mode)}]
	}
	for _, id := range request.GetRenewPermits().GetPermitIds() {
		return m.byKey[key{permit: id}]
	}
	return nil
}

// mayRetry is whether a failure may be temporary, so that it is worth another attempt.
func (m *Machine) mayRetry(op *operation, reason string) bool {
	patience := m.lease
	switch reason {
	case draining: // the next coordinator is at hand
	case storeUnavailable, outcomeUnknown:
		// What is not released stays held for as long as the session lives.
		if m.config.Patience > 0 && op.purpose == forCaller {
			patience = m.config.Patience
		}
	default:
		return false
	}
	return op.purpose != forCleanup && m.now-min(op.failingSince, m.now) < patience
}

func (m *Machine) retry(op *operation, refusal *status.Status) {
	pause := retryPause
	if info := retryInfo(refusal); info.GetRetryDelay() != nil {
		pause = info.RetryDelay.AsDuration()
	}
	op.failingSince = min(op.failingSince, m.now)
	op.uncertain = true
	op.sentAt = never
	m.timers.set(&op.retry, m.now+m.jitter(pause))
}
