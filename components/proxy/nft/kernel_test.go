package nft

import (
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/model"
)

// ownNamespace gives the test a network namespace of its own, which ends with the goroutine's thread.
func ownNamespace(t testing.TB) knftables.Interface {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root makes network namespaces")
	}
	runtime.LockOSThread() // and never unlocked: the thread must not serve other goroutines
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("this machine makes no network namespaces: %v", err)
	}
	nft, _, err := Open(v1.IPv4Protocol)
	if err != nil {
		t.Skip(err)
	}
	return nft
}

// Before the first sync there is no table: that is no error, there is nothing in it.
func TestNothingIsInNoTable(t *testing.T) {
	ended := make(chan struct{})
	go func() { // its thread ends with it
		defer close(ended)
		kernel := ownNamespace(t)
		for _, kind := range []string{"set", "chain"} {
			if names, err := kernel.List(t.Context(), kind); len(names) > 0 || err != nil {
				t.Errorf("%ss: %v, %v", kind, names, err)
			}
		}
	}()
	<-ended
}

// The kernel takes every transaction, whatever the order of changes, and nothing is left of ports that are gone.
func TestKernelTakesAllChanges(t *testing.T) {
	ended := make(chan struct{})
	go func() { // its thread ends with it
		defer close(ended)
		kernel := ownNamespace(t)
		table := table4(kernel)
		random := rand.New(rand.NewPCG(1, 0))
		known := map[model.PortKey]bool{}
		for range 150 {
			p := randomPort(random)
			if random.IntN(4) == 0 {
				delete(known, p.Key)
				sync(t, table, nil, p.Key)
			} else {
				known[p.Key] = true
				sync(t, table, []model.ServicePort{p})
			}
			if ok, err := table.Check(); !ok || err != nil {
				t.Errorf("the table is not as it was left: %v", err)
				return
			}
		}
		for key := range known {
			sync(t, table, nil, key)
		}
		left(t, kernel, table)
	}()
	<-ended
}

// left compares what is in the kernel with an empty table.
func left(t *testing.T, kernel knftables.Interface, table *Table) {
	t.Helper()
	if len(table.stale.chains) > 0 || len(table.stale.sets) > 0 {
		t.Errorf("not deleted: %v", table.stale)
	}
	chains, err := kernel.List(t.Context(), "chain")
	if err != nil {
		t.Error(err)
		return
	}
	fresh := newFake()
	sync(t, table4(fresh), nil)
	want, err := fresh.List(t.Context(), "chain")
	if err != nil {
		t.Error(err)
		return
	}
	slices.Sort(chains)
	slices.Sort(want)
	if !slices.Equal(chains, want) {
		t.Errorf("got chains %v, want %v", chains, want)
	}
}

// A kube-proxy of upstream's that starts on the node writes its own table over this one, in one transaction: it adds
// its maps and sets, which must be of the same types, and empties them.
func TestUpstreamTakesTheTableOver(t *testing.T) {
	ended := make(chan struct{})
	go func() { // its thread ends with it
		defer close(ended)
		kernel := ownNamespace(t)
		sync(t, table4(kernel), []model.ServicePort{port("a", 2)})
		tx := kernel.NewTransaction()
		tx.Add(&knftables.Table{Comment: knftables.PtrTo("rules for kube-proxy")})
		for name, kind := range map[string]string{
			"cluster-ips": "ipv4_addr", "nodeport-ips": "ipv4_addr",
			"hairpin-connections": "ipv4_addr . ipv4_addr . inet_proto . inet_service",
		} {
			tx.Add(&knftables.Set{Name: name, Type: kind, Comment: knftables.PtrTo(name)})
			tx.Flush(&knftables.Set{Name: name})
		}
		for name, kind := range map[string]string{
			"service-ips":           "ipv4_addr . inet_proto . inet_service : verdict",
			"firewall-ips":          "ipv4_addr . inet_proto . inet_service : verdict",
			"no-endpoint-services":  "ipv4_addr . inet_proto . inet_service : verdict",
			"service-nodeports":     "inet_proto . inet_service : verdict",
			"no-endpoint-nodeports": "inet_proto . inet_service : verdict",
		} {
			tx.Add(&knftables.Map{Name: name, Type: kind, Comment: knftables.PtrTo(name)})
			tx.Flush(&knftables.Map{Name: name})
		}
		tx.Add(&knftables.Element{Set: "hairpin-connections", Key: []string{"10.0.0.2", "10.0.0.2", "tcp", "80"}})
		if err := kernel.Run(t.Context(), tx); err != nil {
			t.Error(err)
		}
	}()
	<-ended
}
