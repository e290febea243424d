package core

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/kinds/podspec"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// nodeLost is the reason in the status of a pod whose node went away.
const nodeLost = "NodeLost"

// PodColumns are the columns of pods.
func PodColumns() show.Columns {
	spec, status := corev1.PodSpec{}.SwaggerDoc(), corev1.PodStatus{}.SwaggerDoc()
	return show.Name().
		String("Ready", "The aggregate readiness state of this pod for accepting traffic.").
		String("Status", "The aggregate status of the containers in this pod.").
		String("Restarts",
			"The number of times the containers in this pod have been restarted and when the last container in this pod has "+
				"restarted.").
		Age().
		Wide("IP", status["podIP"]).
		Wide("Node", spec["nodeName"]).
		Wide("Nominated Node", status["nominatedNodeName"]).
		Wide("Readiness Gates", spec["readinessGates"])
}

// PodRow are the cells of a pod.
func PodRow(p *corev1.Pod) []any {
	s := summarize(p)
	var restarts any = strconv.Itoa(s.restarts)
	if s.restarts != 0 && !s.lastRestart.IsZero() {
		restarts = show.Ago{Before: strconv.Itoa(s.restarts) + " (", Since: s.lastRestart.Time, After: " ago)"}
	}
	ip := ""
	if len(p.Status.PodIPs) > 0 {
		ip = p.Status.PodIPs[0].IP
	}
	return []any{
		p.Name, strconv.Itoa(s.ready) + "/" + strconv.Itoa(s.total), s.reason, restarts, show.Age(p.CreationTimestamp),
		show.OrNone(ip), show.OrNone(p.Spec.NodeName), show.OrNone(p.Status.NominatedNodeName), gates(p),
	}
}

// PodRowConditions tells that a pod has ended.
func PodRowConditions(p *corev1.Pod) []metav1.TableRowCondition {
	c := metav1.TableRowCondition{Type: metav1.RowCompleted, Status: metav1.ConditionTrue,
		Reason: string(p.Status.Phase)}
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		c.Message = "The pod has completed successfully."
	case corev1.PodFailed:
		c.Message = "The pod failed."
	default:
		return nil
	}
	return []metav1.TableRowCondition{c}
}

func gates(p *corev1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return show.None
	}
	passed := 0
	for _, g := range p.Spec.ReadinessGates {
		if conditionTrue(p, g.ConditionType) {
			passed++
		}
	}
	return fmt.Sprintf("%d/%d", passed, len(p.Spec.ReadinessGates))
}

func conditionTrue(p *corev1.Pod, t corev1.PodConditionType) bool {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return p.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

// podSummary is a pod in one line.
type podSummary struct {
	ready, total, restarts int
	lastRestart            metav1.Time
	reason                 string
}

func summarize(p *corev1.Pod) podSummary {
	s := podSummary{reason: string(p.Status.Phase), total: len(p.Spec.Containers)}
	if p.Status.Reason != "" {
		s.reason = p.Status.Reason
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			s.reason = corev1.PodReasonSchedulingGated
		}
	}
	sidecars := map[string]bool{}
	for i := range p.Spec.InitContainers {
		if podspec.Restartable(&p.Spec.InitContainers[i]) {
			sidecars[p.Spec.InitContainers[i].Name] = true
			s.total++
		}
	}
	initializing, ofSidecars := s.addInit(p, sidecars)
	if !initializing || conditionTrue(p, corev1.PodInitialized) {
		// Restarts of init containers that have done their work are of no interest any more.
		s.restarts, s.lastRestart = ofSidecars.restarts, ofSidecars.lastRestart
		s.addMain(p)
	}
	if p.DeletionTimestamp != nil {
		if p.Status.Reason == nodeLost {
			s.reason = "Unknown"
		} else if !podspec.Terminal(p) {
			s.reason = "Terminating"
		}
	}
	return s
}

func (s *podSummary) count(c *corev1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if t := c.LastTerminationState.Terminated; t != nil && s.lastRestart.Before(&t.FinishedAt) {
		s.lastRestart = t.FinishedAt
	}
}

// addInit looks at init containers in order, up to the first that is at work or has failed.
func (s *podSummary) addInit(p *corev1.Pod, sidecars map[string]bool) (initializing bool, ofSidecars podSummary) {
	for i := range p.Status.InitContainerStatuses {
		c := &p.Status.InitContainerStatuses[i]
		s.count(c)
		if sidecars[c.Name] {
			ofSidecars.count(c)
		}
		ended, waiting := c.State.Terminated, c.State.Waiting
		switch {
		case ended != nil && ended.ExitCode == 0:
			continue
		case sidecars[c.Name] && c.Started != nil && *c.Started:
			if c.Ready {
				s.ready++
			}
			continue
		case ended != nil:
			s.reason = "Init:" + endedReason(ended)
		case waiting != nil && waiting.Reason != "" && waiting.Reason != "PodInitializing":
			s.reason = "Init:" + waiting.Reason
		default:
			s.reason = fmt.Sprintf("Init:%d/%d", i, len(p.Spec.InitContainers))
		}
		return true, ofSidecars
	}
	return false, ofSidecars
}

func (s *podSummary) addMain(p *corev1.Pod) {
	running, failure := false, ""
	for i := len(p.Status.ContainerStatuses) - 1; i >= 0; i-- {
		c := &p.Status.ContainerStatuses[i]
		s.count(c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.reason = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.reason = endedReason(c.State.Terminated)
			if c.State.Terminated.ExitCode != 0 {
				failure = s.reason
			}
		case c.Ready && c.State.Running != nil:
			running = true
			s.ready++
		}
	}
	switch {
	case s.reason != "Completed":
	case running && conditionTrue(p, corev1.PodReady):
		s.reason = "Running"
	case failure != "":
		s.reason = failure
	case running:
		s.reason = "NotReady"
	}
}

func endedReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	default:
		return fmt.Sprintf("ExitCode:%d", t.ExitCode)
	}
}
