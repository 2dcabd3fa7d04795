package lockkeeper_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// refuser is a coordinator that grants everything, or refuses it for a reason.
type refuser struct {
	pb.UnimplementedLockServiceServer
	reason string
	calls  atomic.Int32
}

func startRefuser(t *testing.T, reason string) (*refuser, string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	it, server := &refuser{reason: reason}, grpc.NewServer()
	pb.RegisterLockServiceServer(server, it)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return it, "http://" + listener.Addr().String()
}

func (r *refuser) TryAcquire(
	_ context.Context, request *pb.TryAcquireRequest,
) (*pb.TryAcquireResponse, error) {
	grant := &pb.Grant{Name: request.Name, Owner: request.Owner, FencingToken: 1}
	return &pb.TryAcquireResponse{Acquired: true, Grant: grant}, r.answer()
}

func (r *refuser) RequestYield(
	context.Context, *pb.RequestYieldRequest,
) (*pb.RequestYieldResponse, error) {
	return &pb.RequestYieldResponse{}, r.answer()
}

func (r *refuser) answer() error {
	r.calls.Add(1)
	if r.reason == "" {
		return nil
	}
	refusal, err := status.New(codes.Unavailable, "scripted").WithDetails(
		&errdetails.ErrorInfo{Reason: r.reason, Domain: "lockkeeper"})
	if err != nil {
		return err
	}
	return refusal.Err()
}

// Session ends when the client has half-closed it after a close, as behind some proxies.
func (r *refuser) Session(stream pb.LockService_SessionServer) error {
	opened := &pb.SessionOpened{SessionId: "s", Lease: durationpb.New(time.Minute)}
	isClosed := false
	for {
		frame, err := stream.Recv()
		if err != nil {
			if isClosed && errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		isClosed = isClosed || frame.GetClose() != nil
		if frame.GetOpen() != nil {
			answer := &pb.SessionResponse_Opened{Opened: opened}
			if err := stream.Send(&pb.SessionResponse{Response: answer}); err != nil {
				return err
			}
		}
	}
}

func TestCloseHalfClosesTheStreamForProxiesThatWaitForIt(t *testing.T) {
	_, address := startRefuser(t, "")
	client := dial(t, address)
	_, err := client.Session(t.Context())
	check(t, err)
	check(t, client.Close())
}

func TestACallLeavesACoordinatorThatCannotExecuteIt(t *testing.T) {
	for reason, isLeft := range map[string]bool{
		"DRAINING": true, "STORE_UNAVAILABLE": true, "OUTCOME_UNKNOWN": false,
	} {
		first, one := startRefuser(t, reason)
		next, two := startRefuser(t, "")
		client, err := lockkeeper.Dial(t.Context(), []string{one, two})
		check(t, err)
		t.Cleanup(func() { _ = client.Close() })
		for call := range int32(2) {
			_, err := client.Leased("a", "me").TryAcquire(t.Context(), 0)
			refused, isRefused := errors.AsType[*lockkeeper.RefusedError](err)
			if isLeft != (err == nil) || isRefused && refused.Reason != reason {
				t.Fatalf("%s: %v", reason, err)
			}
			if calls := next.calls.Load(); isLeft && calls != call+1 {
				t.Fatalf("%s: %d calls of the next", reason, calls)
			}
		}
		// gRPC retries.
		if calls := first.calls.Load(); isLeft && calls > 4 {
			t.Fatalf("%s: it is not remembered who answered: %d calls", reason, calls)
		}
	}
}

func TestARefusalOfAllCoordinatorsIsReported(t *testing.T) {
	_, one := startRefuser(t, "DRAINING")
	_, two := startRefuser(t, "STORE_UNAVAILABLE")
	client, err := lockkeeper.Dial(t.Context(), []string{one, two})
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, err = client.Leased("a", "me").TryAcquire(t.Context(), 0)
	refused, ok := errors.AsType[*lockkeeper.RefusedError](err)
	if !ok || refused.Reason != "STORE_UNAVAILABLE" {
		t.Fatalf("%v", err)
	}
}

func TestARequestToYieldIsMadeOnce(t *testing.T) {
	first, one := startRefuser(t, "STORE_UNAVAILABLE")
	next, two := startRefuser(t, "")
	client, err := lockkeeper.Dial(t.Context(), []string{one, two})
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, err = client.RequestYield(t.Context(), "a", lockkeeper.Yield{Reason: "test"})
	if calls := []int32{first.calls.Load(), next.calls.Load()}; err == nil || calls[1] != 0 ||
		calls[0] != 1 {
		t.Fatalf("%v calls, %v", calls, err)
	}
}
