package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// warmUp precedes each measurement.
const warmUp = time.Second

// rate is pairs of an acquire and a release in a time.
type rate struct {
	pairs int64
	time  time.Duration
}

func (r rate) perSecond() float64 { return float64(r.pairs) / r.time.Seconds() }

// speed measures the client and a bare stream in turns, so that a busy machine slows both alike.
func speed(ctx context.Context, it command) (object, error) {
	var client, bare rate
	for range 2 {
		if err := client.addClient(ctx, it); err != nil {
			return nil, err
		}
		if err := bare.addBare(ctx, it); err != nil {
			return nil, err
		}
	}
	return object{
		"pairs_per_second": client.perSecond(), "bare_pairs_per_second": bare.perSecond(),
	}, nil
}

// add counts the pairs of all tasks in half of the time, for there are two turns.
func (r *rate) add(
	ctx context.Context, it command, pair func(ctx context.Context, task int) error,
) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var pairs atomic.Int64
	var isOver atomic.Bool
	var tasks sync.WaitGroup
	for task := range it.Tasks {
		tasks.Go(func() {
			for !isOver.Load() {
				if err := pair(ctx, task); err != nil {
					fail(err)
					return
				}
				pairs.Add(1)
			}
		})
	}
	sleep(ctx, warmUp)
	before, begin := pairs.Load(), time.Now()
	sleep(ctx, time.Duration(it.Seconds/2*float64(time.Second)))
	r.pairs += pairs.Load() - before
	r.time += time.Since(begin)
	isOver.Store(true)
	tasks.Wait()
	return context.Cause(ctx)
}

func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

func (r *rate) addClient(ctx context.Context, it command) error {
	client, err := lockkeeper.Dial(ctx, it.Endpoints)
	if err != nil {
		return err
	}
	err = r.add(ctx, it, func(ctx context.Context, task int) error {
		grant, err := client.TryLock(ctx, fmt.Sprint("speed-", task))
		if err != nil {
			return err
		}
		return grant.Unlock(ctx)
	})
	return errors.Join(err, client.Close())
}

// --- without the client

// bareStream is a session's stream of gRPC, shared by tasks.
type bareStream struct {
	stream  grpc.BidiStreamingClient[pb.SessionRequest, pb.SessionResponse]
	sending sync.Mutex
	numbers atomic.Int64
	// random makes request ids unique among sessions.
	random uint64
	// answers are closed when the stream has ended. A task's operations have its number plus 1.
	answers []chan *pb.SessionResponse
}

func (r *rate) addBare(ctx context.Context, it command) error {
	conn, err := grpc.NewClient(strings.TrimPrefix(it.Endpoints[0], "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLockServiceClient(conn).Session(ctx)
	if err != nil {
		return err
	}
	open := &pb.SessionRequest{Request: &pb.SessionRequest_Open{Open: &pb.OpenSession{}}}
	if err := stream.Send(open); err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	bare := &bareStream{
		stream: stream, random: rand.Uint64(), answers: make([]chan *pb.SessionResponse, it.Tasks),
	}
	for task := range bare.answers {
		bare.answers[task] = make(chan *pb.SessionResponse, 1)
	}
	var receiver sync.WaitGroup
	receiver.Go(bare.receiveAll)
	err = r.add(ctx, it, bare.pair)
	if err != nil {
		cancel()
	} else {
		err = stream.CloseSend() // it ends the session
	}
	receiver.Wait()
	return err
}

func (b *bareStream) receiveAll() {
	for {
		answer, err := b.stream.Recv()
		if err != nil {
			for _, answers := range b.answers {
				close(answers)
			}
			return
		}
		if answer.OpId > 0 { // it is no notice
			b.answers[answer.OpId-1] <- answer
		}
	}
}

// pair sends what the client sends: owners and request ids that are as long and as different.
func (b *bareStream) pair(_ context.Context, task int) error {
	number := b.numbers.Add(2)
	name, owner := fmt.Sprint("bare-", task), fmt.Sprint("call-", number)
	answer, err := b.call(task, &pb.SessionRequest{Request: &pb.SessionRequest_TryAcquire{
		TryAcquire: &pb.TryAcquireRequest{
			Name: name, Owner: owner, Mode: pb.LockMode_LOCK_MODE_EXCLUSIVE,
			RequestId: b.requestID(number),
		},
	}})
	if err != nil || !answer.GetTried().GetAcquired() {
		return errors.Join(err, fmt.Errorf("not acquired: %v", answer))
	}
	answer, err = b.call(task, &pb.SessionRequest{Request: &pb.SessionRequest_Release{
		Release: &pb.ReleaseRequest{
			Name: name, Owner: owner, Mode: pb.LockMode_LOCK_MODE_EXCLUSIVE,
			RequestId: b.requestID(number + 1),
		},
	}})
	if err != nil || !answer.GetReleased().GetReleased() {
		return errors.Join(err, fmt.Errorf("not released: %v", answer))
	}
	return nil
}

func (b *bareStream) requestID(number int64) string {
	return fmt.Sprintf("%016x%016x", b.random, number)
}

func (b *bareStream) call(task int, frame *pb.SessionRequest) (*pb.SessionResponse, error) {
	frame.OpId = uint64(task) + 1
	b.sending.Lock()
	err := b.stream.Send(frame)
	b.sending.Unlock()
	if err != nil {
		return nil, err
	}
	answer, isOpen := <-b.answers[task]
	if !isOpen {
		return nil, errors.New("the stream has ended")
	}
	return answer, nil
}
