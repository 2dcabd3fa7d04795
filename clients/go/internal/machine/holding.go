package machine

import (
	"time"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// holding is what a coordinator granted: one lock, or permits of one semaphore.
type holding struct {
	lock    *pb.Grant
	permits *pb.PermitGrant
}

// key identifies a grant of the session: a lock in a mode by its owner, or one permit. A fair hold
// and an exclusive one of the same owner are one grant, of which the coordinator counts the holds.
type key struct {
	name, owner string
	mode        pb.LockMode
	permit      string
}

func lockKey(grant *pb.Grant) key {
	return key{name: grant.Name, owner: grant.Owner, mode: keyMode(grant.Mode)}
}

func keyMode(mode pb.LockMode) pb.LockMode {
	if mode == pb.LockMode_LOCK_MODE_FAIR {
		return pb.LockMode_LOCK_MODE_EXCLUSIVE
	}
	return effectiveMode(mode)
}

// effectiveMode is the mode that the coordinator takes: an unspecified one is exclusive.
func effectiveMode(mode pb.LockMode) pb.LockMode {
	if mode == pb.LockMode_LOCK_MODE_UNSPECIFIED {
		return pb.LockMode_LOCK_MODE_EXCLUSIVE
	}
	return mode
}

func locks(grants []*pb.Grant) []holding {
	holdings := make([]holding, len(grants))
	for i, grant := range grants {
		holdings[i] = holding{lock: grant}
	}
	return holdings
}

func permits(grants []*pb.PermitGrant) []holding {
	holdings := make([]holding, len(grants))
	for i, grant := range grants {
		holdings[i] = holding{permits: grant}
	}
	return holdings
}

// keys are one for a lock, and one for each of several permits.
func (h holding) keys() []key {
	if h.lock != nil {
		return []key{lockKey(h.lock)}
	}
	keys := make([]key, len(h.permits.GetPermitIds()))
	for i, id := range h.permits.GetPermitIds() {
		keys[i] = key{permit: id}
	}
	return keys
}

func (h holding) name() string {
	if h.lock != nil {
		return h.lock.Name
	}
	return h.permits.GetName()
}

func (h holding) token() uint64 {
	return h.lock.GetFencingToken()
}

func (h holding) lease() time.Duration {
	if h.lock != nil {
		return h.lock.Lease.AsDuration()
	}
	return h.permits.GetLease().AsDuration()
}

func (h holding) validFor() time.Duration {
	if h.lock != nil {
		return h.lock.ValidFor.AsDuration()
	}
	return h.permits.GetValidFor().AsDuration()
}

// watched is whether it is renewed as long as the session lives; else its request set a lease.
func (h holding) watched() bool {
	return h.lock.GetWatched() || h.permits.GetWatched()
}

// olderThan is whether this is an older grant of the same lock and owner.
func (h holding) olderThan(other holding) bool {
	return h.lock != nil && other.lock != nil && h.token() < other.token()
}

// renewal asks for the lease that the grant had before.
func (h holding) renewal() *pb.SessionRequest {
	if h.lock != nil {
		return &pb.SessionRequest{Request: &pb.SessionRequest_Renew{Renew: &pb.RenewRequest{
			Name: h.lock.Name, Owner: h.lock.Owner, Mode: h.lock.Mode,
		}}}
	}
	renew := &pb.RenewPermitsRequest{
		Name: h.permits.Name, Owner: h.permits.Owner, PermitIds: h.permits.PermitIds,
	}
	return &pb.SessionRequest{Request: &pb.SessionRequest_RenewPermits{RenewPermits: renew}}
}

// releaseOf releases what one request acquired.
func releaseOf(holdings []holding) *pb.SessionRequest {
	first := holdings[0]
	switch {
	case first.permits != nil:
		it := first.permits
		release := &pb.ReleasePermitsRequest{
			Name: it.Name, Owner: it.Owner, PermitIds: it.PermitIds,
		}
		return &pb.SessionRequest{
			Request: &pb.SessionRequest_ReleasePermits{ReleasePermits: release},
		}
	case len(holdings) == 1:
		return &pb.SessionRequest{Request: &pb.SessionRequest_Release{Release: &pb.ReleaseRequest{
			Name: first.lock.Name, Owner: first.lock.Owner, Mode: first.lock.Mode,
		}}}
	default:
		release := &pb.ReleaseAllRequest{Owner: first.lock.Owner}
		for _, it := range holdings {
			spec := &pb.LockSpec{Name: it.lock.Name, Mode: it.lock.Mode}
			release.Locks = append(release.Locks, spec)
		}
		return &pb.SessionRequest{Request: &pb.SessionRequest_ReleaseAll{ReleaseAll: release}}
	}
}
