package faults

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"sync"
)

// Key is what a request does: requests with the same key are counted, and otherwise alike to the rules.
type Key struct {
	User      string `json:"user"`
	Verb      string `json:"verb"`
	Resource  string `json:"resource"` // RESOURCE[.GROUP][/SUBRESOURCE]
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Injected is a fault that struck.
type Injected struct {
	Key
	// Occurrence is how many requests with this key came before.
	Occurrence int `json:"occurrence"`
	// Rule is the name of the rule.
	Rule string `json:"rule"`
	// Fault is the fault, with After as the seed has chosen it and Spread 0.
	Fault Fault `json:"fault"`
}

// Injector decides about requests. It may be used concurrently.
type Injector struct {
	plan Plan

	mu    sync.Mutex
	seen  map[Key]int
	spent map[spentKey]int
	log   []Injected
}

// spentKey counts what a rule did to the requests of a key.
type spentKey struct {
	rule int
	key  Key
}

// New makes an Injector of a plan, which it checks.
func New(plan Plan) (*Injector, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	return &Injector{plan: plan, seen: map[Key]int{}, spent: map[spentKey]int{}}, nil
}

// Decide counts a request that rules match, and says which fault strikes it; ok is false for none.
func (i *Injector) Decide(k Key) (f Fault, ok bool) {
	if !slices.ContainsFunc(i.plan.Rules, func(r Rule) bool { return r.matches(k) }) {
		return Fault{}, false // nothing is remembered of what no rule is for
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	occurrence := i.seen[k]
	i.seen[k]++
	for n, r := range i.plan.Rules {
		spent := spentKey{n, k}
		if !r.matches(k) || r.Times > 0 && i.spent[spent] >= r.Times {
			continue
		}
		chance, more := i.plan.draw(n, k, occurrence)
		if r.Probability > 0 && chance >= r.Probability {
			continue
		}
		i.spent[spent]++
		f = r.Fault
		f.After, f.Spread = f.After+int(more%uint64(f.Spread+1)), 0
		i.log = append(i.log, Injected{Key: k, Occurrence: occurrence, Rule: r.name(n), Fault: f})
		return f, true
	}
	return Fault{}, false
}

// draw draws a number in [0, 1) and another one, for one rule and one request.
func (p Plan) draw(rule int, k Key, occurrence int) (chance float64, more uint64) {
	h := sha256.New()
	for _, n := range []uint64{p.Seed, uint64(occurrence)} {
		_ = binary.Write(h, binary.BigEndian, n)
	}
	// The rule's name and not its place: without another rule it decides as before, if it has a name.
	for _, text := range []string{p.Rules[rule].name(rule), k.User, k.Verb, k.Resource, k.Namespace, k.Name} {
		_ = binary.Write(h, binary.BigEndian, uint32(len(text)))
		_, _ = h.Write([]byte(text))
	}
	sum := h.Sum(nil)
	return float64(binary.BigEndian.Uint64(sum)>>11) / (1 << 53), binary.BigEndian.Uint64(sum[8:])
}

// Log returns what was injected, ordered by key and occurrence: the same for the same seed and the same requests,
// whatever their timing.
func (i *Injector) Log() []Injected {
	i.mu.Lock()
	out := append([]Injected{}, i.log...)
	i.mu.Unlock()
	slices.SortFunc(out, func(a, b Injected) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Verb, b.Verb),
			cmp.Compare(a.Occurrence, b.Occurrence))
	})
	return out
}
