package lockkeeper

import (
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// State is the state of a session.
type State string

// The states of a session.
const (
	// Connected: the stream is open.
	Connected State = "connected"
	// AtRisk: the coordinator fails to renew what the session holds, which will be lost if that
	// continues.
	AtRisk State = "at_risk"
	// Resuming: the stream broke and is being resumed. Grants stay valid as long as they say.
	Resuming State = "resuming"
	// Ended: the session is over, and everything in it is lost.
	Ended State = "ended"
)

// SessionEvent is a change of a session's state.
type SessionEvent struct {
	State State
	// Cause says why, for people; empty for [Connected].
	Cause string
	// ValidFor is what is left to the grant that is closest to its end; only for [AtRisk].
	ValidFor time.Duration
}

// maxSleep is how late a session finds out that the machine slept, while it holds something.
const maxSleep = time.Second

// Session is the session of a client: everything that the client holds. See [Client.Session].
//
// It carries out what its machine decides: every event is a step of the machine, under the mutex.
type Session struct {
	config *config
	tasks  *sync.WaitGroup
	told   *told

	mu      sync.Mutex
	machine *machine.Machine
	link    *link
	calls   map[uint64]*call
	grants  map[*machine.Guard]*Grant
	timer   *time.Timer
	armed   machine.Instant
	state   State
	err     error

	// opened is closed when the session is open, or when it could not be opened.
	opened chan struct{}
	done   chan struct{}
}

// call is an operation whose caller waits.
type call struct {
	ctx    context.Context
	done   chan struct{}
	answer *pb.SessionResponse
	grant  *Grant
	err    error
}

// openSession opens a session in the background.
func openSession(config *config, tasks *sync.WaitGroup, told *told) *Session {
	open := &pb.OpenSession{ClientName: config.clientName, SendsPings: true, SendsClose: true}
	if config.lease > 0 {
		open.Lease = durationpb.New(config.lease)
	}
	if config.releaseOnDisconnect {
		open.OnDisconnect = pb.OnDisconnect_ON_DISCONNECT_RELEASE
	}
	var seed [32]byte
	_, _ = crypto.Read(seed[:]) // never fails
	var endpoints []string
	for _, it := range config.addresses {
		endpoints = append(endpoints, it.text)
	}
	s := &Session{
		config: config,
		tasks:  tasks,
		told:   told,
		machine: machine.New(machine.Config{
			Endpoints: endpoints, Open: open, Patience: config.patience, Seed: seed,
		}),
		calls:  map[uint64]*call{},
		grants: map[*machine.Guard]*Grant{},
		opened: make(chan struct{}),
		done:   make(chan struct{}),
	}
	s.mu.Lock()
	s.timer = time.AfterFunc(time.Hour, func() { s.step(machine.Tick{}) })
	s.stepLocked(machine.Tick{})
	s.mu.Unlock()
	return s
}

// Done is closed when the session has ended. Everything in it is lost then.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err is why the session has ended, a [*SessionEndedError]; nil before.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// State is the state of the session.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// ID is the session's id. It is a secret: anyone who knows it can act as this session.
func (s *Session) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.SessionID()
}

// Lease is the lease of grants that were acquired without one of their own.
func (s *Session) Lease() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Lease()
}

// --- operations

// do runs an operation to its end, or until the context is done: a wait is cancelled then, and what
// is granted nevertheless is released.
func (s *Session) do(
	ctx context.Context, request *pb.SessionRequest, wait *time.Duration,
) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	request.Traceparent = traceparent(ctx)
	it := &call{ctx: ctx, done: make(chan struct{})}
	start := machine.Do{Request: request}
	if wait != nil {
		until := machine.Later(now(), *wait)
		start.WaitUntil = &until
	}
	s.mu.Lock()
	start.Op = s.machine.NewID()
	s.calls[start.Op] = it
	s.stepLocked(start)
	s.mu.Unlock()
	select {
	case <-it.done:
		return it, it.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[start.Op] == nil { // its end came first
		return it, it.err
	}
	delete(s.calls, start.Op)
	s.stepLocked(machine.GiveUp{Op: start.Op})
	return nil, context.Cause(ctx)
}

// releaseLocked begins to release what a grant holds.
func (s *Session) releaseLocked(guard *machine.Guard) *call {
	it := &call{done: make(chan struct{})}
	delete(s.grants, guard)
	op := s.machine.NewID()
	s.calls[op] = it
	s.stepLocked(machine.Release{Op: op, Guard: guard})
	return it
}

// close ends the session. It fails if no coordinator confirms that within 2 s.
func (s *Session) close() error {
	s.mu.Lock()
	hadEnded := s.err != nil
	s.stepLocked(machine.Close{})
	s.mu.Unlock()
	<-s.done
	var ended *SessionEndedError
	if err := s.Err(); !hadEnded && errors.As(err, &ended) && !machine.IsClean(ended.Cause) {
		return err
	}
	return nil
}

// --- events

func (s *Session) step(event machine.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stepLocked(event)
}

