package faults

import (
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Path is where a Filter is read and set: GET answers with what was injected, as a list of Injected, and PUT takes a
// Plan, of which all counting begins.
const Path = "/faults"

// planRoom bounds a plan, in bytes.
const planRoom = 1 << 20

// Filter disturbs the requests to an API server from inside, where their users are known: components and pods are
// reached as well as clients. It stands behind authorization, which also guards Path. It disturbs nothing until it is
// given a plan, and may be used concurrently. The zero value is ready for use.
type Filter struct {
	current atomic.Pointer[Injector]
}

// Wrap puts the filter before next, which serves authenticated and authorized requests.
func (f *Filter) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == Path {
			f.serve(w, r)
			return
		}
		i := f.current.Load()
		if i == nil {
			next.ServeHTTP(w, r)
			return
		}
		i.Handler(userOf, next).ServeHTTP(w, r)
	})
}

// Flag is the flag of programs that can be disturbed.
type Flag struct{ on bool }

// With adds the flag to those of a program.
func (f *Flag) With(add func(*pflag.FlagSet)) func(*pflag.FlagSet) {
	return func(fs *pflag.FlagSet) {
		add(fs)
		fs.BoolVar(&f.on, "fault-injection", false, "Let administrators disturb requests, for tests: PUT a plan of "+
			"faults to "+Path+", GET there what was injected.")
	}
}

// Filter returns a filter, or nil if the flag isn't set.
func (f *Flag) Filter() func(http.Handler) http.Handler {
	if !f.on {
		return nil
	}
	return (&Filter{}).Wrap
}

func userOf(r *http.Request) string {
	if u, ok := request.UserFrom(r.Context()); ok {
		return u.GetName()
	}
	return ""
}

func (f *Filter) serve(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		log := []Injected{}
		if i := f.current.Load(); i != nil {
			log = append(log, i.Log()...)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(log) // to a client that may be gone
	case http.MethodPut:
		text, err := io.ReadAll(io.LimitReader(r.Body, planRoom))
		if err != nil {
			return // the client is gone
		}
		plan, err := Load("plan", text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		i, err := New(plan)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if len(plan.Rules) == 0 {
			i = nil // requests pass unread
		}
		f.current.Store(i)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, PUT")
		http.Error(w, "GET what was injected, or PUT a plan", http.StatusMethodNotAllowed)
	}
}
