package rungtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/clock"
	"quintet.dev/quintet/cluster"
	"quintet.dev/quintet/faults"
)

const (
	space     = metav1.NamespaceDefault
	testImage = "quintet/testimage:dev"
)

// The clusters of a rung that rows are put into.
const (
	components = "components" // ours, with options
	programs   = "programs"   // those of the test in the place of as many as can be
)

// original runs what the program stands for.
func original(ctx context.Context, env cluster.Env) error { return env.Original(ctx, env) }

func table() []row {
	inProcess := func(why string) map[Name]string { return map[Name]string{Memory: why, Etcd: why} }
	containers := func(why string) map[Name]string { return map[Name]string{Hollow: why, Real: why} }
	hollow := map[Name]string{
		Memory: "program of kube-proxy: a cluster in process has none",
		Etcd:   "program of kube-proxy: a cluster in process has none",
		Hollow: "program of kube-proxy: the nodes are hollow",
		Real:   "program of kube-proxy: in a cluster of containers",
	}
	users := []byte("secret,jane,1,dev\n")
	made := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made, namespace: default}\n")
	marks := newMarks()
	return []row{
		{name: "WithNodes", cluster: components, options: []cluster.Option{cluster.WithNodes(2)}, effect: nodes(2)},
		{name: "WithAPIServers", cluster: components, options: []cluster.Option{cluster.WithAPIServers(2)},
			effect: leases(2)},
		{name: "WithArgs", cluster: components, options: []cluster.Option{cluster.WithArgs(cluster.Node, "--max-pods=7")},
			effect: maxPods("7")},
		{name: "WithFile", cluster: components, options: []cluster.Option{
			cluster.WithFile(cluster.APIServer, "/etc/kubernetes/users.csv", users),
			cluster.WithArgs(cluster.APIServer, "--token-auth-file=/etc/kubernetes/users.csv")}, effect: token("secret",
			"jane")},
		{name: "WithManifestContent", cluster: components, options: []cluster.Option{cluster.WithManifestContent(made)},
			effect: has("made")},
		{name: "AddUser", cluster: components, effect: addsUser},
		{name: "AddNode", cluster: components, effect: addsNode},
		{name: "WithScheduler", cluster: components, options: []cluster.Option{cluster.WithScheduler()}, effect: schedules},
		{name: "ShiftClock", cluster: components, effect: shiftsClocks},
		{name: "kill and restart", cluster: components, effect: killsScheduler},
		{name: "WithFaults", cluster: programs, options: []cluster.Option{cluster.WithFaults(faults.Plan{})},
			effect: failsRequests},
		{name: "WithProgram of the scheduler", cluster: programs,
			options: []cluster.Option{cluster.WithProgram(cluster.Scheduler, lastNode), cluster.WithNodes(2)},
			effect:  bindsToLast},
		{name: "WithProgram of the controller manager", cluster: programs, options: []cluster.Option{
			cluster.WithProgram(cluster.ControllerManager, marks.program)},
			effect: marks.seen(cluster.ControllerManager, "system:kube-controller-manager")},
		{name: "WithProgram of the metrics server", cluster: programs, options: []cluster.Option{cluster.WithMetricsServer(),
			cluster.WithProgram(cluster.MetricsServer, marks.program)},
			effect: marks.seen(cluster.MetricsServer, "system:metrics-server")},
		{name: "WithProgram of the API server", cluster: programs,
			options: []cluster.Option{cluster.WithProgram(cluster.APIServer, marks.program)},
			effect:  marks.seen(cluster.APIServer, "")},
		{name: "WithProgram of etcd", cluster: programs,
			options: []cluster.Option{cluster.WithProgram(cluster.Etcd, marks.program)},
			effect:  marks.seen(cluster.Etcd, "")},
		{name: "WithProgram of the kubelet", cluster: "kubelet",
			options: []cluster.Option{cluster.WithProgram(cluster.Node, marks.program)},
			effect:  marks.seen(cluster.Node, "system:node:node-1")},
		{name: "WithProgram that can't be meant", refused: hollow,
			options: []cluster.Option{cluster.WithProgram(cluster.KubeProxy, original)}},
		{name: "WithImage", cluster: components, refused: inProcess("image of kube-controller-manager: a cluster in process"),
			options: []cluster.Option{cluster.WithImage(cluster.ControllerManager, "quintet/kube-controller-manager:dev")},
			effect:  nodes(2)},
		{name: "WithClock", cluster: "clock", refused: containers("a clock that tests move: containers have"),
			options: []cluster.Option{cluster.WithStore(cluster.Memory), cluster.WithClock(clock.New(time.Now()))},
			effect:  advances},
	}
}

