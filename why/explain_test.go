package why

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errTest = errors.New("test")

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "ns", UID: apiUID(name), Generation: 2}
}

func owned(p *corev1.Pod, kind, name string) corev1.Pod {
	p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: name, UID: apiUID(name),
		Controller: ptr.To(true)}}
	return *p
}

func claim(name string, class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: meta(name),
		Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: class},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}}
}

func broken(name string) *corev1.Pod {
	return testPod(name, func(p *corev1.Pod) { state(p, waits("ImagePullBackOff", "no such image")) })
}

func TestDeployments(t *testing.T) {
	of := func(status appsv1.DeploymentStatus) *appsv1.Deployment {
		status.ObservedGeneration = max(status.ObservedGeneration, 2)
		return &appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
			Status: status}
	}
	set := appsv1.ReplicaSet{ObjectMeta: meta("web-1")}
	set.OwnerReferences = []metav1.OwnerReference{{UID: apiUID("web"), Controller: ptr.To(true)}}
	all := appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2}
	condition := func(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason,
		message string) appsv1.DeploymentStatus {
		return appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: kind, Status: status,
			Reason: reason, Message: message}}}
	}
	expect(t, Explain(of(all), Snapshot{}), "Ready")
	stale := of(all)
	stale.Generation = 3
	expect(t, Explain(stale, Snapshot{}), "Pending", "ControllerBehind")
	expect(t, Explain(of(appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2}), Snapshot{}),
		"Pending", "RollingOut")
	expect(t, Explain(of(condition(appsv1.DeploymentProgressing, "False", "ProgressDeadlineExceeded", "timed out")),
		Snapshot{}), "Failed", "ProgressDeadlineExceeded")
	expect(t, Explain(of(condition(appsv1.DeploymentReplicaFailure, "True", "FailedCreate",
		`pods "web-1-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0`)), Snapshot{}),
		"Pending", "FailedCreate", "  QuotaExceeded")
	paused := of(appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 0, AvailableReplicas: 2})
	paused.Spec.Paused = true
	expect(t, Explain(paused, Snapshot{}), "Pending", "Paused")
	// Two pods with one cause count as one; another deployment's pod and one that is being deleted don't count.
	deleted := owned(broken("d"), "ReplicaSet", "web-1")
	deleted.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	expect(t, Explain(of(appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2}), Snapshot{
		ReplicaSets: []appsv1.ReplicaSet{set}, Pods: []corev1.Pod{owned(broken("a"), "ReplicaSet", "web-1"),
			owned(broken("b"), "ReplicaSet", "web-1"), owned(broken("c"), "ReplicaSet", "other"), deleted}}),
		"Pending", "ImagePullBackOff of Pod ns/a x2")
}

func TestReplicas(t *testing.T) {
	rs := &appsv1.ReplicaSet{ObjectMeta: meta("rs"), Status: appsv1.ReplicaSetStatus{ObservedGeneration: 2,
		AvailableReplicas: 1}}
	expect(t, Explain(rs, Snapshot{}), "Ready")
	rs.Status.AvailableReplicas = 0
	expect(t, Explain(rs, Snapshot{}), "Pending", "RollingOut")
	rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure,
		Status: corev1.ConditionTrue, Message: `failed calling webhook "a.example.com": no endpoints`}}
	expect(t, Explain(rs, Snapshot{}), "Pending", "FailedCreate", "  WebhookFailed")
	rc := &corev1.ReplicationController{ObjectMeta: meta("rc"), Status: corev1.ReplicationControllerStatus{
		ObservedGeneration: 2}}
	expect(t, Explain(rc, Snapshot{Pods: []corev1.Pod{owned(broken("a"), "ReplicationController", "rc")}}),
		"Pending", "ImagePullBackOff of Pod ns/a")
}

