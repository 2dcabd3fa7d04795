package machine

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// phase is the state of the stream.
type phase int

const (
	phaseDown phase = iota
	phaseOpening
	phaseUp
	phaseEnded
)

// stream is the stream of a session, or what is done to get one.
type stream struct {
	phase phase
	// endpoint is the one in use, or the next to try.
	endpoint int

	// heardAt is when the last frame arrived, and pingedAt when a ping without an answer was sent.
	heardAt, pingedAt Instant
	// leaveAt is when to leave a coordinator that goes away.
	leaveAt Instant

	// retryAt ends phaseDown.
	retryAt Instant

	// sentAt is from before anything was sent, and deadline ends the attempt.
	sentAt, deadline Instant

	// failed attempts in a row; refused is how many of the last ones were refusals.
	failed, refused int
	// openedAt is when the last stream opened.
	openedAt Instant
	// fruitless streams ended since the last progress: an answer, or a stream that lasted.
	fruitless int
	// resumeDeadline ends the session if it is not resumed before.
	resumeDeadline Instant
	fault          fault
	endedBy        string
}

// fault is why the last attempt failed, or the stream broke.
type fault struct {
	address string
	// err is what a StreamEnded reported; nil if nothing was.
	err error
	// cause says why if err is nil.
	cause string
}

func (f fault) String() string {
	if f.err != nil {
		return reason(f.err)
	}
	return f.address + ": " + f.cause
}

func newStream() stream {
	return stream{pingedAt: never, leaveAt: never, resumeDeadline: never}
}

func (s *stream) wakeAt(session *pb.SessionOpened) Instant {
	at := s.resumeDeadline
	switch s.phase {
	case phaseDown:
		at = min(at, s.retryAt)
	case phaseOpening:
		at = min(at, s.deadline)
	case phaseUp:
		at = min(at, s.leaveAt, s.pingAt(session))
	}
	return at
}

// pingAt is when to send a ping, or when its answer is overdue.
func (s *stream) pingAt(session *pb.SessionOpened) Instant {
	interval := session.GetPingInterval().AsDuration()
	if interval <= 0 || s.leaveAt != never {
		return never
	}
	if s.pingedAt != never {
		return s.pingedAt + interval
	}
	return s.heardAt + interval
}

// canSend is whether there is a stream that takes frames.
func (m *Machine) canSend() bool {
	return m.stream.phase == phaseUp && m.stream.leaveAt == never && !m.closing.sent
}

func (m *Machine) meetStreamDeadlines() {
	s := &m.stream
	switch {
	case m.closing.deadline <= m.now:
		m.end(closedAlone)
	case s.resumeDeadline <= m.now:
		m.end(unreachable + s.fault.String())
	case s.phase == phaseDown && s.retryAt <= m.now:
		m.connect()
	case s.phase == phaseOpening && s.deadline <= m.now:
		m.emit(Disconnect{})
		m.onAttemptFailed(nil, codes.Unavailable, "it did not answer in time")
	case s.phase == phaseUp && s.leaveAt <= m.now:
		m.emit(Disconnect{})
		m.onBroken(nil, "the coordinator is shutting down")
	case s.phase == phaseUp && s.pingAt(m.session) <= m.now:
		m.onSilence()
	}
}

func (m *Machine) onSilence() {
	s := &m.stream
	if s.pingedAt != never {
		m.emit(Disconnect{})
		m.onBroken(nil, "no answer to a ping")
		return
	}
	if m.closing.sent {
		s.heardAt = m.now // nothing follows a close
		return
	}
	s.pingedAt = m.now
	m.emit(Send{&pb.SessionRequest{Request: &pb.SessionRequest_Ping{Ping: &pb.Ping{}}}})
}

// --- opening and resuming

func (m *Machine) connect() {
	s := &m.stream
	s.phase = phaseOpening
	s.sentAt = m.now
	first := &pb.SessionRequest{Request: &pb.SessionRequest_Open{Open: m.config.Open}}
	limit := openTimeout
	if m.session != nil {
		resume := m.resume()
		first = &pb.SessionRequest{Request: &pb.SessionRequest_Resume{Resume: resume}}
		limit = m.resumeTimeout()
	}
	s.deadline = m.now + limit
	m.emit(Connect{Endpoint: s.endpoint, First: first})
}

// resumeTimeout grows with each round, because a coordinator that many sessions come to at once may
// need longer.
func (m *Machine) resumeTimeout() time.Duration {
	limit := min(resumeTimeout, m.lease/6)
	for range m.stream.failed / len(m.config.Endpoints) {
		limit = min(2*limit, m.lease/2)
	}
	return limit
}

