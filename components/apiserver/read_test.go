package apiserver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

func TestPages(t *testing.T) {
	client := start(t).client(t)
	maps := client.CoreV1().ConfigMaps("default")
	for i := range 7 {
		create(t, client, configMap(fmt.Sprintf("m%d", i), nil))
	}
	page, err := maps.List(t.Context(), metav1.ListOptions{Limit: 3})
	if err != nil || len(page.Items) != 3 || page.Continue == "" || page.RemainingItemCount == nil ||
		*page.RemainingItemCount != 4 {
		t.Fatalf("first page: %+v, %v", page.ListMeta, err)
	}
	first := page.ResourceVersion
	create(t, client, configMap("m3a", nil)) // must not show: pages are of one moment
	var names []string
	for page.Continue != "" {
		if page, err = maps.List(t.Context(), metav1.ListOptions{Limit: 3, Continue: page.Continue}); err != nil {
			t.Fatal(err)
		}
		if page.ResourceVersion != first {
			t.Errorf("a page of version %s follows one of %s", page.ResourceVersion, first)
		}
		for _, cm := range page.Items {
			names = append(names, cm.Name)
		}
	}
	if got := fmt.Sprint(names); got != "[m3 m4 m5 m6]" {
		t.Errorf("the other pages: %s", got)
	}
	if _, err := maps.List(t.Context(),
		metav1.ListOptions{Limit: 3, Continue: "nonsense"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a continue token that is none: %v", err)
	}
}

func TestSelectors(t *testing.T) {
	f := start(t, withoutServiceAccounts)
	client := f.client(t)
	cm := configMap("a", nil)
	cm.Labels = map[string]string{"x": "1"}
	create(t, client, cm)
	create(t, client, configMap("b", nil))
	count := func(o metav1.ListOptions) int {
		l, err := client.CoreV1().ConfigMaps("").List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return len(l.Items)
	}
	if n := count(metav1.ListOptions{LabelSelector: "x in (1,2)"}); n != 1 {
		t.Errorf("label selector: %d", n)
	}
	if n := count(metav1.ListOptions{FieldSelector: "metadata.name=b,metadata.namespace=default"}); n != 1 {
		t.Errorf("field selector: %d", n)
	}
	for _, p := range []*corev1.Pod{pod("p1", "n1"), pod("p2", "n2")} {
		if _, err := client.CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n2"})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Name != "p2" {
		t.Errorf("by node: %v, %v", pods, err)
	}
}

// next is the next event but bookmarks.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatal("the watch ended")
			}
			if e.Type != watch.Bookmark {
				return e
			}
		case <-time.After(time.Minute):
			t.Fatal("no event")
		}
	}
}

func TestWatch(t *testing.T) {
	f := start(t)
	for _, format := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(format, func(t *testing.T) {
			config := f.as("admin")
			config.ContentType, config.AcceptContentTypes = format, format
			client := f.clientOf(t, config)
			maps := client.CoreV1().ConfigMaps("default")
			before, err := maps.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			cm := create(t, client, configMap("w", nil))
			if e := next(t, w); e.Type != watch.Added ||
				e.Object.(*corev1.ConfigMap).ResourceVersion != cm.ResourceVersion {
				t.Errorf("got %v", e)
			}
			cm.Data = map[string]string{"a": "b"}
			if cm, err = maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			if e := next(t, w); e.Type != watch.Modified || e.Object.(*corev1.ConfigMap).Data["a"] != "b" {
				t.Errorf("got %v", e)
			}
			if err := maps.Delete(t.Context(), "w", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			gone := next(t, w)
			if gone.Type != watch.Deleted || gone.Object.(*corev1.ConfigMap).ResourceVersion == cm.ResourceVersion {
				t.Errorf("got %v", gone)
			}
			w.Stop()
			resumed, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: cm.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer resumed.Stop()
			if e := next(t, resumed); e.Type != watch.Deleted {
				t.Errorf("resumed: got %v", e)
			}
		})
	}
}

func TestWatchListSendsWhatExistsAndThenABookmark(t *testing.T) {
	client := start(t).client(t)
	create(t, client, configMap("a", nil))
	yes := true
	w, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, want := range []watch.EventType{watch.Added, watch.Bookmark} {
		e, ok := <-w.ResultChan()
		if !ok || e.Type != want {
			t.Fatalf("got %v, want %s", e, want)
		}
		cm := e.Object.(*corev1.ConfigMap)
		if want == watch.Bookmark &&
			(cm.Annotations[metav1.InitialEventsAnnotationKey] != "true" || cm.ResourceVersion == "") {
			t.Errorf("bookmark %+v", cm.ObjectMeta)
		}
	}
}

func TestWatchRefusals(t *testing.T) {
	client := start(t).client(t)
	yes := true
	_, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{SendInitialEvents: &yes})
	if !apierrors.IsInvalid(err) {
		t.Errorf("sendInitialEvents without resourceVersionMatch: %v", err)
	}
}

// raw asks with an Accept header of its own.
func raw(t *testing.T, client kubernetes.Interface, accept, path string) ([]byte, error) {
	t.Helper()
	return client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", accept).Do(t.Context()).Raw()
}

func TestTable(t *testing.T) {
	f := start(t)
	client := f.client(t)
	create(t, client, configMap("a", map[string]string{"x": "1"}))
	const accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/a"} {
		table := &metav1.Table{}
		if err := client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept",
			accept).Do(t.Context()).Into(table); err != nil {
			t.Fatal(err)
		}
		if len(table.Rows) != 1 || len(table.ColumnDefinitions) != 3 || table.Rows[0].Cells[0] != "a" ||
			table.ResourceVersion == "" {
			t.Errorf("%s: %+v", path, table)
		}
	}
	if _, err := raw(t, client, "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
		"/api/v1/namespaces/default/configmaps"); !apierrors.IsNotAcceptable(err) {
		t.Errorf("a table as protobuf: %v", err)
	}
}

func TestPartialMetadata(t *testing.T) {
	f := start(t)
	create(t, f.client(t), configMap("a", map[string]string{"x": "1"}))
	for _, format := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		config := rest.CopyConfig(f.as("admin"))
		config.ContentType, config.AcceptContentTypes = format, format
		client, err := metadata.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
		list, err := maps.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != "a" {
			t.Errorf("%s: %+v, %v", format, list, err)
		}
		if one, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || one.UID == "" {
			t.Errorf("%s: %+v, %v", format, one, err)
		}
	}
}
