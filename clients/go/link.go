package lockkeeper

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/codes"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// link is one stream of a session, on a connection of its own.
type link struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	queue  []*pb.SessionRequest
	queued chan struct{}
}

// linkHandler takes what comes of a link: frames, then once the end.
type linkHandler interface {
	received(*link, *pb.SessionResponse)
	ended(*link, error, codes.Code)
}

// openLink connects and sends the first frame, in the background. Tasks counts its goroutines.
func openLink(
	config *config, to address, first *pb.SessionRequest, handler linkHandler,
	tasks *sync.WaitGroup,
) *link {
	ctx, cancel := context.WithCancel(context.Background())
	it := &link{cancel: cancel, queue: []*pb.SessionRequest{first}, queued: make(chan struct{}, 1)}
	it.queued <- struct{}{}
	tasks.Go(func() {
		defer cancel()
		code, err := it.run(ctx, config, to, handler)
		handler.ended(it, err, code)
	})
	return it
}

func (l *link) run(
	ctx context.Context, config *config, to address, handler linkHandler,
) (codes.Code, error) {
	faults := &faults{}
	conn, err := connection(config, []address{to}, faults)
	if err != nil {
		return codes.Unauthenticated, err
	}
	defer conn.Close()
	stream, err := pb.NewLockServiceClient(conn).Session(ctx)
	if err != nil {
		return faults.explain(err, to)
	}
	var sender sync.WaitGroup
	defer sender.Wait()
	defer l.cancel()
	sender.Go(func() { l.sendAll(ctx, stream) })
	for {
		frame, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return codes.OK, nil
		}
		if err != nil {
			return faults.explain(err, to)
		}
		handler.received(l, frame)
	}
}

// sendAll sends what is queued until the stream ends. It half-closes the stream after `close` only:
// some proxies pass on the coordinator's end of a stream when they have the client's.
func (l *link) sendAll(ctx context.Context, stream pb.LockService_SessionClient) {
	var batch []*pb.SessionRequest
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.queued:
		}
		l.mu.Lock()
		batch, l.queue = l.queue, batch[:0]
		l.mu.Unlock()
		for i, frame := range batch {
			if stream.Send(frame) != nil {
				return // receiving says why
			}
			if frame.GetClose() != nil {
				_ = stream.CloseSend()
				return
			}
			batch[i] = nil
		}
	}
}

// send queues a frame. It never blocks; there is at most one frame for each operation.
func (l *link) send(frame *pb.SessionRequest) {
	l.mu.Lock()
	l.queue = append(l.queue, frame)
	l.mu.Unlock()
	select {
	case l.queued <- struct{}{}:
	default:
	}
}

// close breaks the stream.
func (l *link) close() { l.cancel() }
