package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
)

func fair(c *options.Config) {
	c.PriorityAndFairness, c.MaxRequestsInFlight, c.MaxMutatingRequestsInFlight = true, 4, 4
}

func TestFairnessNeedsSeats(t *testing.T) {
	_, err := apiserver.New(options.Config{Storage: options.StorageMemory, PriorityAndFairness: true})
	if err == nil || !strings.Contains(err.Error(), "--max-requests-inflight") {
		t.Errorf("error %v", err)
	}
}

// TestFairness: one flow has a level of its own that lets nothing through; the other flows don't notice.
func TestFairness(t *testing.T) {
	f := start(t, fair)
	ctx := t.Context()
	admin, alice := kubernetes.NewForConfigOrDie(f.as("admin")), f.as("alice")
	letDevs(t, admin)
	schema, level := ofAlice()
	level, err := admin.FlowcontrolV1().PriorityLevelConfigurations().Create(ctx, level, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	schema, err = admin.FlowcontrolV1().FlowSchemas().Create(ctx, schema, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.HTTPClientFor(alice)
	if err != nil {
		t.Fatal(err)
	}
	get := func() *http.Response {
		r, err := transport.Get(alice.Host + "/api/v1/namespaces/default/pods")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		return r
	}
	eventually(t, "requests carry the identity of their level", func() bool {
		r := get()
		return r.Header.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) == string(level.UID) &&
			r.Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID)
	})
	eventually(t, "the schema's status tells that its level exists", func() bool {
		s, err := admin.FlowcontrolV1().FlowSchemas().Get(ctx, schema.Name, metav1.GetOptions{})
		return err == nil && len(s.Status.Conditions) == 1 &&
			s.Status.Conditions[0].Status == flowcontrolv1.ConditionFalse
	})
	level.Spec.Limited.NominalConcurrencyShares = ptr.To(int32(0))
	if _, err := admin.FlowcontrolV1().PriorityLevelConfigurations().Update(ctx, level,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	// A level without seats still serves one request at a time; this one doesn't end.
	release := hold(t, transport, alice.Host+"/api/v1/namespaces/default/configmaps?dryRun=All")
	defer release()
	eventually(t, "requests are refused", func() bool {
		r := get()
		return r.StatusCode == http.StatusTooManyRequests && r.Header.Get("Retry-After") != ""
	})
	dump, err := admin.CoreV1().RESTClient().Get().AbsPath("/debug/api_priority_and_fairness/dump_priority_levels").Do(
		ctx).Raw()
	if err != nil || !strings.Contains(string(dump), "\nalice,") {
		t.Errorf("the dump of levels: %v\n%s", err, dump)
	}
	if _, err := admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("another flow: %v", err)
	}
}

// letDevs lets Alice do everything.
func letDevs(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "devs"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "dev"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// hold keeps a request under way whose body doesn't end, until the result is called.
func hold(t *testing.T, transport *http.Client, url string) (release func()) {
	t.Helper()
	holding, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for holding.Err() == nil { // it may be refused itself
			// a new request, as a client that still reads the last one's body sends no other
			body, unfinished := io.Pipe()
			held, err := http.NewRequestWithContext(holding, http.MethodPost, url, body)
			if err != nil {
				t.Error(err)
				return
			}
			if r, err := transport.Do(held); err == nil {
				_ = r.Body.Close()
			}
			_ = unfinished.Close()
		}
	}()
	return func() { stop(); <-ended }
}

// ofAlice gives Alice a level that doesn't queue.
func ofAlice() (*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration) {
	meta := metav1.ObjectMeta{Name: "alice"}
	return &flowcontrolv1.FlowSchema{ObjectMeta: meta, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "alice"},
			MatchingPrecedence:         2,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{
					{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: "alice"}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true,
					Namespaces: []string{"*"},
				}},
			}},
		}}, &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta,
			Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
				Type: flowcontrolv1.PriorityLevelEnablementLimited,
				Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
					NominalConcurrencyShares: ptr.To(int32(10)), BorrowingLimitPercent: ptr.To(int32(0)),
					LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
				},
			}}
}

