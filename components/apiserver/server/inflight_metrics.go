package server

import (
	"context"
	"sync/atomic"
	"time"

	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	flowmetrics "k8s.io/apiserver/pkg/util/flowcontrol/metrics"
)

// peaks are how many short requests were served at a time, where there is no fairness that counts them.
type peaks struct{ reading, mutating peak }

// bound makes what tells which part of the bounds is in use; 0 is no bound.
func (p *peaks) bound(reading, mutating int) {
	p.reading.gauge, p.mutating.gauge = flowmetrics.GetExecutingReadonlyConcurrency(),
		flowmetrics.GetExecutingMutatingConcurrency()
	if reading > 0 {
		p.reading.gauge.SetDenominator(float64(reading))
	}
	if mutating > 0 {
		p.mutating.gauge.SetDenominator(float64(mutating))
	}
}

// peak is the largest number since it was taken.
type peak struct {
	most  atomic.Int64
	gauge flowmetrics.RatioedGauge // of the number itself, as a part of the bound
}

func (p *peak) note(n int) {
	p.gauge.Set(float64(n))
	for most := p.most.Load(); int64(n) > most && !p.most.CompareAndSwap(most, int64(n)); most = p.most.Load() {
	}
}

func (p *peak) take() int { return int(p.most.Swap(0)) }

// publish tells of the time since the last call.
func (p *peaks) publish() {
	endpointmetrics.UpdateInflightRequestMetrics(endpointmetrics.ExecutingPhase, p.reading.take(), p.mutating.take())
}

// peakPeriod is upstream's.
const peakPeriod = time.Second

// tellPeaks publishes, until ctx ends, how many requests there were at most in each second.
func (s *Server) tellPeaks(ctx context.Context) {
	ticker := s.config.Clock.NewTicker(peakPeriod)
	defer ticker.Stop()
	for {
		s.peaks.publish()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}
