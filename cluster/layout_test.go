package cluster

import (
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"quintet.dev/quintet/cluster/internal/backend"
)

// nowhere is the addressing of members that are never created.
type nowhere struct{ backend.Addressing }

func (nowhere) Dir(member string) string     { return "/" + member }
func (nowhere) Host(member string) string    { return member }
func (nowhere) Port(_ string, usual int) int { return usual }
func (nowhere) IPs(string) []string          { return []string{"10.0.0.1"} }
func (nowhere) Pools() []netip.Prefix        { return nil }
func (nowhere) PublicHost() string           { return "localhost" }

func (nowhere) Endpoint(_ string, usual int) string { return "localhost:" + strconv.Itoa(usual) }

// TestSchedulersArentProfiled: in a process of others, and in containers, no scheduler looks for what its goroutines
// wait for.
func TestSchedulersArentProfiled(t *testing.T) {
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, inProcess := range []bool{true, false} {
		config := newConfig("x")
		config.inProcess = inProcess
		l := &layout{config: config, addressing: nowhere{}, ids: ids}
		member, files := l.scheduler("scheduler-0")
		if files.err != nil || !slices.Contains(member.Args, "--contention-profiling=false") {
			t.Errorf("in process %t: %q, %v", inProcess, member.Args, files.err)
		}
	}
}

// TestMetricsServerIsOptional: it is a member where it was asked for and there are nodes.
func TestMetricsServerIsOptional(t *testing.T) {
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, inProcess := range []bool{true, false} {
		for _, nodes := range []int{0, 1} {
			for _, wanted := range []bool{true, false} {
				config := newConfig("x")
				config.inProcess, config.nodes, config.metrics = inProcess, nodes, wanted
				members, err := (&layout{config: config, addressing: nowhere{}, ids: ids}).members()
				if err != nil {
					t.Fatal(err)
				}
				has := slices.ContainsFunc(members, func(m backend.Member) bool {
					return m.Component == string(MetricsServer) && m.Image == "quintet/metrics-server:dev" &&
						m.Files[metricsConf] != nil && slices.Contains(m.Args, "--secure-port=10250")
				})
				if has != (wanted && nodes > 0) {
					t.Errorf("in process %t, %d nodes, asked for %t: %t", inProcess, nodes, wanted, has)
				}
			}
		}
	}
}

// TestVolumeProvisioner: hollow nodes share one, nodes in containers have one each, and it can be left out.
func TestVolumeProvisioner(t *testing.T) {
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		inProcess, without bool
		members            int
		onNodes            bool
	}{
		{inProcess: true, members: 1}, {inProcess: true, without: true}, {onNodes: true}, {without: true},
	} {
		config := newConfig("x")
		config.inProcess, config.nodes, config.without[VolumeProvisioner] = test.inProcess, 2, test.without
		l := &layout{config: config, addressing: nowhere{}, ids: ids}
		members, err := l.members()
		if err != nil {
			t.Fatal(err)
		}
		provisioners, nodes := 0, 0
		for _, m := range members {
			_, configured := m.Files[provisionerConf]
			switch m.Component {
			case string(VolumeProvisioner):
				provisioners++
			case string(Node):
				nodes++
				if configured != test.onNodes {
					t.Errorf("%+v: node %s has its kubeconfig: %t", test, m.Name, configured)
				}
			}
		}
		if provisioners != test.members || nodes != 2 {
			t.Errorf("%+v: %d members, %d nodes", test, provisioners, nodes)
		}
	}
}
