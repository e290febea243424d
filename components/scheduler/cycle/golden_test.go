package cycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/cycle"
	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
	"quintet.dev/quintet/internal/golden"
)

// TestScripts schedules what the files in testdata describe. A line that begins with "> " is the decision expected.
//
//	node NAME WORDS...        adds or replaces a node, remove-node takes one away
//	pod NAME WORDS...         puts a pod on the node that its words name, delete takes one away
//	budget APP ALLOWED        protects the pods with label app=APP
//	schedule NAME WORDS...    decides for a pod, and places it there; its victims are taken away
//
// Words are those of schedulertest, and for pods "tolerate", "select=KEY:VALUE", "near=APP:KEY", "away=APP:KEY",
// "spread=KEY:SKEW" (of the pods with its own label app), "nominated=NODE" and "never" (preemptionPolicy).
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&script{T: t}).run(string(data))
			golden.Compare(t, file, got)
		})
	}
}

// script is the state of one file.
type script struct {
	*testing.T
	s           *snapshot.Snapshot
	profile     *cycle.Profile
	nominations cycle.Nominations
	start       int
}

func (s *script) run(text string) string {
	var out strings.Builder
	s.reset()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "> ") {
			continue
		}
		out.WriteString(line)
		switch words := strings.Fields(line); {
		case strings.HasPrefix(line, "#"):
		case len(words) == 0:
			s.reset() // a blank line begins another cluster
		default:
			for said := range strings.Lines(s.do(words)) {
				out.WriteString("> " + said)
			}
		}
	}
	return out.String()
}

func (s *script) reset() {
	s.s, s.profile, s.nominations, s.start = snapshot.New(), profile(s.T), cycle.Nominations{}, 0
}

func (s *script) do(words []string) string {
	switch words[0] {
	case "node":
		s.s.SetNode(schedulertest.Node(words[1], strings.Join(words[2:], " ")))
	case "remove-node":
		s.s.RemoveNode(words[1])
	case "pod":
		s.s.SetPod(snapshot.NewPod(parsePod(words[1:])))
	case "delete":
		s.s.RemovePod(types.UID(words[1]))
	case "budget":
		allowed := int32(0)
		if _, err := fmt.Sscan(words[2], &allowed); err != nil {
			s.Fatal(err)
		}
		s.s.SetBudget(&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: words[1]},
			Spec: policyv1.PodDisruptionBudgetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": words[1]}}},
			Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed}})
	case "schedule":
		return s.schedule(snapshot.NewPod(parsePod(words[1:])))
	default:
		s.Fatalf("unknown command %q", words[0])
	}
	return ""
}

// schedule decides for a pod, carries the decision out and describes it.
func (s *script) schedule(p *snapshot.Pod) string {
	nominated := p.Obj.Status.NominatedNodeName
	d := s.profile.Schedule(s.s, cycle.Request{Pod: p, Start: s.start, Seed: 1, Nominated: nominated,
		Nominations: s.nominations})
	s.start = d.Next
	if d.Node != "" {
		s.s.Assume(p, d.Node)
		for node, waiting := range s.nominations {
			s.nominations[node] = slices.DeleteFunc(waiting, func(w *snapshot.Pod) bool { return w.UID() == p.UID() })
		}
		return fmt.Sprintf("on %s, %d of %d feasible\n", d.Node, d.Feasible, d.Total)
	}
	if d.Total == 0 {
		return d.Message() + "\n"
	}
	text := d.Why() + "\n"
	switch result := d.PostFilterResult; {
	case result == nil:
	case result.Node == "":
		text += result.Message[strings.Index(result.Message, "preemption: "):] + "\n"
	default:
		var victims []string
		for _, v := range result.Victims {
			victims = append(victims, v.Obj.Name)
			s.s.RemovePod(v.UID())
		}
		s.nominations[result.Node] = append(s.nominations[result.Node], p)
		text += fmt.Sprintf("nominated to %s, preempting %s\n", result.Node, strings.Join(victims, ", "))
	}
	return text
}

// parsePod reads the words that schedulertest does not know.
func parsePod(words []string) *v1.Pod {
	var plain []string
	var changes []func(*v1.Pod)
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		a, b, _ := strings.Cut(value, ":")
		if change := changeOf(key, a, b); change != nil {
			changes = append(changes, change)
			continue
		}
		plain = append(plain, word)
	}
	return schedulertest.Pod(words[0], strings.Join(plain, " "), func(p *v1.Pod) {
		for _, change := range changes {
			change(p)
		}
	})
}

func changeOf(key, a, b string) func(*v1.Pod) {
	selector := func(app string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	affinity := func(p *v1.Pod) *v1.Affinity {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &v1.Affinity{}
		}
		return p.Spec.Affinity
	}
	terms := []v1.PodAffinityTerm{{TopologyKey: b, LabelSelector: selector(a)}}
	switch key {
	case "tolerate":
		return func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }
	case "select":
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{a: b} }
	case "near":
		return func(p *v1.Pod) {
			affinity(p).PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
		}
	case "away":
		return func(p *v1.Pod) {
			affinity(p).PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
		}
	case "spread":
		return func(p *v1.Pod) {
			var skew int32
			_, _ = fmt.Sscan(b, &skew)
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
				TopologyKey: a, MaxSkew: skew, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector(p.Labels["app"])})
		}
	case "nominated":
		return func(p *v1.Pod) { p.Status.NominatedNodeName = a }
	case "never":
		return func(p *v1.Pod) { p.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever) }
	}
	return nil
}
