package lockkeeper

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

// Client is a client of the coordinators of one store. It is safe for concurrent use; a program
// needs only one.
type Client struct {
	config *config
	// tasks are the goroutines of all connections.
	tasks sync.WaitGroup
	told  told

	mu       sync.Mutex
	isClosed bool
	session  *Session
	// conns are for calls without a session, by the endpoint that they try first.
	conns map[int]*direct
	// answered is the endpoint that the last such call was answered at.
	answered atomic.Int32
}

// Dial makes a client of coordinators at http://HOST:PORT, https://HOST:PORT, unix:///PATH, or
// HOST:PORT, which means http://. It checks the addresses, files and the token, but does not
// connect: the session is opened when it is first needed, at the first endpoint that accepts it.
//
// It fails with a [*MisconfiguredError].
func Dial(ctx context.Context, endpoints []string, options ...Option) (*Client, error) {
	config := &config{logger: slog.New(slog.DiscardHandler)}
	for _, option := range options {
		option(config)
	}
	var err error
	if config.addresses, err = parseAddresses(endpoints); err != nil {
		return nil, err
	}
	if config.lease < 0 {
		return nil, misconfigured("session lease", "%v is negative", config.lease)
	}
	for _, it := range config.addresses {
		if it.tls {
			if _, err := config.tls.load(it.host); err != nil {
				return nil, err
			}
		}
	}
	if config.token != nil {
		if _, err := authorization(ctx, config.token); err != nil {
			return nil, err
		}
	}
	return &Client{config: config, conns: map[int]*direct{}}, nil
}

// Session returns the session of the client, and opens one if there is none, or if the last one has
// ended. Everything else opens it as well when it is needed.
//
// It fails with an [*UnreachableError] if no coordinator answers within 6 s, or with a
// [*RefusedError].
func (c *Client) Session(ctx context.Context) (*Session, error) {
	session, err := c.current()
	if err != nil {
		return nil, err
	}
	select {
	case <-session.opened:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if session.Lease() == 0 { // it was never open
		return nil, session.Err()
	}
	return session, nil
}

func (c *Client) current() (*Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return nil, &SessionEndedError{"the client was closed"}
	}
	if c.session == nil || c.session.Err() != nil {
		c.session = openSession(c.config, &c.tasks, &c.told)
	}
	return c.session, nil
}

// Close ends the session, which releases everything, and closes all connections. No goroutine of
// the client is left.
//
// It fails with a [*SessionEndedError] if no coordinator confirms the end of the session within
// 2 s: everything stays held until its lease ends.
func (c *Client) Close() error {
	c.mu.Lock()
	c.isClosed = true
	session, conns := c.session, c.conns
	c.session, c.conns = nil, nil
	c.mu.Unlock()
	var err error
	if session != nil {
		err = session.close()
	}
	for _, it := range conns {
		_ = it.conn.Close() // it was open
	}
	c.tasks.Wait()
	return err
}

// do runs an operation in the session.
func (c *Client) do(ctx context.Context, request *pb.SessionRequest) (*pb.SessionResponse, error) {
	session, err := c.Session(ctx)
	if err != nil {
		return nil, err
	}
	call, err := session.do(ctx, request, nil)
	if err != nil {
		return nil, err
	}
	return call.answer, nil
}

// doIfOpen runs an operation in the session if one is open.
func (c *Client) doIfOpen(
	ctx context.Context, request *pb.SessionRequest,
) (*pb.SessionResponse, bool, error) {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if session == nil || session.State() != Connected {
		return nil, false, nil
	}
	call, err := session.do(ctx, request, nil)
	if err != nil {
		return nil, true, err
	}
	return call.answer, true, nil
}