func TestStatefulSets(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: meta("db"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3)},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 1, CurrentRevision: "a", UpdateRevision: "a"}}
	s := Snapshot{Pods: []corev1.Pod{owned(broken("db-0"), "StatefulSet", "db")}}
	expect(t, Explain(set, s), "Pending", "WaitsForPredecessor", "  ImagePullBackOff of Pod ns/db-0")
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	expect(t, Explain(set, s), "Pending", "ImagePullBackOff of Pod ns/db-0")
	set.Status.Replicas, set.Status.AvailableReplicas = 3, 3
	expect(t, Explain(set, Snapshot{}), "Ready")
	set.Status.UpdateRevision, set.Status.UpdatedReplicas = "b", 1
	expect(t, Explain(set, Snapshot{}), "Pending", "RollingOut")
	set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}
	expect(t, Explain(set, Snapshot{}), "Ready")
	set.Status.Replicas = 0
	expect(t, Explain(set, Snapshot{Events: []corev1.Event{event(set.UID, "FailedCreate",
		`create Pod db-0 failed: admission webhook "w.example.com" denied the request: no`)}}),
		"Pending", "FailedCreate", "  WebhookDenied")
}

func TestDaemonSets(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: meta("agent"), Status: appsv1.DaemonSetStatus{ObservedGeneration: 2,
		DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2}}
	expect(t, Explain(set, Snapshot{}), "Ready")
	set.Status.UpdatedNumberScheduled = 1
	expect(t, Explain(set, Snapshot{}), "Pending", "RollingOut")
	expect(t, Explain(set, Snapshot{Pods: []corev1.Pod{owned(broken("agent-x"), "DaemonSet", "agent")}}),
		"Pending", "ImagePullBackOff of Pod ns/agent-x")
	set.Status = appsv1.DaemonSetStatus{ObservedGeneration: 2}
	set.Spec.Template.Spec.NodeSelector = map[string]string{"gpu": "yes"}
	expect(t, Explain(set, Snapshot{Nodes: readyNodes()}), "Ready", "NoMatchingNode")
}

func TestJobs(t *testing.T) {
	of := func(conditions ...batchv1.JobCondition) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: meta("job"), Status: batchv1.JobStatus{Conditions: conditions}}
	}
	is := func(kind batchv1.JobConditionType, reason string) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason}
	}
	failed := owned(testPod("job-x", func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		state(p, exited(1, "Error"))
	}), "Job", "job")
	expect(t, Explain(of(is(batchv1.JobComplete, "")), Snapshot{}), "Complete")
	expect(t, Explain(of(is(batchv1.JobSuspended, "")), Snapshot{}), "Pending", "Suspended")
	expect(t, Explain(of(is(batchv1.JobFailed, "BackoffLimitExceeded")), Snapshot{Pods: []corev1.Pod{failed}}),
		"Failed", "BackoffLimitExceeded", "  Error of Pod ns/job-x")
	expect(t, Explain(of(is(batchv1.JobFailed, "DeadlineExceeded")), Snapshot{}), "Failed", "DeadlineExceeded")
	expect(t, Explain(of(), Snapshot{}), "Pending", "Running")
	trying := of()
	trying.Status.Failed, trying.Status.Active = 2, 1
	expect(t, Explain(trying, Snapshot{}), "Pending", "PodsFailed")

	cron := &batchv1.CronJob{ObjectMeta: meta("cron")}
	expect(t, Explain(cron, Snapshot{}), "Ready")
	expect(t, Explain(cron, Snapshot{Events: []corev1.Event{event(cron.UID, "UnparseableSchedule", "no")}}),
		"Failed", "UnparseableSchedule")
	mine := *of(is(batchv1.JobFailed, "BackoffLimitExceeded"))
	mine.OwnerReferences = []metav1.OwnerReference{{UID: cron.UID, Controller: ptr.To(true)}}
	older := *of(is(batchv1.JobComplete, ""))
	older.OwnerReferences, older.Name = mine.OwnerReferences, "older"
	mine.CreationTimestamp = metav1.NewTime(now)
	expect(t, Explain(cron, Snapshot{Jobs: []batchv1.Job{mine, older}}), "Failed", "LastJobFailed of Job ns/job",
		"  BackoffLimitExceeded")
	cron.Spec.Suspend = ptr.To(true)
	expect(t, Explain(cron, Snapshot{}), "Pending", "Suspended")
}

