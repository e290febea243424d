// Package profiles serves what Go knows of a process, and lets people look closer while it runs: profiles and traces at
// /debug/pprof/ (package net/http/pprof), and the verbosity of its log at /debug/flags/v.
package profiles

import (
	"io"
	"net/http"
	"net/http/pprof"
	"runtime"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
)

// Options are what may be profiled.
type Options struct {
	// On serves what Handlers makes.
	On bool
	// Contention has profiles tell where goroutines wait for each other, too, which slows the process down.
	Contention bool
}

// AddFlags binds upstream's flags; what o holds is their default.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.On, "profiling", o.On, "Serve profiles at /debug/pprof/.")
	fs.BoolVar(&o.Contention, "contention-profiling", o.Contention, "Profile what goroutines wait for, if --profiling.")
}

// Begin makes the process collect what is wanted, and returns handlers by path, none if nothing is to be served; a path
// that ends in "/" stands for all below it.
func (o Options) Begin() map[string]http.Handler {
	if !o.On {
		return nil
	}
	if o.Contention {
		runtime.SetBlockProfileRate(1)
	}
	return Handlers()
}

// Handlers returns what is served, by path.
func Handlers() map[string]http.Handler {
	return map[string]http.Handler{
		"/debug/flags":         http.HandlerFunc(listFlags),
		"/debug/flags/":        http.HandlerFunc(listFlags),
		"/debug/flags/v":       http.HandlerFunc(setVerbosity),
		"/debug/pprof":         http.RedirectHandler("/debug/pprof/", http.StatusFound),
		"/debug/pprof/":        http.HandlerFunc(pprof.Index),
		"/debug/pprof/profile": http.HandlerFunc(pprof.Profile),
		"/debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"/debug/pprof/trace":   http.HandlerFunc(pprof.Trace),
	}
}

// listFlags tells which flags can be changed while the process runs.
func listFlags(w http.ResponseWriter, _ *http.Request) {
	_,
		_ = io.WriteString(w,
		"<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n"+
			"<table>\n<tr>v<br>\n</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n")
}

// setVerbosity changes --v.
func setVerbosity(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	code, text := http.StatusOK, ""
	switch body, err := io.ReadAll(io.LimitReader(r.Body, maxVerbosity)); {
	case r.Method != http.MethodPut:
		code, text = http.StatusNotAcceptable, "unsupported http method"
	case err != nil:
		code, text = http.StatusBadRequest, "error reading request body: "+err.Error()
	default:
		if text, err = logs.GlogSetter(string(body)); err != nil {
			code, text = http.StatusBadRequest, err.Error()
		}
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}

// maxVerbosity is more than the longest number takes, in bytes.
const maxVerbosity = 64
