package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/inprocess"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(h http.HandlerFunc) *http.Client {
	return &http.Client{Transport: &inprocess.Transport{Handler: h, User: &user.DefaultInfo{Name: "system:apiserver"}}}
}

func TestRequest(t *testing.T) {
	type outer struct{}
	c := client(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u, _ := request.UserFrom(r.Context())
		w.Header().Set("X-Kind", "test")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-Late", "too late")
		_, _ = fmt.Fprintf(w, "%s %s %s %s %v", r.Method, r.RequestURI, body, u.GetName(), r.Context().Value(outer{}))
	})
	ctx := context.WithValue(request.WithUser(context.Background(), &user.DefaultInfo{Name: "alice"}), outer{}, "x")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://x/a?b=c", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if got, want := string(body), "POST /a?b=c body system:apiserver <nil>"; got != want || err != nil {
		t.Errorf("body %q, %v; want %q", got, err, want)
	}
	if response.StatusCode != http.StatusCreated || response.Header.Get("X-Kind") != "test" ||
		response.Header.Get("X-Late") != "" {
		t.Errorf("status %d, header %v", response.StatusCode, response.Header)
	}
}

// TestBaseContext: requests have the values that the server was started with, whose end is not theirs.
func TestBaseContext(t *testing.T) {
	type key struct{}
	var got string
	transport := &inprocess.Transport{User: &user.DefaultInfo{Name: "system:apiserver"},
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = fmt.Sprint(r.Context().Value(key{}), " ", r.Context().Err())
		})}
	ask := func() string {
		response, err := (&http.Client{Transport: transport}).Get("https://x/")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return got
	}
	if got := ask(); got != "<nil> <nil>" {
		t.Errorf("before: %s", got)
	}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "logger"))
	transport.SetBaseContext(ctx)
	cancel()
	if got := ask(); got != "logger <nil>" {
		t.Errorf("after: %s", got)
	}
}

// A response without a body can be over before it is read.
func TestShortResponse(t *testing.T) {
	c := client(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for range 2000 {
		response, err := c.Get("https://x/")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(response.Body); err != nil || response.StatusCode != http.StatusNoContent {
			t.Fatalf("status %d, %v", response.StatusCode, err)
		}
		_ = response.Body.Close()
	}
}

func TestStream(t *testing.T) {
	next, ended := make(chan string), make(chan struct{})
	c := client(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		for {
			select {
			case text := <-next:
				_, _ = io.WriteString(w, text)
			case <-r.Context().Done():
				return
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://x/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r) // there before anything was written
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for _, text := range []string{"one", "two"} {
		next <- text
		got := make([]byte, 3)
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != text {
			t.Fatalf("read %q, %v", got, err)
		}
	}
	cancel()
	<-ended
	if _, err := response.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("read after the end: %v", err)
	}
}

func TestCloseEndsTheHandler(t *testing.T) {
	ended := make(chan struct{})
	c := client(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for {
			if _, err := io.WriteString(w, "more"); err != nil {
				break
			}
		}
		<-r.Context().Done()
	})
	response, err := c.Get("https://x/")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	<-ended
}

func TestCut(t *testing.T) {
	c := client(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	response, err := c.Get("https://x/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err := io.ReadAll(response.Body); err == nil || string(body) != "half" {
		t.Errorf("read %q, %v; want an error", body, err)
	}
}

func TestNoHandlerYet(t *testing.T) {
	response, err := (&http.Client{Transport: &inprocess.Transport{}}).Get("https://x/")
	if err == nil {
		_ = response.Body.Close()
		t.Fatal("an answer of nobody")
	}
}