// TestFairnessQueues: beyond the seats of a level requests wait, as many as its queue holds; the next are refused, and
// told when to come again. Those that wait are served in their turn.
func TestFairnessQueues(t *testing.T) {
	f := start(t, fair)
	ctx, admin := t.Context(), kubernetes.NewForConfigOrDie(f.as("admin"))
	letDevs(t, admin)
	schema, level := ofAlice()
	level.Spec.Limited.NominalConcurrencyShares = ptr.To(int32(1)) // of some hundred: one seat
	level.Spec.Limited.LimitResponse = flowcontrolv1.LimitResponse{
		Type:    flowcontrolv1.LimitResponseTypeQueue,
		Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 2},
	}
	if _, err := admin.FlowcontrolV1().PriorityLevelConfigurations().Create(ctx, level,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	schema, err := admin.FlowcontrolV1().FlowSchemas().Create(ctx, schema, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	get := func() *http.Response {
		resp, _ := f.with(t, "GET", "/api/v1/namespaces/default/pods", "", "Authorization", "Bearer alice")
		return resp
	}
	eventually(t, "the schema counts", func() bool {
		return get().Header.Get(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID)
	})
	transport, err := rest.HTTPClientFor(f.as("alice"))
	if err != nil {
		t.Fatal(err)
	}
	release := hold(t, transport, f.as("alice").Host+configMaps+"?dryRun=All")
	shows := func(line string) bool { return strings.Contains(metricsOf(t, f), line) }
	eventually(t, "the seat is taken", func() bool {
		return shows(`apiserver_flowcontrol_current_executing_requests{flow_schema="alice",priority_level="alice"} 1`)
	})
	served := make(chan int, 2)
	for range 2 {
		go func() { served <- get().StatusCode }()
	}
	eventually(t, "two wait", func() bool {
		return shows(`apiserver_flowcontrol_current_inqueue_requests{flow_schema="alice",priority_level="alice"} 2`)
	})
	resp := get()
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("the next: %d %v", resp.StatusCode, resp.Header)
	}
	if !shows(
		`apiserver_flowcontrol_rejected_requests_total{flow_schema="alice",priority_level="alice",reason="queue-full"}`,
	) {
		t.Error("the refusal isn't counted")
	}
	if _, err := admin.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("another flow: %v", err)
	}
	release()
	for range 2 {
		if code := <-served; code != http.StatusOK {
			t.Errorf("one that waited: %d", code)
		}
	}
}

// TestFairnessBorrows: a level that has more to do than its own seats allow gets some of those that others don't need.
func TestFairnessBorrows(t *testing.T) {
	f := start(t, fair)
	ctx, admin := t.Context(), kubernetes.NewForConfigOrDie(f.as("admin"))
	letDevs(t, admin)
	schema, level := ofAlice()
	schema.Name, schema.Spec.PriorityLevelConfiguration.Name, level.Name = "borrower", "borrower", "borrower"
	limited := level.Spec.Limited
	limited.NominalConcurrencyShares = ptr.To(int32(1)) // of some hundred: one seat
	limited.BorrowingLimitPercent = nil                 // as many as there are
	limited.LimitResponse = flowcontrolv1.LimitResponse{
		Type:    flowcontrolv1.LimitResponseTypeQueue,
		Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: 10},
	}
	if _, err := admin.FlowcontrolV1().PriorityLevelConfigurations().Create(ctx, level,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.FlowcontrolV1().FlowSchemas().Create(ctx, schema, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	shows := func(line string) bool { return strings.Contains(metricsOf(t, f), line) }
	eventually(t, "the level has its own seat", func() bool {
		return shows(`apiserver_flowcontrol_nominal_limit_seats{priority_level="borrower"} 1`)
	})
	transport, err := rest.HTTPClientFor(f.as("alice"))
	if err != nil {
		t.Fatal(err)
	}
	const many = 3
	for range many {
		defer hold(t, transport, f.as("alice").Host+configMaps+"?dryRun=All")()
	}
	within(t, 2*time.Minute, "all are served", func() bool { // limits are adjusted every 10 s
		return shows(fmt.Sprintf(
			`apiserver_flowcontrol_current_executing_requests{flow_schema="borrower",priority_level="borrower"} %d`,
			many))
	})
	if shows(`apiserver_flowcontrol_current_limit_seats{priority_level="borrower"} 1`) {
		t.Error("the level has no more seats than its own")
	}
}

// TestWatchesHoldNoSeats: watches that have begun don't keep others out, however many there are.
func TestWatchesHoldNoSeats(t *testing.T) {
	f := start(t, fair, func(c *options.Config) { c.AuthorizationModes = []string{"AlwaysAllow"} })
	alice := kubernetes.NewForConfigOrDie(f.as("alice"))
	for range 40 {
		w, err := alice.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := alice.CoreV1().ConfigMaps("default").Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Errorf("a write beside 40 watches: %v", err)
	}
}
