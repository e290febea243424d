package daemonset

import "time"

// firstRetry and longestRetry bound the wait before a pod that failed is removed, and so replaced: the first goes at
// once, and the wait doubles with each failure on the node.
const (
	firstRetry   = time.Second
	longestRetry = 15 * time.Minute
)

// retry is how a node waits after its last removal of a failed pod.
type retry struct {
	wait time.Duration
	at   time.Time // of that removal
}

// rests tells whether a failed pod stays for now. If not, the next one waits longer.
func (o *step) rests(p *plan, node string) bool {
	last, known := o.retries[node]
	since := o.now.Sub(last.at)
	if known && since < last.wait {
		p.wake(last.wait - since)
		return true
	}
	next := retry{firstRetry, o.now}
	if known && since <= 2*longestRetry {
		next.wait = min(2*last.wait, longestRetry)
	}
	if p.retries == nil {
		p.retries = map[string]retry{}
	}
	p.retries[node] = next
	return false
}
