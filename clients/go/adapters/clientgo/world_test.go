package clientgo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	"github.com/lockkeeper/lockkeeper/clients/go/adapters/clientgo"
	pb "github.com/lockkeeper/lockkeeper/clients/go/lockkeeperpb"
)

const (
	lease         = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 500 * time.Millisecond
	// limit is for what comes at once, on a busy machine.
	limit = 20 * time.Second
)

// coordinator is one that was started for a test.
type coordinator struct {
	process *os.Process
	address string
}

func start(t *testing.T, command *exec.Cmd) *os.Process {
	t.Helper()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return command.Process
}

func startCoordinator(t *testing.T, options ...string) *coordinator {
	t.Helper()
	binary := os.Getenv("LOCKKEEPER")
	if binary == "" {
		t.Fatal("LOCKKEEPER must name the coordinator's binary")
	}
	serve := []string{"serve", "--listen", "127.0.0.1:0", "--set", "log.format=json"}
	command := exec.Command(binary, append(serve, options...)...)
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	it := &coordinator{process: start(t, command)}
	lines := bufio.NewScanner(log)
	for it.address == "" && lines.Scan() {
		var line struct{ Address string }
		_ = json.Unmarshal(lines.Bytes(), &line) // other lines say nothing
		it.address = line.Address
	}
	go func() {
		for lines.Scan() { // it must be able to write its log
		}
	}()
	if it.address == "" {
		t.Fatal("the coordinator does not serve")
	}
	return it
}

func (c *coordinator) dial(t *testing.T, options ...lockkeeper.Option) *lockkeeper.Client {
	t.Helper()
	client, err := lockkeeper.Dial(t.Context(), []string{c.address}, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // its coordinator may be dead
	return client
}

// forceRelease takes the lock away, as an operator does.
func forceRelease(t *testing.T, client *lockkeeper.Client) {
	t.Helper()
	conn, err := client.Conn()
	if err != nil {
		t.Fatal(err)
	}
	request := &pb.ForceReleaseRequest{Name: "controller", Reason: "maintenance"}
	admin := pb.NewLockAdminServiceClient(conn)
	if _, err := admin.ForceRelease(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

// awaitWaiter returns when the lock has a waiter.
func awaitWaiter(t *testing.T, client *lockkeeper.Client) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < limit; {
		state, err := client.Describe(t.Context(), "controller")
		if err != nil {
			t.Fatal(err)
		}
		if state.Waiters > 0 {
			return
		}
	}
	t.Fatal("the lock has no waiter")
}

// candidate is an elector that runs.
type candidate struct {
	lock *clientgo.Lock
	stop context.CancelFunc
	// leading has the context of each term.
	leading chan context.Context
	stopped chan struct{}
	leaders chan string
	ended   chan error
}

func newCandidate(lock *clientgo.Lock) *candidate {
	return &candidate{
		lock: lock, leading: make(chan context.Context, 1), stopped: make(chan struct{}, 1),
		leaders: make(chan string, 100), ended: make(chan error, 1),
	}
}

func (c *candidate) config(release bool) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: release,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { c.leading <- ctx },
			OnStoppedLeading: func() { c.stopped <- struct{}{} },
			OnNewLeader:      func(identity string) { c.leaders <- identity },
		},
	}
}

// run runs a candidate with an identity.
func run(t *testing.T, client *lockkeeper.Client, identity string, release bool) *candidate {
	t.Helper()
	it := newCandidate(clientgo.New(client, "controller", identity, lease))
	it.run(t, release)
	return it
}

func (c *candidate) run(t *testing.T, release bool) {
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	c.stop = stop
	go func() { c.ended <- c.lock.Run(ctx, c.config(release)) }()
}

// leads waits until the candidate leads.
func (c *candidate) leads(t *testing.T) context.Context {
	t.Helper()
	return receive(t, "it leads", c.leading)
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case it := <-from:
		return it
	case <-time.After(limit):
		t.Fatalf("not in time: %s", what)
		panic("it has failed")
	}
}

func (c *candidate) sees(t *testing.T, leader string) {
	t.Helper()
	for receive(t, "it sees "+leader, c.leaders) != leader {
	}
}

func isLost(err error, reason lockkeeper.LostReason) bool {
	lost, ok := errors.AsType[*lockkeeper.LostError](err)
	return ok && lost.Reason == reason
}
