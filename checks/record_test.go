package checks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/checks"
	"quintet.dev/quintet/faults"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// TestRecorded: what clients of a recorded configuration do is linearizable, in all media types, also when replies are
// lost and requests are refused; nothing acknowledged is lost, watches are in order and informers equal a list.
func TestRecorded(t *testing.T) {
	config := apiServer(t)
	disturbed, _ := disturb(t, config, "jane", []faults.Rule{
		{Probability: 0.02, Match: faults.Match{Verbs: []string{"create", "update", "delete"}},
			Fault: faults.Fault{LoseReply: true}},
		{Probability: 0.1, Match: faults.Match{Verbs: []string{"update"}}, Fault: faults.Fault{Status: 409}},
		{Probability: 0.5, Match: faults.Match{Verbs: []string{"watch"}}, Fault: faults.Fault{Cut: true, Spread: 20}},
	}...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	informers, err := checks.StartInformers(ctx, disturbed, configMaps)
	if err != nil {
		t.Fatal(err)
	}
	defer informers.Wait()
	defer cancel()
	watching, stopWatching := context.WithCancel(ctx)
	ordered := make(chan error, 1)
	go func() {
		ordered <- checks.WatchOrder(watching, resource(t, disturbed), resource(t, config))
	}()
	history, acknowledged := checks.NewHistory(), &checks.Acknowledged{}
	var running sync.WaitGroup
	for i, media := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/json"} {
		client := rest.CopyConfig(disturbed)
		client.ContentType = media
		objects, err := objectsOf(acknowledged.Record(history.Record(client)))
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { work(ctx, objects, i) })
	}
	running.Wait()
	if err := checks.Linearizable(history.Operations(), time.Minute); err != nil {
		t.Error(err)
	}
	if n := len(history.Operations()); n < 300 {
		t.Errorf("%d operations are recorded", n)
	}
	if lost, err := acknowledged.Lost(ctx, config); err != nil || len(lost) > 0 || acknowledged.Len() == 0 {
		t.Errorf("lost %v, %v, of %d", lost, err, acknowledged.Len())
	}
	if err := informers.Equal(ctx, config); err != nil {
		t.Error(err)
	}
	stopWatching()
	if err := <-ordered; err != nil {
		t.Error(err)
	}
}

func resource(t *testing.T, config *rest.Config) dynamic.ResourceInterface {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Error(err)
		return nil
	}
	return client.Resource(configMaps).Namespace(space)
}

// work makes requests of all verbs; errors are part of the history.
func work(ctx context.Context, objects typedv1.ConfigMapInterface, worker int) {
	for i := range 60 {
		name := fmt.Sprintf("contended-%d", i%3+i/30*3)
		obj, err := objects.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			_, _ = objects.Create(ctx, named(name), metav1.CreateOptions{})
			continue
		}
		switch (i + worker) % 5 {
		case 0, 1:
			_, _ = objects.Update(ctx, incremented(obj), metav1.UpdateOptions{})
		case 2:
			_, _ = objects.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"data":{"n%d":"%d"}}`, worker, i),
				metav1.PatchOptions{})
		case 3:
			_, _ = objects.Apply(ctx, applycorev1.ConfigMap(name, space).WithData(map[string]string{
				fmt.Sprint("by", worker): fmt.Sprint(i)}), metav1.ApplyOptions{FieldManager: fmt.Sprint("worker", worker)})
		default:
			_ = objects.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
				ResourceVersion: &obj.ResourceVersion}})
		}
		generated := named("")
		generated.GenerateName = "generated-"
		if i%10 == 0 {
			_, _ = objects.Create(ctx, generated, metav1.CreateOptions{})
		}
	}
}

// broken is an API server's transport that breaks its promises.
type broken struct {
	next  http.RoundTripper
	mu    sync.Mutex
	first []byte // the first answer to a read
	mode  string
}

func (b *broken) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.mode == "lost" && r.Method == http.MethodPut { // a write that is answered and not carried out
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		text := strings.Replace(string(body), `"resourceVersion":"`, `"resourceVersion":"9`, 1)
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
	}
	response, err := b.next.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet || response.StatusCode != 200 || b.mode != "stale" {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == nil {
		b.first = body
	}
	response.Body = io.NopCloser(strings.NewReader(string(b.first)))
	return response, nil
}

// TestBrokenServerIsFound: a server that reads from the past, and one that loses writes.
func TestBrokenServerIsFound(t *testing.T) {
	config := apiServer(t)
	for _, mode := range []string{"", "stale", "lost"} {
		t.Run("mode "+mode, func(t *testing.T) {
			wrong := rest.CopyConfig(config)
			wrong.ContentType, wrong.AcceptContentTypes = "application/json", "application/json"
			wrong.Wrap(func(next http.RoundTripper) http.RoundTripper { return &broken{next: next, mode: mode} })
			history, acknowledged := checks.NewHistory(), &checks.Acknowledged{}
			objects, err := objectsOf(acknowledged.Record(history.Record(wrong)))
			if err != nil {
				t.Fatal(err)
			}
			name := "promised-" + mode + "x"
			if _, err := objects.Create(t.Context(), named(name), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				obj, err := objects.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				obj.ResourceVersion = map[bool]string{true: obj.ResourceVersion}[mode == "lost"]
				if _, err := objects.Update(t.Context(), incremented(obj), metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			err = checks.Linearizable(history.Operations(), time.Minute)
			if errors.Is(err, checks.ErrNotLinearizable) != (mode != "") {
				t.Errorf("%v", err)
			}
			lost, err := acknowledged.Lost(t.Context(), config)
			if err != nil || (len(lost) > 0) != (mode == "lost") {
				t.Errorf("lost %v, %v", lost, err)
			}
		})
	}
}
