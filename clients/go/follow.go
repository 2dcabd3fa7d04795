package lockkeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

	"github.com/lockkeeper/lockkeeper/clients/go/internal/machine"
)

// followPause is the longest one between two attempts to go on.
const followPause = 500 * time.Millisecond

// follow makes a call that streams its answers, and makes it again at the next endpoint when the
// stream ends, for as long as that takes. It returns nil when take wants no more answers, and fails
// if no endpoint gives a first answer, if the same call would be refused again, and when the
// context is done. take is also told whether an answer is the first one after a break.
func follow[S, In, Out any](
	ctx context.Context, c *Client, stub func(grpc.ClientConnInterface) S,
	method func(
		S, context.Context, In, ...grpc.CallOption,
	) (grpc.ServerStreamingClient[Out], error),
	request func() In, take func(answer *Out, isResumed bool) bool,
) error {
	hasBegun := false
	once := func(endpoint int) (isOver bool, err error) {
		direct, err := c.direct(endpoint)
		if err != nil {
			return false, err
		}
		ctx, cancel := context.WithCancel(traced(ctx))
		defer cancel()
		stream, err := method(stub(direct.conn), ctx, request())
		isResumed := hasBegun
		for err == nil {
			var answer *Out
			if answer, err = stream.Recv(); err != nil {
				break
			}
			hasBegun = true
			if !take(answer, isResumed) {
				return true, nil
			}
			isResumed = false
		}
		return false, direct.explain(err)
	}
	endpoints := len(c.config.addresses)
	for attempt := 0; ; attempt++ {
		isOver, err := once(attempt % endpoints)
		switch {
		case isOver:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !mayPass(err), !hasBegun && attempt == endpoints-1:
			return err
		case !hasBegun:
			continue
		}
		// Those that followed a coordinator that died must not come all at once.
		select {
		case <-time.After(followPause/2 + rand.N(followPause/2)):
		case <-ctx.Done():
		}
	}
}

// mayPass is whether another attempt may succeed.
func mayPass(err error) bool {
	var refusal *RefusedError
	if errors.As(err, &refusal) {
		return !machine.IsFinal(refusal.Code)
	}
	var unreachable *UnreachableError
	return errors.As(err, &unreachable)
}
