package healthcheck

import (
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// toBeDeletedTaint is the cluster autoscaler's mark of a Node that is about to go.
const toBeDeletedTaint = "ToBeDeletedByClusterAutoscaler"

// FamilyHealth is the state of one IP family.
type FamilyHealth struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// Health is what /healthz and /livez answer.
type Health struct {
	LastUpdated time.Time `json:"lastUpdated"` // of the family that was updated last
	CurrentTime time.Time `json:"currentTime"`
	// NodeEligible is false while the Node is about to go; /livez leaves it out.
	NodeEligible *bool                        `json:"nodeEligible,omitempty"`
	Healthy      bool                         `json:"healthy"`
	Status       map[v1.IPFamily]FamilyHealth `json:"status,omitempty"`
}

// Proxy is the health of kube-proxy. It is bad where a change waits for longer than a timeout until it is carried out.
// Its methods may be called concurrently.
type Proxy struct {
	clock   clock.PassiveClock
	timeout time.Duration

	mu           sync.Mutex
	lastUpdated  map[v1.IPFamily]time.Time
	pendingSince map[v1.IPFamily]time.Time
	nodeEligible bool
}

// NewProxy returns the health of a proxy that starts: it is good, and so is the Node until SyncNode tells otherwise.
func NewProxy(clock clock.PassiveClock, timeout time.Duration) *Proxy {
	return &Proxy{
		clock: clock, timeout: timeout, nodeEligible: true,
		lastUpdated: map[v1.IPFamily]time.Time{}, pendingSince: map[v1.IPFamily]time.Time{},
	}
}

// QueuedUpdate tells that a change waits to be carried out.
func (p *Proxy) QueuedUpdate(family v1.IPFamily) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, pending := p.pendingSince[family]; !pending {
		p.pendingSince[family] = p.clock.Now()
	}
}

// Updated tells that all changes are carried out.
func (p *Proxy) Updated(family v1.IPFamily) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pendingSince, family)
	p.lastUpdated[family] = p.clock.Now()
}

// SyncNode takes note of the Node that the proxy runs on; nil if it is deleted.
func (p *Proxy) SyncNode(node *v1.Node) {
	eligible := node != nil && node.DeletionTimestamp.IsZero() &&
		!slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == toBeDeletedTaint })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nodeEligible = eligible
}

// NodeEligible tells whether load balancers may send traffic to the Node.
func (p *Proxy) NodeEligible() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodeEligible
}

// Healthy tells whether the proxy keeps up, whatever the Node's state.
func (p *Proxy) Healthy() bool { return p.Health().Healthy }

// Health returns the state without the Node's. A family counts from its first update on, so that a
// proxy that starts is healthy.
func (p *Proxy) Health() Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	health := Health{CurrentTime: p.clock.Now(), Healthy: true, Status: map[v1.IPFamily]FamilyHealth{}}
	for family, updated := range p.lastUpdated {
		if updated.After(health.LastUpdated) {
			health.LastUpdated = updated
		}
		since, pending := p.pendingSince[family]
		healthy := !pending || health.CurrentTime.Sub(since) < p.timeout
		health.Status[family] = FamilyHealth{LastUpdated: updated, Healthy: healthy}
		health.Healthy = health.Healthy && healthy
	}
	return health
}

// Handler serves /healthz, which regards the Node, and /livez, which does not.
func (p *Proxy) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		health, eligible := p.Health(), p.NodeEligible()
		health.NodeEligible = &eligible
		health.Healthy = health.Healthy && eligible
		writeHealth(w, health)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, p.Health()) })
	return mux
}

// writeHealth answers with the current time as that of the last update while all is well: clients expect it to be
// recent even where nothing changes.
func writeHealth(w http.ResponseWriter, health Health) {
	if health.Healthy {
		health.LastUpdated = health.CurrentTime
	}
	writeJSON(w, health.Healthy, compactJSON(health))
}
