// Package faults disturbs the traffic between clients and an API server, on purpose and replayably: delays, refusals
// (409, 410, 429, 5xx), lost replies of writes that were carried out, watches that are cut, stall, or deliver twice.
//
// Which requests are disturbed is decided by a hash of a seed, the user, the verb, the object and how often that user
// did the same before, so that the same seed disturbs the same requests whatever the timing. An Injector is a filter
// before any http.Handler; Proxy puts it before any API server.
package faults

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/internal/strictyaml"
)

// Plan is a seed and the rules that it decides about.
type Plan struct {
	Seed  uint64 `json:"seed"`
	Rules []Rule `json:"rules"`
}

// Rule disturbs the requests that it matches. Of several that match and strike, the first counts.
type Rule struct {
	// Name is the rule's in the log and in errors; "" is its place in the list.
	Name string `json:"name,omitempty"`
	// Match says which requests; an empty one matches all requests for resources.
	Match Match `json:"match,omitempty"`
	// Probability is the part of the matching requests that is disturbed, above 0 and at most 1; 0 is all of them.
	Probability float64 `json:"probability,omitempty"`
	// Times is how often a user's requests of one verb for one object are disturbed at most; 0 is any number.
	Times int `json:"times,omitempty"`
	// Fault is what happens.
	Fault Fault `json:"fault"`
}

// Match selects requests. Each list holds patterns of path.Match, of which one must match; an empty list matches all.
type Match struct {
	// Users are names of users: as the server authenticated them, or those that a proxy gave its clients.
	Users []string `json:"users,omitempty"`
	// Verbs are those of authorization: get, list, watch, create, update, patch, delete, deletecollection.
	Verbs []string `json:"verbs,omitempty"`
	// Resources are RESOURCE.GROUP, RESOURCE of the core group, and RESOURCE.GROUP/SUBRESOURCE.
	Resources  []string `json:"resources,omitempty"`
	Namespaces []string `json:"namespaces,omitempty"`
	Names      []string `json:"names,omitempty"`
}

// Fault is what happens to a request; Delay goes with any other, which exclude each other.
type Fault struct {
	// Delay is how long the request waits before anything else.
	Delay metav1.Duration `json:"delay,omitzero"`
	// Status answers with an error of this HTTP status code, and the request is not carried out. In the middle of a
	// watch (After is above 0) it is the code of an ERROR event, which ends it.
	Status int `json:"status,omitempty"`
	// RetryAfter is what an answer of 429 or 503 asks for, in seconds.
	RetryAfter int `json:"retryAfter,omitempty"`
	// LoseReply carries the request out and closes the connection without an answer. It strikes no watches.
	LoseReply bool `json:"loseReply,omitempty"`
	// Cut ends a watch after some events as if the connection broke.
	Cut bool `json:"cut,omitempty"`
	// Stall keeps back what follows in a watch after some events, for this long: the client's view is stale.
	Stall metav1.Duration `json:"stall,omitzero"`
	// Duplicate delivers each event of a watch twice, once it has delivered some.
	Duplicate bool `json:"duplicate,omitempty"`
	// After is the number of events that a watch delivers undisturbed, and Spread how many more it may be, by the seed.
	After  int `json:"after,omitempty"`
	Spread int `json:"spread,omitempty"`
}

// ofWatches tells whether a fault disturbs the stream of a watch rather than the request for it.
func (f Fault) ofWatches() bool {
	return f.Cut || f.Duplicate || f.Stall.Duration > 0 || f.Status != 0 && f.After+f.Spread > 0
}

// String is the fault in a word or two.
func (f Fault) String() string {
	var parts []string
	if f.Delay.Duration > 0 {
		parts = append(parts, fmt.Sprintf("delay %v", f.Delay.Duration))
	}
	switch {
	case f.Status != 0:
		parts = append(parts, fmt.Sprint(f.Status))
	case f.LoseReply:
		parts = append(parts, "lost reply")
	case f.Cut:
		parts = append(parts, "cut")
	case f.Stall.Duration > 0:
		parts = append(parts, fmt.Sprintf("stall %v", f.Stall.Duration))
	case f.Duplicate:
		parts = append(parts, "duplicate")
	}
	return strings.Join(parts, ", ")
}

// Load reads a plan from YAML or JSON. Errors name the file, the line and the field of each mistake.
func Load(file string, text []byte) (Plan, error) {
	var p Plan
	document, err := strictyaml.Decode(file, text, &p)
	if err != nil {
		return p, err
	}
	var errs []error
	for _, m := range p.Mistakes() {
		errs = append(errs, document.At(m.Path, m.Err))
	}
	return p, errors.Join(errs...)
}

// Mistake is what is wrong with one field of a plan.
type Mistake struct {
	Path string // e.g. rules[0].fault.status
	Err  error
}

