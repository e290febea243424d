package workloads

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const revision = "deployment.kubernetes.io/revision"

func create(ctx context.Context, t *suite.T, d *appsv1.Deployment) {
	_, err := t.Client.AppsV1().Deployments(t.Namespace).Create(ctx, d, metav1.CreateOptions{})
	t.Must(err, "create the deployment")
}

func patch(ctx context.Context, t *suite.T, name, body string) *appsv1.Deployment {
	d, err := t.Client.AppsV1().Deployments(t.Namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(body),
		metav1.PatchOptions{})
	t.Must(err, "patch the deployment")
	return d
}

// template is a patch that gives the pods of a deployment another environment, and so another template.
func template(version string) string {
	return `{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"VERSION","value":"` +
		version + `"}]}]}}}}`
}

func get(t *suite.T, name string) func(ctx context.Context) (*appsv1.Deployment, error) {
	return func(ctx context.Context) (*appsv1.Deployment, error) {
		return t.Client.AppsV1().Deployments(t.Namespace).Get(ctx, name, metav1.GetOptions{})
	}
}

// rolled matches a deployment whose newest template is fully rolled out.
func rolled(replicas int32) func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool {
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.Replicas == replicas && s.UpdatedReplicas == replicas &&
			s.AvailableReplicas == replicas
	}
}

func waitRolled(ctx context.Context, t *suite.T, name string, replicas int32) *appsv1.Deployment {
	return suite.WaitFor(ctx, t, "deployment "+name+" rolled out", get(t, name), Satisfy(rolled(replicas)))
}

// census follows the pods of an app and keeps the fewest ready and the most living ones seen at any moment.
type census struct {
	pods               map[string]*corev1.Pod
	fewestReady, most  int
	oldWithNew, counts bool
}

func (c *census) see(event watch.Event) {
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		return
	}
	c.pods[pod.Name] = pod
	if event.Type == watch.Deleted {
		delete(c.pods, pod.Name)
	}
	ready, alive := 0, 0
	versions := map[string]bool{}
	for _, p := range c.pods {
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			versions[p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]] = true
		}
		if p.DeletionTimestamp == nil {
			alive++
			if isReady(p) {
				ready++
			}
		}
	}
	c.oldWithNew = c.oldWithNew || len(versions) > 1
	if c.counts {
		c.fewestReady, c.most = min(c.fewestReady, ready), max(c.most, alive)
	}
}

func isReady(p *corev1.Pod) bool {
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// takeCensus counts from now on until done returns true, and fails the case when the watch ends.
func takeCensus(ctx context.Context, t *suite.T, app string, act func(), done func(c *census) bool) *census {
	list, err := t.Client.CoreV1().Pods(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	t.Must(err, "list pods")
	c := &census{pods: map[string]*corev1.Pod{}, fewestReady: len(list.Items)}
	for i := range list.Items {
		c.see(watch.Event{Type: watch.Added, Object: &list.Items[i]})
	}
	c.counts = true
	w, err := t.Client.CoreV1().Pods(t.Namespace).Watch(ctx,
		metav1.ListOptions{LabelSelector: "app=" + app, ResourceVersion: list.ResourceVersion})
	t.Must(err, "watch pods")
	defer w.Stop()
	act()
	for !done(c) {
		event, open := <-w.ResultChan()
		t.Expect(open).To(BeTrue(), "the watch of the pods ended; last seen %s", c)
		c.see(event)
	}
	return c
}

func (c *census) String() string {
	return fmt.Sprintf("%d pods, fewest ready %d, most at once %d", len(c.pods), c.fewestReady, c.most)
}

// replaced reports whether n ready pods live, and none of the template hash old.
func replaced(old string, n int) func(c *census) bool {
	return func(c *census) bool {
		ready := 0
		for _, p := range c.pods {
			if p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == old {
				return false
			}
			if p.DeletionTimestamp == nil && isReady(p) {
				ready++
			}
		}
		return ready == n && len(c.pods) == n
	}
}

func hashOf(ctx context.Context, t *suite.T, app string) string {
	pods, err := t.ListPods("app=" + app)(ctx)
	t.Must(err, "list pods")
	t.Expect(pods).NotTo(BeEmpty())
	return pods[0].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
}

func deploymentRolls(ctx context.Context, t *suite.T) {
	d := t.Deployment("roll", 3)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromInt32(1)),
		MaxSurge: ptr.To(intstr.FromInt32(1))}
	create(ctx, t, d)
	first := waitRolled(ctx, t, "roll", 3)
	t.Expect(first.Annotations).To(HaveKeyWithValue(revision, "1"))
	old := hashOf(ctx, t, "roll")
	c := takeCensus(ctx, t, "roll", func() { patch(ctx, t, "roll", template("2")) }, replaced(old, 3))
	t.Expect(c.fewestReady).To(BeNumerically(">=", 2), "maxUnavailable is 1: %s", c)
	t.Expect(c.most).To(BeNumerically("<=", 4), "maxSurge is 1: %s", c)
	t.Expect(waitRolled(ctx, t, "roll", 3).Annotations).To(HaveKeyWithValue(revision, "2"))
	sets, err := t.Client.AppsV1().ReplicaSets(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=roll"})
	t.Must(err, "list replica sets")
	t.Expect(sets.Items).To(HaveLen(2), "the old replica set is kept as history")
}

func deploymentRollsBack(ctx context.Context, t *suite.T) {
	d := t.Deployment("back", 2)
	d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: "1"}}
	create(ctx, t, d)
	waitRolled(ctx, t, "back", 2)
	first := hashOf(ctx, t, "back")
	patch(ctx, t, "back", template("2"))
	waitRolled(ctx, t, "back", 2)
	patch(ctx, t, "back", template("1"))
	t.Expect(waitRolled(ctx, t, "back", 2).Annotations).To(HaveKeyWithValue(revision, "3"))
	suite.WaitFor(ctx, t, "only pods of the first template", t.ListPods("app=back"),
		And(HaveLen(2), HaveEach(HaveField("Labels", HaveKeyWithValue(appsv1.DefaultDeploymentUniqueLabelKey, first)))))
	sets, err := t.Client.AppsV1().ReplicaSets(t.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=back"})
	t.Must(err, "list replica sets")
	t.Expect(sets.Items).To(HaveLen(2), "the first template's replica set is used again")
}

