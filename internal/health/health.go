// Package health answers whether a program is well, as a whole and by named checks
// (https://kubernetes.io/docs/reference/using-api/health-checks/).
package health

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics/prometheus/slis"
)

// Check is one named condition of health.
type Check struct {
	Name string
	// Group is another name that the check can be excluded by, together with others of its kind; "" for none.
	Group string
	// Probe tells what is wrong, or nil. It is called with every request, and must be quick.
	Probe func(r *http.Request) error
}

// Ping is the check of components without other checks.
func Ping() Check { return Check{Name: "ping", Probe: func(*http.Request) error { return nil }} }

// Handlers serves checks under a name, /name whole and /name/check each; the answers of the whole count as SLIs of the
// process
// (https://kubernetes.io/docs/reference/instrumentation/slis/).
func Handlers(name string, checks ...Check) map[string]http.Handler {
	handlers := map[string]http.Handler{"/" + name: Growing(name, func() []Check { return checks })}
	for _, c := range checks {
		handlers["/"+name+"/"+c.Name] = single(c)
	}
	return handlers
}

// Growing serves checks that come to be while a program starts, as a whole. While there are none, it is a ping.
func Growing(name string, checks func() []Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := checks()
		if len(now) == 0 {
			now = []Check{Ping()}
		}
		whole(name, now)(w, r)
	})
}

func single(c Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := c.Probe(r); err != nil {
			http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, "ok")
	}
}

func plain(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

func whole(name string, checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		excluded := sets.New(query["exclude"]...)
		unknown := excluded.Clone()
		var report strings.Builder
		failed := false
		for _, c := range checks {
			if excluded.Has(c.Name) {
				unknown.Delete(c.Name)
				fmt.Fprintf(&report, "[+]%s excluded: ok\n", c.Name)
				continue
			}
			if c.Group != "" && excluded.Has(c.Group) {
				unknown.Delete(c.Group)
				fmt.Fprintf(&report, "[+]%s excluded with %s: ok\n", c.Name, c.Group)
				continue
			}
			if err := c.Probe(r); err != nil {
				slis.ObserveHealthcheck(r.Context(), c.Name, name, slis.Error)
				// The reason goes to the log: this page may be public.
				fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", c.Name)
				failed = true
				continue
			}
			slis.ObserveHealthcheck(r.Context(), c.Name, name, slis.Success)
			fmt.Fprintf(&report, "[+]%s ok\n", c.Name)
		}
		if len(unknown) > 0 {
			quoted := make([]string, 0, len(unknown))
			for _, e := range sets.List(unknown) {
				quoted = append(quoted, fmt.Sprintf("%q", e))
			}
			fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n",
				strings.Join(quoted, ","))
		}
		plain(w)
		if failed {
			http.Error(w, fmt.Sprintf("%s%s check failed", report.String(), name), http.StatusInternalServerError)
			return
		}
		if _, verbose := query["verbose"]; !verbose {
			fmt.Fprint(w, "ok")
			return
		}
		fmt.Fprintf(w, "%s%s check passed\n", report.String(), name)
	}
}
