package fleet

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"
)

// lines passes on what is written to it.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(bytes.Clone(line))
	return len(line), nil
}

// TestEventsLog: that an event can't be written is in the log of the kubelet that joined first.
func TestEventsLog(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no events", http.StatusBadRequest)
	}))
	defer server.Close()
	f := New(clock.RealClock{}, func() (*rest.Config, error) { return &rest.Config{Host: server.URL}, nil })
	log := make(lines, 10)
	leave, err := f.Join(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log)))))
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	f.Recorder("n").Event(&v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "a"}, v1.EventTypeNormal, "Pulled",
		"an image")
	select {
	case line := <-log:
		if !strings.Contains(line, "Server rejected event") {
			t.Errorf("logged %q", line)
		}
	case <-t.Context().Done():
		t.Error("nothing is logged")
	}
}