func deploymentStuck(ctx context.Context, t *suite.T) {
	d := t.Deployment("stuck", 2)
	d.Spec.ProgressDeadlineSeconds = ptr.To[int32](3)
	create(ctx, t, d)
	waitRolled(ctx, t, "stuck", 2)
	old := hashOf(ctx, t, "stuck")
	patch(ctx, t, "stuck",
		`{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"conformance.invalid/no-such-image:1"}]}}}}`)
	suite.WaitFor(ctx, t, "the deadline reported", get(t, "stuck"), HaveField("Status.Conditions", ContainElement(And(
		HaveField("Type", appsv1.DeploymentProgressing), HaveField("Status", corev1.ConditionFalse),
		HaveField("Reason", "ProgressDeadlineExceeded")))))
	pods, err := t.ListPods("app=stuck," + appsv1.DefaultDeploymentUniqueLabelKey + "=" + old)(ctx)
	t.Must(err, "list the old pods")
	ready := 0
	for i := range pods {
		if isReady(&pods[i]) {
			ready++
		}
	}
	t.Expect(ready).To(BeNumerically(">=", 1), "at most a quarter, rounded down, may be unavailable")
}

func deploymentRecreate(ctx context.Context, t *suite.T) {
	d := t.Deployment("fresh", 2)
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	create(ctx, t, d)
	waitRolled(ctx, t, "fresh", 2)
	old := hashOf(ctx, t, "fresh")
	c := takeCensus(ctx, t, "fresh", func() { patch(ctx, t, "fresh", template("2")) }, replaced(old, 2))
	t.Expect(c.oldWithNew).To(BeFalse(), "old and new pods were there together")
}

func deploymentPaused(ctx context.Context, t *suite.T) {
	d := t.Deployment("pause", 1)
	unplaced(&d.Spec.Template.Spec)
	create(ctx, t, d)
	suite.WaitFor(ctx, t, "one pod", t.ListPods("app=pause"), HaveLen(1))
	old := hashOf(ctx, t, "pause")
	patch(ctx, t, "pause", `{"spec":{"paused":true}}`)
	patched := patch(ctx, t, "pause", template("2"))
	suite.WaitFor(ctx, t, "the new template observed", get(t, "pause"),
		HaveField("Status.ObservedGeneration", BeNumerically(">=", patched.Generation)))
	other := HaveField("Labels", Not(HaveKeyWithValue(appsv1.DefaultDeploymentUniqueLabelKey, old)))
	suite.Never(ctx, t, "a pod of the new template", t.ListPods("app=pause"), ContainElement(other))
	patch(ctx, t, "pause", `{"spec":{"paused":false}}`)
	suite.WaitFor(ctx, t, "a pod of the new template", t.ListPods("app=pause"), ContainElement(other))
}
