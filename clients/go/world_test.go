package lockkeeper_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
)

// patience is how long anything that should happen may take.
const patience = 20 * time.Second

// coordinator is a real one in a process of its own.
type coordinator struct {
	t       testing.TB
	flags   []string
	address string
	process *exec.Cmd
}

// binary is the coordinator to test with: LOCKKEEPER, or that of a debug build.
func binary(t testing.TB) string {
	if testing.Short() {
		t.Skip("it needs a coordinator")
	}
	path := os.Getenv("LOCKKEEPER")
	if path == "" {
		path = "../../target/debug/lockkeeper"
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("build the coordinator, or name it by LOCKKEEPER, or use -short: %v", err)
	}
	return path
}

// startCoordinator starts one on a free port, with the embedded store unless flags name another.
func startCoordinator(t testing.TB, flags ...string) *coordinator {
	c := &coordinator{t: t, flags: flags, address: "127.0.0.1:0"}
	c.start()
	t.Cleanup(c.kill)
	return c
}

func (c *coordinator) start() {
	c.t.Helper()
	flags := []string{"serve", "--listen", c.address, "--set", "log.format=json"}
	c.process = exec.Command(binary(c.t), append(flags, c.flags...)...)
	c.process.Env = []string{"PATH=" + os.Getenv("PATH")}
	log, err := c.process.StderrPipe()
	check(c.t, err)
	check(c.t, c.process.Start())
	lines := bufio.NewScanner(log)
	var seen []string
	for lines.Scan() {
		var event struct{ Message, Address string }
		seen = append(seen, lines.Text())
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Message == "serving" {
			c.address = event.Address
			go func() {
				for lines.Scan() { // it must be able to go on writing
				}
			}()
			return
		}
	}
	c.t.Fatalf("the coordinator does not serve:\n%s", strings.Join(seen, "\n"))
}

func (c *coordinator) url() string { return "http://" + c.address }

// kill ends it as a crash would.
func (c *coordinator) kill() {
	if c.process != nil {
		_ = c.process.Process.Kill()
		_ = c.process.Wait()
		c.process = nil
	}
}

// startRedis starts a Redis without persistence and returns its URL.
func startRedis(t *testing.T) string {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not installed")
	}
	socket := filepath.Join(t.TempDir(), "redis.sock")
	port := freePort(t)
	process := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--unixsocket", socket,
		"--save", "", "--appendonly", "no")
	check(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	eventually(t, "redis listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "redis://127.0.0.1:" + port
}

func freePort(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	check(t, err)
	return port
}

// dial makes a client that the test closes.
func dial(t *testing.T, endpoint string, options ...lockkeeper.Option) *lockkeeper.Client {
	t.Helper()
	client, err := lockkeeper.Dial(t.Context(), []string{endpoint}, options...)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually looks until a condition is true.
func eventually(t *testing.T, what string, isTrue func() bool) {
	t.Helper()
	for begun := time.Now(); !isTrue(); {
		if time.Since(begun) > patience {
			t.Fatalf("it did not come true: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func receive[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case it := <-from:
		return it
	case <-time.After(patience):
	}
	t.Fatalf("it did not come: %s", what)
	panic("unreachable")
}

// noGoroutineLeft fails if there are more goroutines than before.
func noGoroutineLeft(t *testing.T, before int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			stacks := make([]byte, 1<<20)
			t.Logf("%s", stacks[:runtime.Stack(stacks, true)])
		}
	}()
	eventually(t, "all goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// states records the states of a session.
type states struct {
	mu   sync.Mutex
	seen []lockkeeper.State
}

func (s *states) listen(event lockkeeper.SessionEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, event.State)
}

func (s *states) has(want ...lockkeeper.State) func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		left := want
		for _, state := range s.seen {
			if len(left) > 0 && state == left[0] {
				left = left[1:]
			}
		}
		return len(left) == 0
	}
}

// withTimeout is a context for a call that must not take long.
func withTimeout(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}
