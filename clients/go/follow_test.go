package lockkeeper_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// proxy answers one call for a coordinator. Afterwards it says itself that there is none.
type proxy struct {
	pb.UnimplementedLockServiceServer
	isDown atomic.Bool
	calls  atomic.Int32
}

func startProxy(t *testing.T, isDown bool) (*proxy, string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	it, server := &proxy{}, grpc.NewServer()
	it.isDown.Store(isDown)
	pb.RegisterLockServiceServer(server, it)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return it, "http://" + listener.Addr().String()
}

func (p *proxy) answer(send func() error) error {
	p.calls.Add(1)
	if !p.isDown.Swap(true) {
		if err := send(); err != nil {
			return err
		}
	}
	return status.Error(codes.Unavailable, "no healthy upstream")
}

func (p *proxy) WatchLock(
	_ *pb.WatchLockRequest, stream grpc.ServerStreamingServer[pb.WatchLockResponse],
) error {
	state := &pb.WatchLockResponse{Event: &pb.WatchLockResponse_State{State: &pb.LockState{}}}
	return p.answer(func() error { return stream.Send(state) })
}

func (p *proxy) AwaitFree(
	_ *pb.AwaitFreeRequest, stream grpc.ServerStreamingServer[pb.AwaitFreeResponse],
) error {
	free := &pb.AwaitFreeResponse{Event: &pb.AwaitFreeResponse_Free{Free: &pb.LockFree{}}}
	return p.answer(func() error { return stream.Send(free) })
}

// dialProxies makes a client of proxies, with their addresses.
func dialProxies(t *testing.T, areDown ...bool) (*lockkeeper.Client, []string, []*proxy) {
	var endpoints []string
	var proxies []*proxy
	for _, isDown := range areDown {
		it, url := startProxy(t, isDown)
		endpoints, proxies = append(endpoints, url), append(proxies, it)
	}
	client, err := lockkeeper.Dial(t.Context(), endpoints)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client, endpoints, proxies
}

func wereCalledOnce(t *testing.T, proxies []*proxy) {
	t.Helper()
	for i, it := range proxies {
		if calls := it.calls.Load(); calls != 1 {
			t.Fatalf("%d calls of endpoint %d", calls, i)
		}
	}
}

func TestAWaitLeavesAnEndpointThatAnswersWithoutACoordinator(t *testing.T) {
	client, _, proxies := dialProxies(t, true, false)
	check(t, client.AwaitFree(withTimeout(t, patience), "a"))
	wereCalledOnce(t, proxies)
}

func TestAWatcherLeavesAnEndpointThatAnswersWithoutACoordinator(t *testing.T) {
	client, _, proxies := dialProxies(t, false, false)
	seen := watch(t, client.WatchLock(withTimeout(t, patience), "a"))
	for _, isGap := range []bool{false, true, false} {
		if event := seen.sees(); (event.GetGap() != nil) != isGap {
			t.Fatalf("%v", event)
		}
	}
	wereCalledOnce(t, proxies)
}

func TestAWaitEndsIfAllEndpointsAnswerWithoutACoordinator(t *testing.T) {
	client, endpoints, proxies := dialProxies(t, true, true)
	err := client.AwaitFree(withTimeout(t, patience), "a")
	unreachable, ok := errors.AsType[*lockkeeper.UnreachableError](err)
	if !ok || unreachable.Address != endpoints[1] {
		t.Fatalf("%v", err)
	}
	wereCalledOnce(t, proxies)
}
