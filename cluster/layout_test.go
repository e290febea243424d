package cluster

import (
	"slices"
	"testing"

	"quintet.dev/quintet/cluster/internal/backend"
)

// nowhere is a site of members that never are.
type nowhere struct{ backend.Site }

func (nowhere) Dir(member string) string     { return "/" + member }
func (nowhere) Host(member string) string    { return member }
func (nowhere) Port(_ string, usual int) int { return usual }

// TestSchedulersArentProfiled: in a process of others, and in containers, no scheduler looks for what its goroutines wait for.
func TestSchedulersArentProfiled(t *testing.T) {
	ids, err := newIdentities()
	if err != nil {
		t.Fatal(err)
	}
	for _, inProcess := range []bool{true, false} {
		config := newConfig("x")
		config.inProcess = inProcess
		l := &layout{config: config, site: nowhere{}, ids: ids}
		member, files := l.scheduler("scheduler-0")
		if files.err != nil || !slices.Contains(member.Args, "--contention-profiling=false") {
			t.Errorf("in process %t: %q, %v", inProcess, member.Args, files.err)
		}
	}
}
