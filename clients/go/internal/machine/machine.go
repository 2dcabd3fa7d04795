// Package machine is the state machine of a session, as clients/session-machine.md specifies it:
// events and the time go in, effects come out. It has no input and output of its own: no sockets,
// no goroutines, no clock, no callbacks.
//
// The stream is in stream.go, operations without an answer in operations.go, and what is held in
// grants.go.
package machine

import (
	"encoding/hex"
	"math"
	"math/rand/v2"
	"time"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Instant is a point in time, measured from an origin that the caller chooses. It must be larger
// than 0.
type Instant = time.Duration

// never is the instant of what does not happen.
const never = Instant(math.MaxInt64)

// Later is the instant after a time, or never if that is out of range.
func Later(now Instant, after time.Duration) Instant {
	return now + min(after, never-now)
}

// The constants of the specification.
const (
	openTimeout   = 6 * time.Second
	resumeTimeout = 2 * time.Second
	firstPauseMax = 50 * time.Millisecond
	backoffMin    = 50 * time.Millisecond
	backoffMax    = time.Second
	leaveTimeout  = 500 * time.Millisecond
	retryPause    = 200 * time.Millisecond
	closeTimeout  = 2 * time.Second
)

// frameBytesMax is the largest frame: by default a coordinator ends the stream after a larger one.
const frameBytesMax = 1024 * 1024

// Why a session ended.
const (
	closed      = "it was closed"
	closedAlone = "it was closed, and no coordinator answered"
	unreachable = "no coordinator could be reached for as long as its lease, the last one because: "
)

// Config is what a session is opened with.
type Config struct {
	// Endpoints are the addresses, at least one. The machine only names them.
	Endpoints []string
	// Open is the first frame.
	Open *pb.OpenSession
	// Patience is how long operations of callers are sent again while the store does not answer; 0
	// for as long as the lease, as releases are.
	Patience time.Duration
	// Seed makes pauses and request ids random.
	Seed [32]byte
}

// Machine is a session. Step reports events to it. It is not safe for concurrent use.
type Machine struct {
	config  Config
	random  *rand.ChaCha8
	now     Instant
	lastID  uint64
	effects []Effect

	stream     stream
	session    *pb.SessionOpened
	lease      time.Duration
	closing    closing
	operations map[uint64]*operation
	grants     map[uint64]*grant
	byKey      map[key]*grant
	// unconfirmed are the guards that are delivered once a renewal says until when they are valid,
	// by the operations that wait for them.
	unconfirmed map[uint64]*Guard
	timers      timers
	// bytesMax is the largest frame that is sent.
	bytesMax int
}

// closing is the end of a session by its user.
type closing struct {
	// deadline is never if the session is not being closed.
	deadline Instant
	// sent is whether the coordinator of this stream was asked.
	sent bool
}

// New makes a session that the first Tick opens.
func New(config Config) *Machine {
	return &Machine{
		config:      config,
		random:      rand.NewChaCha8(config.Seed),
		stream:      newStream(),
		closing:     closing{deadline: never},
		operations:  map[uint64]*operation{},
		grants:      map[uint64]*grant{},
		byKey:       map[key]*grant{},
		unconfirmed: map[uint64]*Guard{},
		bytesMax:    frameBytesMax,
	}
}

// NewID numbers operations; it is also used for grants.
func (m *Machine) NewID() uint64 {
	m.lastID++
	return m.lastID
}

// SessionID is the id of the session; empty before it is open. It is a secret.
func (m *Machine) SessionID() string { return m.session.GetSessionId() }

// Lease is the lease of the session; 0 before it is open.
func (m *Machine) Lease() time.Duration { return m.lease }

// Holds is whether there are grants.
func (m *Machine) Holds() bool { return len(m.grants) > 0 }

// Step takes an event and returns what follows from it. The effects are valid until the next Step,
// and have to be carried out in their order.
func (m *Machine) Step(now Instant, event Event) []Effect {
	m.now = now
	clear(m.effects)
	m.effects = m.effects[:0]
	if m.stream.phase == phaseEnded {
		m.onEventAfterEnd(event)
		return m.effects
	}
	switch it := event.(type) {
	case Received:
		m.onReceived(it.Frame)
	case StreamEnded:
		m.onStreamEnded(it)
	case Do:
		m.do(it)
	case GiveUp:
		m.giveUp(it.Op)
	case Release:
		m.release(it.Guard, it.Op)
	case Close:
		m.close()
	case Tick:
	}
	m.meetDeadlines()
	return m.effects
}

// WakeAt is when the next Tick is due at the latest, if nothing else happens before.
func (m *Machine) WakeAt() (Instant, bool) {
	if m.stream.phase == phaseEnded {
		return never, false
	}
	at := min(m.timers.next(), m.closing.deadline, m.stream.wakeAt(m.session))
	return at, at != never
}

func (m *Machine) emit(effect Effect) {
	m.effects = append(m.effects, effect)
}

func (m *Machine) meetDeadlines() {
	for m.stream.phase != phaseEnded {
		due := m.timers.popDue(m.now)
		switch {
		case due == nil:
			m.meetStreamDeadlines()
			return
		case due.grant != nil:
			m.check(due.grant)
		case m.stream.phase == phaseUp:
			m.send(due.operation)
		default:
			m.endWait(due.operation)
		}
	}
}

// --- the end

func (m *Machine) close() {
	if m.closing.deadline != never {
		return
	}
	if m.session == nil {
		m.emit(OpenFailed{Endpoint: m.stream.endpoint, Cause: closed})
		m.end(closed)
		return
	}
	m.closing.deadline = m.now + closeTimeout
	m.failWaits()
	m.sendClose()
}

func (m *Machine) sendClose() {
	if m.isClosing() && m.canSend() {
		m.closing.sent = true
		m.emit(Send{&pb.SessionRequest{
			Request: &pb.SessionRequest_Close{Close: &pb.CloseSession{}},
		}})
	}
}

func (m *Machine) isClosing() bool { return m.closing.deadline != never }

// end reports that everything is lost, and that nothing will be answered.
func (m *Machine) end(cause string) {
	m.stream.phase = phaseEnded
	m.emit(Disconnect{})
	failure := &Failure{Kind: SessionEnded, Cause: cause}
	for _, op := range sortedIDs(m.unconfirmed) {
		m.emit(Done{Op: op, Failure: failure})
	}
	clear(m.unconfirmed)
	for _, id := range sortedIDs(m.grants) {
		m.lose(m.grants[id], Loss{Detail: "the session ended: " + cause})
	}
	for _, id := range sortedIDs(m.operations) {
		if m.operations[id].hasCaller {
			m.emit(Done{Op: id, Failure: failure})
		}
	}
	clear(m.operations)
	m.timers = nil
	if m.session != nil {
		m.emit(Changed{State: Ended, Cause: cause})
	}
	m.stream.endedBy = cause
}

func (m *Machine) onEventAfterEnd(event Event) {
	failure := &Failure{Kind: SessionEnded, Cause: m.stream.endedBy}
	switch it := event.(type) {
	case Do:
		m.emit(Done{Op: it.Op, Failure: failure})
	case Release:
		if it.Guard.loss != nil {
			failure = it.Guard.failure()
		}
		if it.Op != 0 {
			m.emit(Done{Op: it.Op, Failure: failure})
		}
	}
}

// --- randomness

// fraction is between 0 and 1.
func (m *Machine) fraction() float64 {
	return float64(m.random.Uint64()>>11) / (1 << 53)
}

// jitter is between half of d and d.
func (m *Machine) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(float64(d/2)*m.fraction())
}

func (m *Machine) newRequestID() string {
	var id [16]byte
	_, _ = m.random.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// IsClean is whether a session ended for this cause because its user closed it, and the coordinator
// confirmed it.
func IsClean(cause string) bool { return cause == closed }
