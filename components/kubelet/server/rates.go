package server

import (
	"sync"
	"time"
)

// rates tell how much CPU is used at present, from two measurements. It is safe for concurrent use.
type rates struct {
	mu   sync.Mutex
	last map[string]rate
}

type rate struct {
	cpu       time.Duration
	at        time.Time
	nanoCores *uint64
}

// Measurements nearer to each other than rateLeast have the rate of those before; what was not measured for rateKept is
// forgotten.
const (
	rateLeast = time.Second
	rateKept  = 10 * time.Minute
)

// of is the present use in billionths of a core by what has the key and used cpu until at, nil if it was not measured
// before, or was restarted.
func (r *rates) of(key string, cpu time.Duration, at time.Time) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.last[key]
	if known && at.Sub(before.at) < rateLeast {
		return before.nanoCores
	}
	if r.last == nil {
		r.last = map[string]rate{}
	}
	for other, one := range r.last {
		if at.Sub(one.at) > rateKept {
			delete(r.last, other)
		}
	}
	now := rate{cpu: cpu, at: at}
	if known && cpu >= before.cpu {
		n := uint64(float64(cpu-before.cpu) / at.Sub(before.at).Seconds())
		now.nanoCores = &n
	}
	r.last[key] = now
	return now.nanoCores
}
