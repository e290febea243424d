package health

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// checks are one of each kind; those that are named fail.
func checks(failing ...string) []Check {
	var out []Check
	for _, c := range []Check{{Name: "etcd"}, {Name: "poststarthook/a", Group: "hooks"},
		{Name: "poststarthook/b", Group: "hooks"}} {
		c.Probe = func(*http.Request) error { return nil }
		for _, name := range failing {
			if name == c.Name {
				c.Probe = func(*http.Request) error { return errors.New("password is wrong") }
			}
		}
		out = append(out, c)
	}
	return out
}

func get(handler http.Handler, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

func TestWhole(t *testing.T) {
	const (
		etcd, a, b = "[+]etcd ok\n", "[+]poststarthook/a ok\n", "[+]poststarthook/b ok\n"
		etcdFailed = "[-]etcd failed: reason withheld\n"
		unknown    = `warn: some health checks cannot be excluded: no matches for "x","y"` + "\n"
		groupOut   = "[+]poststarthook/a excluded with hooks: ok\n[+]poststarthook/b excluded with hooks: ok\n"
		passed     = "livez check passed\n"
		failed     = "livez check failed\n"
	)
	for name, test := range map[string]struct {
		failing, query string
		code           int
		want           string
	}{
		"all pass":               {"", "", 200, "ok"},
		"all pass, told each":    {"", "?verbose", 200, etcd + a + b + passed},
		"failures are told each": {"etcd", "", 500, etcdFailed + a + b + failed},
		"failure excluded":       {"etcd", "?exclude=etcd", 200, "ok"},
		"failure excluded, told": {"etcd", "?exclude=etcd&verbose=1", 200, "[+]etcd excluded: ok\n" + a + b + passed},
		"group excluded":         {"poststarthook/b", "?exclude=hooks&verbose", 200, etcd + groupOut + passed},
		"another one is excluded": {"etcd", "?exclude=poststarthook/a", 500,
			etcdFailed + "[+]poststarthook/a excluded: ok\n" + b + failed},
		"unknown, in order":     {"", "?exclude=y&exclude=x&verbose", 200, etcd + a + b + unknown + passed},
		"unknown excludes none": {"etcd", "?exclude=x&exclude=y", 500, etcdFailed + a + b + unknown + failed},
		"unknown, not told":     {"", "?exclude=x", 200, "ok"},
	} {
		w := get(Handlers("livez", checks(test.failing)...)["/livez"], "/livez"+test.query)
		if w.Code != test.code || w.Body.String() != test.want {
			t.Errorf("%s: %d %q, want %d %q", name, w.Code, w.Body, test.code, test.want)
		}
		if h := w.Header(); h.Get("Content-Type") != "text/plain; charset=utf-8" ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: headers %v", name, h)
		}
	}
}

// TestSingle: one check by its name tells its reason, which needs the right to that path.
func TestSingle(t *testing.T) {
	handlers := Handlers("readyz", checks("etcd")...)
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/readyz/etcd":            {500, "internal server error: password is wrong\n"},
		"/readyz/poststarthook/a": {200, "ok"},
	} {
		if w := get(handlers[path], path); w.Code != want.code || w.Body.String() != want.body {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
	if len(handlers) != 4 {
		t.Errorf("%d paths", len(handlers))
	}
}

// TestGrowing: checks that come later count, and a program without any answers.
func TestGrowing(t *testing.T) {
	var now []Check
	handler := Growing("healthz", func() []Check { return now })
	if w := get(handler, "/healthz?verbose"); w.Code != 200 || w.Body.String() != "[+]ping ok\nhealthz check passed\n" {
		t.Errorf("without checks: %d %q", w.Code, w.Body)
	}
	now = checks("etcd")
	if w := get(handler, "/healthz"); w.Code != 500 {
		t.Errorf("with a check that fails: %d %q", w.Code, w.Body)
	}
}
