package lockkeeper_test

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

var (
	why  = "release 1.4"
	note = &lockkeeper.Note{Reason: why, Labels: map[string]string{"team": "web", "run": "7"}}
	// noted are the options that make the note.
	noted = []lockkeeper.AcquireOption{
		lockkeeper.WithReason(why), lockkeeper.WithLabel("team", "web"),
		lockkeeper.WithLabel("run", "7"),
	}
)

// hasHolderNote fails if an error is not the end of a wait with this note of the holder.
func hasHolderNote(t *testing.T, err error, want *lockkeeper.Note) {
	t.Helper()
	var refused *lockkeeper.NotGrantedError
	if !errors.As(err, &refused) || !reflect.DeepEqual(refused.HolderNote, want) {
		t.Fatalf("%v, %+v", err, refused)
	}
}

func TestNotesAreShownToOthers(t *testing.T) {
	var text syncBuffer
	debug := &slog.HandlerOptions{Level: slog.LevelDebug}
	client := dial(t, startCoordinator(t).url(),
		lockkeeper.WithLogger(slog.New(slog.NewTextHandler(&text, debug))))
	acquires := map[string]func() (*lockkeeper.Grant, error){
		"Lock": func() (*lockkeeper.Grant, error) {
			return client.Lock(t.Context(), "a", noted...)
		},
		"TryLock": func() (*lockkeeper.Grant, error) {
			return client.TryLock(t.Context(), "a", noted...)
		},
		"LockAll": func() (*lockkeeper.Grant, error) {
			return client.LockAll(t.Context(), []string{"a", "b"}, noted...)
		},
		"TryLockAll": func() (*lockkeeper.Grant, error) {
			return client.TryLockAll(t.Context(), []string{"a", "b"}, noted...)
		},
	}
	short := lockkeeper.WithWaitTimeout(50 * time.Millisecond)
	for name, acquire := range acquires {
		t.Run(name, func(t *testing.T) {
			grant, err := acquire()
			check(t, err)
			_, err = client.TryLock(t.Context(), "a")
			hasHolderNote(t, err, note)
			_, err = client.TryLockAll(t.Context(), []string{"a", "c"})
			hasHolderNote(t, err, note)
			_, err = client.Lock(t.Context(), "a", short)
			hasHolderNote(t, err, note)
			_, err = client.LockAll(t.Context(), []string{"a", "c"}, short)
			hasHolderNote(t, err, note)
			_, err = client.Leased("a", "").TryAcquire(t.Context(), 0)
			hasHolderNote(t, err, note)
			state, err := client.Describe(t.Context(), "a")
			check(t, err)
			if len(state.HeldBy) != 1 || !reflect.DeepEqual(state.HeldBy[0].Note, note) ||
				state.HeldBy[0].Mode != lockkeeper.Exclusive || state.HeldBy[0].Owner == "" {
				t.Fatalf("%+v", state)
			}
			check(t, grant.Unlock(t.Context()))
		})
	}
	eventually(t, "the log says what is waited for", func() bool {
		return strings.Contains(text.String(), `holder_reason="release 1.4"`)
	})
}

func TestAHoldWithoutANoteShowsNone(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	grant, err := client.Lock(t.Context(), "a", noted...)
	check(t, err)
	check(t, grant.Unlock(t.Context()))
	_, err = client.Lock(t.Context(), "a")
	check(t, err)
	_, err = client.TryLock(t.Context(), "a")
	hasHolderNote(t, err, nil)
}

func TestANoteWithoutASession(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	lock := client.Leased("a", "me")
	lock.Note = *note
	_, err := lock.TryAcquire(t.Context(), time.Minute)
	check(t, err)
	_, err = client.TryLock(t.Context(), "a")
	hasHolderNote(t, err, note)
}

func TestABadNoteIsRefused(t *testing.T) {
	client := dial(t, startCoordinator(t).url())
	for reason, option := range map[string]lockkeeper.AcquireOption{
		"INVALID_NOTE_REASON": lockkeeper.WithReason(strings.Repeat("x", 257)),
		"INVALID_NOTE_LABELS": lockkeeper.WithLabel("a=b", ""),
	} {
		_, err := client.TryLock(t.Context(), "a", option)
		var refused *lockkeeper.RefusedError
		if !errors.As(err, &refused) || refused.Reason != reason {
			t.Fatalf("%v", err)
		}
	}
}

func TestAForcedReleaseWaitsForTheHolder(t *testing.T) {
	const grace = 15 * time.Second
	client := dial(t, startCoordinator(t).url())
	grant, err := client.Lock(t.Context(), "a")
	check(t, err)
	next := make(chan *lockkeeper.Grant)
	go func() {
		grant, err := client.Lock(t.Context(), "a")
		if err != nil {
			t.Error(err)
		}
		next <- grant
	}()
	conn, err := client.Conn()
	check(t, err)
	force := &pb.ForceReleaseRequest{
		Name: "a", Reason: "maintenance", GracePeriod: durationpb.New(grace),
	}
	begun := time.Now()
	forced, err := pb.NewLockAdminServiceClient(conn).ForceRelease(t.Context(), force)
	check(t, err)
	if !forced.Released || forced.ClosedFor.AsDuration() <= 0 {
		t.Fatalf("%v", forced)
	}
	receive(t, "the loss", grant.Lost())
	var lost *lockkeeper.LostError
	if !errors.As(grant.Err(), &lost) || lost.Reason != lockkeeper.LostForceReleased ||
		!grant.ValidUntil().IsZero() {
		t.Fatalf("%v, %v", grant.Err(), grant.ValidUntil())
	}
	left := lost.ValidUntil.Sub(begun)
	if late := time.Since(begun); left < grace-time.Second || left > grace+late {
		t.Fatalf("%v are left", left)
	}
	if _, err := client.TryLock(t.Context(), "a"); !errors.Is(err, lockkeeper.ErrLocked) {
		t.Fatalf("it is open: %v", err)
	}
	if err := grant.Unlock(t.Context()); !errors.Is(err, lockkeeper.ErrLost) {
		t.Fatalf("%v", err)
	}
	check(t, receive(t, "the next grant", next).Unlock(t.Context()))
	if !time.Now().Before(lost.ValidUntil) {
		t.Fatal("the release did not end the grace period")
	}
}