type effect = func(context.Context, *testing.T, *cluster.Cluster, kubernetes.Interface)

func nodes(n int) effect {
	return func(ctx context.Context, t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) < n {
			t.Errorf("%d nodes, %v", len(list.Items), err)
		}
	}
}

func leases(n int) effect {
	return func(ctx context.Context, t *testing.T, c *cluster.Cluster, _ kubernetes.Interface) {
		if got := len(c.Component(cluster.APIServer).Members); got != n {
			t.Errorf("%d API servers", got)
		}
		if err := c.Member("apiserver-0").Kill(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitAPI(ctx); err != nil {
			t.Errorf("with one API server: %v", err)
		}
		if err := c.Member("apiserver-0").Start(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func maxPods(want string) effect {
	return func(ctx context.Context, t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
		node, err := client.CoreV1().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
		if err != nil || node.Status.Allocatable.Pods().String() != want {
			t.Errorf("%v pods, %v", node.Status.Allocatable.Pods(), err)
		}
	}
}

func token(token, want string) effect {
	return func(ctx context.Context, t *testing.T, c *cluster.Cluster, _ kubernetes.Interface) {
		config := rest.AnonymousClientConfig(c.RESTConfig())
		config.BearerToken = token
		eventually(ctx, t, func() error {
			user, err := whoAmI(ctx, config)
			if err == nil && user != want {
				err = errors.New(user)
			}
			return err
		})
	}
}

func whoAmI(ctx context.Context, config *rest.Config) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{},
		metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

func has(name string) effect {
	return func(ctx context.Context, t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
		if _, err := client.CoreV1().ConfigMaps(space).Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func addsUser(ctx context.Context, t *testing.T, c *cluster.Cluster, _ kubernetes.Interface) {
	config, err := c.AddUser(ctx, "joe")
	if err != nil {
		t.Fatal(err)
	}
	user, err := whoAmI(ctx, config)
	for apierrors.IsForbidden(err) { // of several API servers, one may have yet to hear of the roles that another made
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
		user, err = whoAmI(ctx, config)
	}
	if err != nil || user != "joe" {
		t.Errorf("%s, %v", user, err)
	}
}

func addsNode(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	// The taint keeps the pods of other rows off a node that is removed under them.
	m, err := c.AddNode(ctx, cluster.NodeOptions{Labels: map[string]string{"added": "true"}, Taints: []corev1.Taint{
		{Key: "added", Effect: corev1.TaintEffectNoSchedule}}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "added=true"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != m.Name() ||
		!slices.ContainsFunc(list.Items[0].Spec.Taints, func(t corev1.Taint) bool { return t.Key == "added" }) {
		t.Errorf("%v, %v", list.Items, err)
	}
	if err := c.RemoveNode(ctx, 3); err != nil {
		t.Error(err)
	}
}

func createPod(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "c", Image: testImage,
			Args: []string{"serve"}}}}}
	if _, err := client.CoreV1().Pods(space).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func runs(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(ctx, t, func() (err error) {
		pod, err = client.CoreV1().Pods(space).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("pod %s is %+v", name, pod.Status)
		}
		return err
	})
	return pod
}

func schedules(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	createPod(ctx, t, client, "scheduled")
	runs(ctx, t, client, "scheduled")
	if c.SchedulerURL() == "" {
		t.Error("the scheduler has no address")
	}
}

func killsScheduler(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	if err := c.Component(cluster.Scheduler).Kill(ctx); err != nil {
		t.Fatal(err)
	}
	createPod(ctx, t, client, "waits")
	if err := c.Component(cluster.Scheduler).Start(ctx); err != nil {
		t.Fatal(err)
	}
	runs(ctx, t, client, "waits")
}

func failsRequests(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	plan := faults.Plan{Rules: []faults.Rule{{Name: "full", Match: faults.Match{Verbs: []string{"create"},
		Resources: []string{"secrets"}}, Fault: faults.Fault{Status: 503}}}}
	if err := c.SetFaults(ctx, plan); err != nil {
		t.Fatal(err)
	}
	_, err := client.CoreV1().Secrets(space).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
		metav1.CreateOptions{})
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("create a secret: %v", err)
	}
	if err := c.SetFaults(ctx, faults.Plan{}); err != nil {
		t.Fatal(err)
	}
}

func advances(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	if err := c.Advance(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	made, err := client.CoreV1().ConfigMaps(space).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "late"}}, metav1.CreateOptions{})
	if err != nil || made.CreationTimestamp.Before(&metav1.Time{Time: time.Now().Add(50 * time.Minute)}) {
		t.Errorf("made at %v, %v", made.CreationTimestamp, err)
	}
}

