package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// backend is an API server that counts writes, and whose watch delivers pods p0 to p5.
type backend struct {
	writes chan string
	*httptest.Server
}

func newBackend(t *testing.T) *backend {
	b := &backend{writes: make(chan string, 100)}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer real" {
			http.Error(w, "no credentials", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			if r.Method != http.MethodGet {
				b.writes <- r.Method
			}
			fmt.Fprintln(w, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}`)
			return
		}
		if r.Header.Get("Accept") != "application/json" && r.Header.Get("Accept") != "application/json,application/json" {
			t.Errorf("the watch asks for %s", r.Header.Get("Accept"))
		}
		for n := range 6 {
			fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p%d"}}}`+"\n", n)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}))
	b.EnableHTTP2 = true
	b.StartTLS()
	t.Cleanup(b.Close)
	return b
}

// through is a client that reaches the backend through a proxy with a plan.
func through(t *testing.T, b *backend, rules ...Rule) (kubernetes.Interface, *Injector) {
	t.Helper()
	i := injector(t, Plan{Seed: 1, Rules: rules})
	p, err := NewProxy(i)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	config, err := p.For("operator", &rest.Config{Host: b.URL, BearerToken: "real",
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, i
}

func on(verb string, f Fault) Rule { return Rule{Match: Match{Verbs: []string{verb}}, Fault: f} }

func TestRefusals(t *testing.T) {
	b := newBackend(t)
	client, i := through(t, b, on("update", Fault{Status: 409}), on("get", Fault{Status: 429, RetryAfter: 30}),
		on("list", Fault{Status: 410}), on("delete", Fault{Status: 503}))
	pods := client.CoreV1().Pods("ns")
	if _, err := pods.Update(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
		metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := pods.Get(short, "p", metav1.GetOptions{}); err == nil {
		t.Error("get is not refused") // the client waits for the Retry-After
	}
	if _, err := pods.List(t.Context(), metav1.ListOptions{}); !apierrors.IsResourceExpired(err) {
		t.Errorf("list: %v", err)
	}
	if err := pods.Delete(t.Context(), "p", metav1.DeleteOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("delete: %v", err)
	}
	if len(b.writes) > 0 {
		t.Error("a refused write was carried out")
	}
	if log := i.Log(); len(log) != 4 || log[0].User != "operator" || log[0].Resource != "pods" {
		t.Errorf("the log has %+v", log)
	}
}

// TestLostReply: the write is carried out once, and the client gets an error.
func TestLostReply(t *testing.T) {
	b := newBackend(t)
	client, _ := through(t, b, on("create", Fault{LoseReply: true}))
	_, err := client.CoreV1().Pods("ns").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
		metav1.CreateOptions{})
	if err == nil || len(b.writes) != 1 {
		t.Errorf("%v, after %d writes", err, len(b.writes))
	}
}

func TestDelay(t *testing.T) {
	b := newBackend(t)
	client, _ := through(t, b, on("get", Fault{Delay: metav1.Duration{Duration: 30 * time.Millisecond}}))
	began := time.Now()
	if _, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{}); err != nil ||
		time.Since(began) < 30*time.Millisecond {
		t.Errorf("%v, after %v", err, time.Since(began))
	}
}

// TestWatches: what a client sees of six events, under each fault of watches.
func TestWatches(t *testing.T) {
	b := newBackend(t)
	for name, c := range map[string]struct {
		fault Fault
		want  []string // of events, "" is the end
	}{
		"cut":       {Fault{Cut: true, After: 2}, []string{"p0", "p1", "InternalError"}},
		"410":       {Fault{Status: 410, After: 1}, []string{"p0", "Expired", ""}},
		"duplicate": {Fault{Duplicate: true, After: 4}, []string{"p0", "p1", "p2", "p3", "p4", "p4", "p5", "p5"}},
		"stall": {Fault{Stall: metav1.Duration{Duration: 20 * time.Millisecond}, After: 5},
			[]string{"p0", "p1", "p2", "p3", "p4", "p5"}},
		"stalls on": {Fault{Stall: metav1.Duration{Duration: time.Hour}, After: 1}, []string{"p0", "later"}},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := through(t, b, on("watch", c.fault))
			w, err := client.CoreV1().Pods("ns").Watch(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			var got []string
			for len(got) < len(c.want) {
				select {
				case e, open := <-w.ResultChan():
					if !open {
						got = append(got, "")
					} else if s, failed := e.Object.(*metav1.Status); failed {
						got = append(got, string(s.Reason))
					} else {
						got = append(got, e.Object.(*corev1.Pod).Name)
					}
				case <-time.After(200 * time.Millisecond):
					got = append(got, "later")
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	t.Run("cut at once", func(t *testing.T) {
		client, _ := through(t, b, on("watch", Fault{Cut: true}))
		if w, err := client.CoreV1().Pods("ns").Watch(t.Context(), metav1.ListOptions{}); err == nil {
			w.Stop()
			t.Error("the watch began")
		}
	})
}

// TestNames: the object that a create makes is known in every form of the body, which stays whole.
func TestNames(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}
	generated := pod.DeepCopy()
	generated.Name, generated.GenerateName = "", "p-"
	forms := map[string]func(*corev1.Pod) ([]byte, error){
		"application/json": func(p *corev1.Pod) ([]byte, error) { return json.Marshal(p) },
		"application/cbor": func(p *corev1.Pod) ([]byte, error) { return cbor.Marshal(p) },
		"application/vnd.kubernetes.protobuf": func(p *corev1.Pod) ([]byte, error) {
			return runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), p)
		},
		"application/yaml": func(*corev1.Pod) ([]byte, error) { return []byte("metadata:\n  name: p\n"), nil },
	}
	for form, encode := range forms {
		for want, obj := range map[string]*corev1.Pod{"p": pod, "p-": generated} {
			if form == "application/yaml" && want != "p" {
				continue
			}
			body, err := encode(obj)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/ns/pods", strings.NewReader(string(body)))
			r.Header.Set("Content-Type", form)
			k, ok := keyOf(r, "u")
			if rest, err := io.ReadAll(r.Body); !ok || k.Name != want || err != nil || string(rest) != string(body) {
				t.Errorf("%s: %+v, body of %d bytes, %v", form, k, len(rest), err)
			}
		}
	}
}

// FuzzNameIn: no body makes it panic, whatever form it is said to have.
func FuzzNameIn(f *testing.F) {
	f.Add([]byte("k8s\x00\x12\x05\x0a\x03\x0a\x01p"), "application/vnd.kubernetes.protobuf")
	f.Add([]byte(`{"metadata":{"name":"p"}}`), "application/json")
	f.Fuzz(func(_ *testing.T, body []byte, form string) { nameIn(body, form) })
}

// TestPassing: what is for no resource, and what is not authenticated.
func TestPassing(t *testing.T) {
	b := newBackend(t)
	client, i := through(t, b, Rule{Fault: Fault{Status: 500}})
	if _, err := client.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(t.Context()); err != nil {
		t.Error(err)
	}
	if len(i.Log()) > 0 {
		t.Errorf("a request for no resource is disturbed: %v", i.Log())
	}
	p, err := NewProxy(i)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	anonymous, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: p.ca}})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := anonymous.Get("https://" + p.address + "/api/v1/pods"); err != nil ||
		answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %v, %v", answer, err)
	}
}

// TestStreamsAreLines: events that come in pieces, or together, are counted as events.
func TestStreamsAreLines(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := httptest.NewRecorder()
	s := &stream{ResponseWriter: out, fault: Fault{Cut: true, After: 3}, ctx: ctx, cancel: cancel}
	for _, piece := range []string{"a", "\nb\n", "c", "c\nd\n"} {
		if _, err := s.Write([]byte(piece)); err != nil {
			if !errors.Is(err, errCut) {
				t.Error(err)
			}
			break
		}
	}
	scanner := bufio.NewScanner(out.Body)
	var got []string
	for scanner.Scan() {
		got = append(got, scanner.Text())
	}
	if !slices.Equal(got, []string{"a", "b", "cc"}) || ctx.Err() == nil {
		t.Errorf("%q, %v", got, ctx.Err())
	}
}
