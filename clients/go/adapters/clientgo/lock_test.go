package clientgo_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	lockkeeper "github.com/lockkeeper/lockkeeper/clients/go"
	"github.com/lockkeeper/lockkeeper/clients/go/adapters/clientgo"
)

// childOf names the coordinator for a candidate in a process of its own.
const childOf = "CLIENTGO_TEST_COORDINATOR"

func TestMain(m *testing.M) {
	if address := os.Getenv(childOf); address != "" {
		lead(address)
		return
	}
	os.Exit(m.Run())
}

// lead leads until the process is killed, and says so.
func lead(address string) {
	client, err := lockkeeper.Dial(context.Background(), []string{address})
	if err != nil {
		panic(err)
	}
	it := newCandidate(clientgo.New(client, "controller", "killed", lease))
	config := it.config(false)
	config.Callbacks.OnStartedLeading = func(context.Context) { fmt.Println("leads") }
	panic(it.lock.Run(context.Background(), config))
}

func TestTheNextOneLeadsWithinTheLeaseOfOneThatWasKilled(t *testing.T) {
	coordinator := startCoordinator(t)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childOf+"="+coordinator.address)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child := start(t, command)
	if _, err := output.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	next := run(t, coordinator.dial(t), "next", false)
	next.sees(t, "killed")
	if err := child.Kill(); err != nil {
		t.Fatal(err)
	}
	killedAt := time.Now()
	next.leads(t)
	if after := time.Since(killedAt); after > lease+2*time.Second {
		t.Fatalf("it leads after %v", after)
	}
	next.sees(t, "next")
}

// spy reports each Get of an elector.
type spy struct {
	*clientgo.Lock
	gets chan struct{}
}

func (s spy) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	s.gets <- struct{}{}
	return s.Lock.Get(ctx)
}

func TestTheNextOneLeadsMillisecondsAfterARelease(t *testing.T) {
	coordinator := startCoordinator(t)
	best := time.Hour
	// A busy machine may be late once, but not three times.
	for tries := 0; tries < 3 && best > retryPeriod/5; tries++ {
		first := run(t, coordinator.dial(t), "first", true)
		first.leads(t)
		second := newCandidate(clientgo.New(coordinator.dial(t), "controller", "second", lease))
		config := second.config(true)
		spied := spy{second.lock, make(chan struct{}, 1000)}
		config.Lock, config.LeaseDuration = spied, lease
		elector, err := leaderelection.NewLeaderElector(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go func() { elector.Run(ctx); second.ended <- nil }()
		second.sees(t, "first")
		for range 2 { // The second Get waits for the end of the first leader.
			receive(t, "it asks who leads", spied.gets)
		}
		releasedAt := time.Now()
		first.stop()
		second.leads(t)
		best = min(best, time.Since(releasedAt))
		if second.lock.FencingToken() <= first.lock.FencingToken() {
			t.Fatal("the token did not grow")
		}
		stop()
		receive(t, "it ends", second.ended)
	}
	if best > retryPeriod/5 {
		t.Fatalf("it leads after %v", best)
	}
}

func TestALossStopsLeadingAtOnce(t *testing.T) {
	coordinator := startCoordinator(t)
	first := run(t, coordinator.dial(t), "first", true)
	leading := first.leads(t)
	second := run(t, coordinator.dial(t), "second", true)
	second.sees(t, "first")
	forceRelease(t, coordinator.dial(t))
	releasedAt := time.Now()
	receive(t, "the work ends", leading.Done())
	if after := time.Since(releasedAt); after > renewDeadline/2 {
		t.Fatalf("it led for %v", after)
	}
	receive(t, "it is told", first.stopped)
	if err := receive(t, "it ends", first.ended); !isLost(err, lockkeeper.LostForceReleased) {
		t.Fatalf("%v", err)
	}
	second.leads(t)

	// The same lock serves the next election.
	first.run(t, true)
	first.sees(t, "second")
	second.stop()
	first.leads(t)
}

func TestAPlainElectorDoesNotLeadOnAfterALoss(t *testing.T) {
	coordinator := startCoordinator(t)
	client := coordinator.dial(t)
	it := newCandidate(clientgo.New(client, "controller", "plain", lease))
	config := it.config(true)
	config.Lock, config.LeaseDuration = it.lock, lease
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		t.Fatal(err)
	}
	go func() { elector.Run(t.Context()); it.ended <- nil }()
	leading := it.leads(t)
	token := it.lock.FencingToken()
	forceRelease(t, client)
	receive(t, "the work ends", leading.Done())
	receive(t, "it ends", it.ended)
	if it.lock.FencingToken() != token {
		t.Fatal("it acquired the lock anew")
	}
}