// lastNode is a scheduler of one rule: pods go to the last node by name.
func lastNode(ctx context.Context, env cluster.Env) error {
	client, err := kubernetes.NewForConfig(env.RESTConfig)
	if err != nil {
		return err
	}
	for ; ctx.Err() == nil; pause(ctx, env) {
		pending, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
		if err != nil {
			env.Logger.Error(err, "Failed to watch pods; retrying")
			continue
		}
		for event := range pending.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Added {
				if err := bindToLast(ctx, client, pod); err != nil {
					env.Logger.Error(err, "Failed to bind a pod; watching again", "pod", pod.Name)
					break
				}
			}
		}
		pending.Stop()
	}
	return nil
}

func pause(ctx context.Context, env cluster.Env) {
	select {
	case <-ctx.Done():
	case <-env.Clock.After(100 * time.Millisecond):
	}
}

func bindToLast(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return fmt.Errorf("%d nodes: %w", len(list.Items), err)
	}
	last := slices.MaxFunc(list.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name,
		UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: last.Name}}, metav1.CreateOptions{})
}

func bindsToLast(ctx context.Context, t *testing.T, _ *cluster.Cluster, client kubernetes.Interface) {
	for i := range 3 {
		name := fmt.Sprintf("bound-%d", i)
		createPod(ctx, t, client, name)
		if pod := runs(ctx, t, client, name); pod.Spec.NodeName != "node-2" {
			t.Errorf("%s is on %s", name, pod.Spec.NodeName)
		}
	}
}

// shiftsClocks has API servers date what they create, and forget that when it is healed.
func shiftsClocks(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface) {
	const by = 20 * time.Minute // tokens and Leases of an hour outlive it
	dated := func(want time.Duration) {
		t.Helper()
		made, err := client.CoreV1().ConfigMaps("default").Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "dated-"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(made.CreationTimestamp.Time); (off - want).Abs() > by/2 {
			t.Errorf("dated %v from now, want %v", off, want)
		}
	}
	var heals []cluster.Heal
	for _, m := range c.Component(cluster.APIServer).Members {
		heal, err := c.ShiftClock(ctx, m, by)
		if err != nil {
			t.Fatal(err)
		}
		heals = append(heals, heal)
	}
	dated(by)
	for _, heal := range heals {
		if err := heal(ctx); err != nil {
			t.Error(err)
		}
	}
	dated(0)
	for _, m := range c.Component(cluster.Etcd).Members {
		if _, err := c.ShiftClock(ctx, m, by); !errors.Is(err, cluster.ErrUnsupported) {
			t.Errorf("etcd: %v", err)
		}
	}
}
