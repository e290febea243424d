// Package nftchecktest lists tables of a fake of nftables.
package nftchecktest

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"

	"sigs.k8s.io/knftables"

	"quintet.dev/quintet/internal/nftcheck"
)

// Kernel tells of a fake what nftcheck.Table does of the kernel. Its generation never stays, so that each check looks.
type Kernel struct {
	Fake *knftables.Fake
	// Family and Name are the table's, where the fake is one of several.
	Family knftables.Family
	Name   string

	generation atomic.Uint32
}

// Generation implements nftcheck.Kernel.
func (k *Kernel) Generation() (uint32, error) { return k.generation.Add(1), nil }

// Listing implements nftcheck.Kernel.
func (k *Kernel) Listing() (nftcheck.Listing, error) {
	k.Fake.RLock()
	defer k.Fake.RUnlock()
	table := k.Fake.Table
	if k.Name != "" {
		table = k.Fake.Tables[k.Family][k.Name]
	}
	l := nftcheck.Listing{Active: table != nil, Parts: map[string]nftcheck.Part{}}
	if !l.Active {
		return l, nil
	}
	for name, chain := range table.Chains {
		var rules []string
		for _, rule := range chain.Rules {
			rules = append(rules, rule.Rule)
		}
		l.Parts[name] = part(rules)
	}
	for name, set := range table.Sets {
		l.Parts[name] = part(nil)
		if !slices.Contains(set.Flags, knftables.DynamicFlag) {
			l.Parts[name] = part(sorted(set.Elements))
		}
	}
	for name, of := range table.Maps {
		l.Parts[name] = part(sorted(of.Elements))
	}
	return l, nil
}

func sorted(elements []*knftables.Element) []string {
	var texts []string
	for _, e := range elements {
		texts = append(texts, fmt.Sprint(e.Key, e.Value))
	}
	slices.Sort(texts)
	return texts
}

func part(entries []string) nftcheck.Part {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(strings.Join(entries, "\n")))
	return nftcheck.Part{Entries: len(entries), Sum: sum.Sum64()}
}