// Mistakes are the first of each rule.
func (p Plan) Mistakes() []Mistake {
	var mistakes []Mistake
	for i, r := range p.Rules {
		if field, err := r.validate(); err != nil {
			mistakes = append(mistakes, Mistake{Path: fmt.Sprintf("rules[%d].%s", i, field), Err: err})
		}
	}
	return mistakes
}

// Validate checks the rules.
func (p Plan) Validate() error {
	var errs []error
	for _, m := range p.Mistakes() {
		errs = append(errs, fmt.Errorf("%s: %w", m.Path, m.Err))
	}
	return errors.Join(errs...)
}

func (r Rule) name(i int) string { return cmp.Or(r.Name, fmt.Sprintf("rule %d", i)) }

// validate returns the field that is wrong, if one is.
func (r Rule) validate() (field string, err error) {
	if !(r.Probability >= 0 && r.Probability <= 1) {
		return "probability", fmt.Errorf("%v is not between 0 and 1", r.Probability)
	}
	if r.Times < 0 {
		return "times", fmt.Errorf("%d is below 0", r.Times)
	}
	for _, list := range []struct {
		field    string
		patterns []string
	}{{"users", r.Match.Users}, {"verbs", r.Match.Verbs}, {"resources", r.Match.Resources},
		{"namespaces", r.Match.Namespaces}, {"names", r.Match.Names}} {
		for i, pattern := range list.patterns {
			if _, err := path.Match(pattern, ""); err != nil {
				return fmt.Sprintf("match.%s[%d]", list.field, i), fmt.Errorf("%q: %w", pattern, err)
			}
		}
	}
	if err := r.validateVerbs(); err != nil {
		return "match.verbs", err
	}
	if field, err := r.Fault.validate(); err != nil {
		return strings.TrimSuffix("fault."+field, "."), err
	}
	return "", nil
}

// verbs are those of requests for resources.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// validateVerbs refuses what could never match.
func (r Rule) validateVerbs() error {
	for _, pattern := range r.Match.Verbs {
		if !slices.ContainsFunc(verbs, func(verb string) bool { return one([]string{pattern}, verb) }) {
			return fmt.Errorf("%q is none of %s", pattern, strings.Join(verbs, ", "))
		}
	}
	if r.Fault.ofWatches() && !one(r.Match.Verbs, "watch") {
		return errors.New("the fault strikes watches only, which are not among them")
	}
	if r.Fault.LoseReply && !slices.ContainsFunc(verbs, func(verb string) bool {
		return verb != "watch" && one(r.Match.Verbs, verb)
	}) {
		return errors.New("loseReply strikes no watches, and there is no other verb")
	}
	return nil
}

// validate returns the field that is wrong; "" is the fault as a whole.
func (f Fault) validate() (field string, err error) {
	kinds := 0
	for _, set := range []bool{f.Status != 0, f.LoseReply, f.Cut, f.Stall.Duration > 0, f.Duplicate} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return "", errors.New("more than one of status, loseReply, cut, stall and duplicate")
	case kinds == 0 && f.Delay.Duration == 0:
		return "", errors.New("set one of delay, status, loseReply, cut, stall and duplicate")
	case f.Delay.Duration < 0 || f.Delay.Duration > time.Hour:
		return "delay", fmt.Errorf("%v is not between 0 and 1h", f.Delay.Duration)
	case f.Stall.Duration < 0 || f.Stall.Duration > time.Hour:
		return "stall", fmt.Errorf("%v is not between 0 and 1h", f.Stall.Duration)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599 || http.StatusText(f.Status) == ""):
		return "status", fmt.Errorf("%d is no HTTP status of an error", f.Status)
	case f.RetryAfter < 0, f.RetryAfter > 0 && f.Status != http.StatusTooManyRequests &&
		f.Status != http.StatusServiceUnavailable:
		return "retryAfter", errors.New("it goes with the status 429 or 503")
	case f.After < 0:
		return "after", fmt.Errorf("%d is below 0", f.After)
	case f.Spread < 0:
		return "spread", fmt.Errorf("%d is below 0", f.Spread)
	case f.After+f.Spread > 0 && !f.ofWatches():
		return "after", errors.New("it goes with status, cut, stall and duplicate")
	}
	return "", nil
}

// matches tells whether a request is one of those that the rule is for.
func (r Rule) matches(k Key) bool {
	m := r.Match
	watch := k.Verb == "watch"
	return (watch || !r.Fault.ofWatches()) && (!watch || !r.Fault.LoseReply) &&
		one(m.Users, k.User) && one(m.Verbs, k.Verb) && one(m.Resources, k.Resource) &&
		one(m.Namespaces, k.Namespace) && one(m.Names, k.Name)
}

// one tells whether a text matches one of the patterns. A / is no boundary, as users and subresources have them.
func one(patterns []string, text string) bool {
	if len(patterns) == 0 {
		return true
	}
	for _, p := range patterns {
		if ok, _ := path.Match(flat(p), flat(text)); ok {
			return true
		}
	}
	return false
}

func flat(text string) string { return strings.ReplaceAll(text, "/", "\x00") }
