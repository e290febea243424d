package nft

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/components/proxy/model"
)

// contested is one of few ports, which name the same few external addresses.
func contested(random *rand.Rand) model.ServicePort {
	p := randomPort(random)
	p.NodePort = 0
	p.LoadBalancerIPs, p.ExternalIPs = nil, nil
	for i := range byte(3) {
		if random.IntN(2) == 0 {
			p.ExternalIPs = append(p.ExternalIPs, netip.AddrFrom4([4]byte{2, 2, 2, i}))
		}
		if random.IntN(2) == 0 {
			p.LoadBalancerIPs = append(p.LoadBalancerIPs, netip.AddrFrom4([4]byte{3, 3, 3, i}))
		}
	}
	return p
}

// keys are those of the elements of the maps that Services may contest, without the verdicts.
func keys(fake *knftables.Fake) []string {
	var all []string
	for _, name := range []string{serviceIPs, noEndpointServices, firewallIPs} {
		for _, e := range fake.Table.Maps[name].Elements {
			all = append(all, name+" "+strings.Join(e.Key, " . "))
		}
	}
	slices.Sort(all)
	return all
}

// Whatever the order in which Services come and go that want the same addresses, no address is left without rules.
func TestContestedAddressesHaveRules(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		fake := newFake()
		table := table4(fake)
		desired := map[model.PortKey]model.ServicePort{}
		for range 12 {
			var updated []model.ServicePort
			var deleted []model.PortKey
			touched := map[model.PortKey]bool{}
			for range 1 + random.IntN(3) {
				p := contested(random)
				if touched[p.Key] {
					continue
				}
				touched[p.Key] = true
				if random.IntN(3) == 0 {
					delete(desired, p.Key)
					deleted = append(deleted, p.Key)
				} else {
					desired[p.Key] = p
					updated = append(updated, p)
				}
			}
			sync(t, table, updated, deleted...)
			fresh := newFake()
			sync(t, table4(fresh), slices.Collect(maps.Values(desired)))
			if got, want := keys(fake), keys(fresh); !slices.Equal(got, want) {
				t.Fatalf("seed %d: got %v\nwant %v\n%s", seed, got, want, fake.Dump())
			}
		}
	}
}
