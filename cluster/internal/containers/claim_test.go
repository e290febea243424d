package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quintet.dev/quintet/cluster/internal/backend"
)

func claimOf(t *testing.T, name string) Claim {
	t.Helper()
	t.Cleanup(func() {
		docker, err := connect(context.Background())
		if err == nil {
			err = errors.Join(remove(context.Background(), docker, LabelCluster+"="+name), docker.Close())
		}
		if err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return Claim{Cluster: name, Image: testimage, Notice: func(s string) { t.Log(s) }}
}

// TestOneOfManyStarts: of concurrent starts one continues, and the others fail without touching it.
func TestOneOfManyStarts(t *testing.T) {
	needDocker(t)
	const starters = 5
	claim := claimOf(t, fmt.Sprintf("claimed-%d", os.Getpid()))
	var won atomic.Int32
	var refused sync.WaitGroup
	refused.Add(starters - 1)
	var all sync.WaitGroup
	for range starters {
		all.Go(func() {
			err := Exclusively(t.Context(), claim, func(context.Context, string) error {
				if won.Add(1) == 1 {
					refused.Wait() // the others have come, and gone
				} else {
					refused.Done()
				}
				return nil
			})
			switch {
			case err == nil:
			case errors.Is(err, ErrTaken) && strings.Contains(err.Error(), "quintet down --name "+claim.Cluster):
				refused.Done()
			default:
				t.Errorf("refused with %v", err)
				refused.Done()
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of %d starts went on", won.Load(), starters)
	}
	names, err := Names(t.Context())
	for _, name := range names {
		if name == claim.Cluster {
			t.Errorf("the claim is still there: %v", err)
		}
	}
}

// TestHelperClaims is no test of its own: TestClaimOfDeadProcess runs it as a process that dies within its start.
func TestHelperClaims(t *testing.T) {
	name := os.Getenv("QUINTET_TEST_CLAIM")
	if name == "" {
		t.Skip("run by TestClaimOfDeadProcess")
	}
	_ = Exclusively(t.Context(), Claim{Cluster: name, Image: testimage,
		Notice: func(string) {}}, func(ctx context.Context, run string) error {
		c, err := New(ctx, Config{Cluster: name, Owner: OwnerUser, Run: run, Notice: func(string) {}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Prepare(ctx, []backend.Placement{{Name: "server-0"}}); err != nil {
			t.Fatal(err)
		}
		_, err = c.Start(ctx, backend.Member{Name: "server-0", Image: testimage, Program: "testimage",
			Args: []string{"serve"}})
		fmt.Println("STARTED", err)
		os.Exit(7)
		return nil
	})
}

// TestClaimOfDeadProcess: what a start left that died is no cluster, though its owner was to be the user.
func TestClaimOfDeadProcess(t *testing.T) {
	needDocker(t)
	claim := claimOf(t, fmt.Sprintf("abandoned-%d", os.Getpid()))
	helper := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperClaims$")
	helper.Env = append(os.Environ(), "QUINTET_TEST_CLAIM="+claim.Cluster)
	if out, err := helper.CombinedOutput(); !strings.Contains(string(out), "STARTED <nil>") {
		t.Fatalf("%v\n%s", err, out)
	}
	started := false
	err := Exclusively(t.Context(), claim, func(ctx context.Context, _ string) error {
		started = true
		left, err := List(ctx, claim.Cluster)
		if len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
		return err
	})
	if err != nil || !started {
		t.Errorf("started is %v: %v", started, err)
	}
}
