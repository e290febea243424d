package queue

import "quintet.dev/quintet/components/scheduler/snapshot"

// hintSample is of how many questions to queueing hints one is measured.
const hintSample = 10

// helps tells whether an event can help a pod that plug-ins refused; the caller holds mu.
func (q *Queue) helps(p *snapshot.Pod, plugins []string, e Event) bool {
	q.hinted++
	if q.config.Hinted == nil || q.hinted%hintSample != 0 {
		return q.config.Hints.Helps(p, plugins, e)
	}
	return q.config.Hints.ask(plugins, e, func(plugin string, hint func(*snapshot.Pod, Event) bool) bool {
		began := q.config.Clock.Now()
		helps := hint(p, e)
		q.config.Hinted(plugin, e.Cause(), helps, q.config.Clock.Since(began))
		return helps
	})
}

// Refusers counts the pods that wait, by scheduler name and plug-in that refused them at their last try, or keeps them
// from being tried.
func (q *Queue) Refusers() map[[2]string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := map[[2]string]int{}
	for _, i := range q.items {
		if i.state == inFlight {
			continue
		}
		for _, plugin := range i.RefusedBy {
			counts[[2]string{i.Pod.Obj.Spec.SchedulerName, plugin}]++
		}
	}
	return counts
}

// InFlight counts the pods in flight, and the events that are kept for them, by cause.
func (q *Queue) InFlight() (pods int, events map[string]int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events = map[string]int{}
	for _, e := range q.events {
		events[e.Cause()]++
	}
	return len(q.flights), events
}