func (s *Session) received(from *link, frame *pb.SessionResponse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from == s.link {
		s.stepLocked(machine.Received{Frame: frame})
	}
}

func (s *Session) ended(from *link, err error, code codes.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if from == s.link {
		s.link = nil
		s.stepLocked(machine.StreamEnded{Err: err, Code: code})
	}
}

// stepLocked reports an event to the machine and carries out what follows.
func (s *Session) stepLocked(event machine.Event) {
	at := now()
	if _, isTick := event.(machine.Tick); isTick {
		s.armed = 0
	}
	for _, effect := range s.machine.Step(at, event) {
		s.carryOut(effect)
	}
	wakeAt, isSet := s.machine.WakeAt()
	switch {
	case !isSet:
		s.timer.Stop()
		return
	case s.machine.Holds():
		wakeAt = min(wakeAt, at+maxSleep)
	}
	// A timer that passes too early only costs a look.
	if s.armed == 0 || wakeAt < s.armed {
		s.armed = wakeAt
		s.timer.Reset(max(0, wakeAt-at))
	}
}

func (s *Session) carryOut(effect machine.Effect) {
	switch it := effect.(type) {
	case machine.Send:
		if s.link != nil {
			s.link.send(it.Frame)
		}
	case machine.Done:
		s.finish(it)
	case machine.Lost:
		if grant := s.grants[it.Guard]; grant != nil {
			delete(s.grants, it.Guard)
			grant.lose(lostError(it.Guard.Loss()))
			s.record(s.told.logs.tellLoss, slog.LevelWarn, "grant lost", "error", grant.err)
		}
	case machine.Asked:
		if grant := s.grants[it.Guard]; grant != nil {
			grant.ask(it.Request)
			s.log(slog.LevelInfo, "yield requested", "name", it.Request.Name,
				"by", it.Request.By, "reason", it.Request.Reason, "preempts", it.Request.Preempts)
		}
	case machine.Connect:
		s.disconnect()
		to := s.config.addresses[it.Endpoint]
		s.log(slog.LevelDebug, "connecting", "address", to.text)
		s.link = openLink(s.config, to, it.First, s, s.tasks)
	case machine.Disconnect:
		s.disconnect()
	case machine.Changed:
		s.change(it)
	case machine.OpenFailed:
		s.failToOpen(it)
	case machine.Waiting:
		s.log(slog.LevelDebug, "waiting", append([]any{"name", it.Name}, holderOf(it.Frame)...)...)
	}
}

func (s *Session) disconnect() {
	if s.link != nil {
		s.link.close()
		s.link = nil
	}
}

func (s *Session) finish(it machine.Done) {
	call := s.calls[it.Op]
	if call == nil {
		return
	}
	delete(s.calls, it.Op)
	call.answer = it.Response
	switch {
	case it.Failure != nil:
		call.err = errorOf(it.Failure)
		if it.Failure.Kind == machine.SessionEnded && s.machine.Lease() == 0 { // it was never open
			call.err = s.err
		}
	case it.Guard != nil:
		call.grant = newGrant(call.ctx, s, it.Guard)
		s.grants[it.Guard] = call.grant
	}
	close(call.done)
}

var stateOf = map[machine.State]State{
	machine.Connected: Connected, machine.AtRisk: AtRisk,
	machine.Resuming: Resuming, machine.Ended: Ended,
}

func (s *Session) change(it machine.Changed) {
	isFirst := s.state == ""
	s.state = stateOf[it.State]
	level := slog.LevelWarn
	if isFirst || it.Cause == "" {
		level = slog.LevelInfo
	}
	s.log(level, "session "+string(s.state), "cause", it.Cause)
	if listener := s.config.listener; listener != nil {
		event := SessionEvent{s.state, it.Cause, it.ValidFor}
		s.told.changes.tell(func() { listener(event) })
	}
	switch {
	case isFirst:
		close(s.opened)
	case it.State == machine.Ended:
		s.err = &SessionEndedError{it.Cause}
		close(s.done)
	}
}

func (s *Session) failToOpen(it machine.OpenFailed) {
	s.err = it.Err
	if s.err == nil && machine.IsClean(it.Cause) {
		s.err = &SessionEndedError{it.Cause}
	} else if s.err == nil {
		s.err = &UnreachableError{s.config.addresses[it.Endpoint].text, errors.New(it.Cause)}
	}
	s.state = Ended
	close(s.opened)
	close(s.done)
}

func (s *Session) log(level slog.Level, message string, attributes ...any) {
	s.record(s.told.logs.tell, level, message, attributes...)
}

func (s *Session) record(
	tell func(func()), level slog.Level, message string, attributes ...any,
) {
	logger, ctx := s.config.logger, context.Background()
	if logger.Enabled(ctx, level) {
		tell(func() { logger.Log(ctx, level, "lockkeeper: "+message, attributes...) })
	}
}

// String names the session without its secret id.
func (s *Session) String() string { return fmt.Sprintf("session (%s)", s.State()) }
