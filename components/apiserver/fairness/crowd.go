package fairness

import (
	"context"
	"sync/atomic"
	"time"

	endpointmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/utils/clock"
)

// peakGauge counts requests and their maximum.
type peakGauge struct {
	gauge metrics.Gauge
	now   atomic.Int64
	most  atomic.Int64 // since it was asked for
}

func (c *peakGauge) add(n int64) {
	now := c.now.Add(n)
	c.gauge.Set(float64(now))
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
}

// peak returns the largest number since the last call.
func (c *peakGauge) peak() int { return int(c.most.Swap(0)) }

// peakPeriod is upstream's.
const peakPeriod = time.Second

// Run publishes, until ctx ends, how many requests there were at most in each second.
func (f *Filter) Run(ctx context.Context, clk clock.WithTicker) {
	ticker := clk.NewTicker(peakPeriod)
	defer ticker.Stop()
	for {
		endpointmetrics.UpdateInflightRequestMetrics(endpointmetrics.ExecutingPhase, f.executing[1].peak(),
			f.executing[0].peak())
		endpointmetrics.UpdateInflightRequestMetrics(endpointmetrics.WaitingPhase, f.waiting[1].peak(),
			f.waiting[0].peak())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}
