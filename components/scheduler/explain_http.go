package scheduler

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"quintet.dev/quintet/components/scheduler/queue"
)

// explainPath serves explanations: of all pods that wait, or of one as <namespace>/<name> below it.
const explainPath = "/explain/"

// explained serves Explanations as JSON, to clients that may GET the path.
func (s *Scheduler) explained() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
			return
		}
		namespace, name, one := strings.Cut(strings.TrimPrefix(r.URL.Path, explainPath), "/")
		all := []*Explanation{}
		for _, p := range s.queue.Pods() {
			if (namespace == "" || p.Namespace == namespace) && (name == "" || p.Name == name) {
				all = append(all, s.explanation(p))
			}
		}
		var body any = all
		if one && name != "" {
			if len(all) == 0 {
				http.Error(w, "pod "+namespace+"/"+name+" does not wait for a node of this scheduler", http.StatusNotFound)
				return
			}
			body = all[0]
		}
		slices.SortFunc(all, func(a, b *Explanation) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(body); err != nil {
			s.logger().V(2).Info("Explanation could not be sent", "err", err)
		}
	})
}

// explanation of a pod in the queue: its last one, or what the queue knows of a pod that has not been tried yet.
func (s *Scheduler) explanation(p queue.Status) *Explanation {
	e := Explanation{Namespace: p.Namespace, Name: p.Name, UID: p.UID, SchedulerName: p.SchedulerName,
		Attempts: p.Attempts}
	if last := s.explanations.get(p.UID); last != nil {
		e = *last
	}
	e.State = p.State
	if w := s.config.handles.Waiting.Get(p.UID); w != nil {
		e.Message = "waits for permission of " + strings.Join(w.GetPendingPlugins(), ", ")
	}
	if p.GatedBy != "" {
		e.Message = p.GateReason
		e.Refusals = []Refusal{{Plugin: p.GatedBy, Reasons: []string{p.GateReason}}}
		e.WouldHelp = nil
		if events := s.hints.Events(p.GatedBy); len(events) > 0 {
			e.WouldHelp = []Help{{p.GatedBy, events}}
		}
	}
	return &e
}
