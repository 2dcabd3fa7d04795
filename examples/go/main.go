// Command hold-a-lock holds a lock around work: go run . 127.0.0.1:7625 nightly-report 10
//
// It ends with 0 if the work was done, with 3 if the lock was lost meanwhile.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/hold-a-lock/lockkeeper/v1"
)

//go:generate go run ./generate

const (
	lease = 6 * time.Second
	owner = "0"
)

// heldLock is one lock, held in a session that is resumed when its stream breaks. Its context is cancelled, with the cause, when the lock is not
// certainly held any more.
type heldLock struct {
	service pb.LockServiceClient
	name    string
	token   uint64
	ctx     context.Context
	lose    context.CancelCauseFunc
	expiry  *time.Timer

	mu      sync.Mutex
	opened  *pb.SessionOpened
	stream  grpc.BidiStreamingClient[pb.SessionRequest, pb.SessionResponse]
	pending map[uint64]operation
	opID    uint64
	closed  bool
}

// operation is one without an answer.
type operation struct {
	frame  *pb.SessionRequest
	answer chan *pb.SessionResponse
}

func newHeldLock(ctx context.Context, connection *grpc.ClientConn, name string) *heldLock {
	lock := &heldLock{service: pb.NewLockServiceClient(connection), name: name, pending: map[uint64]operation{}}
	lock.ctx, lock.lose = context.WithCancelCause(ctx)
	go lock.run()
	return lock
}

func (l *heldLock) acquire(requestID string) error {
	request := &pb.AcquireRequest{Name: l.name, Owner: owner, RequestId: requestID}
	answer, err := l.ask(&pb.SessionRequest{Request: &pb.SessionRequest_Acquire{Acquire: request}})
	if err != nil {
		return err
	}
	l.token = answer.GetGranted().GetFencingToken()
	// How long the answer was under way is not known; a renewal tells until when the lock is held.
	sentAt := time.Now()
	validFor, err := l.renew()
	if err != nil {
		return err
	}
	l.expiry = time.AfterFunc(time.Until(sentAt.Add(validFor)), func() { l.lose(fmt.Errorf("it could not be renewed in time")) })
	go l.keep()
	return nil
}

func (l *heldLock) release(requestID string) error {
	request := &pb.ReleaseRequest{Name: l.name, Owner: owner, RequestId: requestID}
	_, err := l.ask(&pb.SessionRequest{Request: &pb.SessionRequest_Release{Release: request}})
	l.expiry.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	// Half-closing ends the session.
	return firstError(err, l.stream.CloseSend())
}

func (l *heldLock) checkToken() (bool, error) {
	request := &pb.CheckTokenRequest{Name: l.name, FencingToken: l.token}
	answer, err := l.ask(&pb.SessionRequest{Request: &pb.SessionRequest_CheckToken{CheckToken: request}})
	return answer.GetTokenChecked().GetCurrent(), err
}

func (l *heldLock) renew() (time.Duration, error) {
	request := &pb.RenewRequest{Name: l.name, Owner: owner}
	answer, err := l.ask(&pb.SessionRequest{Request: &pb.SessionRequest_Renew{Renew: request}})
	return answer.GetRenewed().GetGrant().GetValidFor().AsDuration(), err
}

// keep renews as the coordinator does; this is for knowing until when, whatever happens to it.
func (l *heldLock) keep() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-time.After(lease / 3):
		}
		sentAt := time.Now()
		if validFor, err := l.renew(); err == nil {
			l.expiry.Reset(time.Until(sentAt.Add(validFor)))
		}
	}
}