func TestWithoutACoordinatorLeadingEnds(t *testing.T) {
	coordinator := startCoordinator(t)
	it := run(t, coordinator.dial(t), "first", false)
	leading := it.leads(t)
	if err := coordinator.process.Kill(); err != nil {
		t.Fatal(err)
	}
	killedAt := time.Now()
	receive(t, "the work ends", leading.Done())
	if after := time.Since(killedAt); after > lease {
		t.Fatalf("it led for %v", after)
	}
}

func TestWithoutAReleaseTheLockStaysUntilTheLeaseEnds(t *testing.T) {
	coordinator := startCoordinator(t)
	first := run(t, coordinator.dial(t), "first", false)
	first.leads(t)
	second := run(t, coordinator.dial(t), "second", false)
	second.sees(t, "first")
	first.stop()
	if err := receive(t, "it ends", first.ended); err != nil {
		t.Fatal(err)
	}
	state, err := coordinator.dial(t).Describe(t.Context(), "controller")
	if err != nil || state.Holders != 1 {
		t.Fatalf("%v, %v", state, err)
	}
	second.leads(t)
}

func TestACandidateThatStopsLeavesNothing(t *testing.T) {
	coordinator := startCoordinator(t)
	client := coordinator.dial(t)
	held, err := client.Lock(t.Context(), "controller", lockkeeper.WithOwner("operator"))
	if err != nil {
		t.Fatal(err)
	}
	it := run(t, coordinator.dial(t), "first", true)
	it.sees(t, "operator")
	it.stop()
	if err := receive(t, "it ends", it.ended); err != nil {
		t.Fatal(err)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := client.Lock(t.Context(), "controller")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	it.run(t, true)
	it.leads(t)
}

func TestAnEarlierSessionOfThisIdentityIsAnotherLeader(t *testing.T) {
	coordinator := startCoordinator(t)
	former := coordinator.dial(t)
	held, err := former.Lock(t.Context(), "controller", lockkeeper.WithOwner("first"))
	if err != nil {
		t.Fatal(err)
	}
	it := run(t, coordinator.dial(t), "first", true)
	if leader := receive(t, "it sees the former one", it.leaders); leader == "first" {
		t.Fatal("it takes itself for the leader")
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
	it.leads(t)
}

const rules = `
[[access.rules]]
identity = "candidate"
allow = ["acquire", "release"]

[[access.rules]]
identity = "operator"
allow = ["acquire", "release", "describe"]
`

func TestWithoutTheRightToDescribeItLeads(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tokens := "candidate 0123456789abcdef0123\noperator 3210fedcba9876543210\n"
	coordinator := startCoordinator(t, "--config", write("settings.toml", rules),
		"--set", "auth.token_file="+write("tokens", tokens), "--set", "store.shares_names=true")
	operator := coordinator.dial(t, lockkeeper.WithToken("3210fedcba9876543210"))
	it := newCandidate(clientgo.New(coordinator.dial(t,
		lockkeeper.WithToken("0123456789abcdef0123")), "controller", "first", lease))
	for range 2 { // It also waits anew after a term.
		held, err := operator.Lock(t.Context(), "controller")
		if err != nil {
			t.Fatal(err)
		}
		it.run(t, true)
		awaitWaiter(t, operator)
		if err := held.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		it.leads(t)
		it.stop()
		receive(t, "it is told", it.stopped)
		if err := receive(t, "it ends", it.ended); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALockThatWasLostBeforeItWasTakenIsWaitedForAnew(t *testing.T) {
	coordinator := startCoordinator(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	lock := clientgo.New(coordinator.dial(t), "controller", "first", lease)
	if _, _, err := lock.Get(ctx); !apierrors.IsNotFound(err) {
		t.Fatalf("%v", err)
	}
	operator := coordinator.dial(t)
	forceRelease(t, operator)
	held, err := operator.Lock(ctx, "controller", lockkeeper.WithOwner("operator"))
	if err != nil {
		t.Fatal(err)
	}
	// It sees the operator as soon as it has noticed the loss.
	record, _, err := lock.Get(ctx)
	for ; apierrors.IsNotFound(err) && ctx.Err() == nil; record, _, err = lock.Get(ctx) {
	}
	if err != nil || record.HolderIdentity != "operator" {
		t.Fatalf("%v, %v", record, err)
	}
	if err := held.Unlock(ctx); err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock.Get(ctx); !apierrors.IsNotFound(err) {
		t.Fatalf("%v", err)
	}
	mine := resourcelock.LeaderElectionRecord{HolderIdentity: "first"}
	if err := lock.Create(ctx, mine); err != nil {
		t.Fatal(err)
	}
}
