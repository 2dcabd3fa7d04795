package machine

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Event is something that happened outside the machine.
type Event interface{ isEvent() }

type (
	// Tick says that the time of Machine.WakeAt has passed. The first one opens the session.
	Tick struct{}

	// Received is a frame of the stream that the last Connect asked for.
	Received struct{ Frame *pb.SessionResponse }

	// StreamEnded says that this stream ended, or that it could not be opened.
	StreamEnded struct {
		// Err is nil if the coordinator ended the stream without an error.
		Err error
		// Code is what the coordinator answered. A failure of the client's own credentials or
		// files counts as Unauthenticated.
		Code codes.Code
	}

	// Do starts an operation of a caller, which waits for its Done.
	Do struct {
		// Op is a new id, of Machine.NewID.
		Op uint64
		// Request belongs to the machine from here on.
		Request *pb.SessionRequest
		// WaitUntil ends a wait with a limit; nil if it has none.
		WaitUntil *Instant
	}

	// GiveUp says that the caller of an operation no longer waits for its Done.
	GiveUp struct{ Op uint64 }

	// Release releases what a guard holds. The caller waits for the Done of Op; 0 if none does.
	Release struct {
		Op    uint64
		Guard *Guard
	}

	// Close ends the session.
	Close struct{}
)

func (Tick) isEvent()        {}
func (Received) isEvent()    {}
func (StreamEnded) isEvent() {}
func (Do) isEvent()          {}
func (GiveUp) isEvent()      {}
func (Release) isEvent()     {}
func (Close) isEvent()       {}

// Effect is something to be done outside the machine.
type Effect interface{ isEffect() }

type (
	// Connect asks for a stream at an endpoint, in place of any other, and for a first frame on it.
	Connect struct {
		Endpoint int
		First    *pb.SessionRequest
	}

	// Disconnect breaks the stream. Nothing that comes of it is reported any more.
	Disconnect struct{}

	// Send sends a frame on the stream. The frame is not changed any more.
	Send struct{ Frame *pb.SessionRequest }

	// Done ends an operation of a caller, with a guard, a response or a failure.
	Done struct {
		Op       uint64
		Guard    *Guard
		Response *pb.SessionResponse
		Failure  *Failure
	}

	// Lost says that a guard lost what it holds, or a part of it. It comes once for each guard.
	Lost struct{ Guard *Guard }

	// Asked says that another caller asks for a lock that a guard holds. The guard stays valid.
	Asked struct {
		Guard   *Guard
		Request YieldRequest
	}

	// Waiting reports the state of a wait, for logs.
	Waiting struct {
		Name  string
		Frame *pb.SessionResponse
	}

	// Changed reports the state of the session.
	Changed struct {
		State State
		// Cause says why, for people; empty for Connected.
		Cause string
		// ValidFor is what is left to the grant closest to its end; only for AtRisk.
		ValidFor time.Duration
	}

	// OpenFailed says that the session could not be opened: no endpoint accepted it.
	OpenFailed struct {
		// Endpoint was tried last.
		Endpoint int
		// Err is what a StreamEnded reported; nil if the coordinator did not answer in time, or
		// not as it should.
		Err error
		// Cause says why if Err is nil.
		Cause string
	}
)

func (Connect) isEffect()    {}
func (Disconnect) isEffect() {}
func (Send) isEffect()       {}
func (Done) isEffect()       {}
func (Lost) isEffect()       {}
func (Asked) isEffect()      {}
func (Waiting) isEffect()    {}
func (Changed) isEffect()    {}
func (OpenFailed) isEffect() {}

// State is the state of a session.
type State int

// The states of a session.
const (
	Connecting State = iota
	Connected
	AtRisk
	Resuming
	Ended
)

// Kind is the kind of a Failure.
type Kind int

// The kinds of failures.
const (
	NotGranted Kind = iota
	LostGrant
	Refused
	SessionEnded
	// Unreachable: the wait limit passed while no stream was open.
	Unreachable
	// TooLarge: no coordinator takes the request, which was not sent.
	TooLarge
)

// Failure says why an operation failed.
type Failure struct {
	Kind Kind
	// Name is the lock, semaphore or latch; several locks are separated by commas.
	Name string
	// Reason is why nothing was granted.
	Reason pb.NotGrantedReason
	// HolderLease is the holder's remaining lease; 0 if it is not known.
	HolderLease time.Duration
	// HolderNote is the holder's note; nil if it gave none.
	HolderNote *pb.Note
	// Loss is why the grant was lost.
	Loss Loss
	// Status is the answer of a coordinator that refused.
	Status *status.Status
	// Address is the endpoint that was tried last, of an Unreachable.
	Address string
	// Err is what its StreamEnded reported; nil if it said nothing.
	Err error
	// Cause is why the session ended, what is too large, or why the endpoint is not reached if Err
	// is nil.
	Cause string
}

// YieldRequest is a request of another caller to release a lock.
type YieldRequest struct {
	// Name is the lock.
	Name string
	// By is who asks, and Reason why, for people. By may be empty.
	By, Reason string
	// Deadline is until when the request stands.
	Deadline Instant
	// Preempts is whether the lock is taken away then.
	Preempts bool
}

// Loss says why a grant was lost.
type Loss struct {
	// Name is the lock or the semaphore.
	Name string
	// Token is the fencing token of the grant; 0 for permits.
	Token uint64
	// Reason is unspecified if the session has ended.
	Reason pb.LostReason
	// Detail is the operator's reason, or why the session ended. May be empty.
	Detail string
	// ValidUntil is until when no other owner can acquire the lock; 0 if one may hold it already.
	ValidUntil Instant
}
