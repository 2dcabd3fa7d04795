package lockkeeper_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// benchmarkTasks acquire and release, each its own lock, on one session.
const benchmarkTasks = 64

// BenchmarkPairs measures a lock and its release by the client.
func BenchmarkPairs(b *testing.B) {
	client, err := lockkeeper.Dial(b.Context(), []string{startCoordinator(b).url()})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	var next atomic.Int64
	var tasks sync.WaitGroup
	b.ResetTimer()
	for task := range benchmarkTasks {
		tasks.Go(func() {
			for next.Add(1) <= int64(b.N) {
				grant, err := client.Lock(b.Context(), "bench-"+strconv.Itoa(task))
				if err == nil {
					err = grant.Unlock(b.Context())
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	tasks.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkBareStream measures the same frames on a stream of gRPC, without any client: one
// goroutine sends, one receives, and each answer makes the next request. Owners and request ids are
// as long as those of the client, and as different.
func BenchmarkBareStream(b *testing.B) {
	conn, err := grpc.NewClient(startCoordinator(b).address,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	stream, err := pb.NewLockServiceClient(conn).Session(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	send := func(frame *pb.SessionRequest) {
		if err := stream.Send(frame); err != nil {
			b.Error(err)
		}
	}
	send(&pb.SessionRequest{Request: &pb.SessionRequest_Open{Open: &pb.OpenSession{}}})
	if _, err := stream.Recv(); err != nil {
		b.Fatal(err)
	}
	frames := make(chan *pb.SessionRequest, 2*benchmarkTasks)
	var sender sync.WaitGroup
	sender.Go(func() {
		for frame := range frames {
			send(frame)
		}
	})
	defer sender.Wait()
	defer close(frames)
	b.ResetTimer()
	number := 0
	for task := range uint64(benchmarkTasks) {
		number++
		frames <- bareAcquire(task+1, number)
	}
	for pairs := 0; pairs < b.N; {
		answer, err := stream.Recv()
		number++
		switch {
		case err != nil:
			b.Fatal(err)
		case answer.GetGranted() != nil:
			frames <- bareRelease(answer.OpId, answer.GetGranted(), number)
		case answer.GetReleased() != nil:
			pairs++
			frames <- bareAcquire(answer.OpId, number)
		case answer.GetFailed() != nil:
			b.Fatal(answer)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

func bareAcquire(task uint64, number int) *pb.SessionRequest {
	return &pb.SessionRequest{OpId: task, Request: &pb.SessionRequest_Acquire{
		Acquire: &pb.AcquireRequest{
			Name: fmt.Sprint("bare-", task), Owner: fmt.Sprint("call-", number),
			Mode:      pb.LockMode_LOCK_MODE_EXCLUSIVE,
			RequestId: fmt.Sprintf("a%031d", number),
		},
	}}
}

func bareRelease(task uint64, grant *pb.Grant, number int) *pb.SessionRequest {
	return &pb.SessionRequest{OpId: task, Request: &pb.SessionRequest_Release{
		Release: &pb.ReleaseRequest{
			Name: grant.Name, Owner: grant.Owner, Mode: grant.Mode,
			RequestId: fmt.Sprintf("r%031d", number),
		},
	}}
}