// ask sends an operation and waits for its end, on whichever stream that comes.
func (l *heldLock) ask(frame *pb.SessionRequest) (*pb.SessionResponse, error) {
	answer := make(chan *pb.SessionResponse, 1)
	l.mu.Lock()
	l.opID++
	frame.OpId = l.opID
	l.pending[frame.OpId] = operation{frame, answer}
	if l.stream != nil {
		// If it fails, so does reading, and the frame is sent again.
		_ = l.stream.Send(frame)
	}
	l.mu.Unlock()
	select {
	case response := <-answer:
		if failed := response.GetFailed(); failed != nil {
			return nil, status.ErrorProto(failed)
		}
		return response, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

func (l *heldLock) first() *pb.SessionRequest {
	if l.opened == nil {
		open := &pb.OpenSession{Lease: durationpb.New(lease), ClientName: "hold-a-lock"}
		return &pb.SessionRequest{Request: &pb.SessionRequest_Open{Open: open}}
	}
	// Name what is held, and what may be held because its answer was lost: what is not named is released.
	grant := &pb.Grant{Name: l.name, Mode: pb.LockMode_LOCK_MODE_EXCLUSIVE, Owner: owner, HoldCount: 1, Watched: true}
	resume := &pb.ResumeSession{SessionId: l.opened.SessionId, ResumeToken: l.opened.ResumeToken, Grants: []*pb.Grant{grant}}
	return &pb.SessionRequest{Request: &pb.SessionRequest_Resume{Resume: resume}}
}

// run keeps a stream open, with pauses between attempts that grow.
func (l *heldLock) run() {
	for pause := 50 * time.Millisecond; l.ctx.Err() == nil; pause = min(2*pause, time.Second) {
		err := l.converse(&pause)
		l.mu.Lock()
		l.stream = nil
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return
		}
		log.Printf("stream ended: %v", err)
		if status.Code(err) == codes.NotFound {
			l.lose(fmt.Errorf("the session is over"))
		}
		time.Sleep(pause/2 + rand.N(pause/2))
	}
}

func (l *heldLock) converse(pause *time.Duration) error {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	stream, err := l.service.Session(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(l.first()); err != nil {
		return err
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		*pause = 50 * time.Millisecond
		l.on(stream, response)
	}
}

func (l *heldLock) on(stream grpc.BidiStreamingClient[pb.SessionRequest, pb.SessionResponse], response *pb.SessionResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch event := response.Response.(type) {
	case *pb.SessionResponse_Opened:
		if l.opened == nil {
			l.opened = event.Opened
		} else {
			fmt.Println("resumed")
		}
		l.stream = stream
		// Repeated with their request ids, so nothing is done twice.
		for _, operation := range l.pending {
			_ = stream.Send(operation.frame)
		}
	case *pb.SessionResponse_Lost:
		if l.token != 0 {
			l.lose(fmt.Errorf("%v", event.Lost.Reason))
		}
	case *pb.SessionResponse_Waiting, *pb.SessionResponse_AtRisk, *pb.SessionResponse_Recovered:
	case *pb.SessionResponse_GoingAway: // The stream ends now, and is opened anew.
	default:
		if operation, ok := l.pending[response.OpId]; ok {
			delete(l.pending, response.OpId)
			operation.answer <- response
		}
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	arguments := append(os.Args[1:], []string{"127.0.0.1:7625", "nightly-report", "10"}[min(3, len(os.Args)-1):]...)
	seconds, err := strconv.ParseFloat(arguments[2], 64)
	check(err)
	connection, err := grpc.NewClient(arguments[0], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: lease / 3}))
	check(err)
	lock := newHeldLock(context.Background(), connection, arguments[1])
	check(lock.acquire(fmt.Sprintf("%x", rand.Uint64())))
	fmt.Printf("holds %s, fencing token %d\n", lock.name, lock.token)

	// The work: it shows the token to whatever it changes, and stops at once when the lock is lost.
	select {
	case <-lock.ctx.Done():
		fmt.Println("lost:", context.Cause(lock.ctx))
		os.Exit(3)
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	}
	// What the resource should ask if it cannot compare tokens by itself.
	current, err := lock.checkToken()
	check(err)
	fmt.Println("token is current:", current)
	check(lock.release(fmt.Sprintf("%x", rand.Uint64())))
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