func TestClaims(t *testing.T) {
	standard := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"},
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), Provisioner: "example.com/disk"}
	byDefault := standard
	byDefault.Annotations = map[string]string{isDefaultClass: "true"}
	created := standard
	created.CreationTimestamp = metav1.NewTime(now.Add(time.Second))
	failed := func(message string) []corev1.Event {
		return []corev1.Event{event(apiUID("c"), "ProvisioningFailed", message)}
	}
	phase := func(c *corev1.PersistentVolumeClaim, p corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		c.Status.Phase = p
		return c
	}
	chosen := claim("c", ptr.To("standard"))
	chosen.Annotations = map[string]string{"volume.kubernetes.io/selected-node": "n1"}
	grown := phase(claim("c", nil), corev1.ClaimBound)
	grown.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue}}
	for name, c := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		around Snapshot
		want   []string
	}{
		"bound": {phase(claim("c", nil), corev1.ClaimBound), Snapshot{}, []string{"Ready"}},
		"lost":  {phase(claim("c", nil), corev1.ClaimLost), Snapshot{}, []string{"Failed", "ClaimLost"}},
		"no default": {claim("c", nil), Snapshot{Classes: []storagev1.StorageClass{standard}},
			[]string{"Pending", "NoDefaultClass"}},
		"no class":      {claim("c", ptr.To("")), Snapshot{}, []string{"Pending", "NoMatchingVolume"}},
		"class missing": {claim("c", ptr.To("fast")), Snapshot{}, []string{"Pending", "ClassMissing"}},
		"class unreadable": {claim("c", ptr.To("fast")), Snapshot{Unknown: map[string]error{"StorageClass": errTest}},
			[]string{"Pending", "NotBound"}},
		"no consumer": {claim("c", ptr.To("standard")), Snapshot{Classes: []storagev1.StorageClass{standard}},
			[]string{"Pending", "WaitForFirstConsumer"}},
		"no provisioner": {chosen, Snapshot{Classes: []storagev1.StorageClass{byDefault}},
			[]string{"Pending", "WaitsForProvisioner"}},
		"provisioner fails": {claim("c", ptr.To("standard")), Snapshot{Classes: []storagev1.StorageClass{standard},
			Events: failed("disk full")}, []string{"Pending", "ProvisioningFailed"}},
		"provisioner failed for want of the class": {claim("c", ptr.To("fast")), Snapshot{
			Classes: []storagev1.StorageClass{standard}, Events: failed(`storageclass.storage.k8s.io "fast" not found`)},
			[]string{"Pending", "ClassMissing"}},
		"class of a failed claim is deleted": {claim("c", ptr.To("fast")), Snapshot{Events: failed("disk full")},
			[]string{"Pending", "ClassMissing"}},
		"class came later": {claim("c", ptr.To("standard")), Snapshot{Classes: []storagev1.StorageClass{standard},
			Events: failed(`storageclass.storage.k8s.io "standard" not found`)}, []string{"Pending", "WaitForFirstConsumer"}},
		"class is newer than the failure": {chosen, Snapshot{Classes: []storagev1.StorageClass{created},
			Events: failed("disk full")}, []string{"Pending", "WaitsForProvisioner"}},
		"class unreadable, provisioner fails": {claim("c", ptr.To("fast")), Snapshot{Events: failed("disk full"),
			Unknown: map[string]error{"StorageClass": errTest}}, []string{"Pending", "ProvisioningFailed"}},
		"volume does not fit, without a class": {claim("c", ptr.To("fast")), Snapshot{
			Events: []corev1.Event{event(apiUID("c"), "VolumeMismatch", "too small")}}, []string{"Pending", "VolumeMismatch"}},
		"resize": {grown, Snapshot{}, []string{"Pending", "FileSystemResizePending"}},
	} {
		t.Run(name, func(t *testing.T) { expect(t, Explain(c.claim, c.around), c.want...) })
	}
}

