// Package zpages serves the debugging pages of a program: /statusz with its uptime and versions, and /flagz with its
// command line flags (KEP-4827, KEP-4828). Both are text, or an object for clients that accept its kind.
package zpages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"sigs.k8s.io/yaml"

	"quintet.dev/quintet/internal/release"
)

// The paths.
const (
	StatusPath = "/statusz"
	FlagsPath  = "/flagz"
)

// Program is what the pages tell of.
type Program struct {
	// Name as the pages have it, which is not always that of the file ("apiserver").
	Name string
	// Started is when.
	Started time.Time
	// GoVersion, Version ("1.36.3") and Emulation ("1.36") are what it was built with, what it is, and what it behaves
	// as; an empty Emulation is omitted.
	GoVersion, Version, Emulation string
	// Paths lists all that the program serves.
	Paths func() []string
	// Flags are those of the command line with their values.
	Flags func() map[string]string
	// Now is the time.
	Now func() time.Time
	// CBOR tells that objects come in this form, too.
	CBOR bool
	// Refuse answers a request for a form that a page doesn't have (406), of which it has those known; nil does so in
	// JSON.
	Refuse func(w http.ResponseWriter, r *http.Request, known []string)
}

// New returns the pages of this program, with its build information and the current time as its start. Set Paths.
func New(name string, now func() time.Time, flags func() map[string]string) *Program {
	v := release.Get()
	return &Program{
		Name: name, Started: now(), Now: now, Flags: flags,
		GoVersion: runtime.Version(), Version: strings.TrimPrefix(v.GitVersion, "v"),
		Emulation: v.Major + "." + v.Minor,
	}
}

// Flags reads the values of flags when it is called.
func Flags(fs *pflag.FlagSet) func() map[string]string {
	return func() map[string]string {
		out := map[string]string{}
		fs.VisitAll(func(f *pflag.Flag) { out[f.Name] = f.Value.String() })
		return out
	}
}

// refuse answers in JSON, whatever the client accepts.
func (p *Program) refuse(w http.ResponseWriter, r *http.Request, known []string) {
	if p.Refuse != nil {
		p.Refuse(w, r, known)
		return
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Reason:  metav1.StatusReasonNotAcceptable,
		Code:    http.StatusNotAcceptable,
		Message: "only the following media types are accepted: " + strings.Join(known, ", "),
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotAcceptable)
	_ = json.NewEncoder(w).Encode(status)
}

// object is what a page answers with; of the page, Statusz or Flagz, only one's fields are set.
type object struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
	*status         `json:",inline"`
	*flags          `json:",inline"`
}

type metadata struct {
	Name string `json:"name"`
}

type status struct {
	StartTime        metav1.Time `json:"startTime"`
	UptimeSeconds    int64       `json:"uptimeSeconds"`
	GoVersion        string      `json:"goVersion"`
	BinaryVersion    string      `json:"binaryVersion"`
	EmulationVersion string      `json:"emulationVersion,omitempty"`
	Paths            []string    `json:"paths"`
}

type flags struct {
	Flags map[string]string `json:"flags,omitempty"`
}

// delimiters stand between names and values. Which one it is changes from answer to answer, so that no program comes to
// depend on the text.
var delimiters = []string{":", ": ", "=", " "}

// Status is the page at StatusPath.
func (p *Program) Status() http.Handler {
	return &page{program: p, kind: "Statusz", text: p.statusText, fill: func(o *object) { o.status = p.status() }}
}

// CommandLine is the page at FlagsPath.
func (p *Program) CommandLine() http.Handler {
	return &page{program: p, kind: "Flagz", text: p.flagsText, fill: func(o *object) { o.flags = &flags{p.Flags()} }}
}

func (p *Program) status() *status {
	return &status{
		StartTime:     metav1.NewTime(p.Started.Truncate(time.Second)),
		UptimeSeconds: max(0, int64(p.Now().Sub(p.Started)/time.Second)),
		GoVersion:     p.GoVersion, BinaryVersion: p.Version, EmulationVersion: p.Emulation,
		Paths: debugging(p.Paths()),
	}
}

// debugging are the first elements of the paths of debugging endpoints.
func debugging(paths []string) []string {
	found := map[string]bool{}
	for _, path := range paths {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		switch first {
		case "", "api", "apis", "openid", "openapi", ".well-known":
		default:
			found["/"+first] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func (p *Program) head(out *bytes.Buffer, page string) {
	fmt.Fprintf(out,
		"\n%s %s\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility "+
			"guarantees and is for debugging purposes only.\n", p.Name, page)
}

func (p *Program) statusText(out *bytes.Buffer) {
	s := p.status()
	between := delimiters[rand.N(len(delimiters))]
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "%s%s %s", name, between, value)
		}
		out.WriteByte('\n')
	}
	p.head(out, "statusz")
	out.WriteByte('\n')
	line("Started", s.StartTime.Format(time.UnixDate))
	line("Up", fmt.Sprintf("%d hr %02d min %02d sec", s.UptimeSeconds/3600, s.UptimeSeconds/60%60, s.UptimeSeconds%60))
	line("Go version", s.GoVersion)
	line("Binary version", s.BinaryVersion)
	line("Emulation version", s.EmulationVersion)
	line("Paths", strings.Join(s.Paths, " "))
}

func (p *Program) flagsText(out *bytes.Buffer) {
	given := p.Flags()
	between := delimiters[rand.N(len(delimiters))]
	p.head(out, "flagz")
	for _, name := range slices.Sorted(maps.Keys(given)) {
		fmt.Fprintf(out, "%s%s%s\n", name, between, given[name])
	}
}

// page serves one of them, by any method.
type page struct {
	program *Program
	kind    string
	text    func(out *bytes.Buffer)
	fill    func(o *object)
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	choice, ok := choose(r.Header.Get("Accept"), p.kind, p.program.CBOR)
	if !ok {
		p.program.refuse(w, r, forms(p.program.CBOR))
		return
	}
	if choice.form == text {
		var out bytes.Buffer
		p.text(&out)
		w.Header().Set("Content-Type", text+"; charset=utf-8")
		_, _ = w.Write(out.Bytes())
		return
	}
	o := &object{TypeMeta: metav1.TypeMeta{Kind: p.kind, APIVersion: group + "/" + choice.version},
		Metadata: metadata{p.program.Name}}
	p.fill(o)
	body, err := encode(o, choice.form, Indented(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if choice.version == old {
		w.Header().Set("Warning",
			fmt.Sprintf(`299 - "This version of the %s endpoint is deprecated. Please use a newer version."`,
				strings.ToLower(p.kind)))
	}
	w.Header().Set("Content-Type", fmt.Sprintf("%s;g=%s;v=%s;as=%s", choice.form, group, choice.version, p.kind))
	_, _ = w.Write(body)
}

func encode(o *object, form string, indent bool) ([]byte, error) {
	switch {
	case form == cborForm:
		body, err := direct.Marshal(o)
		return append([]byte{0xd9, 0xd9, 0xf7}, body...), err
	case form == yamlForm:
		return yaml.Marshal(o)
	case indent:
		return json.MarshalIndent(o, "", "  ")
	}
	body, err := json.Marshal(o)
	return append(body, '\n'), err
}
