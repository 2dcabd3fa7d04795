package machine

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// purpose is what the answer to an operation is for.
type purpose int

const (
	// forCaller: a caller, unless it gave up.
	forCaller purpose = iota
	// forRenewal: the renewal of operation.grant.
	forRenewal
	// forRelease: the release of operation.guard.
	forRelease
	// forLateRelease: the release of what was granted after its caller gave up.
	forLateRelease
	// forCleanup: the release of a part of what was asked for. It is not repeated: the resume after
	// a broken stream does not name that part, which releases it.
	forCleanup
)

// waitBytes are those of a wait limit, at most, which is set whenever a frame is sent.
const waitBytes = 16

// operation is a request without an answer.
type operation struct {
	id      uint64
	request *pb.SessionRequest
	purpose purpose
	grant   *grant
	// token is that of the grant when its renewal was started, by the session or by a caller.
	token uint64
	guard *Guard

	// hasCaller is whether a caller waits for a Done.
	hasCaller bool
	abandoned bool
	waitUntil Instant
	// shared is whether the request was handed out, so that it must not be changed.
	shared bool
	// sentAt is when it was sent on this stream, or never.
	sentAt Instant
	// uncertain is whether it may have been executed.
	uncertain bool
	// failingSince is when the coordinator first answered that it cannot be executed for now.
	failingSince Instant
	// retry passes when to send it again, or when to end its wait while there is no stream.
	retry timer
}

// frame is the request as it is sent now.
func (o *operation) frame(now Instant) *pb.SessionRequest {
	o.own()
	o.shared = true
	o.sentAt = now
	if o.waitUntil != never {
		setWaitTimeout(o.request, max(0, o.waitUntil-now))
	}
	return o.request
}

// own makes the request one that can be changed.
func (o *operation) own() {
	if o.shared {
		o.request = proto.Clone(o.request).(*pb.SessionRequest)
		o.shared = false
	}
}

// tooLarge is the failure of a frame that is larger than this; nil if it is not.
func (o *operation) tooLarge(bytesMax int) *Failure {
	bytes := proto.Size(o.request) + waitBytes
	if bytes <= bytesMax {
		return nil
	}
	it := o.request.ProtoReflect()
	kind := it.WhichOneof(it.Descriptor().Oneofs().ByName("request")).Name()
	cause := fmt.Sprintf("%s has %d bytes, the limit is %d", kind, bytes, bytesMax)
	return &Failure{Kind: TooLarge, Cause: cause}
}

// renewRequestID makes it a new operation to the coordinator.
func (o *operation) renewRequestID(id string) {
	o.own()
	o.uncertain = false
	*requestID(o.request) = id
}

// onStreamEnded makes it uncertain if it was sent.
func (o *operation) onStreamEnded() {
	if o.sentAt != never {
		o.uncertain = true
		o.sentAt = never
	}
	// The next coordinator may not fail.
	o.failingSince = never
}

// waits is whether it can be cancelled.
func (o *operation) waits() bool {
	switch o.request.Request.(type) {
	case *pb.SessionRequest_Acquire, *pb.SessionRequest_AcquireAll,
		*pb.SessionRequest_AcquirePermits, *pb.SessionRequest_AwaitLatch:
		return true
	}
	return false
}

func (o *operation) acquiresPermits() bool {
	switch o.request.Request.(type) {
	case *pb.SessionRequest_AcquirePermits, *pb.SessionRequest_TryAcquirePermits:
		return true
	}
	return false
}

func (o *operation) acquires() bool {
	return o.acquiresPermits() || len(o.locks()) > 0
}

// asks is whether it is a question, which changes nothing.
func (o *operation) asks() bool {
	switch o.request.Request.(type) {
	case *pb.SessionRequest_Describe, *pb.SessionRequest_DescribeSemaphore,
		*pb.SessionRequest_DescribeLatch, *pb.SessionRequest_CheckToken,
		*pb.SessionRequest_Leader, *pb.SessionRequest_Explain:
		return true
	}
	return false
}

