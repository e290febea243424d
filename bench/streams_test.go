package bench

import (
	"context"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
)

func TestFollow(t *testing.T) {
	const number, each = 5, 100
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "watch=true" || r.Header.Get("Accept") != protobuf+";stream=watch" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		for range each {
			_, _ = w.Write(append(binary.BigEndian.AppendUint32(nil, 5000), make([]byte, 5000)...))
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	identity := server.Client().Transport.(*http.Transport).TLSClientConfig
	for query, want := range map[string]string{"watch=true": "", "watch=false": "status 404"} {
		target, err := url.Parse(server.URL + "/pods?" + query)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var begun, events atomic.Int64
		err = follow(ctx, identity, target, number, func() { begun.Add(1) }, func(n int) {
			if events.Add(int64(n)) == number*each {
				cancel()
			}
		})
		cancel()
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q, got %v", want, err)
			}
			continue
		}
		if begun.Load() != number || events.Load() != number*each {
			t.Errorf("%d began, %d events, %v", begun.Load(), events.Load(), err)
		}
	}
}