func TestServices(t *testing.T) {
	of := func(change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: meta("svc"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{TargetPort: intstr.FromString("http"), Protocol: corev1.ProtocolTCP}}}}
		if change != nil {
			change(s)
		}
		return s
	}
	slice := func(ready bool) []discoveryv1.EndpointSlice {
		return []discoveryv1.EndpointSlice{{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{discoveryv1.LabelServiceName: "svc"}},
			Endpoints: []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}}}
	}
	named := broken("a")
	named.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", Protocol: corev1.ProtocolTCP}}
	expect(t, Explain(of(nil), Snapshot{Slices: slice(true)}), "Ready")
	expect(t, Explain(of(nil), Snapshot{Pods: []corev1.Pod{*named}, Slices: slice(false)}),
		"Pending", "NoEndpoints", "  ImagePullBackOff of Pod ns/a")
	expect(t, Explain(of(nil), Snapshot{Pods: []corev1.Pod{*runningPod("a")}}),
		"Pending", "NoEndpoints", "  TargetPortMissing")
	expect(t, Explain(of(nil), Snapshot{}), "Pending", "NoEndpoints", "  NoPods")
	byHand := of(func(s *corev1.Service) { s.Spec.Selector = nil })
	expect(t, Explain(byHand, Snapshot{Slices: slice(true)}), "Ready")
	expect(t, Explain(byHand, Snapshot{}), "Pending", "NoEndpoints", "  NoSelector")
	expect(t, Explain(byHand, Snapshot{Slices: slice(false)}), "Pending", "NoEndpoints", "  EndpointsNotReady")
	expect(t, Explain(of(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }), Snapshot{}), "Ready")
	expect(t, Explain(of(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }),
		Snapshot{Slices: slice(true)}), "Pending", "NoLoadBalancer")
}

// TestServiceOfAPIServers: API servers write the endpoints of default/kubernetes, and no selector helps it.
func TestServiceOfAPIServers(t *testing.T) {
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}}
	a := Explain(svc, Snapshot{})
	expect(t, a, "Pending", "NoEndpoints", "  NotReported")
	if text := a.String(); strings.Contains(text, "selector") || !strings.Contains(text, "API servers write") {
		t.Errorf("it says\n%s", text)
	}
	svc.Namespace = "ns"
	expect(t, Explain(svc, Snapshot{}), "Pending", "NoEndpoints", "  NoSelector")
}