// resume names everything that is held, and the locks that unanswered operations may hold.
func (m *Machine) resume() *pb.ResumeSession {
	resume := &pb.ResumeSession{
		SessionId: m.session.SessionId, ResumeToken: m.session.ResumeToken,
		SendsPings: true, SendsClose: true,
	}
	for _, id := range sortedIDs(m.grants) {
		if it := m.grants[id].holding; it.lock != nil {
			resume.Grants = append(resume.Grants, it.lock)
		} else {
			resume.Permits = append(resume.Permits, it.permits)
		}
	}
	named := map[key]bool{}
	for _, id := range sortedIDs(m.operations) {
		for _, it := range m.possibleGrants(m.operations[id]) {
			if !named[lockKey(it)] {
				named[lockKey(it)] = true
				resume.Grants = append(resume.Grants, it)
			}
		}
	}
	return resume
}

func (m *Machine) onOpened(opened *pb.SessionOpened) {
	s := &m.stream
	s.phase = phaseUp
	s.heardAt, s.pingedAt, s.leaveAt, s.resumeDeadline = m.now, never, never, never
	s.failed, s.refused = 0, 0
	s.openedAt = m.now
	isFirst := m.session == nil
	if isFirst {
		m.session = opened
		m.lease = opened.Lease.AsDuration()
	} else {
		m.session.ResumeToken = opened.ResumeToken
		m.session.PingInterval, m.session.RenewInterval = opened.PingInterval, opened.RenewInterval
	}
	m.emit(Changed{State: Connected})
	if isFirst {
		m.sendAllUnsent()
		return
	}
	stillHeld := append(locks(opened.Grants), permits(opened.Permits)...)
	for _, it := range stillHeld {
		m.renewed(it, s.sentAt)
	}
	if m.isClosing() {
		m.sendClose()
		return
	}
	m.resend(stillHeld)
	for _, id := range sortedIDs(m.grants) {
		m.check(m.grants[id])
	}
}

func (m *Machine) onAttemptFailed(err error, code codes.Code, cause string) {
	s := &m.stream
	s.fault = fault{m.config.Endpoints[s.endpoint], err, cause}
	s.failed++
	s.refused++
	// Only a coordinator gives a reason: a proxy without a route answers UNIMPLEMENTED, too.
	if answer, _ := status.FromError(err); !isRefusal(code) || ErrorInfo(answer) == nil {
		s.refused = 0
	}
	endpoint := s.endpoint
	s.endpoint = (s.endpoint + 1) % len(m.config.Endpoints)
	s.phase = phaseDown
	if m.session == nil {
		if IsFinal(code) || s.failed == len(m.config.Endpoints) {
			m.emit(OpenFailed{Endpoint: endpoint, Err: err, Cause: cause})
			m.end(s.fault.String())
			return
		}
		s.retryAt = m.now
		m.connect()
		return
	}
	// The next endpoint may know a session that this one does not.
	if s.refused >= len(m.config.Endpoints) {
		m.end(s.fault.String())
		return
	}
	s.retryAt = m.now
	if s.failed%len(m.config.Endpoints) == 0 {
		s.retryAt += m.jitter(backoff(s.failed / len(m.config.Endpoints)))
		return
	}
	m.connect()
}

// backoff is the pause after a round, before jitter.
func backoff(round int) time.Duration {
	pause := backoffMin
	for i := 1; i < round && pause < backoffMax; i++ {
		pause *= 2
	}
	return min(pause, backoffMax)
}

// IsFinal is whether the same request would be refused again.
func IsFinal(code codes.Code) bool {
	return isRefusal(code) || code == codes.Unauthenticated || code == codes.PermissionDenied
}

// isRefusal is whether a coordinator with this answer does not know the session. Credentials are
// replaced while a program runs, so an answer about them is none.
func isRefusal(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.FailedPrecondition, codes.Unimplemented:
		return true
	}
	return false
}

// --- the end of a stream

func (m *Machine) onStreamEnded(ended StreamEnded) {
	cause := "the coordinator ended the stream"
	switch {
	case m.stream.phase == phaseOpening:
		m.onAttemptFailed(ended.Err, ended.Code, cause)
	case m.stream.phase != phaseUp:
	case ended.Err == nil && m.closing.sent:
		m.end(closed)
	case m.stream.leaveAt != never:
		m.onBroken(ended.Err, "the coordinator is shutting down")
	case ended.Err != nil:
		m.onBroken(ended.Err, reason(ended.Err))
		if limit, ok := messageBytesMax(ended.Err); ok {
			m.limitFrames(limit)
		}
	default:
		m.onBroken(nil, cause)
	}
}

