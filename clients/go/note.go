package lockkeeper

import (
	"cmp"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Note is what a holder of a lock says about its hold, for other callers to read. It lives as long
// as the grant. It must not contain secrets: all who may acquire the lock can read it.
type Note struct {
	// Reason is why the owner holds the lock: at most 256 bytes, without control characters.
	Reason string
	// Labels are at most 8. A key has 1 to 64 bytes without "=", a value at most 128 bytes.
	Labels map[string]string
}

// WithReason says why the lock is held, for others to read; see [Note]. Permits have no notes.
func WithReason(reason string) AcquireOption {
	return func(o *acquireOptions) { o.note.Reason = reason }
}

// WithLabel adds a label for others to read; see [Note]. Permits have no notes.
func WithLabel(key, value string) AcquireOption {
	return func(o *acquireOptions) {
		if o.note.Labels == nil {
			o.note.Labels = map[string]string{}
		}
		o.note.Labels[key] = value
	}
}

// pb is unset if the note says nothing.
func (n Note) pb() *pb.Note {
	if n.Reason == "" && len(n.Labels) == 0 {
		return nil
	}
	return &pb.Note{Reason: n.Reason, Labels: n.Labels}
}

// noteOf is nil if there is no note.
func noteOf(it *pb.Note) *Note {
	if it == nil {
		return nil
	}
	return &Note{it.Reason, it.Labels}
}

// holderOf is the holder's note in the notice of a wait, as attributes of a log line.
func holderOf(frame *pb.SessionResponse) []any {
	waiting := cmp.Or(frame.GetWaiting(), frame.GetWaitingForAll().GetWaiting())
	note := waiting.GetHolderNote()
	if note == nil {
		return nil
	}
	return []any{"holder_reason", note.Reason, "holder_labels", note.Labels}
}