func TestTerminating(t *testing.T) {
	deleted := ptr.To(metav1.NewTime(now.Add(-time.Minute)))
	c := phaseless(claim("data", nil), deleted, "kubernetes.io/pvc-protection")
	user := testPod("user", func(p *corev1.Pod) { p.Spec.Volumes = claimVolume("data") })
	expect(t, Explain(c, Snapshot{Pods: []corev1.Pod{*user}}), "Terminating", "Finalizer", "  UsedBy of Pod ns/user")

	p := runningPod("p")
	p.DeletionTimestamp = ptr.To(metav1.NewTime(now.Add(20 * time.Second)))
	expect(t, Explain(p, Snapshot{Now: now}), "Terminating", "GracePeriod")
	expect(t, Explain(p, Snapshot{Now: now.Add(time.Minute)}), "Terminating", "NotStopped")

	config := &corev1.ConfigMap{ObjectMeta: meta("config")}
	config.DeletionTimestamp, config.Finalizers = deleted, []string{"example.com/a"}
	config.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`)},
		{Manager: "a-operator", FieldsV1: metav1.NewFieldsV1(
			`{"f:metadata":{"f:finalizers":{".":{},"v:\"example.com/a\"":{}}}}`)}}
	a := Explain(config, Snapshot{})
	expect(t, a, "Terminating", "Finalizer")
	if want := "The finalizer example.com/a holds it, which a-operator set."; a.Causes[0].Message != want {
		t.Errorf("got %s", a.Causes[0].Message)
	}

	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", DeletionTimestamp: deleted}}
	expect(t, Explain(n, Snapshot{}), "Terminating", "Deleting")
	n.Status.Conditions = []corev1.NamespaceCondition{
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionTrue, Reason: "SomeResourcesRemain"},
		{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Reason: "ContentDeleted"}}
	expect(t, Explain(n, Snapshot{}), "Terminating", "SomeResourcesRemain")
}

func phaseless(c *corev1.PersistentVolumeClaim, deleted *metav1.Time, finalizer string) client.Object {
	c.DeletionTimestamp, c.Finalizers = deleted, []string{finalizer}
	return c
}

// TestGeneric: kinds without rules are taken at their conditions; unstructured objects of kinds with rules by these.
func TestGeneric(t *testing.T) {
	custom := func(status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Website",
			"metadata": map[string]any{"name": "w", "namespace": "ns", "generation": int64(3)}, "status": status}}
	}
	condition := func(kind, status, reason string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status, "reason": reason}}}
	}
	expect(t, Explain(custom(nil), Snapshot{}), "Ready")
	expect(t, Explain(custom(condition("Ready", "True", "Up")), Snapshot{}), "Ready")
	expect(t, Explain(custom(condition("Ready", "False", "NoPods")), Snapshot{}), "Pending", "NoPods")
	expect(t, Explain(custom(condition("Ready", "Unknown", "")), Snapshot{}), "Pending", "ReadyUnknown")
	expect(t, Explain(custom(condition("Degraded", "True", "Slow")), Snapshot{}), "Pending", "Slow")
	expect(t, Explain(custom(condition("Stalled", "True", "BadSpec")), Snapshot{}), "Failed", "BadSpec")
	expect(t, Explain(custom(map[string]any{"observedGeneration": int64(2)}), Snapshot{}), "Pending",
		"ControllerBehind")
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(broken("a"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	expect(t, Explain(u, Snapshot{}), "Pending", "ImagePullBackOff")
}

func TestNodes(t *testing.T) {
	n := readyNodes()[0]
	expect(t, Explain(&n, Snapshot{}), "Ready")
	n.Spec.Unschedulable = true
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure,
		Status: corev1.ConditionTrue})
	expect(t, Explain(&n, Snapshot{}), "Ready", "MemoryPressure", "Cordoned")
	n.Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
		Reason: "KubeletNotReady"}
	expect(t, Explain(&n, Snapshot{}), "Pending", "KubeletNotReady", "MemoryPressure", "Cordoned")
	n.Status.Conditions = nil
	expect(t, Explain(&n, Snapshot{}), "Pending", "NotReported", "Cordoned")
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ want, text string }{
		{"QuotaExceeded", `pods "a" is forbidden: exceeded quota: q, requested: cpu=1`},
		{"QuotaExceeded", `pods "a" is forbidden: failed quota: q: must specify cpu for: c`},
		{"WebhookDenied", `admission webhook "w.example.com" denied the request: no`},
		{"WebhookFailed", `Internal error occurred: failed calling webhook "w.example.com": failed to call webhook`},
		{"PolicyDenied", `pods "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no`},
		{"PodSecurity", `pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`},
		{"LimitExceeded", `pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2`},
		{"ServiceAccountMissing", `pods "a" is forbidden: serviceaccount "x" not found`},
		{"NamespaceTerminating", `pods "a" is forbidden: namespace ns because it is being terminated`},
		{"Forbidden", `pods is forbidden: User "u" cannot create resource "pods" in API group ""`},
		{"Invalid", `Pod "a" is invalid: spec.containers: Required value`},
	} {
		if got, ok := refused(c.text); !ok || got.Reason != c.want {
			t.Errorf("%s: %s, want %s", c.text, got.Reason, c.want)
		}
	}
	if _, ok := Refused(errTest); ok {
		t.Error("an error of another kind is a refusal")
	}
	if c, ok := Refused(apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("exceeded quota: q"))); !ok ||
		c.Reason != "QuotaExceeded" {
		t.Errorf("%v, %v", c, ok)
	}
}

// apiUID is the UID of the objects of a name.
func apiUID(name string) types.UID { return types.UID("uid-" + name) }