// onBroken goes on at the next endpoint, after a pause that spreads the sessions of a coordinator
// that died.
func (m *Machine) onBroken(err error, cause string) {
	s := &m.stream
	s.fault = fault{m.config.Endpoints[s.endpoint], err, cause}
	s.phase = phaseDown
	s.endpoint = (s.endpoint + 1) % len(m.config.Endpoints)
	s.retryAt = m.now + m.pauseAfterStream()
	if s.resumeDeadline == never {
		s.resumeDeadline = m.now + m.lease
	}
	m.closing.sent = false
	for id, op := range m.operations {
		if op.purpose == forRenewal || op.purpose == forCleanup {
			m.remove(id)
			continue
		}
		op.onStreamEnded()
		m.limitWait(op)
	}
	for _, it := range m.grants {
		it.renewing = false
	}
	m.emit(Changed{State: Resuming, Cause: cause})
}

// pauseAfterStream grows if streams end again and again without progress.
func (m *Machine) pauseAfterStream() time.Duration {
	s := &m.stream
	if m.now >= s.openedAt+backoffMax {
		s.fruitless = 0
	}
	s.fruitless++
	if s.fruitless == 1 {
		return time.Duration(float64(firstPauseMax) * m.fraction())
	}
	return min(m.jitter(backoff(s.fruitless-1)), m.lease/6)
}

// messageBytesMax is the limit of the coordinator that ended a stream because of a message that was
// too large; false if it ended for another reason.
func messageBytesMax(err error) (int, bool) {
	refusal, _ := status.FromError(err)
	info := ErrorInfo(refusal)
	limit, err := strconv.Atoi(info.GetMetadata()["bytes_max"])
	return limit, err == nil && info.GetReason() == messageTooLarge
}

// reason is an error's text inside of another.
func reason(err error) string { return strings.TrimPrefix(err.Error(), "lockkeeper: ") }

// --- frames

func (m *Machine) onReceived(frame *pb.SessionResponse) {
	if m.stream.phase == phaseOpening {
		if opened := frame.GetOpened(); opened != nil {
			m.onOpened(opened)
			return
		}
		m.emit(Disconnect{})
		m.onAttemptFailed(nil, codes.Unavailable, "it did not say that the session is open")
		return
	}
	if m.stream.phase != phaseUp {
		return
	}
	m.stream.heardAt, m.stream.pingedAt = m.now, never
	switch it := frame.Response.(type) {
	case *pb.SessionResponse_Pong, nil:
	case *pb.SessionResponse_Opened:
		m.session.ResumeToken = it.Opened.ResumeToken
	case *pb.SessionResponse_Lost:
		loss := Loss{Reason: it.Lost.Reason, Detail: it.Lost.Detail}
		if left := it.Lost.ValidFor.AsDuration(); left > 0 {
			loss.ValidUntil = m.now + left
		}
		m.onLost(holding{lock: it.Lost.Grant}, loss)
	case *pb.SessionResponse_PermitsLost:
		m.onLost(holding{permits: it.PermitsLost.Grant}, Loss{Reason: it.PermitsLost.Reason})
	case *pb.SessionResponse_YieldRequested:
		m.onYieldRequested(it.YieldRequested)
	case *pb.SessionResponse_AtRisk:
		left := it.AtRisk.ValidFor.AsDuration()
		m.emit(Changed{State: AtRisk, Cause: "renewals fail", ValidFor: left})
	case *pb.SessionResponse_Recovered:
		m.emit(Changed{State: Connected})
	case *pb.SessionResponse_GoingAway:
		if m.stream.leaveAt == never {
			m.stream.leaveAt = m.now + leaveTimeout
		}
	case *pb.SessionResponse_Waiting, *pb.SessionResponse_WaitingForAll,
		*pb.SessionResponse_WaitingForPermits, *pb.SessionResponse_WaitingForLatch:
		if op := m.operations[frame.OpId]; op != nil && op.hasCaller {
			m.emit(Waiting{Name: op.name(), Frame: frame})
		}
	case *pb.SessionResponse_Failed:
		m.onFailed(frame.OpId, it.Failed)
	default:
		m.onAnswer(frame)
	}
}

func sortedIDs[K cmp.Ordered, V any](entries map[K]V) []K {
	return slices.Sorted(maps.Keys(entries))
}