// locks are the locks that it acquires, as grants without what only the coordinator knows.
func (o *operation) locks() []*pb.Grant {
	switch it := o.request.Request.(type) {
	case *pb.SessionRequest_Acquire:
		r := it.Acquire
		return []*pb.Grant{possible(r.Name, r.Mode, r.Owner, r.Lease)}
	case *pb.SessionRequest_TryAcquire:
		r := it.TryAcquire
		return []*pb.Grant{possible(r.Name, r.Mode, r.Owner, r.Lease)}
	case *pb.SessionRequest_AcquireAll:
		r := it.AcquireAll
		return possibleAll(r.Locks, r.Owner, r.Lease)
	case *pb.SessionRequest_TryAcquireAll:
		r := it.TryAcquireAll
		return possibleAll(r.Locks, r.Owner, r.Lease)
	}
	return nil
}

func possible(name string, mode pb.LockMode, owner string, lease *durationpb.Duration) *pb.Grant {
	return &pb.Grant{
		Name: name, Mode: effectiveMode(mode), Owner: owner, HoldCount: 1, Watched: lease == nil,
	}
}

func possibleAll(specs []*pb.LockSpec, owner string, lease *durationpb.Duration) []*pb.Grant {
	grants := make([]*pb.Grant, len(specs))
	for i, spec := range specs {
		grants[i] = possible(spec.Name, spec.Mode, owner, lease)
	}
	return grants
}

// name is what it is about, for people.
func (o *operation) name() string {
	switch it := o.request.Request.(type) {
	case *pb.SessionRequest_AcquirePermits:
		return it.AcquirePermits.Name
	case *pb.SessionRequest_TryAcquirePermits:
		return it.TryAcquirePermits.Name
	case *pb.SessionRequest_AwaitLatch:
		return it.AwaitLatch.Name
	}
	var names []string
	for _, lock := range o.locks() {
		names = append(names, lock.Name)
	}
	return strings.Join(names, ", ")
}

func setWaitTimeout(request *pb.SessionRequest, left Instant) {
	timeout := durationpb.New(left)
	switch it := request.Request.(type) {
	case *pb.SessionRequest_Acquire:
		it.Acquire.WaitTimeout = timeout
	case *pb.SessionRequest_AcquireAll:
		it.AcquireAll.WaitTimeout = timeout
	case *pb.SessionRequest_AcquirePermits:
		it.AcquirePermits.WaitTimeout = timeout
	case *pb.SessionRequest_AwaitLatch:
		it.AwaitLatch.WaitTimeout = timeout
	}
}

// requestID is where a request that changes state has its id; nil for others.
func requestID(request *pb.SessionRequest) *string {
	switch it := request.Request.(type) {
	case *pb.SessionRequest_Acquire:
		return &it.Acquire.RequestId
	case *pb.SessionRequest_TryAcquire:
		return &it.TryAcquire.RequestId
	case *pb.SessionRequest_Release:
		return &it.Release.RequestId
	case *pb.SessionRequest_AcquireAll:
		return &it.AcquireAll.RequestId
	case *pb.SessionRequest_TryAcquireAll:
		return &it.TryAcquireAll.RequestId
	case *pb.SessionRequest_ReleaseAll:
		return &it.ReleaseAll.RequestId
	case *pb.SessionRequest_AcquirePermits:
		return &it.AcquirePermits.RequestId
	case *pb.SessionRequest_TryAcquirePermits:
		return &it.TryAcquirePermits.RequestId
	case *pb.SessionRequest_ReleasePermits:
		return &it.ReleasePermits.RequestId
	case *pb.SessionRequest_SetCount:
		return &it.SetCount.RequestId
	case *pb.SessionRequest_CountDown:
		return &it.CountDown.RequestId
	}
	return nil
}

// ErrorInfo is the coordinator's stable reason of a refusal, with its metadata; nil if it has none.
func ErrorInfo(refusal *status.Status) *errdetails.ErrorInfo {
	return detail[*errdetails.ErrorInfo](refusal)
}

func retryInfo(refusal *status.Status) *errdetails.RetryInfo {
	return detail[*errdetails.RetryInfo](refusal)
}

func detail[T any](refusal *status.Status) T {
	for _, it := range refusal.Details() {
		if found, ok := it.(T); ok {
			return found
		}
	}
	var none T
	return none
}
