package lockkeeper

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Errors to compare with by [errors.Is].
var (
	// ErrLocked is any [*NotGrantedError]: the lock has another holder, too few permits are free,
	// or the latch is closed.
	ErrLocked = errors.New("lockkeeper: not granted")
	// ErrLost is any [*LostError], and a [*RefusedError] that says NOT_OWNER: the lock or the
	// permits are not held any more.
	ErrLost = errors.New("lockkeeper: lost")
	// ErrSessionEnded is any [*SessionEndedError].
	ErrSessionEnded = errors.New("lockkeeper: the session has ended")
	// ErrReleased is the cause of a [Grant.Context] that ended because of [Grant.Unlock].
	ErrReleased = errors.New("lockkeeper: released")
)

// MisconfiguredError says that an address, a file or a value cannot be used. Nothing was sent.
type MisconfiguredError struct {
	// Field is what cannot be used, such as an address or the name of a file.
	Field string
	// Cause is why.
	Cause error
}

func (e *MisconfiguredError) Error() string {
	return fmt.Sprintf("lockkeeper: %s: %v", e.Field, e.Cause)
}

// Unwrap returns the cause.
func (e *MisconfiguredError) Unwrap() error { return e.Cause }

// UnreachableError says that no coordinator answered within 6 s, or within [WithWaitTimeout].
// Nothing is held: what was granted nevertheless is released.
type UnreachableError struct {
	// Address is the last one that was tried.
	Address string
	// Cause is why it could not be reached.
	Cause error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("lockkeeper: no coordinator at %s: %v", e.Address, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// NotGrantedReason is why a wait ended without a grant.
type NotGrantedReason string

// The reasons of a [NotGrantedError].
const (
	// WaitTimeout: the time to wait has passed, or there was none.
	WaitTimeout NotGrantedReason = "WAIT_TIMEOUT"
	// Cancelled: the wait was cancelled.
	Cancelled NotGrantedReason = "CANCELLED"
	// Deadlock: the wait is part of a deadlock, and was made [WithEndOnDeadlock].
	Deadlock NotGrantedReason = "DEADLOCK"
)

// NotGrantedError says that nothing was granted: the lock has another holder, too few permits are
// free, or the latch is closed. A later try may succeed.
type NotGrantedError struct {
	// Name is the lock, semaphore or latch; several locks are separated by commas.
	Name string
	// Reason is why the wait ended.
	Reason NotGrantedReason
	// HolderLease is the holder's remaining lease. It grows again if the holder renews it. 0 if it
	// is not known.
	HolderLease time.Duration
	// HolderNote is why the holder holds the lock, of any one if there are several; nil if it gave
	// none.
	HolderNote *Note
}

func (e *NotGrantedError) Error() string {
	return fmt.Sprintf("lockkeeper: %s: not granted, %s", e.Name, e.Reason)
}

func notGranted(name string, it *pb.NotGranted) *NotGrantedError {
	return &NotGrantedError{
		Name: name, Reason: notGrantedReason(it.Reason), HolderNote: noteOf(it.HolderNote),
		HolderLease: it.HolderRemainingLease.AsDuration(),
	}
}

func notGrantedReason(it pb.NotGrantedReason) NotGrantedReason {
	return NotGrantedReason(strings.TrimPrefix(it.String(), "NOT_GRANTED_REASON_"))
}

// Is makes the error an [ErrLocked].
func (e *NotGrantedError) Is(target error) bool { return target == ErrLocked }

// LostReason is why a grant was lost.
type LostReason string

// The reasons of a [LostError].
const (
	// LostSessionEnded: the session has ended.
	LostSessionEnded LostReason = "UNSPECIFIED"
	// LostExpired: the lease ended, or the store no longer had the grant.
	LostExpired LostReason = "EXPIRED"
	// LostTakenOver: another owner holds the lock.
	LostTakenOver LostReason = "TAKEN_OVER"
	// LostStoreUnreachable: the store was unreachable for too long. It may still have the grant.
	LostStoreUnreachable LostReason = "STORE_UNREACHABLE"
	// LostForceReleased: an operator released the lock.
	LostForceReleased LostReason = "FORCE_RELEASED"
	// LostClockStepped: the store's clock stepped forward, which ended the lease before its time.
	LostClockStepped LostReason = "CLOCK_STEPPED"
	// LostPreempted: the lock was preempted.
	LostPreempted LostReason = "PREEMPTED"
	// LostHandedOver: another session claimed a ticket for the lock and holds it.
	LostHandedOver LostReason = "HANDED_OVER"
)

// LostError says that a lock or permits were lost. Another owner may hold them, unless ValidUntil
// is set.
type LostError struct {
	// Name is the lock or the semaphore.
	Name string
	// Reason is why.
	Reason LostReason
	// Token is the fencing token of the lost grant; 0 for permits.
	Token uint64
	// Detail is the operator's reason, or why the session ended. May be empty.
	Detail string
	// ValidUntil is until when no other owner can acquire the lock, although it is lost: the end of
	// the grace period of a forced release, or of the lease after a preemption. Stop the work
	// before it and call [Grant.Unlock], which ends the period. It is the zero time if another
	// owner may hold the lock already. Like [Grant.ValidUntil], it must not be kept over a
	// suspension of the machine.
	ValidUntil time.Time
}

func (e *LostError) Error() string {
	why := string(e.Reason)
	switch {
	case e.Reason == LostSessionEnded && e.Detail != "":
		why = e.Detail
	case e.Detail != "":
		why += ", " + e.Detail
	}
	return fmt.Sprintf("lockkeeper: %s: lost: %s", e.Name, why)
}

// Is makes the error an [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// RefusedError says that the coordinator refused a call, or that a call was lost on the way.
type RefusedError struct {
	// Code is the gRPC code.
	Code codes.Code
	// Reason is the stable reason, such as INVALID_NAME. Empty for errors of gRPC itself; the
	// outcome of the call is unknown then.
	Reason string
	// Message is for developers.
	Message string
	// Metadata is what the reason comes with, such as the state of the lock.
	Metadata map[string]string

	status *status.Status
}

func (e *RefusedError) Error() string {
	reason := e.Reason
	if reason == "" {
		reason = e.Code.String()
	}
	return fmt.Sprintf("lockkeeper: %s: %s", reason, e.Message)
}

// Is makes an error with the reason NOT_OWNER an [ErrLost].
func (e *RefusedError) Is(target error) bool {
	return target == ErrLost && e.Reason == "NOT_OWNER"
}

// GRPCStatus makes the error usable with the package google.golang.org/grpc/status.
func (e *RefusedError) GRPCStatus() *status.Status { return e.status }

// SessionEndedError says that the session has ended, and that everything in it was lost.
type SessionEndedError struct {
	// Cause is why, for people.
	Cause string
}

func (e *SessionEndedError) Error() string {
	return "lockkeeper: the session has ended: " + e.Cause
}

// Is makes the error an [ErrSessionEnded].
func (e *SessionEndedError) Is(target error) bool { return target == ErrSessionEnded }

func refused(it *status.Status) *RefusedError {
	info := machine.ErrorInfo(it)
	return &RefusedError{
		Code: it.Code(), Reason: info.GetReason(), Message: it.Message(),
		Metadata: info.GetMetadata(), status: it,
	}
}

// errorOf is the error of an operation that the machine reports as failed.
func errorOf(failure *machine.Failure) error {
	switch failure.Kind {
	case machine.NotGranted:
		return &NotGrantedError{
			Name: failure.Name, Reason: notGrantedReason(failure.Reason),
			HolderLease: failure.HolderLease, HolderNote: noteOf(failure.HolderNote),
		}
	case machine.LostGrant:
		return lostError(&failure.Loss)
	case machine.Refused:
		return refused(failure.Status)
	case machine.Unreachable:
		return unreachable(failure)
	case machine.TooLarge:
		return &MisconfiguredError{"request", errors.New(failure.Cause)}
	default:
		return &SessionEndedError{failure.Cause}
	}
}

// unreachable is the error of a wait that ended while no coordinator answered.
func unreachable(failure *machine.Failure) error {
	var known *UnreachableError
	switch {
	case errors.As(failure.Err, &known):
		return known
	case failure.Err != nil:
		return &UnreachableError{failure.Address, failure.Err}
	default:
		return &UnreachableError{failure.Address, errors.New(failure.Cause)}
	}
}

func lostError(loss *machine.Loss) *LostError {
	reason := strings.TrimPrefix(loss.Reason.String(), "LOST_REASON_")
	it := &LostError{
		Name: loss.Name, Reason: LostReason(reason), Token: loss.Token, Detail: loss.Detail,
	}
	if loss.ValidUntil > 0 {
		it.ValidUntil = time.Now().Add(loss.ValidUntil - now())
	}
	return it
}

func misconfigured(field, format string, args ...any) error {
	return &MisconfiguredError{field, fmt.Errorf(format, args...)}
}
